"""What every test shares."""

from __future__ import annotations

import os

# A test never touches the user's cache or knowledge base, and never asks a terminal for its width.
os.environ.setdefault("COLUMNS", "120")
os.environ.setdefault("NO_COLOR", "1")

"""What every test shares."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A test never touches the user's cache or knowledge base, and never asks a terminal for its width.
os.environ.setdefault("COLUMNS", "120")
os.environ.setdefault("NO_COLOR", "1")

# How fast this machine is says nothing about the code: no law fails because it was slow.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

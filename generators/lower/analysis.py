"""The one place where lowering and evaluation reach the analysis of tile programs."""

from __future__ import annotations

from kb.analysis.inline import inline

__all__ = ["inline"]

"""Every pattern of this folder, one per file, collected by itself. A file that fails to load stops
the program."""

from __future__ import annotations

from functools import cache

from extractors.patterns.base import Pattern
from kb.one_per_file import one_per_file


@cache
def patterns() -> tuple[Pattern, ...]:
    """One instance of every pattern, by name."""
    found: dict[str, Pattern] = {}
    without = r"base|registry|cases(_\w+)?"
    for _, pattern in one_per_file(__name__, __file__, Pattern, without):
        key = f"{pattern.name}/{pattern.axis}"
        if key in found:
            raise TypeError(f"two patterns recognise {key}")
        found[key] = pattern
    return tuple(found[key] for key in sorted(found))

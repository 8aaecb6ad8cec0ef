"""Every pattern of this folder, one per file, collected by itself. A file that fails to load stops
the program."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path

from extractors.patterns.base import Pattern

_NOT_PATTERNS = re.compile(r"base|registry|cases(_\w+)?")
"""Names of the modules that hold no pattern."""


@cache
def patterns() -> tuple[Pattern, ...]:
    """One instance of every pattern, by name."""
    folder = str(Path(__file__).parent)
    found: dict[str, Pattern] = {}
    for info in pkgutil.iter_modules([folder]):
        if _NOT_PATTERNS.fullmatch(info.name):
            continue
        module = importlib.import_module(f"extractors.patterns.{info.name}")
        own = [
            item
            for item in vars(module).values()
            if isinstance(item, type)
            and issubclass(item, Pattern)
            and item.__module__ == module.__name__
        ]
        if len(own) != 1:
            raise TypeError(
                f"extractors/patterns/{info.name}.py holds {len(own)} patterns; one per file"
            )
        pattern = own[0]()
        key = f"{pattern.name}/{pattern.axis}"
        if key in found:
            raise TypeError(f"two patterns recognise {key}")
        found[key] = pattern
    return tuple(found[key] for key in sorted(found))

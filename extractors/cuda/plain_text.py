"""The text of conditions of C++ as far as constraints can say it: functions that they have, too."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[\w\s.()\[\]%*/+<>=!-]+")
_CALL = re.compile(r"(?!\b(?:and|or|not|bytes_of|is_power_of_two)\b)\b\w+\s*\(")
_LEAST = re.compile(r"\bstd::(min|max)(?:<[\w:]+>)?(?=\()")
_ROUNDED = re.compile(r"\b(?:at|cuda|c10)::ceil_div(?=\()")
"""Source: C++ standard library, algorithm; CCCL, cuda/cmath; PyTorch, ATen/ceil_div.h."""

_INSIDE = r"(?:[^(),]|\([^(),]*\))+"
_OF_TWO = re.compile(rf"\b(?:min|max|cdiv)\({_INSIDE},{_INSIDE}\)")
MAX_NESTED = 3
"""Such functions, one in the other."""


def with_functions(text: str) -> str:
    """A text with the names that constraints have for functions of a library."""
    return _ROUNDED.sub("cdiv", _LEAST.sub(r"\1", text))


def is_plain(text: str) -> bool:
    """Whether a text calls nothing but functions that constraints have."""
    for _ in range(MAX_NESTED):
        text = _OF_TWO.sub("(0)", text)
    return _PLAIN.fullmatch(text) is not None and not _CALL.search(text)

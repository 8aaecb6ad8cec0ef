"""Where numbers that the host shares work out by are defined as macros of the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from kb.evidence import Decision, Lines

NUMBERS = frozenset({"tile_selection", "num_warps"})
"""Axes whose answer is numbers."""

MAX_STEPS = 4
"""Macros inside macros."""

_DEFINED = re.compile(
    r"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+([\w \t()*/+<>-]*\w[\w \t()]*)$"
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_SHAPE = re.compile(r"<<<(.*?)>>>", re.DOTALL)


def with_definitions(decisions: Iterable[Decision], rows: Sequence[str]) -> Iterator[Decision]:
    """Decisions on numbers, with the lines of the macros that stand for these where the lines of
    the decision use them; of a launch, those between its angle brackets."""
    known = _known(rows)
    for one in decisions:
        if one.axis not in NUMBERS or one.file is not None or not known:
            yield one
            continue
        pending = [word for lines in one.lines for word in _words(rows, lines)]
        found: dict[str, None] = {}
        for _ in range(MAX_STEPS):
            pending = [word for word in pending if word in known and word not in found]
            found |= dict.fromkeys(pending)
            pending = [word for name in pending for word in _WORD.findall(known[name][1])]
        places = {(known[name][0], known[name][0]) for name in found}
        yield replace(one, lines=tuple(sorted({*one.lines, *places}))) if places else one


def _words(rows: Sequence[str], lines: Lines) -> list[str]:
    text = "\n".join(rows[lines[0] - 1 : lines[1]])
    between = _SHAPE.search(text)
    return _WORD.findall(between.group(1) if between is not None else text)


def _known(rows: Sequence[str]) -> Mapping[str, tuple[int, str]]:
    """Macros that are defined once, as a number or by other macros, with line and text."""
    found: dict[str, tuple[int, str]] = {}
    again: set[str] = set()
    for at, row in enumerate(rows):
        match = _DEFINED.match(row) if "define" in row else None
        if match is not None:
            again |= {match.group(1)} & found.keys()
            found[match.group(1)] = (at + 1, match.group(2))
    kept = {name: one for name, one in found.items() if name not in again}
    return {name: one for name, one in kept.items() if _counts(name, kept)}


def _counts(name: str, known: Mapping[str, tuple[int, str]], depth: int = 0) -> bool:
    """Whether a macro is made of numbers, and of other such macros."""
    return depth < MAX_STEPS and all(
        word in known and _counts(word, known, depth + 1) for word in _WORD.findall(known[name][1])
    )

"""Macros of the file that a decision of the host leads to: those that stand for its numbers, and
those that choose the arguments of a template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from extractors.by_file import BEYOND
from extractors.cuda.macros import Macro
from kb.evidence import Decision, Lines
from kb.ir import Place

NUMBERS = frozenset({"tile_selection", "num_warps"})
"""Axes whose answer is numbers."""

MAX_STEPS = 4
"""Macros inside macros."""

_DEFINED = re.compile(
    r"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+([\w \t()*/+<>-]*\w[\w \t()]*)$"
)
_TAKES = re.compile(r"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)\(")
_CHOOSES = re.compile(r"\b(?:if|case)\b")
_COMPILES = re.compile(r"<<<|\b(?:cudaLaunch\w+|constexpr|using|typedef)\b")
"""What a macro holds that launches, or gives what it is handed something to be compiled with."""

_WORD = re.compile(r"[A-Za-z_]\w*")
_SHAPE = re.compile(r"<<<(.*?)>>>", re.DOTALL)


def with_definitions(
    decisions: Iterable[Decision], texts: Sequence[Sequence[str]], macros: Mapping[str, Macro]
) -> Iterator[Decision]:
    """Decisions on numbers, with the lines of the macros that stand for these where the lines of
    the decision use them; of a launch, those between its angle brackets. `texts` are the rows of
    the file and of those that are read beside it, `macros` those of headers, too."""
    for one in decisions:
        places: dict[Lines, None] = {}
        for lines in one.lines if one.axis in NUMBERS and one.file is None else ():
            file, first = divmod(lines[0], BEYOND)
            rows = texts[file] if file < len(texts) else ()
            used = _words(rows, (first, lines[1] - file * BEYOND))
            places |= dict.fromkeys(_defining(used, rows, file * BEYOND))
            places |= dict.fromkeys(_in_headers(used, macros, lines))
        yield replace(one, lines=(*one.lines, *places)) if places else one


def _defining(used: Sequence[str], rows: Sequence[str], before: int) -> Iterator[Lines]:
    """Lines of the macros of a file that words stand for, and of those that these are made of."""
    known = _known(tuple(rows))
    pending, found = [*used], dict[str, None]()
    for _ in range(MAX_STEPS):
        pending = [word for word in pending if word in known and word not in found]
        found |= dict.fromkeys(pending)
        pending = [word for name in pending for word in _WORD.findall(known[name][1])]
    for name in found:
        yield (before + known[name][0], before + known[name][0])


def _in_headers(used: Iterable[str], macros: Mapping[str, Macro], at: Lines) -> Iterator[Place]:
    """Macros of headers that stand for a number, where the lines that use them lead to."""
    for word in dict.fromkeys(used):
        macro = macros.get(word)
        if macro is not None and macro.path and macro.parameters is None and macro.line:
            if macro.body.strip("() ").isdigit():
                yield Place(at, (macro.path, (macro.line, macro.line)))


def _words(rows: Sequence[str], lines: Lines) -> list[str]:
    text = _text(rows, lines)
    between = _SHAPE.search(text)
    return _WORD.findall(between.group(1) if between is not None else text)


@lru_cache(maxsize=8)
def _known(rows: tuple[str, ...]) -> Mapping[str, tuple[int, str]]:
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


def with_dispatchers(
    decisions: Iterable[Decision], rows: Sequence[str], macros: Mapping[str, Macro]
) -> Iterator[Decision]:
    """Decisions on what is compiled in, with the macros of the file that their lines use and that
    choose it by branches."""
    heads = _heads(rows)
    bodies = {name: one.body for name, one in macros.items()}
    bodies |= {name: _text(rows, at) for name, at in heads.items()}
    for one in decisions:
        pending = [word for at in one.lines for word in _WORD.findall(_text(rows, at))]
        found: dict[str, None] = {}
        for _ in range(MAX_STEPS if heads else 0):
            pending = [word for word in pending if word in heads and word not in found]
            found |= dict.fromkeys(pending)
            pending = [w for name in pending for w in _WORD.findall(_text(rows, heads[name]))]
        chosen = [name for name in found if _chooses(name, bodies)]
        lines = {*one.lines, *(heads[name] for name in chosen)}
        yield replace(one, lines=tuple(sorted(lines)))


def _heads(rows: Sequence[str]) -> Mapping[str, Lines]:
    """Macros with arguments that the file defines once, with their lines."""
    found: dict[str, list[Lines]] = {}
    for at, row in enumerate(rows):
        match = _TAKES.match(row) if "define" in row else None
        if match is not None:
            end = at
            while rows[end].endswith("\\") and end + 1 < len(rows):
                end += 1
            found.setdefault(match.group(1), []).append((at + 1, end + 1))
    return {name: several[0] for name, several in found.items() if len(several) == 1}


def _text(rows: Sequence[str], lines: Lines) -> str:
    return "\n".join(rows[lines[0] - 1 : lines[1]])


def _chooses(name: str, bodies: Mapping[str, str]) -> bool:
    """Whether a macro branches, and one of its sides launches or compiles something in."""
    return _CHOOSES.search(bodies[name]) is not None and _compiles(name, bodies)


def _compiles(name: str, bodies: Mapping[str, str], depth: int = 0) -> bool:
    body = bodies[name]
    return _COMPILES.search(body) is not None or (
        depth < MAX_STEPS
        and any(word in bodies and _compiles(word, bodies, depth + 1)
                for word in dict.fromkeys(_WORD.findall(body)) if word != name)
    )  # fmt: skip

"""Kernels whose whole body stands under a condition on the target."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from extractors.cuda import nodes as n
from extractors.host.file_facts import Hollow
from kb.space import Constraint, implied

_CONDITION = re.compile(r"\s*#\s*if\b(?P<rest>.*)")
_LEAST = re.compile(r"__CUDA_ARCH__\s*>=\s*(\d{3,4})\b|\b(\d{3,4})\s*<=\s*__CUDA_ARCH__")
_BELOW = re.compile(r"__CUDA_ARCH__\s*<\s*(\d{3,4})\b")
_STOP = re.compile(r"\b__trap\(\)|\"trap;|\bprintf\(|\bassert\((?:false|0)\b")
_ENDS = re.compile(
    r"(?:\b__trap\(\)|\b(?:asm|__asm__)\s+(?:volatile|__volatile__)?\s*\([^;]*;[^;]*\)"
    r"|\bprintf\([^;]*\)|\bassert\((?:false|0)[^;]*\)|\breturn\b[^;]*)\s*;"
    r"|\bif\s*\([^;{]*\)(?=\s*[{_p])|[{}]"
)
"""What stops a kernel, and what stands around it: a test of the thread, a return."""

_TRAP = re.compile(r"\b__trap\(\)\s*;|\"trap;\"[^;]*;")
MAX_CALLED = 24
"""Functions that a kernel calls, one the other, that are looked at."""

_DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")


def hollow(kernel: n.Definition, rows: list[str]) -> Hollow | None:
    """Whether a kernel has nothing in its body on older targets: one condition holds all of it, or
    another definition stands for them; `rows` are the lines of its file without comments."""
    return _inside(kernel, rows) or _beside(kernel, rows)


def _beside(kernel: n.Definition, rows: list[str]) -> Hollow | None:
    """A kernel of the same name with nothing in its body on the other side of a condition."""
    empty = re.compile(rf"\b{re.escape(kernel.name)}\s*\([^{{}}]*\)\s*\{{\s*(?:return\s*;)?\s*\}}")
    for at in range(1, kernel.at.line):
        opening = _CONDITION.match(rows[at - 1])
        below = _BELOW.search(opening["rest"]) if opening is not None else None
        if opening is None or below is None or "||" in opening["rest"]:
            continue
        then, other = _sides(rows, at, len(rows))
        if kernel.body.at.line in other and empty.search("\n".join(rows[x - 1] for x in then)):
            return Hollow(int(below[1]) // 10, ((at, then[-1]),))
    return None


def _inside(kernel: n.Definition, rows: list[str]) -> Hollow | None:
    """Nothing but one condition on the target, and what it holds, in a body."""
    first, last = kernel.body.at.line, kernel.at.end_line
    inside = [at for at in range(first + 1, last) if rows[at - 1].strip()]
    opening = _CONDITION.match(rows[inside[0] - 1]) if len(inside) > 2 else None
    least = _LEAST.search(opening["rest"]) if opening is not None else None
    if opening is None or least is None or "||" in opening["rest"]:
        return None
    if rows[first - 1].partition("{")[2].strip() or rows[last - 1].strip() != "}":
        return None
    depth = 0
    for at in inside:
        word = _DIRECTIVE.match(rows[at - 1])
        depth += {"if": 1, "ifdef": 1, "ifndef": 1, "endif": -1}.get(word[1], 0) if word else 0
        if word and depth == 1 and word[1] in ("else", "elif"):
            return None  # there is something for other targets
        if depth == 0 and at != inside[-1]:
            return None
    ends = ((inside[0], inside[0]), (inside[-1], inside[-1]))
    return Hollow(int(least[1] or least[2]) // 10, ends)


def stopped(
    kernel: n.Definition, rows: list[str], functions: Mapping[str, Sequence[n.Definition]]
) -> Iterator[Constraint]:
    """What a kernel asks of the device that stops, with a trap or a message, on older ones, itself
    or in functions of its file that it calls."""
    seen = [kernel]
    for one in seen:
        if len(seen) > MAX_CALLED:
            break
        meant = [functions.get(name, ()) for name in dict.fromkeys(_called(one))]
        inner = [many[0] for many in meant if len(many) == 1]
        here = [x for x in inner if x.at.path == kernel.at.path and x.at.end_line <= len(rows)]
        seen += [x for x in here if x not in seen]
    for one in seen[:MAX_CALLED]:
        found = list(_stopped(one, rows))
        if found:
            yield from found
            return


def _called(function: n.Definition) -> Iterator[str]:
    """Functions that a function calls whatever holds, by their last names."""
    chosen = {
        id(x)
        for one in n.inside(function.body)
        if isinstance(one, n.If | n.Choice | n.Switch)
        for part in n.parts(one)
        for x in n.inside(part)
    }
    for one in n.inside(function.body):
        if isinstance(one, n.Call) and isinstance(one.function, n.Name) and id(one) not in chosen:
            yield one.function.text.rpartition("::")[2]


def _stopped(function: n.Definition, rows: list[str]) -> Iterator[Constraint]:
    """The same of one function, by a condition that stands in no branch."""
    first, last = function.body.at.line, function.at.end_line
    depth = 0
    for at in range(first, last):
        depth += rows[at - 1].count("{") - rows[at - 1].count("}")
        opening = _CONDITION.match(rows[at - 1])
        if opening is None or "||" in opening["rest"] or depth != 1:
            continue
        least, below = _LEAST.search(opening["rest"]), _BELOW.search(opening["rest"])
        found = least or below
        if found is None:
            continue
        then, other = _sides(rows, at, last)
        text = " ".join(rows[one - 1] for one in (other if least else then))
        trap = _TRAP.search(text)
        if trap is not None and not re.search(r"\bif\b", text[: trap.start()]):
            text = text[: trap.end()]  # nothing after it is reached
        if _STOP.search(text) and not _ENDS.sub("", text).strip():
            number = int(next(filter(None, found.groups()))) // 10
            yield implied(
                f"10 * capability[0] + capability[1] >= {number}",
                "the kernel stops on older devices",
                "refuse them before the launch",
                (at, at),
            )
            return


def _sides(rows: list[str], at: int, last: int) -> tuple[list[int], list[int]]:
    """Lines of the two sides of a condition of the preprocessor."""
    sides: tuple[list[int], list[int]] = ([], [])
    depth, side = 0, 0
    for line in range(at + 1, last):
        word = _DIRECTIVE.match(rows[line - 1])
        if word and word[1] == "endif" and not depth:
            return sides
        if word and word[1] in ("else", "elif") and not depth:
            side = 1
            continue
        depth += {"if": 1, "ifdef": 1, "ifndef": 1, "endif": -1}.get(word[1], 0) if word else 0
        sides[side].append(line)
    return [], []


def newer(found: Hollow | None) -> Iterator[Constraint]:
    """What such a kernel asks of the device."""
    if found is not None:
        yield implied(
            f"10 * capability[0] + capability[1] >= {found.capability}",
            "the body of the kernel is compiled for such targets only",
            "refuse others before the launch",
            found.lines[0],
        )

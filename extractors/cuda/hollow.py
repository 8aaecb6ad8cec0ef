"""Kernels whose whole body stands under a condition on the target."""

from __future__ import annotations

import re
from collections.abc import Iterator

from extractors.cuda import nodes as n
from extractors.host.file_facts import Hollow
from kb.space import Constraint, implied

_CONDITION = re.compile(r"\s*#\s*if\b(?P<rest>.*)")
_LEAST = re.compile(r"__CUDA_ARCH__\s*>=\s*(\d{3,4})\b|\b(\d{3,4})\s*<=\s*__CUDA_ARCH__")
_DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")


def hollow(kernel: n.Definition, rows: list[str]) -> Hollow | None:
    """Whether nothing but one condition on the target, and what it holds, stands in the body of a
    kernel; `rows` are the lines of its file without comments."""
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


def newer(found: Hollow | None) -> Iterator[Constraint]:
    """What such a kernel asks of the device."""
    if found is not None:
        yield implied(
            f"10 * capability[0] + capability[1] >= {found.capability}",
            "the body of the kernel is compiled for such targets only",
            "refuse others before the launch",
            found.lines[0],
        )

"""What the promises of pointers, that nothing else leads to what they point at, ask of a launch."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.ir import Parameter, ParameterKind
from kb.space import Constraint, implied

MAX_PAIRS = 12
"""Pairs of arrays in one expression, which a person still reads."""


def own_memory(facts: Facts) -> Iterator[Constraint]:
    """One constraint for a kernel that promises of its pointers that each is the only way to what
    it points at: what is written there overlaps nothing else that it reads or writes."""
    given = {p.name: p for p in facts.kernel.entry.parameters if p.kind is ParameterKind.ARRAY}
    if not facts.of_threads or not any(map(_alone, given.values())):
        return
    used = list(dict.fromkeys(a.array for a in facts.accesses if a.array in given))
    written = {a.array for a in facts.accesses if _writes(a)}
    pairs = [
        (one, other)
        for place, one in enumerate(used)
        for other in used[place + 1 :]
        if one is not None and other is not None and (one in written or other in written)
        and (_alone(given[one]) or _alone(given[other]))
    ]  # fmt: skip
    told = [(one, other) if one in written else (other, one) for one, other in pairs]
    lines = facts.declared(*(name for pair in told for name in pair))
    if told and len(told) <= MAX_PAIRS:
        yield implied(
            " and ".join(f"{one}.memory != {other}.memory" for one, other in told),
            "the pointers are declared __restrict__: loads may be moved before the stores of "
            "others",
            "leave the qualifier out where an array may be written in place",
            (min(a for a, _ in lines), max(b for _, b in lines)) if lines else None,
        )


def _alone(parameter: Parameter) -> bool:
    """Whether a parameter is promised to be the only way to what it points at."""
    return "restrict" in parameter.annotation.split()


def _writes(access: Access) -> bool:
    return access.is_store or access.is_atomic

"""Which kernel of one set is which of another: by place and name, by program, by name alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kb.ir import alpha_digest
from kb.knowledge import KernelKnowledge


class Match(StrEnum):
    """How two kernels were found to be one."""

    ASKED = "asked"
    PLACE = "file and name"
    PROGRAM = "same program"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Pair:
    """The same kernel on both sides."""

    left: KernelKnowledge
    right: KernelKnowledge
    match: Match


@dataclass(frozen=True, slots=True)
class Matching:
    """Pairs in the order of the right side, and what has no partner."""

    pairs: tuple[Pair, ...]
    only_left: tuple[KernelKnowledge, ...]
    only_right: tuple[KernelKnowledge, ...]


Key = Callable[[KernelKnowledge], Hashable]


def matched(
    left: Sequence[KernelKnowledge], right: Sequence[KernelKnowledge], *, asked: bool = False
) -> Matching:
    """Kernels that are `asked` for, one on each side, are a pair whatever their names.

    Else by file and name; then by the digest of the program, which no renaming changes; then by a
    name that is left over once on each side. Kernels of one name in one file are paired in order.
    """
    if asked and len(left) == len(right) == 1:
        return Matching((Pair(left[0], right[0], Match.ASKED),), (), ())
    ours, theirs = list(left), list(right)
    pairs: list[Pair] = []
    rules: tuple[tuple[Match, Key, bool], ...] = (
        (Match.PLACE, lambda k: (k.source.path, k.kernel.name), False),
        (Match.PROGRAM, lambda k: (k.kernel.dialect, alpha_digest(k.kernel)), False),
        (Match.NAME, lambda k: k.kernel.name, True),
    )
    for match, key, once in rules:
        for one, other in _joined(ours, theirs, key, once=once):
            pairs.append(Pair(one, other, match))
            ours = [kernel for kernel in ours if kernel is not one]
            theirs = [kernel for kernel in theirs if kernel is not other]
    order = {id(kernel): place for place, kernel in enumerate(right)}
    pairs.sort(key=lambda pair: order[id(pair.right)])
    return Matching(tuple(pairs), tuple(ours), tuple(theirs))


def _joined(
    left: Sequence[KernelKnowledge], right: Sequence[KernelKnowledge], key: Key, *, once: bool
) -> list[tuple[KernelKnowledge, KernelKnowledge]]:
    """Kernels of equal key, in order; with `once` only keys that each side has one time."""
    waiting: defaultdict[Hashable, list[KernelKnowledge]] = defaultdict(list)
    asking: defaultdict[Hashable, list[KernelKnowledge]] = defaultdict(list)
    for kernel in left:
        waiting[key(kernel)].append(kernel)
    for kernel in right:
        asking[key(kernel)].append(kernel)
    return [
        pair
        for name, found in asking.items()
        if not once or len(found) == len(waiting[name]) == 1
        for pair in zip(waiting[name], found, strict=False)
    ]

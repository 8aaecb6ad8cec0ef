"""Drop steps whose results nothing reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kb.ir import Kernel, Op, Region, walk
from kb.ops import Effect, effect_of

_DROPPABLE = frozenset({Effect.PURE, Effect.READ})


def drop_unused(kernel: Kernel) -> Kernel:
    """The program without pure or reading steps that no other step needs."""
    region = kernel.entry.body
    while True:
        uses: Counter[str] = Counter()
        for op in walk(region):
            uses.update(op.inputs)
        smaller = _kept(region, uses)
        if smaller == region:
            return replace(kernel, entry=replace(kernel.entry, body=region))
        region = smaller


def _kept(region: Region, uses: Counter[str]) -> Region:
    ops: list[Op] = []
    for op in region.ops:
        needed = not op.results or any(uses[value.name] for value in op.results)
        if needed or op.regions or effect_of(op.kind) not in _DROPPABLE:
            ops.append(replace(op, regions=tuple(_kept(inner, uses) for inner in op.regions)))
    return Region(region.arguments, tuple(ops))

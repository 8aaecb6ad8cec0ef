"""What a program reads when a compile-time flag is off: a backward slice from its stores."""

from __future__ import annotations

from dataclasses import dataclass, field

from kb.ir import Kernel, Op, Region
from kb.ops import ATOMICS, WRITES, OpKind


@dataclass(slots=True)
class _Slice:
    """Values with what they are made from, and the values that stores need."""

    flag: str
    sources: dict[str, set[str]] = field(default_factory=dict)
    roots: set[str] = field(default_factory=set)

    def region(self, region: Region, control: tuple[str, ...]) -> None:
        """Regions nest as deep as the reader allowed, which is bounded."""
        for op in region.ops:
            self._op(op, control)

    def _op(self, op: Op, control: tuple[str, ...]) -> None:
        alive = op.regions
        if op.kind == OpKind.IF and op.inputs[0] == self.flag:
            alive = op.regions[1:]
        inner = control if alive != op.regions or not op.regions else (*control, op.inputs[0])
        for region in alive:
            self.region(region, inner)
            self._hand_over(op, region)
        for value in op.results:
            found = self.sources.setdefault(value.name, set())
            if not op.regions:
                found.update(op.inputs)
            elif alive == op.regions:
                found.add(op.inputs[0])
        if op.kind in WRITES or op.kind in ATOMICS:
            self.roots.update((*op.inputs, *control))

    def _hand_over(self, op: Op, region: Region) -> None:
        """What a region gives to the results of its op, and what a loop hands in."""
        end = region.terminator
        given = end.inputs if end is not None and end.kind == OpKind.YIELD else ()
        for value, source in zip(op.results, given, strict=False):
            self.sources.setdefault(value.name, set()).add(source)
        if op.kind not in (OpKind.FOR, OpKind.WHILE):
            return
        loop = op.kind == OpKind.FOR
        carried = region.arguments[1:] if loop else region.arguments
        initial = op.inputs[1:] if loop else op.inputs
        for place, argument in enumerate(carried):
            found = self.sources.setdefault(argument.name, set())
            found.update(initial[place : place + 1])
            found.update(given[place : place + 1])
        for place, value in enumerate(op.results):
            self.sources.setdefault(value.name, set()).update(initial[place : place + 1])
        if loop:
            self.sources.setdefault(region.arguments[0].name, set()).add(op.inputs[0])


def read_without(kernel: Kernel, flag: str) -> frozenset[str]:
    """Every value of an inlined program that its stores depend on when the parameter `flag` is
    false.
    """
    found = _Slice(flag)
    found.region(kernel.entry.body, ())
    pending, seen = list(found.roots), set(found.roots)
    while pending:
        for source in found.sources.get(pending.pop(), ()):
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return frozenset(seen)

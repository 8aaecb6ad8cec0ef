"""same_program: two programs that differ in nothing that reaches machine code by any compiler pass
other than renaming and ordering of independent steps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kb.analysis.inline import inline
from kb.ir import SPELLING, Function, Kernel, Op, Region
from kb.ops import Effect, OpKind, effect_of

_FLAT = "axes (1, 0)"


def same_program(one: Kernel, other: Kernel) -> bool:
    """True when both compute the same values from the same values and touch memory in one order.

    Names, the order of independent arithmetic, dead arithmetic, helpers that are inlined, a
    transpose written as a permutation and an axis order that leaves the axes as they are make no
    difference. Parameters are compared by place, kind and default.
    """
    return _digest(one) == _digest(other)


def _digest(kernel: Kernel) -> list[str]:
    flat = inline(kernel)
    names = {function.name: f"@{place}" for place, function in enumerate(flat.functions)}
    return [_Reader(names).function(function) for function in flat.functions]


def _hash(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@dataclass(slots=True)
class _Reader:
    """Digests of values, and the operations whose order matters, region by region."""

    callees: Mapping[str, str]
    values: dict[str, str] = field(default_factory=dict)
    tuples: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, object] = field(default_factory=dict)
    regions: int = 0
    events: int = 0

    def function(self, function: Function) -> str:
        """Digest of a whole function."""
        for place, parameter in enumerate(function.parameters):
            shown = (place, parameter.kind, parameter.default)
            self.values[parameter.name] = _hash("parameter", *shown)
        return _hash(len(function.parameters), self._region(function.body))

    def _region(self, region: Region) -> str:
        self.regions += 1
        here = self.regions
        for place, value in enumerate(region.arguments):
            self.values[value.name] = _hash("argument", here, place)
        return _hash([event for op in region.ops for event in self._op(op)])

    def _op(self, op: Op) -> list[str]:
        """Names the results; the operation itself when its place in the order matters."""
        if op.kind == OpKind.COPY:
            self.values[op.result] = self.values.get(op.inputs[0], op.inputs[0])
            return []
        self._note(op)
        inner = [self._region(region) for region in op.regions]
        whole = _hash(*self._said(op), inner)
        pure = effect_of(op.kind) is Effect.PURE and not op.regions
        if not pure and op.kind not in (OpKind.YIELD, OpKind.RETURN):
            self.events += 1
            whole = _hash(whole, self.events)
        for place, result in enumerate(op.results):
            self.values[result.name] = _hash(whole, place)
        return [] if pure and op.results else [whole]

    def _note(self, op: Op) -> None:
        if op.kind == OpKind.CONST:
            self.numbers[op.result] = op.attribute("value")
        if op.kind == OpKind.TUPLE:
            self.tuples[op.result] = list(op.inputs)

    def _said(self, op: Op) -> tuple[object, ...]:
        """Kind, operands by role and attributes, in one of several spellings of the same thing."""
        operands = [(role, self.values.get(v, v)) for role, v in op.operands]
        if op.kind == OpKind.TRANSPOSE and len(operands) == 1:
            return (OpKind.PERMUTE, [("axes", _FLAT), *operands], [])
        turned = op.operand("axes")
        if op.kind == OpKind.PERMUTE and self._integers(turned) == [1, 0]:
            operands = [(r, _FLAT if r == "axes" else v) for r, v in operands]
            return (OpKind.PERMUTE, sorted(operands, key=_role), [])
        order = self._integers(op.operand("order"))
        if order is not None and order == list(range(len(order))):
            operands = [(r, v) for r, v in operands if r != "order"]
        attributes = [
            (name, self.callees.get(str(value), value))
            for name, value in op.attributes
            if name not in SPELLING
        ]
        return (op.kind, sorted(operands, key=_role), attributes)

    def _integers(self, value: str | None) -> list[object] | None:
        items = self.tuples.get(value or "")
        return None if items is None else [self.numbers.get(item) for item in items]


def _role(pair: tuple[str, str]) -> str:
    return pair[0]


def renamed(kernel: Kernel, like: Kernel) -> Kernel:
    """The program with the names that parameters of its entry have in `like`, matched by place.

    For a program whose parameters were taken away and given again: names are not part of what it
    computes. The same program when their numbers differ.
    """
    ours, theirs = kernel.entry.parameters, like.entry.parameters
    if len(ours) != len(theirs):
        return kernel
    names = {a.name: b.name for a, b in zip(ours, theirs, strict=True) if a.name != b.name}
    if not names:
        return kernel
    parameters = tuple(replace(p, name=names.get(p.name, p.name)) for p in ours)
    body = _named(kernel.entry.body, names)
    return replace(kernel, entry=replace(kernel.entry, parameters=parameters, body=body))


def _named(region: Region, names: Mapping[str, str]) -> Region:
    ops = tuple(
        replace(
            op,
            operands=tuple((role, names.get(value, value)) for role, value in op.operands),
            regions=tuple(_named(inner, names) for inner in op.regions),
        )
        for op in region.ops
    )
    return replace(region, ops=ops)

"""Loads that a branch guards, with what stands on its other side."""

from __future__ import annotations

from dataclasses import replace

from kb.ir import Op
from kb.ops import OpKind


def masked_load(out: list[Op], values: list[str]) -> str:
    """Of a load on one side and a constant on the other, the load with that constant."""
    made = {result.name: number for number, op in enumerate(out) for result in op.results}
    for this, other in (values, values[::-1]):
        number = _below(out, this, made, OpKind.LOAD)
        fill = _below(out, other, made, OpKind.CONST, OpKind.NEG)
        load = out[number] if number is not None else None
        if load is None or fill is None or number is None or not load.attribute("guarded"):
            continue
        operands = (*load.operands, ("padding", out[fill].result))
        kept = tuple(row for row in load.attributes if row[0] != "guarded")
        out[number] = replace(load, operands=operands, attributes=kept)
        return this
    return ""


def _below(out: list[Op], value: str, made: dict[str, int], *kinds: OpKind) -> int | None:
    """Where the operation of a kind stands that a value is, perhaps cast or handed on."""
    number = made.get(value)
    for _ in range(4):
        if number is None or out[number].kind in kinds:
            return number
        if out[number].kind not in (OpKind.CAST, OpKind.COPY, OpKind.BROADCAST):
            return None
        number = made.get(out[number].inputs[0])
    return None

"""to_triton(kernel): a cuTile program as a Triton program that computes the same.

Arrays become pointers with extents and strides, or tensor descriptors. What Triton cannot say
(latency per load, occupancy, flush-to-zero, approximate rounding, undetermined padding) is listed
as a residual beside the program, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from generators.lower import accesses, division, tiles
from generators.lower.cleanup import drop_unused
from generators.lower.lowering import Lowering
from generators.lower.residuals import SPLIT, of_hint
from generators.lower.roads import Access, Block, Manner, Road
from generators.lower.split import split_loops
from generators.lower.views import LoweredParameter
from kb.analysis.inline import inline
from kb.errors import CannotEmit
from kb.ir import Function, Kernel, Parameter, ParameterKind, Region, walk

_RULES = {**accesses.RULES, **tiles.RULES, **division.RULES}


@dataclass(frozen=True, slots=True)
class Lowered:
    """A Triton program, what the host passes per parameter, and what could not be carried over."""

    kernel: Kernel
    parameters: tuple[LoweredParameter, ...]
    residuals: tuple[str, ...]
    road: Road = Road.POINTERS
    accesses: tuple[Access, ...] = ()
    blocks: tuple[Block, ...] = ()


def to_triton(kernel: Kernel, manner: Manner | None = None) -> Lowered:
    """Lower a cuTile program; `manner` says whether tiles go by pointers or by descriptors.

    Raises CannotEmit, with the span, for an operation that Triton cannot express.
    """
    flat = inline(kernel)
    if flat.helpers:
        raise CannotEmit(
            f"helper `{flat.helpers[0].name}` cannot be inlined.", where=str(flat.helpers[0].span)
        )
    manner = manner or Manner()
    lowering = Lowering(flat.entry, _RULES, manner)
    body = lowering.function()
    parameters = _needed(lowering.parameters(), body)
    entry = Function(
        flat.entry.name,
        tuple(_declared(parameter, flat.entry) for parameter in parameters),
        body,
        flat.entry.span,
    )
    hints = (of_hint(key, value) for key, value in flat.entry.options)
    found = lowering.descriptors
    residuals = [*lowering.residuals, *hints, *_by_pointers(manner, found.accesses)]
    lowered = Kernel(entry, (), "triton")
    split = split_loops(lowered)
    if split != lowered:
        residuals.append(SPLIT)
    finished = drop_unused(split)
    return Lowered(
        finished, parameters, tuple(dict.fromkeys(residuals)), manner.road,
        tuple(found.accesses), tuple(found.blocks),
    )  # fmt: skip


def _by_pointers(manner: Manner, accesses: list[Access]) -> Iterator[str]:
    """The accesses that no descriptor serves although descriptors are asked for."""
    for access in accesses:
        if manner.road is not Road.POINTERS and not access.described:
            where = f"`{access.kind}` of {access.array} at line {access.line}"
            yield f"access_mode: pointers for {where}: {access.reason}"


def _needed(parameters: tuple[LoweredParameter, ...], body: Region) -> tuple[LoweredParameter, ...]:
    """The parameters without pointers that only descriptors replace."""
    used = {value for op in walk(body) for value in op.inputs}
    described = {p.tensor for p in parameters if p.source == "descriptor"}
    return tuple(
        p for p in parameters if p.source != "pointer" or p.name in used or p.name not in described
    )


def _declared(parameter: LoweredParameter, entry: Function) -> Parameter:
    if parameter.source == "element":
        return Parameter(parameter.name, ParameterKind.CONSTEXPR)
    if parameter.source == "constexpr":
        original = next(p for p in entry.parameters if p.name == parameter.name)
        return replace(original, annotation="")
    return Parameter(parameter.name, ParameterKind.UNTOLD)

"""to_triton(kernel): a cuTile program as a Triton program that computes the same.

Arrays become pointers with extents and strides. What Triton cannot say (latency per load,
occupancy, flush-to-zero, approximate rounding, undetermined padding) is listed as a residual beside
the program, never dropped in silence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from generators.lower import accesses, tiles
from generators.lower.cleanup import drop_unused
from generators.lower.lowering import Lowering
from generators.lower.split import split_loops
from generators.lower.views import LoweredParameter
from kb.analysis.inline import inline
from kb.errors import CannotEmit
from kb.ir import Function, Kernel, Parameter, ParameterKind

_RULES = {**accesses.RULES, **tiles.RULES}


@dataclass(frozen=True, slots=True)
class Lowered:
    """A Triton program, what the host passes per parameter, and what could not be carried over."""

    kernel: Kernel
    parameters: tuple[LoweredParameter, ...]
    residuals: tuple[str, ...]


def to_triton(kernel: Kernel) -> Lowered:
    """Lower a cuTile program.

    Raises CannotEmit, with the span, for an operation that Triton cannot express.
    """
    flat = inline(kernel)
    if flat.helpers:
        raise CannotEmit(
            f"helper `{flat.helpers[0].name}` cannot be inlined.", where=str(flat.helpers[0].span)
        )
    lowering = Lowering(flat.entry, _RULES)
    body = lowering.function()
    parameters = lowering.parameters()
    entry = Function(
        flat.entry.name,
        tuple(_declared(parameter, flat.entry) for parameter in parameters),
        body,
        flat.entry.span,
    )
    hints = (f"{key}: kernel hint {value}" for key, value in flat.entry.options)
    residuals = [*lowering.residuals, *hints]
    lowered = Kernel(entry, (), "triton")
    finished = drop_unused(split_loops(lowered))
    return Lowered(finished, parameters, tuple(dict.fromkeys(residuals)))


def _declared(parameter: LoweredParameter, entry: Function) -> Parameter:
    if parameter.source == "constexpr":
        original = next(p for p in entry.parameters if p.name == parameter.name)
        return replace(original, annotation="")
    return Parameter(parameter.name, ParameterKind.UNTOLD)

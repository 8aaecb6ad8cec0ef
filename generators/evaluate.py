"""run(kernel, grid, arguments): a tile program on NumPy arrays, the reference for every other form.

Slow and exact in meaning: one program instance after the other, dtypes explicit, accesses checked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from generators.reference import rules_arrays, rules_pointers, rules_tiles, rules_values
from generators.reference.machine import MAX_STEPS, Frame, Handler, Machine
from generators.reference.values import (
    STORAGE,
    Array,
    ArrayView,
    DType,
    EvaluationError,
    Pointer,
    Tile,
    dtype_of_numpy,
    from_constant,
)
from kb.ir import Kernel, Parameter, ParameterKind

__all__ = ["DType", "EvaluationError", "Limits", "Tensor", "run"]

MAX_INSTANCES = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """An array whose dtype NumPy lacks: bf16 or fp8 held as float32."""

    data: Array
    dtype: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run.

    `poison`: lanes that the program leaves undetermined read as NaN. `strict`: a single row outside
    its array, which no dialect defines, is an error instead of padding.
    """

    steps: int = MAX_STEPS
    poison: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class _Semantics:
    """Where dialects differ: the target of accesses and the rounding of integer division."""

    handlers: dict[str, Handler]
    pointers: bool
    truncating: bool


_SHARED = {**rules_values.HANDLERS, **rules_tiles.HANDLERS}
_SEMANTICS = {
    "cutile": _Semantics({**_SHARED, **rules_arrays.HANDLERS}, False, False),
    "triton": _Semantics({**_SHARED, **rules_pointers.HANDLERS}, True, True),
}


def run(
    kernel: Kernel,
    grid: tuple[int, ...],
    arguments: Mapping[str, object],
    limits: Limits = Limits(),
) -> set[int]:
    """Run every instance of `kernel`; arrays among the arguments are written in place. The `id` of
    every operation of the program that was run.

    Arrays are NumPy arrays (or `Tensor`), lists of them for a list of arrays; dtypes are `DType`;
    numbers become i32 and f32 scalars where the parameter is not a compile-time one.
    Raises EvaluationError for an access outside an array that the program does not check, for an
    operation that is not evaluated, and past a bound.
    """
    semantics = _SEMANTICS.get(kernel.dialect)
    if semantics is None:
        raise EvaluationError(
            f"dialect {kernel.dialect!r} is not evaluated.", where=kernel.name,
            hint=f"Choose one of: {', '.join(sorted(_SEMANTICS))}.",
        )  # fmt: skip
    full = (*grid, 1, 1, 1)[:3]
    if math.prod(full) > MAX_INSTANCES or min(full) < 0:
        raise EvaluationError(f"a grid of {grid}.", where=kernel.name, hint="Use a smaller grid.")
    machine = Machine(
        kernel, full, semantics.handlers, semantics.truncating, limits.poison, limits.strict,
        limits.steps,
    )  # fmt: skip
    frame = _bound(kernel, arguments, semantics.pointers)
    try:
        for block in itertools.product(*(range(extent) for extent in full)):
            machine.instance(block, frame)
    except RecursionError:
        raise EvaluationError("regions nest too deeply.", where=kernel.name) from None
    return machine.reached


def _bound(kernel: Kernel, arguments: Mapping[str, object], pointers: bool) -> Frame:
    frame: Frame = {}
    for parameter in kernel.entry.parameters:
        if parameter.name in arguments:
            frame[parameter.name] = _argument(parameter, arguments[parameter.name], pointers)
        elif parameter.has_default:
            frame[parameter.name] = parameter.default
        else:
            raise EvaluationError(f"{parameter.name} is not given.", where=kernel.name)
    return frame


def _argument(parameter: Parameter, value: object, pointers: bool) -> object:
    if isinstance(value, list):
        return tuple(_argument(parameter, item, pointers) for item in value)
    if isinstance(value, np.ndarray | Tensor):
        return _memory(value, pointers)
    if isinstance(value, np.generic):
        value = value.item()
    if parameter.kind is ParameterKind.CONSTEXPR or not isinstance(value, bool | int | float):
        return value
    known = {"int": "i32", "float": "f32", "bool": "i1"}
    dtype = known.get(parameter.annotation, parameter.annotation)
    return from_constant(value, dtype if dtype in STORAGE else None)


def _memory(value: Array | Tensor, pointers: bool) -> ArrayView | Pointer:
    data = value.data if isinstance(value, Tensor) else value
    dtype = value.dtype if isinstance(value, Tensor) else dtype_of_numpy(value)
    if not pointers:
        return ArrayView(data, dtype)
    if not data.flags.c_contiguous:
        raise EvaluationError("a pointer into an array that is not contiguous.")
    return Pointer(data.reshape(-1), dtype, np.zeros((), np.int64))


def scalar(value: float, dtype: str) -> Tile:
    """A runtime scalar of a chosen dtype, to pass as an argument."""
    return from_constant(value, dtype)

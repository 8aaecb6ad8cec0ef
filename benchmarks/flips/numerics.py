"""What a flip computes against what the kernel computed, on small derived launches.

Tile-index programs run in the NumPy interpreter of tile programs. Pointer programs run there first,
where accesses outside an array are errors, and then in Triton's own interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from generators.compile_model import Scalar
from generators.emit import emit_program
from generators.evaluate import DType, Limits, run
from generators.interpret.cases import Case, cases
from generators.interpret.client import Arrays, Interpreter
from generators.interpret.compare import difference
from generators.interpret.model import BindingKind, Bound
from generators.reference.values import Array
from kb.errors import TileloreError
from kb.ir import Kernel, Op, ParameterKind, walk

SEED = 0
ATTEMPTS = 24
WANTED = 2
"""Launches that have to agree; more are made, by the interpreter of tile programs alone, while
something that the flip changes has not been run."""

MAX_STEPS = 60_000
"""Operations of one launch."""

FLAT = 1 << 16
"""Elements of an array that a flip adds."""

_FINITE = 0.5
"""Share of the written numbers that has to be finite for a launch to count."""

_ROUNDED = {2: 4e-3, 4: 2e-5, 8: 1e-12}
"""Largest error by bytes of the output, relative to its largest number, for another order of the
same roundings: 4 units in the last place of f16, some 200 of f32."""

EXACT = frozenset(
    {"cache_hint", "denormal_mode", "empty_row_handling", "mask_application", "mask_placement",
     "operand_layout", "rounding_mode", "side_output"}
)  # fmt: skip
"""Axes that move no rounding: the interpreters round every operation to nearest and keep denormals,
so that these flips must give the same bits there. Roundings and flags show on a GPU only
(benchmarks/h200/flips.py)."""


@dataclass(slots=True)
class Numerics:
    """Largest error over all outputs and launches, relative to the largest number of the output.

    `rebased` are outputs that hold logarithms to another base after the flip (the axis
    `statistic_encoding` follows `math_approximation`); they are compared in one base.
    `altered` counts operations that the flip changes, on both sides, and `reached` those of them
    that a launch has run: where none is, agreement says nothing.
    `empty` counts elements of rows without a key, of which one side says zero and the other NaN:
    that is all that `empty_row_handling` changes.
    """

    launches: int = 0
    max_error: float = 0.0
    tolerance: float = 0.0
    same: bool | None = None
    interpreters: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    rebased: list[str] = field(default_factory=list)
    altered: int = 0
    reached: int = 0
    empty: int = 0
    reason: str = "no launch could be derived from the program"


def compare(
    kernel: Kernel,
    flipped: Kernel,
    axis: str,
    interpreter: Interpreter,
    fixed: dict[str, Scalar] | None = None,
) -> Numerics:
    """Both programs on the same numbers; `same` is None when no launch counted."""
    found, ran = Numerics(), set[int]()
    altered = {*_altered(kernel, flipped), *_altered(flipped, kernel)}
    found.altered = len(altered)
    for case in cases(kernel, SEED, ATTEMPTS, fixed or {}):
        if found.launches >= WANTED and altered <= ran:
            break
        try:
            _launch((kernel, flipped), case, axis, interpreter, found, ran)
        except TileloreError as problem:
            if found.same is None:
                found.reason = f"a derived launch does not run: {problem.message[:160]}"
    found.reached = len(altered & ran)
    return found


def _altered(kernel: Kernel, other: Kernel) -> Iterator[int]:
    """The `id` of operations that the other program has not; for a branch, of its first one, too:
    a condition may be computed where the branch is never taken."""
    kept = {_said(op) for function in other.functions for op in walk(function.body)}
    for function in kernel.functions:
        for op in walk(function.body):
            if _said(op) not in kept:
                yield id(op)
                yield from (id(region.ops[0]) for region in op.regions[:1])


def _said(op: Op) -> tuple[object, ...]:
    return op.kind, op.operands, op.attributes, tuple(value.name for value in op.results)


def _launch(
    programs: tuple[Kernel, Kernel], case: Case, axis: str, interpreter: Interpreter,
    found: Numerics, ran: set[int],
) -> None:  # fmt: skip
    """Judge one launch, and add what it ran of both programs."""
    before = _arrays(case.arguments)
    kernel, flipped = programs
    sides = [(kernel, case), (flipped, _for(flipped, kernel, case))]
    reached: set[int] = set()
    results = [_evaluated(program, launch, reached) for program, launch in sides]
    written = [n for n in before if _changed(before[n], results[0][n])]
    if not written or not all(_mostly_finite(before[n], results[0][n]) for n in written):
        if found.same is None:
            found.reason = "no derived launch writes enough finite numbers"
        return
    _judge(found, axis, written, results, "NumPy interpreter of tile programs")
    ran |= reached
    if kernel.dialect == "triton" and found.launches < WANTED:
        results = [_interpreted(program, launch, interpreter) for program, launch in sides]
        _judge(found, axis, written, results, "Triton interpreter")
    found.launches += 1
    found.reason = ""


def _judge(
    found: Numerics, axis: str, written: list[str], results: list[Arrays], where: str
) -> None:
    for name in written:
        if name not in results[1]:
            continue  # the flip takes the statistic away
        one, other = (result[name] for result in results)
        if axis == "math_approximation" and difference(one, other) > tolerance(axis, one):
            other = _in_base(found, name, one, other)
        if axis == "empty_row_handling":
            other = _in_empty_rows(found, one, other)
        found.tolerance = max(found.tolerance, tolerance(axis, one))
        found.max_error = max(found.max_error, difference(one, other))
    found.same = found.max_error <= found.tolerance
    found.outputs = sorted({*found.outputs, *written})
    if where not in found.interpreters:
        found.interpreters.append(where)


def _in_base(found: Numerics, name: str, one: Array, other: Array) -> Array:
    """The other side's logarithms to the base of this side, when that is what they are; a launch
    need not write every element."""
    for factor in (math.log2(math.e), math.log(2)):
        turned = np.where(one == other, other, other.astype(np.float64) * factor).astype(
            other.dtype
        )
        if difference(one, turned) <= tolerance("math_approximation", one):
            found.rebased = sorted({*found.rebased, name})
            return turned
    return other


def _in_empty_rows(found: Numerics, one: Array, other: Array) -> Array:
    """The other side with the word of this side where one says zero and the other NaN."""
    empty = (np.isnan(one) & (other == 0)) | (np.isnan(other) & (one == 0))
    found.empty += int(empty.sum())
    return np.where(empty, one, other)


def tolerance(axis: str, output: Array) -> float:
    """Largest relative error that a flip on an axis may make in an output."""
    if axis in EXACT or output.dtype.kind != "f":
        return 0.0
    return _ROUNDED[output.itemsize]


# -- launches


def _for(flipped: Kernel, kernel: Kernel, case: Case) -> Case:
    """The same launch for the other program: new parameters get an array or a size of their own."""
    known = kernel.entry.parameter_names
    given: dict[str, object] = {}
    for parameter in flipped.entry.parameters:
        if parameter.name in case.arguments:
            given[parameter.name] = case.arguments[parameter.name]
        elif parameter.name not in known and parameter.kind is ParameterKind.CONSTEXPR:
            given[parameter.name] = _ROWS
        elif parameter.name not in known:
            given[parameter.name] = np.zeros(FLAT, np.float32)
    return Case(case.grid, given)


_ROWS = 256
"""Rows of one head for a statistic that a flip adds: a multiple of every small row tile, more than
a small launch has."""


def _arrays(arguments: dict[str, object]) -> Arrays:
    """Arrays by name, those of a list as `name[0]` and so on."""
    found: Arrays = {}
    for name, value in arguments.items():
        items = {f"{name}[{i}]": v for i, v in enumerate(value)} if isinstance(value, list) else {}
        found |= {n: v for n, v in {**items, name: value}.items() if isinstance(v, np.ndarray)}
    return found


def _evaluated(kernel: Kernel, case: Case, ran: set[int]) -> Arrays:
    arguments = case.fresh()
    strict = kernel.dialect != "triton"
    ran |= run(kernel, case.grid, arguments, Limits(steps=MAX_STEPS, strict=strict))
    return _arrays(arguments)


def _interpreted(kernel: Kernel, case: Case, interpreter: Interpreter) -> Arrays:
    bound = tuple(_bound(name, value) for name, value in case.arguments.items())
    text = emit_program(kernel, kernel.dialect)
    return interpreter.run(text, kernel.name, case.grid, bound, _arrays(case.arguments))


def _bound(name: str, value: object) -> Bound:
    if isinstance(value, np.ndarray):
        return Bound(name, BindingKind.ARRAY, name)
    if isinstance(value, DType):
        return Bound(name, BindingKind.DTYPE, value.name)
    return Bound(name, BindingKind.VALUE, value)  # type: ignore[arg-type]


def _changed(one: Array, other: Array) -> bool:
    return not np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _mostly_finite(before: Array, after: Array) -> bool:
    if after.dtype.kind != "f":
        return True
    written = after[~((before == after) | (np.isnan(before) & np.isnan(after)))]
    return bool(np.isfinite(written).mean() >= _FINITE)

"""cross_check(kernel): a cuTile program and its Triton form on the same numbers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from generators.compile_model import Scalar
from generators.emit import emit_program
from generators.evaluate import DType, EvaluationError, Limits, run
from generators.interpret.cases import Case, cases
from generators.interpret.client import Arrays, Interpreter
from generators.interpret.model import BindingKind, Bound, Layout
from generators.lower.roads import Access, Block, Manner, Road
from generators.lower.triton import Lowered, to_triton
from generators.lower.views import LoweredParameter
from generators.reference.values import Array
from kb.errors import CannotEmit, CompilerFailed, TileloreError
from kb.ir import Kernel, kernel_ops
from kb.planner.expressions import evaluate, parse

ATTEMPTS = 12
"""Launches that are tried per kernel."""

MAX_STEPS = 60_000
"""Operations of one launch."""

_FINITE = 0.5
"""Share of written numbers that have to be finite for a launch to count."""

_TOLERANCE = {2: 4e-3, 4: 2e-4, 8: 1e-6}
"""Largest error by bytes of the dtype, relative to the largest number of the output."""


_ALIGNMENT = 16
"""Elements; 16 bytes at least for every dtype."""

_SHORT = 1e-2
"""The same where a program names tf32 or bf16, which Triton's interpreter does not round to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a kernel is checked: the seed, launches that must agree, seconds for all of them, and the
    road of its tiles.
    """

    seed: int = 0
    wanted: int = 2
    seconds: float = 40.0
    fixed: Mapping[str, Scalar] | None = None
    road: Road = Road.POINTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one kernel; `worst` is the largest relative error over all outputs.

    `accesses` are those of the program with open constants, `described` counts those that went
    through descriptors in the launches that agreed.
    """

    lowered: bool
    verified: bool
    reason: str = ""
    launches: int = 0
    worst: float = 0.0
    residuals: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    accesses: tuple[Access, ...] = ()
    described: int = 0


def cross_check(kernel: Kernel, interpreter: Interpreter, plan: Plan) -> Verdict:
    """Lower, emit, run both sides on small launches, compare what they wrote."""
    try:
        lowered = to_triton(kernel, Manner(road=plan.road))
        emit_program(lowered.kernel, "triton")
    except CannotEmit as error:
        return Verdict(lowered=False, verified=False, reason=f"{error.where}: {error.message}")
    checker = _Checker(kernel, lowered, interpreter, plan)
    return checker.verdict()


def bindings(parameters: tuple[LoweredParameter, ...], case: Case) -> tuple[Bound, ...]:
    """What the host passes for each parameter of the lowered kernel."""
    return tuple(_bound(parameter, case) for parameter in parameters)


def _bound(parameter: LoweredParameter, case: Case) -> Bound:
    value, name = case.arguments[parameter.tensor or parameter.name], parameter.name
    if isinstance(value, list):
        return _of_list(parameter, value)
    if parameter.block is not None and isinstance(value, np.ndarray):
        layout = _layout(parameter.block, value, case)
        return Bound(name, BindingKind.DESCRIPTOR, parameter.tensor, layout)
    if parameter.source == "pointer":
        return Bound(name, BindingKind.ARRAY, parameter.tensor)
    if isinstance(value, np.ndarray):
        sizes = value.shape if parameter.source == "shape" else _strides(value)
        return Bound(name, BindingKind.VALUE, int(sizes[parameter.axis]))
    if isinstance(value, DType):
        return Bound(name, BindingKind.DTYPE, value.name)
    return Bound(name, BindingKind.VALUE, value)  # type: ignore[arg-type]


def _of_list(parameter: LoweredParameter, arrays: list[Array]) -> Bound:
    """Tables of a list of arrays."""
    name, axis = parameter.name, parameter.axis
    match parameter.source:
        case "table":
            members = tuple(member(parameter.tensor, k) for k in range(len(arrays)))
            return Bound(name, BindingKind.ADDRESSES, None, items=members)
        case "count":
            return Bound(name, BindingKind.VALUE, len(arrays))
        case "element":
            return Bound(name, BindingKind.DTYPE, _dtype_name(arrays[0]))
        case "shape_table":
            return Bound(
                name, BindingKind.NUMBERS, None, items=tuple(a.shape[axis] for a in arrays)
            )
    steps = tuple(_strides(array)[axis] for array in arrays)
    return Bound(name, BindingKind.NUMBERS, None, items=steps)


def _dtype_name(array: Array) -> str:
    kind = {"b": "i", "i": "i", "u": "u", "f": "f"}[array.dtype.kind]
    return "i1" if array.dtype.kind == "b" else f"{kind}{array.itemsize * 8}"


def member(name: str, place: int) -> str:
    """How an array of a list is called among arrays."""
    return f"{name}[{place}]"


def arrays_of(arguments: Mapping[str, object]) -> Arrays:
    """Every array of a launch, those of lists one by one."""
    found: Arrays = {}
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            found[name] = value
        elif isinstance(value, list):
            found |= {member(name, k): item for k, item in enumerate(value)}
    return found


def _layout(block: Block, array: Array, case: Case) -> Layout:
    """A descriptor of an array at the constants of a launch."""
    known = constants_of(case)
    extents = tuple(int(str(evaluate(parse(text), known))) for text in block.extents)
    return Layout(array.shape, _strides(array), extents, block.padding)


def constants_of(case: Case) -> dict[str, Scalar]:
    """The numbers and words of a launch by name."""
    return {n: v for n, v in case.arguments.items() if isinstance(v, int | float | str)}


def _placed(
    arguments: Mapping[str, object], laid: Mapping[str, tuple[Array, Array]]
) -> dict[str, object]:
    """The arguments with their arrays as they were laid out."""
    found: dict[str, object] = {}
    for name, value in arguments.items():
        if isinstance(value, list):
            found[name] = [laid[member(name, k)][0] for k in range(len(value))]
        else:
            found[name] = laid[name][0] if name in laid else value
    return found


def aligned(array: Array) -> tuple[Array, Array]:
    """An array with rows that begin at 16 bytes, and the memory behind it, garbage in the gaps."""
    if array.ndim < 2 or array.shape[-1] % _ALIGNMENT == 0:
        return array, array
    columns = -(-array.shape[-1] // _ALIGNMENT) * _ALIGNMENT
    garbage = np.nan if array.dtype.kind == "f" else 1
    memory = np.full((*array.shape[:-1], columns), garbage, array.dtype)
    memory[..., : array.shape[-1]] = array
    return memory[..., : array.shape[-1]], memory


def _strides(array: Array) -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


@dataclass(slots=True)
class _Checker:
    kernel: Kernel
    lowered: Lowered
    interpreter: Interpreter
    plan: Plan
    worst: float = 0.0
    described: int = 0

    def verdict(self) -> Verdict:
        """The first disagreement, or agreement on as many launches as wanted."""
        started, agreed, written = time.monotonic(), 0, set[str]()
        reason = "no launch could be derived."
        fixed = dict(self.plan.fixed or {})
        for case in cases(self.kernel, self.plan.seed, ATTEMPTS, fixed):
            if agreed >= self.plan.wanted or time.monotonic() - started > self.plan.seconds:
                break
            try:
                changed, problem = self._launch(case)
            except TileloreError as error:
                reason = error.text
                if isinstance(error, CompilerFailed):
                    return self._found(False, reason, agreed, written)
                continue
            if problem:
                return self._found(False, problem, agreed, written)
            if not changed:
                reason = "no launch wrote enough finite numbers."
                continue
            agreed += 1
            written |= changed
        return self._found(agreed > 0, "" if agreed else reason, agreed, written)

    def _found(self, good: bool, reason: str, launches: int, written: set[str]) -> Verdict:
        return Verdict(
            lowered=True, verified=good, reason=reason, launches=launches, worst=self.worst,
            residuals=self.lowered.residuals, outputs=tuple(sorted(written)),
            accesses=self.lowered.accesses, described=self.described,
        )  # fmt: skip

    def _launch(self, case: Case) -> tuple[set[str], str]:
        """Outputs that hold finite numbers, and what differs."""
        arguments = case.fresh()
        run(self.kernel, case.grid, arguments, Limits(steps=MAX_STEPS, strict=True))
        before, expected = arrays_of(case.arguments), arrays_of(arguments)
        changed = {n for n in before if not _same(before[n], expected[n])}
        if not changed or not all(_mostly_finite(before[n], expected[n]) for n in changed):
            return set(), ""
        found = self._interpreted(case, before)
        for name in sorted(expected):
            error = difference(expected[name], found[name])
            self.worst = max(self.worst, 0.0 if error == np.inf else error)
            if error > self._tolerance(expected[name]):
                return changed, f"{name} differs by {error:.3g} of its largest number."
        return changed, ""

    def _interpreted(self, case: Case, before: Arrays) -> Arrays:
        """The arrays as the emitted program leaves them; lowered for the constants of the launch,
        which decide what a descriptor can serve.
        """
        if self.plan.road is Road.POINTERS:
            return self._run(self.lowered, case, before)
        laid = {name: aligned(array) for name, array in before.items()}
        sizes = {name: array.itemsize for name, array in before.items()}
        known = constants_of(case)
        manner = Manner(road=self.plan.road, known=known, element_bytes=sizes)
        lowered = to_triton(self.kernel, manner)
        placed = Case(case.grid, _placed(case.arguments, laid))
        memory = {name: held for name, (_, held) in laid.items()}
        found = self._run(lowered, placed, memory)
        self.described += sum(access.described for access in lowered.accesses)
        return {n: array[..., : before[n].shape[-1]] if before[n].ndim else array
                for n, array in found.items()}  # fmt: skip

    def _run(self, lowered: Lowered, case: Case, arrays: Arrays) -> Arrays:
        text = emit_program(lowered.kernel, "triton")
        bound = bindings(lowered.parameters, case)
        return self.interpreter.run(text, self.kernel.name, case.grid, bound, arrays)

    def _tolerance(self, output: Array) -> float:
        """Triton's interpreter multiplies tf32 in single precision and cuts bf16 off."""
        names = {op.attribute("name") for op in kernel_ops(self.kernel)}
        return _SHORT if names & {"tf32", "bf16"} else _TOLERANCE.get(output.itemsize, 0.0)


def _same(one: Array, other: Array) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def _mostly_finite(before: Array, after: Array) -> bool:
    if after.dtype.kind != "f":
        return True
    written = after[~((before == after) | (np.isnan(before) & np.isnan(after)))]
    return bool(np.isfinite(written).mean() >= _FINITE)


def difference(one: Array, other: Array) -> float:
    """Largest difference relative to the largest finite number.

    Infinite when one side is finite where the other is not, and for integers that differ.
    """
    if one.dtype.kind != "f":
        return 0.0 if bool(np.array_equal(one, other)) else float("inf")
    x, y = one.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(x)
    if not bool(np.array_equal(finite, np.isfinite(y))):
        return float("inf")
    if not bool(np.array_equal(x[~finite], y[~finite], equal_nan=True)):
        return float("inf")
    if not bool(finite.any()):
        return 0.0
    scale = max(1e-3, float(np.abs(x[finite]).max()))
    return float(np.abs(x[finite] - y[finite]).max()) / scale


__all__ = ["EvaluationError", "Plan", "Verdict", "bindings", "cross_check", "difference"]

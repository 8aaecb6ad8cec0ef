"""One launch at one tuning point: the expressions of the host with the target and the chosen values
worked in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from generators.host_text import folded, rebuilt
from kb.dsl.model import Document
from kb.errors import InputError, TileloreError
from kb.ir import Kernel, ParameterKind
from kb.planner.evaluation import Value
from kb.planner.expressions import evaluate, names, parse, to_text
from kb.planner.nodes import Binary, BinaryOperator, Expr, Name
from kb.space import GuardedPoints, Launch, Point, Scalar

Capability = tuple[int, int]

CAPABILITIES: tuple[Capability, ...] = (
    (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1),
)  # fmt: skip
"""Compute capabilities on which the branches of a host are compared."""

ACCUMULATORS = 128 * 128
"""Elements of a tile of scores that eight warps keep in registers beside an output tile of the same
size.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPoint:
    """Grid and bindings with tuning values as names, and the value of each of these names."""

    grid: tuple[str, ...]
    bindings: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, int], ...]
    options: tuple[tuple[str, str], ...] = ()
    host_function: str | None = None


def capability(arch: str) -> Capability:
    """(9, 0) for `sm_90`; InputError for another spelling."""
    digits = arch.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
    if not arch.startswith("sm_") or not digits.isdigit() or len(digits) < 2:
        raise InputError(f"`{arch}` is no target.", hint="Write sm_90, sm_100, sm_120 and so on.")
    return int(digits[:-1]), int(digits[-1])


def launch_point(
    document: Document, kernel: Kernel, arch: str, settings: Mapping[str, Scalar]
) -> LaunchPoint:
    """The launch whose tile sizes are tuned, for a target, with settings over the first searched
    point that fits.

    Raises InputError when the document has no launch, or a setting is not a whole number.
    """
    return _Chooser(document, kernel, capability(arch)).point(settings)


def chosen_point(
    document: Document, kernel: Kernel, target: Capability, settings: Mapping[str, Scalar]
) -> dict[str, int]:
    """The first searched point of a target with settings over it; empty where nothing is searched.

    Values that are no whole numbers are left to the launch.
    """
    spaces = document.tuning.spaces if document.tuning is not None else ()
    case = _case(spaces, target) or (spaces[0] if spaces else None)
    point = dict(case.points[0]) if case is not None and case.points else {}
    found = {n: v for n, v in point.items() if isinstance(v, int) and not isinstance(v, bool)}
    return found | {n: v for n, v in settings.items() if isinstance(v, int)}


def _case(cases: Sequence[GuardedPoints], target: Capability) -> GuardedPoints | None:
    """The first case whose condition holds on a target."""
    for case in cases:
        if case.when in ("always", "otherwise"):
            return case
        try:
            if evaluate(parse(case.when), {"capability": target}):
                return case
        except TileloreError:
            continue
    return None


class _Chooser:
    def __init__(self, document: Document, kernel: Kernel, target: Capability) -> None:
        self.document = document
        self.target = target
        static = [p.name for p in kernel.entry.parameters if p.kind is ParameterKind.CONSTEXPR]
        self.cases = document.tuning.spaces if document.tuning is not None else ()
        searched = {name for case in self.cases for point in case.points for name, _ in point}
        self.tuned = tuple(name for name in static if name in searched)
        self.launch = self._launch()
        self.flags = {p.name for p in kernel.entry.parameters if p.annotation == "bool"}

    def point(self, settings: Mapping[str, Scalar]) -> LaunchPoint:
        launch = self.launch
        values = self._values(settings)
        bindings = tuple(
            (b.parameter, self._resolved(b.expression, flag=b.parameter in self.flags))
            for b in launch.bindings
        )
        return LaunchPoint(
            grid=tuple(self._resolved(axis, flag=False) for axis in launch.grid),
            bindings=bindings,
            values=values,
            host_function=launch.host_function,
        )

    def _launch(self) -> Launch:
        """The launch that takes tuning values by name; else the first."""
        if not self.document.launches:
            raise InputError(
                "the design space says nothing of a launch.", where=self.document.space.name,
                hint="Extract the kernel together with its host code, or add a `launch` block.",
            )  # fmt: skip
        for launch in self.document.launches:
            if any(
                b.parameter == b.expression and b.parameter in self.tuned for b in launch.bindings
            ):
                return launch
        return self.document.launches[0]

    # -- values

    def _values(self, settings: Mapping[str, Scalar]) -> tuple[tuple[str, int], ...]:
        chosen = dict(self._first_that_fits())
        found: list[tuple[str, int]] = []
        for name in self.tuned:
            value = settings.get(name, chosen.get(name))
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"`{name}` cannot be `{value}`.", hint="Give a whole number.")
            found.append((name, value))
        return tuple(found)

    def _first_that_fits(self) -> Point:
        case = _case(self.cases, self.target)
        points = case.points if case is not None else ()
        if not points:
            raise InputError(
                "the design space has no tuning point for this target.",
                hint="Set " + ", ".join(f"{name}=…" for name in self.tuned) + ".",
            )
        return next(
            (p for p in points if self._size(p) <= ACCUMULATORS), min(points, key=self._size)
        )

    def _size(self, point: Point) -> int:
        size = 1
        for name, value in point:
            if name in self.tuned and isinstance(value, int):
                size *= value
        return size

    # -- expressions

    def _resolved(self, expression: str, *, flag: bool) -> str:
        """Tuning values by name, and the branches of the target taken."""
        known = dict(self._written())

        def change(expr: Expr) -> Expr:
            name = known.get(to_text(expr))
            if name is not None and not isinstance(expr, Name):
                return Name(name)
            if flag and isinstance(expr, Binary) and expr.operator is BinaryOperator.MODULO:
                axis = self._largest(expr.right)
                if axis is not None:
                    return Binary(expr.operator, change(expr.left), Name(axis))
            return rebuilt(expr, change)

        return folded(to_text(change(parse(expression))), {"capability": self.target})

    def _written(self) -> Iterator[tuple[str, str]]:
        """How a launch without search spells the value of a tuned parameter, as a branch over
        targets.
        """
        for binding in self.launch.bindings:
            tree = parse(binding.expression)
            if binding.parameter in self.tuned and names(tree) == {"capability"}:
                yield to_text(tree), binding.parameter

    def _largest(self, expr: Expr) -> str | None:
        """The tuned parameter whose largest searched value `expr` is on every target.

        A flag that tests divisibility by the largest tile holds for each smaller one; tested for
        the chosen tile it is exact.
        """
        if not names(expr) <= {"capability"}:
            return None
        found = [name for name in self.tuned if self._is_largest(expr, name)]
        return found[0] if len(found) == 1 else None

    def _is_largest(self, expr: Expr, name: str) -> bool:
        for target in CAPABILITIES:
            case = _case(self.cases, target)
            values = [dict(point).get(name) for point in case.points] if case is not None else []
            numbers = [value for value in values if isinstance(value, int)]
            if not numbers or _evaluated(expr, target) != max(numbers):
                return False
        return True


def _evaluated(expr: Expr, target: Capability) -> Value:
    try:
        return evaluate(expr, {"capability": target})
    except TileloreError:
        return None

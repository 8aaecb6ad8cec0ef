"""type_problems(kernel): operands that no specialisation of the program could take.

Only what is certain is told: a program that some choice of dtypes and sizes makes right passes.
Sizes are compared as numbers, or under `points`, the values that the tuning space gives parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from kb.analysis.graph import Graph
from kb.analysis.inline import inline
from kb.analysis.sort_model import NUMERIC, Kind, Shape
from kb.analysis.sorts import Sorts
from kb.analysis.values import Values
from kb.dialects.registry import DIALECTS
from kb.errors import TileloreError
from kb.ir import Function, Kernel, Op, walk
from kb.ir_verify import Problem
from kb.ops import (
    ATOMICS,
    BINARY_BY_KIND,
    COMPARISONS,
    CONTRACTIONS,
    READS,
    REDUCTIONS,
    UNARY_BY_KIND,
    WRITES,
    OpKind,
)
from kb.planner.evaluation import evaluate
from kb.planner.expressions import parse

Points = Sequence[Mapping[str, int]]

MAX_POINTS = 64
"""Points of the tuning space that sizes are compared under."""

_MEMORY = ("array", "pointer", "base", "descriptor", "view")
_NAMED = frozenset({Kind.DTYPE, Kind.ENUM, Kind.FUNCTION, Kind.TEXT})
_COMPUTED = frozenset(
    {
        OpKind.SUB, OpKind.DIV, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.EXP, OpKind.EXP2,
        OpKind.LOG, OpKind.LOG2, OpKind.SQRT, OpKind.RSQRT, OpKind.TANH, OpKind.SIGMOID,
        OpKind.ERF, OpKind.ABS, OpKind.FLOOR_DIV, OpKind.FMA,
    }
)  # fmt: skip
_BROADCAST = (
    COMPARISONS
    | {OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.MAXIMUM, OpKind.MINIMUM,
       OpKind.BIT_AND, OpKind.BIT_OR, OpKind.FMA}
)  # fmt: skip
_REFUSED: dict[str, tuple[frozenset[Kind], str]] = {
    **dict.fromkeys(_MEMORY, (NUMERIC | _NAMED | {Kind.TUPLE}, "an array or pointer")),
    "mask": (
        _NAMED | {Kind.FLOAT, Kind.INT, Kind.MEMORY, Kind.TUPLE},
        "a truth value for each element, such as a comparison",
    ),
    "index": (_NAMED | {Kind.FLOAT, Kind.MEMORY}, "integers"),
    "offsets": (_NAMED | {Kind.FLOAT, Kind.MEMORY}, "integers"),
    "shape": (_NAMED | {Kind.FLOAT, Kind.MEMORY}, "a tuple of sizes known when it is compiled"),
    "axis": (_NAMED | {Kind.FLOAT, Kind.MEMORY}, "the number of an axis"),
    "dtype": (NUMERIC | {Kind.TUPLE, Kind.MEMORY, Kind.ENUM}, "a dtype"),
    "value": (_NAMED | {Kind.TUPLE}, "a number or a tile of numbers"),
}
_FIXED = frozenset(
    {"axis", "check_bounds", "keepdims", "latency", "allow_tma", "ftz", "num_stages", "reverse"}
)
_WHOLE = frozenset({Kind.TUPLE, Kind.MEMORY, Kind.DTYPE, Kind.FUNCTION})
_RANGE = ("low", "high", "step")
_SIDES = ("lhs", "rhs", "acc")
_ACCESSES = READS | WRITES | ATOMICS


def type_problems(kernel: Kernel, points: Points = ()) -> tuple[Problem, ...]:
    """Every operand that cannot be what its operation takes, with the span of the operation.

    `kernel` must be well formed (`kb.ir_verify`). Helpers are checked where they are called, with
    what they are called with.
    """
    if kernel.dialect not in DIALECTS:
        return ()
    needed = _needed(kernel.dialect)
    missing = [
        Problem(function=function.name, span=op.span, message=message)
        for function in kernel.functions
        for op in walk(function.body)
        for message in _missing(op, needed)
    ]
    if missing:
        return tuple(missing)
    flat = inline(kernel)
    checked = _Checker(flat.entry, tuple(points)[:MAX_POINTS])
    found: dict[tuple[str, str], Problem] = {}
    for op in walk(flat.entry.body):
        for message in checked.problems(op):
            problem = Problem(function=kernel.name, span=op.span, message=message)
            found.setdefault((str(op.span), message), problem)
    return tuple(sorted(found.values(), key=lambda p: p.span.lines))


# -- which operands there are


@cache
def _needed(dialect: str) -> Mapping[str, frozenset[str]]:
    """Roles that an operation of a dialect must have, by its kind."""
    table = {kind: frozenset({"lhs", "rhs"}) for kind in BINARY_BY_KIND}
    table |= {kind: frozenset({"x"}) for kind in (*UNARY_BY_KIND, OpKind.SUBSCRIPT)}
    for kind, rows in DIALECTS[dialect].by_kind.items():
        common = frozenset.intersection(*(frozenset(p.role for p in r.parameters) for r in rows))
        needed = {*_MEMORY, "lhs", "rhs", "x", "condition"} | _written(kind)
        table[kind] = table.get(kind, frozenset()) | (common & needed)
    return table


def _written(kind: str) -> frozenset[str]:
    return frozenset({"value"}) if kind in WRITES else frozenset()


def _missing(op: Op, needed: Mapping[str, frozenset[str]]) -> Iterator[str]:
    given = {role for role, _ in op.operands}
    for role in sorted(needed.get(op.kind, frozenset()) - given):
        yield f"{op.kind} has no {role}; give it one."


# -- what operands are


@dataclass(slots=True)
class _Checker:
    """One function with the sorts of its values."""

    function: Function
    points: tuple[Mapping[str, int], ...]
    values: Values = field(init=False)
    sorts: Sorts = field(init=False)

    def __post_init__(self) -> None:
        graph = Graph(self.function)
        self.values = Values(graph)
        self.sorts = Sorts(self.function, graph, self.values)

    def problems(self, op: Op) -> Iterator[str]:
        """What is wrong with the operands of one operation."""
        for role, value in op.operands:
            yield from self._operand(op, role, value)
        if op.kind in CONTRACTIONS:
            yield from self._contraction(op)
        if op.kind in _BROADCAST:
            yield from self._broadcast(op, op.operands)
        if op.kind == OpKind.SELECT or op.kind in (OpKind.STORE, OpKind.LOAD):
            wanted = ("condition", "x", "y", "pointer", "mask", "value")
            yield from self._broadcast(op, [pair for pair in op.operands if pair[0] in wanted])

    def _operand(self, op: Op, role: str, value: str) -> Iterator[str]:
        refused, wanted = self._rule(op, role)
        if role in _FIXED and (self.sorts.of(value).shape or self.sorts.of(value).kind in _WHOLE):
            sort = self.sorts.of(value)
            yield f"{op.kind} takes one fixed value as {role}, %{value} is {sort}; give a constant."
            return
        if op.kind == OpKind.ARANGE and role == "size" and self._none(value):
            yield f"{op.kind} of {self.values.literal(value)} elements; give a size above 0."
        for item in self._items(role, value):
            sort = self.sorts.of(item)
            if sort.kind in refused:
                yield (
                    f"{op.kind} takes {wanted} as {role}, %{item} is {sort}; "
                    f"give %{item} where it belongs, or another value here."
                )

    def _none(self, value: str) -> bool:
        literal = self.values.literal(value)
        return isinstance(literal, int) and literal <= 0

    def _items(self, role: str, value: str) -> tuple[str, ...]:
        whole = self.sorts.of(value)
        if role in ("index", "offsets", "shape") and whole.kind is Kind.TUPLE:
            return self.values.items(value)
        return (value,)

    def _rule(self, op: Op, role: str) -> tuple[frozenset[Kind], str]:
        nothing: frozenset[Kind] = frozenset()
        if op.kind == OpKind.DESCRIPTOR_GATHER and role == "descriptor":
            return nothing, ""  # `.gather` is a method of tiles, too
        if op.kind in _ACCESSES or (role in ("shape", "dtype", "mask") and op.kind != OpKind.CALL):
            return _REFUSED.get(role, (nothing, ""))
        if op.kind in (OpKind.RANGE, OpKind.STATIC_RANGE) and role in _RANGE:
            return _NAMED | {Kind.FLOAT, Kind.MEMORY, Kind.TUPLE}, "an integer"
        if op.kind in CONTRACTIONS and role in _SIDES:
            return _NAMED | {Kind.MEMORY, Kind.TUPLE}, "a tile of numbers"
        if op.kind == OpKind.SELECT and role == "condition":
            refused, wanted = _REFUSED["mask"]
            return refused - {Kind.INT}, wanted
        if op.kind in _COMPUTED and role in ("lhs", "rhs", "x", "y", "z"):
            memory = set() if op.kind == OpKind.SUB else {Kind.MEMORY}
            return _NAMED | memory | {Kind.TUPLE}, "numbers"
        if op.kind in REDUCTIONS and role in ("x", "axis"):
            return _REFUSED["axis"] if role == "axis" else (_NAMED | {Kind.MEMORY}, "a tile")
        if op.kind == OpKind.FOR and role == "iterable":
            return NUMERIC | _NAMED | {Kind.MEMORY}, "a range"
        return nothing, ""

    # -- matrix products

    def _contraction(self, op: Op) -> Iterator[str]:
        left, right = (self.sorts.of(op.operand(role)) for role in ("lhs", "rhs"))
        if op.kind != OpKind.MMA_SCALED and left.dtype and right.dtype:
            small = all(sort.dtype.startswith("f8") for sort in (left, right))
            mixed = {left.kind, right.kind} == {Kind.INT}
            if left.dtype != right.dtype and not small and not mixed:
                yield (
                    f"{op.kind} multiplies {left.dtype} by {right.dtype}; "
                    "cast one side to the dtype of the other."
                )
        if left.shape and right.shape and len(left.shape) > 1 and len(right.shape) > 1:
            inner = (left.shape[-1], right.shape[-2])
            if op.kind != OpKind.MMA_SCALED and self._differ(*inner):
                yield (
                    f"{op.kind} sums over {inner[0]} columns of lhs and {inner[1]} rows of rhs; "
                    "they must be as many: exchange or transpose an operand."
                )

    # -- extents

    def _broadcast(self, op: Op, operands: Sequence[tuple[str, str]]) -> Iterator[str]:
        seen: list[tuple[str, Shape]] = []
        for role, value in operands:
            shape = self.sorts.of(value).shape
            if not shape:
                continue
            for other, before in seen:
                pair = self._clash(before or (), shape)
                if pair is not None:
                    yield (
                        f"{op.kind} cannot broadcast {other} of [{', '.join(before or ())}] and "
                        f"{role} of [{', '.join(shape)}]: {pair[0]} is not {pair[1]}; "
                        "add an axis or reshape one of them."
                    )
                    return
            seen.append((role, shape))

    def _clash(self, one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, str] | None:
        for left, right in zip(reversed(one), reversed(other), strict=False):
            if left != "1" and right != "1" and self._differ(left, right):
                return left, right
        return None

    def _differ(self, one: str, other: str) -> bool:
        """True when two extents are different numbers above one, at every point that tells."""
        if one == other:
            return False
        if one.isdigit() and other.isdigit():
            return "1" not in (one, other)
        told = [(_number(one, point), _number(other, point)) for point in self.points]
        known = [(a, b) for a, b in told if a is not None and b is not None]
        return bool(known) and all(a != b and 1 not in (a, b) for a, b in known)


def _number(extent: str, point: Mapping[str, int]) -> int | None:
    """Value of an extent at a point, None when the point does not tell."""
    if extent.isdigit():
        return int(extent)
    if extent.isidentifier():
        return point.get(extent)
    try:
        value = evaluate(parse(extent), point)
    except (TileloreError, KeyError, ArithmeticError):
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None

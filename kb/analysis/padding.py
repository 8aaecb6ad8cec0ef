"""What lanes outside an array hold: followed from padded loads through arithmetic to whoever sums
them up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from kb.analysis.accesses import Access, Mode
from kb.analysis.axes import axis_below, extent_at
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, LOOPS, TURNS, VIEWS, Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import AtomKind
from kb.ops import REDUCTIONS, OpKind


class Lanes(StrEnum):
    """What is known of lanes outside: one number, some number, nothing at all, or that there are
    none."""

    NUMBER = "number"
    SOME = "some number"
    UNDEFINED = "undefined"
    INSIDE = "inside"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outside:
    """Lanes outside along one axis of a value; `loads` are the padded loads they come from."""

    lanes: Lanes
    number: float = math.nan
    loads: frozenset[Access] = frozenset()


MAX_DEPTH = 120
"""Operations between a load and a reduction; past that nothing is known."""

UNKNOWN = Outside(Lanes.UNKNOWN)
INSIDE = Outside(Lanes.INSIDE)
_PADS = {"zero": 0.0, "neg_inf": -math.inf, "pos_inf": math.inf, "nan": math.nan}


def _exp(x: float) -> float:
    return math.exp(min(x, 700.0))


_UNARY: dict[str, Callable[[float], float]] = {
    OpKind.NEG: lambda x: -x, OpKind.POS: lambda x: x, OpKind.ABS: abs, OpKind.EXP: _exp,
    OpKind.EXP2: lambda x: 2.0 ** min(x, 1000.0), OpKind.SQRT: math.sqrt,
    OpKind.TANH: math.tanh, OpKind.SIGMOID: lambda x: 1.0 / (1.0 + _exp(-x)), OpKind.SIN: math.sin,
    OpKind.COS: math.cos, OpKind.ERF: math.erf, OpKind.LOG: math.log, OpKind.LOG2: math.log2,
}  # fmt: skip
_BINARY: dict[str, Callable[[float, float], float]] = {
    OpKind.ADD: lambda a, b: a + b, OpKind.SUB: lambda a, b: a - b, OpKind.MUL: lambda a, b: a * b,
    OpKind.DIV: lambda a, b: a / b, OpKind.MAXIMUM: max, OpKind.MINIMUM: min,
}  # fmt: skip


@dataclass(eq=False)
class PaddedLanes:
    """Answers `outside(value, axis)` for one kernel; axes count from the last, -1 first."""

    facts: Facts
    _known: dict[tuple[str, int], Outside] = field(default_factory=dict)
    _depth: int = 0

    def outside(self, value: str | None, axis: int) -> Outside:
        """What lanes outside along an axis of a value hold."""
        if value is None:
            return UNKNOWN
        key = (value, axis)
        if key not in self._known:
            self._known[key] = UNKNOWN
            if self._depth < MAX_DEPTH:
                self._depth += 1
                self._known[key] = self._compute(value, axis)
                self._depth -= 1
        return self._known[key]

    def _compute(self, value: str, axis: int) -> Outside:
        literal = self.facts.values.literal(value)
        if isinstance(literal, int | float) and not isinstance(literal, bool):
            return Outside(Lanes.NUMBER, float(literal))
        node = self.facts.graph.producer(value)
        if node is None:
            return self._argument(value, axis)
        filled = self._filled(node)
        if filled is not None:
            return Outside(Lanes.NUMBER, filled)
        access = self.facts.access(node)
        if access is not None and not access.is_store:
            return self._loaded(access, axis)
        if node.op.kind == OpKind.SELECT:
            return self._select(node, axis)
        extent = extent_at(self.facts, value, axis)
        if extent == "1":
            return INSIDE
        if node.op.kind in VIEWS | CASTS | COPIES | TURNS:
            below = axis_below(self.facts, node, axis)
            return UNKNOWN if below is None else self.outside(node.op.inputs[0], below)
        if node.op.kind in _UNARY:
            return _unary(_UNARY[node.op.kind], self.outside(node.op.inputs[0], axis))
        if node.op.kind in _BINARY:
            left, right = (self._operand(v, axis) for v in node.op.inputs[:2])
            return _binary(node.op.kind, left, right, same=node.op.inputs[0] == node.op.inputs[1])
        if node.op.kind == OpKind.FMA:
            a, b, c = (self._operand(v, axis) for v in node.op.inputs[:3])
            return _binary(OpKind.ADD, _binary(OpKind.MUL, a, b), c)
        if node.op.regions:
            return self._regions(node, value, axis)
        if node.op.kind in REDUCTIONS:
            return UNKNOWN if extent is None or extent != "" else INSIDE
        return INSIDE if extent == "" else UNKNOWN

    def _operand(self, value: str, axis: int) -> Outside:
        """An operand that does not reach to the axis is the same in every lane."""
        extent = extent_at(self.facts, value, axis)
        found = self.outside(value, axis)
        return INSIDE if extent in ("", "1") and found.lanes is not Lanes.NUMBER else found

    def _argument(self, value: str, axis: int) -> Outside:
        """A parameter is a number for all lanes; a carried tile keeps what it starts with when an
        iteration does not change it."""
        held = self.facts.graph.arguments.get(value)
        if held is None:
            return INSIDE if extent_at(self.facts, value, axis) == "" else UNKNOWN
        loop, _, position = held
        offset = 1 if loop.op.kind == OpKind.FOR else 0
        inits = self.facts.graph.inits(loop)
        if position < offset or position - offset >= len(inits):
            return UNKNOWN
        return self.outside(inits[position - offset], axis)

    def _regions(self, node: Node, value: str, axis: int) -> Outside:
        ends = [self.outside(end, axis) for end in self.facts.graph.feeds(value)]
        if not ends:
            return UNKNOWN
        if node.op.kind in LOOPS:
            return ends[-1] if all(e.lanes is not Lanes.UNKNOWN for e in ends) else UNKNOWN
        first = ends[0]
        same = all(e.lanes is first.lanes and _equal(e.number, first.number) for e in ends)
        loads = frozenset(load for e in ends for load in e.loads)
        return Outside(first.lanes, first.number, loads) if same else UNKNOWN

    def _filled(self, node: Node) -> float | None:
        if node.op.kind in (OpKind.ZEROS, OpKind.ZEROS_LIKE):
            return 0.0
        if node.op.kind == OpKind.FULL:
            number = self.facts.values.literal(node.op.operand("value"))
            return float(number) if isinstance(number, int | float) else None
        return None

    def _loaded(self, access: Access, axis: int) -> Outside:
        if not self.reaches_out(access, axis):
            return INSIDE
        loads = frozenset({access})
        if access.padding == "undetermined":
            return Outside(Lanes.UNDEFINED, loads=loads)
        if access.padding in _PADS:
            return Outside(Lanes.NUMBER, _PADS[access.padding], loads)
        given = access.node.op.operand("padding") or access.node.op.operand("padding_option")
        number = self.facts.values.literal(self.facts.graph.core(given))
        if isinstance(number, int | float):
            return Outside(Lanes.NUMBER, float(number), loads)
        return UNKNOWN

    def reaches_out(self, access: Access, axis: int) -> bool:
        """True when some lanes of a load along an axis may lie outside: its mask compares them, or
        its tile moves along the axis and its bounds are checked."""
        if access.mode in (Mode.POINTER, Mode.ELEMENT) and access.mask is not None:
            return self.limited(access.mask, axis)
        if access.mode is Mode.ELEMENT:
            return self._moves(access, axis) and self._checked(access)
        if access.mode is Mode.TILE and len(access.index) >= -axis:
            place = access.order[axis] if access.order is not None else axis
            return access.index[place].constant is None
        return False

    def _moves(self, access: Access, axis: int) -> bool:
        lanes = [a for e in access.index for a in e.top() if a.kind is AtomKind.LANE]
        return any(int(a.value) == axis for a in lanes)

    def _checked(self, access: Access) -> bool:
        return self.facts.values.literal(access.check_bounds) is not False

    def limited(self, condition: str, axis: int) -> bool:
        """True when a condition compares lanes along an axis with something without lanes there."""
        for test in comparisons(self.facts, condition):
            places = [
                {int(a.value) for a in e.atoms() if a.kind is AtomKind.LANE}
                for e in sides(self.facts, test)
            ]
            if (axis in places[0]) != (axis in places[1]):
                return True
        return False

    def _select(self, node: Node, axis: int) -> Outside:
        x, y = node.op.operand("x"), node.op.operand("y")
        kept, dropped = self.outside(x, axis), self.outside(y, axis)
        condition = node.op.operand("condition")
        if condition is None:
            return UNKNOWN
        if self.limited(condition, axis):
            return Outside(dropped.lanes, dropped.number, kept.loads | dropped.loads)
        same = kept.lanes is dropped.lanes and _equal(kept.number, dropped.number)
        return Outside(kept.lanes, kept.number, kept.loads | dropped.loads) if same else UNKNOWN


def _equal(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


def _unary(function: Callable[[float], float], value: Outside) -> Outside:
    if value.lanes is not Lanes.NUMBER:
        return value
    try:
        return Outside(Lanes.NUMBER, function(value.number), value.loads)
    except (ArithmeticError, ValueError):
        return Outside(Lanes.SOME, loads=value.loads)


def _binary(kind: str, left: Outside, right: Outside, *, same: bool = False) -> Outside:
    """Two operands lane by lane; a number that is the same for all lanes leaves zero and infinity
    what they are."""
    loads = left.loads | right.loads
    states = (left.lanes, right.lanes)
    if Lanes.UNKNOWN in states:
        return UNKNOWN
    if Lanes.UNDEFINED in states:
        return Outside(Lanes.UNDEFINED, loads=loads)
    if states == (Lanes.INSIDE, Lanes.INSIDE):
        return INSIDE
    if states == (Lanes.NUMBER, Lanes.NUMBER):
        return _folded(kind, left.number, right.number, loads)
    if same:
        return Outside(Lanes.SOME, loads=loads)
    if not loads:
        return INSIDE if Lanes.INSIDE in states else UNKNOWN
    number = left if left.lanes is Lanes.NUMBER else right
    if number.lanes is Lanes.NUMBER:
        zero, infinite = number.number == 0, math.isinf(number.number)
        if kind == OpKind.MUL and zero:
            return Outside(Lanes.NUMBER, 0.0, loads)
        if kind == OpKind.DIV and zero and number is left:
            return Outside(Lanes.NUMBER, 0.0, loads)
        if infinite and (kind == OpKind.ADD or (kind == OpKind.SUB and number is left)):
            return Outside(Lanes.NUMBER, number.number, loads)
        if infinite and kind not in (OpKind.MAXIMUM, OpKind.MINIMUM):
            return UNKNOWN
    return Outside(Lanes.SOME, loads=loads)


def _folded(kind: str, left: float, right: float, loads: frozenset[Access]) -> Outside:
    try:
        return Outside(Lanes.NUMBER, _BINARY[kind](left, right), loads)
    except (ArithmeticError, ValueError):
        return Outside(Lanes.SOME, loads=loads)

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
from kb.analysis.symbolic import AtomKind, Expr
from kb.ops import CONTRACTIONS, OpKind


class Lanes(StrEnum):
    """What is known of lanes outside: one number, some number, nothing at all; what a loop brought
    along; or that there are none, because all lanes hold data or all are the same."""

    NUMBER = "number"
    SOME = "some number"
    UNDEFINED = "undefined"
    CARRIED = "carried"
    INSIDE = "inside"
    UNIFORM = "uniform"
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
UNIFORM = Outside(Lanes.UNIFORM)
HUGE = 1e4
"""A number beyond this stays what it is when a number of ordinary size is added."""
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
            return UNIFORM
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
        if node.op.kind in CONTRACTIONS and axis in (-1, -2):
            return self._product(node, axis)
        if node.op.regions:
            return self._regions(node, value, axis)
        return UNIFORM if extent == "" else UNKNOWN

    def _product(self, node: Node, axis: int) -> Outside:
        """Rows outside of the left operand, columns outside of the right one: zero gives zero."""
        side = self.outside(node.op.operand("rhs" if axis == -1 else "lhs"), axis)
        acc = node.op.operand("acc")
        start = Outside(Lanes.NUMBER, 0.0) if acc is None else self.outside(acc, axis)
        if side.lanes is Lanes.NUMBER and side.number != 0:
            side = Outside(Lanes.SOME, loads=side.loads)
        return _binary(OpKind.ADD, start, side)

    def _operand(self, value: str, axis: int) -> Outside:
        """An operand that does not reach to the axis is the same in every lane."""
        extent = extent_at(self.facts, value, axis)
        found = self.outside(value, axis)
        return UNIFORM if extent in ("", "1") and found.lanes is not Lanes.NUMBER else found

    def _argument(self, value: str, axis: int) -> Outside:
        """A parameter is a number for all lanes; a carried tile is what earlier steps made it."""
        names = self.facts.kernel.entry.parameter_names
        if value in names or extent_at(self.facts, value, axis) in ("", "1"):
            return UNIFORM
        return Outside(Lanes.CARRIED) if value in self.facts.graph.arguments else UNKNOWN

    def _regions(self, node: Node, value: str, axis: int) -> Outside:
        ends = [self.outside(end, axis) for end in self.facts.graph.feeds(value)]
        if not ends:
            return UNKNOWN
        if node.op.kind in LOOPS:
            return INSIDE if ends[-1].lanes is Lanes.CARRIED else ends[-1]
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
        if self._ends_before(access):
            return False
        if access.mode in (Mode.POINTER, Mode.ELEMENT) and access.mask is not None:
            return self.limited(access.mask, axis)
        if access.mode is Mode.ELEMENT:
            return self._moves(access, axis) and self._checked(access)
        if access.mode is Mode.TILE and len(access.index) >= -axis:
            place = access.order[axis] if access.order is not None else axis
            return access.index[place].constant is None
        return False

    def _ends_before(self, access: Access) -> bool:
        """True when the innermost loop that moves a load takes whole tiles only, or ends where its
        block says: its last tile is no partial one."""
        for around in reversed(access.node.loops):
            loop = self.facts.loop(around)
            if loop is None or loop.induction is None or loop.high is None:
                continue
            counter = self.facts.values.expr(loop.induction).atom
            tests = comparisons(self.facts, access.mask)
            places = [*access.index, *(e for test in tests for e in sides(self.facts, test))]
            if any(counter in set(e.atoms()) for e in places):
                return not covers(self.facts.values.expr(loop.high))
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
            if kept.lanes is Lanes.NUMBER and not kept.loads and dropped.loads:
                kept, dropped = dropped, kept
            return Outside(dropped.lanes, dropped.number, kept.loads | dropped.loads)
        same = kept.lanes is dropped.lanes and _equal(kept.number, dropped.number)
        return Outside(kept.lanes, kept.number, kept.loads | dropped.loads) if same else UNKNOWN


def covers(high: Expr) -> bool:
    """True when a bound may be past the end of an array: not the quotient that leaves the last
    partial tile out, and not where a block begins; where it ends may be."""
    atom = high.atom
    if atom is not None and atom.kind is AtomKind.FLOOR_DIV:
        return False
    if not high.has(AtomKind.BLOCK, AtomKind.OPAQUE) or _end_of_block(high):
        return True
    kinds = (AtomKind.MINIMUM, AtomKind.CHOICE)
    return any(
        any(not arg.has(AtomKind.BLOCK, AtomKind.OPAQUE) for arg in inner.args)
        for inner in high.atoms()
        if inner.kind in kinds
    )


def _end_of_block(high: Expr) -> bool:
    """True for a block index and one more, times a size: blocks cover what they divide up."""
    kind = AtomKind.BLOCK
    blocks = [factors for factors, _ in high.terms if any(a.kind is kind for a in factors)]
    if len(blocks) != 1 or len(high.terms) != 2:
        return False
    block = next(atom for atom in blocks[0] if atom.kind is kind)
    size = high.coefficient(block)
    return any(factors not in blocks and size.terms == ((factors, n),) for factors, n in high.terms)


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
    """Two operands lane by lane. A neutral number leaves the other operand as it is; a number that
    is the same for all lanes leaves zero and infinity as they are."""
    loads = left.loads | right.loads
    states = (left.lanes, right.lanes)
    if Lanes.UNKNOWN in states:
        return UNKNOWN
    if Lanes.UNDEFINED in states:
        masked = kind == OpKind.ADD and any(s.number <= -HUGE for s in (left, right))
        sides = [side.loads for side in (left, right) if side.lanes is Lanes.UNDEFINED]
        found = frozenset(load for side in sides for load in side)
        if masked:
            return Outside(Lanes.NUMBER, -math.inf, found)
        return Outside(Lanes.UNDEFINED, loads=found)
    if states == (Lanes.NUMBER, Lanes.NUMBER):
        return _folded(kind, left.number, right.number, loads)
    if Lanes.NUMBER in states:
        first = left.lanes is Lanes.NUMBER
        number, other = (left, right) if first else (right, left)
        return _with_number(kind, number, other, first=first)
    if Lanes.CARRIED in states:
        summed = kind in (OpKind.ADD, OpKind.SUB) and Lanes.SOME in states
        return Outside(Lanes.SOME, loads=loads) if summed else UNKNOWN
    if Lanes.SOME in states or same:
        return Outside(Lanes.SOME, loads=loads) if loads else left
    return INSIDE if Lanes.INSIDE in states else UNIFORM


def _with_number(kind: str, number: Outside, other: Outside, *, first: bool) -> Outside:
    """A number with something else; `first` when the number is the left operand."""
    loads = number.loads | other.loads
    value = number.number
    data = other.lanes in (Lanes.INSIDE, Lanes.CARRIED)
    if data and _leaves(kind, value, first=first):
        return Outside(other.lanes, loads=loads)
    if value == 0 and (kind == OpKind.MUL or (kind == OpKind.DIV and first)):
        return Outside(Lanes.NUMBER, 0.0, loads)
    if abs(value) >= HUGE and (kind == OpKind.ADD or (kind == OpKind.SUB and first)):
        return Outside(Lanes.NUMBER, value, loads)
    if kind in (OpKind.MAXIMUM, OpKind.MINIMUM):
        return Outside(Lanes.NUMBER, value, loads) if data and number.loads else UNKNOWN
    if other.lanes is Lanes.CARRIED and kind not in (OpKind.ADD, OpKind.SUB):
        return UNKNOWN
    if abs(value) >= HUGE:
        return UNKNOWN
    return Outside(Lanes.SOME, loads=loads) if loads else other


def _leaves(kind: str, value: float, *, first: bool) -> bool:
    """True when the operation with this number gives the other operand back."""
    if kind == OpKind.ADD or (kind == OpKind.SUB and not first):
        return value == 0
    if kind == OpKind.MUL or (kind == OpKind.DIV and not first):
        return value == 1
    if kind == OpKind.MAXIMUM:
        return value <= -1e3
    return kind == OpKind.MINIMUM and value >= 1e3


def _folded(kind: str, left: float, right: float, loads: frozenset[Access]) -> Outside:
    try:
        return Outside(Lanes.NUMBER, _BINARY[kind](left, right), loads)
    except (ArithmeticError, ValueError):
        return Outside(Lanes.SOME, loads=loads)

"""What every value of a program certainly is: number, address, tuple, dtype; with dtype and extents
where they are certain, too.

Unlike `kb.analysis.types`, which guesses well for patterns, this inference only says what no
specialisation can make false: where two ways lead to a value and disagree, nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kb.analysis.graph import COPIES, Graph, Node, is_view
from kb.analysis.sort_model import NUMERIC, OPEN, Kind, Shape, Sort, dtype_sort, join
from kb.analysis.types import broadcast
from kb.analysis.values import Values
from kb.ir import Function, Op, ParameterKind, Region
from kb.ops import COMPARISONS, READS, REDUCTIONS, OpKind

MAX_LOOPS = 4
"""Loops inside loops; deeper ones hand over values of which nothing is said."""

MAX_READS = 3
"""How often a loop is read until what it carries stays what it is; nothing is said of it then."""


_FLOATS = frozenset(
    {
        OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.SQRT, OpKind.RSQRT, OpKind.SIN,
        OpKind.COS, OpKind.TAN, OpKind.SINH, OpKind.COSH, OpKind.TANH, OpKind.ERF, OpKind.SIGMOID,
    }
)  # fmt: skip
_ALIKE = frozenset(
    {
        OpKind.NEG, OpKind.POS, OpKind.ABS, OpKind.FLOOR, OpKind.CEIL, OpKind.CLAMP, OpKind.CUMSUM,
        OpKind.CUMPROD, OpKind.FLIP, OpKind.BIT_NOT, OpKind.ZEROS_LIKE,
    }
)  # fmt: skip
_ARITHMETIC = frozenset(
    {
        OpKind.MUL, OpKind.DIV, OpKind.FLOOR_DIV, OpKind.MOD, OpKind.POW, OpKind.MAXIMUM,
        OpKind.MINIMUM, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT, OpKind.FMA,
    }
)  # fmt: skip
_BITS = frozenset({OpKind.BIT_AND, OpKind.BIT_OR, OpKind.BIT_XOR})
_ADDRESSES = frozenset(
    {
        OpKind.BLOCK_POINTER, OpKind.ADVANCE, OpKind.DESCRIPTOR, OpKind.TILED_VIEW,
        OpKind.ARRAY_SLICE,
    }
)  # fmt: skip
_COUNTS = frozenset({OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.NUM_TILES, OpKind.VIEW_NUM_TILES})
_PLAIN = {
    OpKind.TUPLE: Kind.TUPLE, OpKind.LIST: Kind.TUPLE, OpKind.SHAPE: Kind.TUPLE,
    OpKind.DTYPE: Kind.DTYPE, OpKind.DTYPE_OF: Kind.DTYPE, OpKind.POINTER_TYPE: Kind.DTYPE,
    OpKind.ENUM: Kind.ENUM, OpKind.FUNCTION: Kind.FUNCTION,
}  # fmt: skip


@dataclass(eq=False, slots=True)
class Sorts:
    """Sort of every value of one function without calls that matter."""

    function: Function
    graph: Graph
    values: Values
    found: dict[str, Sort] = field(default_factory=dict)
    _depth: int = 0

    def __post_init__(self) -> None:
        for parameter in self.function.parameters:
            self.found[parameter.name] = _PARAMETERS.get(parameter.kind, Sort(shape=()))
        self._region(self.function.body)

    def of(self, value: str | None) -> Sort:
        """What a value is; open when nothing is certain."""
        return self.found.get(value, OPEN) if value is not None else OPEN

    # -- program order

    def _region(self, region: Region) -> list[Sort]:
        """Reads a region; what its terminator hands over."""
        for op in region.ops:
            if op.kind in (OpKind.FOR, OpKind.WHILE):
                self._loop(op)
            elif op.regions:
                self._branch(op)
            elif len(op.results) == 1:
                self.found[op.result] = self._sort(op)
        last = region.terminator
        return [self.of(v) for v in last.inputs] if last is not None else []

    def _branch(self, op: Op) -> None:
        ends = [self._region(region) for region in op.regions]
        for place, result in enumerate(op.results):
            sides = [end[place] for end in ends if place < len(end)]
            whole = len(sides) == len(ends) and all(_falls_through(r) for r in op.regions)
            self.found[result.name] = join(sides) if whole else OPEN

    def _loop(self, op: Op) -> None:
        """Carried values are what they begin as, unless an iteration makes them something else."""
        first = 1 if op.kind == OpKind.FOR else 0
        inits = [self.of(value) for role, value in op.operands if role == "init"]
        carried = [OPEN] * len(inits) if self._depth >= MAX_LOOPS else inits
        self._depth += 1
        for _ in range(MAX_READS):
            for region in op.regions:
                if first and region.arguments:
                    self.found[region.arguments[0].name] = OPEN
                for argument, sort in zip(region.arguments[first:], carried, strict=False):
                    self.found[argument.name] = sort
            ends = [self._region(region) for region in op.regions][-1]
            left = any(_leaves(region) for region in op.regions)
            agreed = [
                OPEN if left or place >= len(ends) else join([sort, ends[place]])
                for place, sort in enumerate(carried)
            ]
            if agreed == carried:
                break
            carried = agreed
        else:
            carried = [OPEN] * len(carried)
            self._set_arguments(op, first)
            for region in op.regions:
                self._region(region)
        self._depth -= 1
        for result, sort in zip(op.results, carried, strict=False):
            self.found[result.name] = sort

    def _set_arguments(self, op: Op, first: int) -> None:
        for region in op.regions:
            for argument in region.arguments[first:]:
                self.found[argument.name] = OPEN

    # -- rules

    def _sort(self, op: Op) -> Sort:
        kind = op.kind
        if kind in _PLAIN:
            return Sort(_PLAIN[OpKind(kind)])
        if kind in COPIES and kind != OpKind.BUILTIN and op.inputs:
            return self.of(op.inputs[0])
        if kind in _ADDRESSES:
            return Sort(Kind.MEMORY)
        if kind in _COUNTS:
            return Sort(Kind.INT, "i32", ())
        if kind in COMPARISONS or kind in (OpKind.NOT, OpKind.ISNAN):
            return Sort(Kind.BOOL, "i1", self._shape(op.inputs))
        if kind in _FLOATS:
            return Sort(Kind.FLOAT, self._float(op), self._shape(op.inputs[:1]))
        if kind in _ALIKE and op.inputs:
            return self._numeric(self.of(op.inputs[0]))
        if kind in (OpKind.ADD, OpKind.SUB):
            return self._sum(op)
        if kind in _ARITHMETIC or kind in _BITS:
            return self._product(op)
        if kind in READS:
            return self._loaded(op)
        if kind in REDUCTIONS:
            return self._reduced(op)
        rule = _RULES.get(OpKind(kind))
        return rule(self, op) if rule is not None else OPEN

    def _shape(self, values: Sequence[str]) -> Shape:
        """Extents of an elementwise result, None when one of them is not certain."""
        shape: tuple[str, ...] = ()
        for value in values:
            known = self.of(value).shape
            if known is None:
                return None
            shape = broadcast(shape, known)
        return shape

    def _numeric(self, sort: Sort) -> Sort:
        return sort if sort.numeric else Sort(Kind.NUMBER, shape=sort.shape)

    def _float(self, op: Op) -> str:
        dtype = self.of(op.inputs[0]).dtype if op.inputs else ""
        return dtype if dtype in ("f32", "f64") else ""

    def _sum(self, op: Op) -> Sort:
        sides = [self.of(value) for value in op.inputs[:2]]
        shape = self._shape(op.inputs[:2])
        if any(side.kind is Kind.MEMORY for side in sides):
            return Sort(Kind.MEMORY, shape=shape)
        if not all(side.numeric for side in sides):
            return Sort(shape=shape)
        return self._joined(sides, shape)

    def _product(self, op: Op) -> Sort:
        sides = [self.of(value) for role, value in op.operands if role in ("lhs", "rhs", *"xyz")]
        if any(side.kind in (Kind.TUPLE, Kind.TEXT) for side in sides):
            return OPEN
        shape = self._shape([v for role, v in op.operands if role in ("lhs", "rhs", *"xyz")])
        return self._joined(sides, shape)

    def _joined(self, sides: Sequence[Sort], shape: Shape) -> Sort:
        """A number computed from numbers; the dtype is certain when all tiles have the same."""
        kinds = {side.kind for side in sides}
        kind = Kind.NUMBER
        if kinds <= NUMERIC:
            kind = kinds.pop() if len(kinds) == 1 else Kind.NUMBER
            if kind is Kind.NUMBER and Kind.FLOAT in {side.kind for side in sides}:
                kind = Kind.FLOAT
        dtypes = {side.dtype for side in sides}
        return Sort(kind, dtypes.pop() if len(dtypes) == 1 else "", shape)

    def _loaded(self, op: Op) -> Sort:
        base = self.of(op.inputs[0]) if op.inputs else OPEN
        shape = (
            base.shape if op.kind == OpKind.LOAD and op.operand("boundary_check") is None else None
        )
        if op.kind == OpKind.LOAD_TILE:
            shape = self._extents(op.operand("shape"))
        return Sort(Kind.NUMBER, shape=shape)

    def _extents(self, value: str | None) -> Shape:
        items = self.values.items(value)
        if value is None or items == (value,):
            return None
        return tuple(str(self.values.expr(item)) for item in items)

    def _reduced(self, op: Op) -> Sort:
        base = self.of(op.inputs[0]) if op.inputs else OPEN
        if op.operand("return_indices") is not None or op.kind == OpKind.REDUCE:
            return OPEN
        axis = self.values.literal(op.operand("axis"))
        keep = self.values.literal(op.operand("keepdims"))
        shape: Shape = None
        plain = isinstance(axis, int) and not isinstance(axis, bool)
        if plain and base.shape is not None and (keep is None or isinstance(keep, bool)):
            rank, place = len(base.shape), int(axis or 0)
            known = op.operand("keepdims") is None or keep is not None
            if known and -rank <= place < rank:
                place %= rank
                middle = ("1",) if keep else ()
                shape = base.shape[:place] + middle + base.shape[place + 1 :]
        return Sort(Kind.NUMBER, shape=shape)

    def _constant(self, op: Op) -> Sort:
        value = op.attribute("value")
        if isinstance(value, bool):
            return Sort(Kind.BOOL, shape=())
        if isinstance(value, int | float):
            return Sort(Kind.INT if isinstance(value, int) else Kind.FLOAT, shape=())
        return Sort(Kind.TEXT if isinstance(value, str) else Kind.NONE)

    def _cast(self, op: Op) -> Sort:
        base = self.of(op.inputs[0]) if op.inputs else OPEN
        return replace(self._of_dtype(op.operand("dtype")), shape=base.shape)

    def _of_dtype(self, value: str | None) -> Sort:
        """A number of the dtype that a value names; open when it may name a pointer."""
        node = self.graph.producer(value)
        while node is not None and node.op.kind == OpKind.COPY:
            node = self.graph.producer(node.op.inputs[0])
        if node is None:
            return OPEN
        if node.op.kind == OpKind.POINTER_TYPE:
            return Sort(Kind.MEMORY)
        if node.op.kind in (OpKind.DTYPE_OF, OpKind.ATTRIBUTE):
            named = node.op.kind == OpKind.DTYPE_OF or self._names_element(node)
            return Sort(Kind.NUMBER) if named else OPEN
        return dtype_sort(str(node.op.attribute("name"))) if node.op.kind == OpKind.DTYPE else OPEN

    def _names_element(self, node: Node) -> bool:
        """True for the element type of what a pointer type points to."""
        below = self.graph.producer(node.op.inputs[0]) if node.op.inputs else None
        return below is not None and below.op.kind == OpKind.DTYPE_OF

    def _filled(self, op: Op) -> Sort:
        named = op.operand("dtype")
        sort = self._of_dtype(named) if named is not None else Sort(Kind.NUMBER)
        return replace(sort, shape=self._extents(op.operand("shape")))

    def _arange(self, op: Op) -> Sort:
        node = self.graph.producer(op.result)
        named = op.operand("dtype")
        sort = self._of_dtype(named) if named is not None else Sort(Kind.INT, "i32")
        lanes = self.values.expr(op.result).atoms() if node is not None else ()
        lane = next((a for a in lanes if a.args and a.kind == "lane"), None)
        return replace(sort, shape=(str(lane.args[0]),) if lane is not None else None)

    def _viewed(self, op: Op) -> Sort:
        base = self.of(op.inputs[0]) if op.inputs else OPEN
        node = self.graph.producer(op.result)
        shape: Shape = None
        if node is not None and op.kind in (OpKind.RESHAPE, OpKind.BROADCAST_TO):
            items = self.values.shape_items(node)
            single = len(items) == 1 and self.of(items[0]).kind not in NUMERIC
            shape = None if single else tuple(str(self.values.expr(i)) for i in items)
            shape = shape if shape is None or "-1" not in shape else None
        return Sort(base.kind, base.dtype, shape)

    def _turned(self, op: Op) -> Sort:
        base = self.of(op.inputs[0]) if op.inputs else OPEN
        shape = base.shape
        if op.kind == OpKind.TRANSPOSE and len(op.operands) == 1 and shape and len(shape) == 2:
            return Sort(base.kind, base.dtype, (shape[1], shape[0]))
        return Sort(base.kind, base.dtype)

    def _expanded(self, op: Op) -> Sort:
        base = self.of(op.inputs[0]) if op.inputs else OPEN
        axis = self.values.literal(op.operand("axis"))
        if base.shape is None or not isinstance(axis, int):
            return Sort(base.kind, base.dtype)
        place = axis % (len(base.shape) + 1)
        shape = (*base.shape[:place], "1", *base.shape[place:])
        return Sort(base.kind, base.dtype, shape)

    def _subscript(self, op: Op) -> Sort:
        base = self.of(op.inputs[0]) if op.inputs else OPEN
        if not is_view(op) or base.kind is Kind.TUPLE:
            return OPEN
        parts = str(op.attribute("pattern")).split(",")
        taken = sum(part == ":" for part in parts)
        if base.shape is None or "..." in parts or "" in parts or taken != len(base.shape):
            return Sort(base.kind, base.dtype)
        kept = iter(base.shape)
        shape = tuple("1" if part == "None" else next(kept) for part in parts)
        return Sort(base.kind, base.dtype, shape)

    def _chosen(self, op: Op) -> Sort:
        sides = [self.of(op.operand("x")), self.of(op.operand("y"))]
        shape = self._shape(op.inputs)
        if all(side.numeric for side in sides):
            return self._joined(sides, shape)
        same = sides[0].kind is sides[1].kind
        return Sort(sides[0].kind if same else Kind.OPEN, shape=shape)

    def _contracted(self, op: Op) -> Sort:
        left, right = self.of(op.operand("lhs")).shape, self.of(op.operand("rhs")).shape
        shape: Shape = None
        if left and right and len(left) == len(right) == 2:
            shape = (left[0], right[1])
        return Sort(Kind.NUMBER, shape=shape)


def _falls_through(region: Region) -> bool:
    last = region.terminator
    return last is not None and last.kind == OpKind.YIELD


def _leaves(region: Region) -> bool:
    """True when a loop may end or go on from inside a branch."""
    pending = list(region.ops)
    for op in pending:
        if op.kind in (OpKind.BREAK, OpKind.CONTINUE):
            return True
        if op.kind not in (OpKind.FOR, OpKind.WHILE):
            pending += [inner for r in op.regions for inner in r.ops]
    return False


_PARAMETERS = {
    ParameterKind.SCALAR: Sort(Kind.NUMBER, shape=()),
    ParameterKind.ARRAY: Sort(Kind.MEMORY),
}
_RULES: dict[OpKind, Callable[[Sorts, Op], Sort]] = {
    OpKind.CONST: Sorts._constant, OpKind.CAST: Sorts._cast, OpKind.BITCAST: Sorts._cast,
    OpKind.FULL: Sorts._filled, OpKind.ZEROS: Sorts._filled, OpKind.ONES: Sorts._filled,
    OpKind.ARANGE: Sorts._arange, OpKind.SELECT: Sorts._chosen, OpKind.MMA: Sorts._contracted,
    OpKind.MATMUL: Sorts._contracted, OpKind.TRANSPOSE: Sorts._turned,
    OpKind.PERMUTE: Sorts._turned, OpKind.EXPAND_DIMS: Sorts._expanded,
    OpKind.SUBSCRIPT: Sorts._subscript,
    **dict.fromkeys((OpKind.RESHAPE, OpKind.BROADCAST_TO, OpKind.RAVEL), Sorts._viewed),
}  # fmt: skip

"""Integer meaning of every value of a program: over parameters, block ids, loop variables and
lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kb.analysis import symbolic as s
from kb.analysis.bits import masked, together
from kb.analysis.fold import fold
from kb.analysis.graph import Graph, Node, is_view
from kb.analysis.lanes import relane
from kb.analysis.of_types import compiled_in
from kb.analysis.record_fields import field_of
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.analysis.trips import advanced, parted, trips
from kb.ir import Literal, Region
from kb.ops import COMPARISONS, READS, OpKind

_SAME = frozenset(
    {OpKind.COPY, OpKind.CAST, OpKind.BUILTIN, OpKind.MULTIPLE_OF, OpKind.MAX_CONTIGUOUS,
     OpKind.MAX_CONSTANCY, OpKind.ASSUME_DIVISIBLE, OpKind.BROADCAST_TO, OpKind.BROADCAST,
     OpKind.ITEM, OpKind.POS, OpKind.RAVEL}
)  # fmt: skip
_LOGIC = frozenset({OpKind.NOT, OpKind.AND, OpKind.OR}) | COMPARISONS
_TURNED = frozenset({OpKind.TRANSPOSE, OpKind.PERMUTE})
_OF_OUTER = (OpKind.MUL, OpKind.ADD, OpKind.SUB, OpKind.FLOOR_DIV)
_STEPS = frozenset({OpKind.ADD, OpKind.SUB, OpKind.ADVANCE, OpKind.COPY})


@dataclass(eq=False, slots=True)
class Values:
    """Expressions, literals and tuples of a program, computed once in program order."""

    graph: Graph
    exprs: dict[str, Expr] = field(default_factory=dict)
    literals: dict[str, Literal] = field(default_factory=dict)
    tuples: dict[str, tuple[str, ...]] = field(default_factory=dict)
    chosen: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    increments: dict[str, Expr] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)
    items_of_rounds: dict[int, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for parameter in self.graph.function.parameters:
            name = parameter.name
            self.exprs[name] = s.of(Atom(name, AtomKind.PARAMETER, value=name))
        self._region(self.graph.function.body)

    def expr(self, value: str | None) -> Expr:
        """Integer meaning of a value; an opaque atom when nothing is known."""
        if value is None:
            return s.ZERO
        found = self.exprs.get(value)
        if found is None:
            return s.of(Atom(f"value({value})", AtomKind.OPAQUE, value=value))
        return found

    def literal(self, value: str | None) -> Literal:
        """The constant that a value is, None when it is not one."""
        return self.literals.get(value) if value is not None else None

    def items(self, value: str | None) -> tuple[str, ...]:
        """Elements of a tuple value; a value that is no tuple is its own only element."""
        return () if value is None else self.tuples.get(value, (value,))

    def compile_time(self, expr: Expr) -> bool:
        """True when an expression needs nothing but constexpr parameters and what types give."""
        kinds = {p.name: p.kind for p in self.graph.function.parameters}
        return all(compiled_in(self.graph, a, kinds) for a in expr.atoms() if not a.args)

    # -- evaluation in program order

    def _region(self, region: Region) -> None:
        for op in region.ops:
            if not op.results:
                self._bare(op.regions, op.kind)
                continue
            node = self.graph.defs.get(op.results[0].name)
            if node is None or node.op is not op:
                continue
            if op.kind in (OpKind.FOR, OpKind.WHILE):
                self._loop(node)
            elif op.regions:
                for inner in op.regions:
                    self._region(inner)
                self._branch(node)
            else:
                self._plain(node)

    def _bare(self, regions: tuple[Region, ...], kind: str) -> None:
        """Regions of an operation without results; arguments of a loop still need a meaning."""
        for inner in regions:
            if kind == OpKind.FOR and inner.arguments:
                self._induction(inner.arguments[0].name)
            self._region(inner)

    def _induction(self, name: str) -> None:
        atom = Atom(f"step{len(self.exprs)}", AtomKind.INDUCTION, value=name)
        self.exprs[name] = s.of(atom)

    def _loop(self, node: Node) -> None:
        body = node.op.regions[-1]
        counted = node.op.kind == OpKind.FOR
        if counted and body.arguments:
            self._induction(body.arguments[0].name)
        count = s.of(Atom(f"count{node.index}", AtomKind.COUNT, value=node.result))
        carried = body.arguments[1:] if counted else body.arguments
        inits = self.graph.inits(node)
        for argument, init, next_ in zip(carried, inits, self.graph.handed(node), strict=False):
            step = self._step(argument.name, next_, node)
            if step is not None and init in self.exprs:
                self.increments[argument.name] = step
                product = s.mul(count, step)
                if product is not None:
                    self.exprs[argument.name] = s.add(self.exprs[init], product)
        for inner in node.op.regions:
            self._region(inner)
        for argument, init, result in zip(carried, inits, node.op.results, strict=False):
            step = self.increments.get(argument.name)
            if step is not None and not parted(self.graph, result.name):
                grown = s.mul(trips(self.graph, node, self.expr), step)
                if grown is not None:
                    self.exprs[result.name] = s.add(self.exprs[init], grown)

    def _step(self, argument: str, next_: str, loop: Node) -> Expr | None:
        """What a carried integer grows by in every round; None when that changes."""
        total = s.ZERO
        value = next_
        for _ in range(16):
            if value == argument:
                return total
            value = advanced(self.graph, value, argument, loop) or value
            node = self.graph.producer(value)
            if node is None or node.op.kind not in _STEPS:
                return None
            if node.op.kind == OpKind.COPY:
                value = node.op.inputs[0]
                continue
            left, right = node.op.inputs[:2]
            less = node.op.kind == OpKind.SUB
            grows = right if less or self._from(left, argument) else left
            value = left if grows == right else right
            term = self._outer(grows, loop)
            if term is None:
                return None
            total = s.sub(total, term) if less else s.add(total, term)
        return None

    def _from(self, value: str, argument: str) -> bool:
        for _ in range(16):
            if value == argument:
                return True
            node = self.graph.producer(value)
            if node is None or node.op.kind not in _STEPS:
                return False
            value = node.op.inputs[0]
        return False

    def _outer(self, value: str, loop: Node) -> Expr | None:
        """Meaning of a value known before the loop, or of a product of such values in it."""
        node = self.graph.producer(value)
        if value in self.exprs and (node is None or not node.inside(loop)):
            return self.exprs[value]
        if node is None:
            return None
        if node.op.kind == OpKind.CONST:
            constant = node.op.attribute("value")
            return s.number(constant) if isinstance(constant, int) else None
        if node.op.kind == OpKind.ATTRIBUTE:
            return self._field(node)
        if node.op.kind == OpKind.SIZE_OF:
            return self._size(node)
        if node.op.kind in (*_OF_OUTER, OpKind.CAST, OpKind.COPY):
            parts = node.op.inputs[: 2 if node.op.kind in _OF_OUTER else 1]
            known = [part for v in parts if (part := self._outer(v, loop)) is not None]
            if len(known) == len(parts):
                return known[0] if len(known) == 1 else _ARITHMETIC[node.op.kind](*known)
            return None
        if node.op.kind == OpKind.NEG:
            part = self._outer(node.op.inputs[0], loop)
            return s.sub(s.ZERO, part) if part is not None else None
        return self._chosen(value, node, loop) if node.op.kind == OpKind.IF_EXPRESSION else None

    def _chosen(self, value: str, node: Node, loop: Node) -> Expr | None:
        """A choice that falls the same way in every iteration, between values known before."""
        ends = self.graph.feeds(value)
        known = [end for v in ends if (end := self._outer(v, loop)) is not None]
        if not known or len(known) != len(ends) or not self._settled(node.op.inputs[0], loop):
            return None
        return s.choice(known, value)

    def _settled(self, condition: str, loop: Node) -> bool:
        """True for a condition on values that are known before the loop."""
        node = self.graph.producer(condition)
        if node is not None and node.inside(loop) and node.op.kind in _LOGIC:
            return all(self._settled(v, loop) for v in node.op.inputs)
        return self._outer(condition, loop) is not None

    def _branch(self, node: Node) -> None:
        """A branch gives what both sides give, else a choice between them."""
        for position, result in enumerate(node.op.results):
            ends = [
                self.graph.handed(node, region)[position : position + 1]
                for region in range(len(node.op.regions))
            ]
            values = [self.expr(end[0]) for end in ends if end]
            items = [self.tuples.get(end[0]) for end in ends if end]
            if items and items[0] is not None and len(set(items)) == 1:
                self.tuples[result.name] = items[0]
            self.chosen[result.name] = [item for item in items if item]
            if values:
                self.exprs[result.name] = s.choice(values, result.name)

    def _plain(self, node: Node) -> None:
        op = node.op
        if (literal := fold(op, self.literals)) is not None:
            self.literals[node.result] = literal
            if isinstance(literal, int) and not isinstance(literal, bool):
                self.exprs[node.result] = s.number(literal)
                return
        if op.kind in (OpKind.TUPLE, OpKind.LIST):
            self.tuples[node.result] = op.inputs
        elif op.kind == OpKind.UNPACK:
            self._unpack(node)
        else:
            found = self._meaning(node)
            if found is not None:
                self.exprs[node.result] = found

    def _unpack(self, node: Node) -> None:
        source = node.op.inputs[0]
        items = self.tuples.get(source)
        sides = self.chosen.get(self.graph.core(source) or source, ())
        sides = [side for side in sides if len(side) == len(node.op.results)]
        for position, result in enumerate(node.op.results):
            if items is None and sides:
                ends = [self.expr(side[position]) for side in sides]
                self.exprs[result.name] = s.choice(ends, result.name)
            elif items is not None and len(items) == len(node.op.results):
                self.exprs[result.name] = self.expr(items[position])
                if items[position] in self.tuples:
                    self.tuples[result.name] = self.tuples[items[position]]
                if items[position] in self.literals:
                    self.literals[result.name] = self.literals[items[position]]
            elif self.graph.kind_of(source) == OpKind.SHAPE:
                self.exprs[result.name] = self._extent(source, position)

    def _extent(self, shape: str, axis: int) -> Expr:
        node = self.graph.defs[shape]
        array = node.op.inputs[0]
        return s.of(Atom(f"{array}.shape[{axis}]", AtomKind.EXTENT, value=array))

    def _meaning(self, node: Node) -> Expr | None:
        op = node.op
        if op.kind in _ARITHMETIC:
            return _ARITHMETIC[op.kind](self.expr(op.inputs[0]), self.expr(op.inputs[1]))
        if op.kind in _SAME and op.inputs:
            return self.exprs.get(op.inputs[0])
        if op.kind in _TURNED and op.inputs:
            return relane(self.expr(op.inputs[0]), {-1: -2, -2: -1})
        if op.kind in READS:
            return s.of(Atom(f"loaded({node.result})", AtomKind.LOADED, value=node.result))
        special = _SPECIAL.get(op.kind)
        return special(self, node) if special is not None else None

    # -- operations with their own rule

    def _field(self, node: Node) -> Expr | None:
        name = field_of(self.graph, node.result)
        return s.of(Atom(name, AtomKind.PARAMETER, value=name)) if name is not None else None

    def _size(self, node: Node) -> Expr:
        """Bytes of a type: the same number wherever the kernel asks for it."""
        dtype = self.graph.core(node.op.inputs[0]) or ""
        same = (one for one, of in self.sizes.items() if of == dtype)
        first = next(same, node.result)
        self.sizes[first] = dtype
        return s.of(Atom(f"value({first})", AtomKind.OPAQUE, value=first))

    def _block(self, node: Node) -> Expr | None:
        given = node.op.operand("axis")
        axis = 0 if given is None else self.literal(given)
        if not isinstance(axis, int) or isinstance(axis, bool):
            return None  # No axis of a grid that is known here.
        kind = AtomKind.BLOCK if node.op.kind == OpKind.BLOCK_ID else AtomKind.BLOCKS
        return s.of(Atom(f"{'block' if kind is AtomKind.BLOCK else 'blocks'}({axis})", kind))

    def _threads(self, node: Node) -> Expr | None:
        axis = self.literal(node.op.operand("axis"))
        if node.op.kind == OpKind.THREAD_ID and axis is not None:
            return s.of(Atom(f"thread({axis})", AtomKind.OPAQUE, value=node.result))
        extent = s.of(Atom(f"threads({axis or 0})", AtomKind.EXTENT))
        return extent if node.op.kind == OpKind.BLOCK_THREADS else None

    def _tiles(self, node: Node) -> Expr | None:
        axis = self.literal(node.op.operand("axis"))
        shape = self.items(node.op.operand("shape"))
        array = node.op.operand("array")
        if not isinstance(axis, int) or axis >= len(shape):
            return None
        extent = s.of(Atom(f"{array}.shape[{axis}]", AtomKind.EXTENT, value=array or ""))
        return s.ceil_div(extent, self.expr(shape[axis]))

    def _arange(self, node: Node) -> Expr | None:
        start = node.op.operand("start")
        first = self.expr(start) if start is not None else s.ZERO
        size = s.second_half(s.sub(self.expr(node.op.operand("size")), first))
        lane = s.of(Atom(f"lane({size})[-1]", AtomKind.LANE, (size,), "-1"))
        return s.add(first, lane)

    def _partition(self, node: Node) -> Expr | None:
        """Where a layout puts an element of a thread: each thread has another place."""
        if node.op.attribute("what") not in ("coordinate", "offset"):
            return None
        part: Node | None = node
        while part is not None and part.op.operand("thread") is None:
            of = self.graph.producer(part.op.operand("x"))
            part = of if of is not None and of.op.kind == OpKind.PARTITION else None
        size = s.of(Atom(f"value({node.result})", AtomKind.OPAQUE, value=node.result))
        return s.of(Atom(f"lane({size})[-1]", AtomKind.LANE, (size,), "-1")) if part else None

    def _fill(self, node: Node) -> Expr | None:
        return self.expr(node.op.operand("value"))

    def _shift(self, node: Node) -> Expr | None:
        by = self.expr(node.op.inputs[1]).constant
        if by is None or not 0 <= by < 63:
            return None
        value, right = self.expr(node.op.inputs[0]), node.op.kind == OpKind.SHIFT_RIGHT
        return s.floor_div(value, s.number(1 << by)) if right else s.scale(value, 1 << by)

    def _select(self, node: Node) -> Expr | None:
        return s.choice([self.expr(node.op.operand(side)) for side in ("x", "y")], node.result)

    def _extremes(self, node: Node) -> Expr | None:
        kind = AtomKind.MINIMUM if node.op.kind == OpKind.MINIMUM else AtomKind.MAXIMUM
        return s.extreme(kind, [self.expr(v) for v in node.op.inputs[:2]])

    def _expand(self, node: Node) -> Expr | None:
        axis = self.literal(node.op.operand("axis"))
        base = self.expr(node.op.inputs[0])
        return relane(base, {-1: -2}) if axis in (1, -1) else base

    def _reshape(self, node: Node) -> Expr | None:
        """A reshape that only adds unit axes moves the lane to the axis that has its extent."""
        base = self.exprs.get(node.op.inputs[0])
        lanes = {a.text: a for a in base.atoms() if a.kind is AtomKind.LANE} if base else {}
        if base is None or len(lanes) != 1:
            return base
        shape = [self.expr(v) for v in self.shape_items(node)]
        lane = next(iter(lanes.values()))
        places = [i - len(shape) for i, extent in enumerate(shape) if extent == lane.args[0]]
        return relane(base, {int(lane.value): places[-1]}) if places else base

    def shape_items(self, node: Node) -> tuple[str, ...]:
        """Extents that a reshape or a fill asks for, written as one tuple or as several
        arguments."""
        given = tuple(value for role, value in node.op.operands if role == "shape")
        return self.items(given[0]) if len(given) == 1 else given

    def _subscript(self, node: Node) -> Expr | None:
        source = node.op.inputs[0]
        base = self.exprs.get(source)
        if is_view(node.op):
            parts = str(node.op.attribute("pattern")).split(",")
            kept = [i - len(parts) for i, part in enumerate(parts) if part != "None"]
            moves = {-(k + 1): place for k, place in enumerate(reversed(kept))}
            return relane(base, moves) if base is not None else None
        index = self.literal(node.op.operand("index"))
        if not isinstance(index, int):
            return None
        if source in self.tuples and -len(self.tuples[source]) <= index < len(self.tuples[source]):
            return self.expr(self.tuples[source][index])
        if self.graph.kind_of(source) == OpKind.SHAPE:
            return self._extent(source, index)
        if source in self.graph.function.parameter_names:
            part = f"{source}.{index}"
            return s.of(Atom(part, AtomKind.PARAMETER, value=part))
        return None


_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr | None]] = {
    OpKind.ADD: s.add, OpKind.SUB: s.sub, OpKind.MUL: s.mul, OpKind.FLOOR_DIV: s.floor_div,
    OpKind.CEIL_DIV: s.ceil_div, OpKind.MOD: s.mod, OpKind.ADVANCE: s.add, OpKind.BIT_AND: masked,
    OpKind.BIT_OR: together,
}  # fmt: skip
_SPECIAL: dict[str, Callable[[Values, Node], Expr | None]] = {
    OpKind.ATTRIBUTE: Values._field, OpKind.BLOCK_ID: Values._block,
    OpKind.NEG: lambda values, node: s.scale(values.expr(node.op.inputs[0]), -1),
    OpKind.NUM_BLOCKS: Values._block, OpKind.NUM_TILES: Values._tiles, OpKind.FULL: Values._fill,
    OpKind.BLOCK_THREADS: Values._threads, OpKind.THREAD_ID: Values._threads,
    OpKind.SHIFT_RIGHT: Values._shift, OpKind.ARANGE: Values._arange,
    OpKind.ZEROS: Values._fill, OpKind.SHIFT_LEFT: Values._shift, OpKind.SELECT: Values._select,
    OpKind.MINIMUM: Values._extremes, OpKind.MAXIMUM: Values._extremes,
    OpKind.EXPAND_DIMS: Values._expand, OpKind.RESHAPE: Values._reshape,
    OpKind.SUBSCRIPT: Values._subscript, OpKind.SIZE_OF: Values._size,
    OpKind.PARTITION: Values._partition,
}  # fmt: skip

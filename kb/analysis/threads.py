"""A thread-level program as one over tiles: what one thread does, read as what its block does.

A thread index becomes a range of lanes, so that everything computed from it is a tile. A loop that
strides by the number of threads walks chunks. Branches without loops become masks and selects. A
value exchanged by shuffles and combined is a reduction; shared memory hands on what was put there.
What is lost (the order of threads, banks, barriers) is for patterns that read the program itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kb.analysis.blocked_products import tile_product
from kb.analysis.exchanges import (
    combined_shuffle,
    in_order,
    over_elements,
    reducing_loop,
    runs_along,
)
from kb.analysis.graph import CASTS, COPIES, LOOPS, Graph
from kb.analysis.guarded import masked_load
from kb.analysis.pairs import plainly
from kb.analysis.registers import looks_only
from kb.analysis.shared import WARP, SharedMemory
from kb.analysis.values import Values
from kb.ir import Function, Kernel, Literal, Op, Region, Span, Value, walk
from kb.ops import ATOMICS, CONTRACTIONS, OWN_THREAD, READS, REDUCTIONS, WRITES, OpKind

MAX_OPS = 20_000
"""Operations of a program; one that has more is left as it is."""

_DROPPED = frozenset({OpKind.BARRIER, OpKind.FENCE, OpKind.ASYNC_COMMIT, OpKind.ASYNC_WAIT,
                      OpKind.PREFETCH, OpKind.ALLOCATE})  # fmt: skip
_PASSED = frozenset({OpKind.POINTER_CAST, OpKind.SHARED_ADDRESS, OpKind.EXTRACT})
_TOUCHING = READS | WRITES | ATOMICS
_ON_MEMORY = CONTRACTIONS | {OpKind.PERMUTE, OpKind.RESHAPE}
"""Operations that may take memory of the block in the place of a tile."""

_LEAVING = frozenset({OpKind.RETURN, OpKind.BREAK, OpKind.CONTINUE})


def as_tiles(kernel: Kernel) -> Kernel:
    """The program over tiles; the same program when it speaks of neither threads nor memory of a
    block."""
    ops = list(walk(kernel.entry.body))
    axes = {_axis(op, kernel) for op in ops if op.kind == OpKind.THREAD_ID}
    axes |= {0 for op in ops if op.kind in (OpKind.LANE_ID, OpKind.WARP_ID)}
    held = any(op.kind == OpKind.ALLOCATE for op in ops)
    if not (axes or held) or len(ops) > MAX_OPS:
        return kernel
    return replace(kernel, entry=_Rewriter(plainly(kernel.entry)).run(sorted(axes)))


def _axis(op: Op, kernel: Kernel) -> int:
    """Which thread index an operation asks for."""
    given = op.operand("axis")
    for other in walk(kernel.entry.body):
        if other.results and other.results[0].name == given:
            value = other.attribute("value")
            return value if isinstance(value, int) else 0
    return 0


@dataclass(slots=True)
class _Rewriter:
    """One rewriting: names of the program to names of the copy, masks of the branches around."""

    entry: Function
    graph: Graph = field(init=False)
    shared: SharedMemory = field(init=False)
    values: Values = field(init=False)
    names: dict[str, str] = field(default_factory=dict)
    lanes: set[str] = field(default_factory=set)
    masks: list[str] = field(default_factory=list)
    out: list[Op] = field(default_factory=list)
    threads: dict[int, tuple[str, str]] = field(default_factory=dict)
    fresh: int = 0

    def __post_init__(self) -> None:
        self.graph = Graph(self.entry)
        self.shared = SharedMemory(self.graph)
        self.values = Values(self.graph)

    def run(self, axes: list[int]) -> Function:
        """The rewritten function."""
        asks = self.graph.of(*OWN_THREAD)
        span = asks[0].op.span if asks else self.entry.span
        for place, axis in enumerate(axes):
            self.threads[axis] = self._lanes_of(axis, place, span)
        head, self.out = self.out, []
        body = self._region(self.entry.body)
        return replace(self.entry, body=replace(body, ops=(*head, *body.ops)))

    # -- building

    def name(self, value: str) -> str:
        """The name of a value in the copy."""
        return self.names.get(value, value)

    def emit(
        self,
        kind: OpKind,
        span: Span,
        *operands: tuple[str, str],
        attributes: tuple[tuple[str, Literal], ...] = (),
        result: str = "",
    ) -> str:
        """Add an operation; the name of its result."""
        self.fresh += 1
        made = result or f"%tile.{self.fresh}"
        self.out.append(Op(str(kind), operands, attributes, (Value(made),), (), span))
        if kind not in REDUCTIONS and any(value in self.lanes for _, value in operands):
            self.lanes.add(made)
        return made

    def constant(self, value: Literal, span: Span) -> str:
        """A literal."""
        return self.emit(OpKind.CONST, span, attributes=(("value", value),))

    def _lanes_of(self, axis: int, place: int, span: Span) -> tuple[str, str]:
        """Number of threads along an axis, and their indices as lanes, the first axis innermost."""
        number = self.constant(axis, span)
        count = self.emit(OpKind.BLOCK_THREADS, span, ("axis", number))
        lanes = self.emit(OpKind.ARANGE, span, ("size", count))
        for _ in range(place):
            at = self.constant(-1, span)
            lanes = self.emit(OpKind.EXPAND_DIMS, span, ("x", lanes), ("axis", at))
        self.lanes.add(lanes)
        return count, lanes

    # -- regions

    def _region(self, region: Region) -> Region:
        outer, self.out = self.out, []
        for op in region.ops:
            self._op(op)
        made, self.out = tuple(self.out), outer
        return Region(region.arguments, made)

    def _op(self, op: Op) -> None:
        if op.kind in (OpKind.THREAD_ID, OpKind.BLOCK_THREADS):
            self._thread(op)
        elif op.kind in (OpKind.LANE_ID, OpKind.WARP_ID):
            kind = OpKind.MOD if op.kind == OpKind.LANE_ID else OpKind.FLOOR_DIV
            size = self.constant(WARP, op.span)
            lanes = self.threads[min(self.threads)][1]
            self.names[op.result] = self.emit(kind, op.span, ("lhs", lanes), ("rhs", size))
        elif op.kind in LOOPS:
            self._loop(op)
        elif op.kind in (OpKind.IF, OpKind.IF_EXPRESSION):
            self._branch(op)
        elif op.kind in _DROPPED:
            return
        elif (access := self.shared.access_of(op)) is not None:
            self._access(access)
        elif self.shared.holds(op):
            self._handed_on(op)
        else:
            self._plain(op)

    def _thread(self, op: Op) -> None:
        value = self._known(op.operand("axis"))
        count, lanes = self.threads.get(value if isinstance(value, int) else 0, ("", ""))
        chosen = lanes if op.kind == OpKind.THREAD_ID else count
        if chosen:
            self.names[op.result] = chosen
        else:
            self._copied(op)

    def _known(self, value: str | None) -> Literal:
        node = self.graph.producer(value)
        return node.op.attribute("value") if node is not None else None

    def _handed_on(self, op: Op) -> None:
        """A load of shared memory is what was stored there; the stores themselves go."""
        if not op.results:
            return
        stored = [self.name(value) for value in self.shared.reaching(op, self.values)]
        if stored:
            operands = [("x", stored[0]), *(("also", value) for value in stored[1:])]
            for result in op.results:
                self.emit(OpKind.COPY, op.span, *operands, result=result.name)
        else:
            self._copied(op)

    def _plain(self, op: Op) -> None:
        if op.inputs and (op.kind in _PASSED or looks_only(self.graph, op)):
            self.emit(OpKind.COPY, op.span, ("x", self.name(op.inputs[0])), result=op.result)
        elif op.kind == OpKind.INSERT and op.operand("value"):
            value = self.name(op.operand("value") or "")
            self.emit(OpKind.COPY, op.span, ("x", value), result=op.result)
        elif op.kind in (OpKind.LOAD, OpKind.STORE) or op.kind in ATOMICS:
            self._access(op)
        elif op.kind in _ON_MEMORY:
            self._copied(self.shared.with_tiles(op))
        elif op.kind == OpKind.BITCAST and self._seen_anew(op):
            return
        elif (exchanged := combined_shuffle(self.graph, op)) is not None:
            self._reduced(exchanged[0], exchanged[1], op.results[0].name, op.span)
        elif op.kind in REDUCTIONS and op.inputs:
            given = op.operand("x") or op.inputs[0]
            self._reduced(OpKind(op.kind), given, op.results[0].name, op.span)
        elif op.kind == OpKind.SHUFFLE:
            moved = self.name(op.operand("x") or op.inputs[0])
            self.emit(OpKind.COPY, op.span, ("x", moved), result=op.results[0].name)
        else:
            self._copied(op)

    def _seen_anew(self, op: Op) -> bool:
        """Bits that are loaded or stored as another type: the access moves what they are seen as
        where they are computed with. False for other bits."""
        given = self.name(op.inputs[0])
        if all(n.op.kind == OpKind.STORE for n in self.graph.users(op.result)):
            self.names[op.result] = given
            return True
        kind = op.results[0].type
        if kind is None or len(self.graph.users(op.inputs[0])) != 1:
            return False
        for number, made in enumerate(reversed(self.out), 1):
            if made.results and made.results[0].name == given:
                if made.kind != OpKind.LOAD:
                    return False
                self.out[-number] = replace(made, results=(Value(given, kind),))
                self.names[op.result] = given
                return True
        return False

    def _copied(self, op: Op, regions: tuple[Region, ...] | None = None) -> None:
        operands = tuple((role, self.name(value)) for role, value in op.operands)
        regions = op.regions if regions is None else regions
        self.out.append(Op(op.kind, operands, op.attributes, op.results, regions, op.span))
        inits = [value for role, value in operands if role == "init"]
        rest = [value for role, value in operands if role != "init"]
        if op.kind not in REDUCTIONS and any(value in self.lanes for value in rest):
            self.lanes.update(result.name for result in op.results)
        begun = zip(inits, op.results, strict=False)
        self.lanes.update(result.name for value, result in begun if value in self.lanes)

    def _access(self, op: Op) -> None:
        """A load or store under the masks of the branches around it."""
        for mask in self.masks[-1:]:
            if op.operand("mask") is None:
                guarded = (*op.attributes, ("guarded", True))
                op = replace(op, operands=(*op.operands, ("mask", mask)), attributes=guarded)
        self._copied(op)

    def _reduced(self, kind: OpKind, value: str, result: str, span: Span) -> None:
        """A reduction over the threads; of what was reduced already, the same value."""
        given = self.name(value)
        before = self._made_by(given, kind)
        if before:
            self.emit(OpKind.COPY, span, ("x", before), result=result)
        else:
            self.emit(kind, span, ("x", given), result=result)

    def _made_by(self, value: str, kind: OpKind) -> str:
        """The reduction that a value is already, perhaps handed on or chosen for some lanes."""
        made = {result.name: op for op in self.out for result in op.results}
        pending = [value]
        for current in pending:
            op = made.get(current)
            if op is None or len(pending) > 64:
                continue
            if op.kind == kind:
                return current
            if op.kind in (OpKind.COPY, OpKind.SELECT, OpKind.CAST):
                pending += [v for role, v in op.operands if role != "condition"]
        return ""

    def _loop(self, op: Op) -> None:
        reducing = reducing_loop(self.graph, op)
        product = tile_product(self.graph, self.shared, op)
        if reducing:
            for kind, value, result in reducing:
                self._reduced(kind, value, result, op.span)
        elif product is not None:
            (left, right), (start, result) = in_order(self.values, product[:2], op), product[2:]
            sides = [self._operand(side, op, side is left) for side in (left, right)]
            roles = (("lhs", sides[0]), ("rhs", sides[1]), ("acc", self.name(start)))
            self.emit(OpKind.MMA, op.span, *roles, result=result)
        elif over_elements(self.graph, op):
            self._once(op)
        elif op.kind == OpKind.FOR and self._strided(op):
            return
        else:
            self._copied(op, tuple(self._region(region) for region in op.regions))

    def _once(self, op: Op) -> None:
        """A loop over the elements of a register tile: what is done with any one of them."""
        body = op.regions[-1]
        walked = self.graph.producer(op.inputs[0])
        if walked is not None and (first := walked.op.operand("low")):
            self.names[body.arguments[0].name] = self.name(first)
        for argument, init in zip(body.arguments[1:], op.inputs[1:], strict=False):
            self.names[argument.name] = self.name(init)
        for inner in body.ops[:-1]:
            self._op(inner)
        for result, end in zip(op.results, body.ops[-1].inputs, strict=False):
            self.names[result.name] = self.name(end)

    def _operand(self, load: Op, loop: Op, first: bool) -> str:
        """A tile as an operand of a product, turned when the sum runs along its other axis."""
        value = self.name(self.shared.latest(load))
        if runs_along(self.values, load, loop) is first:
            return value
        return self.emit(OpKind.TRANSPOSE, load.span, ("x", value))

    def _strided(self, op: Op) -> bool:
        """A loop that begins at the own thread: chunks from the common start, lanes added."""
        made = self.graph.producer(op.inputs[0])
        low = made.op.operand("low") if made is not None else None
        if made is None or low is None or self.name(low) not in self.lanes:
            return False
        start, lanes = self._apart(low, op.span)
        operands = tuple(
            (role, start if role == "low" else self.name(value)) for role, value in made.op.operands
        )
        walked = self.emit(OpKind(made.op.kind), made.op.span, *operands)
        body = op.regions[-1]
        outer, self.out = self.out, []
        own = self.emit(OpKind.ADD, op.span, ("lhs", body.arguments[0].name), ("rhs", lanes))
        self.names[body.arguments[0].name] = own
        for inner in body.ops:
            self._op(inner)
        made_body, self.out = Region(body.arguments, tuple(self.out)), outer
        rest = tuple((role, self.name(value)) for role, value in op.operands[1:])
        self.out.append(
            replace(
                op, operands=(("iterable", walked), *rest), regions=(*op.regions[:-1], made_body)
            )
        )
        return True

    def _apart(self, low: str, span: Span) -> tuple[str, str]:
        """The start of a strided loop as what all threads share and what is the thread's own."""
        made = self.graph.producer(self.graph.through(low, COPIES | CASTS))
        if made is not None and made.op.kind == OpKind.ADD:
            sides = [self.name(value) for value in made.op.inputs[:2]]
            common = [value for value in sides if value not in self.lanes]
            own = [value for value in sides if value in self.lanes]
            if len(common) == len(own) == 1:
                return common[0], own[0]
        return self.constant(0, span), self.name(low)

    def _branch(self, op: Op) -> None:
        inside = [inner for region in op.regions for inner in walk(region)]
        condition = self.name(op.inputs[0])
        touches = any(inner.kind in _TOUCHING for inner in inside)
        loops = [x for x in inside if x.kind in LOOPS and not over_elements(self.graph, x)]
        kept = any(x.kind in (_LEAVING | LOOPS if touches else _LEAVING) for x in inside)
        if kept or loops or condition not in self.lanes:
            self._copied(op, tuple(self._region(region) for region in op.regions))
            return
        ends: list[tuple[str, ...]] = []
        for number, region in enumerate(op.regions):
            ends.append(self._predicated(region, condition, bool(number), op.span))
        self._selected(op, condition, ends)

    def _predicated(
        self, region: Region, condition: str, negated: bool, span: Span
    ) -> tuple[str, ...]:
        """The operations of one side, their accesses masked; the values that it hands over."""
        touches = any(op.kind in _TOUCHING for op in walk(region))
        own = not touches or self._is_choice_of_lane(condition)
        if not own:
            mask = self.emit(OpKind.NOT, span, ("x", condition)) if negated else condition
            if self.masks:
                mask = self.emit(OpKind.AND, span, ("lhs", self.masks[-1]), ("rhs", mask))
            self.masks.append(mask)
        end: tuple[str, ...] = ()
        for inner in region.ops:
            if inner.kind == OpKind.YIELD:
                end = tuple(self.name(value) for value in inner.inputs)
            else:
                self._op(inner)
        if not own:
            self.masks.pop()
        return end

    def _is_choice_of_lane(self, condition: str) -> bool:
        """Whether a branch only lets one of several equal threads act."""
        made = next(
            (op for op in reversed(self.out) if op.results and op.results[0].name == condition),
            None,
        )
        return made is not None and made.kind == OpKind.EQ and condition in self.lanes

    def _selected(self, op: Op, condition: str, ends: list[tuple[str, ...]]) -> None:
        for place, result in enumerate(op.results):
            values = [end[place] for end in ends if place < len(end)]
            if len(values) == 2 and values[0] != values[1]:
                masked = masked_load(self.out, values)
                if masked:
                    self.names[result.name] = masked
                    continue
                roles = (("condition", condition), ("x", values[0]), ("y", values[1]))
                self.emit(OpKind.SELECT, op.span, *roles, result=result.name)
            elif values:
                self.names[result.name] = values[0]

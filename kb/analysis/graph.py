"""Def-use over a whole program, across nested regions: who makes a value, who reads it, what it
rests on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from kb.analysis.closure import reached
from kb.ir import Function, Op, Region
from kb.ops import OpKind

LOOPS = frozenset({OpKind.FOR, OpKind.WHILE})
COPIES = frozenset({OpKind.COPY, OpKind.BUILTIN, OpKind.MULTIPLE_OF, OpKind.MAX_CONTIGUOUS,
                    OpKind.MAX_CONSTANCY, OpKind.ASSUME_DIVISIBLE,
                    OpKind.CONVERT_LAYOUT})  # fmt: skip
VIEWS = COPIES | {
    OpKind.RESHAPE, OpKind.EXPAND_DIMS, OpKind.BROADCAST_TO, OpKind.BROADCAST, OpKind.ITEM,
    OpKind.RAVEL, OpKind.SUBSCRIPT,
}  # fmt: skip
CASTS = frozenset({OpKind.CAST})
TURNS = frozenset({OpKind.PERMUTE, OpKind.TRANSPOSE})

Lines = tuple[int, int]


@dataclass(eq=False, slots=True)
class Node:
    """An operation in its place: `parent` holds it in its region number `branch`, inside
    `loops`."""

    op: Op
    index: int
    parent: Node | None
    branch: int
    loops: tuple[Node, ...]
    last: int = 0
    """Place of the last operation inside."""

    @property
    def kind(self) -> str:
        """Which operation."""
        return self.op.kind

    @property
    def head(self) -> Lines:
        """The first line only; for operations that hold regions."""
        return self.op.span.head

    @property
    def lines(self) -> Lines:
        """First and last line."""
        return self.head if self.op.regions else self.op.span.lines

    @property
    def loop(self) -> Node | None:
        """The innermost loop around the operation."""
        return self.loops[-1] if self.loops else None

    @property
    def result(self) -> str:
        """Name of the first result, empty when there is none."""
        return self.op.results[0].name if self.op.results else ""

    def around(self) -> Iterator[Node]:
        """The operations in whose regions this one stands, innermost first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def inside(self, other: Node) -> bool:
        """True when the operation stands in a region of `other`, at any depth."""
        node = self.parent if other.index < self.index <= other.last else None
        while node is not None:
            if node is other:
                return True
            node = node.parent
        return False

    def excludes(self, other: Node) -> bool:
        """True when the two stand in different regions of one branch: only one of them runs."""
        mine = {(n.parent, n.branch) for n in (self, *self.around())}
        return any(
            one.parent is not None
            and one.parent.op.kind in (OpKind.IF, OpKind.IF_EXPRESSION)
            and (one.parent, 1 - one.branch) in mine
            for one in (other, *other.around())
        )


Stop = Callable[[Node], bool]
NodeSet = int
"""Nodes of one graph, a bit for each."""


@dataclass(eq=False, slots=True)
class Graph:
    """All nodes of a function with their uses."""

    function: Function
    nodes: list[Node] = field(default_factory=list)
    defs: dict[str, Node] = field(default_factory=dict)
    arguments: dict[str, tuple[Node, int, int]] = field(default_factory=dict)
    uses: dict[str, list[tuple[Node, str]]] = field(default_factory=dict)
    _feeds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _masks: dict[str, int] = field(default_factory=dict)
    _own: dict[str, int] = field(default_factory=dict)
    _of_kind: dict[str, list[Node]] = field(default_factory=dict)
    _of_kinds: dict[tuple[str, ...], list[Node]] = field(default_factory=dict)
    alone: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._add(self.function.body, None, 0, ())
        self._close()
        self.alone = dict(self._in_and_out())

    # -- structure

    def _add(
        self, region: Region, parent: Node | None, branch: int, loops: tuple[Node, ...]
    ) -> None:
        for op in region.ops:
            node = Node(op, len(self.nodes), parent, branch, loops)
            self.nodes.append(node)
            self._of_kind.setdefault(op.kind, []).append(node)
            for role, value in op.operands:
                self.uses.setdefault(value, []).append((node, role))
            for result in op.results:
                self.defs[result.name] = node
            inner = (*loops, node) if op.kind in LOOPS else loops
            for number, nested in enumerate(op.regions):
                for position, argument in enumerate(nested.arguments):
                    self.arguments[argument.name] = (node, number, position)
                self._add(nested, node, number, inner)
            node.last = len(self.nodes) - 1

    def within(self, node: Node) -> list[Node]:
        """The operations in the regions of one, at any depth, in program order."""
        return self.nodes[node.index + 1 : node.last + 1]

    def of(self, *kinds: str) -> list[Node]:
        """Nodes of the given kinds, in program order."""
        if len(kinds) == 1:
            return [*self._of_kind.get(kinds[0], ())]
        if kinds not in self._of_kinds:
            found = [node for kind in {*kinds} for node in self._of_kind.get(kind, ())]
            self._of_kinds[kinds] = sorted(found, key=lambda node: node.index)
        return [*self._of_kinds[kinds]]

    def producer(self, value: str | None) -> Node | None:
        """The operation whose result is `value`; None for parameters and region arguments."""
        return self.defs.get(value) if value is not None else None

    def users(self, value: str) -> list[Node]:
        """Operations that read `value`."""
        return [node for node, _ in self.uses.get(value, ())]

    def kind_of(self, value: str | None) -> str:
        """Kind of the operation that makes a value, empty when none does."""
        node = self.producer(value)
        return node.op.kind if node else ""

    # -- regions

    def handed(self, node: Node, region: int = -1) -> tuple[str, ...]:
        """Values that the end of a region hands over; empty when it leaves otherwise."""
        last = node.op.regions[region].terminator
        leaves = (OpKind.YIELD, OpKind.CONTINUE)
        return last.inputs if last is not None and last.kind in leaves else ()

    def inits(self, loop: Node) -> tuple[str, ...]:
        """First values of the carried variables of a loop."""
        return tuple(value for role, value in loop.op.operands if role == "init")

    def feeds(self, value: str) -> tuple[str, ...]:
        """The values that `value` directly rests on: operands, branch ends, first and next values
        of a carry."""
        found = self._feeds.get(value)
        if found is None:
            found = self._feeds[value] = self._compute_feeds(value)
        return found

    def _compute_feeds(self, value: str) -> tuple[str, ...]:
        node = self.defs.get(value)
        if node is not None:
            if not node.op.regions:
                return node.op.inputs
            position = next(i for i, r in enumerate(node.op.results) if r.name == value)
            return self._handed_at(node, position)
        held = self.arguments.get(value)
        if held is None:
            return ()
        loop, _, position = held
        if loop.op.kind == OpKind.FOR:
            if position == 0:
                return loop.op.inputs[:1]
            return self._handed_at(loop, position - 1)
        return self._handed_at(loop, position)

    def _handed_at(self, node: Node, position: int) -> tuple[str, ...]:
        found: list[str] = []
        if node.op.kind in LOOPS:
            found += self.inits(node)[position : position + 1]
            found += self.handed(node)[position : position + 1]
        else:
            for region in range(len(node.op.regions)):
                found += self.handed(node, region)[position : position + 1]
        return tuple(found)

    def _in_and_out(self) -> Iterator[tuple[str, str]]:
        """Tiles of one element that a computed number fills, and reductions that take it out, each
        with the value that it holds."""
        fills = [n for n in self.of(OpKind.FULL) if self._of_one(n.op.operand("shape"))]
        single = {n.result for n in fills}
        for node in (*self.of(*LOOPS), *self.of(OpKind.IF)) if fills else ():
            skipped = 1 if node.op.kind == OpKind.FOR else 0
            names = [a.name for r in node.op.regions for a in r.arguments][skipped:]
            for place, result in enumerate(node.op.results):
                begun = self.feeds(result.name)
                if {*(begun[:1] if node.op.kind in LOOPS else begun)} <= single:
                    single |= {result.name, *names[place : place + 1]}
        for node in fills:
            value = node.op.operand("value")
            if value is not None and self.kind_of(value) not in (OpKind.CONST, OpKind.NEG, ""):
                yield node.result, value
        for node in self.of(OpKind.REDUCE_SUM, OpKind.REDUCE_MAX, OpKind.REDUCE_MIN):
            if node.op.inputs[0] in single:
                yield node.result, node.op.inputs[0]

    def _of_one(self, shape: str | None) -> bool:
        """True for a shape whose extents are all written as 1, one or more."""
        made = self.producer(shape)
        items = made.op.inputs if made is not None and made.op.kind == OpKind.TUPLE else ()
        ones = [n is not None and n.op.attribute("value") == 1 for n in map(self.producer, items)]
        return bool(ones) and all(ones)

    # -- reach

    def _close(self) -> None:
        """Which nodes, and arguments of regions, every value rests on, as bit sets."""
        own = {value: 1 << node.index for value, node in self.defs.items()}
        places = enumerate(self.arguments, len(self.nodes))
        self._own = {value: 1 << at for at, value in places}
        self._masks = reached((*self.arguments, *self.defs), self.feeds, own | self._own)

    def rests_on(self, value: str | None, node: Node) -> bool:
        """True when `value` is computed from a result of `node`."""
        return value is not None and bool(self._masks.get(value, 0) >> node.index & 1)

    def rests_on_argument(self, value: str, argument: str) -> bool:
        """True when `value` is computed from an argument of a region, in whatever round."""
        own = self._own.get(argument)
        if own is None:  # What is no argument is all of its own bits, and of what it rests on.
            return not self._masks.get(argument, 0) & ~self._masks.get(value, 0)
        return bool(self._masks.get(value, 0) & own)

    def rests_on_any(self, value: str | None, nodes: NodeSet) -> bool:
        """True when `value` is computed from a result of one of several nodes."""
        return value is not None and bool(self._masks.get(value, 0) & nodes)

    def resting(self, value: str | None) -> NodeSet:
        """The nodes that `value` is computed from, its own among them."""
        return self._masks.get(value, 0) if value is not None else 0

    @staticmethod
    def node_set(nodes: Iterable[Node]) -> NodeSet:
        """Nodes to ask many values about."""
        return sum({1 << node.index for node in nodes})

    def roots(self, value: str | None, *kinds: str) -> list[Node]:
        """Nodes of the given kinds that `value` is computed from, in program order."""
        mask = self.resting(value)
        return [n for n in self.of(*kinds) if mask >> n.index & 1] if mask else []

    def upstream(
        self, value: str, stop: Stop | None = None, toward: NodeSet | None = None
    ) -> Iterator[Node]:
        """Nodes that `value` is computed from, nearest first; nothing above a node that `stop`
        accepts, and with `toward` only nodes that rest on one of those."""
        return self._above([value], stop, toward)

    def made_from(
        self, values: Iterable[str], nodes: Collection[Node], stop: Stop | None = None
    ) -> set[Node]:
        """Those of the nodes that one of the values is computed from, but for what lies above a
        node that `stop` accepts."""
        ways = self._above([*dict.fromkeys(values)], stop, self.node_set(nodes))
        return {*ways}.intersection(nodes)

    def _above(
        self, pending: list[str], stop: Stop | None, toward: NodeSet | None
    ) -> Iterator[Node]:
        masks = self._masks
        if toward is not None:
            pending = [value for value in pending if masks.get(value, 0) & toward]
        seen = set(pending)
        for current in pending:
            node = self.defs.get(current)
            if node is not None:
                yield node
                if stop is not None and stop(node):
                    continue
            for feed in self._feeds.get(current) or self.feeds(current):
                if feed not in seen:
                    seen.add(feed)
                    if toward is None or masks.get(feed, 0) & toward:
                        pending.append(feed)

    def downstream(self, value: str, limit: int = 4000) -> Iterator[Node]:
        """Nodes that use `value`, directly or through others, nearest first."""
        pending, seen = [value], {value}
        for current in pending:
            if len(seen) > limit:
                return
            for node in self.users(current):
                yield node
                for result in self.onward(node, current):
                    if result not in seen:
                        seen.add(result)
                        pending.append(result)

    def onward(self, node: Node, value: str) -> list[str]:
        """Values that a use of `value` hands on: results, or what a terminator hands to its
        region's owner."""
        if node.op.kind not in (OpKind.YIELD, OpKind.CONTINUE):
            return [r.name for r in node.op.results] + [
                a.name for region in node.op.regions for a in region.arguments
            ]
        owner = node.parent
        if owner is None:
            return []
        places = [i for i, name in enumerate(node.op.inputs) if name == value]
        found = [owner.op.results[i].name for i in places if i < len(owner.op.results)]
        if owner.op.kind in LOOPS:
            offset = 1 if owner.op.kind == OpKind.FOR else 0
            names = owner.op.regions[-1].arguments[offset:]
            found += [names[i].name for i in places if i < len(names)]
        return found

    def through(self, value: str | None, kinds: frozenset[OpKind]) -> str | None:
        """The value below a chain of operations that only look at it differently."""
        while value is not None:
            node = self.defs.get(value)
            if node is None or node.op.kind not in kinds or not node.op.inputs:
                if value not in self.alone or not kinds >= VIEWS:
                    return value
                value = self.alone[value]
                continue
            if node.op.kind == OpKind.SUBSCRIPT and not is_view(node.op):
                return value
            value = node.op.inputs[0]
        return None

    def ends(self, value: str | None, kinds: frozenset[OpKind]) -> list[Node]:
        """The operations below a chain that only looks at a value differently; of a branch, what
        each side hands on."""
        found: list[Node] = []
        pending = [value]
        seen: set[str] = set()
        while pending:
            below = self.through(pending.pop(), kinds)
            if below is None or below in seen:
                continue
            seen.add(below)
            node = self.producer(below)
            if node is not None and node.op.kind in (OpKind.IF, OpKind.IF_EXPRESSION):
                pending += reversed(self.feeds(below))
            elif node is not None:
                found.append(node)
        return found

    def plain(self, value: str | None) -> str | None:
        """The value below reshapes, broadcasts and copies."""
        return self.through(value, VIEWS)

    def core(self, value: str | None) -> str | None:
        """The value below reshapes, copies and casts."""
        return self.through(value, VIEWS | CASTS)


def is_view(op: Op) -> bool:
    """True for a subscript that only adds or keeps axes, such as `x[:, None]`."""
    parts = str(op.attribute("pattern")).split(",")
    return all(part in (":", "None", "...", "") for part in parts) and len(op.operands) == 1

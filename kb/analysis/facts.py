"""What patterns ask about one kernel, computed once: graph, values, types, loops, accesses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from kb.analysis.accesses import Access, AccessReader
from kb.analysis.blocked import blocked
from kb.analysis.exponentials import Exponential, exponentials_of
from kb.analysis.graph import CASTS, TURNS, VIEWS, Graph, Lines, Node, NodeSet
from kb.analysis.inline import inline
from kb.analysis.items import item_loops
from kb.analysis.loops import Loop, Role, loops_of, once, persistent
from kb.analysis.normal import normal
from kb.analysis.record_fields import struct_of
from kb.analysis.records_apart import records_apart
from kb.analysis.shared import SharedMemory
from kb.analysis.symbolic import AtomKind, Expr, nested, of
from kb.analysis.threads import as_tiles
from kb.analysis.types import Types
from kb.analysis.unrolled import unrolled
from kb.analysis.values import Values
from kb.ir import Kernel, ParameterKind, walk
from kb.ops import ATOMICS, CONTRACTIONS, OWN_THREAD, READS, REDUCTIONS, WRITES, OpKind

HELD = VIEWS | CASTS | TURNS | {OpKind.IF, OpKind.IF_EXPRESSION, OpKind.UNPACK, OpKind.TUPLE}
"""Operations that hand a loaded tile on without computing with it."""

_IN_REGISTERS = frozenset({OpKind.FOR, OpKind.VECTOR, OpKind.BITCAST})
"""Operations that put what a thread loaded into registers of its own, or see it otherwise."""

_WORK = READS | WRITES | ATOMICS | REDUCTIONS | CONTRACTIONS
"""Operations that touch memory or that go along an axis of a tile."""


def _read(node: Node) -> bool:
    return node.op.kind in READS


@dataclass(eq=False)
class Facts:
    """What is known of one kernel after its helpers are inlined."""

    kernel: Kernel
    given: Kernel = field(init=False)

    def __post_init__(self) -> None:
        self.given, self.kernel = self.kernel, records_apart(self.kernel)

    @cached_property
    def program(self) -> Kernel:
        """The kernel with its helpers inlined; what threads do is read as what their block does."""
        return as_tiles(self.source)

    @cached_property
    def source(self) -> Kernel:
        """The kernel with its helpers inlined, threads left as they are."""
        return normal(inline(self.kernel))

    @cached_property
    def graph(self) -> Graph:
        """Def-use of the inlined entry."""
        return Graph(self.program.entry)

    @cached_property
    def threads(self) -> Graph:
        """Def-use of the inlined entry as it is written: of one thread, where threads are named."""
        return self.graph if self.program is self.source else Graph(self.source.entry)

    @cached_property
    def of_threads(self) -> bool:
        """Whether the kernel is written for one thread, not for a tile of a block."""
        return bool(self.threads.of(*OWN_THREAD))

    @cached_property
    def values(self) -> Values:
        """Integer meaning of values."""
        return Values(self.graph)

    @cached_property
    def shared(self) -> SharedMemory:
        """Memory of the block, as its threads speak of it."""
        return SharedMemory(self.threads)

    @cached_property
    def thread_values(self) -> Values:
        """Integer meaning of the values of one thread."""
        return self.values if self.threads is self.graph else Values(self.threads)

    @cached_property
    def types(self) -> Types:
        """Types of values."""
        return Types(self.graph, self.values, self.kernel.dialect)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Loops in program order, but for those that only add up where accesses go."""
        found = self.thread_loops
        if self.threads is not self.graph:
            found = loops_of(self.graph, self.values)
        return tuple(loop for loop in found if not self._places(loop))

    @cached_property
    def thread_loops(self) -> tuple[Loop, ...]:
        """Every loop of the entry as it is written, in program order."""
        return loops_of(self.threads, self.thread_values)

    def _places(self, loop: Loop) -> bool:
        """True for rounds known when a kernel is compiled that touch no memory and give nothing
        that is stored, but the places of accesses."""
        made = loop.range
        if self.of_threads or made is None or made.op.kind != OpKind.STATIC_RANGE:
            return False
        if any(op.kind in _WORK for op in walk(loop.node.op.regions[-1])):
            return False
        stored = [a.value for a in self.stores if a.value is not None]
        return bool(self.stores) and not self.graph.made_from(stored, (loop.node,), _read)

    @cached_property
    def rolled_loops(self) -> tuple[Loop, ...]:
        """Loops that stay loops: all but branches written as loops, and those over elements that a
        thread unrolls completely."""
        found = (loop for loop in self.loops if not once(loop, self.values))
        if not self.of_threads:
            return tuple(found)
        return tuple(x for x in found if not unrolled(x, self.loops, self.accesses, self.graph))

    @cached_property
    def item_loops(self) -> tuple[Loop, ...]:
        """Loops over work items of one block: rows or tiles, one after the other."""
        found = item_loops(self.graph, self.values, self.loops)
        return tuple(loop for loop in found if not self._over_own_tile(loop))

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """Loads, stores and atomics in program order."""
        return AccessReader(self.graph, self.values).all()

    @cached_property
    def exponentials(self) -> tuple[Exponential, ...]:
        """Exponentials with their arguments taken apart."""
        return exponentials_of(self.graph, self.values)

    @cached_property
    def contractions(self) -> list[Node]:
        """Matrix products in program order."""
        return self.graph.of(*CONTRACTIONS)

    @cached_property
    def reductions(self) -> list[Node]:
        """Reductions in program order."""
        return self.graph.of(*REDUCTIONS)

    @cached_property
    def loads(self) -> list[Access]:
        """Accesses that read."""
        return [a for a in self.accesses if not a.is_store]

    @cached_property
    def stores(self) -> list[Access]:
        """Accesses that write, atomics included."""
        return [a for a in self.accesses if a.is_store]

    @cached_property
    def access_nodes(self) -> NodeSet:
        """Everything that reads or writes memory."""
        return self.graph.node_set(self._by_node)

    @cached_property
    def _by_node(self) -> dict[Node, Access]:
        return {a.node: a for a in self.accesses}

    @cached_property
    def constexprs(self) -> frozenset[str]:
        """Names of compile-time parameters."""
        return frozenset(
            p.name for p in self.kernel.entry.parameters if p.kind is ParameterKind.CONSTEXPR
        )

    @cached_property
    def tile_extents(self) -> frozenset[str]:
        """Parameters that are extents of tiles."""
        names = set(self.kernel.entry.parameter_names)
        results = (r.name for node in self.graph.nodes for r in node.op.results)
        return frozenset(e for name in results for e in self.types.shape(name) if e in names)

    @cached_property
    def offset_loads(self) -> frozenset[str]:
        """Loaded values that stand in the offset of an access."""
        offsets = (offset for access in self.accesses for offset in access.index)
        return frozenset(
            atom.value for o in offsets for atom in o.atoms() if atom.kind is AtomKind.LOADED
        )

    # -- questions

    def access(self, node: Node) -> Access | None:
        """The access that a node makes."""
        return self._by_node.get(node)

    def walks_chunk(self, loop: Loop) -> bool:
        """True when a loop goes through a contiguous chunk of work that the block id places."""
        return blocked(loop, self.values) and not self._over_own_tile(loop)

    def _one_result(self, loop: Loop) -> bool:
        """True for a range of one sum of products, or of one softmax: nothing is written before its
        end."""
        if not loop.of(Role.ACCUMULATOR, Role.RUNNING_MAXIMUM) or persistent(loop, self.values):
            return False
        return not any(a.is_store and a.node.inside(loop.node) for a in self.accesses)

    def _within_row(self, loop: Loop) -> bool:
        """True for one of several loops in large steps over the same neighbours, of which one sums
        them up: they are one row."""
        if not self._over_neighbours(loop):
            return False
        same = [one for one in self.loops if self._range(one) == self._range(loop)]
        same = [one for one in same if self._over_neighbours(one)]
        sums = [one for one in same if one.of(Role.SUM)]
        stored = [a.node for a in self.stores]
        return len(same) > 1 and any(not any(n.inside(s.node) for n in stored) for s in sums)

    def _range(self, loop: Loop) -> tuple[Expr, ...]:
        return tuple(self.values.expr(v) for v in (loop.low, loop.high) if v is not None)

    def _over_neighbours(self, loop: Loop) -> bool:
        """True when lanes beside the loop's own position, which nothing multiplies, are all that
        every access has of the loop; a step of one goes over whole rows or tiles."""
        at = self.values.expr(loop.induction).atom if loop.induction is not None else None
        if at is None or loop.step is None or self.values.expr(loop.step).constant == 1:
            return False
        inside = [a for a in self.accesses if a.node.inside(loop.node)]
        return bool(inside) and all(
            index.has(AtomKind.LANE) and index.coefficient(at).constant == 1
            for a in inside
            for index in a.index
        )

    def _over_own_tile(self, loop: Loop) -> bool:
        """True for what is summed over the piece of an axis that is the block's own; or over the
        positions of its own tile, as on the diagonal of a mask: an access outside of the loop
        begins where the loop begins."""
        if self._one_result(loop) or self._within_row(loop):
            return True
        if loop.low is None or not any(p.inside(loop.node) for p in self.contractions):
            return False
        starts = [
            (set(factors), number)
            for expr in nested(self.values.expr(loop.low))
            for part in (expr, *(a.args[0] for a in expr.top() if a.kind is AtomKind.FLOOR_DIV))
            for whole in nested(part)
            for factors, number in whole.terms
            if any(of(atom).has(AtomKind.BLOCK) for atom in factors)
            and (len(factors) > 1 or number != 1)
        ]
        places = [
            (set(factors), number)
            for access in self.accesses
            if not access.node.inside(loop.node)
            for index in access.starts
            for factors, number in index.terms
        ]
        return any(n == m and start <= place for start, n in starts for place, m in places)

    def loop(self, node: Node | None) -> Loop | None:
        """The loop whose node this is."""
        return next((loop for loop in self.loops if loop.node is node), None)

    def held_loads(self, value: str | None) -> list[Access]:
        """The loads whose tile `value` is, perhaps reshaped, cast or turned, but not computed
        with; of threads also what a loop puts into registers."""
        if value is None:
            return []
        found = []
        kinds = HELD | _IN_REGISTERS if self.of_threads else HELD
        for node in self.graph.upstream(value, lambda n: n.op.kind not in kinds, self.access_nodes):
            access = self._by_node.get(node)
            if access is not None and not access.is_store:
                found.append(access)
        return found

    def scaled_loads(self, value: str | None) -> list[Access]:
        """The same, where the tile may have been multiplied by numbers or by other tiles: the loads
        of tiles of two axes."""
        if value is None:
            return []
        stops = HELD | {OpKind.MUL, OpKind.ADD}
        found = [
            self._by_node.get(node)
            for node in self.graph.upstream(value, lambda n: n.op.kind not in stops)
        ]
        loads = [a for a in found if a is not None and not a.is_store]
        return [a for a in loads if len(set(self.types.shape(a.value)) - {"1"}) > 1]

    def turned(self, value: str | None) -> Node | None:
        """The transpose between a load and `value`, None when there is none."""
        if value is None:
            return None
        for node in self.graph.upstream(value, lambda n: n.op.kind not in HELD):
            if node.op.kind in TURNS:
                return node
        return None

    def feeding(self, value: str | None) -> list[Access]:
        """Every load that `value` is computed from."""
        below = self.graph.resting(value) & self._load_nodes
        return [a for a in self.loads if below >> a.node.index & 1] if below else []

    @cached_property
    def _load_nodes(self) -> NodeSet:
        return self.graph.node_set(a.node for a in self.loads)

    def stored_in(self, value: str | None, nodes: Iterable[Access] | None = None) -> list[Access]:
        """Stores whose stored value is computed from `value`."""
        node = self.graph.producer(value)
        chosen = self.stores if nodes is None else list(nodes)
        return [a for a in chosen if node is not None and self.graph.rests_on(a.value, node)]

    @cached_property
    def score_products(self) -> list[Node]:
        """Products whose result goes through an exponential without being one: the scores of an
        attention."""
        scores = [
            e.score
            for e in self.exponentials
            if not e.rescale and e.score and self._weighs(e.node) and not self._counted_up(e.node)
        ]
        return [
            product
            for product in self.contractions
            if any(self._reaches(score, product) for score in scores)
        ]

    def _weighs(self, power: Node) -> bool:
        """True when exponentials are added up or multiplied as a tile; those of an activation are
        stored."""
        taken = (*self.reductions, *self.contractions)
        return any(self.graph.rests_on(v, power) for n in taken for v in n.op.inputs)

    def _counted_up(self, power: Node) -> bool:
        """True when a number is added to an exponential: a logistic function, no probability."""
        users = {n for n in self.graph.users(power.result) if n.op.kind in (OpKind.ADD, OpKind.SUB)}
        return any(self.number(v) is not None for user in users for v in user.op.inputs[:2])

    def number(self, value: str) -> float | None:
        """The number that a value is, or that a tile is filled with; None for anything else."""
        core = self.graph.core(value)
        node = self.graph.producer(core)
        if node is not None and node.op.kind == OpKind.FULL:
            core = self.graph.core(node.op.operand("value"))
        found = self.values.literal(core)
        return found if isinstance(found, int | float) else None

    def _reaches(self, score: str, product: Node) -> bool:
        """True when a score is computed from a product by elementwise steps only."""
        ends = CONTRACTIONS | REDUCTIONS
        return bool(self.graph.made_from([score], (product,), lambda n: n.op.kind in ends))

    def accumulators(self) -> list[tuple[Loop, str]]:
        """Loops with the results of their accumulators."""
        return [(loop, c.result) for loop in self.loops for c in loop.of(Role.ACCUMULATOR)]

    def declared(self, *names: str) -> list[Lines]:
        """Lines of the kernel's file that declare parameters of the given names, or of which they
        are fields, in the kernel and in helpers that they are handed to under the same name."""
        entry = self.kernel.entry
        wanted = {struct_of(entry, name) or name for name in names}
        given = [p for one in self.kernel.functions for p in one.parameters if p.name in wanted]
        return [p.span.lines for p in given if p.span.line > 0 and p.span.path == entry.span.path]

    def checked(self, access: Access) -> bool:
        """True when nothing turns the check of an access against the bounds of its array off."""
        return access.check_bounds is None or self.flag(access.check_bounds)

    def flag(self, value: str | None) -> bool:
        """True when an operand is the constant True."""
        return self.values.literal(value) is True

    def guards(self, node: Node) -> list[Node]:
        """The branches around a node, innermost first."""
        found, current = [], node.parent
        while current is not None:
            if current.op.kind == OpKind.IF:
                found.append(current)
            current = current.parent
        return found

    def spans(self, *nodes: Node | Access | None) -> tuple[Lines, ...]:
        """Line ranges of nodes, sorted, without repeats; those of the file that most of them are
        in."""
        chosen = [n.node if isinstance(n, Access) else n for n in nodes if n is not None]
        return tuple(sorted({node.lines for node in chosen if node.op.span.line > 0}))

"""A tile that does not change with the work item is loaded once, or again for every item."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT_PERSISTENT, TILE, vary
from extractors.patterns.cases_kept import BIASED, COLUMN_TILES, COLUMNS, SLOTS, WALKED
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_rows import (
    LAYER_NORM_POINTER,
    NORM_BACKWARD,
    NORM_PERSISTENT,
    SOFTMAX,
)
from extractors.patterns.cases_rows_pointer import NORM_PERSISTENT_POINTER
from extractors.patterns.cases_rows_threads import NORM_PERSISTENT_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from extractors.patterns.cases_walks import GROUP
from extractors.patterns.multi_problem_walk import GROUPED_POINTER
from kb.analysis.accesses import Access
from kb.analysis.blocked import blocked
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.hoisted import (
    in_registers,
    of_every_block,
    prepared,
    staged,
    still_in_rounds,
    walked_again,
)
from kb.analysis.loops import Loop, Role, persistent
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import COMPARISONS, READS, OpKind

_INSIDE = vary(
    NORM_PERSISTENT,
    (
        "    g = ct.astype(ct.load(w, index=(0,), shape=(TN,), padding_mode=ct.PaddingMode.ZERO), ct.float32)\n",  # noqa: E501
        "",
    ),
    (
        "        y = v * r *",
        "        g = ct.astype(ct.load(w, index=(0,), shape=(TN,)), ct.float32)\n        y = v * r *",  # noqa: E501
    ),
)
_STRIPS = (
    POINTER
    + """
@triton.jit
def strips(x, w, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    g = tl.load(w + at) * 1.0
    for i in range(n):
        v = tl.load(x + i * T * tl.num_programs(0) + at)
        tl.store(out + i * T * tl.num_programs(0) + at, v * g)
"""
)
_AGAIN = (
    ("    g = tl.load(w + at) * 1.0\n", ""),
    ("        v = ", "        g = tl.load(w + at)\n        v = "),
)


_TURNED = (
    TILE
    + """
@ct.kernel
def turn(q, k, c, qo, ko, H: Int, T: Int):
    i = ct.bid(0)
    r = ct.load(c, index=(i, 0, 0), shape=(1, 1, T))
    a = ct.load(q, index=(i, 0, 0), shape=(1, H, T))
    b = ct.load(k, index=(i, 0, 0), shape=(1, H, T))
    ct.store(qo, index=(i, 0, 0), tile=a * r)
    ct.store(ko, index=(i, 0, 0), tile=b * r)
"""
)
_ROWS = (
    POINTER
    + """
@triton.jit
def scale(x, rate, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    r = tl.load(rate + row)
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at < n)
        tl.store(out + row * n + at, v * r, mask=at < n)
"""
)
_HEADS = (
    POINTER
    + """
@triton.jit
def turn(q, k, c, n, T: tl.constexpr):
    row = tl.program_id(0)
    head = tl.program_id(1)
    at = tl.arange(0, T)
    r = tl.load(c + row * T + at)
    a = tl.load(q + (row * n + head) * T + at)
    b = tl.load(k + (row * n + head) * T + at)
    tl.store(q + (row * n + head) * T + at, a * r)
    tl.store(k + (row * n + head) * T + at, b * r)
"""
)
_RELOADED = vary(
    GROUPED_POINTER,
    ("            own = t", "            wide = tl.load(sizes + g)\n            own = t"),
)
_DESCRIBED = vary(
    GROUPED_POINTER,
    (
        "        while t",
        "        to = tl.make_tensor_descriptor(out, shape=[rows, wide * TN], strides=[wide * TN, 1], block_shape=[TM, TN])\n        while t",  # noqa: E501
    ),
    ("tl.store(out + at, tl.load(x + at, mask=m[:, None] < rows), mask=m[:, None] < rows)",
     "to.store([own // wide * TM, own % wide * TN], tl.load(x + at, mask=m[:, None] < rows))"),
)  # fmt: skip
_KEPT_SHARED = vary(
    WALKED,
    (
        "    for (int row",
        "    extern __shared__ float held[];\n"
        "    for (int i = threadIdx.x; i < n; i += blockDim.x) held[i] = w[i];\n"
        "    __syncthreads();\n    for (int row",
    ),
    ("* w[i]", "* held[i]"),
)
_KEPT_REGISTERS = vary(
    WALKED,
    ("    for (int row", "    float held[4];\n#pragma unroll\n"
     "    for (int j = 0; j < 4; ++j) held[j] = w[threadIdx.x * 4 + j];\n    for (int row"),
    ("        for (int i = threadIdx.x; i < n; i += blockDim.x) {\n",
     "#pragma unroll\n        for (int j = 0; j < 4; ++j) {\n"
     "            int i = threadIdx.x * 4 + j;\n"),
    ("* w[i]", "* held[j]"),
)  # fmt: skip
_MOVING = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT)

_PER_ROUND = "load once per round of the outer loop"


class WeightHoisted(Pattern):
    """A load outside a loop over work items, or over parts of one that go their own ways, feeds
    what the loop stores; or one is loaded once for several arrays that are stored."""

    name = "weight-hoisted-out-of-the-persistent-loop"
    axis = "invariant_residency"
    source = "Aho et al., Compilers, loop-invariant code motion"
    matches = (
        Case(NORM_PERSISTENT, "load once per CTA"),
        Case(NORM_BACKWARD, "load once per CTA"),
        Case(_INSIDE, "reload per item"),
        Case(_STRIPS, "load once per CTA"),
        Case(vary(_STRIPS, *_AGAIN), "reload per item"),
        Case(NORM_PERSISTENT_POINTER, "load once per CTA"),
        Case(_TURNED, "load once per CTA"),
        Case(_HEADS, "load once per CTA"),
        Case(_ROWS, "load once per CTA"),
        Case(_RELOADED, "reload per item"),
        Case(_DESCRIBED, "once per problem"),
        Case(NORM_PERSISTENT_THREADS, "load once per CTA"),
        Case(WALKED, "reload per item"),
        Case(_KEPT_SHARED, "load once per CTA"),
        Case(_KEPT_REGISTERS, "load once per CTA"),
        Case(LAYER_NORM_POINTER, "reload per item"),
        Case(BIASED, "reload per item"),
        Case(SLOTS, "reload per item"),
        Case(vary(_HEADS, ("b * r", "a * r")), "reload per item"),
        Case(COLUMNS, "reload per item"),
        Case(COLUMN_TILES, "reload per item"),
        Case(vary(COLUMNS, ("load(w + at)", "load(w)")), "reload per item"),
        Case(vary(COLUMNS, ("w + at)", "w + at // 64)")), "reload per item"),
        Case(GROUP, _PER_ROUND),
    )
    near_misses = (
        NearMiss(
            vary(_KEPT_REGISTERS, ("= w[threadIdx.x * 4 + j]", "= threadIdx.x * 4.f + j")),
            why="nothing is loaded before",
        ),
        NearMiss(vary(COLUMNS, ("w + at", "w + own")), why="every block has its own"),
        NearMiss(vary(COLUMNS, ("w + at)", "w + own // 64)")), why="by both block ids"),
        NearMiss(
            vary(COLUMNS, ("tl.load(w + at))", "1.5, mask=at < tl.load(w))")),
            why="a number that says which lanes count",
        ),
        NearMiss(vary(BIASED, ("bias[threadIdx.x]", "bias[at]")), why="every block has its own"),
        NearMiss(vary(SLOTS, ("* k + s] *", "* k + s + i] *")), why="moved by the rounds"),
        NearMiss(
            vary(
                SLOTS,
                ("        out[", "        const_cast<float*>(by)[blockIdx.x] = sum;\n        out["),
            ),
            why="written in the loop",
        ),
        NearMiss(ATTENTION, why="the loop runs over keys, not over work items"),
        NearMiss(
            vary(_ROWS, ("rate + row", "x + row * n"), ("v * r", "v - r")),
            why="a part of the row itself, which the loop reads",
        ),
        NearMiss(vary(WALKED, ("* w[i]", "* w[row * n + i]")), why="every row has its own"),
        NearMiss(
            vary(_STRIPS, ("tl.load(w + at) ", "(at + 1.0) ")), why="nothing is loaded before"
        ),
        NearMiss(
            vary(_STRIPS, ("        v = ", "        g += "), ("v * g)", "g)")),
            why="what was loaded is where a carried tile begins",
        ),
        NearMiss(vary(_TURNED, ("ct.store(ko,", "ct.store(qo,")), why="one array alone is stored"),
        NearMiss(
            vary(_HEADS, ("c + row * T", "c + (row * n + head) * T")),
            why="every head has a tile of its own",
        ),
        NearMiss(vary(_ROWS, ("v * r", "tl.where(at < r, v, 0.0)")), why="a length, no factor"),
        NearMiss(GROUPED_POINTER, why="the number of rows is all that a problem brings"),
        NearMiss(SOFTMAX, why="every load belongs to its row"),
        NearMiss(PRODUCT_PERSISTENT, why="every load belongs to its tile"),
        NearMiss(FLASH_POINTER, why="the loop runs over keys, not over work items"),
        NearMiss(FLASH_THREADS, why="the loop runs over keys, not over work items"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        yield from self._problems(facts)
        told: list[list[Node]] = []
        spread = self._spread(facts)
        if every := [a for a in of_every_block(facts) if a not in spread]:
            yield self.decide(facts, "reload per item", every)
        if still := still_in_rounds(facts):
            yield self.decide(facts, "reload per item", still)
        if spread:
            yield self.decide(facts, "load once per CTA", spread)
        for loop in facts.loops:
            items = loop in facts.item_loops and not facts.contractions
            items = items or persistent(loop, facts.values) or self._walks(facts, loop)
            inside = [s for s in facts.stores if s.node.inside(loop.node)]
            if not items and not self._apart(facts, loop, inside):
                continue
            before = [
                a
                for a in facts.loads
                if not a.node.inside(loop.node) and set(a.node.loops) <= set(loop.node.loops)
            ]
            if items and facts.of_threads:
                before += [*staged(facts, loop), *in_registers(facts, loop)]
            kept = self._held(facts, _not_again(facts, before, loop), inside)
            inner = [a for a in kept if a.loop is not None and not facts.of_threads]
            for value, loads in ((_PER_ROUND, inner), ("load once per CTA", kept)):
                own = [a for a in loads if loads is inner or a not in inner]
                where = [n for a in own for n in (a.node, *self._casts(facts, a))]
                where += [n for a in own for n in prepared(facts, a, loop)]
                if where and where not in told:
                    told.append(where)
                    yield self.decide(facts, value, where)
            reloaded = [
                a
                for a in facts.loads
                if a.node.inside(loop.node)
                and (self._still(facts, a, loop) or (items and walked_again(facts, a, loop)))
            ]
            if reloaded:
                yield self.decide(facts, "reload per item", reloaded)

    def _held(self, facts: Facts, loads: list[Access], stores: list[Access]) -> list[Access]:
        """Tiles that stored values rest on, and single numbers that they are computed with."""
        single = any(not facts.types.shape(a.value) for a in loads)
        taken = {a for s in stores for a in self._taken(facts, s)} if single else set()
        return [
            a
            for a in loads
            if a in taken
            or (
                facts.types.shape(a.value)
                and any(facts.graph.rests_on(s.value, a.node) for s in stores)
            )
        ]

    def _taken(self, facts: Facts, store: Access) -> list[Access]:
        """Loads that a stored value is computed from; not what says where they read, how often a
        loop runs or which lanes count."""
        ranges = {loop.range for loop in facts.loops}
        above = facts.graph.upstream(
            store.value, lambda n: n.op.kind in READS | COMPARISONS or n in ranges
        )
        found = [facts.access(n) for n in above if n.op.kind in READS]
        return [a for a in found if a is not None]

    def _spread(self, facts: Facts) -> list[Access]:
        """Tiles that are moved by less than what is stored with them, in several arrays of which
        each takes in loads of its own: they are loaded once for all of these."""
        stores = [s for s in facts.stores if s.array is not None and facts.types.shape(s.value)]
        if facts.contractions or len({s.array for s in stores}) < 2:
            return []
        taken: dict[str | None, set[Access]] = {}
        for store in stores:
            taken.setdefault(store.array, set()).update(self._taken(facts, store))
        shared = [
            a
            for a in facts.loads
            if facts.types.shape(a.value) and sum(a in loads for loads in taken.values()) > 1
        ]
        found = []
        for access in shared:
            users = [name for name, loads in taken.items() if access in loads]
            own = [taken[n] - set().union(*(taken[m] for m in users if m != n)) for n in users]
            places = [s for s in stores if s.array in users]
            if sum(map(bool, own)) > 1 and all(_spreads(facts, access, s) for s in places):
                found.append(access)
        return found

    def _problems(self, facts: Facts) -> Iterable[Decision]:
        """What belongs to a problem, in a loop over problems around one over their tiles: numbers
        and pointers that every tile loads, or descriptors that are made before the first."""
        for loop in facts.loops:
            outer = facts.loop(loop.node.loop)
            if loop.node.op.kind != OpKind.WHILE or outer is None or outer.induction is None:
                continue
            step = facts.values.expr(outer.induction).atom
            again = [
                a
                for a in facts.loads
                if a.loop is loop.node
                and not facts.types.shape(a.value)
                and a.index
                and all(set(i.atoms()) == {step} or i.constant is not None for i in a.index)
                and any(step in i.atoms() for i in a.index)
            ]
            made = [n for n in facts.graph.of(OpKind.DESCRIPTOR) if n.loop is outer.node]
            if again:
                yield self.decide(facts, "reload per item", again)
            elif made:
                yield self.decide(facts, "once per problem", made)

    def _apart(self, facts: Facts, loop: Loop, stores: list[Access]) -> bool:
        """True for a loop that stores something else in every iteration and hands no tile on."""
        if loop.induction is None or facts.of_threads:
            return False
        step = facts.values.expr(loop.induction).atom
        moved = any(step in set(e.atoms()) for s in stores for e in s.index)
        return moved and not any(facts.types.shape(c.argument) for c in loop.carried)

    def _walks(self, facts: Facts, loop: Loop) -> bool:
        return (
            blocked(loop, facts.values)
            and not loop.of(Role.RUNNING_MAXIMUM)
            and not facts.contractions
        )

    def _casts(self, facts: Facts, access: Access) -> list[Node]:
        return [n for n in facts.graph.users(access.value) if n.op.kind in CASTS]

    def _still(self, facts: Facts, access: Access, loop: Loop) -> bool:
        """True when nothing in the index changes with the loop."""
        if (
            access.loop is not loop.node
            or not facts.types.shape(access.value)
            or loop.induction is None
        ):
            return False
        step = facts.values.expr(loop.induction).atom
        moved = {facts.values.expr(c.argument).atom for c in loop.carried} | {step}
        return not any(a in moved for e in access.index for a in e.atoms())


def _not_again(facts: Facts, before: list[Access], loop: Loop) -> list[Access]:
    """Loads before a loop of arrays that it does not load from."""
    again = {a.array for a in facts.loads if a.node.inside(loop.node)}
    return [a for a in before if a.array is None or a.array not in again]


def _spreads(facts: Facts, load: Access, store: Access) -> bool:
    """True when fewer block ids and loop steps move a load than a store, or the same ones and the
    load has fewer axes."""
    first, second = _moved(load), _moved(store)
    fewer = _axes(facts, load.value) < _axes(facts, store.value)
    return first < second or (first == second and fewer)


def _moved(access: Access) -> frozenset[str]:
    """Block ids and loop steps that move an access."""
    atoms = (atom for index in access.index for atom in index.atoms())
    return frozenset(atom.text for atom in atoms if atom.kind in _MOVING)


def _axes(facts: Facts, value: str) -> int:
    return sum(extent != "1" for extent in facts.types.shape(value))

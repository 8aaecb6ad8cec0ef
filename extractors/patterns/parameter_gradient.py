"""How the gradient of a weight, a sum over all rows, is put together."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import NORM_BACKWARD, SOFTMAX_CHUNKS
from extractors.patterns.cases_rows_pointer import NORM_BACKWARD_POINTER
from extractors.patterns.cases_rows_threads import NORM_BACKWARD_SHARED, NORM_BACKWARD_THREADS
from extractors.patterns.cases_split import SPLIT_LANES_POINTER
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.shared_sums import kept_sums
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.gradients_by_block import gradients_by_block
from kb.analysis.graph import Node
from kb.analysis.locks import locked_sums
from kb.analysis.loops import Loop, Role, persistent
from kb.analysis.rebuilt import coefficients, lanes, normalised
from kb.analysis.symbolic import AtomKind, mul
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_ATOMIC = vary(
    NORM_BACKWARD,
    ("    ct.store(parts, index=(own, 0), tile=acc)",
     "    ct.atomic_add(parts, ct.arange(TN, dtype=ct.int32), ct.reshape(acc, (TN,)))"),
)  # fmt: skip


LOCKED = vary(
    NORM_BACKWARD_POINTER,
    ("gx, gy, x,", "locks, gx, gy, x,"),
    ("    tl.store(parts + own * sp + cols, acc, mask=cols < N)",
     "    while tl.atomic_cas(locks, 0, 1) == 1:\n        pass\n"
     "    acc += tl.load(parts + cols, mask=cols < N)\n    tl.store(parts + cols, acc, mask=cols < N)\n    tl.atomic_xchg(locks, 0)"),  # noqa: E501
)  # fmt: skip

_CLAIMED = vary(LOCKED, ("    acc += tl.load(parts + cols, mask=cols < N)\n", ""))


_MERGING = (OpKind.ATOMIC_ADD, OpKind.ATOMIC_CAS)
"""How blocks bring their sums together; a loop around an exchange adds to what it finds."""

_LANES = vary(
    NORM_BACKWARD_POINTER,
    ("TN: tl.constexpr)", "TN: tl.constexpr, HAS: tl.constexpr)"),
    ("    acc = tl.zeros([TN], dtype=tl.float32)\n",
     "    if HAS:\n        acc = tl.zeros([TM, TN], dtype=tl.float32)\n"),
    ("        acc += tl.sum(dy * hat, axis=0)\n", "        if HAS:\n            acc += dy * hat\n"),
    ("    tl.store(parts + own * sp + cols, acc,",
     "    if HAS:\n        tl.store(parts + own * sp + cols, tl.sum(acc, axis=0),"),
)  # fmt: skip
OWNED = "one block owns its columns"

COLUMNS = (
    POINTER
    + """
@triton.jit
def back(x, gy, mean, rstd, gw, gb, m, n, R: tl.constexpr, T: tl.constexpr):
    cols = tl.program_id(0) * T + tl.arange(0, T)
    dw = tl.zeros((R, T), dtype=tl.float32)
    db = tl.zeros((R, T), dtype=tl.float32)
    for i in range(0, m, R):
        rows = i + tl.arange(0, R)[:, None]
        held = (rows < m) & (cols[None, :] < n)
        v = tl.load(x + rows * n + cols[None, :], mask=held, other=0.0)
        g = tl.load(gy + rows * n + cols[None, :], mask=held, other=0.0)
        hat = (v - tl.load(mean + rows, mask=rows < m)) * tl.load(rstd + rows, mask=rows < m)
        dw += g * hat
        db += g
    tl.store(gw + cols, tl.sum(dw, axis=0), mask=cols < n)
    tl.store(gb + cols, tl.sum(db, axis=0), mask=cols < n)
"""
)
_ADDS = (OpKind.ATOMIC_ADD, OpKind.DESCRIPTOR_ATOMIC_ADD)
_CHANNELS = (
    POINTER
    + """
@triton.jit
def back(x, gy, w, mean, rstd, gx, gw, n, k, T: tl.constexpr, kind: tl.constexpr):
    row = tl.program_id(0)
    m = tl.load(mean + row)
    r = tl.load(rstd + row)
    at = tl.arange(0, T)
    for c in range(k):
        total = 0.0
        v = tl.load(x + row * n + c * T + at)
        g = tl.load(gy + row * n + c * T + at)
        h = (v - m) * r
        total += tl.sum(g * h, axis=0)
        tl.atomic_add(gw + c, total.to(kind))
        tl.store(gx + row * n + c * T + at, (g * tl.load(w + c) - h * total) * r)
"""
)
_BY_BLOCK = (
    POINTER
    + """
@triton.jit
def back(x, gy, w, gx, parts, n, R: tl.constexpr, T: tl.constexpr):
    own = tl.program_id(0)
    rows = own * R + tl.arange(0, R)[:, None]
    cols = tl.program_id(1) * T + tl.arange(0, T)
    v = tl.load(x + rows * n + cols[None, :])
    g = tl.load(gy + rows * n + cols[None, :])
    r = tl.load(w + cols)
    tl.store(gx + rows * n + cols[None, :], tl.exp(v) * g * r[None, :])
    tl.store(parts + own * n + cols, tl.sum(tl.exp(v) * g, axis=0))
"""
)


class ParameterGradient(Pattern):
    """A sum over the rows of a block, in registers or in shared memory, is stored for a second
    stage, or added to one row by an atomic."""

    name = "weight-gradient-summed-over-rows"
    axis = "parameter_gradient"
    source = "tilelore catalogue, axis parameter_gradient; Triton, Layer Normalization tutorial"
    matches = (
        Case(NORM_BACKWARD, "per-CTA partials then reduce"),
        Case(_ATOMIC, "atomics"),
        Case(NORM_BACKWARD_POINTER, "per-CTA partials then reduce"),
        Case(NORM_BACKWARD_THREADS, "per-CTA partials then reduce"),
        Case(_LANES, "per-CTA partials then reduce"),
        Case(LOCKED, "lock + accumulate"),
        Case(_CHANNELS, "atomics"),
        Case(COLUMNS, OWNED),
        Case(_BY_BLOCK, "per-CTA partials then reduce"),
        Case(
            vary(_BY_BLOCK, ("tl.store(parts + own * n + cols", "tl.atomic_add(parts + cols")),
            "atomics",
        ),
        Case(NORM_BACKWARD_SHARED, "atomics"),
        Case(
            vary(
                NORM_BACKWARD_SHARED,
                ("atomicAdd(dw + i, sums[i])", "dw[blockIdx.x * n + i] = sums[i]"),
            ),
            "per-CTA partials then reduce",
        ),
    )
    near_misses = (
        NearMiss(vary(_BY_BLOCK, (" * g, axis", ", axis")), why="a statistic of one array"),
        NearMiss(vary(_BY_BLOCK, (" * r[None, :]", "")), why="rows share nothing"),
        NearMiss(
            vary(
                _BY_BLOCK,
                (
                    "    tl.store(parts + own * n",
                    "    for i in range(n):\n        tl.store(parts + i * n",
                ),
                ("+ cols, tl.sum", "+ own + cols, tl.sum"),
            ),
            why="a result of every step",
        ),
        NearMiss(vary(_BY_BLOCK, ("axis=0", "axis=1")), why="the sum belongs to a row"),
        NearMiss(
            vary(
                COLUMNS,
                (
                    "    for i in range(0, m, R):\n        rows = i +",
                    "    if m > 0:\n        rows = tl.program_id(1) * R +",
                ),
                ("gw + cols", "gw + tl.program_id(1) * n + cols"),
                ("gb + cols", "gb + tl.program_id(1) * n + cols"),
            ),
            why="each block sums rows of its own",
            value=OWNED,
        ),
        NearMiss(SPLIT_LANES_POINTER, why="numbers out of words times a vector, summed at once"),
        NearMiss(
            vary(
                NORM_BACKWARD_POINTER,
                ("range(own, tl.cdiv(M, TM), tl.num_programs(0))", "tl.static_range(4)"),
            ),
            why="so many shifted windows, no rows",
        ),
        NearMiss(_CLAIMED, why="the last block's sum stays", value="lock + accumulate"),
        NearMiss(
            vary(_CHANNELS, ("tl.atomic_add(gw + c, total.to(kind))", "tl.store(gw + c, total)")),
            why="one block owns the channel",
        ),
        NearMiss(
            vary(
                NORM_BACKWARD_SHARED,
                ("(x[row * n + i] - m) * r", "(x[row * n + i] - 1.f) * 2.f"),
                ("hat * part / n) * r", "hat * part / n) * 3.f"),
            ),
            why="sums of columns of no normalised rows",
        ),
        NearMiss(PRODUCT, why="one block owns its output tile"),
        NearMiss(ATTENTION, why="one block owns its output tile"),
        NearMiss(SOFTMAX_CHUNKS, why="the sum belongs to one row"),
        NearMiss(PRODUCT_POINTER, why="one block owns its output tile"),
        NearMiss(PRODUCT_THREADS, why="one block owns its output tile"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions:
            return
        rows = summed_over_rows(facts)
        atomics = [s for s in rows if s.is_atomic] or self._added(facts)
        own = [s for s in rows if any(e.has(AtomKind.BLOCK) for e in s.index) and not s.is_atomic]
        locked = locked_sums(facts)
        if locked:
            locks = facts.graph.of(OpKind.ATOMIC_CAS, OpKind.ATOMIC_XCHG)
            yield self.decide(facts, "lock + accumulate", [*locks, *locked])
        elif atomics:
            yield self.decide(facts, "atomics", atomics)
        elif own := own or left_by_rows(facts):
            yield self.decide(facts, "per-CTA partials then reduce", own)
        elif parts := gradients_by_block(facts):
            added = any(s.is_atomic for s in parts)
            yield self.decide(facts, "atomics" if added else "per-CTA partials then reduce", parts)
        elif owned := self._owned(facts):
            yield self.decide(facts, OWNED, owned)
        else:
            yield from self._in_shared(facts)

    def _owned(self, facts: Facts) -> list[Node]:
        """Sums, with their stores, over all that belongs to the columns of a block: no block id
        counts tiles of what is summed."""
        found: list[Node] = []
        for store in gradients(facts):
            total = facts.graph.producer(facts.graph.core(store.value))
            if store.array is None or store.is_atomic:
                continue
            if total is None or total.op.kind != OpKind.REDUCE_SUM:
                continue
            if not any(_shared_out(facts, total, load) for load in facts.feeding(total.result)):
                found += [total, store.node]
        return found

    def _in_shared(self, facts: Facts) -> Iterable[Decision]:
        """Sums over rows that are normalised anew, kept in shared memory and handed on from
        there."""
        kept, handed = sums_of_rows(facts)
        if handed:
            added = any(n.op.kind in _MERGING for n in handed)
            value = "atomics" if added else "per-CTA partials then reduce"
            yield self.decide(facts, value, [*kept, *handed])

    def _added(self, facts: Facts) -> list[Access]:
        """Atomic additions of reductions, where rows are stored that were normalised anew."""
        added = [s for s in facts.stores if s.node.op.kind in _ADDS]
        plain = any(not s.is_atomic and facts.types.shape(s.value) for s in facts.stores)
        if not added or not plain or not (normalised(facts) or coefficients(facts)):
            return []
        return [s for s in added if facts.graph.roots(s.value, *REDUCTIONS)]


def left_by_rows(facts: Facts) -> list[Access]:
    """Stores, at a block's own place, of what a loop of threads over rows leaves that are
    normalised anew."""
    if not facts.of_threads or facts.contractions:
        return []
    walks = [loop.node for loop in facts.loops if persistent(loop, facts.values)]
    after = [
        s
        for s in facts.stores
        if not s.is_atomic
        and any(facts.graph.rests_on(s.value, n) and not s.node.inside(n) for n in walks)
        and any(facts.graph.roots(v, OpKind.BLOCK_ID) for v in s.address)
    ]
    return after if after and (normalised(facts) or coefficients(facts)) else []


def sums_of_rows(facts: Facts) -> tuple[list[Node], list[Node]]:
    """Where sums over rows that are normalised anew are kept in shared memory, and where they are
    handed on from there."""
    if not facts.of_threads or not facts.threads.of(OpKind.ALLOCATE):
        return [], []
    kept = kept_sums(facts)
    if not kept or (not normalised(facts) and not coefficients(facts)):
        return [], []
    graph, shared = facts.threads, facts.shared
    places = {shared.place(n.op) for n in kept}
    loads = [n for n in graph.of(OpKind.LOAD) if shared.place(n.op) in places]
    handed = [
        n
        for n in graph.of(OpKind.STORE, *_MERGING)
        if not shared.holds(n.op)
        and any(graph.rests_on(n.op.operand("value") or "", load) for load in loads)
    ]
    return kept, handed


def _shared_out(facts: Facts, total: Node, load: Access) -> bool:
    """Whether a block id counts tiles of the lanes of a load that are summed, or rows where all
    lanes are."""
    axis, rank = facts.values.literal(total.op.operand("axis")), len(facts.types.shape(load.value))
    for index in load.index:
        lanes = [a for a in index.top() if a.kind is AtomKind.LANE]
        if isinstance(axis, int) and rank > 1:
            lanes = [a for a in lanes if int(a.value) % rank == axis % rank]
        steps = [mul(index.coefficient(a), a.args[0]) for a in lanes]
        blocks = [a for a in index.top() if a.kind is AtomKind.BLOCK]
        if any(index.coefficient(block) in steps for block in blocks):
            return True
    return False


def gradients(facts: Facts) -> list[Access]:
    """Stores of sums of rows that are normalised anew, times another array, and of sums of that
    array alone."""
    made = normalised(facts)
    totals = {s: facts.graph.producer(facts.graph.core(s.value)) for s in facts.stores if made}
    sums = {s: n for s, n in totals.items() if n is not None and n.op.kind == OpKind.REDUCE_SUM}
    arrays = {s: _tiles(facts, n) for s, n in sums.items()}
    weights = [
        s
        for s, total in sums.items()
        if len(arrays[s]) > 1 and any(facts.graph.rests_on(total.result, n) for n in made)
    ]
    beside = {array for s in weights for array in arrays[s]}
    return [s for s in sums if s in weights or (arrays[s] and arrays[s] <= beside)]


def _tiles(facts: Facts, total: Node) -> set[str | None]:
    """Arrays whose tiles are summed."""
    loads = facts.feeding(total.op.inputs[0])
    most = max((lanes(facts, a) for a in loads), default=0)
    return {a.array for a in loads if lanes(facts, a) == most}


def summed_over_rows(facts: Facts) -> list[Access]:
    """Stores of tiles that a loop sums up over rows of which it stores something, too; rounds that
    are counted in the source, as the taps of a window are, go over rows of many blocks alone."""
    sums = [
        (loop, c)
        for loop in facts.loops
        for c in loop.of(Role.SUM)
        if facts.types.shape(c.result) and may_walk_rows(facts, loop)
    ]
    return [
        s
        for loop, c in sums
        for s in facts.stores
        if not s.node.inside(loop.node)
        and (s.is_atomic or loop.range is None or loop.range.op.kind != OpKind.STATIC_RANGE)
        and _kept(facts, s.value, c.result)
        and any(o.node.inside(loop.node) for o in facts.stores)
    ]


def may_walk_rows(facts: Facts, loop: Loop) -> bool:
    """False for a loop inside a loop of threads that walks no items: it goes over what belongs to
    one part of the block's own row, as the states of a recurrence do."""
    return not facts.of_threads or not loop.node.loops or loop in facts.item_loops


def _kept(facts: Facts, value: str | None, total: str) -> bool:
    """Whether a value is a carried tile, or the sum over the rows of one, or what a branch hands on
    of it."""
    pending = [facts.graph.core(value)]
    for below in pending:
        made = facts.graph.producer(below)
        if below == total:
            return True
        if made is not None and made.op.kind == OpKind.REDUCE_SUM:
            pending.append(facts.graph.core(made.op.inputs[0]))
        elif made is not None and made.op.kind == OpKind.IF and below is not None:
            pending += [
                c for v in facts.graph.feeds(below) if (c := facts.graph.core(v)) not in pending
            ]
    return False

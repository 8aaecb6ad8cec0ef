"""Two products of one loop that share an operand and grow side by side, or of which one reads the
state that the other adds to."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    BACKWARD_KEYS,
    POINTER,
    PRODUCT,
    PRODUCT_POINTER,
    TILE,
    vary,
)
from extractors.patterns.cases_pointer import TWO_PRODUCTS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.carried_sums import accumulating
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.analysis.loops import Role
from kb.analysis.summed_products import summed_products
from kb.evidence import Decision

_TWIN = vary(
    PRODUCT,
    ("def product(a, b, out,", "def product(a, b, c, out,"),
    ("    for k in", "    acc2 = ct.full((TM, TN), 0.0, dtype=ct.float32)\n    for k in"),
    ("acc = ct.mma(x, y, acc)", "z = ct.load(c, index=(k, n), shape=(TK, TN))\n        acc = ct.mma(x, y, acc)\n        acc2 = ct.mma(x, z, acc2)"),  # noqa: E501
    ("ct.astype(acc, out.dtype)", "ct.astype(acc * acc2, out.dtype)"),
)  # fmt: skip


_TWIN_POINTER = vary(
    PRODUCT_POINTER,
    ("def product(a, b, out,", "def product(a, b, c, out,"),
    ("    for t in", "    pc = c + k[:, None] * sb + n[None, :]\n    acc2 = tl.zeros((TM, TN), dtype=tl.float32)\n    for t in"),  # noqa: E501
    ("acc += tl.dot(x, y)", "acc += tl.dot(x, y)\n        acc2 += tl.dot(x, tl.load(pc))\n        pc += TK * sb"),  # noqa: E501
    ("acc.to(tl.float16)", "(acc * acc2).to(tl.float16)"),
)  # fmt: skip


_TWIN_THREADS = vary(
    PRODUCT_THREADS,
    ("const float* __restrict__ b,", "const float* __restrict__ b, const float* c,"),
    ("    __shared__ float tb[T][T];", "    __shared__ float tb[T][T];\n    __shared__ float tc[T][T];"),  # noqa: E501
    ("    float acc = 0.f;", "    float acc = 0.f;\n    float acc2 = 0.f;"),
    ("        __syncthreads();\n        for", "        tc[threadIdx.y][threadIdx.x] = c[(t + threadIdx.y) * N + n];\n        __syncthreads();\n"  # noqa: E501
     "        for (int k = 0; k < T; ++k) acc2 += ta[threadIdx.y][k] * tc[k][threadIdx.x];\n        for"),  # noqa: E501
    ("= acc;", "= acc * acc2;"),
)  # fmt: skip


_STATE = (
    POINTER
    + """
@triton.jit
def chunks(w, k, v, out, T, K: tl.constexpr, V: tl.constexpr, C: tl.constexpr):
    h = tl.zeros((K, V), dtype=tl.float32)
    ks = tl.arange(0, K)
    vs = tl.arange(0, V)
    for t in range(0, T, C):
        rows = t + tl.arange(0, C)
        a = tl.load(w + rows[:, None] * K + ks[None, :])
        b = tl.load(v + rows[:, None] * V + vs[None, :])
        b = b - tl.dot(a, h.to(a.dtype))
        tl.store(out + rows[:, None] * V + vs[None, :], b)
        c = tl.load(k + ks[:, None] + rows[None, :] * K)
        h += tl.dot(c, b.to(c.dtype))
"""
)
_STATE_TILE = (
    TILE
    + """
@ct.kernel
def chunks(w, k, v, out, n, K: Int, V: Int, C: Int):
    h = ct.full((K, V), 0.0, dtype=ct.float32)
    for t in range(n):
        a = ct.load(w, index=(t, 0), shape=(C, K))
        b = ct.full((C, V), 0.0, dtype=ct.float32)
        b = ct.mma(a, ct.astype(h, w.dtype), b)
        b = ct.load(v, index=(t, 0), shape=(C, V)) - b
        ct.store(out, index=(t, 0), tile=b)
        c = ct.load(k, index=(0, t), shape=(K, C))
        h = ct.mma(c, ct.astype(b, k.dtype), h)
"""
)
_APART = (
    POINTER
    + """
@triton.jit
def both(m, k, w, u, v, T: tl.constexpr):
    at = tl.arange(0, T)[:, None] * T + tl.arange(0, T)[None, :]
    a = tl.load(m + at)
    x = tl.load(k + at)
    y = tl.load(w + at)
    tl.store(u + at, tl.dot(a, x))
    tl.store(v + at, tl.dot(a, y))
"""
)

_HALVES = (
    POINTER
    + """
@triton.jit
def back(a, b, out, N, W: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr):
    rows = tl.program_id(0) * TM + tl.arange(0, TM)
    lane = tl.arange(0, W)
    one = tl.zeros((TM, W), dtype=tl.float32)
    two = tl.zeros((TM, W), dtype=tl.float32)
    for j in range(0, N, TN):
        cols = j + tl.arange(0, TN)
        x = tl.load(a + rows[:, None] * 2 * N + cols[None, :])
        y = tl.load(b + cols[:, None] * W + lane[None, :])
        one = tl.dot(x, y, one)
        z = tl.load(a + (rows[:, None] * 2 * N + N + cols[None, :]))
        w = tl.load(b + (N + j + tl.arange(0, TN))[:, None] * W + lane[None, :])
        two = tl.dot(z, w, two)
    tl.store(out + rows[:, None] * W + lane[None, :], one + two)
"""
)


class DualAccumulators(Pattern):
    """Two carried products whose left (or right) operand is the same load; or a carried matrix that
    one product of the loop reads and another adds to; or two products with such an operand that go
    into two arrays."""

    name = "dual-accumulators-sharing-one-operand"
    axis = "fusion"
    source = "CUTLASS examples, dual GEMM"
    matches = (
        Case(_TWIN, "one loop, two MMAs"),
        Case(_TWIN_POINTER, "one loop, two MMAs"),
        Case(_TWIN_THREADS, "one loop, two MMAs"),
        Case(_APART, "two GEMMs"),
        Case(_STATE, "one loop, two MMAs"),
        Case(_STATE_TILE, "one loop, two MMAs"),
        Case(TWO_PRODUCTS, "two products, one sum"),
        Case(_HALVES, "two products, one sum"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="one product"),
        NearMiss(
            vary(_HALVES, ("N + N + cols", "N + TN + cols"), ("(N + j", "(TN + j")), why="one sum"
        ),
        NearMiss(vary(_APART, ("dot(a, y)", "dot(y, a)")), why="one on the left, one on the right"),
        NearMiss(vary(_APART, ("store(v + at", "store(u + at")), why="one array takes both"),
        NearMiss(ATTENTION, why="the second product takes the first one's result"),
        NearMiss(BACKWARD_KEYS, why="the products have no operand in common"),
        NearMiss(PRODUCT_POINTER, why="one product"),
        NearMiss(PRODUCT_THREADS, why="one product"),
        NearMiss(
            vary(_STATE, ("b = b - tl.dot(a, h.to(a.dtype))", "b = b - tl.sum(a)")),
            why="the state is not read",
        ),
        NearMiss(
            vary(_STATE_TILE, ("ct.astype(h, w.dtype)", "ct.load(w, index=(0, t), shape=(K, V))")),
            why="the other product reads no state",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.score_products:
            return
        for loop in facts.loops:
            grown = loop.of(Role.ACCUMULATOR)
            products = [
                p for c in grown if (p := accumulating(facts.graph, c.argument, c.next)) is not None
            ]
            for role in ("lhs", "rhs"):
                sides = [{a.node for a in facts.held_loads(p.op.operand(role))} for p in products]
                if len(products) >= 2 and sides[0] and all(side == sides[0] for side in sides):
                    yield self.decide(facts, "one loop, two MMAs", products)
                    return
            for state in grown:
                adding = accumulating(facts.graph, state.argument, state.next)
                reading = [p for p in facts.contractions if _reads(facts, p, state.argument)]
                reading = [p for p in reading if p is not adding and p.loop is loop.node]
                if adding is not None and reading:
                    yield self.decide(facts, "one loop, two MMAs", [*reading, adding])
                    return
        if twins := self._twins(facts):
            yield self.decide(facts, "two GEMMs", twins)
        elif added := summed_products(facts):
            yield self.decide(facts, "two products, one sum", added)

    def _twins(self, facts: Facts) -> list[Node | Access]:
        """Products with one loaded operand in common of which each goes into an array of its own,
        with the stores."""
        stored = {p: facts.stored_in(p.result) for p in facts.contractions}
        for role in ("lhs", "rhs"):
            sharing: dict[Node, list[Node]] = {}
            for product in (p for p, stores in stored.items() if stores):
                loads = facts.held_loads(product.op.operand(role))
                for load in loads if len(loads) == 1 else ():
                    sharing.setdefault(load.node, []).append(product)
            for first, second in (p for ps in sharing.values() for p in combinations(ps, 2)):
                arrays = {s.array for s in stored[first]} & {s.array for s in stored[second]}
                if not arrays and not first.excludes(second):
                    return [first, second, *stored[first], *stored[second]]
        return []


def _reads(facts: Facts, product: Node, state: str) -> bool:
    """True when a factor of a product is a carried matrix."""
    factors = (product.op.operand("lhs"), product.op.operand("rhs"))
    return any(facts.graph.through(v, VIEWS | CASTS | TURNS) == state for v in factors)

"""Products of a matrix and a vector that no matrix unit computes: multiplied lane by lane and
summed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, DELTA_TILE, ROW_NORM
from extractors.patterns.cases_rows_pointer import DELTA
from extractors.patterns.cases_taps import PICKED
from kb.analysis.chosen_positions import picked_from
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.lane_products import outer_products, products_summed, weighted_rounds
from kb.analysis.rebuilt import normalised
from kb.analysis.thread_products import thread_products
from kb.evidence import Decision
from kb.ops import OpKind

GEMV = (
    POINTER
    + """
@triton.jit
def gemv(a, x, out, n, k, TN: tl.constexpr, TK: tl.constexpr):
    rows = tl.program_id(0) * TN + tl.arange(0, TN)
    cols = tl.arange(0, TK)
    w = tl.load(a + rows[:, None] * k + cols[None, :])
    v = tl.load(x + cols)
    tl.store(out + rows, tl.sum(w * v[None, :], axis=1), mask=rows < n)
"""
)
_LOOPED = vary(
    GEMV,
    ("    cols = tl.arange(0, TK)\n",
     "    acc = tl.zeros([TN, TK], tl.float32)\n    for m in range(0, k, TK):\n"
     "        cols = m + tl.arange(0, TK)\n"),
    ("    w = tl.load", "        w = tl.load"),
    ("    v = tl.load(x + cols)\n",
     "        v = tl.load(x + cols)\n        acc += w * v[None, :]\n"),
    ("tl.sum(w * v[None, :], axis=1)", "tl.sum(acc, axis=1)"),
)  # fmt: skip
BY_FLAG = vary(
    _LOOPED,
    ("TK: tl.constexpr", "TK: tl.constexpr, KIND: tl.constexpr, LANES: tl.constexpr"),
    ("tl.float32", "KIND"),
    ("        acc += w * v[None, :]\n",
     "        if LANES:\n            part = w * v[None, :]\n        else:\n"
     "            part = tl.sum(w * v[None, :], axis=1, keep_dims=True)\n"
     "        acc += part * tl.load(x - 1)\n"),
)  # fmt: skip
GEMV_TILE = (
    TILE
    + """
@ct.kernel
def gemv(a, x, out, TN: Int, TK: Int):
    i = ct.bid(0)
    w = ct.load(a, index=(i, 0), shape=(TN, TK))
    v = ct.load(x, index=(0, 0), shape=(1, TK))
    ct.store(out, index=(i,), tile=ct.sum(w * v, axis=1))
"""
)
_PARTS = vary(
    GEMV_TILE,
    ("index=(i, 0), shape=(TN, TK)", "index=(0, i, 0), shape=(TN, 4, TK)"),
    ("index=(0, 0), shape=(1, TK))", "index=(0, i), shape=(TN, 4)).reshape((TN, 4, 1))"),
    ("axis=1", "axis=0"),
)  # fmt: skip


OUTER = (
    POINTER
    + """
@triton.jit
def mix(a, x, out, n, K: tl.constexpr, TN: tl.constexpr, TM: tl.constexpr):
    rows = tl.arange(0, TN)
    cols = tl.program_id(0) * TM + tl.arange(0, TM)
    acc = tl.zeros([TN, TM], tl.float32)
    for k in range(K):
        w = tl.load(a + rows * K + k)
        v = tl.load(x + k * n + cols, mask=cols < n, other=0.0)
        acc += w[:, None] * v[None, :]
    tl.store(out + rows[:, None] * n + cols[None, :], acc, mask=cols[None, :] < n)
"""
)
OUTER_TILE = (
    TILE
    + """
@ct.kernel
def mix(a, x, out, K: Int, TN: Int, TM: Int):
    i = ct.bid(0)
    acc = ct.zeros((TN, TM), dtype=ct.float32)
    for k in range(K):
        w = ct.load(a, index=(0, k), shape=(TN, 1))
        v = ct.load(x, index=(k, i), shape=(1, TM))
        acc = acc + ct.broadcast_to(w, (TN, TM)) * ct.broadcast_to(v, (TN, TM))
    ct.store(out, index=(0, i), tile=acc)
"""
)
MIXED = vary(
    OUTER,
    ("    rows = tl.arange(0, TN)\n", "    rows = tl.program_id(1) * TN + tl.arange(0, TN)\n"),
    ("w = tl.load(a + rows * K + k)", "w = tl.load(a + rows * K + k)[:, None]"),
    (
        "x + k * n + cols, mask=cols < n, other=0.0)",
        "x + (rows * K + k)[:, None] * n + cols[None, :], mask=cols[None, :] < n, other=0.0)",
    ),
    ("w[:, None] * v[None, :]", "w * v"),
)
"""Rows of several arrays, each times a number of its own."""
_MIXED_TILE = vary(
    OUTER_TILE,
    ("index=(k, i), shape=(1, TM)", "index=(k, 0, i), shape=(1, TN, TM)"),
    ("ct.broadcast_to(v, (TN, TM))", "ct.reshape(v, (TN, TM))"),
)
SUM_THREADS = """__global__ void product(const float* a, const float* b, float* out, int n, int k) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[col * k + i];
    out[row * n + col] = sum;
}
"""
REST_THREADS = vary(
    SUM_THREADS,
    (
        "    for (int i = 0; i < k; ++i)",
        "    int i = 0;\n    for (; i + 4 <= k; i += 4) {\n"
        "        float4 x = *reinterpret_cast<const float4*>(a + row * k + i);\n"
        "        float4 y = *reinterpret_cast<const float4*>(b + col * k + i);\n"
        "        sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;\n    }\n"
        "    for (; i < k; ++i)",
    ),
)
_TABLE_THREADS = vary(
    SUM_THREADS,
    ("const float* b,", "const float* const* b, const int* ids,"),
    ("b[col * k + i]", "own[col * k + i]"),
    ("    float sum", "    const float* own = b[ids[blockIdx.z]];\n    float sum"),
)
_NORM_BACK_THREADS = """__global__ void back(const float* dy, const float* w, float* dx, int n) {
    const float* own = dy + blockIdx.x * n;
    float sum = 0.f;
    for (int i = 0; i < n; ++i) sum += own[i] * w[i];
    for (int i = threadIdx.x; i < n; i += blockDim.x) dx[blockIdx.x * n + i] = own[i] * w[i] - sum;
}
"""


_SOLVED = (
    POINTER
    + """
@triton.jit
def solve(a, x, out, T: tl.constexpr):
    at = tl.arange(0, T)
    whole = at[:, None] * T + at[None, :]
    v = -tl.load(a + whole)
    for i in range(1, T):
        row = -tl.load(a + i * T + at)
        row += tl.sum(row[:, None] * v, 0)
        v = tl.where((at == i)[:, None], row, v)
    tl.store(out + whole, tl.dot(v, tl.load(x + whole)))
"""
)
_SOLVED_TILE = (
    TILE
    + """
@ct.kernel
def solve(a, x, out, T: Int):
    at = ct.arange(T, dtype=ct.int32)
    v = ct.load(a, index=(0, 0), shape=(T, T))
    for i in range(1, T):
        own = ct.expand_dims(at == i, axis=1)
        row = ct.sum(ct.where(own, v, 0.0), axis=0)
        more = ct.sum(ct.expand_dims(row, axis=1) * v, axis=0)
        v = v + ct.where(own, ct.expand_dims(more, axis=0), 0.0)
    y = ct.load(x, index=(0, 0), shape=(T, T))
    acc = ct.mma(v, y, ct.full((T, T), 0.0, dtype=ct.float32))
    ct.store(out, index=(0, 0), tile=acc)
"""
)
_DIAGONAL = (
    POINTER
    + """
@triton.jit
def scores(q, k, out, T: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    at = tl.arange(0, T)
    whole = at[:, None] * T + at[None, :]
    x = tl.load(q + i * T * T + whole)
    if i > j:
        y = tl.load(k + j * T * T + whole)
        tl.store(out + whole, tl.dot(x, y))
    else:
        for n in range(T):
            y = tl.load(k + (j * T + n) * T + at)
            tl.store(out + at * T + n, tl.sum(x * y[None, :], 1))
"""
)


class ProductSummed(Pattern):
    """A tile is multiplied by a vector that is spread over one of its axes, and the other axis is
    summed, or by a comparison that one column meets; a loop adds up products of a column and a row,
    or tiles with a number for each of their rows, or threads add up the products number by number.
    Beside matrix products only what runs where none of these does, or what a loop solves for row by
    row."""

    name = "matrix-times-vector-by-lanes"
    axis = "reduction_engine"
    source = "tilelore catalogue, axis reduction_engine; CUTLASS documentation, GEMV"
    matches = (
        Case(GEMV, "elementwise mul + sum"),
        Case(GEMV_TILE, "elementwise mul + sum"),
        Case(_PARTS, "elementwise mul + sum"),
        Case(DELTA, "elementwise mul + sum"),
        Case(DELTA_TILE, "elementwise mul + sum"),
        Case(_LOOPED, "elementwise mul + sum"),
        Case(BY_FLAG, "elementwise mul + sum"),
        Case(
            vary(
                GEMV,
                (
                    "w * v[None, :], axis=1)",
                    "tl.reshape(w * v[None, :], (TN, 4, TK // 4)), axis=2)",
                ),
                ("rows, tl.sum", "rows[:, None] * 4 + tl.arange(0, 4)[None, :], tl.sum"),
                (", mask=rows < n", ""),
            ),
            "elementwise mul + sum",
        ),
        Case(OUTER, "elementwise mul + sum"),
        Case(PICKED, "elementwise mul + sum"),
        Case(OUTER_TILE, "elementwise mul + sum"),
        Case(MIXED, "elementwise mul + sum"),
        Case(_MIXED_TILE, "elementwise mul + sum"),
        Case(SUM_THREADS, "elementwise mul + sum"),
        Case(REST_THREADS, "elementwise mul + sum"),
        Case(_TABLE_THREADS, "elementwise mul + sum"),
        Case(_SOLVED, "elementwise mul + sum"),
        Case(_SOLVED_TILE, "elementwise mul + sum"),
        Case(_DIAGONAL, "elementwise mul + sum"),
    )
    near_misses = (
        NearMiss(
            vary(MIXED, ("a + rows * K + k", "a + rows * K")), why="every round has the same factor"
        ),
        NearMiss(
            vary(_MIXED_TILE, ("index=(0, k), shape=(TN, 1)", "index=(0, 0), shape=(TN, 1)")),
            why="every round has the same factor",
        ),
        NearMiss(
            vary(OUTER, ("w[:, None] * v[None, :]", "v[None, :]")), why="rows are added up"
        ),
        NearMiss(
            vary(OUTER_TILE, ("index=(0, k), shape=(TN, 1)", "index=(0, k), shape=(1, 1)")),
            why="rows are scaled by one factor each and then added up",
        ),
        NearMiss(_NORM_BACK_THREADS, why="the sum of a row meets the row again"),
        NearMiss(vary(SUM_THREADS, ("b[col", "a[row")), why="squares are summed"),
        NearMiss(
            vary(SUM_THREADS, ("sum += a[row * k + i]", "sum = 0.5f * sum + a[row * k + i]")),
            why="what is added to fades: a recurrence",
        ),
        NearMiss(vary(SUM_THREADS, ("col * k + i", "row * k + i")), why="rows with their partners"),
        NearMiss(
            vary(GEMV, ("v = tl.load(x + cols)", "v = tl.load(x + rows)"), ("v[None, :]", "v[:, None]")),  # noqa: E501
            why="rows are scaled by one factor each and then summed",
        ),
        NearMiss(vary(GEMV_TILE, ("w * v", "w * w")), why="squares are summed"),
        NearMiss(vary(_LOOPED, ("w * v[None, :]", "w * w")), why="squares are summed"),
        NearMiss(ROW_NORM, why="squares are summed"),
        NearMiss(
            vary(_SOLVED, ("tl.sum(row[:, None] * v, 0)", "tl.sum(row[:, None] * x, 0)"),
                 ("x + whole)", "x)"), ("    v = -", "    x = tl.load(x + whole)\n    v = -")),
            why="a vector times a tile that stays as it is, beside a product",
        ),
        NearMiss(
            vary(_DIAGONAL, ("    else:\n", "    if i == j:\n")), why="both may run",
        ),
        NearMiss(vary(PICKED, ("(k == i)", "(k < i)")), why="all columns up to one are summed"),
        NearMiss(ADD_POINTER, why="nothing is summed"),
        NearMiss(PRODUCT, why="the matrix unit multiplies"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions:
            summed = products_summed(facts)
            beside = [p for p in summed if _instead(facts, *p) or _solves(facts, *p)]
            if beside:
                nodes = dict.fromkeys(node for pair in beside for node in pair)
                yield self.decide(facts, "elementwise mul + sum", nodes)
            return
        threads = thread_products(facts)
        if threads and not normalised(facts):
            yield self.decide(facts, "elementwise mul + sum", [step for step, _ in threads])
        if facts.of_threads:
            return
        pairs = [*products_summed(facts), *outer_products(facts), *weighted_rounds(facts)]
        found = list(dict.fromkeys((*(node for pair in pairs for node in pair), *_columns(facts))))
        if found:
            yield self.decide(facts, "elementwise mul + sum", found)


def _columns(facts: Facts) -> list[Node]:
    """Products of a loaded matrix and a comparison that one column alone meets, and their sums: a
    product with a column of the unit matrix."""
    found: list[Node] = []
    for total in facts.graph.of(OpKind.REDUCE_SUM):
        made = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
        loads = facts.held_loads(picked_from(facts, total))
        matrix = any(sum(e != "1" for e in facts.types.shape(a.value)) > 1 for a in loads)
        if matrix and made is not None and made.op.kind == OpKind.MUL:
            found += [made, total]
    return found


def _instead(facts: Facts, product: Node, total: Node) -> bool:
    """Whether a product is summed where no matrix product runs, as on a diagonal."""
    return all(total.excludes(other) for other in facts.contractions)


def _solves(facts: Facts, product: Node, total: Node) -> bool:
    """Whether the sum goes into the tile that it was computed from, round by round."""
    loop = facts.loop(total.loop)
    return loop is not None and any(
        facts.graph.rests_on(c.next, total)
        and any(facts.graph.core(v) == c.argument for v in product.op.inputs[:2])
        for c in loop.carried
    )

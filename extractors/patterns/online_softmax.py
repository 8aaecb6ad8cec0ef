"""Softmax in one pass: a running maximum, and sums rescaled when it grows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    ATTENTION_POINTER,
    BACKWARD_KEYS,
    POINTER,
    TILE,
    vary,
)
from extractors.patterns.cases_rows import SOFTMAX_CHUNKS
from extractors.patterns.cases_rows_pointer import SOFTMAX_CHUNKS_POINTER
from extractors.patterns.cases_rows_threads import PAIRS_THREADS, SOFTMAX_CHUNKS_THREADS
from extractors.patterns.cases_tensors import FLASH_TENSORS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Loop, Role
from kb.analysis.merging import LOGARITHMS
from kb.evidence import Decision
from kb.ops import OpKind

_KEPT = (
    POINTER
    + """
@triton.jit
def softmax_kept(x, tops, sums, n, step, T: tl.constexpr):
    row = tl.program_id(0)
    at = step * T + tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    before = tl.load(tops + row)
    top = tl.maximum(before, tl.max(v, axis=0))
    total = tl.load(sums + row) * tl.exp(before - top) + tl.sum(tl.exp(v - top), axis=0)
    tl.store(tops + row, top)
    tl.store(sums + row, total)
"""
)
_IN_ONE = (
    TILE
    + """
@ct.kernel
def loss(x, out, COLS: Int, T: Int):
    row = ct.bid(0)
    top_tile = ct.full((1,), -math.inf, dtype=ct.float32)
    tot_tile = ct.full((1,), 0.0, dtype=ct.float32)
    for j in range(ct.cdiv(COLS, T)):
        at = j * T + ct.arange(T, dtype=ct.int32)
        v = ct.astype(ct.gather(x, (row, at), padding_value=-math.inf), ct.float32)
        top = ct.sum(top_tile, 0, keepdims=False)
        tot = ct.sum(tot_tile, 0, keepdims=False)
        now = ct.maximum(top, ct.max(v, 0, keepdims=False))
        below = -now * 1.4426950408889634
        fade = ct.exp2(top * 1.4426950408889634 + below)
        tot = tot * fade + ct.sum(ct.exp2(v * 1.4426950408889634 + below), 0, keepdims=False)
        top_tile = ct.full((1,), now, dtype=ct.float32)
        tot_tile = ct.full((1,), tot, dtype=ct.float32)
    top = ct.sum(top_tile, 0, keepdims=False)
    ct.scatter(out, row, top + ct.log(ct.sum(tot_tile, 0, keepdims=False)))
"""
)
_LOGARITHM = vary(
    ATTENTION_POINTER,
    ("new = tl.maximum(top, tl.max(s, 1))", "new = tl.maximum(lse, tl.max(s, 1))"),
    ("        tot = tot * fade + tl.sum(p, 1)\n", ""),
    ("        top = new\n",
     "        top = new\n        lse = new + tl.log(tl.exp(lse - new) + tl.sum(p, 1))\n"),
    ("    tot = tl.zeros([TM], tl.float32)\n",
     "    lse = tl.full([TM], float(\"-inf\"), tl.float32)\n"),
    ("acc = acc / tot[:, None]", "acc = acc * tl.exp(top - lse)[:, None]"),
)  # fmt: skip
_KEPT_THREADS = """__global__ void flash(const float* q, const float* k, float* tops, float* sums,
                      int d, int rounds, int T) {
    extern __shared__ float scores[];
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = 0; j < rounds; j++) {
        float before = tops[row];
        float top = -INFINITY;
        for (int y = 0; y < T; y++) {
            float s = 0;
            for (int x = 0; x < d; x++) s += q[row * d + x] * k[(j * T + y) * d + x];
            scores[threadIdx.x * T + y] = s;
            if (s > top) top = s;
        }
        float sum = 0;
        for (int y = 0; y < T; y++) sum += __expf(scores[threadIdx.x * T + y] - top);
        float now = max(before, top);
        sums[row] = __expf(before - now) * sums[row] + __expf(top - now) * sum;
        tops[row] = now;
    }
}
"""
_CHOSEN_THREADS = """__global__ void softmax(const float* x, float* out, int n) {
    const float* row = x + (blockIdx.x * blockDim.x + threadIdx.x) * n;
    float top = -INFINITY;
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        float v = row[i];
        float before = top;
        if (v > top) {
            top = v;
            sum = sum * expf(before - top) + expf(v - top);
        } else {
            sum += expf(v - top);
        }
    }
    for (int i = 0; i < n; i++)
        out[(blockIdx.x * blockDim.x + threadIdx.x) * n + i] = expf(row[i] - top) / sum;
}
"""
_BY_FOUR_THREADS = """__global__ void softmax(const float* x, float* out, int n) {
    const float* row = x + (blockIdx.x * blockDim.x + threadIdx.x) * 4 * n;
    float top = -1e30f;
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        float before = top;
        for (int k = 0; k < 4; k++) top = fmaxf(top, row[4 * i + k]);
        sum *= expf(before - top);
        for (int k = 0; k < 4; k++) sum += expf(row[4 * i + k] - top);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = top + logf(sum);
}
"""


class OnlineSoftmax(Pattern):
    """A loop carries a maximum, and what it sums is multiplied by exp(old maximum - new
    maximum); or both are kept in memory from round to round."""

    name = "online-softmax"
    axis = "softmax_scheme"
    source = "Milakov and Gimelshein, Online normalizer calculation for softmax (2018)"
    matches = (
        Case(ATTENTION, "online (1 pass)"),
        Case(ATTENTION_POINTER, "online (1 pass)"),
        Case(FLASH_THREADS, "online (1 pass)"),
        Case(FLASH_TENSORS, "online (1 pass)"),
        Case(PAIRS_THREADS, "online 2-pass"),
        Case(_CHOSEN_THREADS, "online 2-pass"),
        Case(_BY_FOUR_THREADS, "online (1 pass)"),
        Case(_KEPT, "online (1 pass)"),
        Case(_KEPT_THREADS, "online (1 pass)"),
        Case(_IN_ONE, "online (1 pass)"),
        Case(_LOGARITHM, "online (1 pass)"),
        Case(
            vary(ATTENTION_POINTER, ("        top = new\n", "        top = new.to(tl.float32)\n")),
            "online (1 pass)",
        ),
    )
    near_misses = (
        NearMiss(SOFTMAX_CHUNKS, why="the maximum is final before the sum begins"),
        NearMiss(
            vary(_CHOSEN_THREADS, ("if (v > top)", "if (v < top)")),
            why="the least number is kept",
        ),
        NearMiss(
            vary(_BY_FOUR_THREADS, ("        sum *= expf(before - top);\n", "")),
            why="the sum is not scaled down",
        ),
        NearMiss(
            PAIRS_THREADS.replace("small.sum * expf", "big.sum * expf"),
            why="the sum that is scaled down is not that of the smaller maximum",
        ),
        NearMiss(
            vary(_KEPT, ("tl.store(tops + row, top)", "tl.store(tops + row + 1, top)")),
            why="the maximum is not put back where it was",
        ),
        NearMiss(
            vary(_KEPT_THREADS, ("tops[row] = now", "tops[row] = sum")),
            why="no maximum is kept",
        ),
        NearMiss(
            vary(_LOGARITHM, ("lse = new + tl.log", "lse = new * tl.log")),
            why="what is carried is no logarithm of a sum",
        ),
        NearMiss(
            vary(_IN_ONE, ("full((1,), now,", "full((1,), tot,")),
            why="the maximum does not run on",
        ),
        NearMiss(
            vary(FLASH_TENSORS, ("tot(i) *= fade;", ";"), ("sums(i, j) *= fade", "")),
            why="neither the sum nor the accumulator is scaled down",
        ),
        NearMiss(BACKWARD_KEYS, why="the statistic is loaded, nothing runs"),
        NearMiss(SOFTMAX_CHUNKS_POINTER, why="the maximum is final before the sum begins"),
        NearMiss(SOFTMAX_CHUNKS_THREADS, why="the maximum is final before the sum begins"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Node]] = {}
        for loop in facts.loops:
            maxima = loop.of(Role.RUNNING_MAXIMUM)
            factors = [e.node for e in facts.exponentials if e.rescale and e.node.inside(loop.node)]
            rescaled = [
                c for c in loop.carried if _scaled(facts, c.next, factors) and c not in maxima
            ]
            if not maxima:
                found.setdefault("online (1 pass)", []).extend(_log_sums(facts, loop))
            if not maxima or not rescaled:
                continue
            grows = [node for c in maxima for node in _growths(facts, c.next)]
            scales = [n for c in rescaled for n in _scalings(facts, c.next, factors)]
            value = (
                "online (1 pass)"
                if loop.of(Role.ACCUMULATOR) or _only(facts, loop)
                else "online 2-pass"
            )
            found.setdefault(value, []).extend((*grows, *factors, *scales))
        if not any(found.values()):
            found["online (1 pass)"] = _kept_in_memory(facts)
        if found.get("online (1 pass)"):
            found.pop("online 2-pass", None)  # the states of warps are put together by another loop
        for value, where in found.items():
            if where:
                yield self.decide(facts, value, where)


def _log_sums(facts: Facts, loop: Loop) -> list[Node]:
    """A carried logarithm of a sum: the maximum of the old one and of new scores, and what is below
    it, put together again."""
    found: list[Node] = []
    for c in loop.carried if facts.exponentials else ():
        end = facts.graph.producer(facts.graph.core(c.next))
        if end is None or end.op.kind != OpKind.ADD:
            continue
        sides = [n for v in end.op.inputs[:2] for n in facts.graph.ends(v, VIEWS | CASTS)]
        tops = [n for n in sides if n.op.kind == OpKind.MAXIMUM]
        before = {facts.graph.core(v) for n in tops for v in n.op.inputs[:2]}
        if c.argument in before and any(n.op.kind in LOGARITHMS for n in sides):
            below = [e.node for e in facts.exponentials if e.node.inside(loop.node)]
            found += [*tops, *(n for n in below if facts.graph.rests_on(end.result, n)), end]
    return found


def _kept_in_memory(facts: Facts) -> list[Node]:
    """A maximum of what was loaded and of new scores, which goes back to where it was; and the
    factors between the two that enter what is stored."""
    found: list[Node] = []
    for e in facts.exponentials:
        top = facts.graph.producer(facts.graph.core(e.statistic))
        if top is None or top.op.kind != OpKind.MAXIMUM:
            continue
        sides = {facts.graph.core(v) for v in top.op.inputs[:2]}
        before = [a for a in facts.loads if a.value in sides]
        kept = [s for s in facts.stores if facts.graph.core(s.value) == top.result]
        again = any(s.array == a.array and s.index == a.index for s in kept for a in before)
        if again and facts.stored_in(e.node.result):
            found += [*(a.node for a in before), top, e.node, *(s.node for s in kept)]
    return list(dict.fromkeys(found))


def _scaled(facts: Facts, value: str, factors: list[Node]) -> bool:
    return any(facts.graph.rests_on(value, factor) for factor in factors)


def _growths(facts: Facts, value: str) -> list[Node]:
    """The maximum that a state grows by; that of each side where a branch makes it."""
    ends = [n for n in facts.graph.ends(value, VIEWS | CASTS) if n.op.kind == OpKind.MAXIMUM]
    nearest = (n for n in facts.graph.upstream(value) if n.op.kind == OpKind.MAXIMUM)
    return ends or list(islice(nearest, 1))


def _scalings(facts: Facts, value: str, factors: list[Node]) -> list[Node]:
    """The products that take the factor in, and the sums they enter."""
    found = []
    for node in facts.graph.upstream(value, lambda n: n in factors):
        if node.op.kind in (OpKind.MUL, OpKind.FMA) and any(
            facts.graph.producer(facts.graph.core(v)) in factors for v in node.op.inputs[:2]
        ):
            found.append(node)
    return found


def _only(facts: Facts, loop: Loop) -> bool:
    """True when no later exponential normalises the row again."""
    return not any(
        e.node.index > loop.node.index and not e.node.inside(loop.node) and not e.rescale
        for e in facts.exponentials
    )

"""States that a loop carries in 32 bits and stores round by round in fewer."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import STATE_STEPS_POINTER
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.states_left import SET_BY_BRANCH
from kb.analysis.facts import Facts
from kb.analysis.narrowing import narrowing, stored_states
from kb.evidence import Decision

_EVERY = vary(
    STATE_STEPS_POINTER,
    ("        v = tl.load", "        tl.store(q + rows[:, None] * TK + cols[None, :] + i * TK * TV,"
     " s.to(q.dtype.element_ty))\n        v = tl.load"),
)  # fmt: skip
_AFTER = vary(
    STATE_STEPS_POINTER,
    ("[:, None]\n    tl", "[:, None]\n        tl.store(q + rows[:, None] * TK + cols[None, :]"
     " + i * TK * TV, s.to(tl.bfloat16))\n    tl"),
)  # fmt: skip
_EVERY_TILE = """import cuda.tile as ct
@ct.kernel
def states(x, out, n: ct.Constant[int], T: ct.Constant[int]):
    s = ct.zeros((T, T), dtype=ct.float32)
    for i in range(n):
        ct.store(out, index=(i, 0), tile=ct.astype(s, out.dtype))
        v = ct.astype(ct.load(x, index=(i, 0), shape=(T, T)), ct.float32)
        s = s * 0.5 + v
"""
_EVERY_THREADS = """#include <cuda_fp16.h>
__global__ void states(const half* x, half* out, int n, int stride) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.f;
    for (int i = 0; i < n; i++) {
        s = s * 0.5f + __half2float(x[i * stride + at]);
        out[i * stride + at] = __float2half(s);
    }
}
"""
_FOR_PRODUCTS = vary(
    PRODUCT_POINTER,
    ("        acc += tl.dot(x, y)", "        tl.store(out + t * K, acc.to(tl.bfloat16))\n"
     "        acc += tl.dot(x, y)\n        acc += tl.dot(acc.to(x.dtype), y)"),
)  # fmt: skip


class StateStoredRounded(Pattern):
    """A tile that a loop carries in 32-bit floats and computes further is stored in the loop, cast
    to fewer bits or to the type of its array, while the loop goes on with all of them; where it
    is rounded for products as well, both are told as one."""

    name = "carried-state-stored-rounded"
    axis = "intermediate_dtype"
    source = "Yang et al., Gated Linear Attention Transformers (2024): states of chunks"
    matches = (
        Case(_EVERY, "state carried in fp32, stored rounded"),
        Case(_AFTER, "state carried in fp32, stored rounded"),
        Case(_EVERY_TILE, "state carried in fp32, stored rounded"),
        Case(_EVERY_THREADS, "state carried in fp32, stored rounded"),
    )
    near_misses = (
        NearMiss(vary(_EVERY, (".to(q.dtype.element_ty)", "")), why="nothing is said of its type"),
        NearMiss(vary(_AFTER, ("tl.bfloat16", "tl.float32")), why="stored as it is carried"),
        NearMiss(
            vary(_AFTER, ("s.to(", "(s * rate).to(")), why="an output that is computed from it"
        ),
        NearMiss(_EVERY_TILE.replace("s = s * 0.5 + v", "s = v"), why="loaded anew every round"),
        NearMiss(_EVERY_TILE.replace("ct.astype(s, out.dtype)", "s"), why="stored as it is"),
        NearMiss(_EVERY_THREADS.replace("half* out", "float* out").replace("__float2half(s)", "s"),
                 why="stored as it is carried"),
        NearMiss(SET_BY_BRANCH, why="branches set what is stored, no round computes it further"),
        NearMiss(_FOR_PRODUCTS, why="rounded for a product, too"),
        NearMiss(STATE_STEPS_POINTER, why="stored once, after the loop"),
        NearMiss(PRODUCT, why="stored once, after the loop"),
        NearMiss(PRODUCT_POINTER, why="stored once, after the loop"),
        NearMiss(PRODUCT_THREADS, why="stored once, after the loop"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        states = stored_states(facts)
        if states and not narrowing(facts).casts:
            places = [place for cast, store in states for place in (cast, store)]
            yield self.decide(facts, "state carried in fp32, stored rounded", dict.fromkeys(places))

"""Steps of the reduced axis over all tiles are shared out evenly among blocks: stream-K."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, vary
from kb.analysis.facts import Facts
from kb.analysis.stream_k import streams
from kb.evidence import Decision

_STEPS = """
@triton.jit
def product(
    a, b, out, parts, locks, N, K, per, rest, steps,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
):
    own = tl.program_id(0)
    begin = own * per + tl.minimum(own, rest)
    last = (own + 1) * per + tl.minimum(own + 1, rest)
    place = tl.arange(0, TM)[:, None] * TN + tl.arange(0, TN)[None, :]
    while begin < last:
        done = begin % steps
        end = tl.minimum(begin + (steps - done), last)
        tile = begin // steps
        m = tile // (N // TN) * TM + tl.arange(0, TM)
        n = tile % (N // TN) * TN + tl.arange(0, TN)
        k = done * TK + tl.arange(0, TK)
        acc = tl.zeros((TM, TN), dtype=tl.float32)
        for t in range(begin, end):
            x = tl.load(a + m[:, None] * K + k[None, :])
            y = tl.load(b + k[:, None] * N + n[None, :])
            acc = tl.dot(x, y, acc)
            k += TK
        to = out + m[:, None] * N + n[None, :]
"""
_ADDED = """        if end % steps == 0:
            tl.store(to, acc)
            tl.atomic_xchg(locks + tile, 1)
        else:
            while tl.atomic_cas(locks + tile, 1, 1) != 1:
                pass
            tl.atomic_add(to, acc)
        begin = end
"""
_HANDED = """        if done != 0:
            tl.store(parts + own * TM * TN + place, acc)
            tl.atomic_xchg(locks + own, 1)
        else:
            while tl.atomic_cas(locks + own + 1, 1, 1) != 1:
                pass
            acc += tl.load(parts + (own + 1) * TM * TN + place)
            tl.store(to, acc)
        begin = end
"""
STREAM = POINTER + _STEPS + _ADDED
STREAM_PARTS = POINTER + _STEPS + _HANDED


class StreamedSteps(Pattern):
    """A block walks over its own steps of all tiles' reduced axes: each round begins where the last
    one ended, and a step is taken apart into its tile and its place in it."""

    name = "steps-of-all-tiles-shared-out"
    axis = "work_decomposition"
    source = "Osama et al., Stream-K: Work-centric Parallel Decomposition for Dense GEMM (2023)"
    matches = (Case(STREAM, "stream-K"), Case(STREAM_PARTS, "stream-K"))
    near_misses = (
        NearMiss(
            vary(STREAM, ("begin = own * per + tl.minimum(own, rest)", "begin = 0")),
            why="every block walks over all steps",
        ),
        NearMiss(
            vary(STREAM, ("        begin = end\n", "        begin += steps\n")),
            why="a block takes whole tiles",
        ),
        NearMiss(PRODUCT_POINTER, why="a block has one tile"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for stream in streams(facts):
            nodes = [*stream.ids, *stream.begin, stream.outer.node, *stream.tile, *stream.within]
            yield self.decide(facts, "stream-K", nodes)
            return

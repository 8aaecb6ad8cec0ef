"""One launch that walks the tiles of several problems."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    POINTER,
    PRODUCT,
    PRODUCT_PERSISTENT,
    PRODUCT_POINTER,
    TILE,
    vary,
)
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.problem_walks import problem_walk
from kb.analysis.tile_search import tile_searches
from kb.evidence import Decision

_GROUPED = (
    TILE
    + """
@ct.kernel
def many(xs, outs, TM: Int, TN: Int, STEP: Int):
    t = ct.bid(0)
    done = 0
    for g in range(len(xs)):
        x = xs[g]
        out = outs[g]
        wide = ct.num_tiles(x, 1, (TM, TN))
        count = ct.num_tiles(x, 0, (TM, TN)) * wide
        while t >= done and t < done + count:
            own = t - done
            v = ct.load(x, (own // wide, own % wide), shape=(TM, TN))
            ct.store(out, (own // wide, own % wide), v)
            t += STEP
        done = done + count
"""
)


GROUPED_POINTER = (
    POINTER
    + """
@triton.jit
def many(x, out, sizes, wide, COUNT: tl.constexpr, STEP: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr):
    t = tl.program_id(0)
    done = 0
    for g in range(COUNT):
        rows = tl.load(sizes + g)
        count = tl.cdiv(rows, TM) * wide
        while t >= done and t < done + count:
            own = t - done
            m = (own // wide) * TM + tl.arange(0, TM)
            n = (own % wide) * TN + tl.arange(0, TN)
            at = m[:, None] * wide * TN + n[None, :]
            tl.store(out + at, tl.load(x + at, mask=m[:, None] < rows), mask=m[:, None] < rows)
            t += STEP
        done = done + count
"""  # noqa: E501
)


_COUNTED = vary(
    GROUPED_POINTER,
    ("        while t >= done and t < done + count:\n",
     "        if t >= done and t < done + count:\n"
     "          for _ in range((done + count - t + STEP - 1) // STEP):\n"),
)  # fmt: skip


FOUND = (
    TILE
    + """
@ct.kernel
def many(x, out, sizes, MOST: Int, COUNT: Int, WIDE: Int, STEP: Int, TM: Int, TN: Int):
    for slot in range(ct.cdiv(MOST, STEP)):
        t = ct.bid(0) + slot * STEP
        done = 0
        first = 0
        own = 0
        rows = 0
        local = 0
        for g in range(COUNT):
            size = ct.load(sizes, index=(g,), shape=(1,)).item()
            count = ct.cdiv(size, TM) * WIDE
            if t >= done and t < done + count:
                own = g
                rows = size
                local = t - done
            if t >= done + count:
                first = first + size
            done = done + count
        if rows > 0:
            m = first + (local // WIDE) * TM + ct.arange(TM, dtype=ct.int32)
            n = (local % WIDE) * TN + ct.arange(TN, dtype=ct.int32)
            v = ct.gather(x, (m[:, None], n[None, :]))
            ct.scatter(out, (m[:, None], n[None, :]), v * own)
"""
)
_WALKED = "persistent walk with running problem end"
_SEARCHED = "problem of a tile found by a walk over the sizes"


class MultiProblemWalk(Pattern):
    """A cursor that starts at the block id is carried over a loop of problems beside their running
    end, and an inner loop moves it on while it lies before that end; or a loop over problems
    compares the number of a tile with their running end and keeps the problem that holds it."""

    name = "multi-problem-persistent-walk"
    axis = "work_decomposition"
    source = "tilelore catalogue, P08; Triton documentation, Group GEMM tutorial"
    matches = (
        Case(_GROUPED, _WALKED),
        Case(GROUPED_POINTER, _WALKED),
        Case(_COUNTED, _WALKED),
        Case(FOUND, _SEARCHED),
        Case(
            vary(
                GROUPED_POINTER,
                (
                    "        done = done + count",
                    "        if count > 0:\n            done = done + count",
                ),
            ),
            _WALKED,
        ),
    )
    near_misses = (
        NearMiss(
            vary(FOUND, ("t >= done and t < done + count", "size > 0")),
            why="the last problem that has rows",
            value=_SEARCHED,
        ),
        NearMiss(
            vary(FOUND, ("                own = g\n", ""), ("v * own", "v")),
            why="nothing is found by the number of the problem",
            value=_SEARCHED,
        ),
        NearMiss(
            vary(_COUNTED, ("range((done + count - t + STEP - 1) // STEP)", "range(STEP)")),
            why="as many tiles of every problem",
        ),
        NearMiss(PRODUCT, why="one problem, one tile per block"),
        NearMiss(PRODUCT_PERSISTENT, why="one problem"),
        NearMiss(PRODUCT_POINTER, why="one problem, one tile per block"),
        NearMiss(PRODUCT_THREADS, why="one problem, one tile per block"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        where = problem_walk(facts)
        if where:
            yield self.decide(facts, _WALKED, where)
        for search in tile_searches(facts):
            yield self.decide(facts, _SEARCHED, (search.loop.node, *search.tests, *search.sums))

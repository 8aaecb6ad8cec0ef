"""Softmax with its maximum known before the exponentials are summed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import (
    ATTENTION,
    BACKWARD_KEYS,
    POINTER,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_merges import PAIR_POINTER
from extractors.patterns.cases_norms_threads import SOFTMAX_IN_PLACE_THREADS
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_rows import NORM_PERSISTENT, SOFTMAX, SOFTMAX_CHUNKS
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.exponentials import Exponential
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.loops import Role, persistent
from kb.analysis.merging import LOGARITHMS
from kb.evidence import Decision
from kb.ops import OpKind

_BY_ONE = """__global__ void soft(const float* x, float* out, int rows, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float top = -INFINITY;
    for (int i = 0; i < n; ++i) top = fmaxf(top, x[row * n + i]);
    float tot = 0.f;
    for (int i = 0; i < n; ++i) tot += expf(x[row * n + i] - top);
    for (int i = 0; i < n; ++i) out[row * n + i] = expf(x[row * n + i] - top) / tot;
}
"""
_STORED = (
    _BY_ONE.replace("blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.x")
    .replace("int i = 0; i < n; ++i", "int i = threadIdx.x; i < n; i += 32")
    .replace("    float tot = 0.f;\n", "    TOP\n    float tot = 0.f;\n    FIRST\n")
    .replace("tot += expf(x[row * n + i] - top)", "tot += out[row * n + i]")
    .replace("expf(x[row * n + i] - top) / tot", "out[row * n + i] / tot")
    .replace("TOP", "for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));")
    .replace(
        "FIRST",
        "for (int i = threadIdx.x; i < n; i += 32) out[row * n + i] = expf(x[row * n + i] - top);",
    )
    .replace(
        "    for (int i = threadIdx.x; i < n; i += 32) out[row * n + i] = out",
        "    for (int o = 16; o; o /= 2) tot += __shfl_xor_sync(~0u, tot, o);\n"
        "    for (int i = threadIdx.x; i < n; i += 32) out[row * n + i] = out",
    )
)
_OF_PRODUCT = vary(
    PRODUCT_POINTER,
    (
        "    tl.store(out",
        "    e = tl.exp(acc - tl.max(acc, axis=1)[:, None])\n"
        "    acc = e / tl.sum(e, axis=1)[:, None]\n    tl.store(out",
    ),
)
_EITHER = (
    POINTER
    + """
@triton.jit
def soft(x, out, n, WHOLE: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0) * n
    if WHOLE:
        at = tl.arange(0, T)
        v = tl.load(x + row + at, mask=at < n, other=float("-inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + row + at, e / tl.sum(e, axis=0), mask=at < n)
    else:
        top = tl.full([T], float("-inf"), dtype=tl.float32)
        total = tl.full([T], 0.0, dtype=tl.float32)
        for i in range(0, n, T):
            at = i + tl.arange(0, T)
            v = tl.load(x + row + at, mask=at < n, other=float("-inf"))
            new = tl.maximum(top, v)
            total = total * tl.exp(top - new) + tl.exp(v - new)
            top = new
        whole = tl.max(top, axis=0)
        total = tl.sum(total * tl.exp(top - whole), axis=0)
        for i in range(0, n, T):
            at = i + tl.arange(0, T)
            v = tl.load(x + row + at, mask=at < n, other=float("-inf"))
            tl.store(out + row + at, tl.exp(v - whole) / total, mask=at < n)
"""
)


class MultiPassSafeSoftmax(Pattern):
    """max, exp of the difference, sum, then a quotient or the logarithm of the sum: on one resident
    tile, perhaps of finished products, or in three loops."""

    name = "multi-pass-safe-softmax"
    axis = "softmax_scheme"
    source = "Milakov and Gimelshein, Online normalizer calculation for softmax (2018), algorithm 2"
    matches = (
        Case(SOFTMAX_IN_PLACE_THREADS, "safe 3-pass"),
        Case(SOFTMAX, "single resident tile"),
        Case(SOFTMAX_CHUNKS, "safe 3-pass"),
        Case(SOFTMAX_POINTER, "single resident tile"),
        Case(SOFTMAX_THREADS, "single resident tile"),
        Case(_OF_PRODUCT, "single resident tile"),
        Case(_BY_ONE, "safe 3-pass"),
        Case(_EITHER, "single resident tile"),
        Case(PAIR_POINTER, "single resident tile"),
        Case(_STORED, "safe 3-pass"),
    )
    near_misses = (
        NearMiss(
            vary(_OF_PRODUCT, ("e / tl.sum(e, axis=1)[:, None]", "e")), why="nothing is summed"
        ),
        NearMiss(BACKWARD_KEYS, why="the statistics are loaded"),
        NearMiss(ATTENTION, why="the maximum runs along with the sum"),
        NearMiss(NORM_PERSISTENT, why="no exponential"),
        NearMiss(vary(_EITHER, ("e / tl.sum(e, axis=0)", "e")), why="nothing is summed"),
        NearMiss(
            vary(PAIR_POINTER, ("        tl.store(out - 2 * ROWS + row, top)\n", "")),
            why="exponentials and their sum, which nothing is known to divide",
        ),
        NearMiss(FLASH_POINTER, why="the maximum runs along with the sum"),
        NearMiss(FLASH_THREADS, why="the maximum runs along with the sum"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        online = {loop for e in facts.exponentials if e.rescale for loop in e.node.loops[:1]}
        if any(e.rescale and not e.node.loops for e in facts.exponentials) and not online:
            return
        for e in facts.exponentials:
            if e.rescale or any(_of_loop(facts, e, loop) for loop in online):
                continue
            maxima = facts.graph.roots(e.statistic, OpKind.REDUCE_MAX) or self._walked(
                facts, Role.RUNNING_MAXIMUM, e.statistic
            )
            sums = self._sums(facts, e)
            if not maxima or not sums or e.score is None:
                continue
            work = [loop.node for loop in facts.loops if not persistent(loop, facts.values)]
            taken = (*maxima, *sums)
            if facts.contractions and any(n.op.regions or n.loop in work for n in taken):
                continue
            if not facts.contractions and any(self._holder(facts, n) in work for n in taken):
                if online:
                    continue
                yield self._loops(facts, e, maxima, sums)
            else:
                quotients = [
                    n
                    for n in facts.graph.of(OpKind.DIV, OpKind.MUL)
                    if self._quotient(facts, n, e, sums)
                ] or [
                    n
                    for n in facts.graph.of(*LOGARITHMS)
                    if facts.graph.producer(facts.graph.core(n.op.inputs[0])) in sums
                ]
                ends: list[Where] = [*quotients] or self._left(facts, maxima, sums)
                if not ends:
                    continue
                where: list[Where] = [*maxima, e.difference, e.node, *sums, *ends]
                yield self.decide(facts, "single resident tile", where)
            return

    def _left(self, facts: Facts, maxima: list[Node], sums: list[Node]) -> list[Where]:
        """Stores of a maximum and of a sum as they are, for another kernel to divide by."""
        ends = {s: facts.graph.producer(facts.graph.core(s.value)) for s in facts.stores}
        both = [[s for s, made in ends.items() if made in nodes] for nodes in (maxima, sums)]
        return [*both[0], *both[1]] if all(both) else []

    def _sums(self, facts: Facts, e: Exponential) -> list[Node]:
        """Sums of an exponential, perhaps stored and read again before it is summed; or the loops
        in which one thread adds it up."""
        handed = {s.array for s in facts.stores if facts.graph.rests_on(s.value, e.node)}
        taken = [e.node, *(a.node for a in facts.loads if a.array in handed)]
        found = [
            n
            for n in facts.graph.of(OpKind.REDUCE_SUM)
            if any(facts.graph.rests_on(n.result, node) for node in taken)
        ]
        return found or [
            loop.node
            for loop in facts.loops
            for c in loop.of(Role.SUM)
            if any(facts.graph.rests_on(c.next, node) for node in taken)
        ]

    def _holder(self, facts: Facts, node: Node) -> Node | None:
        """The loop that a step belongs to: itself, the one around it, or the one whose sum over the
        lanes it completes."""
        if node.op.regions or node.loop is not None:
            return node if node.op.regions else node.loop
        made = facts.graph.producer(facts.graph.core(next(iter(node.op.inputs), None)))
        return made if made is not None and made.op.kind in LOOPS else None

    def _walked(self, facts: Facts, role: Role, value: str | None) -> list[Node]:
        """Loops of one thread whose carried value of a role a value is."""
        core = facts.graph.core(value)
        return [loop.node for loop in facts.loops for c in loop.of(role) if c.result == core]

    def _quotient(self, facts: Facts, node: Node, e: Exponential, sums: list[Node]) -> bool:
        over, under = node.op.inputs[:2]
        return facts.graph.rests_on(over, e.node) and any(
            facts.graph.rests_on(under, s) for s in sums
        )

    def _loops(
        self, facts: Facts, e: Exponential, maxima: list[Node], sums: list[Node]
    ) -> Decision:
        stores = [s.node for s in facts.stores]
        summed = self._holder(facts, sums[0])
        last = [n for n in stores if n.loop is not None and n.loop is not summed]
        held = [self._holder(facts, n) for n in (*maxima, *sums, *last)]
        loops = [n for n in held if n is not None]
        value = "safe 3-pass" if len(set(loops)) >= 3 else "safe 2-pass"
        return self.decide(facts, value, [*maxima, e.node, *sums, *last])


def _of_loop(facts: Facts, e: Exponential, loop: Node) -> bool:
    """Whether an exponential is of a loop in which sums are rescaled, or of the maximum that it
    leaves."""
    return e.node.inside(loop) or facts.graph.rests_on(e.statistic, loop)

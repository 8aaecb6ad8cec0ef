"""Operands of a product that are unpacked, and scaled by groups, before they are multiplied."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Role, updates
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_BITS = frozenset({OpKind.SHIFT_RIGHT, OpKind.BIT_AND})
_SCALES = frozenset({OpKind.MUL, OpKind.FMA})
_TABLE = 256
"""No table of numbers of few bits has more."""
_SHIFTS = frozenset({OpKind.SUB, OpKind.ADD})

WEIGHTS = vary(
    PRODUCT_POINTER,
    ("def product(a, b, out,", "def product(a, b, scales, zeros, out,"),
    ("acc += tl.dot(x, y)",
     "u = (y >> ((k[:, None] % 8) * 4)) & 15\n"
     "        g = tl.load(scales + t * N + n[None, :])\n"
     "        z = tl.load(zeros + t * N + n[None, :])\n"
     "        acc += tl.dot(x, ((u - z) * g).to(tl.float16))"),
)  # fmt: skip
_POWERS = vary(WEIGHTS, ("(u - z) * g", "u * tl.exp2(g.to(tl.float32) - 127.0)"))
_ROW = (
    POINTER
    + """
@triton.jit
def gemv(a, x, scales, out, n, k, TN: tl.constexpr, TK: tl.constexpr):
    rows = tl.program_id(0) * TN + tl.arange(0, TN)
    cols = tl.arange(0, TK)
    w = tl.load(a + rows[:, None] * k + cols[None, :] // 8)
    u = (w >> ((cols[None, :] % 8) * 4)) & 15
    g = tl.load(scales + rows[:, None])
    v = tl.load(x + cols)
    tl.store(out + rows, tl.sum(u * g * v[None, :], axis=1), mask=rows < n)
"""
)
_WORDS_THREADS = """__global__ void gemv(const int* w, const float* x, const float* scales, float* out, int n, int k) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float sum = 0.f;
    for (int i = 0; i < k; ++i) {
        unsigned word = w[i * n + at];
        float by = scales[i / 32 * n + at];
        sum += by * (float)(word & 0xFF) * x[2 * i];
        sum += by * (float)((word >> 8) & 0xFF) * x[2 * i + 1];
    }
    out[at] = sum;
}
"""  # noqa: E501


class DequantisedOperand(Pattern):
    """Bits of a loaded word become numbers, which are multiplied by loaded scales before the
    product."""

    name = "operand-dequantised-before-the-product"
    axis = "quant_scaling"
    source = "Frantar et al., GPTQ (2022), section 4: groups of weights"
    matches = (
        Case(WEIGHTS, "dequantised before the product"),
        Case(_WORDS_THREADS, "dequantised before the product"),
        Case(_POWERS, "dequantised before the product"),
        Case(_ROW, "dequantised before the product"),
    )
    near_misses = (
        NearMiss(
            vary(WEIGHTS, ("((u - z) * g).to(tl.float16)", "u.to(tl.float16)")),
            why="unpacked, but not scaled",
        ),
        NearMiss(
            vary(WEIGHTS, ("((u - z) * g)", "((y - z) * g)")),
            why="numbers that are multiplied by others: nothing tells that they were rounded",
        ),
        NearMiss(vary(_WORDS_THREADS, ("by * (float)", "(float)")), why="unpacked, but not scaled"),
        NearMiss(PRODUCT_POINTER, why="operands are multiplied as they are loaded"),
        NearMiss(PRODUCT, why="operands are multiplied as they are loaded"),
        NearMiss(ADD_POINTER, why="no product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = [n for operand in unpacked_operands(facts) for n in scaled(facts, operand)]
        if found:
            yield self.decide(facts, "dequantised before the product", found)


@lru_cache(maxsize=2)
def unpacked_operands(facts: Facts) -> list[list[Node]]:
    """Of every operand that is computed from bits of loaded words: the operations from the bits up
    to the product, nearest to it first."""
    words = [n for n in facts.graph.of(*_BITS) if _word(facts, n)]
    if not words:
        return []
    found = [_way(facts, value, words) for value in _operands(facts)]
    return [way for way in found if way]


def scaled(facts: Facts, way: list[Node]) -> list[Node]:
    """Steps of an operand that multiply it by loaded numbers, and those that move its zero, with
    the loads; none when nothing is multiplied."""
    made = {n.result for n in way}
    given = {
        n: [a.node for v in n.op.inputs if v not in made for a in _given(facts, v)]
        for n in way
        if n.op.kind in _SCALES | _SHIFTS
    }
    if not any(loads for n, loads in given.items() if n.op.kind in _SCALES):
        return []
    moved = [n for n, loads in given.items() if loads]
    return [*moved, *(load for n in moved for load in given[n])]


def _operands(facts: Facts) -> Iterable[str]:
    for product in facts.contractions:
        yield from (v for role in ("lhs", "rhs") if (v := product.op.operand(role)))
    for total in facts.graph.of(OpKind.REDUCE_SUM):
        made = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
        if made is not None and made.op.kind == OpKind.MUL:
            yield from made.op.inputs[:2]
    for loop in facts.loops if facts.of_threads else ():
        for state in loop.of(Role.SUM, Role.ACCUMULATOR, Role.RUNNING_SUM):
            for step in updates(facts.graph, state.argument, state.next):
                below = [facts.graph.producer(facts.graph.core(v)) for v in step.op.inputs]
                products = [n for n in below if step.op.kind == OpKind.ADD and n is not None]
                products += [step] if step.op.kind == OpKind.FMA else []
                yield from (
                    value for n in products if n.op.kind in _SCALES for value in n.op.inputs[:2]
                )


def _word(facts: Facts, node: Node) -> bool:
    """Bits that are taken out of a loaded number, not of a mask."""
    inputs = node.op.inputs[:2]
    return facts.types.dtype(node.result) != "i1" and any(
        bool(facts.held_loads(v)) or facts.graph.kind_of(facts.graph.core(v)) in _BITS
        for v in inputs
    )


def _way(facts: Facts, operand: str, words: list[Node]) -> list[Node]:
    """What stands between the bits of words and an operand; nothing past reductions, nor past loads
    but those of a table that the bits index."""
    stops = {*words}

    def stop(node: Node) -> bool:
        read = facts.access(node) is not None and not _looked_up(facts, node, words)
        return node in stops or read or node.op.kind in REDUCTIONS

    way = [*facts.graph.upstream(operand, stop, facts.graph.node_set(words))]
    return way if any(node in stops for node in way) else []


def _looked_up(facts: Facts, load: Node, words: list[Node]) -> bool:
    """Whether a load takes from a table what a few bits choose."""
    return any(
        word.kind == OpKind.BIT_AND
        and (mask := facts.number(word.op.inputs[1])) is not None
        and 0 < mask < _TABLE
        and any(facts.graph.rests_on(v, word) for v in load.op.inputs)
        for word in words
    )


def _given(facts: Facts, value: str) -> list[Access]:
    """The loads that a scale or a zero is, or whose exponent it raises."""
    held = facts.held_loads(value)
    powers = [] if held else facts.graph.ends(value, VIEWS | CASTS)
    for power in (n for n in powers if n.op.kind == OpKind.EXP2):
        made = facts.graph.producer(facts.graph.core(power.op.inputs[0]))
        moved = made is not None and made.op.kind in _SHIFTS
        held += facts.held_loads(made.op.inputs[0] if made and moved else power.op.inputs[0])
    return held

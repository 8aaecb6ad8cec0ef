"""A contraction in two parts: the second product starts from the first one's result."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Carried, Loop, Role
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_CHAINED = vary(
    ATTENTION,
    ("s = ct.mma(fixed, k, s)",
     "s = ct.mma(fixed, k, s)\n        k2 = ct.load(c, index=(bat, kv, 0, j), shape=(1, 1, W, TN), order=(0, 1, 3, 2)).reshape((W, TN))\n"  # noqa: E501
     "        s = ct.mma(fixed, k2, s)"),
)  # fmt: skip


_CHAINED_POINTER = vary(
    FLASH_POINTER,
    ("s = tl.dot(fixed, k)",
     "s = tl.dot(fixed, k)\n        k2 = tl.load(c + bat * tb + kv * th + cols[None, :] * tn + lane[:, None])\n"  # noqa: E501
     "        s = tl.dot(fixed, k2, s)"),
)  # fmt: skip


_CHAINED_THREADS = vary(
    FLASH_THREADS,
    ("        int col = j + threadIdx.x;",
     "        for (int d = 0; d < T; ++d) s += __half2float(tq[threadIdx.y][d]) * __half2float(tv[threadIdx.x][d]);\n        int col = j + threadIdx.x;"),  # noqa: E501
)  # fmt: skip


_LINEAR = (
    POINTER
    + """
@triton.jit
def chunk(q, h, scores, v, out, g, K, T: tl.constexpr, TK: tl.constexpr):
    m = tl.program_id(0) * T + tl.arange(0, T)
    n = tl.arange(0, T)
    acc = tl.zeros((T, T), dtype=tl.float32)
    for i in range(0, K, TK):
        k = i + tl.arange(0, TK)
        x = tl.load(q + m[:, None] * K + k[None, :])
        acc += tl.dot(x, tl.load(h + k[:, None] * T + n[None, :]))
    acc = acc * tl.load(g + m)[:, None]
    s = tl.load(scores + m[:, None] * T + n[None, :])
    y = tl.load(v + m[:, None] * T + n[None, :])
    tl.store(out + m[:, None] * T + n[None, :], acc + tl.dot(s, y))
"""
)
_TWO = "two MMAs into one accumulator"
_SCALED = VIEWS | CASTS | {OpKind.MUL, OpKind.SELECT, OpKind.IF, OpKind.PERMUTE, OpKind.TRANSPOSE}
_SUMMED = VIEWS | CASTS | {OpKind.ADD, OpKind.IF}
_ADDED = vary(
    PRODUCT_POINTER,
    (
        "acc += tl.dot(x, y)",
        "acc += tl.dot(x, y)\n        acc += tl.dot(tl.load(c + m[:, None] * K + k[None, :]), y)",
    ),
    ("def product(a, b,", "def product(a, b, c,"),
)


class ChainedProducts(Pattern):
    """The third operand of a product is another product of the same iteration, perhaps times a
    factor, or the two are added; or a product is added to the sum that a loop over other arrays
    gave."""

    name = "chained-mma-accumulation-over-concatenated-contraction-dims"
    axis = "contraction_split"
    source = "DeepSeek-AI, DeepSeek-V2 (2024), multi-head latent attention"
    matches = (
        Case(_CHAINED, _TWO),
        Case(_CHAINED_POINTER, _TWO),
        Case(_CHAINED_THREADS, _TWO),
        Case(_LINEAR, _TWO),
        Case(_ADDED, _TWO),
        Case(vary(_CHAINED_POINTER, ("k2, s)", "k2, s * 2.0)")), _TWO),
        Case(vary(_CHAINED, ("k2, s)", "k2, s * 2.0)")), _TWO),
        Case(vary(_LINEAR, ("acc + tl.dot(s, y)", "tl.dot(s, y, acc)")), _TWO),
    )
    near_misses = (
        NearMiss(
            vary(_CHAINED_POINTER, ("k2, s)", "k2, s * tl.dot(fixed, k2))")),
            why="the product of two products, lane by lane, is added to",
        ),
        NearMiss(
            vary(
                _LINEAR,
                ("tl.load(scores + m[:, None] * T", "tl.load(q + m[:, None] * K"),
                ("tl.load(v + m", "tl.load(h + m"),
            ),
            why="the last step of the loop, written after it",
        ),
        NearMiss(vary(_LINEAR, ("acc + tl.dot(s, y)", "acc + s * y")), why="nothing is contracted"),
        NearMiss(
            vary(_ADDED, ("        acc += tl.dot(tl", "        acc *= tl.dot(tl")),
            why="the two products are multiplied, not added",
        ),
        NearMiss(PRODUCT_POINTER, why="the accumulator comes from the iteration before"),
        NearMiss(ATTENTION, why="every product has an accumulator of its own"),
        NearMiss(PRODUCT, why="the accumulator comes from the iteration before"),
        NearMiss(FLASH_POINTER, why="every product has an accumulator of its own"),
        NearMiss(FLASH_THREADS, why="every product has an accumulator of its own"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for product in facts.contractions:
            before = _terms(facts, product.op.operand("acc"), product.loop)
            if before:
                yield self.decide(facts, _TWO, (*before, product))
        added = [n for node in facts.graph.of(OpKind.ADD) for n in self._joined(facts, node)]
        if added:
            yield self.decide(facts, _TWO, dict.fromkeys(added))
        after = [
            n
            for product in (facts.contractions if not facts.of_threads else ())
            if product.loop is None
            for n in self._after_loop(facts, product)
        ]
        if after:
            yield self.decide(facts, _TWO, dict.fromkeys(after))

    def _after_loop(self, facts: Facts, product: Node) -> list[Node]:
        """A sum of products that a loop has finished, and one of other arrays that is added."""
        own = _arrays(facts, [product])
        for loop, state in self._begun(facts, product):
            sums = [
                p
                for p in facts.contractions
                if p.loop is loop.node and facts.graph.rests_on(state.next, p)
            ]
            rest = _arrays(facts, sums)
            if sums and own - rest and rest - own:
                return [*sums, product]
        return []

    def _joined(self, facts: Facts, total: Node) -> list[Node]:
        """The products of one iteration that an addition joins, with it."""
        sides = [_terms(facts, v, total.loop) for v in total.op.inputs[:2]]
        return [*sides[0], *sides[1], total] if all(sides) else []

    def _begun(self, facts: Facts, product: Node) -> list[tuple[Loop, Carried]]:
        """Sums of loops that a product is added to, perhaps after a factor."""
        sums = [v for v in (product.op.operand("acc"),) if v is not None]
        for node in facts.graph.downstream(product.result, 8):
            if node.op.kind == OpKind.ADD:
                left, right = node.op.inputs[:2]
                ends = (facts.graph.rests_on(left, product), facts.graph.rests_on(right, product))
                sums += {(False, True): [left], (True, False): [right]}.get(ends, [])
                break
        for value in sums:
            if facts.graph.kind_of(value) in _SCALED:
                sums += [v for v in facts.graph.feeds(value) if v not in sums]
        return [
            (loop, c)
            for loop in facts.loops
            if not loop.node.loops
            for c in loop.of(Role.ACCUMULATOR)
            if c.result in sums
        ]


def _terms(facts: Facts, value: str | None, loop: Node | None) -> list[Node]:
    """The products of a loop's iteration that a value adds up, without what it carries; each
    perhaps times a factor that no product makes."""
    found, pending = [], [value] if value is not None else []
    for current in pending:
        node = facts.graph.producer(current)
        if node is not None and node.op.kind in CONTRACTIONS:
            found += [node] if node.loop is loop else []
        elif node is not None and node.op.kind == OpKind.MUL:
            made = [v for v in node.op.inputs[:2] if facts.graph.roots(v, *CONTRACTIONS)]
            pending += made if len(made) == 1 else []
        elif node is not None and node.op.kind in _SUMMED:
            pending += [v for v in facts.graph.feeds(current) if v not in pending]
    return found


def _arrays(facts: Facts, products: list[Node]) -> set[str | None]:
    """Arrays whose tiles are operands, or are multiplied with others to be some."""
    values = [v for p in products for role in ("lhs", "rhs") if (v := p.op.operand(role))]
    nodes = (n for v in values for n in facts.graph.upstream(v, lambda n: n.op.kind not in _SCALED))
    found = [facts.access(n) for n in nodes]
    return {access.array for access in found if access is not None}

"""An operand that is added to a finished product before it is stored."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_kept import FOLDED
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.replaced_rows import multiplied
from kb.evidence import Decision
from kb.ops import OpKind

BIASED = vary(
    PRODUCT_POINTER,
    ("def product(a, b, out,", "def product(a, b, bias, out,"),
    ("    tl.store(out +", "    acc += tl.load(bias + n, mask=n < N)[None, :]\n    tl.store(out +"),
)


BIASED_TILE = vary(
    PRODUCT,
    ("def product(a, b, out,", "def product(a, b, bias, out,"),
    (
        "    ct.store(out,",
        "    acc = acc + ct.load(bias, index=(n,), shape=(TN,))\n    ct.store(out,",
    ),
)


BIASED_THREADS = vary(
    PRODUCT_THREADS,
    ("const float* __restrict__ b,", "const float* __restrict__ b, const float* bias,"),
    ("    if (m < M && n < N) out", "    acc += bias[n];\n    if (m < M && n < N) out"),
)


class AddedAfterProduct(Pattern):
    """After the loop over the contracted axis, a load that feeds no product is added; or in a loop,
    to a state that it multiplies."""

    name = "bias-added-in-the-epilogue"
    axis = "fusion"
    source = "NVIDIA, CUTLASS documentation, epilogues: bias addition before the store"
    matches = (
        Case(BIASED, "bias add"),
        Case(BIASED_TILE, "bias add"),
        Case(
            vary(BIASED, ("mask=n < N)[None, :]", "mask=n < N)[None, :] * M")),
            "bias add",
        ),
        Case(BIASED_THREADS, "bias add"),
        Case(FOLDED, "tile add"),
        Case(vary(BIASED_THREADS, ("bias[n]", "bias[m * N + n]")), "tile add"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="nothing is added"),
        NearMiss(
            vary(BIASED, ("mask=n < N)[None, :]", "mask=n < N)[None, :] * m[:, None]")),
            why="what is added is computed, not loaded",
        ),
        NearMiss(ATTENTION, why="the sum that divides the product is computed, not loaded"),
        NearMiss(PRODUCT_POINTER, why="nothing is added"),
        NearMiss(PRODUCT_THREADS, why="nothing is added"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.score_products:
            return
        states = [c.next for loop in facts.rolled_loops for c in multiplied(facts, loop)]
        for node in facts.graph.of(OpKind.ADD):
            own = not node.loops or node.result in states
            added = self._added(facts, node) if own else None
            if added is None:
                continue
            wide = [extent for extent in facts.types.shape(added.value) if extent != "1"]
            tile = len(wide) > 1 or any(s.index == added.index for s in facts.stores)
            yield self.decide(facts, "tile add" if tile else "bias add", (node,))
            return

    def _added(self, facts: Facts, node: Node) -> Access | None:
        """The load that an addition to a product takes in, when the sum is stored."""
        for product, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            if not any(facts.graph.rests_on(product, p) for p in facts.contractions):
                continue
            if any(facts.graph.rests_on(other, p) for p in facts.contractions):
                continue
            access = self._loaded(facts, other)
            if access is not None:
                stored = any(facts.graph.rests_on(s.value, node) for s in facts.stores)
                return access if stored else None
        return None

    def _loaded(self, facts: Facts, value: str) -> Access | None:
        """The load that a value is, or that it is but for a factor without axes."""
        node = facts.graph.producer(facts.graph.through(value, VIEWS | CASTS))
        if node is not None and node.op.kind == OpKind.MUL:
            wide = [v for v in node.op.inputs[:2] if facts.types.shape(v)]
            core = facts.graph.through(wide[0], VIEWS | CASTS) if len(wide) == 1 else None
            node = facts.graph.producer(core)
        access = facts.access(node) if node is not None else None
        return access if access is not None and not access.is_store else None

"""operation_of(facts) -> name of the operation that a kernel computes, from its dataflow; None
when nothing fits."""

from __future__ import annotations

from collections.abc import Callable

from kb.analysis import row_operations as rows
from kb.analysis.accesses import Access, Mode
from kb.analysis.drawn_numbers import random
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, queries_first, recomputed, sides
from kb.analysis.loops import Role
from kb.analysis.single_steps import convolved
from kb.analysis.symbolic import AtomKind
from kb.ops import COMPARISONS, OpKind


def operation_of(facts: Facts) -> str | None:
    """Name of the operation, as in ontology/operations.ttl."""
    for rule in _RULES:
        found = rule(facts)
        if found is not None:
            return found
    return None


# -- with matrix products


def _attention(facts: Facts) -> str | None:
    if not facts.score_products:
        return None
    if rebuilt := recomputed(facts):
        return _attention_backward(facts) if _weighs_values(facts, rebuilt) else None
    if (
        not attends(facts)
        or len(facts.contractions) < 2
        or not any(loop.of(Role.RUNNING_MAXIMUM) for loop in facts.loops)
    ):
        return None
    if any(e.rescale for e in facts.exponentials) and _splits(facts):
        return "attention_decode"
    return "fmha_lse" if _saves_logarithm(facts) else "fmha"


def attends(facts: Facts) -> bool:
    """Whether exponentials of products weigh what another product takes: those of a loss over the
    classes of a product are only added up, or multiplied by its own operands. What is not
    understood may be that product."""
    if rebuilt := recomputed(facts):
        return bool(facts.score_products) and _weighs_values(facts, rebuilt)
    taken = [p.op.operand(role) for p in facts.contractions for role in ("lhs", "rhs")]
    taken += [value for n in facts.graph.of(OpKind.OPAQUE) for value in n.op.inputs]
    powers = facts.graph.node_set(e.node for e in facts.exponentials)
    return bool(facts.score_products) and any(
        facts.graph.rests_on_any(value, powers) for value in taken
    )


def _attention_by_lanes(facts: Facts) -> str | None:
    """Attention of one query: its scores are products that lanes multiply and add up, its weights
    multiply loaded rows inside the loop of the running maximum."""
    if facts.contractions or not any(loop.of(Role.RUNNING_MAXIMUM) for loop in facts.loops):
        return None
    weights = [e for e in facts.exponentials if not e.rescale and e.score is not None]
    if not any(
        _summed_product(facts, e.score) and rows.weights(facts, e.node)
        for e in weights
        if e.score is not None
    ):
        return None
    if any(e.rescale for e in facts.exponentials) and _splits(facts):
        return "attention_decode"
    return "fmha_lse" if _saves_logarithm(facts) else "fmha"


def _summed_product(facts: Facts, score: str) -> bool:
    """True when a score is a sum of products of two arrays."""
    for total in facts.graph.roots(score, OpKind.REDUCE_SUM):
        made = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
        if made is not None and made.op.kind == OpKind.MUL:
            arrays = [{a.array for a in facts.feeding(v)} for v in made.op.inputs[:2]]
            if all(arrays) and arrays[0] != arrays[1]:
                return True
    return False


def _weighs_values(facts: Facts, probabilities: list[Node]) -> bool:
    """Whether probabilities that were built anew are those of an attention: they meet a product of
    output gradients and values, or stand in a product as they are, for the gradient of the values.
    The gradient of a loss has neither."""
    own = {node.result for node in probabilities}
    direct = any(
        facts.graph.core(product.op.operand(role)) in own
        for product in facts.contractions
        for role in ("lhs", "rhs")
    )
    return direct or any(
        product not in facts.score_products
        and not any(facts.graph.rests_on(product.result, node) for node in probabilities)
        for product in facts.contractions
    )


def _attention_backward(facts: Facts) -> str:
    grown = {c.result for loop in facts.loops for c in loop.of(Role.ACCUMULATOR)}
    stored = [
        s
        for s in facts.stores
        if any(facts.graph.rests_on(s.value, facts.graph.defs[g]) for g in grown)
    ]
    arrays = {s.array for s in stored if not s.is_atomic}
    if any(s.is_atomic for s in facts.stores):
        return "fmha_bwd"
    first = queries_first(facts, facts.score_products[0])
    if len(arrays) >= 3:
        return "fmha_bwd"
    if len(arrays) == 2:
        return "fmha_bwd_dkdv"
    return "fmha_bwd_dq" if first is not None and arrays else "fmha_bwd"


def _splits(facts: Facts) -> bool:
    """True when a block walks a part of the keys that its own id chooses, and another kernel
    merges the parts."""
    positional = [
        n
        for n in facts.graph.of(*COMPARISONS)
        if all(e.has(AtomKind.LANE) for e in sides(facts, n))
    ]
    for loop in facts.loops:
        if not loop.of(Role.RUNNING_MAXIMUM) or positional:
            continue
        if loop.low is not None and facts.values.expr(loop.low).has(AtomKind.BLOCK):
            return True
        step = facts.values.expr(loop.induction).atom if loop.induction else None
        inside = [a for a in facts.loads if a.node.inside(loop.node) and len(a.index) > 1]
        if any(step in set(e.top()) and e.has(AtomKind.BLOCK) for a in inside for e in a.index):
            return True
    return False


def _saves_logarithm(facts: Facts) -> bool:
    logs = facts.graph.of(OpKind.LOG, OpKind.LOG2)
    return any(facts.graph.rests_on(s.value, n) for n in logs for s in facts.stores)


def _convolution(facts: Facts) -> str | None:
    """Products whose loads are checked from below too, at positions taken apart from a lane or a
    loop variable; without a matrix product, inputs and weights that meet tap by tap."""
    if not facts.contractions:
        return "convolution" if convolved(facts) else None
    lower: set[str] = set()
    for access in facts.loads:
        if not any(facts.graph.rests_on(p.result, access.node) for p in facts.contractions):
            continue
        for test in comparisons(facts, access.mask):
            left, right = sides(facts, test)
            below = (test.op.kind in (OpKind.LE, OpKind.LT) and left.constant in (0, -1)) or (
                test.op.kind in (OpKind.GE, OpKind.GT) and right.constant in (0, -1)
            )
            position = right if left.constant is not None else left
            if below and position.has(AtomKind.FLOOR_DIV, AtomKind.MOD):
                lower.add(str(position))
    if not lower:
        return None
    return "conv2d" if len(lower) == 2 else "convolution"


def _product(facts: Facts) -> str | None:
    """A carried accumulator over two streamed operands."""
    main = [p for p in facts.contractions if _streams(facts, p)]
    grown = [c for loop in facts.loops for c in loop.of(Role.ACCUMULATOR)]
    if not main or (not grown and facts.loops) or (facts.exponentials and facts.reductions):
        return None
    if len(main) != len(facts.contractions):
        return None
    if _scaled(facts):
        return "quantised_gemm"
    if facts.graph.of(OpKind.WHILE) or any(
        rows.gathered(a) for p in main for a in _operands(facts, p)
    ):
        return "grouped_gemm"
    if len({s.array for s in facts.stores}) > 1:
        return None
    return "bmm" if any(_batched(facts, s) for s in facts.stores) else "gemm"


def _operands(facts: Facts, product: Node) -> list[Access]:
    return [a for role in ("lhs", "rhs") for a in facts.held_loads(product.op.operand(role))]


def _streams(facts: Facts, product: Node) -> bool:
    return all(facts.held_loads(product.op.operand(role)) for role in ("lhs", "rhs"))


def _scaled(facts: Facts) -> bool:
    """True when the product of a step is multiplied by loaded scales before it is added, or scales
    are operands."""
    if facts.graph.of(OpKind.MMA_SCALED):
        return True
    for product in facts.contractions:
        for user in facts.graph.users(product.result):
            if user.op.kind == OpKind.MUL and product.loop is not None:
                other = [v for v in user.op.inputs[:2] if v != product.result]
                if any(a.node.inside(product.loop) for v in other for a in facts.feeding(v)):
                    return True
    return False


def _batched(facts: Facts, store: Access) -> bool:
    if store.mode is Mode.TILE:
        return len(store.index) == 3
    blocks = {a.text for e in store.index for a in e.atoms() if a.kind is AtomKind.BLOCK}
    return len(blocks) >= 3


_RULES: tuple[Callable[[Facts], str | None], ...] = (
    _attention, _attention_by_lanes, _convolution, _product, rows.merged, rows.norm,
    random, rows.softmax, rows.row_products, rows.norm_backward, rows.scan, rows.moves,
    rows.rotates, rows.merges, rows.activates, rows.sums, rows.maps,
)  # fmt: skip

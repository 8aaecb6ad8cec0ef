"""operation_of(facts) -> name of the operation that a kernel computes, from its dataflow; None when nothing fits."""

from __future__ import annotations

from collections.abc import Callable

from extractors.analysis.accesses import Access, Mode
from extractors.analysis.facts import Facts
from extractors.analysis.graph import CASTS, VIEWS, Node
from extractors.analysis.idioms import comparisons, queries_first, recomputed, sides
from extractors.analysis.loops import Role
from extractors.analysis.symbolic import AtomKind
from kb.ops import COMPARISONS, REDUCTIONS, OpKind

_RANDOM = (OpKind.RAND, OpKind.RANDN, OpKind.RAND4, OpKind.PHILOX, OpKind.RANDINT, OpKind.RANDINT4)
_COMPUTES = frozenset(
    {
        OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.EXP, OpKind.EXP2,
        OpKind.TANH, OpKind.SIGMOID, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.SELECT, OpKind.ERF,
        OpKind.LOG, OpKind.SQRT, OpKind.RSQRT, OpKind.POW,
    }
)  # fmt: skip


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
    if recomputed(facts):
        return _attention_backward(facts)
    second = [
        p
        for p in facts.contractions
        if p not in facts.score_products
        and any(
            facts.graph.rests_on(p.op.operand(r), e.node)
            for e in facts.exponentials
            for r in ("lhs", "rhs")
        )
    ]
    if not second or not any(loop.of(Role.RUNNING_MAXIMUM) for loop in facts.loops):
        return None
    if any(e.rescale for e in facts.exponentials) and _splits(facts):
        return "attention_decode"
    return "fmha_lse" if _saves_logarithm(facts) else "fmha"


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
    """True when a block walks a part of the keys that its own id chooses, and another kernel merges the parts."""
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
    """Products whose loads are checked from below too, at positions taken apart from a lane or a loop variable."""
    if not facts.contractions:
        return None
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
    if facts.graph.of(OpKind.WHILE) or any(_gathered(a) for p in main for a in _operands(facts, p)):
        return "grouped_gemm"
    if len({s.array for s in facts.stores}) > 1:
        return None
    return "bmm" if any(_batched(facts, s) for s in facts.stores) else "gemm"


def _operands(facts: Facts, product: Node) -> list[Access]:
    return [a for role in ("lhs", "rhs") for a in facts.held_loads(product.op.operand(role))]


def _streams(facts: Facts, product: Node) -> bool:
    return all(facts.held_loads(product.op.operand(role)) for role in ("lhs", "rhs"))


def _gathered(access: Access) -> bool:
    return any(e.has(AtomKind.LOADED) for e in access.index)


def _scaled(facts: Facts) -> bool:
    """True when the product of a step is multiplied by loaded scales before it is added, or scales are operands."""
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


# -- without matrix products


def _softmax(facts: Facts) -> str | None:
    plain = [e for e in facts.exponentials if not e.rescale and e.score is not None]
    shifted = [
        e
        for e in plain
        if e.statistic is not None and facts.graph.roots(e.statistic, OpKind.REDUCE_MAX)
    ]
    if facts.contractions or not shifted:
        return None
    sums = [
        n
        for n in facts.graph.of(OpKind.REDUCE_SUM)
        if any(facts.graph.rests_on(n.result, e.node) for e in shifted)
    ]
    if not sums:
        return None
    if any(
        facts.graph.rests_on(n.result, s)
        for n in facts.graph.of(OpKind.LOG, OpKind.LOG2)
        for s in sums
    ):
        if any(_gathered(a) for a in facts.loads):
            return "cross_entropy"
    if _weights(facts, shifted[0].node):
        return "split_kv_combine"
    divided = [n for n in facts.graph.of(OpKind.DIV, OpKind.MUL) if _normalises(facts, n, sums)]
    return "softmax" if divided and not _gathers_label(facts) else None


def _weights(facts: Facts, exponential: Node) -> bool:
    """True when the exponential weights another loaded tile that is summed and stored."""
    for user in facts.graph.downstream(exponential.result, 60):
        if user.op.kind == OpKind.MUL:
            loads = [set(a.array for a in facts.feeding(v)) for v in user.op.inputs[:2]]
            other = [v for v in user.op.inputs[:2] if not facts.graph.rests_on(v, exponential)]
            fresh = [a for v in other for a in facts.feeding(v)]
            if fresh and len(set().union(*loads)) > 1:
                return any(
                    n.op.kind == OpKind.REDUCE_SUM for n in facts.graph.downstream(user.result, 60)
                ) or bool(exponential.loops)
    return False


def _normalises(facts: Facts, node: Node, sums: list[Node]) -> bool:
    over, under = node.op.inputs[:2]
    exps = [e.node for e in facts.exponentials]
    direct = any(facts.graph.rests_on(over, e) for e in exps)
    return direct and any(facts.graph.rests_on(under, s) or s.loop is not None for s in sums)


def _gathers_label(facts: Facts) -> bool:
    return any(_gathered(a) and not facts.types.shape(a.value) for a in facts.loads)


def _norm(facts: Facts) -> str | None:
    """A root of a mean of squares multiplies what the squares were taken of."""
    if facts.contractions or facts.exponentials:
        return None
    roots = [
        n
        for n in facts.graph.of(OpKind.RSQRT, OpKind.SQRT)
        if facts.graph.roots(n.result, OpKind.REDUCE_SUM)
    ]
    for root in roots:
        if not any(facts.graph.rests_on(s.value, root) for s in facts.stores):
            continue
        return "layernorm" if _centred(facts, root) else "rmsnorm"
    return None


def _centred(facts: Facts, root: Node) -> bool:
    """True when a mean is taken away, before the squares or from their mean."""
    stop = (OpKind.REDUCE_SUM,)
    for node in facts.graph.of(OpKind.SUB):
        under = node.op.inputs[1]
        sums = [
            n for n in facts.graph.upstream(under, lambda n: n.op.kind in stop) if n.op.kind in stop
        ]
        if sums and (
            facts.graph.rests_on(root.result, node) or facts.graph.rests_on(under, sums[0])
        ):
            return True
    return False


def _norm_backward(facts: Facts) -> str | None:
    """Loaded row statistics rebuild the normalised row; a reduction of it times a gradient follows."""
    if facts.contractions or facts.exponentials or not facts.graph.of(OpKind.REDUCE_SUM):
        return None
    rows = [a for a in facts.loads if _narrow(facts, a)]
    hats = [
        n for n in facts.graph.of(OpKind.MUL) if any(_is(facts, v, rows) for v in n.op.inputs[:2])
    ]
    taken = [n for n in facts.graph.of(OpKind.SUB) if _is(facts, n.op.inputs[1], rows)]
    sums = facts.graph.of(OpKind.REDUCE_SUM)
    reduced = any(facts.graph.rests_on(s.op.inputs[0], h) for s in sums for h in hats)
    drawn = [
        n
        for n in facts.graph.of(OpKind.SUB)
        if any(facts.graph.rests_on(n.op.inputs[1], s) for s in sums)
    ]
    if not reduced or not drawn or len({a.array for a in facts.loads}) < 3:
        return None
    return "layernorm_backward" if taken else "rmsnorm_backward"


def _narrow(facts: Facts, access: Access) -> bool:
    width = len([e for e in facts.types.shape(access.value) if e != "1"])
    widest = max(
        (len([e for e in facts.types.shape(a.value) if e != "1"]) for a in facts.loads), default=0
    )
    return width < widest and any(e.has(AtomKind.BLOCK, AtomKind.INDUCTION) for e in access.index)


def _is(facts: Facts, value: str, accesses: list[Access]) -> bool:
    node = facts.graph.producer(facts.graph.through(value, VIEWS | CASTS))
    return any(a.node is node for a in accesses)


def _row_products(facts: Facts) -> str | None:
    """sum(a * b) of two arrays, stored alone; or used once more to subtract it from one of them."""
    sums = facts.graph.of(OpKind.REDUCE_SUM)
    if facts.contractions or facts.exponentials or len(sums) != 1 or len(facts.reductions) != 1:
        return None
    product = facts.graph.producer(facts.graph.core(sums[0].op.inputs[0]))
    if product is None or product.op.kind != OpKind.MUL:
        return None
    arrays = [{a.array for a in facts.feeding(v)} for v in product.op.inputs[:2]]
    if not arrays[0] or not arrays[1] or arrays[0] & arrays[1]:
        return None
    if all(facts.graph.core(s.value) == sums[0].result for s in facts.stores):
        return "fmha_bwd_preprocess"
    taken = [n for n in facts.graph.of(OpKind.SUB) if facts.graph.rests_on(n.op.inputs[1], sums[0])]
    return "softmax_backward" if taken else None


def _moves(facts: Facts) -> str | None:
    """No arithmetic on what is loaded: a transpose, or a copy through an index."""
    if facts.contractions or facts.reductions or not facts.stores or not facts.loads:
        return None
    if any(not facts.held_loads(s.value) for s in facts.stores):
        return None
    for store in facts.stores:
        load = facts.held_loads(store.value)[0]
        turned = facts.turned(store.value) is not None
        swapped = len(load.index) == len(store.index) == 2 and load.index == store.index[::-1]
        if (swapped and load.index[0] != load.index[1]) or (turned and load.index != store.index):
            return "transpose"
    return "access_map"


def _scan(facts: Facts) -> str | None:
    scans = facts.graph.of(OpKind.CUMSUM, OpKind.CUMPROD, OpKind.SCAN)
    found = scans and any(facts.graph.rests_on(s.value, n) for s in facts.stores for n in scans)
    return "scan" if found and not facts.contractions else None


def _random(facts: Facts) -> str | None:
    draws = facts.graph.of(*_RANDOM)
    if not draws or facts.contractions:
        return None
    masked = any(
        facts.graph.rests_on(n.op.operand("condition"), d)
        for n in facts.graph.of(OpKind.SELECT)
        for d in draws
    )
    return "dropout" if masked and facts.loads else "random_map"


def _rotates(facts: Facts) -> str | None:
    """a c - b s and b c + a s: pairs are rotated."""
    if facts.contractions or facts.reductions:
        return None
    minus = [_factors(facts, n) for n in facts.graph.of(OpKind.SUB)]
    plus = [_factors(facts, n) for n in facts.graph.of(OpKind.ADD)]
    for left in minus:
        for right in plus:
            if left and right and left[0] | left[1] == right[0] | right[1] and left[0] != right[0]:
                if len(left[0] | left[1]) == 4:
                    return "rope"
    return None


def _factors(
    facts: Facts, node: Node
) -> tuple[frozenset[str | None], frozenset[str | None]] | None:
    """Of a sum or difference of two products, the factors of each."""
    made = [facts.graph.producer(facts.graph.core(v)) for v in node.op.inputs[:2]]
    if any(m is None or m.op.kind != OpKind.MUL for m in made):
        return None
    parts = [frozenset(facts.graph.core(v) for v in m.op.inputs[:2]) for m in made if m is not None]
    return parts[0], parts[1]


def _activates(facts: Facts) -> str | None:
    """A nonlinear map of one load, alone or times another."""
    if facts.contractions or facts.reductions:
        return None
    curves = facts.graph.of(OpKind.SIGMOID, OpKind.TANH, OpKind.ERF, OpKind.EXP)
    curves = [n for n in curves if any(facts.graph.rests_on(s.value, n) for s in facts.stores)]
    if not curves or len({s.array for s in facts.stores}) != 1:
        return None
    curve = curves[0]
    base = {a.node for a in facts.feeding(curve.op.inputs[0])}
    used = {a.node for s in facts.stores for a in facts.feeding(s.value)}
    if len(base) == 1 and len(used) == 2:
        return "gated_activation"
    if len(base) != 1 or len(used) != 1:
        return None
    if curve.op.kind in (OpKind.ERF, OpKind.TANH):
        return "gelu" if _multiplies_back(facts, curve) else "activation"
    return "silu" if _multiplies_back(facts, curve) else "activation"


def _multiplies_back(facts: Facts, curve: Node) -> bool:
    """x * f(x): the load meets the curve again."""
    for node in facts.graph.downstream(curve.result, 60):
        if node.op.kind in (OpKind.MUL, OpKind.DIV):
            if any(facts.held_loads(v) for v in node.op.inputs[:2]):
                return True
            if any(
                facts.feeding(v) and not facts.graph.rests_on(v, curve) for v in node.op.inputs[:2]
            ):
                return True
    return False


def _sums(facts: Facts) -> str | None:
    if facts.contractions or not facts.reductions:
        return None
    kinds = {n.op.kind for n in facts.reductions}
    if (
        all(
            any(facts.graph.core(s.value) == n.result for n in facts.reductions)
            for s in facts.stores
        )
        and facts.stores
    ):
        return "sum" if kinds == {OpKind.REDUCE_SUM} else "reduction"
    return "reduction" if kinds <= REDUCTIONS and len(facts.reductions) == 1 else None


def _maps(facts: Facts) -> str | None:
    """Every stored value is computed elementwise from loads, or is a constant."""
    if (
        facts.contractions
        or facts.reductions
        or not facts.stores
        or facts.graph.of(OpKind.SORT, OpKind.TOPK)
    ):
        return None
    carried = any(loop.of(Role.OTHER, Role.SUM, Role.ACCUMULATOR) for loop in facts.loops)
    computes = any(n.op.kind in _COMPUTES for n in facts.graph.nodes)
    return (
        "elementwise"
        if computes and not carried and not any(s.is_atomic for s in facts.stores)
        else None
    )


_RULES: tuple[Callable[[Facts], str | None], ...] = (
    _attention, _convolution, _product, _random, _softmax, _norm, _row_products, _norm_backward,
    _scan, _moves, _rotates, _activates, _sums, _maps,
)  # fmt: skip

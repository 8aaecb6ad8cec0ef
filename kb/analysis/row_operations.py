"""Operations without matrix products: softmax, norms, gradients, moves, activations, sums."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.analysis.loops import Role
from kb.analysis.merging import merge_of
from kb.analysis.stored import computed
from kb.analysis.symbolic import AtomKind
from kb.ops import REDUCTIONS, OpKind

_COMPUTES = frozenset(
    {
        OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.EXP, OpKind.EXP2,
        OpKind.TANH, OpKind.SIGMOID, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.SELECT, OpKind.ERF,
        OpKind.LOG, OpKind.SQRT, OpKind.RSQRT, OpKind.POW,
    }
)  # fmt: skip

_LOOKS = VIEWS | CASTS | TURNS


def gathered(access: Access) -> bool:
    return any(e.has(AtomKind.LOADED) for e in access.index)


def merged(facts: Facts) -> str | None:
    """Partial results weighted by loaded statistics, with no product of matrices beside."""
    merge = None if facts.contractions else merge_of(facts)
    return "split_kv_combine" if merge is not None and merge.weighted else None


def softmax(facts: Facts) -> str | None:
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
        if any(gathered(a) for a in facts.loads):
            return "cross_entropy"
    if weights(facts, shifted[0].node):
        return "split_kv_combine"
    divided = _quotients(facts, sums) or _less_logarithm(facts, sums)
    return "softmax" if divided and not _gathers_label(facts) else None


def _less_logarithm(facts: Facts, sums: list[Node]) -> list[Node]:
    """Stored tiles less the logarithm of a sum: logarithms of a softmax."""
    return [
        node
        for node in facts.graph.of(OpKind.SUB)
        if facts.types.shape(node.result) and facts.feeding(node.op.inputs[0])
        for log in facts.graph.roots(node.op.inputs[1], OpKind.LOG, OpKind.LOG2)
        if any(facts.graph.rests_on(log.result, total) for total in sums)
        if facts.stored_in(node.result)
    ]


def shares_of_sum(facts: Facts) -> list[Node]:
    """Where exponentials of a row are divided by their sum."""
    exps = [e.node for e in facts.exponentials if not e.rescale]
    sums = [
        n
        for n in facts.graph.of(OpKind.REDUCE_SUM)
        if any(facts.graph.rests_on(n.result, e) for e in exps)
    ]
    found = _quotients(facts, sums) if sums else []
    return [n for n in found if n.op.kind == OpKind.DIV]


def _quotients(facts: Facts, sums: list[Node]) -> list[Node]:
    return [n for n in facts.graph.of(OpKind.DIV, OpKind.MUL) if _normalises(facts, n, sums)]


def merges(facts: Facts) -> str | None:
    """Partial results one after the other: each is weighted with the exponential of its maximum, or
    of the logarithm of its sum, what there is already is scaled to the new maximum."""
    found = () if facts.contractions or facts.reductions else facts.exponentials
    if not any(e.rescale for e in found):
        return None
    shares = [e.node for e in found if not e.rescale and e.node.loops]
    return "split_kv_combine" if any(_shares(facts, node) for node in shares) else None


def _shares(facts: Facts, exponential: Node) -> bool:
    """True when an exponential is multiplied with a loaded tile that is wider."""
    wide = len(facts.types.shape(exponential.result))
    others = [
        value
        for user in facts.graph.downstream(exponential.result, 20)
        if user.op.kind in (OpKind.MUL, OpKind.FMA)
        for value in user.op.inputs[:2]
        if not facts.graph.rests_on(value, exponential)
    ]
    loads = [a for value in others for a in facts.held_loads(value)]
    return any(len(facts.types.shape(a.value)) > wide for a in loads)


def weights(facts: Facts, exponential: Node) -> bool:
    """True when the exponential weights another loaded tile that is summed and stored."""
    for user in facts.graph.downstream(exponential.result, 60):
        if user.op.kind == OpKind.MUL:
            loads = [{a.array for a in facts.feeding(v)} for v in user.op.inputs[:2]]
            other = [v for v in user.op.inputs[:2] if not facts.graph.rests_on(v, exponential)]
            wide = len(facts.types.shape(exponential.result))
            fresh = [
                a for v in other for a in facts.feeding(v) if len(facts.types.shape(a.value)) > wide
            ]
            if fresh and len(set().union(*loads)) > 1:
                return any(
                    n.op.kind == OpKind.REDUCE_SUM for n in facts.graph.downstream(user.result, 60)
                ) or bool(exponential.loops)
    return False


def _normalises(facts: Facts, node: Node, sums: list[Node]) -> bool:
    sides = node.op.inputs[:2]
    ways = (sides, sides[::-1]) if node.op.kind == OpKind.MUL else (sides,)
    exps = [e.node for e in facts.exponentials]
    return any(
        any(facts.graph.rests_on(over, e) for e in exps)
        and any(facts.graph.rests_on(under, s) or s.loop is not None for s in sums)
        for over, under in ways
    )


def _gathers_label(facts: Facts) -> bool:
    return any(gathered(a) and not facts.types.shape(a.value) for a in facts.loads)


def norm(facts: Facts) -> str | None:
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
    stop = (OpKind.REDUCE_SUM, OpKind.RSQRT, OpKind.SQRT)
    for node in facts.graph.of(OpKind.SUB):
        under = node.op.inputs[1]
        sums = [
            n
            for n in facts.graph.upstream(under, lambda n: n.op.kind in stop)
            if n.op.kind == OpKind.REDUCE_SUM
        ]
        if sums and (
            facts.graph.rests_on(root.result, node) or facts.graph.rests_on(under, sums[0])
        ):
            return True
    return False


def norm_backward(facts: Facts) -> str | None:
    """Loaded row statistics rebuild the normalised row; a reduction of it times a gradient
    follows."""
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


def row_products(facts: Facts) -> str | None:
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


def moves(facts: Facts) -> str | None:
    """No arithmetic on what is loaded: a transpose, or a copy through an index."""
    if facts.contractions or not facts.stores or not facts.loads:
        return None
    held = {s: _moved(facts, s.value) for s in facts.stores}
    tiles = [s for s in held if facts.types.shape(s.value)]
    if not any(held[s] for s in tiles or held) or any(not held[s] for s in tiles):
        return None
    if any(not held[s] and not s.is_atomic and _counted(facts, s.value) for s in held):
        return None
    for store, loads in held.items():
        if not loads:
            continue
        load = loads[0]
        turned = facts.turned(store.value) is not None
        swapped = len(load.index) == len(store.index) == 2 and load.index == store.index[::-1]
        if (swapped and load.index[0] != load.index[1]) or (turned and load.index != store.index):
            return "transpose"
    return "access_map"


def _moved(facts: Facts, value: str | None) -> list[Access]:
    """The loads whose tile a value is, perhaps one of two by where it stands, or a number."""
    found: list[Access] = []
    pending = [value or ""]
    for current in pending:
        node = facts.graph.producer(current)
        access = facts.access(node) if node is not None else None
        if access is not None and not access.is_store:
            found.append(access)
        elif node is not None and node.op.kind == OpKind.SELECT:
            chosen = facts.feeding(node.op.inputs[0])
            if any(facts.types.shape(a.value) for a in chosen):
                return []
            pending += [v for v in node.op.inputs[1:] if v not in pending]
        elif node is None or node.op.kind in HELD:
            feeds = facts.graph.feeds(current)
            looks = node is not None and node.op.kind in _LOOKS
            pending += [v for v in (feeds[:1] if looks else feeds) if v not in pending]
        elif facts.number(current) is None:
            return []
    return found


def _counted(facts: Facts, value: str | None) -> bool:
    """True for a number that is computed from other than the id of the block and its counters."""
    nodes = facts.graph.upstream(value or "", lambda n: facts.access(n) is not None)
    return any(n.op.kind in _COMPUTES or n.op.kind in REDUCTIONS for n in nodes)


def scan(facts: Facts) -> str | None:
    scans = facts.graph.of(OpKind.CUMSUM, OpKind.CUMPROD, OpKind.SCAN)
    return "scan" if computed(facts, scans) and not facts.contractions else None


def rotates(facts: Facts) -> str | None:
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


def activates(facts: Facts) -> str | None:
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


def sums(facts: Facts) -> str | None:
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
    whole = kinds <= REDUCTIONS and len(facts.reductions) == 1
    return "reduction" if whole and computed(facts, facts.reductions) else None


def maps(facts: Facts) -> str | None:
    """Every stored value is computed elementwise from loads, or is a constant."""
    if (
        facts.contractions
        or computed(facts, facts.reductions)
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

"""Steps that frameworks have as operators of their own and that one kernel puts behind each other:
gates, targets, shares of a softmax, masks, weighted sums, states that are changed and read."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.accesses import Access
from kb.analysis.derivatives import logistic
from kb.analysis.exponentials import Statistic
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import between_lanes, comparisons, is_wide, sides
from kb.analysis.rebuilt import decays_by, lanes, width
from kb.analysis.rotations import rotations
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.analysis.tangents import scored
from kb.ops import OpKind

_PLACES = frozenset({AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT, AtomKind.LOADED})
_FACTORS = (OpKind.MUL, OpKind.FMA)
_LOOKS = VIEWS | CASTS
_FAR = 60
"""Uses that are followed from a function to what it gates."""


def gates(facts: Facts, curves: Iterable[Node]) -> list[Node]:
    """Multiplications of what a function of one tile gave by elements that it does not take."""
    found: dict[Node, None] = {}
    for curve in curves:
        own = facts.feeding(curve.result)
        for node in facts.graph.downstream(curve.result, _FAR) if own else ():
            for value in node.op.inputs[:2] if node.op.kind in _FACTORS else ():
                if not facts.graph.rests_on(value, curve) and facts.stored_in(node.result):
                    if any(_other(one, own) for one in _elements(facts, value)):
                        found[node] = None
        if (over := _gated_before(facts, curve)) is not None:
            found[over] = None
    return [*found]


def _gated_before(facts: Facts, curve: Node) -> Node | None:
    """The product that a curve divides by what one of its factors makes: `a b / (1 + e^-a)`."""
    if curve.op.kind != OpKind.DIV:
        return None
    over = facts.graph.producer(facts.graph.core(curve.op.inputs[0]))
    own = facts.feeding(curve.op.inputs[1])
    if over is None or over.op.kind not in _FACTORS or not own or not facts.stored_in(curve.result):
        return None
    sides = [_elements(facts, value) for value in over.op.inputs[:2]]
    apart = [side for side in sides if any(_other(one, own) for one in side)]
    return over if len(apart) == 1 and all(sides) else None


def _other(access: Access, own: list[Access]) -> bool:
    """Whether a load is of no element that others are of; another walk over an array is none."""
    same = [a for a in own if a.array == access.array]
    return all(a.index != access.index and a.loop is access.loop for a in same)


def _elements(facts: Facts, value: str) -> list[Access]:
    """Loads that a value is computed from, without those that only say where something lies."""
    loads = [a for a in facts.feeding(value) if a.value not in facts.offset_loads]
    return [a for a in loads if facts.of_threads or is_wide(facts, a.value)]


def targets(facts: Facts) -> list[Node]:
    """Places of a row that are compared with a loaded number, and what that chooses on the way to
    what is stored."""
    found: list[Node] = []
    for node in facts.graph.of(OpKind.EQ, OpKind.NE):
        left, right = sides(facts, node)
        if any(
            at.has(AtomKind.LANE) and label.has(AtomKind.LOADED) and not at.has(AtomKind.LOADED)
            for at, label in ((left, right), (right, left))
        ):
            users = [n for n in facts.graph.downstream(node.result, 12) if n.op.kind in _CHOICES]
            if any(facts.stored_in(n.result) for n in users):
                found += [node, *users[:1]]
    return found


def soft_targets(facts: Facts) -> list[Node]:
    """Loaded shares that are taken off those of a softmax, where the difference is stored and no
    exponential is taken of it."""
    powers = facts.graph.node_set(
        e.node for e in facts.exponentials if not e.rescale and e.statistic is not None
    )
    return [
        n
        for n in (facts.graph.of(OpKind.SUB) if powers and not facts.contractions else ())
        if facts.graph.rests_on_any(n.op.inputs[0], powers)
        and not facts.graph.rests_on_any(n.op.inputs[1], powers)
        and not facts.graph.roots(n.op.inputs[0], OpKind.LOG, OpKind.LOG2)
        and not any(facts.graph.rests_on(e.node.op.inputs[0], n) for e in facts.exponentials)
        and _elements(facts, n.op.inputs[1])
        and facts.stored_in(n.result)
    ]


_CHOICES = frozenset({OpKind.SELECT, OpKind.MUL, OpKind.SUB, OpKind.FMA})


def shares(facts: Facts) -> list[Node]:
    """Exponentials of scores less a saved statistic: shares of a softmax that are made again."""
    return [
        e.node
        for e in facts.exponentials
        if e.origin is Statistic.LOADED and not (e.rescale or decays_by(facts, e))
        if e.score is not None and facts.number(e.score) is None
    ]


def of_others(facts: Facts, tops: list[Node], value: str) -> bool:
    """Whether a value is loaded from other arrays than those of which two sizes were compared."""
    sides = [facts.graph.kind_of(facts.graph.core(v)) for t in tops for v in t.op.inputs[:2]]
    if any(t.op.kind != OpKind.MAXIMUM for t in tops) or set(sides) != {OpKind.ABS}:
        return False
    measured = {a.array for top in tops for v in top.op.inputs[:2] for a in facts.feeding(v)}
    own = {a.array for a in facts.feeding(value)}
    return bool(measured and own) and None not in measured | own and measured.isdisjoint(own)


def divided(facts: Facts) -> list[Node]:
    """Loaded rows divided by a loaded number."""
    return [
        n
        for n in facts.graph.of(OpKind.DIV)
        if any(is_wide(facts, a.value) for a in facts.held_loads(n.op.inputs[0]))
        and any(not is_wide(facts, a.value) for a in facts.held_loads(n.op.inputs[1]))
    ]


def zeroed(facts: Facts) -> list[Node]:
    """Computed elements that become zero on one side of a diagonal, on the way to a store."""
    found = []
    for node in facts.graph.of(OpKind.SELECT, OpKind.MUL):
        if node.op.kind == OpKind.SELECT:
            condition = node.op.operand("condition")
            kept = [node.op.operand("x"), node.op.operand("y")]
            kept = [v for v in kept if v is not None and facts.number(v) != 0]
            ways = [(condition, kept[0])] if len(kept) == 1 else []
        else:
            ways = [(b, a) for a, b in (node.op.inputs[:2], node.op.inputs[1::-1])]
        for asked, value in ways:
            if asked is None or facts.types.dtype(value).startswith(("i", "u")):
                continue
            met = comparisons(facts, asked)
            made = facts.graph.producer(facts.graph.core(value))
            if made is None or made.op.kind in HELD or facts.access(made) is not None:
                continue
            if any(_sided(facts, c) for c in met) and facts.stored_in(node.result):
                found.append(node)
                break
    return found


def _sided(facts: Facts, comparison: Node) -> bool:
    """Places of a row against another place, not against an extent."""
    if comparison.op.kind in (OpKind.EQ, OpKind.NE):
        return False
    if between_lanes(facts, comparison):
        return True
    left, right = sides(facts, comparison)
    return any(
        own.has(AtomKind.LANE) and not at.has(AtomKind.LANE) and _place(at)
        for own, at in ((left, right), (right, left))
    )


def _place(at: Expr) -> bool:
    """Where a block or a round is, and nothing that a caller hands over."""
    atoms = list(at.top())
    return bool(atoms) and all(a.kind in _PLACES or _part(a) for a in atoms)


def _part(atom: Atom) -> bool:
    """A quotient of a place, or what is left of it."""
    parted = atom.kind in (AtomKind.MOD, AtomKind.FLOOR_DIV)
    return parted and any(a.kind in _PLACES for a in atom.args[0].atoms())


def softmax_gradients(facts: Facts) -> list[Node]:
    """Shares times what their gradients are above a sum over the row of both."""
    sums = facts.graph.of(OpKind.REDUCE_SUM)
    found = []
    for less in facts.graph.of(OpKind.SUB) if sums else ():
        over, under = less.op.inputs[:2]
        taken = [s for s in sums if facts.graph.rests_on(under, s)]
        for node in facts.graph.users(less.result) if taken else ():
            if node.op.kind != OpKind.MUL or not facts.stored_in(node.result):
                continue
            share = [v for v in node.op.inputs[:2] if not facts.graph.rests_on(v, less)]
            met = [[a for v in side for a in _elements(facts, v)] for side in (share, [over])]
            parts = [{a.array for a in side} for side in met]
            powers = facts.graph.roots(share[0], OpKind.EXP, OpKind.EXP2) if share else []
            held = facts.held_loads(share[0]) if share else []
            plain = bool(powers) or any(lanes(facts, a) >= width(facts, over) for a in held)
            apart = plain and all(parts) and parts[0] != parts[1]
            if apart and parts[0] | parts[1] <= {a.array for a in facts.feeding(under)}:
                found += [less, node]
    return found


def weighted_sums(facts: Facts) -> list[Node]:
    """Loaded tiles that shares of a softmax weigh, and what adds them up, with no product of
    matrices."""
    powers = facts.graph.node_set(
        e.node
        for e in facts.exponentials
        if not (e.rescale or e.statistic is None or decays_by(facts, e))
    )
    other = facts.graph.node_set([*facts.reductions, *(e.node for e in facts.exponentials)])
    found: list[Node] = []
    for made in facts.graph.of(OpKind.MUL) if powers and not facts.contractions else ():
        for weight, value in (made.op.inputs[:2], made.op.inputs[1::-1]):
            if facts.graph.rests_on_any(weight, powers) and _elements(facts, value):
                if not facts.graph.rests_on_any(value, other):
                    found += added_on(facts, made)
    return found


def added_on(facts: Facts, product: Node) -> list[Node]:
    """A product with the sum over an axis, or over the rounds of a loop, that takes it."""
    for node in facts.graph.users(product.result):
        grows = node.op.kind == OpKind.ADD and any(carried(facts, v) for v in node.op.inputs[:2])
        if (node.op.kind == OpKind.REDUCE_SUM or grows) and facts.stored_in(node.result):
            return [product, node]
    return []


def carried(facts: Facts, value: str) -> bool:
    """What a loop hands on, perhaps scaled."""
    made = facts.graph.producer(facts.graph.core(value))
    values = made.op.inputs[:2] if made is not None and made.op.kind == OpKind.MUL else (value,)
    return any(facts.graph.core(v) in facts.graph.arguments for v in values)


def again(norms: list[Node], facts: Facts) -> list[Node]:
    """Normalisations of what another one gave."""
    first = [
        n for n in norms if any(facts.graph.rests_on(m.result, n) for m in norms if m is not n)
    ]
    return [m for m in norms if any(facts.graph.rests_on(m.result, n) for n in first if m is not n)]


def swishes(facts: Facts) -> list[Node]:
    """Quotients whose divisor is one more than an exponential, and logarithms of such a sum."""
    found = []
    for node in facts.graph.of(OpKind.DIV, OpKind.LOG):
        under = facts.graph.producer(facts.graph.through(node.op.inputs[-1], _LOOKS))
        if under is None or under.op.kind != OpKind.ADD or not facts.feeding(node.result):
            continue
        powers = [v for v in under.op.inputs[:2] if _power(facts, v)]
        if powers and any(facts.number(v) == 1 for v in under.op.inputs[:2]):
            found.append(node)
    return found


def _power(facts: Facts, value: str) -> bool:
    kind = facts.graph.kind_of(facts.graph.through(value, _LOOKS))
    return kind in (OpKind.EXP, OpKind.EXP2)


def scaled(facts: Facts, below: Iterable[Node]) -> list[Node]:
    """Products of elements of two arrays that steps take: a scaling of its own, no rotation."""
    steps = [*below]
    turns = rotations(facts) if steps else []
    found = []
    for node in facts.graph.of(OpKind.MUL) if steps else ():
        sides = [facts.held_loads(v) for v in node.op.inputs[:2]]
        apart = all(sides) and not {a.array for a in sides[0]} & {a.array for a in sides[1]}
        apart = apart and not any(facts.graph.rests_on(t.node.result, node) for t in turns)
        if apart and any(n is not node and facts.graph.rests_on(n.result, node) for n in steps):
            found.append(node)
    return found


def activated(facts: Facts) -> list[Node]:
    """Logistic and hyperbolic functions, the error function, and what holds above zero."""
    plain = facts.graph.of(OpKind.SIGMOID, OpKind.ERF)
    plain += [n for n in facts.graph.of(OpKind.TANH) if not scored(facts, facts.graph, n)]
    curves = [n for n in facts.graph.of(OpKind.DIV) if logistic(facts, n)]
    bounds = [n for n in facts.graph.of(OpKind.MAXIMUM) if _above_zero(facts, n)]
    return list(dict.fromkeys([*plain, *curves, *swishes(facts), *bounds]))


def _above_zero(facts: Facts, node: Node) -> bool:
    """A loaded tile held above zero; not a variance before its root, no exponent, no place."""
    if facts.graph.roots(node.result, OpKind.LOG, OpKind.LOG2):
        return False
    place = facts.values.expr(node.result).has(AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION)
    if place or facts.types.dtype(node.result).startswith(("i", "u")):
        return False
    if not is_wide(facts, node.result) or all(facts.number(v) != 0 for v in node.op.inputs[:2]):
        return False
    if not facts.feeding(node.result) or _magnitude(facts, node):
        return False
    roots = facts.graph.of(OpKind.SQRT, OpKind.RSQRT)
    return not any(facts.graph.rests_on(root.result, node) for root in roots)


def _magnitude(facts: Facts, node: Node) -> bool:
    """Whether absolute values are compared: a largest one is looked for."""
    made = (facts.graph.producer(facts.graph.core(v)) for v in node.op.inputs[:2])
    return any(n is not None and n.op.kind in (OpKind.ABS, OpKind.REDUCE_MAX) for n in made)

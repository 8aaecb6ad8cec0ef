"""Steps beside a product, a normalisation or an activation, that could be kernels of their own:
masks of a diagonal, decays, modulations, gains and shifts."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import LARGE, between_lanes, is_wide, masks
from kb.analysis.merging import LOGARITHMS
from kb.analysis.normalisations import Normalisation, normalisations
from kb.analysis.rotations import rotations
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.ops import OpKind

MAX_CHOICES = 3
"""Choices in choices of what is added."""

_PLACES = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT, AtomKind.LOADED)


def triangles(facts: Facts) -> list[Node]:
    """Selects that keep one side of the diagonal of a product."""
    told = masks(facts) if facts.contractions else []
    return [m.node for m in told if any(between_lanes(facts, c) for c in m.comparisons)]


def log_of_sum(facts: Facts) -> list[Node]:
    """Logarithms of summed exponentials of products, with those exponentials: what the rows of a
    product are normalised by."""
    powers = [e.node for e in facts.exponentials if e.score] if facts.score_products else []
    of_powers = facts.graph.node_set(powers)
    totals = (r for r in facts.reductions if facts.graph.rests_on_any(r.result, of_powers))
    of_totals = facts.graph.node_set(totals)
    logarithms = facts.graph.of(*LOGARITHMS)
    found = [n for n in logarithms if facts.graph.rests_on_any(n.op.inputs[0], of_totals)]
    return [*powers, *found] if found else []


def left_out(facts: Facts) -> list[Node]:
    """Elements of a product that become minus infinity, or a very low number, on the way to a
    store, where a loaded mask or a place says so; no exponentials are taken of them."""
    products = facts.graph.node_set(facts.contractions)
    found = []
    for node in facts.graph.of(OpKind.SELECT) if products and not facts.score_products else ():
        for kept, low in (("x", "y"), ("y", "x")):
            number = facts.number(node.op.operand(low) or "")
            if number is None or number > -LARGE or not facts.stored_in(node.result):
                continue
            if facts.graph.rests_on_any(node.op.operand(kept), products):
                found.append(node)
    return found


def decays(facts: Facts) -> list[Node]:
    """Exponentials of loaded numbers, with the multiplications of a product by them."""
    products = facts.graph.node_set(facts.contractions)
    powers = [e.node for e in facts.exponentials] if products else []
    powers = [n for n in powers if not facts.graph.rests_on_any(n.result, products)]
    found: list[Node] = []
    for node in facts.graph.of(OpKind.MUL) if powers else ():
        for this, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            raised = facts.graph.producer(facts.graph.core(this))
            if raised in powers and facts.graph.rests_on_any(other, products):
                found += [raised, node]
    return found


def modulations(facts: Facts) -> list[Node]:
    """Behind the gain of a normalised row, multiplications by other loaded rows, and additions to
    what they give; a rotation multiplies and adds, too."""
    for norm in normalisations(facts) if not rotations(facts) else ():
        gains = [n for n in facts.graph.of(OpKind.MUL) if _takes_in(facts, norm, n)]
        own = _taken(facts, gains[0], norm) if gains else set()
        others = [
            n
            for n in gains[1:]
            if facts.graph.rests_on(n.result, gains[0]) and _taken(facts, n, norm) - own
        ]
        sums = [n for n in facts.graph.of(OpKind.ADD) if _takes_in(facts, norm, n)]
        sums = [n for n in sums if others and facts.graph.rests_on(n.result, others[0])]
        if sums:
            return [*others, *sums]
    return []


def _takes_in(facts: Facts, norm: Normalisation, node: Node) -> bool:
    """The normalised row on one side, and on the other a row that is loaded from elsewhere."""
    return bool(_taken(facts, node, norm)) and bool(facts.stored_in(node.result))


def _taken(facts: Facts, node: Node, norm: Normalisation) -> set[str | None]:
    """The array whose row an operation takes in beside the normalised row."""
    for row, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
        if facts.graph.rests_on(row, norm.root) and not facts.graph.rests_on(other, norm.root):
            access = _row(facts, other)
            return {access.array} - norm.row if access is not None else set()
    return set()


def _row(facts: Facts, value: str) -> Access | None:
    """The load of a row that a value is, or that it is but for a number that is added to it."""
    made = facts.graph.producer(facts.graph.core(value))
    if made is not None and made.op.kind == OpKind.ADD:
        wide = [v for v in made.op.inputs[:2] if is_wide(facts, v)]
        value = wide[0] if len(wide) == 1 else value
    return next((a for a in facts.held_loads(value) if is_wide(facts, a.value)), None)


def gains_behind(facts: Facts, curves: list[Node]) -> list[Node]:
    """Multiplications and additions behind a function, or before it, by rows or numbers that all
    rows share."""
    if facts.contractions or facts.reductions or not curves:
        return []
    found = []
    for node in facts.graph.of(OpKind.MUL, OpKind.ADD):
        for row, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            curve = next((c for c in curves if facts.graph.rests_on(row, c)), None)
            held = facts.held_loads(other)
            if curve is not None and held and is_wide(facts, row):
                own = {p for a in facts.feeding(curve.result) for p in _places(a)}
                if all(own - _places(a) for a in held):
                    found.append(node)
    return found


def biases_before(facts: Facts, curves: list[Node]) -> list[Node]:
    """Additions, before a function is taken, of what rows share: fewer places say where it lies
    than where the rows lie, or it begins again with every row."""
    if facts.contractions or facts.reductions or not curves:
        return []
    found = []
    for node in facts.graph.of(OpKind.ADD):
        if not any(facts.graph.rests_on(curve.result, node) for curve in curves):
            continue
        for bias, row in (node.op.inputs[:2], node.op.inputs[1::-1]):
            held, own = _chosen(facts, bias), facts.feeding(row)
            if held and own and all(_shared(a, own) for a in held):
                found.append(node)
    return found


def _chosen(facts: Facts, value: str, depth: int = 0) -> list[Access]:
    """The loads that a value is, or is chosen of, if not zero."""
    node = facts.graph.producer(facts.graph.core(value) or value)
    if node is None or node.op.kind != OpKind.SELECT or depth > MAX_CHOICES:
        return facts.held_loads(value)
    sides = [node.op.operand(side) or "" for side in ("x", "y")]
    every = [_chosen(facts, side, depth + 1) for side in sides if facts.number(side) != 0]
    return [a for held in every for a in held] if all(every) else []


def _shared(access: Access, rows: list[Access]) -> bool:
    """Whether what is read is the same for several rows."""
    others = [row for row in rows if row.array != access.array]
    if not others or len(others) < len(rows):
        return False
    own = {place for row in others for place in _places(row)}
    return bool(own - _places(access)) or (_again(access) and not all(map(_again, others)))


def _again(access: Access) -> bool:
    """Whether the place of an access is the rest of a division, or a part of that."""
    return any(index.terms for index in access.index) and all(map(_is_rest, access.index))


def _is_rest(index: Expr) -> bool:
    ways = [atom for atom in index.top() if any(e.has(*_PLACES) for e in atom.args)
            or atom.kind in (*_PLACES, AtomKind.LANE)]  # fmt: skip
    return bool(ways) and all(
        atom.kind is AtomKind.MOD or (atom.kind is AtomKind.FLOOR_DIV and _is_rest(atom.args[0]))
        for atom in ways
    )


def _places(access: Access) -> set[Atom]:
    return {a for e in access.index for a in e.atoms() if a.kind in _PLACES}


def products_apart(facts: Facts) -> list[Node]:
    """Products of which each goes into another output, without the other one."""
    if facts.score_products or len(facts.contractions) < 2:
        return []
    into = [
        {p for p in facts.contractions if facts.graph.rests_on(store.value, p)}
        for store in facts.stores
    ]
    for one in into:
        for other in into:
            if one - other and other - one and {p.lines for p in one} != {p.lines for p in other}:
                return sorted({*one, *other}, key=lambda n: n.index)
    return []

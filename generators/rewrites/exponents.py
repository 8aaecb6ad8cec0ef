"""What the argument of an exponential is a sum of: scaled scores, masks, running maxima. The ways
of a linear map."""

from __future__ import annotations

from dataclasses import dataclass

from generators.rewrites.base import NotApplicable, Site
from generators.rewrites.scores import scaling
from kb.analysis.exponentials import Exponential
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.ir import Op
from kb.ops import COMPARISONS, CONTRACTIONS, TERMINATORS, WRITES, OpKind

LARGE = 1e3
"""A number this far from zero stands for an infinite one."""

_BOTH = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MAXIMUM})
_HANDED = frozenset({OpKind.IF, OpKind.IF_EXPRESSION, OpKind.FOR, OpKind.WHILE})
_ONE = VIEWS | CASTS | {OpKind.REDUCE_MAX, OpKind.NEG, OpKind.POS}
_CARRIED = _HANDED | TERMINATORS | {OpKind.SELECT}
_CONSTANT = frozenset({OpKind.FULL, OpKind.ZEROS, OpKind.ZEROS_LIKE, OpKind.UNDEF, OpKind.CONST})


@dataclass(frozen=True, slots=True)
class Scaled:
    """A product of a tile with the scalar `factor`."""

    node: Node
    tile: str
    factor: str


@dataclass(frozen=True, slots=True)
class Terms:
    """Leaves of linear arguments: products with a scalar, and `bare` values that have none.

    `within` are all values between the leaves and the exponentials.
    """

    scaled: tuple[Scaled, ...]
    bare: tuple[str, ...]
    within: frozenset[str]


def terms_of(site: Site, exponentials: list[Exponential]) -> Terms:
    """Leaves of all arguments together.

    Raises NotApplicable for a score that is changed in another way than by a scalar, such as a soft
    cap, and for leaves that a helper makes.
    """
    graph = site.facts.graph
    pending = [e.node.op.inputs[0] for e in exponentials]
    seen, scaled, bare = set(pending), {}, []
    for value in pending:
        node = graph.producer(value)
        below = _below(site, value, node)
        if below is None and node is not None and (pair := scaling(site.facts, node)) is not None:
            scaled[node.result] = Scaled(node, *pair)
            below = []
        if below is None:
            _refuse_scores(site, value, exponentials)
            bare.append(value)
        pending += [v for v in below or () if v not in seen]
        seen.update(below or ())
    for leaf in scaled.values():
        if not site.owns(leaf.node):
            raise NotApplicable("a helper scales the scores.", where=str(leaf.node.op.span))
    return Terms(tuple(scaled.values()), tuple(bare), frozenset(seen))


def _below(site: Site, value: str, node: Node | None) -> list[str] | None:
    """The values that a linear step takes in; none for masks and first states; None for a leaf."""
    graph = site.facts.graph
    if node is None:
        return list(graph.feeds(value)) if value in graph.arguments else None
    if _neutral(site, node):
        return []
    if node.op.kind in _BOTH:
        return list(node.op.inputs[:2])
    if node.op.kind == OpKind.SELECT:
        return [v for role, v in node.op.operands if role != "condition"]
    if node.op.kind in _HANDED:
        return list(graph.feeds(value))
    if node.op.kind in VIEWS | CASTS and _bare(site, graph.core(value) or value):
        return None  # the widest view of a leaf: it is multiplied after it was cast to more bits
    return [node.op.inputs[0]] if node.op.kind in _ONE and node.op.inputs else None


def _bare(site: Site, value: str) -> bool:
    """True for a value that no linear step makes."""
    node = site.facts.graph.producer(value)
    if node is None or node.op.kind in VIEWS | CASTS:
        return False
    return _below(site, value, node) is None and scaling(site.facts, node) is None


def _neutral(site: Site, node: Node) -> bool:
    """True for zero and for numbers that stand for an infinite one."""
    if node.op.kind not in _CONSTANT:
        return False
    if node.op.kind in (OpKind.ZEROS, OpKind.ZEROS_LIKE, OpKind.UNDEF):
        return True
    value = node.op.operand("value") if node.op.kind == OpKind.FULL else node.result
    literal = site.facts.values.literal(value)
    return isinstance(literal, int | float) and (literal == 0 or abs(literal) >= LARGE)


def _refuse_scores(site: Site, value: str, exponentials: list[Exponential]) -> None:
    node = site.facts.graph.producer(value)
    if site.facts.graph.roots(value, *CONTRACTIONS) or value in site.function.parameter_names:
        where = (node or exponentials[0].node).op.span
        raise NotApplicable(
            "the scores are not multiplied by one scale that could take log2(e) in.",
            where=str(where), hint="Multiply the scores by a scale, 1.0 if there is none.",
        )  # fmt: skip


# -- where exponents go


def only_exponents(site: Site, terms: Terms, exponentials: list[Exponential]) -> None:
    """Raises NotApplicable when an exponent, or a maximum of them, is used for something else.

    Allowed are exponentials, comparisons, and stores of the statistic itself: a loss that subtracts
    a score from the log-sum-exp would change with the base.
    """
    graph = site.facts.graph
    ends = {e.node for e in exponentials}
    pending = [leaf.node.result for leaf in terms.scaled] + list(terms.bare)
    seen, mixed = set(pending), []
    for value in pending:
        for node in graph.users(value):
            if node in ends or node.op.kind in WRITES | COMPARISONS:
                continue
            if node.op.kind in _BOTH:
                mixed.append(node)
            elif node.op.kind not in _CARRIED and node.op.kind not in _ONE:
                _refuse_use(node)
            onward = [v for v in _onward(node, value) if v not in seen]
            pending += onward
            seen.update(onward)
    for node in mixed:
        for side in node.op.inputs[:2]:
            if side not in seen | terms.within and not _logarithm(site, side):
                _refuse_use(node)


def _onward(node: Node, value: str) -> list[str]:
    """The values that are `value` again behind a use of it."""
    op = node.op
    if op.kind in (OpKind.FOR, OpKind.WHILE):
        inits = [v for role, v in op.operands if role == "init"]
        places = [i for i, v in enumerate(inits) if v == value]
        return _carried(op, places)
    if op.kind not in TERMINATORS:
        return [result.name for result in op.results]
    places = [i for i, v in enumerate(op.inputs) if v == value]
    return _carried(node.parent.op, places) if node.parent is not None else []


def _carried(op: Op, places: list[int]) -> list[str]:
    """Results of a loop or branch at the given places, and the loop's own arguments there."""
    found = [op.results[i].name for i in places if i < len(op.results)]
    first = 1 if op.kind == OpKind.FOR else 0
    for region in op.regions:
        names = [argument.name for argument in region.arguments[first:]]
        found += [names[i] for i in places if i < len(names)]
    return found


def _logarithm(site: Site, value: str) -> bool:
    """True for the logarithm of a sum, which changes its base along."""
    node = site.facts.graph.producer(site.facts.graph.core(value))
    if node is None or _neutral(site, node):
        return node is not None
    logs = (OpKind.LOG, OpKind.LOG2)
    return node.op.kind in logs and bool(site.facts.graph.roots(value, OpKind.REDUCE_SUM))


def _refuse_use(node: Node) -> None:
    raise NotApplicable(
        "an exponent is used for something else than an exponential.",
        where=str(node.op.span),
        hint="Its value depends on the base; take the logarithm's part out first.",
    )

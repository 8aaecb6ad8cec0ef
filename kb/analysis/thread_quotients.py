"""Floating point divisions of threads: numbers divided one by one, and reciprocals that numbers are
multiplied by."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.dtypes import is_float
from kb.ops import READS, OpKind

_HANDED = VIEWS | CASTS | {OpKind.SELECT, OpKind.NEG, OpKind.VECTOR}
_PRODUCTS = (OpKind.MUL, OpKind.FMA)
_POWERS = frozenset({OpKind.EXP, OpKind.EXP2})
_MADE = frozenset({*_POWERS, *READS, OpKind.ADD, OpKind.SUB, OpKind.DIV})
"""Operations that make another number of an element, or of several."""
MAX_VALUES = 16
"""Values that a quotient is followed through to the products that it enters."""


def divided_one_by_one(facts: Facts) -> list[Node]:
    """Loaded numbers, or what is computed of them, over what is no constant and no count; numbers
    that threads have reduced are no elements."""
    graph = facts.threads
    return [
        n
        for n in _quotients(facts)
        if facts.thread_values.literal(n.op.inputs[0]) is None
        and graph.roots(n.op.inputs[0], *READS)
        and not _of_several(facts, n.op.inputs[0])
        and not _shared_factor(facts, n)
    ]


def reciprocals(facts: Facts) -> list[Node]:
    """Constants over what is no constant, or quotients that elements of a loop are multiplied by,
    with the products."""
    found: list[Node] = []
    for node in _quotients(facts):
        constant = facts.thread_values.literal(node.op.inputs[0]) is not None
        products = _products(facts, node) if constant else _shared_factor(facts, node)
        if products and not _of_own_power(facts, node):
            found += [node, *products]
    return found


def _quotients(facts: Facts) -> list[Node]:
    """Divisions of floating point numbers by what is neither a constant nor a count."""
    graph = facts.threads
    divisions = graph.of(OpKind.DIV) if facts.of_threads else []
    return [n for n in divisions if _is_float(n) and not _counted(facts, n.op.inputs[1])]


def _is_float(node: Node) -> bool:
    kind = node.op.results[0].type
    return kind is not None and is_float(kind.dtype)


def _counted(facts: Facts, under: str) -> bool:
    """A constant, be it compiled in, or a whole number as a floating point one: the divisor of a
    mean."""
    if facts.thread_values.literal(under) is not None:
        return True
    made = facts.threads.producer(facts.threads.plain(under))
    if made is None or made.op.kind != OpKind.CAST:
        return False
    if made.op.inputs[0] in facts.constexprs:
        return True
    dtype = facts.types.dtype(made.op.inputs[0])
    return dtype not in ("", "?") and not is_float(dtype)


def _of_several(facts: Facts, value: str) -> bool:
    """Whether a number is the greatest of several, or one that lanes have exchanged: a scale, and
    no element."""
    graph = facts.threads

    def made(node: Node) -> bool:
        sides = [v for v in node.op.inputs[:2] if graph.roots(v, *READS)]
        return node.op.kind in _MADE or (node.op.kind in _PRODUCTS and len(sides) > 1)

    above = [n for n in graph.upstream(value, made) if not made(n)]
    return any(n.op.kind in (OpKind.MAXIMUM, OpKind.SHUFFLE) for n in above)


def _of_own_power(facts: Facts, node: Node) -> bool:
    """1 / (1 + exp(x)): a function of an element, and no reciprocal of a row."""
    made = facts.threads.producer(facts.threads.core(node.op.inputs[1]))
    if made is None or made.op.kind != OpKind.ADD:
        return False
    sides = [facts.threads.kind_of(facts.threads.core(v)) for v in made.op.inputs[:2]]
    return bool(_POWERS.intersection(sides))


def _products(facts: Facts, node: Node) -> list[Node]:
    """Multiplications of loaded numbers by what a division gave, perhaps handed on."""
    graph = facts.threads
    values, found = [node.result], list[Node]()
    for value in values:
        for user in graph.users(value):
            if user.op.kind in _PRODUCTS and _is_float(user):
                other = [v for v in user.op.inputs[:2] if v != value]
                found += [user] if any(graph.roots(v, *READS) for v in other) else []
            elif user.op.kind in _HANDED | {OpKind.YIELD}:
                values += [v for v in graph.onward(user, value) if v not in values]
        if len(values) > MAX_VALUES:
            break
    return found


def _shared_factor(facts: Facts, node: Node) -> list[Node]:
    """Products with what a loop loads, or takes from registers, by a quotient from before it."""
    own = set(node.loops)
    return [p for p in _products(facts, node) if p.loops and not own.issuperset(p.loops)]

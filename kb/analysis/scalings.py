"""Products of tiles with numbers that all of a tile, or all of a row, shares."""

from __future__ import annotations

from kb.analysis.butterflies import butterflies, chained
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, TURNS, VIEWS, Node
from kb.analysis.loops import Role
from kb.analysis.symbolic import AtomKind
from kb.analysis.thread_products import thread_products
from kb.ops import CONTRACTIONS, READS, REDUCTIONS, OpKind

ELEMENTWISE = VIEWS | CASTS | TURNS | {
    OpKind.MUL, OpKind.DIV, OpKind.ADD, OpKind.SUB, OpKind.SELECT, OpKind.IF, OpKind.FMA,
}  # fmt: skip


_ROOTS = (OpKind.SQRT, OpKind.RSQRT, OpKind.POW)
_ADDS = frozenset({OpKind.ADD, OpKind.SUB, OpKind.FMA})
_ORDER = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})


def scalar(facts: Facts, value: str) -> bool:
    """True for a runtime or compile-time number that no tile was loaded or reduced for."""
    return not facts.graph.roots(value, *READS, *CONTRACTIONS, *REDUCTIONS, OpKind.ARANGE)


def given_to_all(facts: Facts, node: Node) -> bool:
    """A product of a tile that a matrix product gives and a loaded number that all of it shares."""
    for tile, rate in (node.op.inputs[:2], node.op.inputs[1::-1]):
        loaded = facts.access(held) if (held := produced(facts, rate)) is not None else None
        number = loaded is not None and not loaded.is_store and not facts.types.shape(rate)
        if number and facts.graph.roots(tile, *CONTRACTIONS):
            return True
        if not facts.contractions and _of_the_row(facts, rate) and facts.feeding(tile):
            return True
    return False


def _of_the_row(facts: Facts, rate: str) -> bool:
    """A number that is made of single ones loaded for the whole row, and of nothing else loaded."""
    loads = facts.feeding(rate)
    whole = all(not i.has(AtomKind.LANE) for a in loads for i in a.index)
    wide = any(facts.types.shape(a.value) for a in loads)
    made = facts.graph.roots(rate, *REDUCTIONS, OpKind.ARANGE)
    return bool(loads) and whole and not wide and not made and not facts.types.shape(rate)


def produced(facts: Facts, value: str) -> Node | None:
    return facts.graph.producer(facts.graph.core(value))


def scaling(facts: Facts, node: Node) -> str | None:
    """The scalar side of a product whose other side is a tile."""
    left, right = node.op.inputs[:2]
    for this, other in ((left, right), (right, left)):
        if scalar(facts, this) and not scalar(facts, other):
            return this
    return None


def scales(facts: Facts, value: str) -> list[Node]:
    """Products with a scalar on the way from a matrix product or a load to `value`."""
    return [
        n
        for n in elementwise(facts, value)
        if (n.op.kind == OpKind.MUL and (scaling(facts, n) is not None or given_to_all(facts, n)))
        or (n.op.kind == OpKind.DIV and scaling(facts, n) == n.op.inputs[1])
    ]


def elementwise(facts: Facts, value: str) -> list[Node]:
    """Operations that a value is computed by, element by element, and those that give what they
    begin with."""
    return list(facts.graph.upstream(value, lambda n: n.op.kind not in ELEMENTWISE))


def scaled_rounds(facts: Facts) -> list[Node]:
    """Matrix products times a scalar that is handed in, each before it is added to the sum that a
    loop carries."""
    sums = [c.next for loop in facts.loops for c in loop.of(Role.ACCUMULATOR)]
    found = [node for value in sums for node in elementwise(facts, value)]
    return [n for n in found if n.loops and facts.contractions and _by_argument(facts, n)]


def scaled_last(facts: Facts) -> list[Node]:
    """Products with a scalar that is handed in on the way from a matrix product to a store, in no
    loop that the store is not in."""
    found: list[Node] = []
    for store in facts.stores:
        above = facts.graph.upstream(store.value, lambda n: n.op.kind not in ELEMENTWISE)
        plain = facts.graph.upstream(store.value, lambda n: n.op.kind not in ELEMENTWISE - _ADDS)
        alone = set(plain)
        same = [n for n in above if n.loops == store.node.loops]
        found += [n for n in same if _by_argument(facts, n, n in alone)]
    return found


def _by_argument(facts: Facts, node: Node, alone: bool = True) -> bool:
    """A product of a scalar that is handed in, or is a root of extents, and what a matrix product
    gave; without any, a sum of products, or what the last stage of butterflies gave. Unless nothing
    is added after it (`alone`), the products are those of two tiles."""
    rate = facts.graph.core(scaling(facts, node)) if node.op.kind == OpKind.MUL else None
    if rate is None:
        return False
    if rate in facts.graph.function.parameter_names:
        if any(n.op.kind in _ORDER for n in facts.graph.users(rate)):
            return False
    elif not facts.graph.roots(rate, *_ROOTS):
        return False
    if facts.contractions:
        return bool(facts.graph.roots(node.result, *CONTRACTIONS))
    made = elementwise(facts, node.result)
    return _of_products(facts, made, alone) or _of_stages(facts, node)


def _of_products(facts: Facts, made: list[Node], alone: bool) -> bool:
    """Whether a value begins with a sum of tiles of products, or with what a thread summed up."""
    totals = [n for n in made if n.op.kind == OpKind.REDUCE_SUM]
    summed = [n for t in totals if (n := produced(facts, t.op.inputs[0])) is not None]
    if any(
        (n.op.kind in (OpKind.MUL, OpKind.ADD) if alone else _of_two(facts, n))
        and sum(e != "1" for e in facts.types.shape(n.result)) > 1
        for n in summed
    ):
        return True
    loops = [loop for n in made if n.op.kind in LOOPS if (loop := facts.loop(n)) is not None]
    sums = any(loop.of(Role.SUM, Role.RUNNING_SUM) for loop in loops)
    return sums and bool(thread_products(facts))


def _of_two(facts: Facts, node: Node) -> bool:
    """A product of what is loaded from two arrays."""
    if node.op.kind != OpKind.MUL:
        return False
    first, second = ({a.array for a in facts.feeding(v)} for v in node.op.inputs[:2])
    return bool(first - second) and bool(second - first)


def _of_stages(facts: Facts, node: Node) -> bool:
    """Whether a tile has gone through all of several stages of butterflies."""
    found = butterflies(facts.graph)
    stages = chained(facts.graph, found)
    return bool(stages) and all(facts.graph.rests_on(node.result, one.meet) for one in stages)


def scaled_between(facts: Facts) -> list[Node]:
    """Matrix products, or sums of them, times a number that is handed in, on their way into another
    one."""
    operands = [p.op.operand(role) or "" for p in facts.contractions for role in ("lhs", "rhs")]
    names = facts.graph.function.parameter_names
    inside = {n for v in operands for n in elementwise(facts, v) if n.op.kind == OpKind.MUL}
    found = []
    for node in sorted(inside, key=lambda n: n.index):
        rate = facts.graph.core(scaling(facts, node))
        made = [facts.graph.producer(facts.graph.core(v)) for v in node.op.inputs[:2]]
        whole = any(n is not None and _product(facts, n) for n in made)
        found += [node] if whole and rate in names else []
    return found


def _product(facts: Facts, node: Node) -> bool:
    """A matrix product, or a loop that adds up some."""
    summed = node.op.kind == OpKind.FOR and bool(facts.graph.roots(node.result, *CONTRACTIONS))
    return summed or node.op.kind in CONTRACTIONS


def reduced_elements(facts: Facts, value: str) -> str:
    """What is reduced; of the largest of a thread's own elements, begun with the least number, any
    one of them."""
    made = produced(facts, value)
    if made is None or made.op.kind != OpKind.MAXIMUM or not facts.of_threads:
        return value
    least = [v for v in made.op.inputs[:2] if facts.number(v) == float("-inf")]
    return next((v for v in made.op.inputs[:2] if least and v not in least), value)

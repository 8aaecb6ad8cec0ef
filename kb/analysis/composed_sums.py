"""Several arrays brought into one kernel: taps of a short convolution, rows that are gathered and
added up, products that are mixed, states that are changed and read, parts that are joined."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.composed_steps import added_on, carried
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import is_wide
from kb.analysis.rebuilt import width
from kb.analysis.symbolic import AtomKind, Expr, sub
from kb.ops import OpKind

_FACTORS = (OpKind.MUL, OpKind.FMA)
_CHANGES = frozenset({OpKind.ADD, OpKind.SUB, OpKind.FMA, OpKind.MUL})


def tapped(facts: Facts) -> list[Node]:
    """Products whose weights are three or more numbers of one array at a constant distance, that
    one stored element adds up lane by lane: a short convolution."""
    if facts.contractions or facts.reductions:
        return []
    weighed: dict[str, list[tuple[Node, Access]]] = {}
    for node in facts.graph.of(*_FACTORS):
        sides = [facts.held_loads(v) for v in node.op.inputs[:2]]
        for weights, taps in (sides, sides[::-1]):
            if len(weights) == 1 and taps and weights[0].array not in {a.array for a in taps}:
                weighed.setdefault(weights[0].array or "", []).append((node, weights[0]))
    for pairs in weighed.values():
        places = {a.index for _, a in pairs}
        if len(places) > 2 and all(_steps_off(pairs[0][1].index, one) for one in places):
            nodes = [node for node, _ in pairs]
            if any(all(facts.graph.rests_on(s.value, n) for n in nodes) for s in facts.stores):
                return nodes
    return []


def _steps_off(one: tuple[Expr, ...], other: tuple[Expr, ...]) -> bool:
    """Whether two places differ by constants."""
    return len(one) == len(other) and all(
        sub(a, b).constant is not None for a, b in zip(one, other, strict=True)
    )


def gathered_sums(facts: Facts) -> list[Node]:
    """Rows that loaded numbers choose, times loaded weights, added up over a loop: the loads of the
    rows, the products, and the sums."""
    found: list[Node] = []
    for node in facts.graph.of(*_FACTORS) if not facts.contractions else ():
        sides = [facts.held_loads(v) for v in node.op.inputs[:2]] if node.loop else []
        for rows, weights in (sides, sides[::-1]) if sides else ():
            chosen = [a for a in rows if any(e.has(AtomKind.LOADED) for e in a.index)]
            apart = {a.array for a in chosen}.isdisjoint(a.array for a in weights)
            if chosen and weights and apart:
                fused = node.op.kind == OpKind.FMA and carried(facts, node.op.inputs[2])
                summed = [node] if fused else added_on(facts, node)
                if summed and summed[-1].op.kind != OpKind.REDUCE_SUM:
                    found += [*(a.node for a in chosen), *summed]
    return found


def mixed(facts: Facts) -> list[Node]:
    """Products of loaded elements, each of two arrays of its own, that one stored element adds
    up."""
    if facts.contractions or facts.reductions:
        return []
    products: list[tuple[Node, set[str | None]]] = []
    for node in facts.graph.of(*_FACTORS):
        sides = [{a.array for a in facts.held_loads(v)} for v in node.op.inputs[:2]]
        wide = facts.of_threads or is_wide(facts, node.result)
        if wide and all(sides) and not sides[0] & sides[1]:
            products.append((node, sides[0] | sides[1]))
    for node, arrays in products:
        apart = [n for n, others in products if not arrays & others]
        for store in facts.stores if apart else ():
            met = [n for n in (node, *apart) if facts.graph.rests_on(store.value, n)]
            if len(met) > 1:
                return met
    return []


def added_up(facts: Facts) -> list[Node]:
    """Additions that bring elements of three arrays or more into one stored element, and nothing
    else."""
    for store in facts.stores if not facts.reductions and not facts.contractions else ():
        sums: list[Node] = []
        arrays: set[str | None] = set()
        pending = [store.value]
        for value in pending:
            made = facts.graph.producer(facts.graph.core(value))
            if made is not None and made.op.kind == OpKind.ADD:
                sums.append(made)
                pending += [v for v in made.op.inputs[:2] if v not in pending]
            else:
                arrays |= {a.array for a in facts.held_loads(value)}
        if len(arrays) > 2:
            return sums
    return []


def joined(facts: Facts) -> list[Node]:
    """Choices between elements of two arrays, by their place, that are stored as they are."""
    found: list[Node] = []
    for node in facts.graph.of(OpKind.SELECT):
        sides = [facts.held_loads(node.op.operand(role)) for role in ("x", "y")]
        arrays = [{a.array for a in side} for side in sides]
        if all(arrays) and not arrays[0] & arrays[1] and is_wide(facts, node.result):
            if any(facts.graph.core(s.value) == node.result for s in facts.stores):
                found += [*(a.node for side in sides for a in side), node]
    return found


def beside_products(facts: Facts) -> list[Node]:
    """Sums over an operand in the loop of the product that takes it, which are stored, too."""
    loops = {p.loop for p in facts.contractions} - {None}
    operands = {
        a.node for p in facts.contractions for v in p.op.inputs[:2] for a in facts.held_loads(v)
    }
    products = facts.graph.node_set(facts.contractions)
    return [
        total
        for total in (facts.reductions if loops else ())
        if total.loop in loops and not facts.graph.rests_on_any(total.result, products)
        if (taken := {a.node for a in facts.feeding(total.op.inputs[0])}) and taken <= operands
        if facts.stored_in(total.result)
    ]


def listed_rows(facts: Facts) -> list[Node]:
    """Operands of products at places that a loaded tile of numbers gives, with the loads of it."""
    operands = [a for p in facts.contractions for v in p.op.inputs[:2] for a in facts.held_loads(v)]
    lists = [a for a in facts.loads if a.value in facts.offset_loads and is_wide(facts, a.value)]
    found: list[Node] = []
    for listed in lists:
        placed = [a for a in operands if any(_names(e, listed.value) for e in a.index)]
        found += [listed.node, *(a.node for a in placed)] if placed else []
    return found


def _names(index: Expr, value: str) -> bool:
    return any(a.kind is AtomKind.LOADED and a.value == value for a in index.atoms())


def states_read(facts: Facts) -> list[Node]:
    """A stored state of two axes or more that is changed, and read by a sum over one of its axes on
    the way to another array: the change and the sum."""
    found: list[Node] = []
    sums = facts.graph.of(OpKind.REDUCE_SUM) if not facts.contractions else []
    for store in facts.stores if sums else ():
        made = facts.graph.producer(facts.graph.core(store.value))
        if made is None or made.op.kind not in _CHANGES or width(facts, store.value or "") < 2:
            continue
        for total in sums:
            read = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
            if read is None or read.op.kind != OpKind.MUL or total is made:
                continue
            if any(facts.graph.core(v) == made.result for v in read.op.inputs[:2]):
                stored = [s for s in facts.stored_in(total.result) if s.array != store.array]
                found += [made, read, total] if stored else []
    return found


def left_by_states(facts: Facts) -> list[Access]:
    """Stores of what is read from a state that is changed, and stored, too: the results."""
    read = states_read(facts)[2::3]
    return [s for s in facts.stores if any(facts.graph.rests_on(s.value or "", n) for n in read)]


def shifted_state(facts: Facts, taps: list[Node]) -> list[Node]:
    """Stores into an array that the taps of a convolution are loaded from."""
    read = {a.array for n in taps for v in n.op.inputs for a in facts.held_loads(v)}
    return [s.node for s in facts.stores if s.array is not None and s.array in read]

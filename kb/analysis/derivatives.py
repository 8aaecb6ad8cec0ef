"""Activations whose derivative is taken: a backward pass that computes them again."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.ops import OpKind

_SQUASHING = frozenset({OpKind.SIGMOID, OpKind.TANH})
_POWERS = frozenset({OpKind.EXP, OpKind.EXP2})
_LOOKS = VIEWS | CASTS
MAX_FACTORS = 16
"""Factors of one product that are looked at."""


def differentiated(facts: Facts) -> list[tuple[Node, Node]]:
    """Activations of a loaded tile whose derivative is used, each with the operation that takes it.

    The derivative of a logistic function or a hyperbolic tangent f is `f * (1 - f)` or `1 - f * f`,
    whole or in parts: f meets f moved by a constant, a constant meets the square of f, or a product
    of two that hold f is taken off what holds it once. A gate
    `(1 - f) * other` meets neither. That of x * erf(x) adds a Gaussian, as does that of x times
    any other form of the cumulated one.
    """
    found = []
    for node in facts.graph.of(*_SQUASHING, OpKind.DIV):
        if node.op.kind == OpKind.DIV and not logistic(facts, node):
            continue
        if facts.feeding(node.result) and (taken := _derived(facts, node)) is not None:
            found.append((node, taken))
    found += [pair for node in facts.graph.of(OpKind.ERF) for pair in _bell(facts, node)]
    return found or _densities(facts)


def retaken(facts: Facts) -> list[Node]:
    """Activations of a loaded tile that meet another loaded tile in a product which is stored,
    and the products: in a backward pass, what the forward pass computed of the same tile."""
    if facts.contractions:
        return []
    found: list[Node] = []
    for node in facts.graph.of(*_SQUASHING, *_POWERS, OpKind.ERF, OpKind.MAXIMUM):
        if node.op.kind == OpKind.MAXIMUM and 0 not in map(facts.number, node.op.inputs[:2]):
            continue
        loads = [a for a in facts.feeding(node.result) if facts.types.shape(a.value)]
        if not loads or any(facts.graph.rests_on(node.result, r) for r in facts.reductions):
            continue
        own = {a.array for a in facts.feeding(node.result)}
        for user in facts.graph.downstream(node.result):
            if user.op.kind == OpKind.MUL and facts.stored_in(user.result):
                others = [v for v in user.op.inputs[:2] if not facts.graph.rests_on(v, node)]
                met = {a.array for v in others for a in facts.feeding(v)}
                if met - own:
                    found += [node, user]
                    break
    return list(dict.fromkeys(found))


def logistic(facts: Facts, node: Node) -> bool:
    """1 / (1 + exp(x))."""
    over, under = node.op.inputs[:2]
    total = facts.graph.producer(facts.graph.through(under, _LOOKS))
    if facts.number(over) != 1 or total is None or total.op.kind != OpKind.ADD:
        return False
    sides = total.op.inputs[:2]
    powers = [v for v in sides if facts.graph.kind_of(facts.graph.through(v, _LOOKS)) in _POWERS]
    return len(powers) == 1 and any(facts.number(v) == 1 for v in sides)


def _derived(facts: Facts, activation: Node) -> Node | None:
    """The operation that makes a product of an activation with itself and a constant: followed are
    sums and products that hold the activation once, and whether a constant was added."""
    moved = {activation.result: False}
    squares: set[str] = set()
    onward = facts.graph.downstream(activation.result)
    for node in sorted(dict.fromkeys(onward), key=lambda n: n.index):
        kind = node.op.kind
        sides = [v for v in node.op.inputs[:2] if v in moved]
        if kind in _LOOKS or kind == OpKind.NEG:
            squares |= {node.result} if squares & {*sides} else set()
        elif kind in (OpKind.ADD, OpKind.SUB) and sides:
            constants = [facts.number(v) for v in node.op.inputs[:2]]
            if squares & {*sides}:
                less = kind == OpKind.SUB and node.op.inputs[1] in squares
                if 1 in constants or (less and node.op.inputs[0] in {*moved} - squares):
                    return node
                continue
            moved[node.result] = any(constants) or any(moved[v] for v in sides)
        elif kind == OpKind.MUL and len(sides) == 2 and any(moved[v] for v in sides):
            if facts.graph.core(sides[0]) != facts.graph.core(sides[1]):
                return node
            continue
        elif _square(facts, node, activation) or (kind == OpKind.MUL and len(sides) == 2):
            squares.add(node.result)
        elif kind not in (OpKind.MUL, OpKind.DIV) or squares & {*sides}:
            continue
        if sides:
            moved.setdefault(node.result, any(moved[v] for v in sides))
    return None


def _bell(facts: Facts, activation: Node) -> list[tuple[Node, Node]]:
    """The sum of what an error function gave and of x times the exponential of a square of x."""
    loads = {a.node for a in facts.feeding(activation.result)}
    powers = [
        node
        for node in facts.graph.of(*_POWERS)
        if loads and {a.node for a in facts.feeding(node.result)} == loads
    ]
    sums = [n for n in facts.graph.of(OpKind.ADD) if facts.graph.rests_on(n.result, activation)]
    for node in sums if powers else ():
        one, other = node.op.inputs[:2]
        for cumulated, density in ((one, other), (other, one)):
            bells = [p for p in powers if facts.graph.rests_on(density, p)]
            if bells and facts.graph.rests_on(cumulated, activation):
                if not facts.graph.rests_on(density, activation):
                    return [(activation, node)]
    return []


def _densities(facts: Facts) -> list[tuple[Node, Node]]:
    """Gaussians of a loaded tile x, times x, each with the sum of that and of something else that
    is computed of x alone."""
    found = []
    for power in facts.graph.of(*_POWERS):
        squared = _factors(facts, power.op.inputs[0])
        tiles = [v for v in dict.fromkeys(squared) if squared.count(v) == 2 and facts.held_loads(v)]
        if len(tiles) != 1 or any(facts.number(v) is None for v in squared if v not in tiles):
            continue
        own = {a.node for a in facts.held_loads(tiles[0])}
        for node in facts.graph.of(OpKind.ADD):
            for one, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
                met = _factors(facts, other)
                taken = {a.node for a in facts.feeding(one)}
                if power.result in met and tiles[0] in met and taken == own:
                    cumulated = facts.graph.producer(facts.graph.core(one))
                    if cumulated is not None and not facts.graph.rests_on(one, power):
                        found += [(cumulated, power), (power, node)]
    return found


def _factors(facts: Facts, value: str) -> list[str]:
    """Values that a product is made of, a square taken as two; at most `MAX_FACTORS`."""
    pending, found = [value], list[str]()
    while pending and len(found) < MAX_FACTORS:
        core = facts.graph.through(pending.pop(), _LOOKS)
        node = facts.graph.producer(core)
        if core is None:
            continue
        kind = "" if node is None else node.op.kind
        inputs = () if node is None else node.op.inputs
        if kind == OpKind.MUL:
            pending += inputs[:2]
        elif kind == OpKind.NEG or (kind == OpKind.DIV and facts.number(inputs[1])):
            pending.append(inputs[0])
        elif kind == OpKind.POW and facts.values.literal(inputs[1]) == 2:
            found += [base for base in [facts.graph.through(inputs[0], _LOOKS)] if base] * 2
        else:
            found.append(core)
    return found


def _square(facts: Facts, node: Node | None, activation: Node) -> bool:
    if node is None:
        return False
    external = str(node.op.attribute("spelling")).rpartition(".")[2] == "pow"
    if node.op.kind == OpKind.POW or (node.op.kind == OpKind.EXTERN_MATH and external):
        base = facts.graph.producer(facts.graph.through(node.op.inputs[0], _LOOKS))
        return base is activation and facts.values.literal(node.op.inputs[1]) == 2
    if node.op.kind != OpKind.MUL:
        return False
    sides = [facts.graph.producer(facts.graph.through(v, _LOOKS)) for v in node.op.inputs[:2]]
    return all(side is activation for side in sides)

"""Normalised rows that a backward pass makes again from statistics that were saved."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.accesses import Access
from kb.analysis.carried_sums import leads
from kb.analysis.exponentials import Exponential
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Role
from kb.analysis.symbolic import AtomKind, Expr, mul
from kb.ops import REDUCTIONS, OpKind

_SUMS = frozenset({OpKind.REDUCE_SUM})
"""Reductions that give what all elements make together, not one that is chosen among them."""
_SQUASHING = frozenset({
    OpKind.SIGMOID, OpKind.TANH, OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2,
})  # fmt: skip
"""Functions that make gates of numbers; a statistic comes with powers alone."""
_FACTORS = VIEWS | CASTS | {OpKind.MUL}


def width(facts: Facts, value: str) -> int:
    """How many axes of a value have lanes."""
    return len([extent for extent in facts.types.shape(value) if extent != "1"])


def lanes(facts: Facts, access: Access) -> int:
    """How many axes of a load have lanes; none when all threads of a warp read the same place."""
    if facts.of_threads and not any(_varies(facts, index) for index in access.index):
        return 0
    return width(facts, access.value)


def _varies(facts: Facts, index: Expr) -> bool:
    """Whether threads of one warp have different indices: a quotient of the thread's number is one
    for the warp; what a loop counts on under a branch is not, where it has lanes."""
    return any(
        a.kind is AtomKind.LANE
        or (a.kind is AtomKind.OPAQUE and bool(facts.types.shape(a.value)))
        or (a.kind is not AtomKind.FLOOR_DIV and any(_varies(facts, x) for x in a.args))
        for a in index.top()
    )


def backward(facts: Facts, stores: Iterable[Access]) -> bool:
    """Whether a kernel works with statistics that were saved, so that what it reduces is a
    gradient."""
    saved = any(over_saved(facts, store.value) for store in stores)
    return saved or bool(normalised(facts) or coefficients(facts))


def over_saved(facts: Facts, value: str | None) -> bool:
    """Whether a value is what was reduced, divided by numbers that were loaded beside it: no
    statistic of a row, but the gradient of one that was saved."""
    made = facts.graph.producer(facts.graph.core(value))
    if made is None or made.op.kind != OpKind.DIV:
        return False
    over, under = made.op.inputs[:2]
    total, saved = (facts.graph.roots(v, *REDUCTIONS) for v in (over, under))
    return bool(total) and not saved and bool(facts.feeding(under))


def normalised(facts: Facts) -> list[Node]:
    """A loaded tile, no sum taken away, times a loaded row statistic, used again in a
    reduction."""
    if facts.contractions or _weighs(facts) or _decays(facts):
        return []
    found = []
    for node in facts.graph.of(OpKind.MUL):
        for wide, narrow in (node.op.inputs[:2], node.op.inputs[1::-1]):
            stat = _loaded(facts, narrow)
            axes = width(facts, wide)
            if not stat or lanes(facts, stat[0]) >= axes:
                continue
            if not any(lanes(facts, a) == axes for a in facts.feeding(wide)):
                continue
            if facts.graph.roots(wide, *REDUCTIONS):
                continue
            told = any(map(_tiled, stat[0].index)) or _stays(facts, node, narrow)
            if _summed_alone(facts, node, wide):
                continue
            again = (told and _reduced(facts, node)) or _beside(facts, node, wide)
            if again and _scope(facts, wide, stat):
                found.append(node)
    return list(dict.fromkeys(found))


def coefficients(facts: Facts) -> list[Node]:
    """A power of a loaded row statistic times a reduction of two loaded rows: what the
    normalised row would have given. A statistic of several rows meets the sums where they are
    spread over their rows again."""
    if facts.contractions or _weighs(facts) or _decays(facts):
        return []
    sums = [
        r
        for r in facts.reductions
        if r.op.kind in _SUMS
        and len({a.array for a in facts.feeding(r.op.inputs[0]) if lanes(facts, a)}) > 1
        and not (_of_a_state(facts, r) or _corrects(facts, r))
    ]
    found = []
    for node in facts.graph.of(OpKind.MUL):
        for stat, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            loads = facts.feeding(stat)
            narrow = bool(loads) and not any(lanes(facts, a) for a in loads)
            if (
                (narrow or (bool(loads) and _spread(facts, stat, other, sums)))
                and not facts.graph.roots(stat, *REDUCTIONS, *_SQUASHING)
                and not _of_two_numbers(facts, stat)
                and all(any(index.constant is None for index in a.index) for a in loads)
            ):
                if any(facts.graph.rests_on(other, r) for r in sums):
                    found += [node, *(a.node for a in loads)]
    return found


def _of_two_numbers(facts: Facts, value: str) -> bool:
    """Whether a value is one number or another, as a condition says."""
    node = facts.graph.producer(facts.graph.through(value, VIEWS | CASTS))
    if node is None or node.op.kind != OpKind.SELECT:
        return False
    return all(facts.number(v) is not None for v in node.op.inputs[1:3])


def _of_a_state(facts: Facts, total: Node) -> bool:
    """True for a sum over a tile that the rounds of a loop change: a state, no saved row."""
    around = [loop for loop in facts.loops if total.inside(loop.node)]
    states = [c.argument for x in around for c in x.carried if width(facts, c.result) > 1]
    return any(leads(facts.graph, total.op.inputs[0], state) for state in states)


def _corrects(facts: Facts, total: Node) -> bool:
    """True for sums that are taken off what was loaded, each off one number: what a state holds of
    new values."""
    return width(facts, total.result) > 0 and any(
        user.op.kind == OpKind.SUB
        and user.op.inputs[1] == total.result
        and bool(facts.feeding(user.op.inputs[0]))
        for user in facts.graph.users(total.result)
    )


def _spread(facts: Facts, stat: str, other: str, sums: list[Node]) -> bool:
    """Whether a statistic of several rows, one number wide where the rows were summed, meets a
    product that has one of the sums as a factor."""
    shape = facts.types.shape(stat)
    for node in facts.graph.upstream(other, lambda n: n.op.kind not in _FACTORS):
        axis = facts.values.literal(node.op.operand("axis")) if node in sums else None
        if not isinstance(axis, int) or len(facts.types.shape(node.op.inputs[0])) != len(shape):
            continue
        if -len(shape) <= axis < len(shape) and shape[axis] == "1" and {*shape} != {"1"}:
            return True
    return False


def _weighs(facts: Facts) -> bool:
    """True for a softmax over a loop: what is summed are weights, and no row is made again."""
    return any(loop.of(Role.RUNNING_MAXIMUM) for loop in facts.loops)


def decays_by(facts: Facts, power: Exponential) -> bool:
    """Whether an exponential is of what lies between two elements of one array: a decay, and no
    share of a softmax."""
    sides = [{a.array for a in facts.held_loads(v)} for v in (power.score, power.statistic) if v]
    return len(sides) == 2 and bool(sides[0]) and sides[0] == sides[1]


def _decays(facts: Facts) -> bool:
    """True where rows are compared with others that have decayed: none of them is normalised."""
    return any(decays_by(facts, e) for e in facts.exponentials)


def _beside(facts: Facts, node: Node, wide: str) -> bool:
    """True when the normalised row is multiplied by another loaded row of the same place, while
    the kernel reduces the loaded row."""
    rows = {a.index for a in facts.feeding(wide)}
    reduced = any(
        any(facts.graph.rests_on(r.op.inputs[0], a.node) for a in facts.feeding(wide))
        for r in facts.reductions
    )
    if not reduced:
        return False
    pending = [node.result]
    for value in pending:
        for user in facts.graph.users(value):
            if user.op.kind in CASTS or user.op.kind == OpKind.YIELD:
                pending += [v for v in facts.graph.onward(user, value) if v not in pending]
            others = [v for v in user.op.inputs[:2] if v != value]
            if user.op.kind == OpKind.MUL and any(
                a.index in rows for v in others for a in facts.feeding(v)
            ):
                return True
    return False


def _loaded(facts: Facts, value: str) -> list[Access]:
    core = facts.graph.through(value, VIEWS | CASTS)
    access = facts.access(node) if (node := facts.graph.producer(core)) is not None else None
    return [access] if access is not None and not access.is_store else []


def _reduced(facts: Facts, node: Node) -> bool:
    return any(n.op.kind in REDUCTIONS for n in facts.graph.downstream(node.result))


def _summed_alone(facts: Facts, node: Node, wide: str) -> bool:
    """True where a tile of one array, or of numbers with scales that lie elsewhere, is multiplied
    by another and summed, at once or after the rounds of a loop have been added up: a product of a
    matrix and a vector."""
    loads = [a for a in facts.feeding(wide) if lanes(facts, a)]
    places = {a.node for one in loads for a in _placed_by(facts, one)}
    arrays = {a.array for a in loads if a.node not in places}
    apart = len({a.index for a in loads}) == len(loads) and _few_bits(facts, wide)
    sums = {c.next: c.result for loop in facts.loops for c in loop.of(Role.SUM)}
    ends = [
        end
        for user in _users(facts, node.result)
        for end in (facts.graph.users(sums[user.result]) if user.result in sums else [user])
    ]
    plain = bool(ends) and all(n.op.kind == OpKind.REDUCE_SUM for n in ends)
    return plain and (len(arrays) == 1 or apart)


def _users(facts: Facts, value: str) -> list[Node]:
    """What takes a value, as it stands or in another shape."""
    found: list[Node] = []
    for current in (values := [value]):
        for user in facts.graph.users(current):
            turned = user.op.kind in VIEWS and len(values) < 8
            values += [user.result] if turned else []
            found += [] if turned else [user]
    return found


def _few_bits(facts: Facts, value: str) -> bool:
    """Whether numbers are taken out of words."""
    return bool(facts.graph.roots(value, OpKind.SHIFT_RIGHT, OpKind.BIT_AND))


def _placed_by(facts: Facts, access: Access) -> list[Access]:
    """The loads that the place of a load is computed from."""
    pointers = access.node.op.inputs[:1]
    return [a for v in pointers for a in facts.feeding(v) if a.node is not access.node]


def _tiled(index: Expr) -> bool:
    """True when the lanes of an index are a tile of several, one for each block or round; a round
    may be counted in tiles or in lanes."""
    for lane in (a for a in index.top() if a.kind is AtomKind.LANE):
        apart = index.coefficient(lane)
        for place in index.top():
            if place.kind in (AtomKind.BLOCK, AtomKind.INDUCTION):
                steps = [mul(apart, lane.args[0])]
                steps += [apart] if place.kind is AtomKind.INDUCTION else []
                if index.coefficient(place) in steps:
                    return True
    return False


def _stays(facts: Facts, node: Node, narrow: str) -> bool:
    """False when a factor of a product varies along the axis that the product is reduced over."""
    rank, shape = len(facts.types.shape(node.result)), facts.types.shape(narrow)
    shape = ("1",) * (rank - len(shape)) + shape
    for reduction in facts.graph.downstream(node.result):
        if reduction.op.kind in REDUCTIONS:
            axis = facts.values.literal(reduction.op.operand("axis"))
            same = len(facts.types.shape(reduction.op.inputs[0])) == rank
            if same and isinstance(axis, int) and -rank <= axis < rank:
                return shape[axis] == "1"
    return True


def _scope(facts: Facts, wide: str, stat: list[Access]) -> bool:
    """True when the statistic varies with the row that the wide tile belongs to; of a tile less
    another statistic, with a group of them."""
    rows = [a.index for a in facts.feeding(wide)]
    centred = facts.graph.producer(facts.graph.through(wide, VIEWS | CASTS))
    moved = centred is not None and centred.op.kind == OpKind.SUB
    mean = facts.held_loads(centred.op.inputs[1]) if centred is not None and moved else []
    grouped = any(a.index == stat[0].index for a in mean)
    own = {
        atom.text
        for e in stat[0].index
        for atom in (e.atoms() if grouped else e.top())
        if atom.kind in ("induction", "block")
    }
    if own or any(a.kind is not AtomKind.OPAQUE for e in stat[0].index for a in e.top()):
        return bool(own) and any(own & {a.text for e in index for a in e.atoms()} for index in rows)
    blocks = _blocks(facts, stat[0])
    return any(blocks & _blocks(facts, a) for a in facts.feeding(wide))


def _blocks(facts: Facts, access: Access) -> set[Node]:
    """The numbers of blocks that the place of an access is computed from."""
    return {n for v in access.node.op.inputs[:1] for n in facts.graph.roots(v, OpKind.BLOCK_ID)}

"""Reductions in two stages: threads of a warp first, what they left in shared memory after."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kb.analysis.accesses import Access
from kb.analysis.exchanges import combined_shuffle, reduction_kind
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Graph, Node
from kb.analysis.shared import SharedMemory
from kb.analysis.symbolic import AtomKind, sub
from kb.analysis.values import Values
from kb.dtypes import may_be_float
from kb.ops import COMPARISONS, CONTRACTIONS, OWN_THREAD, REDUCTIONS, OpKind

_REDUCED = REDUCTIONS | {OpKind.CUMSUM, OpKind.CUMPROD, OpKind.SCAN}
_CHOICES = (OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT)
_LOGIC = (OpKind.AND, OpKind.OR, OpKind.BIT_AND, OpKind.BIT_OR, OpKind.NOT)
_HANDING = (OpKind.IF, OpKind.FOR)
_JOINING = (OpKind.ATOMIC_ADD, OpKind.ATOMIC_MAX, OpKind.ATOMIC_MIN)
_LOOKS = CASTS | {OpKind.EXTRACT, OpKind.COPY, OpKind.BITCAST}
_KEPT = _LOOKS | {OpKind.INSERT, OpKind.FOR, OpKind.WHILE, OpKind.IF}


def steps(facts: Facts) -> list[Node]:
    """Where threads combine their values: through a shuffle, or by a collective."""
    graph = facts.threads
    shuffled = [n for n in graph.nodes if combined_shuffle(graph, n.op) is not None]
    if graph.of(OpKind.SHUFFLE):
        shuffled += [n for n in graph.of(*_CHOICES) if _keeps_better(graph, n)]
    return shuffled + graph.of(*REDUCTIONS)


def _keeps_better(graph: Graph, choice: Node) -> bool:
    """Whether a choice is between a value and that of another lane, by a comparison of the two."""
    condition = choice.op.operand("condition") or next(iter(choice.op.inputs), "")
    compared = graph.upstream(condition, lambda n: n.op.kind not in _LOGIC)
    for comparison in (n for n in compared if n.op.kind in COMPARISONS):
        for other, own in (comparison.op.inputs[:2], comparison.op.inputs[1::-1]):
            shuffle = graph.producer(graph.through(other, _LOOKS))
            if shuffle is None or shuffle.op.kind != OpKind.SHUFFLE:
                continue
            if graph.core(shuffle.op.operand("x") or shuffle.op.inputs[0]) != graph.core(own):
                continue
            given = {graph.core(other), graph.core(own)}
            if any({graph.core(v) for v in pair} == given for pair in _sides(choice)):
                return True
    return False


def _sides(choice: Node) -> list[tuple[str, ...]]:
    """What a choice is between, for each of its results."""
    if not choice.op.regions:
        return [tuple(choice.op.inputs[1:3])]
    ends = [region.terminator for region in choice.op.regions]
    return list(zip(*(end.inputs if end is not None else () for end in ends), strict=False))


def second_stage(facts: Facts) -> list[Node]:
    """The first steps, the loads that take up what they left in shared memory, and what combines
    those loads; empty when there is one stage."""
    first = steps(facts)
    shared = facts.shared
    found: list[Node] = []
    for load in facts.threads.of(OpKind.LOAD) if first else ():
        if not shared.holds(load.op):
            continue
        stored = shared.reaching(load.op, facts.thread_values)
        left = [s for s in first if any(facts.threads.rests_on(v, s) for v in stored)]
        joined = [*_again(facts, load, first), *_added(facts, load, shared)]
        if left and joined:
            found += [*left, load, *joined]
    return list(dict.fromkeys(found))


@lru_cache(maxsize=2)
def partials_joined(facts: Facts) -> dict[Node, tuple[Node, ...]]:
    """Loads of what several threads left in shared memory, each at one place of its own, by a loop
    that joins it: with what was left, the stores and the operations that join. What combined steps
    before are stages of those."""
    graph = facts.threads
    if not any(n.op.attribute("space") == "shared" for n in graph.of(OpKind.ALLOCATE)):
        return {}
    shared, values, taken = facts.shared, facts.thread_values, {*second_stage(facts)}
    left: dict[str, list[Node]] = {}
    for store in graph.of(OpKind.STORE):
        place = shared.place(store.op)
        made = graph.producer(graph.through(store.op.operand("value"), _LOOKS))
        if place is None or made is None or made.op.kind in (OpKind.LOAD, OpKind.CONST):
            continue
        if graph.roots(store.op.inputs[0], *OWN_THREAD) and not _rounds(values, store):
            left.setdefault(place, []).extend((made, store))
    found: dict[Node, tuple[Node, ...]] = {}
    for load in graph.of(OpKind.LOAD) if left else ():
        parts = left.get(shared.place(load.op) or "", [])
        if not parts or load in taken or not _rounds(values, load):
            continue
        joined = [n for n in _added(facts, load, shared) if _carries(graph, n)]
        if joined and not any(n in load.loops for n in parts):
            found[load] = (*parts, load, *joined)
    return found


@lru_cache(maxsize=2)
def products_joined(facts: Facts) -> tuple[Node, ...]:
    """Where threads leave sums of products, behind the loop that takes them, in shared memory, and
    what adds up those of several threads: stores, loads and additions."""
    graph = facts.threads
    products = graph.of(*CONTRACTIONS)
    left = _sums_left(facts, products) if graph.of(OpKind.ALLOCATE) else {}
    first = min((n.index for nodes in left.values() for n in nodes), default=0)
    loads = [
        n for n in graph.of(OpKind.LOAD) if n.index > first and facts.shared.place(n.op) in left
    ]
    if not left or not loads:
        return ()
    parts, whole = graph.node_set(loads), graph.node_set([*loads, *products])
    added = [
        node
        for node in graph.of(OpKind.ADD, OpKind.FMA)
        if node.index > loads[0].index and _is_float(node)
        for one, other in (node.op.inputs[-2:], node.op.inputs[:-3:-1])
        if graph.rests_on_any(one, parts) and graph.rests_on_any(other, whole)
    ]
    kept = [n for nodes in left.values() for n in nodes]
    return tuple(dict.fromkeys([*kept, *loads, *added])) if added else ()


def _sums_left(facts: Facts, products: list[Node]) -> dict[str, list[Node]]:
    """Stores of sums of products to shared memory, behind the loop that takes the sum, at places
    that the own thread decides, by what they store to."""
    graph = facts.threads
    rolled = {n: _rolled(graph, n) for n in products}
    raised = graph.node_set(graph.of(OpKind.EXP, OpKind.EXP2))  # those of a row sum to weights
    found: dict[str, list[Node]] = {}
    for store in graph.of(OpKind.STORE) if products else ():
        value, place = store.op.operand("value") or "", facts.shared.place(store.op)
        if place is None or graph.rests_on_any(value, raised):
            continue
        own = [p for p in products if p.index < store.index and graph.rests_on(value, p)]
        if any(rolled[p] is not None and rolled[p] not in store.loops for p in own):
            found.setdefault(place, []).append(store)
    return {p: n for p, n in found.items() if graph.roots(n[-1].op.inputs[0], *OWN_THREAD)}


def _rolled(graph: Graph, node: Node) -> Node | None:
    """The innermost loop around a node whose rounds are counted when the kernel runs."""
    for loop in reversed(node.loops):
        made = graph.producer(loop.op.inputs[0]) if loop.op.inputs else None
        if loop.op.kind == OpKind.WHILE or made is None or made.op.kind != OpKind.STATIC_RANGE:
            return loop
    return None


def _is_float(node: Node) -> bool:
    of = node.op.results[0].type
    return of is not None and may_be_float(of.dtype or "")


def added_by_atomics(facts: Facts) -> dict[Node, list[Node]]:
    """Atomics by which the threads of a block join, in shared memory, what each of them summed up
    in a loop before: with those sums."""
    graph = facts.threads
    if not any(n.op.attribute("space") == "shared" for n in graph.of(OpKind.ALLOCATE)):
        return {}
    shared, sums = facts.shared, {n for n in graph.nodes if _grows(graph, n)}
    found = {}
    for atomic in graph.of(*_JOINING):
        above = graph.upstream(atomic.op.operand("value") or "", lambda n: n.op.kind not in _KEPT)
        own = [n for n in above if n in sums and not {*n.loops} <= {*atomic.loops}]
        if own and shared.holds(atomic.op) and not graph.users(atomic.result):
            found[atomic] = own
    return found


def _grows(graph: Graph, node: Node) -> bool:
    """Whether an operation joins what a loop carries, perhaps as an element of an array, with
    something that was loaded."""
    if reduction_kind(node.op.kind) is None or not node.loops:
        return False
    return bool(graph.roots(node.result, OpKind.LOAD)) and any(
        graph.through(v, _LOOKS) in graph.arguments for v in node.op.inputs[:2]
    )


def _rounds(values: Values, access: Node) -> bool:
    """Whether the rounds of a loop around it move an access."""
    address = values.graph.through(access.op.inputs[0], frozenset({OpKind.POINTER_CAST}))
    atoms = values.expr(address or access.op.inputs[0]).atoms()
    return any(atom.kind is AtomKind.INDUCTION for atom in atoms)


def _over_rounds(values: Values, load: Node, node: Node) -> bool:
    """Whether what was loaded is joined as it is; or, where it comes out of registers, is added or
    compared in the rounds that move the load, each element of them in every round."""
    sides = [values.graph.producer(v) for v in node.op.inputs[:2]]
    if any(values.graph.through(v, _LOOKS) == load.result for v in node.op.inputs[:2]):
        return True
    index = [n.op.operand("index") or "" for n in sides if n and n.op.kind == OpKind.EXTRACT]
    held = {a for v in index for a in values.expr(v).atoms()}
    steps = (x.op.regions[-1].arguments[:1] for x in node.loops if load.inside(x))
    moved = {values.expr(one.name).atom for step in steps for one in step}
    atoms = values.expr(load.op.inputs[0]).atoms()
    return node.op.kind != OpKind.MUL and any(a in moved and a not in held for a in atoms)


def _carries(graph: Graph, node: Node) -> bool:
    """Whether an operation takes what a loop carries, perhaps through casts."""
    return any(graph.through(v, _LOOKS) in graph.arguments for v in node.op.inputs[:2])


@lru_cache(maxsize=2)
def tree_steps(facts: Facts) -> tuple[Node, ...]:
    """Where a thread combines what another one, further on, left in shared memory with its own and
    leaves the outcome at its own place: an operation and its store, per step of the tree. Steps
    that take up what lies before their own place are those of running totals."""
    graph = facts.threads
    if not any(n.op.attribute("space") == "shared" for n in graph.of(OpKind.ALLOCATE)):
        return ()
    shared, values = facts.shared, facts.thread_values
    found: list[Node] = []
    for store in graph.of(OpKind.STORE):
        joined = graph.producer(graph.through(store.op.operand("value"), _LOOKS))
        place = shared.place(store.op)
        if place is None or joined is None:
            continue
        if joined.op.kind == OpKind.LOAD and shared.place(joined.op) == place:
            if _ahead(values, joined, store) and (test := _better(facts, shared, joined, store)):
                found += [test, store]
        if reduction_kind(joined.op.kind) is None:
            continue
        for value in joined.op.inputs[:2]:
            load = graph.producer(graph.through(value, _LOOKS))
            if load is None or load.op.kind != OpKind.LOAD or shared.place(load.op) != place:
                continue
            if _ahead(values, load, store):
                found += [joined, store]
    return tuple(found)


def _ahead(values: Values, load: Node, store: Node) -> bool:
    """True for a place further on than the one that is written."""
    ahead = sub(values.expr(load.op.inputs[0]), values.expr(store.op.inputs[0]))
    return bool(ahead.terms) and all(number > 0 for _, number in ahead.terms)


def _better(facts: Facts, shared: SharedMemory, load: Node, store: Node) -> Node | None:
    """The comparison, around a store of what lies further on, of that with what lies at the own
    place."""
    graph, values = facts.threads, facts.thread_values
    places = [values.expr(n.op.inputs[0]) for n in (load, store)]
    branch = store.parent
    while branch is not None:
        asked = [
            n
            for n in (graph.upstream(branch.op.inputs[0]) if branch.op.kind == OpKind.IF else ())
            if n.op.kind in COMPARISONS
        ]
        for test in asked:
            read = [graph.producer(graph.through(v, _LOOKS)) for v in test.op.inputs[:2]]
            loads = [n for n in read if n is not None and n.op.kind == OpKind.LOAD]
            same = [n for n in loads if shared.place(n.op) == shared.place(store.op)]
            found = [values.expr(n.op.inputs[0]) for n in same]
            if len(found) == 2 and all(place in found for place in places):
                return test
        branch = branch.parent
    return None


def _again(facts: Facts, load: Node, first: list[Node]) -> Iterator[Node]:
    """Steps that combine what was loaded."""
    for step in first:
        if facts.threads.rests_on(step.result, load):
            yield step


def _added(facts: Facts, load: Node, shared: SharedMemory) -> Iterator[Node]:
    """Operations of one thread that join what was loaded with a carried value, or with another
    element of the same array."""
    graph = facts.threads
    for node in _readers(facts, load):
        if not _over_rounds(facts.thread_values, load, node):
            continue
        for side in (graph.through(v, _LOOKS) for v in node.op.inputs[:2]):
            other = graph.producer(side)
            beside = other is not None and other is not load and shared.holds(other.op)
            if side in graph.arguments or (
                beside and other is not None and shared.place(other.op) == shared.place(load.op)
            ):
                yield node


def _readers(facts: Facts, load: Node) -> Iterator[Node]:
    """Operations that could repeat as a reduction and read a load, perhaps through casts, or out of
    the registers that a branch or a loop puts its elements into."""
    pending = [load.result]
    for value in pending:
        for user in facts.threads.users(value):
            if reduction_kind(user.op.kind) is not None:
                yield user
                continue
            new = [user.result] if user.op.kind in _LOOKS | {OpKind.INSERT} else _left(user, value)
            pending += [v for v in new if v not in pending]


def _left(end: Node, value: str) -> list[str]:
    """What a branch, or a loop that is entered once for each element, hands on of what its end
    gives."""
    owner = end.parent
    if end.op.kind != OpKind.YIELD or owner is None or owner.op.kind not in _HANDING:
        return []
    rows = zip(end.op.inputs, owner.op.results, strict=False)
    return [row.name for given, row in rows if given == value]


def of_elements(facts: Facts, store: Access, reduced: list[Node]) -> bool:
    """True for a store of what single elements become, perhaps by what was reduced; or of a number
    in every round of a loop that the reductions did not give."""
    counted = any(index.has(AtomKind.INDUCTION) for index in store.index)
    if counted and not any(facts.graph.rests_on(store.value or "", n) for n in reduced):
        return True
    nodes = facts.graph.upstream(store.value or "", lambda n: n.op.kind in _REDUCED)
    found = [a for n in nodes if (a := facts.access(n)) is not None and not a.is_store]
    return any(index.has(AtomKind.LANE) for a in found for index in a.index)

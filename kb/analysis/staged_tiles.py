"""Rows and tiles that a block leaves in shared memory, where its threads read them again."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Graph, Node
from kb.analysis.row_chunks import chunked
from kb.analysis.symbolic import AtomKind
from kb.ops import CONTRACTIONS, OWN_THREAD, READS, REDUCTIONS, OpKind

_STOPS = READS | REDUCTIONS | {OpKind.SHUFFLE}
_ROW_STOPS = READS | CONTRACTIONS | REDUCTIONS


def staged_rows(facts: Facts) -> list[Access | Node]:
    """Loads of a loop whose value other loops take: shared memory hands it on. One of them at least
    is reduced, or the block's own: what every block multiplies into its results is no row."""
    found: list[Access | Node] = []
    summed = {a for r in facts.reductions for a in facts.feeding(r.op.inputs[0])}
    row = False
    for access in facts.loads:
        if access.loop is None or not chunked(facts, access):
            continue
        taken = [
            copy
            for copy in facts.graph.of(OpKind.COPY)
            if copy.loop is not None
            and not copy.inside(access.loop)
            and _carries(facts, copy.op.inputs[0], access)
            and any(facts.graph.rests_on(s.value, copy) for s in facts.stores)
        ]
        if taken:
            found += [access, *taken]
            row |= access in summed or any(i.has(AtomKind.BLOCK) for i in access.index)
    return found if row else []


def staged_tiles(facts: Facts) -> list[Node]:
    """Where threads put what they loaded into shared memory, each at a place of its own, and where,
    after they have met, a loop goes along it."""
    graph = facts.threads
    met = [n.index for n in graph.of(OpKind.BARRIER)] if facts.of_threads else []
    put: dict[Node, list[Node]] = {}
    for store in graph.of(OpKind.STORE) if met else ():
        if _shared(store) and graph.roots(store.op.operand("pointer"), *OWN_THREAD):
            for array in graph.roots(store.op.operand("pointer"), OpKind.ALLOCATE):
                put.setdefault(array, []).append(store)
    found: dict[Node, None] = {}
    for taken in graph.of(OpKind.LOAD) if put else ():
        pointer = taken.op.operand("pointer")
        if not _shared(taken) or not _goes_along(graph, taken, pointer or ""):
            continue
        stores = [s for a in graph.roots(pointer, OpKind.ALLOCATE) for s in put.get(a, ())]
        if any(taken.loop in s.loops for s in stores):
            continue  # Threads take turns: a sum or a scan.
        stores = [s for s in stores if any(s.index < at < taken.index for at in met)]
        stores = [s for s in stores if _brought(graph, s)]
        found.update(dict.fromkeys([*stores, taken] if stores else ()))
    return list(found)


def _shared(node: Node) -> bool:
    return node.op.attribute("space") == "shared"


def _brought(graph: Graph, store: Node) -> bool:
    """Whether what is put there is one loaded element, or computed from such ones alone."""
    value = store.op.operand("value") or ""
    above = graph.made_from([value], graph.of(*_STOPS), lambda n: n.op.kind in _STOPS)
    return bool(above) and all(n.op.kind == OpKind.LOAD and not _shared(n) for n in above)


def _goes_along(graph: Graph, taken: Node, pointer: str) -> bool:
    """Whether a place moves with the innermost loop around it."""
    loop = taken.loop
    if loop is None or loop.op.kind not in LOOPS:
        return False
    arguments = loop.op.regions[-1].arguments
    return any(graph.rests_on_argument(pointer, one.name) for one in arguments)


def _carries(facts: Facts, value: str, access: Access) -> bool:
    """Whether what a loop left behind is what it loaded, or was computed from that alone."""
    made = facts.graph.producer(value)
    if made is None or access.loop is None or not made.inside(access.loop):
        return False
    above = facts.graph.upstream(value, lambda n: n.op.kind in _ROW_STOPS)
    return access.node in above

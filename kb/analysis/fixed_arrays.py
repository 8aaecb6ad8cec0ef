"""Sizes that must not be larger than what a kernel has written down: the extent of an array that
holds so many elements, the lanes of a warp or the threads of a block that take one each."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.ir import ParameterKind, TileType
from kb.ops import ATOMICS, COMPARISONS, OpKind
from kb.space import Constraint, implied

_ASKS = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE, OpKind.EQ})
_ACCESSES = (OpKind.LOAD, OpKind.STORE, *ATOMICS)
_SIZES = frozenset({AtomKind.PARAMETER, AtomKind.CEIL_DIV, AtomKind.FLOOR_DIV})

MAX_ADDED = 4
"""Offsets that an address of an array is followed through."""


def fixed_arrays(facts: Facts) -> Iterator[Constraint]:
    """A loop to a size that the run tells fills an array whose extent is written down."""
    if not facts.of_threads:
        return
    loops = {loop.induction: loop for loop in facts.thread_loops if loop.induction}
    found: dict[tuple[str, str, str], tuple[int, Node]] = {}
    for node, name, index, extent in _filled(facts):
        for induction, loop in loops.items():
            if not node.inside(loop.node) or _asked(facts, node, loop, induction):
                continue
            size, added = _reached(facts, index, induction, loop)
            if size and added >= found.get((name, size, extent), (0, node))[0]:
                found[name, size, extent] = added, node
    for (name, size, extent), (added, node) in found.items():
        end = f"{size} + {added}" if added else size
        yield implied(
            f"{end} <= {extent}",
            f"`{name}` has {extent} elements, and the loop goes to {end} in it",
            "check it before the launch, or take the array as large as the size",
            node.lines,
        )


def _filled(facts: Facts) -> Iterator[tuple[Node, str, str, str]]:
    """Elements that are put into arrays of the kernel: with the name of the array, the place along
    its first axis and the extent of it."""
    graph = facts.threads
    for node in graph.of(OpKind.INSERT):
        array, index = node.op.operand("x"), node.op.operand("index")
        shape = _shape(facts, array) if array is not None else ()
        if array and index and len(shape) == 1 and shape[0] != "?":
            yield node, array.partition(".")[0], index, shape[0]
    for node in graph.of(OpKind.STORE, *ATOMICS):
        offsets: list[str] = []
        made = graph.producer(node.op.operand("pointer"))
        while made is not None and made.op.kind == OpKind.ADD and len(offsets) < MAX_ADDED:
            offsets.append(made.op.inputs[1])
            made = graph.producer(made.op.inputs[0])
        if made is None or made.op.kind != OpKind.ALLOCATE or not offsets:
            continue
        if made.op.attribute("space") != "shared":
            continue
        shape = facts.thread_values.items(made.op.operand("shape") or "")
        if len(shape) == len(offsets):
            index = _along(facts, offsets[-1], shape[1:])
            if index is not None:
                extent = str(facts.thread_values.expr(shape[0]))
                yield node, made.result.partition(".")[0], index, extent


def _shape(facts: Facts, value: str) -> tuple[str, ...]:
    """The extents of an array of a thread."""
    graph = facts.threads
    made = graph.producer(value)
    rows = made.op.results if made is not None else ()
    if value in graph.arguments:
        node, region, place = graph.arguments[value]
        rows = (node.op.regions[region].arguments[place],)
    found = next((row.type for row in rows if row.name == value), None)
    return found.shape if isinstance(found, TileType) else ()


def _along(facts: Facts, offset: str, inner: tuple[str, ...]) -> str | None:
    """The place along the first axis that an offset is of: it is taken times the other extents."""
    for _ in inner:
        made = facts.threads.producer(offset)
        if made is None or made.op.kind != OpKind.MUL:
            return None
        offset = made.op.inputs[0]
    return offset


def _reached(facts: Facts, index: str, induction: str, loop: Loop) -> tuple[str, int]:
    """The size up to which a place goes with a loop, and how much further; an empty one where it
    does not, or where compile-time numbers alone tell the size."""
    values = facts.thread_values
    place, counted = values.expr(index), values.expr(induction)
    if counted.atom is None or loop.high is None:
        return "", 0
    moved = [(factors, number) for factors, number in place.terms if counted.atom in factors]
    if moved != [((counted.atom,), 1)]:
        return "", 0
    rest = [term for term in place.terms if term not in moved]
    if any(factors or number < 0 for factors, number in rest):
        return "", 0
    size = values.expr(loop.high)
    if not _told_by_run(facts, size):
        return "", 0
    return str(size), sum(number for _, number in rest)


def _told_by_run(facts: Facts, size: Expr) -> bool:
    """Whether a size is made of parameters, one of which is a number that is passed."""
    scalars = {p.name for p in facts.kernel.entry.parameters if p.kind is ParameterKind.SCALAR}
    atoms = list(size.atoms())
    return all(a.kind in _SIZES for a in atoms) and any(a.value in scalars for a in atoms)


def _asked(facts: Facts, node: Node, loop: Loop, induction: str) -> bool:
    """Whether a branch within a loop asks how far it is before an element is put."""
    return any(
        one.inside(loop.node) and any(
            test.op.kind in COMPARISONS and induction in test.op.inputs
            for test in facts.threads.upstream(one.op.inputs[0])
        )
        for one in facts.guards(node)
    )  # fmt: skip


def enough_threads(facts: Facts) -> Iterator[Constraint]:
    """Elements of a size that the run tells are taken one by each lane of a warp, or by each thread
    of a block, and no loop takes the rest."""
    if not facts.of_threads:
        return
    told: set[str] = set()
    for test in facts.threads.of(OpKind.LT):
        place, size = (facts.thread_values.expr(v) for v in test.op.inputs[:2])
        lanes = _lanes(facts, place.atom) if place.atom is not None else ""
        if not lanes or not _told_by_run(facts, size) or _goes_on(facts, place.atom, size):
            continue
        text = f"{size} <= {lanes}"
        if text not in told and _decides(facts, test, place.atom):
            told.add(text)
            yield implied(
                text,
                f"each of {lanes} {'lanes' if lanes.isdigit() else 'threads'} takes one of them, "
                "and no loop takes more",
                "check it before the launch, or go through them in a loop",
                test.lines,
            )


def _lanes(facts: Facts, atom: Atom | None) -> str:
    """How many there are of what a number tells apart: threads of a block, or lanes of a warp."""
    if atom is None:
        return ""
    if _thread(facts, atom):
        return "block_x"
    if atom.kind is AtomKind.MOD and atom.args[0].atom is not None:
        parts = atom.args[1].constant
        if parts is not None and parts > 1 and _thread(facts, atom.args[0].atom):
            return str(parts)
    return ""


def _thread(facts: Facts, atom: Atom) -> bool:
    """Whether an atom is the number of the thread along x."""
    made = facts.threads.producer(atom.value)
    if made is not None and made.op.kind == OpKind.THREAD_ID:
        axis = facts.threads.producer(made.op.operand("axis"))
        return axis is not None and axis.op.attribute("value") == 0
    return atom.kind is AtomKind.LANE and "threads(0)" in atom.text


def _goes_on(facts: Facts, atom: Atom | None, size: Expr) -> bool:
    """Whether a loop begins at the number of the thread, or takes places of the same size, or a
    thread takes further places, too."""
    for loop in facts.thread_loops:
        low = facts.thread_values.expr(loop.low) if loop.low is not None else None
        high = facts.thread_values.expr(loop.high) if loop.high is not None else None
        if (low is not None and atom in low.atoms()) or high == size:
            return True
    for test in facts.threads.of(OpKind.LT):
        place, end = (facts.thread_values.expr(v) for v in test.op.inputs[:2])
        if end == size and len(place.terms) > 1 and atom in place.atoms():
            return True
    return False


def _decides(facts: Facts, test: Node, atom: Atom | None) -> bool:
    """Whether a comparison alone decides on a branch with an access at the place of the thread."""
    for branch in facts.threads.of(OpKind.IF):
        if facts.threads.producer(branch.op.inputs[0]) is not test:
            continue
        for node in facts.threads.of(*_ACCESSES):
            pointer = node.op.operand("pointer")
            around = (node, *node.around())
            if pointer is None or not any(n.parent is branch and n.branch == 0 for n in around):
                continue
            if any(_adds(facts, one, atom) for one in facts.threads.upstream(pointer)):
                return True
    return False


def _adds(facts: Facts, node: Node, atom: Atom | None) -> bool:
    """Whether the number of a thread itself is added to an address."""
    if node.op.kind != OpKind.ADD:
        return False
    place = facts.thread_values.expr(node.op.inputs[1])
    return ((atom,), 1) in place.terms

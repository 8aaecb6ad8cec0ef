"""What a vector access asks of the sizes that its address is made of.

Source: NVIDIA, CUDA C++ Programming Guide, device memory accesses: an address is a multiple of the
size of what is read there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from kb.analysis.facts import Facts
from kb.analysis.graph import Graph, Lines, Node
from kb.analysis.record_fields import field_of
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.analysis.values import Values
from kb.ir import ParameterKind, TileType
from kb.ops import READS, WRITES, OpKind
from kb.planner.evaluation import DTYPE_BYTES

MAX_STEPS = 64
"""Steps from a pointer back to what it begins at."""

_MOVING = frozenset({OpKind.ADD, OpKind.COPY, OpKind.POINTER_CAST})


@dataclass(frozen=True, slots=True)
class WholeVectors:
    """A size that must be a multiple of the `elements` that move at once, a number or the name of
    one."""

    size: str
    elements: int | str
    lines: Lines


@dataclass(frozen=True, slots=True)
class Vector:
    """A pointer read as one to vectors: `elements` of the type that it had before, `size` bytes."""

    cast: Node
    elements: int
    size: int
    accesses: tuple[Node, ...]


def vectors(facts: Facts) -> Iterator[Vector]:
    """Pointers of one thread to elements of a known type that are read or written in vectors."""
    return (one for one in _vectors(facts) if one.elements > 1)


def _vectors(facts: Facts) -> Iterator[Vector]:
    """Pointers of one thread that are read or written in vectors, of 0 elements where the type
    that the pointer had before is not known."""
    if not facts.of_threads:
        return
    graph = facts.threads
    asked = _asked(graph)
    for cast in graph.of(OpKind.POINTER_CAST):
        elements, size = _elements(graph, cast)
        accesses = tuple(_accesses(facts, cast)) if size or elements > 1 else ()
        if accesses and _base(graph, {}, cast.op.inputs[0]) not in asked:
            yield Vector(cast, elements, size, accesses)


def _asked(graph: Graph) -> set[str]:
    """What pointers begin at whose address the kernel divides, to tell whether it is a multiple."""
    found: set[str] = set()
    for node in graph.of(OpKind.MOD, OpKind.BIT_AND):
        number = graph.producer(node.op.inputs[0])
        if number is not None and number.op.kind == OpKind.BITCAST:
            found.add(_base(graph, {}, number.op.inputs[0]))
    return found - {""}


def whole_vectors(facts: Facts) -> Iterator[WholeVectors]:
    """Sizes given at the launch that move a pointer before it is read as one to vectors; not where
    bytes are counted, whose sizes the host makes of others."""
    scalars = {p.name for p in facts.kernel.entry.parameters if p.kind is ParameterKind.SCALAR}
    for vector in (one for one in vectors(facts) if one.size > one.elements):
        values = facts.thread_values
        for factors, times in values.expr(vector.cast.op.inputs[0]).terms:
            sizes = [a.value for a in factors if a.kind is AtomKind.PARAMETER]
            moved = any(a.kind in _PLACES for a in factors)
            if moved and len(sizes) == 1 and sizes[0] in scalars and times % vector.elements:
                yield WholeVectors(sizes[0], vector.elements, vector.accesses[0].lines)


_PLACES = (
    AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT, AtomKind.LANE, AtomKind.FLOOR_DIV,
)  # fmt: skip


def vector_ends(facts: Facts) -> Iterator[WholeVectors]:
    """Sizes that only the first element of a vector is held below: the last vector goes on past
    them where they are no multiple of it."""
    told: set[tuple[str, int | str]] = set()
    for vector in vectors(facts):
        values = facts.thread_values
        place = values.expr(vector.cast.op.inputs[0])
        for size in _held_below(facts, values, vector, place):
            if (size, vector.elements) not in told:
                told.add((size, vector.elements))
                yield WholeVectors(size, vector.elements, vector.accesses[0].lines)
    for found in _taken_together(facts) if facts.of_threads else ():
        if (found.size, found.elements) not in told:
            told.add((found.size, found.elements))
            yield found


def _taken_together(facts: Facts) -> Iterator[WholeVectors]:
    """Sizes that a loop ends at in steps of several elements, which a loop in it takes one by one
    without asking again."""
    graph, values = facts.threads, facts.thread_values
    loops = [loop for loop in facts.thread_loops if loop.induction and loop.high]
    tests = graph.of(OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE) if len(loops) > 1 else ()
    asked = {a for n in tests for v in n.op.inputs[:2] for a in values.expr(v).atoms()}
    for outer in loops:
        size, step = values.expr(outer.high).atom, values.expr(outer.step)
        if size is None or size.kind is not AtomKind.PARAMETER or outer.step is None:
            continue
        for inner in (one for one in loops if one.node.inside(outer.node)):
            count, item = values.expr(inner.high), values.expr(inner.induction)
            several = count.constant or (count.atom.value if count.atom is not None else 1)
            begins = values.expr(inner.low).constant == 0
            if several == 1 or not begins or not _in_steps_of(step, several):
                continue
            if item.atom in asked:
                continue
            together = {*values.expr(outer.induction).terms, *item.terms}
            moved = [
                n
                for n in graph.of(OpKind.LOAD, OpKind.STORE)
                if n.inside(inner.node) and n.op.attribute("space") != "shared"
                if together <= {*values.expr(n.op.operand("pointer") or n.op.inputs[0]).terms}
            ]
            if moved:
                yield WholeVectors(size.value, several, moved[0].lines)


def _in_steps_of(step: Expr, several: int | str) -> bool:
    """Whether a step is a number of times so many elements."""
    if isinstance(several, int):
        return _multiple(step, several)
    return bool(step.terms) and all(any(a.value == several for a in f) for f, _ in step.terms)


def _held_below(facts: Facts, values: Values, vector: Vector, place: Expr) -> Iterator[str]:
    """Parameters that the place of the first element of a vector is compared with."""
    graph = facts.threads
    node = vector.accesses[0].parent
    while node is not None:
        if node.op.kind == OpKind.IF:
            test = graph.producer(node.op.inputs[0])
            if test is not None and test.op.kind == OpKind.LT:
                first, size = (values.expr(v) for v in test.op.inputs[:2])
                if size.atom is not None and _places(place, first, size.atom):
                    yield size.atom.value
        node = node.parent
    for loop in facts.thread_loops:
        if not vector.accesses[0].inside(loop.node) or loop.high is None or loop.induction is None:
            continue
        bound, step = values.expr(loop.high).atom, values.expr(loop.step)
        whole = loop.step is not None and _multiple(step, vector.elements)
        if bound is not None and whole and _places(place, values.expr(loop.induction), bound):
            yield bound.value


def _places(place: Expr, first: Expr, size: Atom) -> bool:
    """Whether a vector begins at `first` of its row, and `size` is a number that is passed."""
    terms = set(place.terms)
    rest = [factors for factors, _ in terms - set(first.terms) if factors]
    moved = all(any(a.kind is AtomKind.PARAMETER for a in factors) for factors in rest)
    return (
        size.kind is AtomKind.PARAMETER
        and set(first.terms) <= terms
        and bool(first.terms)
        and moved
    )


def _multiple(value: Expr, elements: int) -> bool:
    """Whether a step is a number of whole vectors."""
    return bool(value.terms) and all(number % elements == 0 for _, number in value.terms)


def aligned_arrays(facts: Facts) -> dict[str, tuple[str, Lines]]:
    """Arrays that are read or written in vectors, with the bytes of the largest and its lines; in
    the words of the kernel where vectors hold as many elements as it says."""
    found: dict[str, tuple[int, Lines]] = {}
    several, whole = list(_vectors(facts)), list(_moved_whole(facts))
    named = list(_instructed(facts))
    loops = facts.thread_loops if several or whole or named else ()
    begun = {c.argument: c.init for loop in loops for c in loop.carried}
    sized = [(one.accesses[0], one.cast.op.inputs[0], one.size) for one in several]
    for node, pointer, size in (*sized, *named):
        name = _array(facts, _base(facts.threads, begun, pointer))
        if name and size > found.get(name, (0,))[0]:
            found[name] = size, node.lines
    told = {name: (str(size), lines) for name, (size, lines) in found.items()}
    for node, pointer, text in whole:
        name = _array(facts, _base(facts.threads, begun, pointer))
        if name:
            told.setdefault(name, (text, node.lines))
    return told


def _array(facts: Facts, base: str) -> str:
    """The parameter, or the field of one, that a pointer begins at; empty for others."""
    given = {p.name: p for p in facts.kernel.entry.parameters}
    if base in given:
        return base if given[base].kind is ParameterKind.ARRAY else ""
    return field_of(facts.threads, base) or ""


def _instructed(facts: Facts) -> Iterator[tuple[Node, str, int]]:
    """Loads and stores of global memory by instructions that say that they move a vector: with the
    pointer, and the bytes."""
    for node in facts.threads.of(OpKind.LOAD, OpKind.STORE) if facts.of_threads else ():
        said = _VECTOR.search(str(node.op.attribute("opcode") or ""))
        if said is not None:
            pointer = node.op.operand("pointer") or node.op.inputs[0]
            yield node, pointer, int(said[1]) * int(said[2]) // 8


_VECTOR = re.compile(r"^(?:ld|st)\.(?!shared|local|param).*\.v([248])\.[a-z]+(\d+)$")
"""Instructions that move a vector. Source: PTX ISA, ld and st: an address is a multiple of the
size of what is moved there."""


def _moved_whole(facts: Facts) -> Iterator[tuple[Node, str, str]]:
    """Loads and stores of a thread outside of shared memory that move a vector of as many elements
    as the kernel says: with the pointer, and the bytes in words."""
    graph = facts.threads
    for node in graph.of(OpKind.LOAD, OpKind.STORE) if facts.of_threads else ():
        made = node if node.op.kind == OpKind.LOAD else graph.producer(node.op.operand("value"))
        moved = made.op.results[0].type if made is not None and made.op.results else None
        if not isinstance(moved, TileType) or node.op.attribute("space") == "shared":
            continue
        if len(moved.shape) == 1 and not moved.shape[0].isdigit():
            size = moved.shape[0].partition(".")[0]
            of = _TYPE.fullmatch(moved.dtype)
            if size.isidentifier() and (of is not None or _bits(moved.dtype)):
                bytes_ = f"bytes_of({of[1]})" if of is not None else str(_bits(moved.dtype) // 8)
                yield node, node.op.operand("pointer") or node.op.inputs[0], f"{size} * {bytes_}"


_TYPE = re.compile(r"dtypeof\(([\w.]+)\)")
"""The type of a template in the words of types."""


def _base(graph: Graph, begun: dict[str, str], pointer: str) -> str:
    """The parameter that a pointer begins at; `begun` says what those start as that loops move."""
    for _ in range(MAX_STEPS):
        node = graph.producer(pointer)
        if pointer in begun:
            pointer = begun[pointer]
        elif node is None or node.op.kind not in _MOVING or not node.op.inputs:
            return pointer
        else:
            pointer = node.op.inputs[0]
    return ""


def _elements(graph: Graph, cast: Node) -> tuple[int, int]:
    """How many elements a vector holds of the type that the pointer had before, 0 where that is
    not known, and the bytes of the vector, 0 for what is none."""
    after = cast.op.results[0].type
    known = isinstance(after, TileType) and after.shape and all(e.isdigit() for e in after.shape)
    if not isinstance(after, TileType) or not known:
        return 0, 0
    count, bits = prod(map(int, after.shape)), _bits(after.dtype)
    before = _pointed(graph, cast.op.inputs[0])
    if before is None:
        return 0, 0
    if before == after.dtype:
        return count, count * bits // 8
    own = _bits(before)
    return (count * bits // own if own and count * bits % own == 0 else 0), count * bits // 8


def _pointed(graph: Graph, pointer: str) -> str | None:
    """The type of the elements that a pointer goes to, empty where it is not known; None where it
    goes to vectors."""
    below = graph.producer(pointer)
    if below is None:
        given = {p.name: p for p in graph.function.parameters}.get(pointer)
        words = given.annotation.split() if given is not None else []
        return words[0] if words and "x" not in words[0] else None
    before = below.op.results[0].type if below.op.results else None
    if isinstance(before, TileType) and before.shape:
        return None
    return before.dtype if isinstance(before, TileType) else ""


def _bits(dtype: str) -> int:
    signed = f"i{dtype[1:]}" if dtype.startswith("u") else dtype
    return int(8 * DTYPE_BYTES.get(signed, 0))


def _accesses(facts: Facts, cast: Node) -> Iterator[Node]:
    """Loads and stores through a pointer, moved by whole vectors or not at all."""
    pending = [cast.result]
    for value in pending:
        for user in facts.threads.users(value):
            if user.op.kind in READS | WRITES:
                yield user
            elif user.op.kind in _MOVING and user.op.inputs[0] == value and len(pending) < 64:
                pending.append(user.result)

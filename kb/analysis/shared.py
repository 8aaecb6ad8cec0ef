"""Shared memory of a block: which allocation an address lies in, and what was stored there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kb.analysis.graph import Graph, Node
from kb.analysis.symbolic import AtomKind
from kb.analysis.values import Values
from kb.ir import Op, Value
from kb.ops import ATOMICS, COMPARISONS, CONTRACTIONS, OWN_THREAD, OpKind

_ADDRESSES = frozenset({OpKind.ADD, OpKind.SUB, OpKind.POINTER_CAST, OpKind.SHARED_ADDRESS,
                        OpKind.COPY, OpKind.ADVANCE, OpKind.CAST, OpKind.SELECT, OpKind.IF,
                        OpKind.IF_EXPRESSION, OpKind.BITCAST})  # fmt: skip
_SAME = _ADDRESSES - {OpKind.ADD, OpKind.SUB, OpKind.ADVANCE, OpKind.SELECT, OpKind.IF,
                      OpKind.IF_EXPRESSION}  # fmt: skip
_FILLING = frozenset({OpKind.ASYNC_COPY, OpKind.BULK_COPY})
_WITHOUT = _FILLING | CONTRACTIONS
"""What fills memory of the block without being an access."""

_OF_ACCESSES = frozenset(
    {"pointer", "mask", "cache_modifier", "eviction_policy", "descriptor", "offsets"}
)
_ACCESSES = frozenset({OpKind.LOAD, OpKind.STORE}) | ATOMICS
_SPACES = ("shared", "tensor")

WARP = 32
"""Threads of a warp: neighbours within it may read what one of them stored beside them. Source:
CUDA C++ Programming Guide, SIMT architecture."""


@dataclass(eq=False, slots=True)
class SharedMemory:
    """Allocations of a program with the values put into each.

    Memory whose extent the launch gives is one allocation that holds several arrays: an address in
    it that several accesses start from is an array of its own, and so is a field of a struct.
    """

    graph: Graph
    _places: dict[str, str | None] = field(default_factory=dict)
    _values: dict[str, list[tuple[str, Node]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.graph.of(*_WITHOUT, *_ACCESSES):
            value = _stored(node.op)
            place = self.place(node.op) if value is not None else None
            if value is not None and place is not None:
                self._values.setdefault(place, []).append((value, node))

    @property
    def allocations(self) -> list[Node]:
        """Arrays in shared memory, in program order."""
        return [n for n in self.graph.of(OpKind.ALLOCATE) if n.op.attribute("space") == "shared"]

    def place(self, op: Op) -> str | None:
        """The allocation that an access, or a copy into shared memory, goes to."""
        if op.kind in _FILLING:
            return self._allocation(op.operand("target") or next(iter(op.inputs), None))
        if op.kind in CONTRACTIONS:
            return self._allocation(op.operand("target"))
        if op.kind in (OpKind.LOAD, OpKind.STORE, OpKind.MATRIX_LOAD) or op.kind in ATOMICS:
            return self._allocation(op.operand("pointer") or next(iter(op.inputs), None))
        return None

    def array(self, address: str) -> str | None:
        """The allocation, or the array or field in it, that an address lies in."""
        return self._allocation(address)

    def holds(self, op: Op) -> bool:
        """Whether an access goes to shared memory."""
        return op.kind not in _WITHOUT and self.place(op) is not None

    def stored(self, op: Op) -> list[str]:
        """Values that may lie where an access reads, each once."""
        return self._at(self.place(op))

    def reaching(self, op: Op, values: Values) -> list[str]:
        """Of the values that may lie where an access reads, those that no later one replaced before
        and that do not lie further away than the threads of a warp; all of them where a loop around
        the access puts values there."""
        place, node = self.place(op), self.graph.producer(op.results[0].name if op.results else "")
        made = self._values.get(place, []) if place is not None else []
        if node is None:
            return self.stored(op)
        made = [(value, one) for value, one in made if not _behind(values, one, node)]
        made = [
            pair for pair in made if pair[1].index < node.index or _round(pair[1], node)
        ] or made
        if any(_round(one, node) for _, one in made):
            return list(dict.fromkeys(value for value, _ in made))
        before = [(value, one) for value, one in made if one.index < node.index]
        near = [pair for pair in before if not _apart(values, pair[1], node)]
        kept = near or before or made
        return list(dict.fromkeys(
            value for at, (value, one) in enumerate(kept)
            if not any(_replaces(values, later, one) for _, later in kept[at + 1 :])
        ))  # fmt: skip

    def latest(self, op: Op) -> str:
        """What lies where an access reads; of several values the one that is made of the first."""
        values = self.stored(op)
        node = self.graph.producer(values[0])
        later = [v for v in values[1:] if node is not None and self.graph.rests_on(v, node)]
        return later[-1] if later else values[0]

    def access_of(self, op: Op) -> Op | None:
        """A copy between global and shared memory as the access to global memory that it is."""
        if op.kind not in _FILLING or not (op.operand("pointer") or op.operand("descriptor")):
            return None
        pointer = op.operand("pointer") is not None
        operands = tuple((role, value) for role, value in op.operands if role in _OF_ACCESSES)
        source = op.operand("source")
        if source is None:
            kind = OpKind.LOAD if pointer else OpKind.DESCRIPTOR_LOAD
            return replace(op, kind=str(kind), operands=operands, results=(Value(copied(op)),))
        operands = (*operands, ("value", self._tile(source)))
        kind = OpKind.STORE if pointer else OpKind.DESCRIPTOR_STORE
        return replace(op, kind=str(kind), operands=operands)

    def with_tiles(self, op: Op) -> Op:
        """An operation on memory of the block as one on the tiles that were put there."""
        return replace(op, operands=tuple((role, self._tile(v)) for role, v in op.operands))

    def _tile(self, address: str) -> str:
        return next(iter(self._at(self._allocation(address))), address)

    def _at(self, place: str | None) -> list[str]:
        made = self._values.get(place, ()) if place is not None else ()
        return list(dict.fromkeys(value for value, _ in made))

    def _allocation(self, pointer: str | None) -> str | None:
        if pointer is None:
            return None
        if pointer not in self._places:
            self._places[pointer] = None
            self._places[pointer] = self._below(pointer)
        return self._places[pointer]

    def _below(self, pointer: str) -> str | None:
        """The allocation below an address; carried and chosen addresses by their first value."""
        node = self.graph.producer(pointer)
        if node is None:
            feeds = self.graph.feeds(pointer)
            return self._allocation(feeds[0]) if feeds else None
        if node.op.kind == OpKind.ALLOCATE:
            return pointer if node.op.attribute("space") in _SPACES else None
        if node.op.kind == OpKind.ATTRIBUTE:
            whole = self._allocation(node.op.inputs[0])
            return f"{whole}.{node.op.attribute('name')}" if whole is not None else None
        if node.op.kind not in _ADDRESSES:
            return None
        below = next((p for v in self.graph.feeds(pointer) if (p := self._allocation(v))), None)
        if below is not None and is_tensor(node) and self._moved(node):
            return pointer
        made = self.graph.producer(below)
        if made is None or made.op.kind != OpKind.ALLOCATE or made.op.attribute("extent") is None:
            return below
        several = len(self.graph.users(pointer)) > 1
        return pointer if several and not self._element(pointer) else below

    def _moved(self, tensor: Node) -> bool:
        """Whether a tensor begins behind another one, and not where that begins."""
        made = self.graph.producer(tensor.op.inputs[0])
        while made is not None and made.op.kind in _SAME and not is_tensor(made):
            made = self.graph.producer(made.op.inputs[0])
        return made is not None and made.op.kind == OpKind.ADD

    def _element(self, pointer: str) -> bool:
        """Whether an address is that of an element, which one thread loads and stores: accesses
        take it as it is, and the thread's own number says where it lies."""
        if any(user.op.kind not in _ACCESSES for user in self.graph.users(pointer)):
            return False
        return bool(self.graph.roots(pointer, *OWN_THREAD))


def is_tensor(node: Node) -> bool:
    """Whether an operation lays a tensor over memory."""
    return node.op.kind == OpKind.COPY and node.op.attribute("view") == "tensor"


def _address(node: Node) -> str | None:
    return node.op.operand("pointer") if node.kind in _ACCESSES else None


def _round(store: Node, load: Node) -> bool:
    """Whether a loop comes from a store to a load again."""
    return any(loop in load.loops for loop in store.loops)


def _apart(values: Values, store: Node, load: Node) -> bool:
    """Whether a store begins a warp or more from where a load does, which no loop moves on."""
    ends = [values.expr(_address(one)) for one in (store, load) if _address(one) is not None]
    if len(ends) < 2 or ends[1].has(AtomKind.INDUCTION):
        return False
    begins = [dict(one.terms).get((), 0) for one in ends]
    return abs(begins[0] - begins[1]) >= WARP


def _behind(values: Values, store: Node, load: Node) -> bool:
    """Whether a store of a round goes where a load of the same round was before, and no other round
    goes."""
    if load.loop is None or store.loop is not load.loop or store.index < load.index:
        return False
    place = values.expr(_address(load))
    return place.has(AtomKind.INDUCTION) and place == values.expr(_address(store))


def _replaces(values: Values, later: Node, before: Node) -> bool:
    """Whether a store goes where another one went before, outside of loops and wherever the other
    one did."""
    ends = _address(later), _address(before)
    if None in ends or later.loops or later.kind != before.kind or later.kind in ATOMICS:
        return False
    if values.expr(ends[0]) != values.expr(ends[1]):
        return False
    return _asked(values, later) <= _asked(values, before)


def _asked(values: Values, node: Node) -> set[tuple[object, ...]]:
    """The conditions that a node stands under, each with its side."""
    found: set[tuple[object, ...]] = set()
    below = node
    for around in node.around():
        made = values.graph.producer(next(iter(around.op.inputs), None))
        sides = made.op.inputs if made is not None and made.op.kind in COMPARISONS else ()
        asked = (made.op.kind, *map(values.expr, sides)) if made and sides else around.op.inputs[:1]
        found.add((below.branch, *asked))
        below = around
    return found


def copied(op: Op) -> str:
    """A name for what an asynchronous copy, which has no result, brings."""
    return f"%copied.{op.operand('target')}"


def _stored(op: Op) -> str | None:
    """The value that an operation puts into shared memory."""
    if op.kind in _FILLING:
        return copied(op)
    if op.kind in CONTRACTIONS:
        return op.result
    if op.kind == OpKind.STORE or op.kind in ATOMICS:
        return op.operand("value")
    return None

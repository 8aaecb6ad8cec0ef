"""Functions of CUDA's libraries: copies by the copy engine, barriers in shared memory, draws of
random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.bytes import ByteReader
from extractors.cuda.values import BOOL, Kind, Memory, Val, Where
from kb.dialects import cute
from kb.dialects.cuda_engine import (
    ASKED,
    BARRIER_TYPES,
    BARRIERS,
    BETWEEN,
    BULK_COPIES,
    ON_COPIES,
    RANDOM,
)
from kb.ir import MemorySpace
from kb.ops import OpKind

_POISSON = "curand_poisson"
"""A draw of a whole number, which takes a rate behind the state."""

_SEEDED = "curand_init"
_SEEDS = ("x", "y", "z")
"""What a generator begins with: a seed, which of its sequences, and how far into it. Source:
cuRAND, device API."""

_SPACES = ("to", "from", "what", "where to")
"""The least that is said of a copy between two spaces."""

_TAGS = ("sem_", "scope_", "space_")
"""How the names begin of objects that say no more than their type. Source: libcu++, cuda::ptx."""

_ON_COPIES = {**ON_COPIES, **cute.ON_COPIES}
_OF_BARRIERS = frozenset({"wait", "try_wait", "init"})
"""Names that other objects have too: they are read only where the type is known."""


class EngineReader(ByteReader):
    """Reads calls of those libraries by the last name of the function, whatever its namespace is
    called."""

    def library_call(self, node: n.Call, name: str, hint: str) -> Val | None:
        """The operation of a library function; None when it is none."""
        head, _, last = name.rpartition("::")
        if last in BULK_COPIES and len(node.arguments) >= 3:
            return self._bulk_copy(node, last)
        if last in BETWEEN and len(node.arguments) > len(_SPACES):
            return self._between(node, last)
        if last in _ON_COPIES and not self.library.functions(last):
            kind, attributes = _ON_COPIES[last]
            written = node.function.arguments if isinstance(node.function, n.Name) else ()
            given = [one for one in (*written, *node.arguments) if isinstance(one, n.Expr)]
            given = given[: kind is OpKind.ASYNC_WAIT]
            operands = [("pending", self.read(one).name) for one in given]
            self.writer.emit(kind, operands, node.at, (), attributes)
            return Val("")
        if last in cute.NAMED and name.rpartition("::")[0].endswith("NamedBarrier"):
            return self._at_barrier(node, cute.NAMED[last], last)
        if last.startswith("mbarrier_") and last in BARRIERS:
            return self._on_barrier(node, last)
        if last in _OF_BARRIERS and len(node.arguments) > 1 and not (head and head != "cuda"):
            if (made := self._of_barrier(node, last)) is not None:
                return made
        if last in RANDOM and len(node.arguments) == 1 + (last == _POISSON):
            return self._draw(node, last, hint)
        if last == _SEEDED and len(node.arguments) == len(_SEEDS) + 1:
            return self._seeded(node)
        return self.moved_bytes(node, name)

    def barrier(self, node: n.Call, function: n.Field) -> Val | None:
        """A method of a barrier: it arrives, or waits."""
        if function.name in cute.PIPELINES and not self.library.methods(function.name):
            return self._at_barrier(node, cute.PIPELINES[function.name], function.name)
        if function.name not in BARRIERS:
            return None
        where = self.place(function.operand)
        record = where.kind.record if where is not None else ""
        known = record.rpartition("::")[2] in BARRIER_TYPES
        if not known and (record or function.name in _OF_BARRIERS):
            return None
        return self._on_barrier(node, function.name)

    def _of_barrier(self, node: n.Call, name: str) -> Val | None:
        """`init(&barrier, count)`, which is found by the type of what it is given."""
        first = node.arguments[0]
        inner = first.operand if isinstance(first, n.Unary) and first.operator == "&" else None
        where = self.place(inner or n.Unary(node.at, "*", first))
        record = where.kind.record.rpartition("::")[2] if where is not None else ""
        return self._on_barrier(node, name) if record in BARRIER_TYPES else None

    def _on_barrier(self, node: n.Call, name: str) -> Val:
        return self._at_barrier(node, BARRIERS[name], name)

    def _at_barrier(self, node: n.Call, kind: OpKind, name: str) -> Val:
        values = [self.read(one) for one in node.arguments if not _is_tag(one)]
        operands = [("read", value.name) for value in values if value.name]
        scope = [("scope", "group")] if kind is OpKind.BARRIER else []
        attributes = [("name", name), *scope]
        if name in ASKED:
            return self.one(kind, operands, node.at, BOOL, attributes=attributes)
        self.writer.emit(kind, operands, node.at, (), attributes)
        return Val("")

    def _bulk_copy(self, node: n.Call, name: str) -> Val:
        values = [self.read(one) for one in node.arguments]
        roles = _into_shared(values, name) if BULK_COPIES[name] else _out_of_shared(values, name)
        operands = [(role, value.name) for role, value in roles if value.name]
        self.writer.emit(OpKind.BULK_COPY, operands, node.at, (), [("name", name)])
        return Val("")

    def _seeded(self, node: n.Call) -> Val | None:
        """A generator that begins as three numbers say; None where it does not lie in a place that
        is known."""
        where = self._state(node.arguments[-1])
        if isinstance(where, Val):
            return None
        values = [self.read(one) for one in node.arguments[:-1]]
        operands = [(role, value.name) for role, value in zip(_SEEDS, values, strict=True)]
        named = [("name", _SEEDED)]
        made = self.one(OpKind.EXTERN_MATH, operands, node.at, where.kind, "", named)
        self.store(where, made, node.at)
        return Val("")

    def _state(self, pointer: n.Expr) -> Where | Val:
        """Where the state of a generator lies; the pointer itself where nothing tells."""
        local = self.pointing(pointer)
        if local is not None:
            return local.where
        base = self.read(pointer)
        return Memory(base, base.kind.to) if base.kind.to is not None else base

    def _between(self, node: n.Call, name: str) -> Val | None:
        """A copy between two spaces that are named before what is copied; None where the names are
        others."""
        spaces = [one.text if isinstance(one, n.Name) else "" for one in node.arguments[:2]]
        if not all(one.rpartition("space_")[1] for one in spaces):
            return None
        values = [self.read(one) for one in node.arguments[2:]]
        inwards = not spaces[0].endswith("global")
        roles = _into_shared(values, name) if inwards else _out_of_shared(values, name)
        operands = [(role, value.name) for role, value in roles if value.name]
        self.writer.emit(OpKind.BULK_COPY, operands, node.at, (), [("name", name)])
        return Val("")

    def _draw(self, node: n.Call, name: str, hint: str) -> Val:
        """A draw from a state behind a pointer."""
        where = self._state(node.arguments[0])
        held = where if isinstance(where, Val) else self.load(where, node.at)
        whole = RANDOM[name] is OpKind.PHILOX or name == _POISSON
        dtype = "u32" if whole else "f64" if "double" in name else "f32"
        count = next((digit for digit in name if digit.isdigit()), "")
        kind = Kind(dtype, (count,) if count else ())
        operands = [("seed", held.name)] if held.name else []
        return self.one(RANDOM[name], operands, node.at, kind, hint)


def _is_tag(node: n.Expr) -> bool:
    """Whether an argument only says in which order, or for whom, something is seen."""
    last = node.text.rpartition("::")[2] if isinstance(node, n.Name) else ""
    return last.startswith(_TAGS)


def _into_shared(values: Sequence[Val], name: str) -> Iterator[tuple[str, Val]]:
    """Target, then a tensor map and where the tile begins, or an address and bytes; a barrier."""
    tensor = "tensor" in name and values[1].kind.to is None
    yield "target", values[0]
    yield ("descriptor" if tensor else "pointer"), values[1]
    for value in values[2:-1]:
        yield ("offsets" if tensor else "bytes"), value
    yield "barrier", values[-1]


def _out_of_shared(values: Sequence[Val], name: str) -> Iterator[tuple[str, Val]]:
    """A tensor map and where the tile begins, or an address; the source in shared memory."""
    shared = [v for v in values if v.kind.space is MemorySpace.SHARED]
    source = shared[0] if shared else values[-1]
    first = values[0]
    tensor = "tensor" in name and first.kind.to is None
    for value in values:
        if value is source:
            yield "source", value
        elif value is first:
            yield ("descriptor" if tensor else "pointer"), value
        else:
            yield ("offsets" if tensor else "bytes"), value

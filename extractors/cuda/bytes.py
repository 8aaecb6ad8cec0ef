"""Copies and fills of bytes: `memcpy` between a variable and what lies behind a pointer, and
`memset` to zero."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.collectives import CollectiveReader
from extractors.cuda.values import Kind, Memory, Slot, Val, Where
from kb.dialects.cuda import COPIES_OF_BYTES, FILLS_OF_BYTES
from kb.ops import OpKind

_WORDS = {1: Kind("u8"), 2: Kind("u16"), 4: Kind("u32"), 8: Kind("u32", ("2",)),
          16: Kind("u32", ("4",))}  # fmt: skip
"""What one access moves, by bytes."""


class ByteReader(CollectiveReader):
    """Moves of bytes."""

    def moved_bytes(self, node: n.Call, name: str) -> Val | None:
        """A copy or a fill as one load and store; None when it is no such call, or the places or
        the number of bytes are not known."""
        if name not in COPIES_OF_BYTES | FILLS_OF_BYTES or len(node.arguments) != 3:
            return None
        target, source, size = node.arguments
        to = self._whole_of(target)
        if name in FILLS_OF_BYTES:
            zero = isinstance(source, n.Constant) and not source.value
            if not isinstance(to, Slot) or not zero:
                return None
            self.store(to, self.zeros(to.kind, node.at), node.at)
            return Val("")
        taken = self._whole_of(source)
        if to is None or taken is None:
            return None
        kind = self._kind_of_move(to, taken, size)
        if kind is None:
            return None
        value = self.load(_seen_as(taken, kind), node.at)
        held = to.kind if isinstance(to, Slot) else kind
        if value.kind != held:
            made = self.one(OpKind.BITCAST, [("x", value.name)], node.at, held)
            value = replace(made, kind=held)
        self.store(_seen_as(to, kind), value, node.at)
        return Val("")

    def _kind_of_move(self, to: Where, taken: Where, size: n.Expr) -> Kind | None:
        """The variable's own type, when one side is one; between addresses, words of the number of
        bytes."""
        for side in (to, taken):
            if isinstance(side, Slot):
                return taken.kind if isinstance(taken, Slot) else side.kind
        bytes_ = self.read(size).const
        return _WORDS.get(bytes_) if isinstance(bytes_, int) else None

    def _whole_of(self, pointer: n.Expr) -> Where | None:
        """The variable that a pointer points at, with all its elements; else what lies behind the
        address."""
        local = self.pointing(pointer)
        if local is not None:
            return local.where
        base = self.read(pointer)
        return Memory(base, base.kind.to) if base.kind.to is not None else None


def _seen_as(where: Where, kind: Kind) -> Where:
    """A place behind an address, seen as another type."""
    if isinstance(where, Slot):
        return where
    pointer = Kind(to=kind, space=where.address.kind.space)
    return Memory(replace(where.address, kind=pointer), kind)

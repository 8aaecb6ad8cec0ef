"""Written types as kinds: template parameters, aliases, vector types, pointers and arrays."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.library import Library
from extractors.cuda.values import UNKNOWN, Frame, Kind, Named, Val
from kb.dialects.cuda import CUDA, VECTORS
from kb.ir import MemorySpace

MAX_HOPS = 24
_WRAPPERS = frozenset(
    {"std::decay_t", "std::remove_cv_t", "std::remove_const_t", "std::add_const_t"}
)


class Typing:
    """Resolves types against a library and a frame."""

    library: Library

    def extent(self, size: n.Expr | None, frame: Frame) -> str:
        """Extent of an array as text; `?` when it is not written as a name or a number."""
        raise NotImplementedError

    def kind(self, written: n.CType, frame: Frame, hops: int = 0) -> Kind:
        """What a written type is, as far as names can be followed."""
        base = self._base(written, frame, hops)
        if written.extents:
            extents = tuple(self.extent(size, frame) for size in written.extents)
            base = replace(base, shape=(*extents, *base.shape))
        for _ in range(written.pointers):
            base = Kind(to=base, space=MemorySpace.NONE)
        return base

    def _base(self, written: n.CType, frame: Frame, hops: int) -> Kind:
        name = written.name
        if hops > MAX_HOPS:
            return UNKNOWN
        if written.member:
            return self._alias_of(written, frame, hops)
        bound = frame.find(name)
        if isinstance(bound, Named):
            return self.kind(bound.type, bound.frame, hops + 1)
        if isinstance(bound, Kind):
            return bound
        if isinstance(bound, Val):
            return Kind(f"dtypeof({bound.name})")
        plain = _plain(name)
        if plain in CUDA.dtypes:
            return Kind(CUDA.dtypes[plain])
        if plain in VECTORS:
            dtype, count = VECTORS[plain]
            return Kind(dtype, (str(count),), record="")
        if name in _WRAPPERS and written.arguments and isinstance(written.arguments[0], n.CType):
            return self.kind(written.arguments[0], frame, hops + 1)
        alias = self.library.alias(name)
        if alias is not None and alias.type.name != name:
            return self.kind(alias.type, Frame("file"), hops + 1)
        if name in ("auto", "?", ""):
            return UNKNOWN
        return Kind(record=name)

    def _alias_of(self, written: n.CType, frame: Frame, hops: int) -> Kind:
        """`Record<…>::member`: an alias of the record when it is known."""
        for record in self.library.records(written.name):
            for alias in record.aliases:
                if alias.name == written.member:
                    inner = self.of_record(record, written.arguments, frame)
                    return self.kind(alias.type, inner, hops + 1)
        return Kind(record=f"{written.name}::{written.member}")

    def of_record(
        self, record: n.Record, arguments: tuple[n.CType | n.Expr, ...], frame: Frame
    ) -> Frame:
        """A frame in which the template parameters of a record have their arguments."""
        inner = Frame(record.name, depth=frame.depth + 1)
        for parameter, given in zip(record.template, arguments, strict=False):
            if isinstance(given, n.CType):
                inner.bind(parameter.name, Named(given, frame))
            elif isinstance(given, n.Name) and parameter.dtype == "typename":
                inner.bind(parameter.name, Named(n.CType(given.text, given.arguments), frame))
        return inner


def _plain(name: str) -> str:
    words = [w for w in name.split() if w not in ("const", "volatile")]
    text = " ".join(words)
    for prefix in ("::", "std::", "flashinfer::"):
        if text.startswith(prefix) and text.removeprefix(prefix) in CUDA.dtypes:
            return text.removeprefix(prefix)
    return text

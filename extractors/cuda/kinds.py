"""Written types as kinds: template parameters, aliases, vector types, pointers and arrays."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.library import Library
from extractors.cuda.values import UNKNOWN, Fixed, Frame, Kind, Named, Val
from kb.dialects.cuda import CUDA, TEMPLATE_VECTORS, VECTORS
from kb.ir import MemorySpace

MAX_HOPS = 24
_WRAPPERS = frozenset(
    {"std::decay_t", "std::remove_cv_t", "std::remove_const_t", "std::add_const_t"}
)


class Typing:
    """Resolves types against a library and a frame."""

    library: Library
    traits: dict[str, n.Record]

    def extent(self, size: n.Expr | None, frame: Frame) -> str:
        """Extent of an array as text; `?` when it is not written as a name or a number."""
        raise NotImplementedError

    def kind(self, written: n.CType, frame: Frame, hops: int = 0) -> Kind:
        """What a written type is, as far as names can be followed."""
        base = self._base(written, frame, hops)
        for _ in range(written.pointers):
            base = Kind(to=base, space=MemorySpace.NONE)
        if written.extents:
            extents = tuple(self.extent(size, frame) for size in written.extents)
            base = replace(base, shape=(*extents, *base.shape))
        return base

    def _base(self, written: n.CType, frame: Frame, hops: int) -> Kind:
        name = written.name
        if hops > MAX_HOPS:
            return UNKNOWN
        if written.member:
            return self._alias_of(written, frame, hops)
        bound = frame.find(name)
        if isinstance(bound, Named):
            found = self.kind(bound.type, bound.frame, hops + 1)
            if not written.arguments or found.arguments or not found.record:
                return found
            return replace(found, arguments=self.arguments(written.arguments, frame, hops))
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
        head, _, member = name.rpartition("::")
        if head and frame.find(head) is not None:
            return self._alias_of(n.CType(head, member=member), frame, hops + 1)
        alias = self.library.alias(name)
        if alias is not None and alias.type.name != name:
            return self.kind(alias.type, Frame("file"), hops + 1)
        if name in ("auto", "?", ""):
            return UNKNOWN
        arguments = self.arguments(written.arguments, frame, hops)
        if name in TEMPLATE_VECTORS and len(arguments) > 1:
            element, number = arguments[:2]
            if isinstance(element, Kind) and isinstance(number, Val):
                extent = number.text or number.name if number.const is None else str(number.const)
                frame.scopes[0].setdefault(extent, number)
                return replace(element, shape=(extent, *element.shape))
        return Kind(record=name, arguments=arguments)

    def arguments(
        self, written: tuple[n.CType | n.Expr, ...], frame: Frame, hops: int
    ) -> tuple[Kind | Val, ...]:
        """Template arguments as kinds and values."""
        found: list[Kind | Val] = []
        for one in written:
            if isinstance(one, n.CType):
                bound = frame.find(one.name)
                if isinstance(bound, Val) and bound.kind.record != "typename":
                    found.append(bound)
                elif isinstance(bound, Fixed) or self._is_constant(one, frame):
                    found.append(self.argument(n.Name(_NOWHERE, spelled_type(one)), frame))
                else:
                    found.append(self.kind(one, frame, hops + 1))
                continue
            bound = frame.find(one.text) if isinstance(one, n.Name) else None
            if isinstance(bound, Kind | Named):
                found.append(self.kind(n.CType(_text(one)), frame, hops + 1))
            else:
                found.append(self.argument(one, frame))
        return tuple(found)

    def _is_constant(self, written: n.CType, frame: Frame) -> bool:
        """True for a name that looks like a type and is a constant of a file."""
        plain = not written.pointers and not written.arguments and frame.find(written.name) is None
        if not plain or _plain(written.name) in CUDA.dtypes or written.name in VECTORS:
            return False
        name = written.member or written.name
        return self.library.constant(name) is not None

    def argument(self, node: n.Expr, frame: Frame) -> Val:
        """The value of a template argument."""
        raise NotImplementedError

    def _alias_of(self, written: n.CType, frame: Frame, hops: int) -> Kind:
        """`Record<…>::member`: an alias of the record when it is known, else a type by that name.
        The record may itself be an alias, or a type parameter."""
        owner = Kind(record=written.name)
        if frame.find(written.name) is not None:
            owner = self.kind(n.CType(written.name, written.arguments), frame, hops + 1)
        if owner.shape and not owner.record and written.member == "Element":
            return owner.element
        opened = owner.dtype.startswith("dtypeof(")
        for record in () if opened else self.library.records(owner.record or written.name):
            for alias in record.aliases:
                if alias.name == written.member:
                    given = owner.arguments or self.arguments(written.arguments, frame, hops)
                    inner = self.of_record(record, given, frame.depth)
                    return self.kind(alias.type, inner, hops + 1)
        name = owner.dtype[8:-1] if opened else owner.record or written.name
        if opened and name in self.traits:
            return self._of_trait(name, written.member, hops)
        return Kind(record=f"{name}::{written.member}")

    def _of_trait(self, parameter: str, member: str, hops: int) -> Kind:
        """A member type of the struct that a type parameter stands for: a struct that the library
        knows, with members of the parameter as its arguments, or a number of unknown type."""
        record = self.traits[parameter]
        types = {alias.name: alias.type for alias in record.aliases}
        written = types.get(member)
        if written is None or hops > MAX_HOPS:
            return Kind(record=f"{parameter}::{member}")
        if written.name.partition("::")[0] in {one.name for one in record.template}:
            return Kind(f"dtypeof({parameter}.{member})")
        if written.member or len(self.library.records(written.name)) > 1:
            return Kind(record=f"{parameter}::{member}")
        if not self.library.records(written.name):
            return self.kind(written, Frame("file"), hops + 1)
        inner = Frame(member)
        for one in written.arguments:
            name = one.name if isinstance(one, n.CType) else _text(one)
            if name in types:
                inner.bind(name, self._of_trait(parameter, name, hops + 1))
            elif name.isidentifier():
                inner.bind(name, self.member_of(parameter, name))
        return Kind(record=written.name, arguments=self.arguments(written.arguments, inner, hops))

    def member_of(self, parameter: str, name: str) -> Val:
        """A constant of the struct that a type parameter stands for."""
        raise NotImplementedError

    def of_record(self, record: n.Record, arguments: tuple[Kind | Val, ...], depth: int) -> Frame:
        """A frame in which the template parameters of a record have their arguments, and its
        constants and aliases their names."""
        inner = Frame(record.name, record.name, depth=depth + 1)
        if not record.specialised:
            for parameter, given in zip(record.template, arguments, strict=False):
                inner.bind(parameter.name, given)
        for alias in record.aliases:
            inner.bind(alias.name, Named(alias.type, inner))
        for one in record.fields:
            if {"static", "constexpr"} <= one.storage and one.value is not None:
                inner.bind(one.name, Fixed(one.value, inner))
        return inner


def _plain(name: str) -> str:
    words = [w for w in name.split() if w not in ("const", "volatile")]
    text = " ".join(words)
    for prefix in ("::", "std::", "flashinfer::"):
        if text.startswith(prefix) and text.removeprefix(prefix) in CUDA.dtypes:
            return text.removeprefix(prefix)
    return text


def _text(node: n.Expr) -> str:
    return node.text if isinstance(node, n.Name) else ""


def spelled_type(written: n.CType) -> str:
    """The name of a type, of its member when it names one."""
    return f"{written.name}::{written.member}" if written.member else written.name


_NOWHERE = n.Place(0, 0, 0, "")

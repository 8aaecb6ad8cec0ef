"""Template arguments of a struct that its name does not give: those of the struct around it, and
defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.declared import TypeNotes
from extractors.cuda.library import Library
from extractors.cuda.values import Frame, Kind, Named, Val


class TemplateArguments(TypeNotes):
    """What a struct's template parameters are where only the library or the frame tells."""

    library: Library

    def arguments(
        self, written: tuple[n.CType | n.Expr, ...], frame: Frame, hops: int
    ) -> tuple[Kind | Val, ...]:
        """Template arguments as kinds and values."""
        raise NotImplementedError

    def extent(self, size: n.Expr | None, frame: Frame) -> str:
        """Extent of an array as text; `?` when it is not written as a name or a number."""
        raise NotImplementedError

    def sized(self, kind: Kind, sizes: Sequence[n.Expr | None], frame: Frame) -> Kind:
        """An array of a kind, with the extents that are written."""
        extents = tuple(self.extent(size, frame) for size in sizes)
        return replace(kind, shape=(*extents, *kind.shape)) if extents else kind

    def around(self, name: str, frame: Frame) -> tuple[Kind | Val, ...]:
        """The template arguments of the struct around one that is named inside it, or of the struct
        that is named in a method of its own."""
        records = self.library.records(name)
        if not records or not (records[0].inner or frame.owner == name):
            return ()
        found = [self._argument_of(one, frame) for one in records[0].template]
        return tuple(one for one in found if one is not None) if None not in found else ()

    def defaulted(
        self, name: str, given: tuple[Kind | Val, ...], hops: int
    ) -> tuple[Kind | Val, ...]:
        """The template arguments of a struct, with the defaults of those that are not given."""
        records = self.library.records(name)
        general = next((one for one in records if not one.specialised), None)
        template = general.template if general is not None else ()
        if len(given) >= len(template) or any(one.pack for one in template):
            return given
        inner, whole = Frame("file"), list(given)
        for place, one in enumerate(template):
            if place == len(whole):
                if one.default is None:
                    return given
                whole += self.arguments((one.default,), inner, hops + 1)
            if one.name:
                inner.bind(one.name, whole[place])
        return tuple(whole)

    def of_template(
        self, template: Sequence[n.TemplateParameter], written: tuple[n.CType | n.Expr, ...],
        frame: Frame, hops: int = 0,
    ) -> Frame:  # fmt: skip
        """A frame in which the parameters of an alias or a constant that is a template have their
        arguments."""
        inner = Frame("file")
        if template:
            given = self.arguments(written, frame, hops + 1)
            for one, argument in zip(template, given, strict=False):
                if one.name and not one.pack:
                    inner.bind(one.name, argument)
        return inner

    def _argument_of(self, one: n.TemplateParameter, frame: Frame) -> Kind | Val | None:
        bound = frame.find(one.name)
        if isinstance(bound, Named):
            return self.kind(bound.type, bound.frame)
        return bound if isinstance(bound, Kind | Val) else None

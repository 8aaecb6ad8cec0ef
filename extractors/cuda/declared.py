"""Where the types of values are declared: aliases, and the constants that extents are made of."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.cuda import nodes as n
from extractors.cuda.values import Fixed, Frame, Kind, Val


class TypeNotes:
    """Keeps, for each type that a kernel writes, where the names on the way to it are declared."""

    passed: list[n.Place] | None
    noted: dict[Kind, dict[n.Place, None]]

    def pass_by(self, at: n.Place | None, frame: Frame | None = None) -> None:
        """Note a name that a type leads through, and what the struct around it is named by."""
        if self.passed is not None and at is not None:
            self.passed.append(at)
            self.passed += frame.places if frame is not None else ()

    def seen(self, value: Val) -> Val:
        """A value that a type may lead through."""
        self.pass_by(value.at)
        return value

    def entered(self, constant: Fixed) -> Frame:
        """Where a constant is read that a type may lead through."""
        self.pass_by(constant.at, constant.frame)
        return constant.frame

    def kind(self, written: n.CType, frame: Frame, hops: int = 0) -> Kind:
        """What a written type is."""
        raise NotImplementedError

    def _base(self, written: n.CType, frame: Frame, hops: int) -> Kind:
        """What a type without pointers and extents is."""
        raise NotImplementedError

    def base(self, written: n.CType, frame: Frame, hops: int) -> Kind:
        """What a type without pointers and extents is; where it is declared is noted."""
        if hops and self.passed is None:
            return self._base(written, frame, hops)
        outer, own = self.passed, list[n.Place]()
        self.passed = own
        try:
            found = self._base(written, frame, hops)
        finally:
            self.passed = outer
        if own and "::" not in found.record:
            self.note(found, own)
        if outer is not None:
            outer += own
        return found

    def of_file(self, written: n.CType) -> Kind:
        """What a type is for a file, of which nothing is noted: it is one to compare with."""
        outer, self.passed = self.passed, None
        try:
            return self.kind(written, Frame("file"), 1)
        finally:
            self.passed = outer

    def way_to(self, written: n.CType, frame: Frame) -> tuple[n.Place, ...]:
        """Where the names on the way to a type are declared."""
        outer, own = self.passed, list[n.Place]()
        self.passed = own
        try:
            self.kind(written, frame, 1)
        finally:
            self.passed = outer
        return tuple(dict.fromkeys(own))

    def note(self, kind: Kind, places: Iterable[n.Place]) -> None:
        """Keep what was passed on the way to a type, or to what pointers of it point at."""
        while kind.to is not None:
            kind = kind.to
        self.noted.setdefault(_plain(kind), {}).update(dict.fromkeys(places))

    def places_of(self, kind: Kind) -> tuple[n.Place, ...]:
        """Where a type is declared, as far as names of it are."""
        while kind.to is not None:
            kind = kind.to
        return tuple(self.noted.get(_plain(kind), ()))


def _plain(kind: Kind) -> Kind:
    """A type with the numbers among its arguments as they are, however often they were read."""
    given = tuple([_number(one) if isinstance(one, Val) else one for one in kind.arguments])
    return Kind(kind.dtype, kind.shape, None, kind.record, arguments=given)


def _number(value: Val) -> Val:
    if value.const is not None:
        return Val("", const=value.const)
    return Val("", text=value.text or value.name)

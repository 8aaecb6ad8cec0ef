"""Written types as kinds: template parameters, aliases, vector types, pointers and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.instances import plain_member
from extractors.cuda.template_arguments import TemplateArguments
from extractors.cuda.type_traits import (
    SETTLED,
    agreeing,
    constrained,
    counted_elements,
    named_type,
    of_variable,
    values_among,
)
from extractors.cuda.values import UNKNOWN, Fixed, Frame, Kind, Named, Val
from kb.dialects.cuda import BITS, CUDA, VECTORS
from kb.dialects.cuda_libraries import TEMPLATE_VECTORS
from kb.dialects.cute import ELEMENTS
from kb.ir import MemorySpace

MAX_HOPS = 24
INTEGERS = frozenset({"i1", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"})
_WRAPPERS = frozenset({
    "std::decay_t", "std::remove_cv_t", "std::remove_const_t", "std::add_const_t",
    "std::remove_reference_t", "std::remove_cvref_t",
})  # fmt: skip


class Typing(TemplateArguments):
    """Resolves types against a library and a frame."""

    traits: dict[str, n.Record]

    def kind(self, written: n.CType, frame: Frame, hops: int = 0) -> Kind:
        """What a written type is, as far as names can be followed."""
        base = self.sized(self.base(written, frame, hops), written.rows, frame)
        base = replace(base, rows=len(written.rows)) if written.rows else base
        for _ in range(written.pointers):
            base = Kind(to=base, space=MemorySpace.NONE)
        return self.sized(base, written.extents, frame)

    def _base(self, written: n.CType, frame: Frame, hops: int) -> Kind:
        name = written.name
        if hops > MAX_HOPS:
            return UNKNOWN
        if written.member:
            return self._alias_of(written, frame, hops)
        bound = frame.find(name)
        if isinstance(bound, Named):
            self.pass_by(bound.at, bound.frame)
            if bound.names_itself(name) and self.library.records(name):
                own = self.arguments(bound.type.arguments, bound.frame, hops + 1)
                return Kind(record=name, arguments=own)
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
        if name.rpartition("::")[2] == "conditional_t" and len(written.arguments) == 3:
            return self._either(written, frame, hops)
        if name.startswith("decltype("):
            return of_variable(written, frame)
        head, _, member = name.rpartition("::")
        if head and frame.find(head) is not None:
            return self._alias_of(n.CType(head, member=member), frame, hops + 1)
        alias = self.library.alias(name)
        if alias is not None and alias.type.name != name:
            self.pass_by(alias.at)
            inner = self.of_template(alias.template, written.arguments, frame, hops)
            return self.kind(alias.type, inner, hops + 1)
        if name in ("auto", "?", ""):
            return UNKNOWN
        given = values_among(written.arguments, self.library.records(name))
        arguments = self.arguments(given, frame, hops)
        if (places := TEMPLATE_VECTORS.get(name)) and len(arguments) > 1:
            element, number = (arguments[place] for place in places)
            if isinstance(element, Kind) and isinstance(number, Val):
                extent = number.text or number.name if number.const is None else str(number.const)
                frame.scopes[0].setdefault(extent, number)
                return replace(element, shape=(extent, *element.shape))
        arguments = arguments or self.around(name, frame)
        return Kind(record=name, arguments=self.defaulted(name, arguments, hops))

    def _either(self, written: n.CType, frame: Frame, hops: int) -> Kind:
        """`std::conditional_t<condition, A, B>`; where only the instantiation tells, of two structs
        of one name that with a choice in place of the arguments in which they differ."""
        condition, then, other = written.arguments
        told = self.argument(condition, frame) if isinstance(condition, n.Expr) else None
        sides = [one for one in (then, other) if isinstance(one, n.CType)]
        if told is None or len(sides) != 2:
            return UNKNOWN
        if told.const is not None:
            return self.kind(sides[0 if told.const else 1], frame, hops + 1)
        kinds = [self.kind(side, frame, hops + 1) for side in sides]
        if kinds[0] == kinds[1]:
            return kinds[0]  # They differ in what stays as it is.
        pairs = list(zip(sides[0].arguments, sides[1].arguments, strict=False))
        if sides[0].name != sides[1].name or len(sides[0].arguments) != len(sides[1].arguments):
            return UNKNOWN
        chosen: list[n.CType | n.Expr] = []
        for one, two in pairs:
            if (
                isinstance(one, n.Expr)
                and isinstance(two, n.Expr)
                and isinstance(condition, n.Expr)
            ):
                chosen.append(n.Choice(condition.at, condition, one, two))
            elif self.arguments((one,), frame, hops + 1) == self.arguments((two,), frame, hops + 1):
                chosen.append(one)
            else:
                return UNKNOWN
        return self.kind(replace(sides[0], arguments=tuple(chosen)), frame, hops + 1)

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
                    found.append(self.argument(named_type(one, _NOWHERE), frame))
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
        if owner.shape and not owner.record and written.member in ELEMENTS:
            return owner.element
        opened = owner.dtype.startswith("dtypeof(")
        records = [] if opened else self.library.records(owner.record or written.name)
        if records:
            given = owner.arguments or self.arguments(written.arguments, frame, hops)
            found = self._member_type(written.member, records, given, frame.depth, hops)
            if found is not None:
                return found
            wide = self._as_wide(written, records, frame, hops)
            if wide is not None:
                return wide
            inside = self.library.records(written.member)
            if inside and inside[0].inner:
                return Kind(record=written.member, arguments=given)
        name = owner.dtype[8:-1] if opened else owner.record or written.name
        if opened and name in self.traits:
            return self._of_trait(name, written.member, hops)
        return Kind(record=f"{name}::{written.member}")

    def _as_wide(
        self, written: n.CType, records: Sequence[n.Record], frame: Frame, hops: int
    ) -> Kind | None:  # fmt: skip
        """`Record<sizeof(T)>::member` of an open type where every specialisation, for a number of
        bytes, names a type of as many: as wide as the type, whatever it is, so the type itself."""
        one = written.arguments[0] if len(written.arguments) == 1 else None
        if not isinstance(one, n.SizeOf):
            return None
        named = isinstance(one.operand, n.Name) and frame.find(one.operand.text) is not None
        type_ = n.CType(one.operand.text) if isinstance(one.operand, n.Name) and named else one.type
        if type_ is None:
            return None
        kind = self.kind(type_, frame, hops + 1)
        if not kind.dtype.startswith("dtypeof("):
            return None
        for record in records:
            bytes_ = record.specialised[0] if record.specialised else None
            types = [a.type for a in record.aliases if a.name == written.member]
            if record.specialised and not (
                isinstance(bytes_, n.Constant) and isinstance(bytes_.value, int) and types
                and self.kind(types[0], Frame("file"), hops + 1).bits == 8 * bytes_.value
            ):  # fmt: skip
                return None
        return kind

    def _member_type(
        self, member: str, records: Sequence[n.Record], given: tuple[Kind | Val, ...], depth: int,
        hops: int,
    ) -> Kind | None:  # fmt: skip
        """The alias of a record that takes such arguments. Where only the instantiation tells which
        one does: the type that all of them name, or as many elements of the open type as all of
        them name of theirs."""
        found: list[tuple[Kind, n.Record]] = []
        several = self.fitting(records, given)
        for record in several:
            for alias in record.aliases:
                if alias.name == member and (alias.type != _NOTHING or len(several) == 1):
                    inner = self.of_record(record, given, depth)
                    self.pass_by(alias.at if len(several) == 1 else None, inner)
                    found.append((self.kind(alias.type, inner, hops + 1), record))
        if not found or len({kind for kind, _ in found}) == 1:
            return found[0][0] if found else None
        if len({replace(kind, arguments=()) for kind, _ in found}) == 1:
            return agreeing([kind for kind, _ in found])
        rows = [(kind, *self._own_arguments(record)) for kind, record in found]
        if (counted := counted_elements(rows, given)) is not None:
            extent = counted[1].text or counted[1].name
            return replace(counted[0], shape=(extent,))
        open_ = [i for i, one in enumerate(given)
                 if isinstance(one, Kind) and one.dtype.startswith("dtypeof(")]  # fmt: skip
        whole = given[open_[0]] if len(open_) == 1 else None
        if not isinstance(whole, Kind):
            return None
        if whole.shape and all(self._element_of(kind, one, open_[0]) for kind, one in found):
            return whole.element
        plain = [(kind, record) for kind, record in found if not self._of_vector(record, open_[0])]
        counts = {self._packed(kind, record, open_[0]) for kind, record in plain or found}
        count = next(iter(counts))
        if counts == {1}:
            return whole
        return replace(whole, shape=(str(count),)) if len(counts) == 1 and count else None

    def _own_arguments(self, record: n.Record) -> tuple[Kind, object]:
        """The type and the number that a struct is specialised for, `?` and None where open."""
        type_, number = UNKNOWN, None
        for one in record.specialised:
            type_ = self.of_file(one) if isinstance(one, n.CType) else type_
            number = one.value if isinstance(one, n.Constant) else number
        return type_, number

    def _of_vector(self, record: n.Record, place: int) -> bool:
        """Whether a struct is written for a type of several elements."""
        one = record.specialised[place] if record.specialised else None
        return isinstance(one, n.CType) and bool(self.of_file(one).shape)

    def _element_of(self, kind: Kind, record: n.Record, place: int) -> bool:
        """Whether a struct is written for a vector of such elements."""
        one = record.specialised[place] if record.specialised else None
        own = self.of_file(one) if isinstance(one, n.CType) else UNKNOWN
        return bool(own.shape) and own.element == kind

    def _packed(self, kind: Kind, record: n.Record, place: int) -> int:
        """How many elements of the type that a record is written for a type holds, 0 if others."""
        one = record.specialised[place] if record.specialised else None
        own = self.of_file(one) if isinstance(one, n.CType) else UNKNOWN
        whole, part = kind.bits, own.bits
        same = kind.dtype == own.dtype or (kind.dtype in INTEGERS and not kind.shape)
        if whole is None or not part or own.shape or not same or kind.to is not None:
            return 0
        return whole // part if whole % part == 0 else 0

    def fitting(self, records: Sequence[n.Record], given: tuple[Kind | Val, ...]) -> list[n.Record]:
        """The definitions of a struct that its arguments may mean: the closest specialisation that
        they surely fit, else all that they do not rule out, the general one first."""
        general = [one for one in records if not one.specialised]
        special = [(one, self.fits(one, given)) for one in records if one.specialised]
        sure = [one for one, fits in special if fits]
        if sure:
            return [min(sure, key=lambda one: len(one.template))]
        return general + [one for one, fits in special if fits is None]

    def fits(self, record: n.Record, given: tuple[Kind | Val, ...]) -> bool | None:
        """Whether arguments are those that a specialisation is written for; None when only the
        instantiation tells."""
        own = {one.name: one.asked for one in record.template}
        if len(record.specialised) != len(given):
            return False
        told = [self._argument_fits(one, argument, own)
                for one, argument in zip(record.specialised, given, strict=True)]  # fmt: skip
        return False if False in told else None if None in told else True

    def _argument_fits(
        self, one: n.CType | n.Expr, given: Kind | Val, own: Mapping[str, str]
    ) -> bool | None:
        if isinstance(one, n.CType):
            if one.name in own and not one.pointers:
                return constrained(own[one.name], given)
            if isinstance(given, Val) and given.const is not None and self._is_constant(
                one, Frame("file")
            ):  # fmt: skip
                told = self.argument(named_type(one, _NOWHERE), Frame("file"))
                return given.const == told.const if told.const is not None else None
            if not isinstance(given, Kind):
                return None
            if one.name.rpartition("::")[2] in SETTLED:
                return None
            wanted = self.of_file(one)
            if given.dtype not in BITS and wanted.dtype in BITS and given.to is None:
                counted = all(extent.isdigit() for extent in given.shape) and bool(given.shape)
                return False if counted and given.shape != wanted.shape else None
            if given.dtype in BITS or given.to is not None or (given.record and given == wanted):
                return wanted == given
            return None
        if isinstance(one, n.Name) and one.text in own:
            return True
        if isinstance(one, n.Constant) and isinstance(given, Val) and given.const is not None:
            return given.const == one.value
        return None

    def _of_trait(self, parameter: str, member: str, hops: int) -> Kind:
        """A member type of the struct that a type parameter stands for: a struct that the library
        knows, with members of the parameter as its arguments, or a number of unknown type."""
        record = self.traits[parameter]
        types = {alias.name: alias.type for alias in record.aliases}
        written = types.get(member)
        if written is None or hops > MAX_HOPS:
            return Kind(record=f"{parameter}::{member}")
        defaults = {one.name: one.default for one in record.template}
        head, _, inside = written.name.partition("::")
        if head in defaults:
            plain = plain_member(defaults[head], inside or written.member, self.library)
            told = self.kind(plain, Frame("file"), hops + 1) if plain is not None else UNKNOWN
            return told if told.dtype in BITS else Kind(f"dtypeof({parameter}.{member})")
        several = self.library.records(written.name)
        if written.member or (len(several) > 1 and all(one.specialised for one in several)):
            return Kind(record=f"{parameter}::{member}")
        known = bool(several)
        members = {one.name for one in record.fields}
        inner = Frame(member if known else "file")
        for one in written.arguments:
            name = one.name if isinstance(one, n.CType) else _text(one)
            if name in types:
                inner.bind(name, self._of_trait(parameter, name, hops + 1))
            elif name.isidentifier() and (known or name in members):
                inner.bind(name, self.member_of(parameter, name))
        if not known:
            return self.kind(written, inner, hops + 1)
        return Kind(record=written.name, arguments=self.arguments(written.arguments, inner, hops))

    def member_of(self, parameter: str, name: str) -> Val:
        """A constant of the struct that a type parameter stands for."""
        raise NotImplementedError

    def of_record(self, record: n.Record, arguments: tuple[Kind | Val, ...], depth: int) -> Frame:
        """A frame in which the template parameters of a record have their arguments, and its
        constants and aliases their names."""
        inner = Frame(record.name, record.name, depth=depth + 1)
        inner.places = self.places_of(Kind(record=record.name, arguments=arguments))
        own = {one.name for one in record.template}
        pattern = record.specialised or [n.CType(one.name) for one in record.template]
        for written, given in zip(pattern, arguments, strict=False):
            name = _text(written) if isinstance(written, n.Expr) else written.name
            if name in own and not (isinstance(written, n.CType) and written.pointers):
                inner.bind(name, given)
        for named in (*record.around, *record.aliases, *record.fields):
            if isinstance(named, n.Alias):
                inner.bind(named.name, Named(named.type, inner, named.at))
            elif {"static", "constexpr"} <= named.storage and named.value is not None:
                inner.bind(named.name, Fixed(named.value, inner, named.at))
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


_NOWHERE = n.Place(0, 0, 0, "")
_NOTHING = n.CType("void")

"""What the standard library answers about types: truths of a struct's base, questions of types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.library import Library
from extractors.cuda.values import Frame, Kind, Memory, Slot, Val
from kb.dialects.cuda import BITS
from kb.ir import MemorySpace

TRUTHS = {"true_type": True, "false_type": False}
SETTLED = frozenset({"void_t", "enable_if_t"})
"""Types that are there only where what they are given is well formed: whether a specialisation for
one fits, the instantiation tells. Source: C++ standard, [meta.trans.other]."""

_INTEGERS = ("i", "u")
_QUESTIONS = {"is_integral": _INTEGERS, "is_floating_point": ("f64", "f32"),
              "is_unsigned": ("u", "i1"), "is_arithmetic": ("i", "u", "f64", "f32")}  # fmt: skip
"""Traits of one type, with how the names of the types begin that have them: those of 16-bit floats
of the toolkit are structs. Source: C++ standard, [meta.unary]; CUDA Math API, cuda_fp16.h."""


def question(text: str) -> str:
    """The trait of one type that a name asks for; empty for others."""
    last = text.removeprefix("std::").removeprefix("::std::")
    for end in ("_v", "::value"):
        if last.endswith(end) and last.removesuffix(end) in _QUESTIONS:
            return last.removesuffix(end)
    return ""


def answer(asked: str, kinds: Sequence[object]) -> bool | None:
    """Whether a type that is known has a trait; None where it is not known."""
    kind = kinds[0] if len(kinds) == 1 else None
    if not isinstance(kind, Kind):
        return None
    if kind.to is not None or kind.shape:
        return False
    if kind.dtype not in BITS:
        return None
    return kind.dtype.startswith(_QUESTIONS[asked])


def alike_types(one: Kind, other: Kind, library: Library) -> bool | None:
    """Whether two types are one; None where only the instantiation, or a file that is not there,
    tells."""
    while one.to is not None and other.to is not None and not one.shape and not other.shape:
        one, other = one.to, other.to
    if not _told(one, library) or not _told(other, library):
        return None
    return replace(one, space=MemorySpace.NONE) == replace(other, space=MemorySpace.NONE)


def _told(kind: Kind, library: Library) -> bool:
    """Whether it is known which type that is."""
    if kind.to is not None:
        return _told(kind.to, library)
    if kind.dtype in BITS:
        return True
    arguments = [a if isinstance(a, Kind) else a.const for a in kind.arguments]
    known = all(_told(a, library) if isinstance(a, Kind) else a is not None for a in arguments)
    return bool(kind.record) and known and bool(library.records(kind.record))


def spelled_type(kind: Kind) -> str:
    """The text of a type; empty for one of which nothing is known."""
    if kind.to is not None:
        inner = spelled_type(kind.to)
        return f"{inner}*" if inner else ""
    given = [spelled_type(a) if isinstance(a, Kind) else _number(a) for a in kind.arguments]
    opened = kind.dtype[8:-1] if kind.dtype.startswith("dtypeof(") else kind.dtype
    name = kind.record or opened.removeprefix("?")
    return "x".join((name + (f"<{', '.join(given)}>" if given else ""), *kind.shape))


def _number(value: Val) -> str:
    return value.text or value.name if value.const is None else str(value.const)


def of_variable(written: n.CType, frame: Frame) -> Kind:
    """`decltype(x)` of a variable by its name."""
    asked = written.arguments[0] if written.arguments else None
    held = frame.find(asked.text) if isinstance(asked, n.Name) and not asked.arguments else None
    if isinstance(held, Slot | Memory | Val) and held.kind.record != "typename":
        return held.kind
    return Kind(record=written.name)


_CONCEPTS = {"integral": "is_integral", "floating_point": "is_floating_point",
             "unsigned_integral": "is_unsigned"}  # fmt: skip


def constrained(concept: str, given: object) -> bool | None:
    """Whether an argument meets what a template asks of its parameter, be it nothing; None when
    only the instantiation tells."""
    asked = _CONCEPTS.get(concept.rpartition("::")[2])
    return answer(asked, (given,)) if asked is not None else None if concept else True


def truth(record: n.Record) -> bool | None:
    """The value of a struct that is one of the two truths by its base."""
    found = [
        TRUTHS[last] for one in record.bases
        if (last := one.name.rpartition("::")[2]) in TRUTHS
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None


def counted_elements(
    found: Sequence[tuple[Kind, Kind, object]], given: Sequence[Kind | Val]
) -> tuple[Kind, Val] | None:
    """The element and the number of elements of the vector that a struct names for a type and a
    number, where only the instantiation tells the number: every definition names, for its own type
    and number, as many bits. `found` has what each names, its own type and its own number."""
    counts = [one for one in given if isinstance(one, Val)]
    types = [one for one in given if isinstance(one, Kind)]
    sure = [row for row in found if isinstance(row[2], int)]
    if len(counts) != 1 or len(types) != 1 or counts[0].const is not None or len(sure) < 2:
        return None
    for named, own, number in sure:
        bits = own.bits if own.dtype in BITS else types[0].bits
        if bits is None or named.bits is None or named.bits != bits * int(str(number)):
            return None
    return replace(types[0], shape=()), counts[0]


def agreeing(kinds: Sequence[Kind]) -> Kind:
    """One struct with those of its first arguments that several agree in."""
    same = 0
    for several in zip(*(kind.arguments for kind in kinds), strict=False):
        if any(one != several[0] for one in several):
            break
        same += 1
    return replace(kinds[0], arguments=kinds[0].arguments[:same])


def named_type(written: n.CType, at: n.Place) -> n.Name:
    """What looks like a type, as a value; a constant of a struct keeps the struct's arguments."""
    if not written.member:
        return n.Name(at, written.name, written.arguments)
    owner = n.CType(written.name, written.arguments)
    return n.Name(at, f"{written.name}::{written.member}", (), owner)


def values_among(
    written: tuple[n.CType | n.Expr, ...], records: Sequence[n.Record]
) -> tuple[n.CType | n.Expr, ...]:
    """The template arguments of a struct; a name is a value where the struct takes one."""
    general = next((r for r in records if not r.specialised), None)
    found = list(written)
    for place, parameter in enumerate(general.template if general is not None else ()):
        one = found[place] if place < len(found) else None
        if isinstance(one, n.CType) and parameter.dtype not in ("typename", "template"):
            found[place] = named_type(one, _NOWHERE)
    return tuple(found)


_NOWHERE = n.Place(0, 0, 0, "")

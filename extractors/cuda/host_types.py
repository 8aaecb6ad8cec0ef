"""Specialisations of a helper that the host of the file leaves in question: those written for
template arguments that it never gives the kernel are not meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.library import Library
from extractors.cuda.values import Kind, Val
from kb.dialects.cuda import BITS

Told = Kind | int
"""A type, or a number."""

Argument = Kind | Val


def given(
    kernel: n.Definition | None, library: Library, kind: Callable[[n.CType], Kind]
) -> list[Mapping[str, Told]]:
    """What the host gives the template parameters of a kernel, wherever it names the kernel; what
    it hands on from elsewhere is missing."""
    found: list[Mapping[str, Told]] = []
    for arguments, names, around, _ in library.instances(kernel.name) if kernel else ():
        own = {one.name for one in around.template}
        told: dict[str, Told] = {}
        for parameter, one in zip(kernel.template if kernel else (), arguments, strict=False):
            name = one.name if isinstance(one, n.CType) else getattr(one, "text", "")
            meant = names.get(name, one) if name not in own else None
            if isinstance(meant, n.Constant) and isinstance(meant.value, int):
                told[parameter.name] = int(meant.value)
            elif isinstance(meant, n.CType) and _is_known(type_ := kind(meant), library):
                told[parameter.name] = type_
        found.append(told)
    return found


def _is_known(kind: Kind, library: Library) -> bool:
    """Whether it is said which type that is: one of the language, or a struct of the files."""
    return kind.to is None and (kind.dtype in BITS or bool(library.records(kind.record)))


def meant(
    own: Sequence[Argument], wanted: Sequence[Argument], instances: Sequence[Mapping[str, Told]]
) -> bool:
    """Whether a specialisation may be the one for the template arguments of a call, which rest on
    those of the kernel: the host gives such somewhere, or what it gives there is not known."""
    return not instances or any(
        all(_may_be(one, asked, told) for one, asked in zip(own, wanted, strict=False))
        for told in instances
    )


def _may_be(one: Argument, asked: Argument, told: Mapping[str, Told]) -> bool:
    """Whether an argument of a specialisation is what the call gives in one instance."""
    if isinstance(one, Kind) and isinstance(asked, Kind):
        opened = asked.dtype[8:-1] if asked.dtype.startswith("dtypeof(") else ""
        if not opened or asked.shape or asked.to is not None:
            return True
        known = told.get(opened)
        return not isinstance(known, Kind) or known == one
    if isinstance(one, Val) and isinstance(asked, Val) and one.const is not None:
        number = told.get(asked.text)
        return not isinstance(number, int) or number == one.const
    return True

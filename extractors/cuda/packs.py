"""Parameter packs: what a call gives for `args...` and what folds and expansions make of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import TypeVar

from extractors.cuda import nodes as n
from extractors.cuda.pack_names import count_of
from extractors.cuda.values import Frame, Val

MAX_PACK = 16
"""Arguments of one pack."""

_T = TypeVar("_T")


def is_pack(parameter: n.Variable) -> bool:
    """Whether a parameter of a function stands for any number of arguments."""
    return parameter.name.startswith("...")


def takes(function: n.Definition, count: int) -> bool:
    """Whether a function may be called with so many arguments."""
    packs = sum(1 for one in function.parameters if is_pack(one))
    least = sum(1 for one in function.parameters if one.value is None) - packs
    return least <= count and (packs > 0 or count <= len(function.parameters))


def counted(parameter: n.Variable) -> str:
    """The name under which the number of arguments of a pack is bound; with an index behind it,
    that of one of them."""
    return count_of(parameter.name.removeprefix("...").strip())


def folded(node: n.Fold, frame: Frame) -> n.Expr | None:
    """A fold over a pack whose arguments are known, as the operators that it stands for."""
    several = list(_each(node.operand, frame))
    if not several:
        return node.start
    parts = [node.start, *several] if node.start is not None and not node.late else several
    if node.start is not None and node.late:
        parts = [*several, node.start]
    found = [one for one in parts if one is not None]
    if node.late:
        made = found.pop()
        while found:
            made = n.Binary(node.at, node.operator, found.pop(), made)
        return made
    made = found.pop(0)
    while found:
        made = n.Binary(node.at, node.operator, made, found.pop(0))
    return made


def expanded(arguments: Sequence[_T], frame: Frame) -> tuple[_T | n.Expr, ...]:
    """Arguments of a call or a template with `args...` written out where the pack is known."""
    found: list[_T | n.Expr] = []
    for one in arguments:
        if isinstance(one, n.Unread) and one.what.startswith("parameter_pack") and one.inner:
            several = list(_each(one.inner[0], frame))
            found += several or ([] if _size(one.inner[0], frame) == 0 else [one])
        else:
            found.append(one)
    return tuple(found)


def _packs(node: n.Expr, frame: Frame) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in named(node):
        bound = frame.find(count_of(name))
        if isinstance(bound, Val) and isinstance(bound.const, int):
            found[name] = int(bound.const)
    return found


def named(node: object) -> Iterator[str]:
    """Names in an expression, also those that look like types."""
    if isinstance(node, tuple):
        for one in node:
            yield from named(one)
    elif isinstance(node, n.Expr | n.CType):
        yield from (node.text,) if isinstance(node, n.Name) else ()
        yield from (node.name,) if isinstance(node, n.CType) else ()
        for field in fields(node):
            if field.name != "at":
                yield from named(getattr(node, field.name))


def _size(node: n.Expr, frame: Frame) -> int | None:
    sizes = set(_packs(node, frame).values())
    return next(iter(sizes)) if len(sizes) == 1 else None


def _each(node: n.Expr, frame: Frame) -> Iterator[n.Expr]:
    packs, size = _packs(node, frame), _size(node, frame) or 0
    for index in range(size if size <= MAX_PACK else 0):
        yield renamed(node, {name: f"{count_of(name)}{index}" for name in packs})


def renamed(node: _T, names: dict[str, str]) -> _T:
    """An expression with other names."""
    if isinstance(node, tuple):
        return tuple(renamed(one, names) for one in node)  # type: ignore[return-value]
    if isinstance(node, n.Name) and node.text in names:
        return replace(node, text=names[node.text])
    if isinstance(node, n.CType) and node.name in names:
        return replace(node, name=names[node.name])
    if isinstance(node, n.Expr | n.CType):
        changed = {
            one.name: renamed(getattr(node, one.name), names)
            for one in fields(node) if one.name != "at"
        }  # fmt: skip
        return replace(node, **changed)
    return node

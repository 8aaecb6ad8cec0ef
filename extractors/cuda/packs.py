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
    for one in n.inside(node):
        if isinstance(one, n.Name):
            bound = frame.find(count_of(one.text))
            if isinstance(bound, Val) and isinstance(bound.const, int):
                found[one.text] = int(bound.const)
    return found


def _size(node: n.Expr, frame: Frame) -> int | None:
    sizes = set(_packs(node, frame).values())
    return next(iter(sizes)) if len(sizes) == 1 else None


def _each(node: n.Expr, frame: Frame) -> Iterator[n.Expr]:
    packs = _packs(node, frame)
    for index in range(min(_size(node, frame) or 0, MAX_PACK)):
        yield _renamed(node, {name: f"{count_of(name)}{index}" for name in packs})


def _renamed(node: _T, names: dict[str, str]) -> _T:
    if isinstance(node, tuple):
        return tuple(_renamed(one, names) for one in node)  # type: ignore[return-value]
    if isinstance(node, n.Name) and node.text in names:
        return replace(node, text=names[node.text])
    if isinstance(node, n.Expr):
        changed = {
            one.name: _renamed(getattr(node, one.name), names)
            for one in fields(node) if one.name != "at"
        }  # fmt: skip
        return replace(node, **changed)
    return node

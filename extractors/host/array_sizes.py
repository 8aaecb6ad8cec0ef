"""Which compile-time parameters hold extents or strides of which array."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.facts import Material
from extractors.host.values import Expr, Value

MAX_MADE = 8
"""Arrays that one was made like, each from the next."""


def own_sizes(
    material: Material | None, constexprs: frozenset[str], arrays: Iterable[str]
) -> dict[str, frozenset[str]]:
    """For each array the compile-time parameters that the first launch gives an extent or a stride
    of it, or of the array that it was made like, or an extent that it was made with."""
    if material is None or not material.launches or not constexprs:
        return {}
    given = dict(material.launches[0].args)
    sizes: dict[Value, set[str]] = {}
    for name in constexprs & given.keys():
        value = given[name]
        if isinstance(value, Expr) and value.op in ("dim", "stride"):
            sizes.setdefault(_original(material, value.args[0]), set()).add(name)
    return {
        array: frozenset(sizes.get(_original(material, given[array]), ()))
        | {
            name
            for name in constexprs & given.keys()
            if given[name] in _made(material, given[array])
        }
        for array in arrays
        if array in given
    }


def _made(material: Material, tensor: Value) -> tuple[Value, ...]:
    """The extents, beyond the first, that the host made an array with."""
    fact = material.machine.tensors.get(tensor)
    sizes = fact.dims[1:] if fact is not None and fact.dims is not None else ()
    return tuple(size for size in sizes if isinstance(size, Expr))


def _original(material: Material, tensor: Value) -> Value:
    """What an array was made like, or is a view of."""
    for _ in range(MAX_MADE):
        fact = material.machine.tensors.get(tensor)
        made = (fact.like or fact.base) if fact is not None else None
        if made is None:
            break
        tensor = made
    return tensor

"""Trials: tests and benchmarks that draw random arrays and hand them to a function of the module.

What they pass says nothing of what the function accepts, so that the function is read by itself,
with its parameters as symbols, and the launches of the trials are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from extractors.host.machine import Machine
from extractors.host.values import Choice, Expr, Func, Ref, Value
from extractors.syntax.nodes import each

_OF_TENSORS = frozenset({
    "shape", "stride", "size", "dim", "ndim", "device", "numel", "contiguous", "is_contiguous",
    "to", "view", "reshape", "clone", "element_size",
})  # fmt: skip
_MAX_ITEMS = 8


def tries(func: Func) -> bool:
    """Whether an entry function takes no arrays: it reads nothing of its parameters that only an
    array has."""
    spec = func.node.args
    given = {arg.arg for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    return not any(
        node.attr in _OF_TENSORS and isinstance(node.value, ast.Name) and node.value.id in given
        for node in each(func.node, ast.Attribute)
    )


def drawn(machine: Machine, value: Value) -> bool:
    """Whether a value is an array of random numbers, a view of one, or a list of such arrays."""
    if isinstance(value, Choice):
        return drawn(machine, value.then) or drawn(machine, value.other)
    if isinstance(value, Ref) and value.kind == "list":
        items = machine.read(value.oid)
        value = items if isinstance(items, tuple) else ()
    if isinstance(value, tuple):
        return any(drawn(machine, one) for one in value[:_MAX_ITEMS])
    for _ in range(_MAX_ITEMS):
        fact = machine.tensors.get(value) if isinstance(value, Expr) else None
        if fact is None:
            return False
        if fact.drawn:
            return True
        value = fact.base
    return False


def without(events: Mapping[int, list[object]], roots: frozenset[int], names: frozenset[str]) -> (
    dict[int, list[object]]
):  # fmt: skip
    """Events less those of the entry functions `roots` on the way through the functions `names`."""
    return {
        root: [e for e in rows if root not in roots or not names & set(getattr(e, "stack", ()))]
        for root, rows in events.items()
    }

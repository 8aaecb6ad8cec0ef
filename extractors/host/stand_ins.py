"""Arrays that the host makes in place of operands that are not given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeGuard

from extractors.host.backwards import back, same_array
from extractors.host.callers import leading
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.syntax.nodes import walk
from kb.evidence import AxisKind, Decision, Lines

STAND_IN = "optional-operand-as-dummy-tensor-flag"
"""The pattern of a host that makes an array where none is given."""

DUMMY = "dummy tensor + constexpr flag"
NEUTRAL = "array of one number in place of None"
"""What a host hands in where an operand is missing: an array that nobody reads, or one that changes
nothing."""

_FILLS = frozenset({
    "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones",
    "new_full",
})  # fmt: skip
_MAKES = _FILLS | frozenset({
    "empty", "arange", "tensor", "empty_like", "new_empty", "new_tensor",
})  # fmt: skip
"""Functions and methods of torch that make an array of no other one's elements."""


def stand_ins(material: Material) -> Iterator[Decision]:
    """Parameters that get an array made under a test that another one is None. The program knows
    whether it reads them only where they were given: always, it reads an array of one number
    that the function of the launch makes."""
    found: dict[str, set[Lines]] = {}
    filled: dict[str, bool] = {}
    for launch in material.sites():
        made = {call: at for f in leading(material, launch) for call, at in _made_for_none(f)}
        call = material.origins.call_at(launch.lines) if material.origins and made else None
        for position, (name, constant) in enumerate(material.signature.params):
            if call is None or constant or material.origins is None:
                continue
            given = material.origins.argument(call, name, position, material.row(launch))
            for one in back(material, given, same_array) if given is not None else ():
                if one in made:
                    found.setdefault(name, set()).update((made[one], lines_of(one)))
                    near = material.origins.owner(one) is material.origins.owner(call)
                    filled[name] = filled.get(name, True) and near and _fills(one)
    for name, lines in found.items():
        yield Decision(
            axis="optional_inputs",
            value=NEUTRAL if filled[name] else DUMMY,
            pattern=STAND_IN,
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
            subject=name,
        )


@lru_cache(maxsize=1024)
def _made_for_none(function: ast.FunctionDef) -> tuple[tuple[ast.Call, Lines], ...]:
    """Calls that make an array on the side of a test where something is None, with the test."""
    found: list[tuple[ast.Call, Lines]] = []
    for node in walk(function):
        if isinstance(node, ast.If | ast.IfExp) and (missing := _side(node)):
            at = lines_of(node.test)
            found += [(one, at) for side in missing for one in walk(side) if _makes(one)]
    return tuple(found)


def _side(node: ast.If | ast.IfExp) -> list[ast.AST]:
    """What stands on the side of a branch where its test found None."""
    test = node.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return []
    right = test.comparators[0]
    if not isinstance(right, ast.Constant) or right.value is not None:
        return []
    side = node.body if isinstance(test.ops[0], ast.Is) else node.orelse
    return list(side) if isinstance(side, list) else [side]


def _fills(node: ast.expr) -> bool:
    return _makes(node) and isinstance(node.func, ast.Attribute) and node.func.attr in _FILLS


def _makes(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _MAKES
    )

"""What each partition of the warps of a block runs, where a kernel hands functions to them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from extractors.scope import Local, Scope


@dataclass(frozen=True, slots=True)
class Part:
    """The call that one partition makes, and the registers of its threads when that is said."""

    call: ast.Call
    registers: ast.expr | None = None


def partitions(node: ast.Call, scope: Scope) -> list[Part] | None:
    """`warp_specialize([(function, (argument, ...)), ...], warps, registers)` as calls, the one of
    the default partition first; None when it is written in another way."""
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    places = [*node.args[:3], *[None] * (3 - len(node.args))]
    names = ("functions_and_args", "worker_num_warps", "worker_num_regs")
    functions, _, registers = (
        place or given.get(name) for name, place in zip(names, places, strict=True)
    )
    calls = [_call(item, scope) for item in functions.elts] if isinstance(functions, _ROW) else []
    known = [call for call in calls if call is not None]
    if len(known) != len(calls) or len(calls) < 2:
        return None
    budgets: list[ast.expr | None] = [None] * len(known)
    if isinstance(registers, _ROW) and len(registers.elts) == len(known) - 1:
        budgets[1:] = registers.elts
    return [Part(call, budget) for call, budget in zip(known, budgets, strict=True)]


_ROW = (ast.List, ast.Tuple)


def _call(item: ast.expr, scope: Scope) -> ast.Call | None:
    match item:
        case ast.Tuple(elts=[function, ast.Tuple(elts=arguments)]):
            meaning = scope.resolve(function)
            if isinstance(meaning, Local) and len(arguments) <= len(meaning.node.args.args):
                call = ast.Call(func=function, args=arguments, keywords=[])
                return ast.copy_location(call, item)
    return None

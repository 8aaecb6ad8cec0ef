"""Helpers known by what they compute: run on samples by our own evaluator, never by their name."""

from __future__ import annotations

import ast
from collections.abc import Callable

from extractors.host.core import Core
from extractors.host.expr import binary, extremum
from extractors.host.limits import OutOfBounds
from extractors.host.values import Expr, Frame, Func, Value
from extractors.syntax.nodes import each

BIT_OPERATIONS = (ast.RShift, ast.LShift, ast.BitOr, ast.BitAnd, ast.BitXor)
SAMPLES = (*range(1, 258), *(2**power + shift for power in range(8, 13) for shift in (-1, 0, 1)))


def next_power_of_two(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << max(number - 1, 0).bit_length()


def is_power_of_two(number: int) -> bool:
    """Whether one bit is set."""
    return number > 0 and not number & (number - 1)


KNOWN: tuple[tuple[str, Callable[[int], object]], ...] = (
    ("npow2", next_power_of_two),
    ("ispow2", is_power_of_two),
)


def below_power(bits: Value) -> Value | None:
    """The number whose next power of two is two to the power of `bits`: one more than the number
    whose bits are counted. None when none are counted."""
    made = bits.args[0] if isinstance(bits, Expr) and bits.op == "call" else None
    if not isinstance(made, Expr) or made.op != "attr" or made.args[1] != "bit_length":
        return None
    counted = made.args[0]
    if isinstance(counted, Expr) and counted.op == "max" and 0 in counted.args:
        rest = tuple(one for one in counted.args if one != 0)
        counted = extremum("max", rest)
    return binary("+", counted, 1)


def recognise(core: Core, func: Func) -> str | None:
    """`npow2` or `ispow2` when the helper agrees with it on every sample from 1 to 4097, else
    None."""
    key = id(func.node)
    if key not in core.recognised:
        core.recognised[key] = None
        if _is_bit_arithmetic(func.node):
            core.recognised[key] = _match(core, func)
    return core.recognised[key]


def _is_bit_arithmetic(node: ast.AST) -> bool:
    """Shifts, bit operators, `bit_length`, `log2`, or a loop: the ways to write these helpers."""
    if isinstance(node, ast.Lambda):
        return False
    found = (
        any(each(node, kind) for kind in (*BIT_OPERATIONS, ast.While))
        or any(item.attr in ("bit_length", "log2") for item in each(node, ast.Attribute))
        or (each(node, ast.Pow) and any(item.value == 2 for item in each(node, ast.Constant)))
    )
    return bool(found) and len(each(node, ast.Call)) <= 8


def _match(core: Core, func: Func) -> str | None:
    candidates = list(KNOWN)
    machine = core.machine
    heap, steps, muted = machine.heap, machine.steps, machine.muted
    machine.muted, machine.steps = muted + 1, 0
    try:
        for sample in SAMPLES:
            machine.heap = heap.copy()
            result = _apply(core, func, sample)
            candidates = [row for row in candidates if _agrees(row[1](sample), result)]
            if not candidates:
                return None
    except OutOfBounds:
        return None
    finally:
        machine.heap, machine.steps, machine.muted = heap, steps, muted
    return candidates[0][0]


def _agrees(wanted: object, got: Value) -> bool:
    return type(wanted) is type(got) and wanted == got


def _apply(core: Core, func: Func, sample: int) -> Value:
    frame: Frame = core.machine.new_frame(func.frame, func.frame.module, func.name)
    node = func.node
    if isinstance(node, ast.Lambda) or not node.args.args:
        return None
    core.machine.heap[frame.oid] = {**dict(func.defaults), node.args.args[0].arg: sample}
    return core.run_body(node.body, frame)

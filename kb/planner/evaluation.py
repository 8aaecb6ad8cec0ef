"""Evaluate expressions over a mapping of names. Numbers are bounded; Python is out of reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import cast

from kb.errors import InputError, UnknownName
from kb.planner.nodes import (
    Attribute,
    Binary,
    BinaryOperator,
    Boolean,
    BooleanOperator,
    Call,
    Compare,
    Comparison,
    Conditional,
    Expr,
    Index,
    Literal,
    Name,
    Sequence,
    Unary,
    UnaryOperator,
)

Number = int | float
Value = Number | str | None | tuple["Value", ...] | Mapping[str, "Value"]
"""What a name may hold and an expression may give; a boolean is a number, as in Python."""

Environment = Mapping[str, Value]
"""Names with their values. A key may be dotted: `{"target.sms": 132}` answers `target.sms`."""

MAX_BITS = 256
"""Largest integer, in bits: bytes of any tensor fit, a runaway power does not."""

MAX_EXPONENT = 1024

DTYPE_BYTES: Mapping[str, Number] = {
    "f64": 8, "fp64": 8, "float64": 8, "i64": 8, "int64": 8,
    "f32": 4, "fp32": 4, "float32": 4, "tf32": 4, "i32": 4, "int32": 4,
    "f16": 2, "fp16": 2, "float16": 2, "bf16": 2, "bfloat16": 2, "i16": 2, "int16": 2,
    "f8": 1, "fp8": 1, "f8e4m3": 1, "f8e5m2": 1, "i8": 1, "int8": 1, "u8": 1, "uint8": 1, "bool": 1,
    "f4": 0.5, "fp4": 0.5, "i4": 0.5, "int4": 0.5,
}  # fmt: skip
"""Bytes of one element, by the dtype names that source and catalogue use."""


def evaluate(expr: Expr, env: Environment) -> Value:
    """The value of `expr` with the names of `env`.

    Raises UnknownName for a name, attribute or key that `env` lacks, and InputError for a division
    by zero, a number past `MAX_BITS`, an index out of range, or operands of the wrong type.
    """
    match expr:
        case Literal(value=value):
            return value
        case Name() | Attribute():
            return _resolve(expr, env)
        case Index(value=value, index=index):
            return _item(evaluate(value, env), evaluate(index, env))
        case Unary(operator=operator, operand=operand):
            return _unary(operator, evaluate(operand, env))
        case Binary(operator=operator, left=left, right=right):
            return _binary(operator, evaluate(left, env), evaluate(right, env))
        case Compare(first=first, links=links):
            return _compare(first, links, env)
        case Boolean(operator=operator, operands=operands):
            return _boolean(operator, operands, env)
        case Conditional(then=then, condition=condition, otherwise=otherwise):
            return evaluate(then if evaluate(condition, env) else otherwise, env)
        case Sequence(items=items):
            return tuple(evaluate(item, env) for item in items)
        case Call(function=function, arguments=arguments):
            return _call(function, tuple(evaluate(argument, env) for argument in arguments))


def dotted(expr: Expr) -> str | None:
    """`a.b.c` when `expr` is only names and attributes, else None."""
    parts: list[str] = []
    while isinstance(expr, Attribute):
        parts.append(expr.name)
        expr = expr.value
    if not isinstance(expr, Name):
        return None
    return ".".join((expr.name, *reversed(parts)))


def _resolve(expr: Name | Attribute, env: Environment) -> Value:
    path = dotted(expr)
    if path is not None and path in env:
        return env[path]
    if isinstance(expr, Name):
        raise _unknown(expr.name, env)
    owner = evaluate(expr.value, env)
    if not isinstance(owner, Mapping):
        raise InputError(f"`{_shown(owner)}` has no field `{expr.name}`.")
    if expr.name not in owner:
        raise _unknown(path or expr.name, dict.fromkeys(owner), expr.name)
    return owner[expr.name]


def _unknown(name: str, known: Mapping[str, Value], last: str | None = None) -> UnknownName:
    near = get_close_matches(last or name, list(known), n=1)
    hint = f"Did you mean `{near[0]}`?" if near else "Give it a value, or correct its spelling."
    return UnknownName(f"`{name}` has no value here.", hint=hint)


def _item(owner: Value, index: Value) -> Value:
    if isinstance(owner, Mapping):
        if not isinstance(index, str) or index not in owner:
            raise UnknownName(f"there is no entry `{_shown(index)}` here.")
        return owner[index]
    if not isinstance(owner, tuple) or not isinstance(index, int):
        raise InputError(f"`{_shown(owner)}[{_shown(index)}]` is not an element of a sequence.")
    if not -len(owner) <= index < len(owner):
        raise InputError(f"index {index} is outside a sequence of {len(owner)}.")
    return owner[index]


def _unary(operator: UnaryOperator, operand: Value) -> Value:
    match operator:
        case UnaryOperator.NOT:
            return not operand
        case UnaryOperator.NEGATE:
            return bounded(-number(operand, "-"))


def _binary(operator: BinaryOperator, left_value: Value, right_value: Value) -> Number:
    left, right = number(left_value, operator), number(right_value, operator)
    match operator:
        case BinaryOperator.ADD:
            return bounded(left + right)
        case BinaryOperator.SUBTRACT:
            return bounded(left - right)
        case BinaryOperator.MULTIPLY:
            return bounded(left * right)
        case BinaryOperator.POWER:
            return _power(left, right)
    if right == 0:
        raise InputError(f"`{_shown(left)} {operator} 0` divides by zero.")
    try:
        match operator:
            case BinaryOperator.DIVIDE:
                return bounded(left / right)
            case BinaryOperator.FLOOR_DIVIDE:
                return bounded(left // right)
            case BinaryOperator.MODULO:
                return bounded(left % right)
    except OverflowError as error:
        raise InputError(f"`{_shown(left)} {operator} {_shown(right)}` is too large.") from error


def _power(base: Number, exponent: Number) -> Number:
    too_large = abs(exponent) > MAX_EXPONENT or (
        isinstance(base, int)
        and isinstance(exponent, int)
        and base.bit_length() * exponent > 2 * MAX_BITS
    )
    if too_large or (base == 0 and exponent < 0):
        raise InputError(f"`{_shown(base)} ** {_shown(exponent)}` is out of bounds.")
    try:
        power = base**exponent
    except OverflowError as error:
        raise InputError(f"`{_shown(base)} ** {_shown(exponent)}` is too large.") from error
    if isinstance(power, complex):
        raise InputError(f"`{_shown(base)} ** {_shown(exponent)}` is not a real number.")
    return bounded(cast(Number, power))


def number(value: Value, wanted_by: str) -> Number:
    """`value` if it is a number; InputError naming the operator or function that wanted one."""
    if isinstance(value, int | float):
        return value
    raise InputError(f"`{wanted_by}` needs a number, not `{_shown(value)}`.")


def bounded(value: Number) -> Number:
    """`value` if it is finite and within `MAX_BITS`, else InputError."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError("the result is not a finite number.")
    elif value.bit_length() > MAX_BITS:
        raise InputError(f"the result has more than {MAX_BITS} bits.")
    return value


def _compare(first: Expr, links: tuple[tuple[Comparison, Expr], ...], env: Environment) -> bool:
    left = evaluate(first, env)
    for comparison, operand in links:
        right = evaluate(operand, env)
        if not _holds(comparison, left, right):
            return False
        left = right
    return True


def _holds(comparison: Comparison, left: Value, right: Value) -> bool:
    match comparison:
        case Comparison.EQUAL:
            return left == right
        case Comparison.UNEQUAL:
            return left != right
        case Comparison.IN | Comparison.NOT_IN:
            return _contains(right, left) is (comparison is Comparison.IN)
    return _ordered(comparison, left, right)


def _contains(owner: Value, item: Value) -> bool:
    if isinstance(owner, str):
        if not isinstance(item, str):
            raise InputError(f"`{_shown(item)} in {_shown(owner)}` looks for a non-string.")
        return item in owner
    if isinstance(owner, tuple):
        return item in owner
    if isinstance(owner, Mapping):
        return isinstance(item, str) and item in owner
    raise InputError(f"`in` needs a sequence, not `{_shown(owner)}`.")


def _ordered(comparison: Comparison, left: Value, right: Value) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return _order(comparison, (left > right) - (left < right))
    if isinstance(left, tuple) and isinstance(right, tuple):
        for one, other in zip(left, right, strict=False):
            if one != other:
                return _ordered(comparison, one, other)
        return _order(comparison, (len(left) > len(right)) - (len(left) < len(right)))
    low, high = number(left, comparison), number(right, comparison)
    return _order(comparison, (low > high) - (low < high))


def _order(comparison: Comparison, sign: int) -> bool:
    match comparison:
        case Comparison.LESS:
            return sign < 0
        case Comparison.LESS_EQUAL:
            return sign <= 0
        case Comparison.GREATER:
            return sign > 0
        case Comparison.GREATER_EQUAL:
            return sign >= 0
    raise InputError(f"`{comparison}` does not order values.")


def _boolean(operator: BooleanOperator, operands: tuple[Expr, ...], env: Environment) -> Value:
    value: Value = operator is BooleanOperator.AND
    for operand in operands:
        value = evaluate(operand, env)
        if bool(value) is not (operator is BooleanOperator.AND):
            return value
    return value


def _call(function: str, arguments: tuple[Value, ...]) -> Value:
    low, high, body = FUNCTIONS[function]
    if len(arguments) < low or (high is not None and len(arguments) > high):
        count = str(low) if low == high else f"at least {low}"
        raise InputError(f"`{function}` takes {count} argument(s), not {len(arguments)}.")
    return body(function, arguments)


def _extreme(function: str, arguments: tuple[Value, ...]) -> Value:
    several = arguments[0] if len(arguments) == 1 else arguments
    if not isinstance(several, tuple) or not several:
        raise InputError(f"`{function}` needs numbers or a non-empty sequence.")
    numbers = [number(value, function) for value in several]
    return min(numbers) if function == "min" else max(numbers)


def _total(function: str, arguments: tuple[Value, ...]) -> Value:
    if not isinstance(arguments[0], tuple):
        raise InputError(f"`{function}` needs a sequence.")
    result: Number = 0 if function == "sum" else 1
    for value in arguments[0]:
        step = number(value, function)
        result = bounded(result + step if function == "sum" else result * step)
    return result


def _cdiv(function: str, arguments: tuple[Value, ...]) -> Value:
    return bounded(
        -_binary(BinaryOperator.FLOOR_DIVIDE, -number(arguments[0], function), arguments[1])
    )


def _integer(function: str, arguments: tuple[Value, ...]) -> int:
    value = number(arguments[0], function)
    if isinstance(value, float) and value != int(value):
        raise InputError(f"`{function}` needs a whole number, not `{_shown(value)}`.")
    return int(value)


def _is_power_of_two(function: str, arguments: tuple[Value, ...]) -> Value:
    value = number(arguments[0], function)
    return value >= 1 and value == int(value) and int(value) & (int(value) - 1) == 0


def _next_power_of_two(function: str, arguments: tuple[Value, ...]) -> Value:
    return bounded(1 << max(_integer(function, arguments) - 1, 0).bit_length())


def _root(function: str, arguments: tuple[Value, ...]) -> Value:
    value = number(arguments[0], function)
    if value < 0 or (value == 0 and function == "log2"):
        raise InputError(f"`{function}({_shown(value)})` is not a real number.")
    return math.sqrt(value) if function == "sqrt" else math.log2(value)


def _bytes_of(function: str, arguments: tuple[Value, ...]) -> Value:
    name = arguments[0]
    if not isinstance(name, str) or name not in DTYPE_BYTES:
        raise InputError(f'`{function}({_shown(name)})`: not a dtype; try "bf16".')
    return DTYPE_BYTES[name]


def _length(function: str, arguments: tuple[Value, ...]) -> Value:
    if not isinstance(arguments[0], tuple | str):
        raise InputError(f"`{function}` needs a sequence.")
    return len(arguments[0])


Body = Callable[[str, tuple[Value, ...]], Value]

FUNCTIONS: Mapping[str, tuple[int, int | None, Body]] = {
    "abs": (1, 1, lambda name, given: abs(number(given[0], name))),
    "bytes_of": (1, 1, _bytes_of),
    "cdiv": (2, 2, _cdiv),
    "ceil": (1, 1, lambda name, given: math.ceil(number(given[0], name))),
    "floor": (1, 1, lambda name, given: math.floor(number(given[0], name))),
    "float": (1, 1, lambda name, given: bounded(float(number(given[0], name)))),
    "int": (1, 1, lambda name, given: int(number(given[0], name))),
    "is_power_of_two": (1, 1, _is_power_of_two),
    "len": (1, 1, _length),
    "log2": (1, 1, _root),
    "max": (1, None, _extreme),
    "min": (1, None, _extreme),
    "next_power_of_two": (1, 1, _next_power_of_two),
    "prod": (1, 1, _total),
    "sqrt": (1, 1, _root),
    "sum": (1, 1, _total),
}
"""Name, fewest and most arguments (None: any number), and what it computes."""


def _shown(value: Value) -> str:
    text = repr(value) if not isinstance(value, Mapping) else "a record"
    return text if len(text) <= 60 else text[:57] + "..."

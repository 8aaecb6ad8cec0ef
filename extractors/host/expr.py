"""Expressions over problem sizes: construction in normal form, truth under assumptions.

Operations: sym(name) dim(tensor, axis) shape(tensor) rank(tensor) stride(tensor, axis) tensor(id)
axis(search, name)
memo(...) attr(value, name) index(value, key) call(name, ...) ; + - * / // % ** << >> & | ^ neg ;
== != < <= > >= in `not in` none ; and or not ; min max cdiv ceil npow2 ispow2 abs int float.
`none(x)` is `x is None`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from math import ceil

from extractors.host.values import (
    MAX_EXPRESSION_DEPTH,
    MAX_EXPRESSION_NODES,
    Choice,
    Expr,
    Unknown,
    Value,
    depth_of,
    size_of,
)

Number = int | float

ARITHMETIC: dict[str, Callable[..., object]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
COMPARE: dict[str, Callable[..., object]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPPOSITE = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "in": "not in",
    "not in": "in",
}
MAYBE_NONE = frozenset({"sym", "attr", "index", "call", "memo"})
LARGEST_POWER = 512
ATOMS = frozenset({"sym", "dim", "shape", "rank", "stride", "tensor", "axis", "memo"})


def make(op: str, *args: Value) -> Expr | Unknown:
    """An expression, or Unknown when it would be larger than anyone reads."""
    size, depth = 1, 1 if args else 0
    for arg in args:
        if isinstance(arg, (Expr, Choice)):
            size += arg.size
            depth = arg.depth if arg.depth > depth else depth
        else:
            size += size_of(arg)
            depth = max(depth, depth_of(arg))
    depth += 1
    if size > MAX_EXPRESSION_NODES or depth > MAX_EXPRESSION_DEPTH:
        return Unknown("the expression grows beyond what is kept")
    return Expr(op, args, size, depth)


def sym(name: str) -> Expr:
    """A name of the host: a parameter, an environment fact."""
    return Expr("sym", (name,))


def is_sms(value: Value) -> bool:
    """The number of multiprocessors of the device."""
    return isinstance(value, Expr) and value.op == "sym" and value.args[0] == "target.sms"


def is_number(value: Value) -> bool:
    """A known int or float (bool included)."""
    return isinstance(value, (int, float))


def is_known(value: Value) -> bool:
    """A plain Python value that is known to the last bit."""
    if isinstance(value, tuple):
        return all(is_known(item) for item in value)
    return value is None or isinstance(value, (int, float, str, bytes))


def choose(cond: Value, then: Value, other: Value) -> Value:
    """`then if cond else other`, folded where it can be; a memo read gives way to what was
    stored."""
    if isinstance(cond, bool):
        return then if cond else other
    if isinstance(then, Expr) and then == cond:
        then = True
    if isinstance(other, Expr) and other == cond:
        other = False
    if then is other or (type(then) is type(other) and then == other):
        return then
    if isinstance(then, Expr) and is_memo(then):
        return other
    if isinstance(other, Expr) and is_memo(other):
        return then
    if isinstance(cond, Unknown):
        return Unknown(f"depends on a condition that is unknown: {cond.reason}")
    if not isinstance(cond, Expr):
        return Unknown("depends on a condition that is not an expression")
    if isinstance(other, Choice) and other.then == then and not _bulky(then):
        joined = disjoin(cond, other.cond)
        return choose(joined, then, other.other) if isinstance(joined, Expr) else then
    size = 1 + cond.size + size_of(then) + size_of(other)
    depth = 1 + max(cond.depth, depth_of(then), depth_of(other))
    if size > 8 * MAX_EXPRESSION_NODES or depth > MAX_EXPRESSION_DEPTH:
        return Unknown("the value depends on too many conditions")
    return Choice(cond, then, other, size, depth)


def _bulky(value: Value) -> bool:
    """Cases of a space stay apart even when they are equal: each condition is a fact of its own."""
    return not is_number(value) and not isinstance(value, str) and value is not None


def is_memo(value: Value) -> bool:
    """Read from a memo table whose contents are what earlier calls stored."""
    while isinstance(value, Expr) and value.op in ("attr", "index"):
        value = value.args[0]
    return isinstance(value, Expr) and value.op == "memo"


def binary(op: str, left: Value, right: Value) -> Value:
    """`left op right` in normal form; Unknown with a reason when Python would raise."""
    for side in (left, right):
        if isinstance(side, Unknown):
            return side
    if is_known(left) and is_known(right):
        return _fold(op, left, right)
    if op in ("+", "-") and is_number(right) and isinstance(left, Expr) and left.op in ("+", "-"):
        merged = _merge_constants(op, left, right)
        if merged is not None:
            return merged
    if right == 0 and op in ("+", "-") and is_number(right):
        return left
    if right == 1 and op in ("*", "//") and is_number(right):
        return left
    if right == 1 and op == "%" and isinstance(left, Expr) and left.op == "dim":
        return 0
    if left == 1 and op == "*" and is_number(left):
        return right
    if left == 0 and op == "+" and is_number(left):
        return right
    if op == "//":
        return _floor_divide(left, right)
    return make(op, left, right)


def _fold(op: str, left: Value, right: Value) -> Value:
    if op in ("**", "<<") and is_number(left) and is_number(right):
        if isinstance(right, (int, float)) and abs(right) > LARGEST_POWER:
            return Unknown("a power that large is not computed")
    if op == "*" and (
        isinstance(left, (str, tuple, bytes)) or isinstance(right, (str, tuple, bytes))
    ):
        count = left if isinstance(left, int) else right
        body = right if isinstance(left, int) else left
        if not isinstance(count, int) or len(body) * count > 4096:  # type: ignore[arg-type]
            return Unknown("a repetition that large is not built")
    if isinstance(left, int) and isinstance(right, int) and max(abs(left), abs(right)) > 1 << 4096:
        return Unknown("an integer that large is not computed with")
    table = ARITHMETIC if op in ARITHMETIC else COMPARE
    try:
        result = table[op](left, right)
    except (ArithmeticError, TypeError, ValueError) as error:
        return Unknown(f"`{op}` raises {type(error).__name__}")
    return Unknown("a complex number") if isinstance(result, complex) else result


def _merge_constants(op: str, left: Expr, right: Value) -> Value | None:
    if not is_number(left.args[1]) or isinstance(left.args[1], float) or isinstance(right, float):
        return None
    first = left.args[1] if left.op == "+" else -left.args[1]  # type: ignore[operator]
    total = first + (right if op == "+" else -right)  # type: ignore[operator]
    return binary("+" if total >= 0 else "-", left.args[0], abs(total))


def _floor_divide(left: Value, right: Value) -> Value:
    """`(a + b - 1) // b` is cdiv(a, b), in each of the ways it is spelled."""
    if isinstance(left, Expr) and left.op == "+":
        first, second = left.args
        if isinstance(right, int) and isinstance(second, int) and second == right - 1:
            return cdiv(first, right)
        less_one = binary("-", right, 1)
        if second == less_one:
            return cdiv(first, right)
        if first == less_one:
            return cdiv(second, right)
    if isinstance(left, Expr) and left.op == "-" and left.args[1] == 1:
        inner = left.args[0]
        if isinstance(inner, Expr) and inner.op == "+" and right in inner.args:
            return cdiv(inner.args[0] if inner.args[1] == right else inner.args[1], right)
    return make("//", left, right)


def cdiv(left: Value, right: Value) -> Value:
    """Division rounded up."""
    for side in (left, right):
        if isinstance(side, Unknown):
            return side
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return ceil(left / right) if right else Unknown("division by zero")
    if right == 1 and is_number(right):
        return left
    return make("cdiv", left, right)


def ceiling(value: Value) -> Value:
    """`math.ceil`: of a quotient it is cdiv."""
    if isinstance(value, Unknown):
        return value
    if isinstance(value, (int, float)):
        return ceil(value) if abs(value) < 1e300 else Unknown("ceil of an infinite number")
    if isinstance(value, Expr) and value.op == "/":
        return cdiv(value.args[0], value.args[1])
    return make("ceil", value)


def negate_number(value: Value) -> Value:
    """`-value`; `-(-a // b)` is cdiv(a, b)."""
    if isinstance(value, (int, float)):
        return -value
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Expr) and value.op == "//":
        top = value.args[0]
        if isinstance(top, Expr) and top.op == "neg":
            return cdiv(top.args[0], value.args[1])
    return make("neg", value)


def extremum(op: str, values: tuple[Value, ...]) -> Value:
    """`min` or `max` of several values, nested ones flattened, constants folded."""
    flat: list[Value] = []
    for value in values:
        if isinstance(value, Unknown):
            return value
        flat.extend(value.args if isinstance(value, Expr) and value.op == op else (value,))
    fold: Callable[..., object] = min if op == "min" else max
    if flat and all(is_known(value) for value in flat):
        try:
            return fold(flat)
        except TypeError:
            return Unknown(f"`{op}` of values that do not compare")
    known = [value for value in flat if is_number(value)]
    rest: list[Value] = []
    for value in flat:
        if not is_number(value) and value not in rest:
            rest.append(value)
    if known:
        at = next(place for place, value in enumerate(flat) if is_number(value))
        rest.insert(min(at, len(rest)), fold(known))
    return rest[0] if len(rest) == 1 else make(op, *rest)


def compare(op: str, left: Value, right: Value) -> Value:
    """A comparison; equal expressions compare equal."""
    for side in (left, right):
        if isinstance(side, Unknown):
            return side
    if is_known(left) and is_known(right):
        return _fold(op, left, right)
    if (
        op in ("<=", ">")
        and isinstance(right, Expr)
        and right.op == "npow2"
        and right.args[0] == left
    ):
        return op == "<="
    if left == right and op in ("==", "<=", ">="):
        return True
    if left == right and op in ("!=", "<", ">"):
        return False
    if op in ("==", "!=") and (right is None or left is None):
        test = is_none(left if right is None else right)
        return test if op == "==" else negate(test)
    return make(op, left, right)


def is_none(value: Value) -> Value:
    """`value is None` as a value."""
    if value is None:
        return True
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Choice):
        return choose(value.cond, is_none(value.then), is_none(value.other))
    if isinstance(value, Expr) and value.op in MAYBE_NONE:
        return make("none", value)
    return False


def negate(cond: Value) -> Value:
    """`not cond`, pushed into comparisons."""
    if isinstance(cond, bool):
        return not cond
    if isinstance(cond, Choice):
        return choose(cond.cond, negate(cond.then), negate(cond.other))
    if not isinstance(cond, Expr):
        return cond
    if cond.op == "not":
        return cond.args[0]
    if cond.op in OPPOSITE:
        return make(OPPOSITE[cond.op], *cond.args)
    return make("not", cond)


def conjoin(left: Value, right: Value) -> Value:
    """`left and right` of two conditions."""
    if isinstance(left, bool):
        return right if left else False
    if isinstance(right, bool):
        return left if right else False
    return left if left == right else make("and", left, right)


def disjoin(left: Value, right: Value) -> Value:
    """`left or right` of two conditions."""
    if isinstance(left, bool):
        return True if left else right
    if isinstance(right, bool):
        return True if right else left
    return left if left == right else make("or", left, right)


def distinct_atoms(value: Value) -> Iterator[Expr]:
    """The atoms of a value, what its parts share looked at once."""
    pending: list[Value] = [value]
    seen: set[int] = set()
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, tuple):
            pending.extend(item)
        elif isinstance(item, Choice):
            pending.extend((item.cond, item.then, item.other))
        elif isinstance(item, Expr):
            if item.op in ATOMS:
                yield item
            else:
                pending.extend(item.args)


def atoms(value: Value) -> Iterator[Expr]:
    """The names, dims, axes and calls that an expression is built from, each as often as it
    occurs."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            pending.extend(reversed(item))
        elif isinstance(item, Choice):
            pending.extend((item.other, item.then, item.cond))
        elif isinstance(item, Expr):
            if item.op in ATOMS:
                yield item
            else:
                pending.extend(reversed(item.args))

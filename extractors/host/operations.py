"""Operations on values that need nothing but the values (and the heap to look into)."""

from __future__ import annotations

from extractors.host.expr import choose, compare, disjoin, is_known, is_memo, is_none, make
from extractors.host.machine import Machine
from extractors.host.values import (
    Builtin,
    Choice,
    Expr,
    External,
    Func,
    KernelValue,
    Ref,
    Tuned,
    Unknown,
    Value,
)

OPERATORS = {
    "Add": "+",
    "Sub": "-",
    "Mult": "*",
    "Div": "/",
    "FloorDiv": "//",
    "Mod": "%",
    "Pow": "**",
    "LShift": "<<",
    "RShift": ">>",
    "BitAnd": "&",
    "BitOr": "|",
    "BitXor": "^",
    "Eq": "==",
    "NotEq": "!=",
    "Lt": "<",
    "LtE": "<=",
    "Gt": ">",
    "GtE": ">=",
}


def absolute_index(owner: tuple[Value, ...] | str, key: Value) -> Value:
    """An item of a known sequence."""
    if isinstance(key, bool) or not isinstance(key, int):
        if isinstance(key, Expr):
            return make("index", owner, key)
        return Unknown("an index that is not known")
    if -len(owner) <= key < len(owner):
        return owner[key]
    return Unknown(f"index {key} of a sequence of {len(owner)}")


def slice_of(owner: Value, cut: tuple[Value, ...]) -> Value:
    """`owner[a:b:c]` of a known sequence or of a shape."""
    if any(not (end is None or isinstance(end, int)) for end in cut):
        return (
            Unknown("a slice with bounds that are not known")
            if not isinstance(owner, Expr)
            else _part(owner)
        )
    lower, upper, step = (
        end if isinstance(end, int) else None for end in (*cut, *(None,) * (3 - len(cut)))
    )
    if step == 0:
        return Unknown("a slice with step zero")
    if isinstance(owner, (tuple, str)):
        return owner[lower:upper:step]
    if isinstance(owner, Expr):
        return _part(owner, cut)
    return (
        owner
        if isinstance(owner, Unknown)
        else Unknown("a slice of something that is not a sequence")
    )


def _part(owner: Expr, cut: tuple[Value, ...] = ()) -> Value:
    if owner.op == "shape":
        return make("call", "slice", owner, *cut)
    return owner


def identical(left: Value, right: Value) -> Value:
    """`left is right`."""
    if right is None or left is None:
        return is_none(left if right is None else right)
    if isinstance(left, Choice):
        return choose(left.cond, identical(left.then, right), identical(left.other, right))
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return left if isinstance(left, Unknown) else right
    if isinstance(left, Expr) or isinstance(right, Expr):
        return compare("==", left, right)
    return left == right


def contains(machine: Machine, item: Value, box: Value) -> Value:
    """`item in box`: one comparison per member when the item is not known."""
    if isinstance(box, Ref):
        if box.kind == "dict" and not box.open:
            members: Value = tuple(machine.mapping(box.oid))
        elif box.open:
            if not isinstance(item, Ref) and item in machine.mapping(box.oid):
                return True
            return make("in", item, make("memo", f"table {box.oid}"))
        else:
            members = machine.items(box)
    else:
        members = box
    if isinstance(members, str) and isinstance(item, str):
        return item in members
    if isinstance(members, tuple):
        return _member(item, members)
    if isinstance(members, Unknown):
        return members
    return (
        make("in", item, members)
        if isinstance(members, Expr)
        else Unknown("membership in something unknown")
    )


def _member(item: Value, members: tuple[Value, ...]) -> Value:
    if is_known(item) and all(is_known(member) for member in members):
        return item in members
    if isinstance(item, (Ref, KernelValue, Func)):
        return item in members
    if isinstance(item, Expr) and all(is_known(member) for member in members):
        return make("in", item, members) if members else False
    result: Value = False
    for member in members[:32]:
        result = disjoin(result, compare("==", item, member))
    return result


def invert(value: Value) -> Value:
    """`~value`."""
    if isinstance(value, int):
        return ~value
    return value if isinstance(value, Unknown) else make("-", make("neg", value), 1)


def text_of(value: Value) -> Value:
    """`str(value)` where it can be told; an expression stays itself."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return str(value)
    if isinstance(value, Expr):
        return value
    if isinstance(value, External):
        return value.path
    return Unknown("the text of a value that is not known")


def is_callable(value: Value) -> bool:
    """Whether the value can be called for certain."""
    return isinstance(value, (Func, Builtin, KernelValue, External))


def type_test(value: Value, wanted: Value) -> Value:
    """`isinstance(value, wanted)` for Python's own types; a condition otherwise."""
    if isinstance(wanted, tuple):
        result: Value = False
        for item in wanted:
            result = disjoin(result, type_test(value, item))
        return result
    if not isinstance(wanted, Builtin):
        if isinstance(wanted, External) and isinstance(value, (int, float, str, tuple, type(None))):
            return False
        name = wanted.path if isinstance(wanted, External) else "class"
        return make("call", "isinstance", value if isinstance(value, Expr) else "?", name)
    kinds = {"int": int, "float": float, "str": str, "bool": bool, "tuple": tuple, "bytes": bytes}
    if isinstance(value, Ref):
        return value.kind == wanted.name
    if isinstance(value, (Expr, Tuned)) and not is_memo(value):
        if (
            isinstance(value, Expr)
            and value.op in ("dim", "stride", "cdiv", "//")
            and wanted.name == "int"
        ):
            return True
        return make("call", "isinstance", value if isinstance(value, Expr) else "?", wanted.name)
    if isinstance(value, (Func, KernelValue, External, Builtin)):
        return False
    if isinstance(value, Unknown):
        return value
    kind = kinds.get(wanted.name)
    return isinstance(value, kind) if kind else False

"""Python's builtin functions on known and symbolic values."""

from __future__ import annotations

import ast
from functools import partial

from extractors.host.device import OTHER_VENDORS
from extractors.host.expr import (
    binary,
    choose,
    compare,
    conjoin,
    disjoin,
    extremum,
    is_known,
    make,
    negate,
)
from extractors.host.library import Library
from extractors.host.machine import present
from extractors.host.operations import is_callable, text_of, type_test
from extractors.host.values import (
    ABSENT,
    Builtin,
    Choice,
    ClassValue,
    Expr,
    External,
    Iterator,
    Ref,
    Tuned,
    Unknown,
    Value,
)

Args = tuple[Value, ...]
Kwargs = dict[str, Value]


class BuiltinCalls(Library):
    """One method per builtin; the arguments are as in Python."""

    def _rows(self, value: Value) -> Value:
        return self.sequence(value)

    def _call_len(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        value = self.resolve(args[0])
        if isinstance(value, Expr):
            return self.rank(value.args[0]) if value.op == "shape" else make("call", "len", value)
        return self.machine.lift(
            lambda row: len(row) if isinstance(row, tuple) else Unknown("a length"),
            self._rows(value),
        )

    def _call_list(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        rows = self._rows(args[0]) if args else ()
        return self.machine.lift(self._list, rows)

    def _call_tuple(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        value = self.resolve(args[0]) if args else ()
        if isinstance(value, Expr) and value.op == "shape":
            return value
        return self._rows(value)

    def _call_set(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.set_of(args[0]) if args else self.machine.alloc("set", ())

    _call_frozenset = _call_set

    def _call_dict(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if not args:
            return self.machine.alloc("dict", dict(kwargs))
        value = self.resolve(args[0])
        if isinstance(value, Ref) and value.kind == "dict":
            joined = dict(self.machine.mapping(value.oid))
            joined.update(kwargs)
            return self.machine.alloc("dict", joined)
        return self.machine.lift(self.dict_of, value)

    def _call_iter(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return args[0]

    def _call_next(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        default = args[1] if len(args) > 1 else Unknown("next() of an empty sequence")
        return self.machine.lift(
            lambda row: self.subscript(row, 0, node) if isinstance(row, tuple) and row else default,
            self._rows(args[0]),
        )

    def _call_range(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(self._range, *args)

    def _range(self, *ends: Value) -> Value:
        if not all(isinstance(end, int) for end in ends):
            return Unknown("a range that depends on the problem")
        made = range(*[end for end in ends if isinstance(end, int)])
        if len(made) > self.machine.limits.items:
            return Unknown(f"a range of {len(made)} items")
        return tuple(made)

    def _call_enumerate(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        start = args[1] if len(args) > 1 else kwargs.get("start", 0)
        first = start if isinstance(start, int) else 0
        return self.machine.lift(
            lambda row: tuple(enumerate(row, first)) if isinstance(row, tuple) else row,
            self._rows(args[0]),
        )

    def _call_zip(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(self._zipped, *[self._rows(arg) for arg in args]) if args else ()

    def _zipped(self, *rows: Value) -> Value:
        known = [row for row in rows if isinstance(row, tuple)]
        return (
            tuple(zip(*known, strict=False))
            if len(known) == len(rows)
            else Unknown("a zip of unknown sequences")
        )

    def _call_reversed(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(
            lambda row: row[::-1] if isinstance(row, tuple) else row, self._rows(args[0])
        )

    def _call_sorted(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        ordered = self.machine.lift(
            lambda row: self.sort_row(row, kwargs, node), self._rows(args[0])
        )
        return self.machine.lift(self._list, ordered)

    def _call_map(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        rows = self._zipped_rows(args[1:])
        return self.machine.lift(lambda row: self._mapped_rows(args[0], row, node), rows)

    def _zipped_rows(self, args: Args) -> Value:
        return self.machine.lift(self._zipped, *[self._rows(arg) for arg in args])

    def _mapped_rows(self, function: Value, row: Value, node: ast.AST) -> Value:
        if not isinstance(row, tuple):
            return row
        return self._list(
            tuple(
                self.call(function, tuple(item), {}, node)
                for item in row
                if isinstance(item, tuple)
            )
        )

    def _call_filter(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(lambda row: self._kept(args[0], row, node), self._rows(args[1]))

    def _kept(self, function: Value, row: Value, node: ast.AST) -> Value:
        """Items a predicate keeps, as a list; where it cannot tell, one alternative per answer."""
        if not isinstance(row, tuple):
            return row
        target = self.machine.alloc("list", ())
        for item in row:
            verdict = self.test(
                item if function is None else self.call(function, (item,), {}, node)
            )
            if isinstance(verdict, Unknown):
                return verdict
            if isinstance(verdict, bool):
                if verdict:
                    self.append(target, item)
            else:
                self.machine.branch(verdict, partial(self.append, target, item), lambda: None)
        return target

    def _call_any(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(lambda row: self._folded(row, False), self._rows(args[0]))

    def _call_all(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(lambda row: self._folded(row, True), self._rows(args[0]))

    def _folded(self, row: Value, all_of: bool) -> Value:
        result: Value = all_of
        for item in row if isinstance(row, tuple) else ():
            verdict = self.test(item)
            if isinstance(verdict, Unknown):
                return verdict
            result = conjoin(result, verdict) if all_of else disjoin(result, verdict)
        return result

    def _call_sum(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(self._summed, self._rows(args[0]))

    def _summed(self, row: Value) -> Value:
        total: Value = 0
        for item in row if isinstance(row, tuple) else ():
            total = self.operate("+", total, item)
        return total if isinstance(row, tuple) else Unknown("a sum of unknown items")

    def _call_min(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self._extremum("min", args, kwargs, node)

    def _call_max(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self._extremum("max", args, kwargs, node)

    def _extremum(self, op: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        rows: Value = args if len(args) > 1 else self._rows(args[0])
        if "key" in kwargs:
            ordered = self.machine.lift(
                lambda row: self.sort_row(
                    row, {"key": kwargs["key"], "reverse": op == "max"}, node
                ),
                rows,
            )
            return self.machine.lift(
                lambda row: row[0] if isinstance(row, tuple) and row else Unknown(op), ordered
            )
        default = kwargs.get("default", Unknown(f"{op}() of an empty sequence"))
        return self.machine.lift(lambda row: self._best(op, row, default), rows)

    def _best(self, op: str, row: Value, default: Value) -> Value:
        if not isinstance(row, tuple):
            return Unknown(f"{op}() of an unknown sequence")
        if not row:
            return default
        row = tuple(self.resolve(item) for item in row)
        if any(isinstance(item, Expr) for item in row):
            return extremum(op, row)
        return self.machine.lift(lambda *known: extremum(op, known), *row)

    def _call_abs(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(
            lambda one: abs(one) if isinstance(one, (int, float)) else make("abs", one), args[0]
        )

    def _call_int(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(self._int, *args) if args else 0

    def _int(self, value: Value, base: Value = 10) -> Value:
        if isinstance(value, str) and isinstance(base, int):
            return int(value, base)
        if isinstance(value, (int, float)):
            return int(value)
        if isinstance(value, Expr) and value.op in (
            "dim",
            "cdiv",
            "//",
            "npow2",
            "ceil",
            "int",
            "min",
            "max",
            "axis",
            "*",
            "+",
            "-",
            "%",
        ):
            return value
        return make("int", value)

    def _call_float(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(
            lambda one: float(one) if isinstance(one, (int, float, str)) else make("float", one),
            args[0],
        )

    def _call_bool(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.test(args[0]) if args else False

    def _call_str(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(text_of, args[0]) if args else ""

    _call_repr = _call_str

    def _call_round(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.machine.lift(
            lambda one, *more: (
                round(one, *more) if is_known((one, *more)) else make("call", "round", one, *more)
            ),
            *args,
        )

    def _call_pow(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.operate("**", args[0], args[1])

    def _call_divmod(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return (self.operate("//", args[0], args[1]), self.operate("%", args[0], args[1]))

    def _call_isinstance(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        value, wanted = self.resolve(args[0]), args[1]
        if isinstance(value, Ref) and isinstance(wanted, ClassValue):
            return self.machine.mapping(value.oid).get("class of") is wanted
        return self.machine.lift(lambda one: type_test(one, wanted), value)

    def _call_callable(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return is_callable(self.resolve(args[0]))

    def _call_getattr(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        name = self.resolve(args[1])
        if not isinstance(name, str):
            return Unknown("an attribute with an unknown name")
        return self.machine.lift(lambda one: self._attribute_or(one, name, args[2:], node), args[0])

    def _attribute_or(self, owner: Value, name: str, default: Args, node: ast.AST) -> Value:
        if not self._has(owner, name) and default:
            return default[0]
        found = self.attribute(owner, name, node)
        return default[0] if default and isinstance(found, Unknown) else found

    def _has(self, owner: Value, name: str) -> bool:
        if isinstance(owner, Tuned):
            names = self.axis_names(owner.search)
            return name in names or not names
        if isinstance(owner, Ref) and owner.kind == "record":
            table = self.machine.mapping(owner.oid)
            cls = table.get("class of")
            known = isinstance(cls, ClassValue) and self.class_attribute(cls, name) is not ABSENT
            return name in table or known or "open" in table
        if owner == External("torch") and name in OTHER_VENDORS:
            return False
        return not isinstance(owner, (int, float, str, type(None)))

    def _call_hasattr(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        name = self.resolve(args[1])
        if not isinstance(name, str) or isinstance(self.resolve(args[0]), Expr):
            return Unknown("whether an object from outside has an attribute")
        return self.machine.lift(lambda one: self._has(one, name), args[0])

    def _call_setattr(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if isinstance(args[1], str):
            self.machine.lift(lambda one: self.set_attribute(one, str(args[1]), args[2]), args[0])
        return None

    def _call_id(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return ("id", args[0])

    def _call_hash(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return ("hash", args[0])

    def _call_type(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        value = self.resolve(args[0])
        names = {bool: "bool", int: "int", float: "float", str: "str", tuple: "tuple"}
        if isinstance(value, Ref) and value.kind in ("list", "dict", "set"):
            return Builtin(value.kind)
        return (
            Builtin(names[type(value)])
            if type(value) in names
            else Unknown("the type of a value from outside")
        )

    def _call_print(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return None

    def _call_vars(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        value = self.resolve(args[0]) if args else None
        if isinstance(value, Ref) and value.kind == "record":
            table = {
                key: present(item)
                for key, item in self.machine.mapping(value.oid).items()
                if key != "class of"
            }
            return self.machine.alloc("dict", table)
        return Unknown("vars() of something unknown")


__all__ = ["BuiltinCalls", "Choice", "Iterator", "binary", "choose", "compare", "negate"]

"""Evaluation of expressions."""

from __future__ import annotations

import ast

from extractors.host.assume import resolve
from extractors.host.device import PROPERTIES_OF
from extractors.host.expr import (
    binary,
    choose,
    compare,
    conjoin,
    disjoin,
    negate,
    negate_number,
)
from extractors.host.items import Items
from extractors.host.limits import OutOfBounds
from extractors.host.machine import merge, present
from extractors.host.operations import (
    OPERATORS,
    contains,
    identical,
    invert,
    text_of,
)
from extractors.host.recognise import below_power
from extractors.host.values import (
    ABSENT,
    Bound,
    Builtin,
    Choice,
    Expr,
    External,
    Frame,
    Func,
    Lazy,
    Ref,
    Unknown,
    Value,
)

BUILTINS = frozenset(
    [
        "abs",
        "all",
        "any",
        "bool",
        "callable",
        "dict",
        "divmod",
        "enumerate",
        "filter",
        "float",
        "frozenset",
        "getattr",
        "hasattr",
        "id",
        "int",
        "isinstance",
        "iter",
        "len",
        "list",
        "map",
        "max",
        "min",
        "next",
        "pow",
        "print",
        "range",
        "repr",
        "reversed",
        "round",
        "set",
        "sorted",
        "str",
        "sum",
        "tuple",
        "type",
        "zip",
        "slice",
        "setattr",
        "super",
        "vars",
        "bytes",
        "object",
        "issubclass",
        "hash",
    ]
)


class Expressions(Items):
    """Names, literals, operators, subscripts, comprehensions."""

    def eval(self, node: ast.expr, frame: Frame) -> Value:
        """The value of an expression; Unknown with a reason where the source does not tell."""
        handler = self.handlers.get(type(node))
        if handler is None:
            return Unknown(f"a {type(node).__name__} expression is not evaluated")
        machine = self.machine
        machine.deeper()
        try:
            return handler(self, node, frame)
        finally:
            machine.depth -= 1

    def _eval_Constant(self, node: ast.Constant, frame: Frame) -> Value:
        return node.value if not isinstance(node.value, complex) else Unknown("a complex number")

    def _eval_Name(self, node: ast.Name, frame: Frame) -> Value:
        return self.lookup(node.id, frame)

    def lookup(self, name: str, frame: Frame) -> Value:
        """A name from the innermost frame that has it, else a builtin."""
        at: Frame | None = frame
        machine = self.machine
        while at is not None:
            value = machine.mapping(at.oid).get(name, ABSENT)
            if value is not ABSENT:
                if isinstance(value, Choice):
                    value = resolve(present(value), machine.path)
                return self.loaded(value) if isinstance(value, Lazy) else value
            at = at.parent
        if name in BUILTINS:
            return Builtin(name)
        if name in (
            "ValueError",
            "RuntimeError",
            "Exception",
            "NotImplementedError",
            "TypeError",
            "KeyError",
        ):
            return External(f"builtins.{name}")
        return Unknown(f"the name `{name}` is not defined in the source that was read")

    def _eval_Attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        owner = self.eval(node.value, frame)
        if isinstance(owner, Unknown) and node.attr == PROPERTIES_OF:
            return External(f"torch.{PROPERTIES_OF}")
        if not isinstance(owner, Choice):
            return self.attribute(owner, node.attr, node)
        return self.machine.lift(lambda value: self.attribute(value, node.attr, node), owner)

    def _eval_BinOp(self, node: ast.BinOp, frame: Frame) -> Value:
        op = OPERATORS.get(type(node.op).__name__)
        left, right = self.eval(node.left, frame), self.eval(node.right, frame)
        covered = below_power(right) if (op, left) in (("<<", 1), ("**", 2)) else None
        if covered is not None:
            return self.rounded("npow2", covered, node)
        return self.operate(op, left, right) if op else Unknown("an operator that is not evaluated")

    def rounded(self, known: str, value: Value, node: ast.AST) -> Value:
        """An extent through a recognised helper."""
        raise NotImplementedError

    def operate(self, op: str, left: Value, right: Value) -> Value:
        """A binary operation, on every known alternative of both sides."""
        left, right = self.resolve(left), self.resolve(right)
        if (isinstance(left, Choice) and isinstance(right, Expr)) or (
            isinstance(right, Choice) and isinstance(left, Expr)
        ):
            return binary(op, left, right)
        return self.machine.lift(lambda one, two: self._combine(op, one, two), left, right)

    def _combine(self, op: str, left: Value, right: Value) -> Value:
        machine = self.machine
        if op == "|" and "dict" in (getattr(left, "kind", ""), getattr(right, "kind", "")):
            return self.merged(left, right)
        if isinstance(left, Ref) and isinstance(right, Ref) and op in ("+", "|", "&", "-"):
            return machine.lift(
                lambda a, b: self._join(op, left, a, b), machine.items(left), machine.items(right)
            )
        if isinstance(left, Ref) and left.kind == "list" and op == "*" and isinstance(right, int):
            return machine.lift(
                lambda row: self._list(binary("*", row, right)), machine.items(left)
            )
        if op == "+" and isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
        if isinstance(left, str) and op == "%":
            return text_of((left, right))
        return binary(op, left, right)

    def merged(self, left: Value, right: Value) -> Value:
        """`left | right` of two dictionaries whose keys are all known."""
        table: dict[Value, Value] = {}
        for side in (left, right):
            if not isinstance(side, Ref) or side.kind != "dict" or side.open:
                return Unknown("a dictionary joined with an unknown one")
            table.update(self.machine.mapping(side.oid))
        return self.machine.alloc("dict", table)

    def _join(self, op: str, owner: Ref, left: Value, right: Value) -> Value:
        if not isinstance(left, tuple) or not isinstance(right, tuple):
            return Unknown("collections that are not known")
        if op == "+":
            return self.machine.alloc("list", (*left, *right))
        keep = {
            "|": (*left, *(item for item in right if item not in left)),
            "&": tuple(item for item in left if item in right),
            "-": tuple(item for item in left if item not in right),
        }[op]
        return self.machine.alloc(owner.kind, keep)

    def _eval_UnaryOp(self, node: ast.UnaryOp, frame: Frame) -> Value:
        value = self.eval(node.operand, frame)
        if isinstance(node.op, ast.Not):
            verdict = self.test(value)
            return verdict if isinstance(verdict, Unknown) else negate(verdict)
        if isinstance(node.op, ast.USub):
            return self.machine.lift(negate_number, value)
        if isinstance(node.op, ast.Invert):
            return self.machine.lift(invert, value)
        return value

    def _eval_BoolOp(self, node: ast.BoolOp, frame: Frame) -> Value:
        """`a and b`, `a or b`: the deciding operand where it is known, a condition or a choice
        where not."""
        return self._bool_rest(node, 0, frame)

    def _bool_rest(self, node: ast.BoolOp, at: int, frame: Frame) -> Value:
        value = self.eval(node.values[at], frame)
        if at == len(node.values) - 1:
            return value
        is_and = isinstance(node.op, ast.And)
        verdict = self.test(value)
        if isinstance(verdict, bool):
            return self._bool_rest(node, at + 1, frame) if verdict == is_and else value
        if isinstance(verdict, Unknown):
            return verdict
        skip, rest = self.machine.branch(
            verdict if not is_and else _expr(negate(verdict)),
            lambda: value,
            lambda: self._bool_rest(node, at + 1, frame),
        )
        if skip is value and (isinstance(rest, bool) or _is_condition(rest)) and verdict == value:
            return conjoin(verdict, rest) if is_and else disjoin(verdict, rest)
        return choose(verdict, rest, value) if is_and else choose(verdict, value, rest)

    def _eval_Compare(self, node: ast.Compare, frame: Frame) -> Value:
        left = self.eval(node.left, frame)
        result: Value = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node, frame)
            result = conjoin(result, self._compare(type(op).__name__, left, right))
            if result is False:
                return False
            left = right
        if isinstance(result, Expr):
            verdict = self.machine.path.decide(result)
            return result if verdict is None else verdict
        return result

    def _compare(self, op: str, left: Value, right: Value) -> Value:
        machine = self.machine
        if op in ("Is", "IsNot"):
            same = identical(self.resolve(left), self.resolve(right))
            return same if op == "Is" else negate(same)
        if op in ("In", "NotIn"):
            found = machine.lift(lambda item, box: contains(machine, item, box), left, right)
            return found if op == "In" else negate(found)
        return machine.lift(lambda one, two: compare(OPERATORS[op], one, two), left, right)

    def _eval_IfExp(self, node: ast.IfExp, frame: Frame) -> Value:
        verdict = self.test(self.eval(node.test, frame))
        if isinstance(verdict, bool):
            return self.eval(node.body if verdict else node.orelse, frame)
        if isinstance(verdict, Unknown):
            then, other = self.eval(node.body, frame), self.eval(node.orelse, frame)
            return then if then == other else choose(verdict, then, other)
        self.asks(verdict, node.test, frame)
        left, right = self.machine.branch(
            verdict, lambda: self.eval(node.body, frame), lambda: self.eval(node.orelse, frame)
        )
        return merge(verdict, left, right)

    def _eval_Lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        return Func("<lambda>", node, frame, self.defaults(node.args, frame))

    def defaults(self, args: ast.arguments, frame: Frame) -> tuple[tuple[str, Value], ...]:
        """The default values of a signature, by parameter name."""
        named = [*args.posonlyargs, *args.args]
        rows = list(zip(reversed(named), reversed(args.defaults), strict=False))
        rows += [
            (arg, value)
            for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True)
            if value
        ]
        return tuple((arg.arg, self.eval(value, frame)) for arg, value in rows)

    def _eval_NamedExpr(self, node: ast.NamedExpr, frame: Frame) -> Value:
        value = self.eval(node.value, frame)
        self.assign(node.target, value, frame)
        return value

    def _eval_Starred(self, node: ast.Starred, frame: Frame) -> Value:
        return self.eval(node.value, frame)

    def _eval_Await(self, node: ast.Await, frame: Frame) -> Value:
        return self.eval(node.value, frame)


def _expr(value: Value) -> Expr:
    if not isinstance(value, Expr):
        raise OutOfBounds("a condition that is not an expression")
    return value


def _is_condition(value: Value) -> bool:
    return isinstance(value, Expr) and value.op in (
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "in",
        "not in",
        "and",
        "or",
        "not",
        "none",
        "call",
        "sym",
        "index",
        "attr",
    )


__all__ = ["Bound", "Expressions"]

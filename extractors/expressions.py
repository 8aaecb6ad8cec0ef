"""Expressions of a kernel as operations: calls through the dialect table, operators, subscripts,
constants."""

from __future__ import annotations

import ast
import math

from extractors.natives import normal_path
from extractors.opaque import computed, names_in
from extractors.partitions import Part, partitions
from extractors.scope import Constant, Local, Meaning, Native, Scope
from extractors.syntax.nodes import children
from extractors.writer import RegionWriter
from kb.dialects.model import Dialect, Row
from kb.ir import Literal, ParameterKind
from kb.ops import (
    BINARY_BY_SYMBOL,
    CONTRACTIONS,
    EFFECT,
    READS,
    REDUCTIONS,
    UNARY_BY_SYMBOL,
    WRITES,
    Effect,
    OpKind,
)

_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitXor: "^",
    ast.BitAnd: "&", ast.MatMult: "@", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in",
    ast.NotIn: "not in", ast.And: "and", ast.Or: "or",
}  # fmt: skip
_UNARY: dict[type[ast.AST], str] = {ast.Not: "not", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}


class Helpers:
    """The device helpers of one program, built on first call; the statement reader implements
    it."""

    def request(self, function: Local) -> str:
        """Name under which the helper stands in the program."""
        raise NotImplementedError

    def parameters(self, name: str) -> tuple[str, ...] | None:
        """Parameter names of a helper, None while nothing is known."""
        raise NotImplementedError


class ExpressionReader:
    """Turns expressions into operations of the region that `writer` has open."""

    def __init__(
        self, writer: RegionWriter, scope: Scope, dialect: Dialect, helpers: Helpers
    ) -> None:
        self.writer = writer
        self.scope = scope
        self.dialect = dialect
        self.helpers = helpers
        self.names: dict[str, str] = {}
        self.kinds: dict[str, ParameterKind] = {}

    def read(self, node: ast.expr, hint: str = "") -> str:
        """The value of an expression; `hint` names it when the expression makes a new one."""
        match node:
            case ast.Constant(value=value):
                return self._constant(node, value, hint)
            case ast.Name(id=name):
                return self._name(node, name, hint)
            case ast.Attribute():
                return self._attribute(node, hint)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operator(node, _BINARY[type(op)], (left, right), hint)
            case ast.UnaryOp():
                return self._unary(node, hint)
            case ast.BoolOp(op=op, values=values):
                return self._fold(node, _BINARY[type(op)], [self.read(v) for v in values], hint)
            case ast.Compare():
                return self._compare(node, hint)
            case ast.Call():
                return self._call(node, hint)
            case ast.Subscript():
                return self._subscript(node, hint)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                kind = OpKind.TUPLE if isinstance(node, ast.Tuple) else OpKind.LIST
                if any(isinstance(item, ast.Starred) for item in elements):
                    return self._opaque(node, "starred element", elements, hint)
                items = [("item", self.read(item)) for item in elements]
                return self.writer.add(kind, items, node, hint=hint)
            case ast.IfExp():
                return self._conditional(node, hint)
        return self._opaque(node, type(node).__name__, children(node), hint)

    def is_constexpr(self, annotation: ast.expr) -> bool:
        """True when an annotation says that the value is known at compile time."""
        base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        meaning = self.scope.resolve(base)
        path = normal_path(meaning.path) if isinstance(meaning, Native) else ""
        return path in self.dialect.constexpr_annotations

    # -- leaves

    def _constant(self, node: ast.expr, value: object, hint: str, name: str = "") -> str:
        if value is not None and not isinstance(value, int | float | bool | str):
            shown = "..." if value is Ellipsis else repr(type(value).__name__)
            return self._opaque(node, f"constant {shown}", (), hint)
        if isinstance(value, float) and math.isnan(value):
            value = math.nan  # the one NaN that equals itself by identity
        attributes: list[tuple[str, Literal]] = [("value", value)]
        if name:
            attributes.append(("constant_name", name))
        return self.writer.add(OpKind.CONST, (), node, attributes, hint)

    def _name(self, node: ast.expr, name: str, hint: str) -> str:
        if name in self.names:
            return self.names[name]
        return self._meaning(node, self.scope.lookup(name), name, hint)

    def _meaning(self, node: ast.expr, meaning: Meaning | None, text: str, hint: str) -> str:
        if isinstance(meaning, Constant):
            short = text.rpartition(".")[2]
            value = meaning.value
            plain = isinstance(value, float) and (math.isinf(value) or math.isnan(value))
            if isinstance(value, tuple):
                items = [("item", self._constant(node, item, "")) for item in value]
                return self.writer.add(OpKind.TUPLE, items, node, hint=hint)
            return self._constant(node, value, hint, "" if plain else short)
        if isinstance(meaning, Local):
            callee = self.helpers.request(meaning)
            return self.writer.add(OpKind.FUNCTION, (), node, [("callee", callee)], hint)
        if isinstance(meaning, Native):
            path = normal_path(meaning.path)
            if path in self.dialect.dtypes:
                name = self.dialect.dtypes[path]
                return self.writer.add(OpKind.DTYPE, (), node, [("name", name)], hint)
            if path in self.dialect.enums:
                name = self.dialect.enums[path]
                return self.writer.add(OpKind.ENUM, (), node, [("name", name)], hint)
            if path in self.dialect.by_path:
                return self.writer.add(OpKind.FUNCTION, (), node, [("native", path)], hint)
        return self._opaque(node, text, (), hint)

    def _attribute(self, node: ast.Attribute, hint: str) -> str:
        limit = self.scope.resolve(node) if isinstance(node.value, ast.Call) else None
        if isinstance(limit, Constant):  # of a number format
            return self._constant(node, limit.value, hint)
        if not self._rooted_in_value(node):
            return self._meaning(node, self.scope.resolve(node), ast.unparse(node), hint)
        base = self.read(node.value)
        if node.attr == "T" and base not in self.kinds:  # a field of a parameter has its own name
            return self.writer.add(
                OpKind.TRANSPOSE, [("x", base)], node, [("spelling", ".T")], hint
            )
        kind = {"shape": OpKind.SHAPE, "dtype": OpKind.DTYPE_OF}.get(node.attr, OpKind.ATTRIBUTE)
        attributes = [("name", node.attr)] if kind is OpKind.ATTRIBUTE else []
        return self.writer.add(kind, [("x", base)], node, attributes, hint)

    def _rooted_in_value(self, node: ast.expr) -> bool:
        """True when the expression starts from a value of the kernel, not from a module-level
        name."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return not isinstance(node, ast.Name) or node.id in self.names

    # -- operators

    def _operator(
        self, node: ast.expr, symbol: str, sides: tuple[ast.expr, ast.expr], hint: str
    ) -> str:
        # Long sums nest to the left: read the chain without recursion.
        chain: list[tuple[ast.expr, str, ast.expr]] = [(node, symbol, sides[1])]
        left = sides[0]
        while isinstance(left, ast.BinOp):
            chain.append((left, _BINARY[type(left.op)], left.right))
            left = left.left
        value = self.read(left)
        for where, text, right in reversed(chain):
            operands = [("lhs", value), ("rhs", self.read(right))]
            kind = BINARY_BY_SYMBOL[text].kind
            value = self.writer.add(kind, operands, where, hint=hint if where is node else "")
        return value

    def _fold(self, node: ast.expr, symbol: str, values: list[str], hint: str) -> str:
        result = values[0]
        for index, value in enumerate(values[1:], start=2):
            last = hint if index == len(values) else ""
            kind = BINARY_BY_SYMBOL[symbol].kind
            result = self.writer.add(kind, [("lhs", result), ("rhs", value)], node, hint=last)
        return result

    def _unary(self, node: ast.UnaryOp, hint: str) -> str:
        operand = node.operand
        if isinstance(node.op, ast.USub) and isinstance(operand, ast.Constant):
            if isinstance(operand.value, int | float) and not isinstance(operand.value, bool):
                return self._constant(node, -operand.value, hint)
        kind = UNARY_BY_SYMBOL[_UNARY[type(node.op)]].kind
        return self.writer.add(kind, [("x", self.read(operand))], node, hint=hint)

    def _compare(self, node: ast.Compare, hint: str) -> str:
        values = [self.read(item) for item in (node.left, *node.comparators)]
        single = len(node.ops) == 1
        parts: list[str] = []
        for op, left, right in zip(node.ops, values, values[1:], strict=False):
            kind = BINARY_BY_SYMBOL[_BINARY[type(op)]].kind
            operands = [("lhs", left), ("rhs", right)]
            parts.append(self.writer.add(kind, operands, node, hint=hint if single else ""))
        return parts[0] if single else self._fold(node, "and", parts, hint)

    def _conditional(self, node: ast.IfExp, hint: str) -> str:
        condition = self.read(node.test)
        regions = []
        for branch in (node.body, node.orelse):
            with self.writer.region() as opened:
                self.writer.finish(OpKind.YIELD, [("value", self.read(branch))], branch)
            regions.append(opened.region)
        operands = [("condition", condition)]
        return self.writer.add(
            OpKind.IF_EXPRESSION, operands, node, hint=hint, regions=tuple(regions)
        )

    # -- subscripts

    def _subscript(self, node: ast.Subscript, hint: str) -> str:
        base = self.read(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        operands = [("x", base)]
        pattern: list[str] = []
        for part in parts:
            match part:
                case ast.Slice(lower=lower, upper=upper, step=step):
                    text = ":".join("#" if bound else "" for bound in (lower, upper))
                    text += ":#" if step else ""
                    operands += [("index", self.read(b)) for b in (lower, upper, step) if b]
                    pattern.append(text)
                case ast.Constant(value=None):
                    pattern.append("None")
                case ast.Constant(value=value) if value is Ellipsis:
                    pattern.append("...")
                case ast.Starred():
                    return self._opaque(node, "starred index", (), hint)
                case _:
                    operands.append(("index", self.read(part)))
                    pattern.append("#")
        text = ",".join(pattern) + (
            "," if isinstance(node.slice, ast.Tuple) and len(parts) == 1 else ""
        )
        return self.writer.add(OpKind.SUBSCRIPT, operands, node, [("pattern", text)], hint)

    # -- calls

    def _call(self, node: ast.Call, hint: str) -> str:
        starred = any(isinstance(a, ast.Starred) for a in node.args)
        if starred or any(keyword.arg is None for keyword in node.keywords):
            return self._opaque(node, ast.unparse(node.func), children(node)[1:], hint)
        function = node.func
        if isinstance(function, ast.Attribute) and self._rooted_in_value(function):
            return self._method(node, function, hint)
        if isinstance(function, ast.Name) and function.id in self.names:
            return self._opaque(node, "call of a value", children(node), hint)
        if isinstance(function, ast.Name) and not self.scope.binds(function.id):
            constant = None if names_in(node) & {*self.names} else self.scope.evaluate(node)
            if isinstance(constant, int | float):
                return self._constant(node, constant, hint)
            row = self.dialect.by_path.get(function.id)
            return self._row_or_opaque(node, row, function.id, hint)
        meaning = self.scope.resolve(function)
        if isinstance(meaning, Local):
            return self._helper(node, meaning, hint)
        if isinstance(meaning, Native):
            path = normal_path(meaning.path)
            if path in self.dialect.dtypes and len(node.args) == 1 and not node.keywords:
                dtype = self._meaning(function, meaning, path, "")
                operands = [("x", self.read(node.args[0])), ("dtype", dtype)]
                form = [("spelling", "constructor")]
                return self.writer.add(OpKind.CAST, operands, node, form, hint)
            return self._row_or_opaque(node, self.dialect.by_path.get(path), path, hint)
        return self._opaque(node, ast.unparse(function), children(node)[1:], hint)

    def _row_or_opaque(self, node: ast.Call, row: Row | None, path: str, hint: str) -> str:
        if row is None:
            return self._opaque(node, path, children(node)[1:], hint)
        return self._apply(node, row, [], hint)

    def _method(self, node: ast.Call, function: ast.Attribute, hint: str) -> str:
        row = self.dialect.by_path.get(f".{function.attr}")
        if row is None:
            return self._opaque(node, f".{function.attr}", children(node), hint)
        return self._apply(node, row, [self.read(function.value)], hint)

    def _apply(self, node: ast.Call, row: Row, receiver: list[str], hint: str) -> str:
        """One table row: arguments become operands by role; an unknown keyword keeps its own
        name."""
        if row.kind is OpKind.WARP_PARTITION:
            return self._partitions(node, hint)
        debug = EFFECT.get(row.kind) is Effect.DEBUG
        places = [p for p in row.parameters if p.positional]
        values: list[str | ast.expr] = [*receiver, *node.args]
        operands: list[tuple[str, str]] = []
        for index, value in enumerate(values):
            variadic = places and index >= len(places) - 1 and places[-1].variadic
            if index >= len(places) and not variadic:
                what = f"{row.path} with {len(values)} arguments"
                return self._opaque(node, what, children(node), hint)
            role = places[-1].role if variadic else places[index].role
            self._operand(operands, role, value, debug)
        natives = {p.native: p.role for p in row.parameters}
        for keyword in node.keywords:
            name = keyword.arg or ""
            self._operand(operands, natives.get(name, name), keyword.value, debug)
        missing = row.needed - {role for role, _ in operands}
        if missing or (not operands and row.kind in _OF_SOMETHING):
            what = f"{row.path} with {len(operands)} arguments"
            return self._opaque(node, what, children(node), hint)
        if row.kind in (OpKind.RANGE, OpKind.STATIC_RANGE):
            operands = _range_roles(operands)
        roles = [parameter.role for parameter in row.parameters]
        operands.sort(key=lambda o: roles.index(o[0]) if o[0] in roles else len(roles))
        preferred = self.dialect.by_kind[row.kind][0] is row and row.kind not in _OPERATORS
        attributes: list[tuple[str, Literal]] = [] if preferred else [("spelling", row.path)]
        attributes += row.attributes
        return self.writer.add(row.kind, operands, node, attributes, hint)

    def _operand(
        self, operands: list[tuple[str, str]], role: str, value: str | ast.expr, debug: bool
    ) -> None:
        if isinstance(value, ast.JoinedStr) and debug:
            return  # a message with holes says nothing about the program
        operands.append((role, value if isinstance(value, str) else self.read(value)))

    def _helper(self, node: ast.Call, function: Local, hint: str) -> str:
        callee = self.helpers.request(function)
        names = [a.arg for a in (*function.node.args.posonlyargs, *function.node.args.args,
                                 *function.node.args.kwonlyargs)]  # fmt: skip
        if len(node.args) > len(names):
            return self._opaque(node, f"{callee} with too many arguments", children(node)[1:], hint)
        operands = [(name, self.read(arg)) for name, arg in zip(names, node.args, strict=False)]
        operands += [(str(k.arg), self.read(k.value)) for k in node.keywords]
        return self.writer.add(OpKind.CALL, operands, node, [("callee", callee)], hint)

    def _partitions(self, node: ast.Call, hint: str) -> str:
        """Functions that partitions of the warps of a block run: a branch on the partition, the
        default one first; the others may have registers of their own."""
        found = partitions(node, self.scope)
        if found is None:
            return self._opaque(node, ast.unparse(node.func), children(node)[1:], hint)
        own = self.writer.add(OpKind.WARP_PARTITION, (), node)
        return self._partition(own, found, 0, hint)

    def _partition(self, own: str, left: list[Part], number: int, hint: str) -> str:
        part, *rest = left
        call = part.call
        if not rest:
            return self._part(part)
        last = self._constant(call, number, "")
        test = self.writer.add(OpKind.EQ, [("lhs", own), ("rhs", last)], call)
        regions = []
        for follows in (False, True):
            with self.writer.region() as opened:
                ran = self._partition(own, rest, number + 1, "") if follows else self._part(part)
                self.writer.finish(OpKind.YIELD, [("value", ran)], call)
            regions.append(opened.region)
        operands = [("condition", test)]
        return self.writer.add(OpKind.IF, operands, call, hint=hint, regions=tuple(regions))

    def _part(self, part: Part) -> str:
        if part.registers is not None:
            budget = [("registers", self.read(part.registers))]
            self.writer.finish(OpKind.REGISTER_BUDGET, budget, part.registers)
        return self._call(part.call, "")

    def _opaque(self, node: ast.expr, what: str, inner: object, hint: str) -> str:
        """What the table does not know: kept with its span and the values it reads, never guessed;
        what a call is handed is computed first."""
        reads: list[tuple[str, str]] = []
        for child in inner if isinstance(inner, list | tuple) else ():
            given = child.value if isinstance(child, ast.keyword) else child
            if isinstance(node, ast.Call) and computed(given):
                reads.append(("read", self.read(given)))
                continue
            for name in sorted(names_in(child)):
                if name in self.names and ("read", self.names[name]) not in reads:
                    reads.append(("read", self.names[name]))
        return self.writer.add(OpKind.OPAQUE, reads, node, [("what", what[:120])], hint)


def _range_roles(operands: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """range(n) gives the upper bound, not the lower."""
    if any(role == "high" for role, _ in operands):
        return operands
    return [("high" if role == "low" else role, value) for role, value in operands]


_OF_SOMETHING = READS | WRITES | REDUCTIONS | CONTRACTIONS
"""Calls that mean nothing without arguments."""

_OPERATORS = frozenset(row.kind for row in (*BINARY_BY_SYMBOL.values(), *UNARY_BY_SYMBOL.values()))

"""One operation as a Python expression, through the rows of the dialect."""

from __future__ import annotations

from typing import Protocol

from generators.source.spelling import ATOM, BY_KEYWORD, CONDITIONAL, Spelling, Text
from kb.dialects.model import Row
from kb.errors import CannotEmit
from kb.ir import Kernel, Op
from kb.ops import BINARY_BY_KIND, COMPARISONS, UNARY_BY_KIND, OpKind


class Expressions(Protocol):
    """Where the text of an operand comes from."""

    def expression(self, value: str) -> Text:
        """Text of a value."""


class CallWriter:
    """Writes operations of one program."""

    def __init__(self, kernel: Kernel, spelling: Spelling, values: Expressions) -> None:
        self.kernel = kernel
        self.spelling = spelling
        self.values = values

    def text(self, op: Op) -> Text:
        """The expression of an operation with one result or none."""
        match op.kind:
            case OpKind.CONST:
                return self.spelling.constant(op)
            case OpKind.DTYPE:
                return Text(self.spelling.dtype(str(op.attribute("name")), op))
            case OpKind.ENUM:
                return Text(self.spelling.enum(str(op.attribute("name")), op))
            case OpKind.FUNCTION:
                native = op.attribute("native")
                return Text(
                    self.spelling.native(native)
                    if isinstance(native, str)
                    else str(op.attribute("callee"))
                )
            case OpKind.TUPLE | OpKind.LIST:
                return self._sequence(op)
            case OpKind.COPY:
                return self.values.expression(op.inputs[0])
            case OpKind.SHAPE | OpKind.DTYPE_OF | OpKind.ATTRIBUTE:
                name = {OpKind.SHAPE: "shape", OpKind.DTYPE_OF: "dtype"}.get(
                    OpKind(op.kind), str(op.attribute("name"))
                )
                return Text(f"{self._atom(op.inputs[0])}.{name}")
            case OpKind.TRANSPOSE if op.attribute("spelling") == ".T":
                return Text(f"{self._atom(op.inputs[0])}.T")
            case OpKind.SUBSCRIPT:
                return self._subscript(op)
            case OpKind.IF_EXPRESSION:
                return self._conditional(op)
            case OpKind.CALL:
                return self._call(op)
            case OpKind.OPAQUE | OpKind.UNDEF:
                raise CannotEmit(
                    f"`{op.attribute('what')}` was not understood when it was read.",
                    where=str(op.span),
                    hint="Only programs without opaque operations can be written.",
                )
            case OpKind.STATIC_ASSERT if op.attribute("spelling") == "assert":
                return Text(f"assert {self.values.expression(op.inputs[0]).text}")
            case OpKind.CAST if op.attribute("spelling") == "constructor":
                value, dtype = (self.values.expression(name) for name in op.inputs)
                return Text(f"{dtype.within(ATOM)}({value.text})")
        return self._operator(op) or self._row(op)

    def _atom(self, value: str) -> str:
        return self.values.expression(value).within(ATOM)

    def _sequence(self, op: Op) -> Text:
        items = [self.values.expression(value).text for value in op.inputs]
        if op.kind == OpKind.LIST:
            return Text(f"[{', '.join(items)}]")
        return Text(f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})")

    def _subscript(self, op: Op) -> Text:
        base, *indices = op.inputs
        remaining = iter(indices)
        parts: list[str] = []
        for part in str(op.attribute("pattern")).split(","):
            pieces = [
                self.values.expression(next(remaining)).text if piece == "#" else piece
                for piece in part.split(":")
            ]
            parts.append(":".join(pieces))
        text = ", ".join(parts).strip()
        return Text(f"{self._atom(base)}[{text}]")

    def _conditional(self, op: Op) -> Text:
        then, other = (self.values.expression(region.ops[-1].inputs[0]) for region in op.regions)
        condition = self.values.expression(op.inputs[0])
        text = f"{then.within(2)} if {condition.within(2)} else {other.within(CONDITIONAL)}"
        return Text(text, CONDITIONAL)

    def _operator(self, op: Op) -> Text | None:
        """The operator form, when the operation has one and carries nothing that an operator cannot
        say."""
        if op.attribute("spelling") is not None:
            row = self.spelling.dialect.by_path.get(str(op.attribute("spelling")))
            if row is not None and row.kind == op.kind:
                return None
        roles = tuple(role for role, _ in op.operands)
        if roles == ("lhs", "rhs") and op.kind in BINARY_BY_KIND:
            return self._binary(op)
        if roles == ("x",) and op.kind in UNARY_BY_KIND:
            row_ = UNARY_BY_KIND[op.kind]
            gap = " " if row_.symbol.isalpha() else ""
            inner = self.values.expression(op.inputs[0]).within(row_.precedence)
            return Text(f"{row_.symbol}{gap}{inner}", row_.precedence)
        return None

    def _binary(self, op: Op) -> Text:
        row = BINARY_BY_KIND[op.kind]
        left, right = (self.values.expression(value) for value in op.inputs)
        strict = op.kind in COMPARISONS or op.kind in (OpKind.POW, OpKind.IN, OpKind.IS)
        low = row.precedence + 1 if strict else row.precedence
        text = f"{left.within(low)} {row.symbol} {right.within(row.precedence + 1)}"
        return Text(text, row.precedence)

    def _call(self, op: Op) -> Text:
        callee = str(op.attribute("callee"))
        helper = self.kernel.helper(callee)
        if helper is None:
            raise CannotEmit(f"helper `{callee}` is not part of the program.", where=str(op.span))
        given = dict(op.operands)
        arguments: list[str] = []
        gap = False
        for name in helper.parameter_names:
            if name not in given:
                gap = True
            else:
                text = self.values.expression(given[name]).text
                arguments.append(f"{name}={text}" if gap else text)
        return Text(f"{callee}({', '.join(arguments)})")

    def _row(self, op: Op) -> Text:
        row = self.spelling.row(op)
        operands = list(op.operands)
        head = self.spelling.native(row.path) if "." in row.path and not row.is_method else row.path
        if row.is_method:
            role = row.parameters[0].role
            receiver = next((v for r, v in operands if r == role), None)
            if receiver is None:
                raise CannotEmit(f"`{op.kind}` without {role}.", where=str(op.span))
            operands.remove((role, receiver))
            head = f"{self._atom(receiver)}{row.path}"
        return Text(f"{head}({', '.join(self._arguments(op, row, operands))})")

    def _arguments(self, op: Op, row: Row, operands: list[tuple[str, str]]) -> list[str]:
        written: list[str] = []
        positional = True
        skipped = row.parameters[1:] if row.is_method else row.parameters
        absent_low = op.kind in (OpKind.RANGE, OpKind.STATIC_RANGE)
        for parameter in skipped:
            values = [value for role, value in operands if role == parameter.role]
            if not values:
                if not (absent_low and parameter.role == "low"):
                    positional = False
                continue
            keyword = not positional or not parameter.positional
            keyword = keyword or (op.kind, parameter.role) in BY_KEYWORD
            if parameter.variadic and parameter.positional:
                keyword = False
            for value in values:
                text = self.values.expression(value).text
                written.append(f"{parameter.native}={text}" if keyword else text)
            positional = positional and not keyword
        known = {parameter.role for parameter in row.parameters}
        for role, value in operands:
            if role not in known:
                written.append(f"{role}={self.values.expression(value).text}")
        return written

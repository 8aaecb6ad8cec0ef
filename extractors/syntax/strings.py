"""Strings, bytes and formatted strings; neighbours are joined, as the language says."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import libcst as cst

from extractors.syntax.literals import string_value
from extractors.syntax.places import Places

_NO_CONVERSION = -1
_Simple = cst.SimpleString
_Pieces = Iterable[cst.BaseFormattedStringContent]


class StringReader(ABC):
    """Converts string literals; the expressions inside braces come back to `expression`."""

    def __init__(self, places: Places) -> None:
        self.places = places

    @abstractmethod
    def expression(self, node: cst.CSTNode) -> ast.expr:
        """The `ast` form of any libcst expression."""

    def string(self, node: cst.BaseString) -> ast.expr:
        """One literal, or neighbours joined into one."""
        parts = _flattened(node)
        place = self.places.of(node)
        kind = "u" if isinstance(parts[0], _Simple) and parts[0].prefix == "u" else None
        if not all(isinstance(part, _Simple) for part in parts):
            values = self._merged([value for part in parts for value in self._values(part)], kind)
            return self.places.put(ast.JoinedStr(values=values), place)
        texts = [self._simple(part) for part in parts]
        value = b"".join(texts) if isinstance(texts[0], bytes) else "".join(texts)
        return self.places.put(ast.Constant(value=value, kind=kind), place)

    def _simple(self, node: Any) -> Any:
        quotes, text = len(node.quote), node.value
        prefix = node.prefix
        body = text[len(prefix) + quotes : -quotes]
        return self._decoded(node, prefix, body)

    def _decoded(self, node: cst.CSTNode, prefix: str, body: str) -> str | bytes:
        try:
            return string_value(prefix, body)
        except ValueError as error:
            hint = "Correct the literal, or write a raw string."
            raise self.places.problem(node, f"{error}.", hint) from None

    def _values(self, part: cst.BaseString) -> Sequence[ast.expr]:
        if isinstance(part, _Simple):
            new = ast.Constant(value=self._simple(part), kind=None)
            return [self.places.put(new, self.places.of(part))]
        if not isinstance(part, cst.FormattedString):
            hint = "Write it as an f-string."
            raise self.places.problem(part, "Template strings (t-strings) are not read.", hint)
        return self._pieces(part.parts, part.prefix)

    def _pieces(self, parts: _Pieces, prefix: str) -> list[ast.expr]:
        found: list[ast.expr] = []
        for part in parts:
            if isinstance(part, cst.FormattedStringText):
                text = part.value.replace("{{", "{").replace("}}", "}")
                new = ast.Constant(value=self._decoded(part, prefix, text), kind=None)
                found.append(self.places.put(new, self.places.of(part)))
            elif isinstance(part, cst.FormattedStringExpression):
                found += self._replacement(part, prefix)
        return found

    def _replacement(self, part: cst.FormattedStringExpression, prefix: str) -> list[ast.expr]:
        place = self.places.of(part)
        conversion = _NO_CONVERSION if part.conversion is None else ord(part.conversion)
        specification: ast.expr | None = None
        if part.format_spec is not None:
            values = self._merged(self._pieces(part.format_spec, prefix), None)
            specification = self.places.put(ast.JoinedStr(values=values), place)
        shown: list[ast.expr] = []
        if part.equal is not None:
            if part.conversion is None and specification is None:
                conversion = ord("r")
            end = self.places.of(part.whitespace_after_expression)[2:]
            text = self.places.text((place[0], place[1] + 1), end)
            shown = [self.places.put(ast.Constant(value=text, kind=None), place)]
        value = self.expression(part.expression)
        new = ast.FormattedValue(value=value, conversion=conversion, format_spec=specification)
        return [*shown, self.places.put(new, place)]

    def _merged(self, values: Sequence[ast.expr], kind: str | None) -> list[ast.expr]:
        """The same values without empty texts and with neighbouring texts as one."""
        merged: list[ast.expr] = []
        for value in values:
            before = merged[-1] if merged else None
            if not isinstance(value, ast.Constant):
                merged.append(value)
            elif isinstance(before, ast.Constant):
                before.value = str(before.value) + str(value.value)
                before.end_lineno, before.end_col_offset = value.end_lineno, value.end_col_offset
            elif value.value:
                value.kind = kind
                merged.append(value)
        return merged


def _flattened(node: cst.BaseString) -> list[cst.BaseString]:
    parts: list[cst.BaseString] = []
    waiting: list[cst.BaseString] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, cst.ConcatenatedString):
            waiting += [one.right, one.left]
        else:
            parts.append(one)
    return parts

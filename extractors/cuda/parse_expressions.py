"""Expressions and types of the syntax tree as nodes of extractors.cuda.nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from extractors.cuda import nodes as n
from extractors.cuda.binaries import behind_start, binary, called_behind, cast, compared, element
from extractors.cuda.compound import assign
from extractors.cuda.grammar import declarator_in, points
from extractors.cuda.macros import MARK
from extractors.cuda.misread import call_in_template, comparison
from extractors.cuda.numerals import floating
from extractors.cuda.pack_names import count_of
from extractors.cuda.preprocess import Prepared

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax

_CASTS = {
    "static_cast": "static", "reinterpret_cast": "reinterpret", "const_cast": "const",
    "bit_cast": "bit", "std::bit_cast": "bit", "dynamic_cast": "static",
}  # fmt: skip
_NUMBER = re.compile(
    r"(?P<hex>0[xX][0-9a-fA-F]+(?![.pP\w]*[pP]))|(?P<bin>0[bB][01]+)|(?P<float>\d*\.\d*(?:[eE][-+]?\d+)?"
    r"|\d+[eE][-+]?\d+|0[xX][0-9a-fA-F.]+[pP][-+]?\d+)|(?P<oct>0[0-7]+)|(?P<int>\d+)"
)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "r": "\r", "0": "\0"}
MAX_TEXT = 160


class ExpressionBuilder:
    """Builds nodes of one prepared file."""

    def __init__(self, prepared: Prepared, path: str) -> None:
        self.prepared = prepared
        self.path = path

    def at(self, node: Syntax) -> n.Place:
        """Where a node stands in the file."""
        (row, column), (end_row, end_column) = node.start_point, node.end_point
        line = self.prepared.line(row, column)
        end = self.prepared.line(end_row, max(end_column - 1, 0))
        return n.Place(line, column, max(line, end), self.path)

    def text(self, node: Syntax | None) -> str:
        """Source text in one line."""
        if node is None or node.text is None:
            return ""
        text = node.text.decode("ascii", "replace")
        if text.isidentifier():
            return text
        return " ".join((MARK.sub("", text) if "/*@" in text else text).split())

    # -- expressions

    def expression(self, node: Syntax | None) -> n.Expr:
        """The expression of a node; Unread for a form that is not known."""
        if node is None:
            return n.Unread(n.Place(0, 0, 0, self.path), "nothing")
        build = _BUILDERS.get(node.type)
        if build is not None:
            return build(self, node)
        return self.unread(node)

    def unread(self, node: Syntax) -> n.Unread:
        """A form without a node of its own, with the expressions in it."""
        kept = [c for c in node.named_children if c.type in _BUILDERS][:40]
        inner = tuple(self.expression(child) for child in kept)
        what = "syntax error" if node.type == "ERROR" else node.type
        return n.Unread(self.at(node), f"{what}: {self.text(node)[:MAX_TEXT]}", inner)

    def _name(self, node: Syntax) -> n.Expr:
        return n.Name(self.at(node), self.text(node))

    def _qualified(self, node: Syntax) -> n.Expr:
        """`a::b<c>`: the arguments are those of the last part."""
        last = node
        scope: n.CType | None = None
        while last.type == "qualified_identifier":
            around = last.child_by_field_name("scope")
            if around is not None and around.type in ("template_type", "decltype"):
                scope = self.written(around)
            inner = last.child_by_field_name("name")
            if inner is None:
                break
            last = inner
        while last.type in ("dependent_name",) and last.named_children:
            last = last.named_children[-1]
        if last.type in ("template_function", "template_type", "template_method"):
            base = last.child_by_field_name("name")
            start = node.start_byte
            whole = (node.text or b"").decode("ascii", "replace")
            end = (base.end_byte if base else last.end_byte) - start
            name = "".join(MARK.sub("", whole[:end]).split())
            return n.Name(self.at(node), name, self._template_arguments(last), scope)
        return n.Name(self.at(node), "".join(self.text(node).split()), (), scope)

    def _template(self, node: Syntax) -> n.Expr:
        name = self.text(node.child_by_field_name("name"))
        return n.Name(self.at(node), name, self._template_arguments(node))

    def _template_arguments(self, node: Syntax) -> tuple[n.CType | n.Expr, ...]:
        found = node.child_by_field_name("arguments")
        given = found.named_children if found else ()
        return tuple(self.argument(child) for child in given if child.type != "comment")

    def argument(self, node: Syntax) -> n.CType | n.Expr:
        """A template argument: a type or a value."""
        if node.type == "type_descriptor":
            return call_in_template(self, node) or self.descriptor(node)
        pack = node.named_children[0] if node.type == "parameter_pack_expansion" else None
        if pack is not None and pack.type == "type_descriptor":
            found = self.unread(node)
            return n.Unread(found.at, found.what, (n.Name(found.at, self.text(pack)),))
        return self.expression(node)

    def _number(self, node: Syntax) -> n.Expr:
        text = self.text(node).replace("'", "")
        sign = -1 if text.startswith("-") else 1
        text = text.removeprefix("-").strip()
        found = _NUMBER.match(text)
        if found is None:
            return self.unread(node)
        suffix = text[found.end() :].lower()
        digits = found.group()
        if found.group("float") or (suffix.startswith("f") and found.group("int")):
            return n.Constant(
                self.at(node), sign * floating(digits), "f32" if "f" in suffix else "f64"
            )
        base = 16 if found.group("hex") else 2 if found.group("bin") else 8
        value = sign * int(digits, 10 if found.group("int") else base)
        width = "64" if suffix.count("l") else "32"
        return n.Constant(self.at(node), value, f"{'u' if 'u' in suffix else 'i'}{width}")

    def _string(self, node: Syntax) -> n.Expr:
        return n.Constant(self.at(node), self.string(node), "str")

    def string(self, node: Syntax) -> str:
        """What a string literal holds, concatenated parts joined."""
        parts: list[str] = []
        pending = [node]
        while pending:
            current = pending.pop(0)
            if current.type == "escape_sequence":
                code = self.text(current)[1:]
                parts.append(_ESCAPES.get(code, ""))
            elif current.type in ("string_content", "raw_string_content"):
                parts.append((current.text or b"").decode("ascii", "replace"))
            else:
                pending = [*current.named_children, *pending]
        return "".join(parts)

    def _truth(self, node: Syntax) -> n.Expr:
        return n.Constant(self.at(node), node.type == "true", "i1")

    def _null(self, node: Syntax) -> n.Expr:
        return n.Constant(self.at(node), None, "null")

    def _inner(self, node: Syntax) -> n.Expr:
        named = [child for child in node.named_children if child.type != "comment"]
        return self.expression(named[0]) if len(named) == 1 else self.unread(node)

    def _unary(self, node: Syntax) -> n.Expr:
        operator = self.text(node.child_by_field_name("operator"))
        argument = self.expression(node.child_by_field_name("argument"))
        if isinstance(argument, n.Constant) and operator == "-":
            if isinstance(argument.value, int | float) and argument.dtype != "i1":
                return n.Constant(self.at(node), -argument.value, argument.dtype)
        operator = {"not": "!"}.get(operator, operator)
        return n.Unary(self.at(node), operator, behind_start(operator, argument))

    def _comma(self, node: Syntax) -> n.Expr:
        left, right = (self.expression(node.child_by_field_name(s)) for s in ("left", "right"))
        return n.Binary(self.at(node), ",", left, right)

    def _assign(self, node: Syntax) -> n.Expr:
        if (asked := comparison(self, node)) is not None:
            return asked
        operator = self.text(node.child_by_field_name("operator")).removesuffix("=")
        target, value = (self.expression(node.child_by_field_name(f)) for f in ("left", "right"))
        return assign(self.at(node), operator, target, value)

    def _update(self, node: Syntax) -> n.Expr:
        operator = self.text(node.child_by_field_name("operator"))
        argument = node.child_by_field_name("argument")
        postfix = argument is not None and argument.start_byte == node.start_byte
        one = n.Constant(self.at(node), 1, "i32")
        return n.Assign(self.at(node), operator[:1], self.expression(argument), one, postfix)

    def _conditional(self, node: Syntax) -> n.Expr:
        parts = [node.child_by_field_name(f) for f in ("condition", "consequence", "alternative")]
        condition, then, other = (self.expression(part) for part in parts)
        while isinstance(condition, n.Unary) and condition.operator == "!":
            condition, then, other = condition.operand, other, then
        return n.Choice(self.at(node), condition, then, other)

    def _call(self, node: Syntax) -> n.Expr:
        sides = compared(self, node)
        if sides is not None:
            left = self.expression(sides[0])
            return n.Binary(self.at(node), "<", left, called_behind(self, node, sides))
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        launch: tuple[n.Expr, ...] = ()
        for child in node.named_children:
            if child.type == "kernel_call_syntax":
                parts = [part for part in child.named_children if part.type != "comment"]
                launch = tuple(map(self.expression, parts))
        given = self.arguments(arguments)
        if function is not None and function.type in ("primitive_type", "sized_type_specifier"):
            kind = n.CType(self.text(function))
            return self._constructed(node, kind, given)
        callee = self.expression(function)
        if isinstance(callee, n.Name) and callee.text in _CASTS and callee.arguments:
            kind_ = callee.arguments[0]
            if len(given) == 1:
                kind_ = kind_ if isinstance(kind_, n.CType) else n.CType(_spelled(kind_))
                return n.Cast(self.at(node), kind_, given[0], _CASTS[callee.text])
        return n.Call(self.at(node), callee, given, launch)

    def _constructed(self, node: Syntax, kind: n.CType, given: tuple[n.Expr, ...]) -> n.Expr:
        if len(given) == 1:
            return n.Cast(self.at(node), kind, given[0], "construct")
        return n.Braces(self.at(node), given, kind)

    def arguments(self, node: Syntax | None) -> tuple[n.Expr, ...]:
        """The arguments of a call or the items of a list in braces; the grammar finds an error in
        the word before a type that is made in place."""
        if node is None:
            return ()
        return tuple(
            self.expression(child) for child in node.named_children
            if child.type != "comment" and (child.type != "ERROR" or child.text != b"typename")
        )  # fmt: skip

    def _field(self, node: Syntax) -> n.Expr:
        operand = self.expression(node.child_by_field_name("argument"))
        member = node.child_by_field_name("field")
        if any(child.type == "->" for child in node.children):
            operand = n.Unary(self.at(node), "*", operand)
        while member is not None and member.type == "dependent_name" and member.named_children:
            member = member.named_children[-1]
        if member is not None and member.type in ("template_method", "template_function"):
            name = self.text(member.child_by_field_name("name"))
            return n.Field(self.at(node), operand, name, self._template_arguments(member))
        return n.Field(self.at(node), operand, self.text(member))

    def _subscript(self, node: Syntax) -> n.Expr:
        operand = self.expression(node.child_by_field_name("argument"))
        indices = node.child_by_field_name("indices")
        given = self.arguments(indices)
        return n.Index(self.at(node), operand, given[0]) if len(given) == 1 else self.unread(node)

    def _sizeof(self, node: Syntax) -> n.Expr:
        kind = node.child_by_field_name("type")
        if kind is not None:
            return n.SizeOf(self.at(node), self.descriptor(kind))
        value = self.expression(node.child_by_field_name("value"))
        if isinstance(value, n.Name) and any(one.type == "..." for one in node.children):
            return n.Name(value.at, count_of(value.text))
        return n.SizeOf(self.at(node), None, value)

    def _braces(self, node: Syntax) -> n.Expr:
        kind = node.child_by_field_name("type")
        value = node.child_by_field_name("value") if kind is not None else node
        items = self.arguments(value)
        if kind is None:
            return n.Braces(self.at(node), items)
        return n.Braces(self.at(node), items, self.written(kind))

    def _designated(self, node: Syntax) -> n.Expr:
        """`.field = value` in braces: an assignment to the field by its name, with the dot."""
        field, value = (node.child_by_field_name(one) for one in ("designator", "value"))
        target = n.Name(self.at(node), self.text(field))
        return n.Assign(self.at(node), "", target, self.expression(value))

    def _assembly(self, node: Syntax) -> n.Expr:
        code = node.child_by_field_name("assembly_code")
        found: dict[str, list[tuple[str, n.Expr]]] = {"output": [], "input": []}
        for side, pairs in found.items():
            for group in node.named_children:
                if group.type != f"gnu_asm_{side}_operand_list":
                    continue
                for one in group.named_children:
                    if one.type == f"gnu_asm_{side}_operand":
                        constraint = one.child_by_field_name("constraint")
                        value = self.expression(one.child_by_field_name("value"))
                        pairs.append((self.string(constraint) if constraint else "", value))
        text = self.string(code) if code is not None else ""
        return n.Assembly(self.at(node), text, tuple(found["output"]), tuple(found["input"]))

    def _lambda(self, node: Syntax) -> n.Expr:
        return self.unread(node)

    def _fold(self, node: Syntax) -> n.Expr:
        inner = [c for c in node.children if c.type not in ("(", ")", "comment")]
        dots = [place for place, one in enumerate(inner) if one.type == "..."]
        if len(inner) not in (3, 5) or len(dots) != 1:
            return self.unread(node)
        left, right = inner[0], inner[-1]
        late = "..." in self.text(right) or (len(inner) == 5 and right.type == "number_literal")
        operand, start = (left, right) if late else (right, left)
        begun = None if start.type == "..." else self.expression(start)
        operator = self.text(inner[1])
        return n.Fold(self.at(node), operator, self.expression(operand), begun, late)

    # -- types

    def descriptor(self, node: Syntax | None) -> n.CType:
        """A type without a name: that of a cast or of a template argument."""
        if node is None:
            return n.CType("?")
        kind = node.child_by_field_name("type")
        words = frozenset(self.text(c) for c in node.named_children if c.type == "type_qualifier")
        base = self.written(kind, words)
        pointers, reference = 0, False
        extents: list[n.Expr | None] = []
        rows: tuple[n.Expr | None, ...] = ()
        part = node.child_by_field_name("declarator")
        while part is not None:
            pointers += part.type == "abstract_pointer_declarator"
            reference = reference or part.type == "abstract_reference_declarator"
            if part.type == "abstract_array_declarator":
                size = part.child_by_field_name("size")
                extents.insert(0, self.expression(size) if size is not None else None)
            elif extents and points(part, replace(base, pointers=pointers)):
                rows, extents = tuple(extents), []
            part = declarator_in(part)
        return n.CType(
            base.name, base.arguments, pointers, reference, base.const, extents=tuple(extents),
            member=base.member, volatile=base.volatile, rows=rows,
        )  # fmt: skip

    def preset(self, node: Syntax) -> n.CType:
        """The default of a type parameter; unknown where the grammar cannot read it to its end."""
        behind = node.next_sibling
        return self.written(None if behind is not None and behind.type == "ERROR" else node)

    def written(self, node: Syntax | None, words: frozenset[str] = frozenset()) -> n.CType:
        """The type that a specifier names. `a<b>::c` is the member c of a<b>."""
        const, volatile = "const" in words, "volatile" in words
        if node is None:
            return n.CType("?", const=const, volatile=volatile)
        if node.type == "dependent_type" and node.named_children:
            return self.written(node.named_children[-1], words)
        if node.type == "template_type":
            name = self.text(node.child_by_field_name("name"))
            arguments = self._template_arguments(node)
            return n.CType(name, arguments, const=const, volatile=volatile)
        if node.type == "qualified_identifier":
            return self._member_type(node, words)
        if node.type == "decltype" and node.named_children:
            asked = self.expression(node.named_children[0])
            return n.CType(self.text(node), (asked,), const=const, volatile=volatile)
        return n.CType(self.text(node), const=const, volatile=volatile)

    def _member_type(self, node: Syntax, words: frozenset[str]) -> n.CType:
        scope, last = node.child_by_field_name("scope"), node.child_by_field_name("name")
        const, volatile = "const" in words, "volatile" in words
        if scope is not None and scope.type == "template_type":
            base = self.written(scope)
            return n.CType(base.name, base.arguments, const=const, volatile=volatile,
                           member=self.text(last))  # fmt: skip
        inner = self.written(last, words)
        prefix = self.text(scope)
        name = f"{prefix}::{inner.name}" if prefix else inner.name
        return n.CType(name, inner.arguments, const=const, volatile=volatile, member=inner.member)


def _spelled(value: n.Expr) -> str:
    return value.text if isinstance(value, n.Name) else "?"


_E = ExpressionBuilder
_BUILDERS: dict[str, Callable[[ExpressionBuilder, Syntax], n.Expr]] = {
    "identifier": _E._name, "type_identifier": _E._name, "field_identifier": _E._name,
    "this": _E._name, "primitive_type": _E._name, "qualified_identifier": _E._qualified,
    "template_function": _E._template, "template_type": _E._template,
    "dependent_name": _E._inner, "number_literal": _E._number, "string_literal": _E._string,
    "raw_string_literal": _E._string, "concatenated_string": _E._string, "true": _E._truth,
    "false": _E._truth, "null": _E._null, "nullptr": _E._null,
    "parenthesized_expression": _E._inner, "condition_clause": _E._inner,
    "array_declarator": element,
    "unary_expression": _E._unary, "pointer_expression": _E._unary,
    "binary_expression": binary, "comma_expression": _E._comma,
    "assignment_expression": _E._assign, "update_expression": _E._update,
    "conditional_expression": _E._conditional, "call_expression": _E._call,
    "field_expression": _E._field, "subscript_expression": _E._subscript,
    "cast_expression": cast, "sizeof_expression": _E._sizeof, "initializer_list": _E._braces,
    "initializer_pair": _E._designated,
    "compound_literal_expression": _E._braces, "gnu_asm_expression": _E._assembly,
    "fold_expression": _E._fold,
    "lambda_expression": lambda b, node: b._lambda(node),
}  # fmt: skip

"""Statements and declarations of the syntax tree as nodes of extractors.cuda.nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from extractors.cuda import nodes as n
from extractors.cuda.counting import as_for
from extractors.cuda.grammar import AROUND, points
from extractors.cuda.grid_loops import ranged
from extractors.cuda.macros import LABEL
from extractors.cuda.mistaken import argument, mistaken
from extractors.cuda.parse_expressions import ExpressionBuilder

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax

_UNROLL = re.compile(r"#\s*pragma\s+(no)?unroll\b\s*\(?\s*([\w]*)")
_SPECIFIERS = frozenset(
    {"type_qualifier", "storage_class_specifier", "alignas_qualifier", "virtual", "explicit"}
)
_NOTHING = frozenset(
    {"comment", ";", "preproc_call", "preproc_def", "using_declaration",
      "empty_statement", "friend_declaration", "namespace_alias_definition"}
)  # fmt: skip

RECORDS = frozenset({"struct_specifier", "class_specifier", "union_specifier"})


@dataclass(slots=True)
class Declared:
    """What a declarator says: a name with its type, and how it is set."""

    name: str
    type: n.CType
    value: n.Expr | None = None
    arguments: tuple[n.Expr, ...] | None = None
    parameters: Syntax | None = None
    names: tuple[str, ...] = ()
    node: Syntax | None = None


_CONCEPTS = frozenset({"std::integral", "std::signed_integral", "std::unsigned_integral",
                       "std::floating_point"})  # fmt: skip
"""What a type must be like that stands in the place of `typename`. Source: C++20, concepts."""


class StatementBuilder(ExpressionBuilder):
    """Builds statements on top of expressions."""

    def block(self, node: Syntax | None) -> n.Block:
        """A statement as a block of its own."""
        if node is None:
            return n.Block(n.Place(0, 0, 0, self.path), ())
        if node.type == "compound_statement":
            return n.Block(self.at(node), self.statements(node.children))
        if node.type == "else_clause":
            inner = [c for c in node.named_children if c.type != "comment"]
            return n.Block(self.at(node), self.statements(inner))
        return n.Block(self.at(node), self.statements([node]))

    def statements(self, children: Sequence[Syntax]) -> tuple[n.Stmt, ...]:
        """Statements in order; a pragma goes with the loop after it."""
        found: list[n.Stmt] = []
        unroll: int | str | None = None
        line = 0
        for child in children:
            if child.type == "preproc_call":
                unroll, line = self._unroll(child), self.at(child).line
                continue
            if child.type in _NOTHING or child.type in ("{", "}"):
                continue
            for statement in self.statement(child):
                if isinstance(statement, n.For) and unroll is not None:
                    statement = replace(statement, unroll=unroll, pragma=line)
                found.append(statement)
            unroll = None
        return as_for(found)

    def _unroll(self, node: Syntax) -> int | str | None:
        """0 to unroll completely, 1 not to, another number or the name of one."""
        match = _UNROLL.match(self.text(node))
        if match is None:
            return None
        if match.group(1):
            return 1
        count = match.group(2)
        return int(count) if count.isdigit() else count or 0

    def statement(self, node: Syntax) -> tuple[n.Stmt, ...]:
        """The statements that a node stands for; a declaration may be several."""
        build = _BUILDERS.get(node.type)
        if build is not None:
            return build(self, node)
        inner = self.unread(node)
        return (n.Skipped(inner.at, inner.what, inner.inner),)

    def enumerators(self, node: Syntax) -> Iterator[n.Variable]:
        """Constants of an enumeration without a scope."""
        body = node.child_by_field_name("body")
        following = 0
        for child in body.named_children if body is not None else ():
            if child.type != "enumerator":
                continue
            given = child.child_by_field_name("value")
            value = self.expression(given) if given is not None else None
            if value is None:
                value = n.Constant(self.at(child), following, "i32")
            if isinstance(value, n.Constant) and isinstance(value.value, int):
                following = value.value + 1
            name = self.text(child.child_by_field_name("name"))
            words = frozenset({"constexpr"})
            yield n.Variable(self.at(child), name, n.CType("int"), value, None, words)

    def struct_inside(self, node: Syntax) -> str:
        """The name of a struct or union that is defined inside a function; one for those without,
        none for what is not defined here."""
        raise NotImplementedError

    def _struct(self, node: Syntax) -> tuple[n.Stmt, ...]:
        return () if self.struct_inside(node) else (n.Do(self.at(node), self.unread(node)),)

    def _enumeration(self, node: Syntax) -> tuple[n.Stmt, ...]:
        return tuple(self.enumerators(node))

    # -- control

    def _compound(self, node: Syntax) -> tuple[n.Stmt, ...]:
        return (self.block(node),)

    def _expression(self, node: Syntax) -> tuple[n.Stmt, ...]:
        named = [c for c in node.named_children if c.type != "comment"]
        found = (self.expression(child) for child in named[:1])
        return tuple(mistaken(one) or n.Do(self.at(node), one) for one in found)

    def _if(self, node: Syntax) -> tuple[n.Stmt, ...]:
        before, condition = self._condition(node.child_by_field_name("condition"))
        static = any(child.type == "constexpr" for child in node.children)
        then = self.block(node.child_by_field_name("consequence"))
        other = self.block(node.child_by_field_name("alternative"))
        return (n.If(self.at(node), before, condition, then, other, static),)

    def _condition(self, node: Syntax | None) -> tuple[tuple[n.Stmt, ...], n.Expr]:
        """`(init; value)` or `(value)`, or the declaration of a variable that is tested."""
        if node is None or node.type != "condition_clause":
            return (), self.expression(node)
        started = node.child_by_field_name("initializer")
        before = self.statements(started.named_children) if started is not None else ()
        value = node.child_by_field_name("value")
        if value is not None and value.type == "declaration":
            declared = self._declaration(value)
            before = (*before, *declared)
            names = [s for s in declared if isinstance(s, n.Variable)]
            if names:
                return before, n.Name(self.at(value), names[0].name)
        return before, self.expression(value)

    def _assert(self, node: Syntax) -> tuple[n.Stmt, ...]:
        condition = node.child_by_field_name("condition")
        return (n.Assert(self.at(node), self.expression(condition)),)

    def _for(self, node: Syntax) -> tuple[n.Stmt, ...]:
        start = node.child_by_field_name("initializer")
        before: tuple[n.Stmt, ...] = ()
        if start is not None:
            plain = start.type != "declaration"
            before = (
                (n.Do(self.at(start), self.expression(start)),) if plain
                else self.statement(start)
            )  # fmt: skip
        test = node.child_by_field_name("condition")
        step = node.child_by_field_name("update")
        condition = self.expression(test) if test is not None else None
        after = self.expression(step) if step is not None else None
        body = self.block(node.child_by_field_name("body"))
        return (n.For(self.at(node), before, condition, after, body),)

    def _while(self, node: Syntax) -> tuple[n.Stmt, ...]:
        before, condition = self._condition(node.child_by_field_name("condition"))
        body = self.block(node.child_by_field_name("body"))
        if before:
            return (n.Skipped(self.at(node), "while with a declaration", (condition,)),)
        return (n.While(self.at(node), condition, body, node.type == "do_statement"),)

    def _switch(self, node: Syntax) -> tuple[n.Stmt, ...]:
        before, value = self._condition(node.child_by_field_name("condition"))
        body = node.child_by_field_name("body")
        cases: list[tuple[n.Expr | None, tuple[n.Stmt, ...]]] = []
        for child in body.named_children if body is not None else ():
            if child.type != "case_statement":  # the grammar ends a case at some declarations
                cases[-1:] = [(one, (*held, *self.statements([child]))) for one, held in cases[-1:]]
                continue
            label = child.child_by_field_name("value")
            inner = [
                c for c in child.children
                if c.type not in ("case", "default", ":") and c != label
            ]  # fmt: skip
            asked = self.expression(label) if label is not None else None
            cases.append((asked, self.statements(inner)))
        return (*before, n.Switch(self.at(node), value, tuple(cases)))

    def _leave(self, node: Syntax) -> tuple[n.Stmt, ...]:
        named = [c for c in node.named_children if c.type != "comment"]
        value = self.expression(named[0]) if named else None
        return (n.Leave(self.at(node), node.type.removesuffix("_statement"), value),)

    def _label(self, node: Syntax) -> tuple[n.Stmt, ...]:
        """A label that nothing may jump to from here changes nothing; a goto is kept as skipped.
        One stands for a pragma that unrolls."""
        label = self.text(node.child_by_field_name("label"))
        inner = [c for c in node.named_children if c.type != "statement_identifier"]
        found = self.statements(inner)
        if label.startswith(LABEL) and len(found) == 1 and isinstance(found[0], n.For):
            word, _, count = label.removeprefix(LABEL).partition("unroll")
            number = int(count) if count.isdigit() else count or 0
            asked = replace(found[0], unroll=1 if word else number, pragma=self.at(node).line)
            return (asked,)
        return found

    # -- declarations

    def _alias(self, node: Syntax) -> tuple[n.Stmt, ...]:
        name = self.text(node.child_by_field_name("name"))
        kind = self.descriptor(node.child_by_field_name("type"))
        return (n.Alias(self.at(node), name, kind),)

    def _typedef(self, node: Syntax) -> tuple[n.Stmt, ...]:
        kind = self.written(node.child_by_field_name("type"))
        found = []
        for part in node.children_by_field_name("declarator"):
            declared = self.declarator(part, kind)
            found.append(n.Alias(self.at(node), declared.name, declared.type))
        return tuple(found)

    def words(self, node: Syntax) -> frozenset[str]:
        """Qualifiers and storage words of a declaration."""
        found = (child for child in node.named_children if child.type in _SPECIFIERS)
        return frozenset(map(self.text, found))

    def _declaration(self, node: Syntax) -> tuple[n.Stmt, ...]:
        words = self.words(node)
        base = node.child_by_field_name("type")
        name = self.struct_inside(base) if base is not None and base.type in RECORDS else ""
        kind = replace(self.written(base, words), name=name) if name else self.written(base, words)
        found: list[n.Stmt] = []
        for part in node.children_by_field_name("declarator"):
            declared = self.declarator(part, kind)
            if declared.names and declared.value is not None:
                found.append(n.Unpack(self.at(node), declared.names, declared.value, declared.type))
            elif declared.name:
                found.append(self._variable(node, part, declared, words))
        return tuple(found)

    def _variable(
        self, node: Syntax, part: Syntax, declared: Declared, words: frozenset[str]
    ) -> n.Stmt:
        at = self.at(node)
        place = n.Place(at.line, at.column, max(at.line, self.at(part).end_line), self.path)
        arguments = declared.arguments
        if declared.parameters is not None:
            arguments = self._constructor(declared.parameters)
            if arguments is None and declared.value is not None:
                return n.Variable(place, declared.name, n.CType("auto"), declared.value)
            if arguments is None:
                return n.Skipped(place, f"declaration of {declared.name}")
        return n.Variable(place, declared.name, declared.type, declared.value, arguments, words)

    def _constructor(self, node: Syntax) -> tuple[n.Expr, ...] | None:
        """`T x(y)` reads as a function that takes a `y`; when y can be a value it is one."""
        found = [argument(self, child) for child in node.named_children]
        return None if None in found else tuple(one for one in found if one is not None)

    def declarator(self, node: Syntax | None, kind: n.CType) -> Declared:
        """Follow a declarator to its name, gathering pointers, extents and the initial value."""
        found = Declared("", kind)
        outer: list[n.Expr | None] = []
        while node is not None:
            match node.type:
                case "init_declarator":
                    value = node.child_by_field_name("value")
                    if value is not None and value.type == "argument_list":
                        found.arguments = self.arguments(value)
                    elif value is not None:
                        found.value = self.expression(value)
                case "pointer_declarator":
                    words = self.words(node)
                    restrict = "__restrict__" in words or "__restrict" in words
                    found.type = replace(
                        found.type, pointers=found.type.pointers + 1,
                        restrict=found.type.restrict or restrict,
                    )  # fmt: skip
                case "reference_declarator":
                    found.type = replace(found.type, reference=True)
                case "array_declarator":
                    size = node.child_by_field_name("size")
                    outer.insert(0, self.expression(size) if size is not None else None)
                case "function_declarator":
                    found.parameters = node.child_by_field_name("parameters")
                case "structured_binding_declarator":
                    found.names = tuple(self.text(c) for c in node.named_children)
                    break
                case _ if outer and points(node, found.type):
                    found.type, outer = replace(found.type, rows=tuple(outer)), []
                case other if other not in AROUND:
                    found.name, found.node = self.text(node), node
                    break
            node = node.child_by_field_name("declarator") or _last_declarator(node)
        found.type = replace(found.type, extents=(*found.type.extents, *outer))
        return found

    def parameters(self, node: Syntax | None) -> tuple[n.Variable, ...]:
        """The parameters of a function; an unnamed one gets an empty name."""
        found: list[n.Variable] = []
        for child in node.named_children if node is not None else ():
            if not child.type.endswith("parameter_declaration"):
                continue
            words = self.words(child)
            kind = self.written(child.child_by_field_name("type"), words)
            declared = self.declarator(child.child_by_field_name("declarator"), kind)
            default = child.child_by_field_name("default_value")
            value = self.expression(default) if default is not None else None
            name = "" if declared.node is None else declared.name
            if name == "void" or (not name and kind.name == "void" and not declared.type.pointers):
                continue
            found.append(n.Variable(self.at(child), name, declared.type, value, storage=words))
        return tuple(found)

    def template_parameters(self, node: Syntax | None) -> tuple[n.TemplateParameter, ...]:
        """The parameters of a template: types, templates of types, values."""
        found: list[n.TemplateParameter] = []
        for child in node.named_children if node is not None else ():
            pack = child.type.startswith("variadic")
            at = self.at(child)
            if "type_parameter" in child.type:
                names = [c for c in child.named_children if c.type == "type_identifier"]
                given = child.child_by_field_name("default_type")
                name = child.child_by_field_name("name") or (names[0] if names else None)
                default = self.preset(given) if given is not None else None
                found.append(n.TemplateParameter(self.text(name), "typename", default, pack, at))
            elif child.type == "template_template_parameter_declaration":
                inner = [c for c in child.named_children if "type_parameter" in c.type]
                names = [c for one in inner for c in one.named_children]
                name = names[0] if len(names) == 1 else None
                found.append(n.TemplateParameter(self.text(name), "template", None, pack, at))
            elif child.type.endswith("parameter_declaration"):
                kind = self.written(child.child_by_field_name("type"))
                declared = self.declarator(child.child_by_field_name("declarator"), kind)
                value = child.child_by_field_name("default_value")
                default_ = self.expression(value) if value is not None else None
                name_ = declared.name.removeprefix("...").strip()
                told = ("typename", kind.name) if kind.name in _CONCEPTS else (kind.name, "")
                found.append(n.TemplateParameter(name_, told[0], default_, pack, at, told[1]))
        return tuple(found)

    def _lambda(self, node: Syntax) -> n.Expr:
        head = node.child_by_field_name("declarator")
        listed = head.child_by_field_name("parameters") if head is not None else None
        own = self.template_parameters(node.child_by_field_name("template_parameters"))
        body = self.block(node.child_by_field_name("body"))
        return n.Lambda(self.at(node), self.parameters(listed), body, own)


def _last_declarator(node: Syntax) -> Syntax | None:
    """Reference and parenthesised declarators hold their inner one without a field name."""
    if node.type in ("reference_declarator", "parenthesized_declarator", "attributed_declarator"):
        named = node.named_children
        return named[-1] if named else None
    return None


_S = StatementBuilder
_BUILDERS: dict[str, Callable[[StatementBuilder, Syntax], tuple[n.Stmt, ...]]] = {
    "compound_statement": _S._compound, "expression_statement": _S._expression,
    "if_statement": _S._if, "for_statement": _S._for, "while_statement": _S._while,
    "do_statement": _S._while, "switch_statement": _S._switch, "return_statement": _S._leave,
    "break_statement": _S._leave, "continue_statement": _S._leave, "for_range_loop": ranged,
    "labeled_statement": _S._label, "declaration": _S._declaration,
    "enum_specifier": _S._enumeration, **dict.fromkeys(RECORDS, _S._struct),
    "alias_declaration": _S._alias, "type_definition": _S._typedef,
    "static_assert_declaration": _S._assert,
    "init_statement": lambda b, node: b.statements(node.named_children),
    "gnu_asm_expression": lambda b, node: (n.Do(b.at(node), b.expression(node)),),
}  # fmt: skip

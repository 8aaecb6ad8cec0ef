"""parse(text) -> Unit: every function, record, alias and constant that a file defines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from extractors.cuda import nodes as n
from extractors.cuda.accessors import by_strides
from extractors.cuda.grammar import syntax_tree
from extractors.cuda.parse_statements import RECORDS, StatementBuilder
from extractors.cuda.preprocess import Prepared

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax

_OPEN = frozenset(
    {"translation_unit", "namespace_definition", "declaration_list", "linkage_specification",
     "preproc_if", "preproc_ifdef", "preproc_else", "ERROR", "field_declaration_list",
     "labeled_statement"}
)  # fmt: skip
MAX_BROKEN = 200


def parse(prepared: Prepared, path: str) -> n.Unit:
    """The definitions of a prepared file. What the parser did not understand is listed by lines.

    Raises InputError when tree-sitter is not installed.
    """
    return _UnitBuilder(prepared, path).unit(syntax_tree(prepared.text))


class _UnitBuilder(StatementBuilder):
    """Walks the outer levels of a file; bodies are built by the classes above. `inner` are structs
    inside structs: of those with one name nothing tells which is meant, so they stay unknown."""

    def __init__(self, prepared: Prepared, path: str) -> None:
        super().__init__(prepared, path)
        self.inner: list[n.Record] = []

    def unit(self, root: Syntax) -> n.Unit:
        found = n.Unit(self.path)
        pending: list[tuple[Syntax, tuple[n.TemplateParameter, ...], str]] = [(root, (), "")]
        while pending:
            node, template, space = pending.pop()
            if node.type == "ERROR" and len(found.broken) < MAX_BROKEN:
                place = self.at(node)
                found.broken.append((place.line, place.end_line))
            if node.type in _OPEN:
                space = self._space(node, space)
                pending += [(child, (), space) for child in reversed(node.children)]
            elif node.type == "template_declaration":
                own = self.template_parameters(node.child_by_field_name("parameters"))
                inner = [c for c in node.named_children if c.type != "template_parameter_list"]
                pending += [(child, (*template, *own), space) for child in reversed(inner)]
            elif node.type == "template_instantiation":
                self._instantiated(found, node)
            else:
                self._define(found, node, template, space)
        for name, declared in found.declared.items():
            several = found.functions.get(name, [])
            found.functions[name] = [_with_defaults(one, declared) for one in several]
        named = Counter(one.name for one in self.inner)
        for one in self.inner:
            if named[one.name] == 1 and one.name not in found.records:
                _keep(found, one)
        return found

    def _instantiated(self, unit: n.Unit, node: Syntax) -> None:
        """Keep where a function is asked for with arguments of its template."""
        made = node.child_by_field_name("declarator")
        while made is not None and made.type != "template_function":
            made = made.child_by_field_name("declarator") or made.child_by_field_name("name")
        name = made.child_by_field_name("name") if made is not None else None
        if name is not None:
            unit.instantiated.setdefault(self.text(name), []).append(self.at(node))

    def _space(self, node: Syntax, around: str) -> str:
        """The namespaces inside a node; one without a name adds none."""
        name = node.child_by_field_name("name") if node.type == "namespace_definition" else None
        return "::".join(part for part in (around, self.text(name) if name else "") if part)

    def _define(
        self, unit: n.Unit, node: Syntax, template: tuple[n.TemplateParameter, ...], space: str
    ) -> None:
        try:
            if node.type == "declaration" and any(one.default is not None for one in template):
                self._declare(unit, node, template)
            for one in self._defined(node, template):
                _keep(unit, replace(one, space=space) if isinstance(one, n.Definition) else one)
        except RecursionError:
            place = self.at(node)
            unit.broken.append((place.line, place.end_line))

    def _declare(
        self, unit: n.Unit, node: Syntax, template: tuple[n.TemplateParameter, ...]
    ) -> None:
        """Keep the defaults of a template that is declared here and defined elsewhere."""
        declared = self.declarator(node.child_by_field_name("declarator"), n.CType("auto"))
        if declared.parameters is not None and declared.name:
            name, count = (
                declared.name.rpartition("::")[2],
                len(self.parameters(declared.parameters)),
            )
            unit.declared.setdefault(name, []).append((count, template))

    def _defined(
        self, node: Syntax, template: tuple[n.TemplateParameter, ...]
    ) -> Iterator[n.Definition | n.Record | n.Alias | n.Variable]:
        if node.type == "function_definition":
            found = self._function(node, template)
            if found is not None:
                yield found
            return
        kind = node if node.type in RECORDS else node.child_by_field_name("type")
        if kind is not None and kind.type in RECORDS:
            alias = self._alias_of(node)
            record = self._record(kind, template, alias)
            if record is not None:
                yield record
            if alias is not None and record is not None and self.text(alias) == record.name:
                return
        if node.type == "enum_specifier" or (kind is not None and kind.type == "enum_specifier"):
            yield from self.enumerators(node if kind is None else kind)
        if node.type in ("alias_declaration", "type_definition", "declaration"):
            for one in self.statement(node):
                if isinstance(one, n.Alias | n.Variable):
                    yield replace(one, template=template)

    # -- functions

    def _function(
        self, node: Syntax, template: tuple[n.TemplateParameter, ...], owner: str = ""
    ) -> n.Definition | None:
        body = node.child_by_field_name("body")
        head = node.child_by_field_name("declarator")
        words = frozenset(
            self.text(c) for c in node.children
            if c.type not in ("function_declarator", "compound_statement") and c.end_byte < (
                head.start_byte if head is not None else node.end_byte)
        )  # fmt: skip
        kind = self.written(node.child_by_field_name("type"), self.words(node))
        if head is not None and head.type == "operator_cast":
            return self._conversion(node, head, template, words)
        declared = self.declarator(head, kind)
        if declared.node is None or declared.parameters is None:
            return None
        around = declared.parameters.parent
        if around is not None and "const" in self.words(around):
            words |= {n.CONST_THIS}
        name, specialised = declared.name, _closed(node)
        given: tuple[n.CType | n.Expr, ...] = ()
        if declared.node.type in ("template_function", "template_method"):
            name = self.text(declared.node.child_by_field_name("name"))
            specialised, given = True, self._template_arguments(declared.node)
        if "::" in name:
            owner, _, name = name.rpartition("::")
        if body is None:
            return None
        place = self.at(node)
        attributes = self._attributes(node.start_byte, body.start_byte)
        block = self._body(body)
        begun = tuple(self._begun(node))
        block = replace(block, body=(*begun, *block.body)) if begun else block
        taken = self.parameters(declared.parameters)
        return n.Definition(
            name, taken, by_strides(taken, block), declared.type, place,
            template, owner.partition("<")[0], words, attributes, specialised,
            owner.rpartition("::")[2] if "<" in owner else "", given,
        )  # fmt: skip

    def _conversion(
        self, node: Syntax, head: Syntax, template: tuple[n.TemplateParameter, ...],
        words: frozenset[str],
    ) -> n.Definition | None:  # fmt: skip
        """The operator of a struct that makes a pointer of it; None for other types."""
        body, pointer = node.child_by_field_name("body"), head.child_by_field_name("declarator")
        if body is None or pointer is None or pointer.type != "abstract_pointer_declarator":
            return None
        kind = self.written(head.child_by_field_name("type"), self.words(head))
        name = n.TO_CONST_POINTER if kind.const else n.TO_POINTER
        result = replace(kind, pointers=1)
        return n.Definition(name, (), self._body(body), result, self.at(node), template, "", words)

    def _begun(self, node: Syntax) -> Iterator[n.Stmt]:
        """What a constructor sets before its body: `: field(value)`."""
        listed = (c for c in node.named_children if c.type == "field_initializer_list")
        for one in (c for group in listed for c in group.named_children):
            at, parts = self.at(one), one.named_children
            if one.type != "field_initializer" or len(parts) != 2:
                continue
            given = self.arguments(parts[1])
            if parts[0].type != "field_identifier":
                yield n.Skipped(at, f"initialiser: {self.text(one)}"[:120], given)
                continue
            plain = parts[1].type == "argument_list" and len(given) == 1
            value = given[0] if plain else n.Braces(at, given)
            whole = n.Unary(at, "*", n.Name(at, "this"))
            yield n.Do(at, n.Assign(at, "", n.Field(at, whole, self.text(parts[0])), value))

    def _body(self, node: Syntax) -> n.Block:
        """The body of a function; one that nests too deeply is skipped as a whole."""
        try:
            return self.block(node)
        except RecursionError:
            at = self.at(node)
            return n.Block(at, (n.Skipped(at, "a body that nests too deeply"),))

    def _attributes(self, start: int, end: int) -> tuple[tuple[str, str], ...]:
        """Attributes that stood in the head of a function or right before it."""
        text = self.prepared.text
        while start > 0 and text[start - 1].isspace():
            start -= 1
        return tuple((a.name, a.text) for a in self.prepared.attributes if start <= a.offset < end)

    # -- records

    def _alias_of(self, node: Syntax) -> Syntax | None:
        """The name that `typedef struct { } name` gives."""
        name = node.child_by_field_name("declarator") if node.type == "type_definition" else None
        return name if name is not None and name.type == "type_identifier" else None

    def _record(
        self, node: Syntax, template: tuple[n.TemplateParameter, ...], alias: Syntax | None = None,
        called: str = "",
    ) -> n.Record | None:  # fmt: skip
        """A struct by its name, by that of its `alias`, or as it is `called`."""
        name = node.child_by_field_name("name") or alias
        body = node.child_by_field_name("body")
        if body is None or (name is None and not called):
            return None
        special: tuple[n.CType | n.Expr, ...] = ()
        spelled = self.text(name) or called
        if name is not None and name.type == "template_type":
            special = self._template_arguments(name)
            spelled = self.text(name.child_by_field_name("name"))
        fields: list[n.Variable] = []
        methods: list[n.Definition] = []
        aliases: list[n.Alias] = []
        asserts: list[n.Assert] = []
        before = len(self.inner)
        for child in body.named_children:
            self._member(child, (), fields, methods, aliases)
            if child.type == "static_assert_declaration":
                asserts += [one for one in self._assert(child) if isinstance(one, n.Assert)]
            kind = child.child_by_field_name("type")
            inner = child if child.type in RECORDS else kind
            if inner is not None and inner.type in RECORDS:
                held = self._record(inner, template)
                self.inner += [replace(held, inner=True)] if held is not None else []
        own: tuple[n.Alias | n.Variable, ...]
        own = (*aliases, *(f for f in fields if {"static", "constexpr"} <= f.storage))
        for place in range(before, len(self.inner)):
            one = self.inner[place]
            self.inner[place] = replace(one, around=(*own, *one.around))
        return n.Record(
            spelled, self.at(node), template, tuple(fields), tuple(methods), tuple(aliases),
            special, self._open(node), tuple(self._bases(node)), asserts=tuple(asserts),
        )  # fmt: skip

    def struct_inside(self, node: Syntax) -> str:
        place = self.at(node)
        record = self._record(node, (), None, f"unnamed@{place.line}:{place.column}")
        self.inner += [record] if record is not None else []
        return record.name if record is not None else ""

    def _bases(self, node: Syntax) -> Iterator[n.CType]:
        for clause in node.children:
            if clause.type == "base_class_clause":
                for one in clause.named_children:
                    if one.type not in ("access_specifier", "comment", "virtual"):
                        yield self.written(one)

    def _open(self, node: Syntax) -> bool:
        """A union, or a struct that holds a struct or union of its own without a name."""
        body = node.child_by_field_name("body")
        inner = body.named_children if body is not None else []
        own = [c.child_by_field_name("type") for c in inner if c.type == "field_declaration"]
        return node.type == "union_specifier" or any(
            t is not None and t.type in RECORDS and _unnamed(t) for t in own
        )

    def _member(
        self, node: Syntax, template: tuple[n.TemplateParameter, ...], fields: list[n.Variable],
        methods: list[n.Definition], aliases: list[n.Alias],
    ) -> None:  # fmt: skip
        if node.type == "template_declaration":
            own = self.template_parameters(node.child_by_field_name("parameters"))
            for child in node.named_children:
                if child.type != "template_parameter_list":
                    self._member(child, own, fields, methods, aliases)
        elif node.type == "function_definition":
            found = self._function(node, template)
            if found is not None:
                methods.append(found)
        elif node.type in ("alias_declaration", "type_definition"):
            aliases += [one for one in self.statement(node) if isinstance(one, n.Alias)]
        elif node.type == "declaration" and template:
            made = [x for x in self.statement(node) if isinstance(x, n.Variable)]
            fields += [replace(x, template=template) for x in made if x.type.name == "auto"]
        elif node.type == "field_declaration":
            kind = node.child_by_field_name("type")
            if kind is not None and kind.type == "enum_specifier":
                constant = frozenset({"static", "constexpr"})
                made = [x for x in self.enumerators(kind) if isinstance(x, n.Variable)]
                fields += [replace(one, storage=constant) for one in made]
            fields += self._fields(node)

    def _fields(self, node: Syntax) -> Iterator[n.Variable]:
        words = self.words(node)
        kind = self.written(node.child_by_field_name("type"), words)
        value = node.child_by_field_name("default_value")
        default = self.expression(value) if value is not None else None
        for part in node.children_by_field_name("declarator"):
            declared = self.declarator(part, kind)
            if declared.parameters is None and declared.name:
                yield n.Variable(self.at(node), declared.name, declared.type, default, None, words)


def _with_defaults(function: n.Definition, declared: Sequence[n.Declared]) -> n.Definition:
    """A definition with the defaults of the declaration of its template."""
    own = [one.dtype for one in function.template]
    for count, template in declared if own else ():
        if count == len(function.parameters) and own == [one.dtype for one in template]:
            pairs = zip(function.template, template, strict=True)
            filled = tuple(replace(a, default=a.default or b.default) for a, b in pairs)
            return replace(function, template=filled)
    return function


def _keep(unit: n.Unit, one: n.Definition | n.Record | n.Alias | n.Variable) -> None:
    if isinstance(one, n.Definition):
        unit.functions.setdefault(one.name, []).append(one)
    elif isinstance(one, n.Record):
        unit.records.setdefault(one.name, []).append(one)
    elif isinstance(one, n.Alias):
        unit.aliases.setdefault(one.name, one)
    elif one.value is not None:
        unit.constants.setdefault(one.name, one)


def _closed(node: Syntax) -> bool:
    """True right under `template <>`."""
    above = node.parent
    if above is None or above.type != "template_declaration":
        return False
    listed = above.child_by_field_name("parameters")
    return listed is not None and not listed.named_children


def _unnamed(node: Syntax) -> bool:
    return node.child_by_field_name("name") is None

"""More forms of CUDA C++ that mean the same: locals written into their uses, pointers advanced,
loops that count by themselves, parts in helpers, numbers and types with names, other casts,
choices as branches, declarations apart from their values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.invariance.cuda_spellings import parts_of
from benchmarks.invariance.cuda_syntax import (
    Edit,
    applied,
    below,
    bracketed,
    changed,
    functions,
    sides_of,
    text_of,
    written,
)
from extractors.cuda.grammar import syntax_tree

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax

_WHOLE = frozenset({"int", "unsigned", "unsigned int", "uint32_t", "int32_t", "auto", "bool"})
"""Types that what is computed of positions has by itself."""

_ASKS = frozenset({"<", ">", "<=", ">=", "==", "!=", "&&", "||"})
_PLACES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
_NUMBER = re.compile(r"(u?int\d*_t|size_t|float|double|bool|int|unsigned|long|char|short| )+")
_PURE = frozenset({
    "identifier", "number_literal", "binary_expression", "parenthesized_expression",
    "field_expression", "field_identifier", "unary_expression", "conditional_expression",
})  # fmt: skip
_KEPT = frozenset({
    "gnu_asm_expression", "lambda_capture_specifier", "sizeof_expression", "decltype",
    "template_argument_list", "array_declarator", "alignas_qualifier", "attribute_declaration",
})  # fmt: skip
"""Where a name stays as it is: a constant, a variable itself, or what is asked of its type."""

_TAKES_VALUES = re.compile(
    r"(std::)?(min|max|abs)|__\w+|static_cast.*|(exp|log|pow|sqrt|rsqrt|fmax|fmin|fma)f|[a-z]+|"
    r"(unsigned )?(int|char|long long)"
)
"""Functions that change no argument."""

POSTFIX = frozenset({"field_expression", "subscript_expression", "call_expression"})
_DECLARED = ("parameter_declaration", "optional_parameter_declaration", "declaration")
_LONGEST = 160
"""Characters of what a name may stand for."""

_TOP = frozenset({"translation_unit", "namespace_definition", "declaration_list",
                  "template_declaration", "linkage_specification"})  # fmt: skip


@dataclass(slots=True)
class Names:
    """How often the names of a function are declared, which change, which are pointers, and
    their types."""

    declared: Counter[str]
    changing: set[str]
    pointers: dict[str, str]
    types: dict[str, str]

    def steady(self, node: Syntax) -> bool:
        """Whether an expression is computed of numbers and of what never changes."""
        for one in below(node):
            if one.is_named and one.type not in _PURE:
                return False
            if one.type == "identifier":
                name = text_of(one)
                if name in self.changing or self.declared[name] > 1:
                    return False
            if one.type == "binary_expression" and (text_of(one.children[1]) in ("<<", ",")):
                return "." not in text_of(one)
        return True

    def alike(self, kind: str, value: Syntax) -> bool:
        """Whether a value is of a type by itself, as far as the declarations of the function tell:
        a comparison, or computed of what is of this type, whole numbers of positions."""
        if kind == "bool":
            sides = sides_of(value)
            return sides is not None and sides[1] in _ASKS
        whole = kind in _WHOLE
        for one in below(value):
            if one.type == "identifier":
                told = self.types.get(text_of(one), kind if whole else "")
                number = told in _WHOLE - {"auto"} or text_of(one) in _PLACES
                if told != kind and not (whole and number):
                    return False
            elif one.type == "number_literal" and whole == bool(re.search("[.f]", text_of(one))):
                return False
        return True


def names_of(function: Syntax) -> Names:
    """What the names that a function declares are."""
    found = Names(Counter(), set(), {}, {})
    for node in below(function):
        if node.type in _DECLARED or node.type == "for_range_loop":
            kind = node.child_by_field_name("type")
            for one in node.children_by_field_name("declarator"):
                _declare(one, kind, found)
        elif node.type == "assignment_expression":
            _change(node.child_by_field_name("left"), found)
        elif node.type in ("update_expression", "pointer_expression"):
            if node.type == "update_expression" or text_of(node).startswith("&"):
                _change(node.child_by_field_name("argument"), found)
        elif node.type == "gnu_asm_output_operand":
            _change(node.child_by_field_name("value"), found)
        elif node.type == "lambda_capture_specifier" or _may_change(node):
            found.changing |= {text_of(one) for one in node.children if one.type == "identifier"}
    return found


def _may_change(node: Syntax) -> bool:
    """Whether arguments go to a function that may take them by reference."""
    called = node.parent.child_by_field_name("function") if node.parent is not None else None
    if node.type != "argument_list" or called is None:
        return node.type == "argument_list"
    return _TAKES_VALUES.fullmatch(text_of(called)) is None


def _declare(one: Syntax, kind: Syntax | None, found: Names) -> None:
    inner = one.child_by_field_name("declarator") if one.type == "init_declarator" else one
    if one.type == "init_declarator" and inner is not None and "&" in text_of(inner)[:1]:
        _change(one.child_by_field_name("value"), found)
    names = [n for n in below(inner) if n.type == "identifier"] if inner is not None else []
    if not names or inner is None or inner.type == "function_declarator":
        return
    found.declared[text_of(names[0])] += 1
    if kind is not None:
        plain = inner.type == "identifier"
        found.types[text_of(names[0])] = text_of(kind) if plain else f"{text_of(kind)}*"
    if inner.type == "pointer_declarator" and kind is not None:
        stars = text_of(inner).count("*")
        plain = all(n.type in ("pointer_declarator", "type_qualifier", "identifier", "*")
                    or (n.parent is not None and n.parent.type == "type_qualifier")
                    for n in below(inner))  # fmt: skip
        if stars == 1 and plain:
            found.pointers[text_of(names[0])] = text_of(kind)


def _change(target: Syntax | None, found: Names) -> None:
    """What is written to or may be written to by another name; what a pointer points to changes
    no name."""
    while target is not None and target.type in ("field_expression", "parenthesized_expression"):
        inner = target.child_by_field_name("argument")
        target = inner if inner is not None else target.named_children[0]
    if target is not None and target.type == "identifier":
        found.changing.add(text_of(target))


def _rewritten(text: str, change: Callable[[Syntax, Names], str]) -> str:
    """Every function of the device with the body that `change` makes of it."""
    edits: list[Edit] = []
    for function in functions(syntax_tree(text)):
        body = function.child_by_field_name("body")
        if body is not None:
            edits.append((body.start_byte, body.end_byte, change(body, names_of(function))))
    return applied(text, edits)


def local(node: Syntax) -> tuple[str, str, Syntax] | None:
    """Type, name and value of a declaration of one variable in a block."""
    if node.type != "declaration" or node.parent is None:
        return None
    kind, held = node.child_by_field_name("type"), node.children_by_field_name("declarator")
    words = {text_of(c) for c in node.children if c.type.endswith(("qualifier", "specifier"))}
    words -= {text_of(kind)} if kind is not None else set()
    if kind is None or len(held) != 1 or held[0].type != "init_declarator" or words - {"const"}:
        return None
    name, value = (held[0].child_by_field_name(one) for one in ("declarator", "value"))
    if name is None or value is None or name.type != "identifier":
        return None
    inside = node.parent.type == "compound_statement" and value.type != "initializer_list"
    inside = inside and value.type != "argument_list"
    return (text_of(kind), text_of(name), value) if inside else None


def inlined(text: str) -> str:
    """A local that is computed of positions, sizes and numbers alone is written into its uses."""

    def change(body: Syntax, names: Names) -> str:
        values: dict[str, tuple[str, Syntax]] = {}
        kept = {text_of(n) for k in below(body) if k.type in _KEPT for n in below(k)}
        for node in below(body):
            one = local(node)
            if one is None or one[1] in kept | names.changing or names.declared[one[1]] != 1:
                continue
            plain = one[0] == "auto" or _NUMBER.fullmatch(one[0]) is not None
            if plain and names.steady(one[2]) and one[2].type != "number_literal":
                values[one[1]] = (one[0], one[2])

        def told(node: Syntax) -> str | None:
            one = local(node)
            if one is not None and one[1] in values and full(one[1]):
                return ""
            if node.type != "identifier" or text_of(node) not in values or _qualified(node):
                return None
            return full(text_of(node)) or None

        def full(name: str) -> str:
            kind, value = values[name]
            inner = written(value, told)
            plain = kind == "auto" or names.alike(kind, value)
            inner = bracketed(inner) if plain else f"static_cast<{kind}>({inner})"
            return inner if len(inner) <= _LONGEST else ""

        return written(body, told)

    return _rewritten(text, change)


def _qualified(node: Syntax) -> bool:
    return node.parent is not None and node.parent.type == "qualified_identifier"


def pointed(text: str) -> str:
    """`p[i]` of a pointer as `*(p + (i))`."""

    def change(body: Syntax, names: Names) -> str:
        def told(node: Syntax) -> str | None:
            taken = _taken(node, names)
            if taken is None or node.parent is None:
                return None
            place = f"({taken[0]} + {bracketed(written(taken[1], told))})"
            return f"(*{place})" if node.parent.type in POSTFIX else f"*{place}"

        return written(body, told)

    return _rewritten(text, change)


def _taken(node: Syntax, names: Names) -> tuple[str, Syntax] | None:
    """The pointer and the index of `p[i]`."""
    if node.type != "subscript_expression":
        return None
    held, given = (node.child_by_field_name(name) for name in ("argument", "indices"))
    if held is None or given is None or held.type != "identifier":
        return None
    name, index = text_of(held), given.named_children
    return (name, index[0]) if name in names.pointers and len(index) == 1 else None


def advanced(text: str) -> str:
    """`p[a + b]` as `q[b]` of a pointer `q = p + a`, where nothing that it is made of changes."""
    edits: list[Edit] = []
    number = 0
    for function in functions(syntax_tree(text)):
        names, body = names_of(function), function.child_by_field_name("body")
        own = {text_of(n) for n in below(body) if n.type == "identifier"} if body else set()
        for node in below(body) if body is not None else ():
            taken = _taken(node, names)
            sides = sides_of(taken[1]) if taken is not None else None
            if taken is None or sides is None or sides[1] != "+" or taken[0] in names.changing:
                continue
            first, _, rest = sides
            statement = _statement(node)
            if statement is None or not names.steady(first) or _sets(statement, first):
                continue
            name = f"moved{number}_"
            if name in own:
                continue
            number += 1
            before, offset = statement.prev_sibling, bracketed(text_of(first))
            asked = before is not None and before.type == "preproc_call"
            place = before.start_byte if before is not None and asked else statement.start_byte
            told = f"auto {name} = {taken[0]} + {offset};"
            edits.append((place, place, f"{told}\n" if asked else f"{told} "))
            edits.append((node.start_byte, node.end_byte, f"{name}[{text_of(rest)}]"))
    return applied(text, edits)


def _statement(node: Syntax) -> Syntax | None:
    """The statement of a block in which a node stands."""
    while node.parent is not None and node.parent.type != "compound_statement":
        node = node.parent
        if node.type in ("lambda_expression", "case_statement", "labeled_statement"):
            return None
    return node if node.parent is not None else None


def _sets(statement: Syntax, value: Syntax) -> bool:
    """Whether a statement declares a name that a value reads."""
    read = {text_of(one) for one in below(value) if one.type == "identifier"}
    found = names_of(statement)
    return bool(read & set(found.declared))


def counted(text: str) -> str:
    """`for` without `continue` and without a pragma as `while`."""

    def change(node: Syntax) -> str | None:
        body = node.child_by_field_name("body")
        if node.type != "for_statement" or body is None or node.parent is None:
            return None
        start, test, step = (
            node.child_by_field_name(n) for n in ("initializer", "condition", "update")
        )
        before = node.prev_sibling
        if start is None or test is None or step is None or _continues(body):
            return None
        if before is not None and before.type in ("preproc_call", "labeled_statement"):
            return None
        if node.parent.type == "labeled_statement" or _of_numbers(test):
            return None
        first = written(start, change).rstrip("; ")
        inner = f"{written(body, change)} {written(step, change)};"
        return f"{{ {first}; while ({written(test, change)}) {{ {inner} }} }}"

    return changed(text, change)


def _continues(body: Syntax) -> bool:
    return any(one.type in ("continue_statement", "goto_statement") for one in below(body))


def _of_numbers(test: Syntax) -> bool:
    """Whether a loop has a written number of rounds, which a compiler unrolls."""
    sides = sides_of(test)
    return sides is not None and sides[2].type == "number_literal"


def helped(text: str) -> str:
    """A part of what a statement computes moves into a function template."""
    edits: list[Edit] = []
    known: dict[int, Names] = {}
    for number, (statement, part) in enumerate(parts_of(syntax_tree(text))):
        at = beside(part)
        names = dict.fromkeys(text_of(n) for n in below(part) if n.type == "identifier")
        if at is None or not names or any(name.isupper() for name in names):
            continue
        if at not in known:
            known[at] = names_of(function_of(statement))
        if any(known[at].types.get(name, "").endswith("*") for name in names):
            continue
        given = {name: f"g{i}_" for i, name in enumerate(names)}

        def told(node: Syntax, given: dict[str, str] = given) -> str | None:
            return given[text_of(node)] if node.type == "identifier" else None

        types = ", ".join(f"typename A{i}_" for i in range(len(given)))
        taken = ", ".join(f"A{i}_ {name}" for i, name in enumerate(given.values()))
        head = f"template <{types}> __device__ __forceinline__ auto helped{number}_({taken})"
        edits.append((at, at, f"{head} {{ return {written(part, told)}; }}\n"))
        edits.append((part.start_byte, part.end_byte, f"helped{number}_({', '.join(names)})"))
    return applied(text, edits)


def function_of(node: Syntax) -> Syntax:
    """The function in which a node stands, itself perhaps."""
    while node.type != "function_definition" and node.parent is not None:
        node = node.parent
    return node


def beside(node: Syntax) -> int | None:
    """Where a function or a constant can stand for the function in which a node is."""
    function = function_of(node)
    if function.parent is not None and function.parent.type == "template_declaration":
        function = function.parent
    above = function.parent
    while above is not None:
        if above.type not in _TOP and not above.type.startswith("preproc_if"):
            return None
        above = above.parent
    return function.start_byte


FORMS: dict[str, Callable[[str], str]] = {
    "locals inlined": inlined,
    "pointer and offset": pointed,
    "pointer advanced": advanced,
    "for as while": counted,
    "parts in a function": helped,
}

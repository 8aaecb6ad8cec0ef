"""Words of CUDA C++ that mean the same: numbers and types with names, other casts, choices as
branches and branches as choices, declarations apart from their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.invariance.cuda_forms import POSTFIX, beside, local, names_of
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


def numbered(text: str) -> str:
    """Numbers get names, as constants and as macros."""
    edits: list[Edit] = []
    for count, function in enumerate(functions(syntax_tree(text))):
        body = function.child_by_field_name("body")
        at = beside(function)
        if body is None or at is None:
            continue
        known: dict[str, str] = {}
        for node in below(body):
            kind = _number(node) if node.type == "number_literal" else None
            if kind is None:
                continue
            value = text_of(node)
            if value not in known:
                known[value] = f"NUMBER{count}_{len(known)}_"
                name = known[value]
                told = f"constexpr {kind} {name} = {value};" if count % 2 else (
                    f"\n#define {name} {value}"
                )  # fmt: skip
                edits.append((at, at, f"{told}\n"))
            edits.append((node.start_byte, node.end_byte, known[value]))
    return applied(text, edits)


def _number(node: Syntax) -> str | None:
    """The type of a number of more than one, or with a point; none where it stays as it is."""
    value, above = text_of(node), node.parent
    while above is not None and above.type != "compound_statement":
        if above.type.startswith(("preproc", "gnu_asm")) or above.type == "attribute_declaration":
            return None
        above = above.parent
    if re.fullmatch(r"\d+", value):
        return "int" if 1 < int(value) < 2**31 else None
    if re.fullmatch(r"[\d.]+(e-?\d+)?f", value):
        return "float"
    return "unsigned int" if re.fullmatch(r"\d+[uU]", value) else None


_REGISTER = re.compile(r"static_cast<([\w: ]+)>")


def cast(text: str) -> str:
    """`(T)x` and `T(x)` of numbers as `static_cast<T>(x)`, and the other way round."""

    def change(node: Syntax) -> str | None:
        if node.parent is None:
            return None
        if node.type == "cast_expression":
            kind, value = (node.child_by_field_name(name) for name in ("type", "value"))
            if kind is None or value is None or not re.fullmatch(r"[\w: ]+", text_of(kind)):
                return None
            inner = written(value, change)
            inner = inner[1:-1] if value.type == "parenthesized_expression" else inner
            return f"static_cast<{text_of(kind)}>({inner})"
        named, given = (node.child_by_field_name(name) for name in ("function", "arguments"))
        if node.type != "call_expression" or named is None or given is None:
            return None
        if len(given.named_children) != 1:
            return None
        inner = written(given, change)
        if named.type in ("primitive_type", "sized_type_specifier"):
            return f"static_cast<{text_of(named)}>{inner}"
        match = _REGISTER.fullmatch(text_of(named))
        if match is None:
            return None
        return f"(({match[1]}){inner})" if node.parent.type in POSTFIX else f"({match[1]}){inner}"

    return changed(text, change)


def _simple(kind: str) -> bool:
    """Whether a variable of a type can be declared without a value."""
    return kind != "auto" and re.fullmatch(r"[\w ]+", kind) is not None


def branched(text: str) -> str:
    """`x = c ? a : b;` as a branch."""

    def told(node: Syntax) -> str | None:
        one = local(node)
        if one is not None and _simple(one[0]) and one[2].type == "conditional_expression":
            return f"{one[0]} {one[1]}; {sides(one[1], one[2])}"
        named = node.named_children if node.type == "expression_statement" else []
        inner = named[0] if named else None
        if inner is None or inner.type != "assignment_expression" or "else" in text_of(node):
            return None
        name, value = (inner.child_by_field_name(one) for one in ("left", "right"))
        operator = inner.child_by_field_name("operator")
        if name is None or value is None or value.type != "conditional_expression":
            return None
        plain = operator is not None and text_of(operator) == "=" and name.type == "identifier"
        return f"{{ {sides(text_of(name), value)} }}" if plain else None

    def sides(name: str, value: Syntax) -> str:
        parts = [value.child_by_field_name(n) for n in ("condition", "consequence", "alternative")]
        asked, yes, no = (written(one, told) if one is not None else "" for one in parts)
        return f"if ({asked}) {{ {name} = {yes}; }} else {{ {name} = {no}; }}"

    return changed(text, told)


def chosen(text: str) -> str:
    """`if (c) x = a; else x = b;` as a choice, where both are computed without a call."""

    def change(node: Syntax) -> str | None:
        asked = node.child_by_field_name("condition") if node.type == "if_statement" else None
        sides = [node.child_by_field_name(n) for n in ("consequence", "alternative")]
        if asked is None or any(child.type == "constexpr" for child in node.children):
            return None
        yes, no = (_assigned(one) if one is not None else None for one in sides)
        if yes is None or no is None or yes[0] != no[0]:
            return None
        first, second = (written(one, change) for one in (yes[1], no[1]))
        return f"{yes[0]} = {written(asked, change)} ? {bracketed(first)} : {bracketed(second)};"

    return changed(text, change)


def _assigned(side: Syntax) -> tuple[str, Syntax] | None:
    """Name and value of the one assignment in a side of a branch."""
    inner = [one for one in side.named_children if one.type != "comment"]
    while len(inner) == 1 and inner[0].type in ("compound_statement", "expression_statement"):
        inner = [one for one in inner[0].named_children if one.type != "comment"]
    if len(inner) != 1 or inner[0].type != "assignment_expression":
        return None
    name, operator, value = (
        inner[0].child_by_field_name(one) for one in ("left", "operator", "right")
    )
    if name is None or operator is None or value is None or text_of(operator) != "=":
        return None
    plain = name.type == "identifier" and all(_plain(one) for one in below(value))
    return (text_of(name), value) if plain else None


def _plain(node: Syntax) -> bool:
    return node.type not in ("assignment_expression", "conditional_expression", "initializer_list")


def apart(text: str) -> str:
    """`const int x = e;` as `int x; x = e;`."""
    edits: list[Edit] = []
    for function in functions(syntax_tree(text)):
        body = function.child_by_field_name("body")
        asked = (
            text_of(name)
            for held in below(body) if held.type in CONSTANT for name in below(held)
        ) if body is not None else ()  # fmt: skip
        constant, changing = set(asked), names_of(function).changing
        for node in below(body) if body is not None else ():
            one = local(node)
            if one is None or not _simple(one[0]) or one[1] in constant | changing:
                continue
            if one[2].type in ("number_literal", "lambda_expression"):
                continue
            value = f"{one[0]} {one[1]}; {one[1]} = {text_of(one[2])};"
            edits.append((node.start_byte, node.end_byte, value))
    return applied(text, edits)


CONSTANT = frozenset({"template_argument_list", "array_declarator", "static_assert_declaration"})
"""Where only what is constant may stand."""


def aliased(text: str) -> str:
    """Types of numbers get names."""
    edits: list[Edit] = []
    for function in functions(syntax_tree(text)):
        body = function.child_by_field_name("body")
        known: dict[str, str] = {}
        for node in below(body) if body is not None else ():
            above = node.parent.type if node.parent is not None else ""
            if node.type not in ("primitive_type", "type_identifier") or above not in _TYPED:
                continue
            kind = text_of(node)
            if kind == "void" or (node.type == "type_identifier" and kind not in _TYPES):
                continue
            known.setdefault(kind, f"kind{len(known)}_t")
            edits.append((node.start_byte, node.end_byte, known[kind]))
        if body is not None and known:
            told = "".join(f" using {name} = {kind};" for kind, name in known.items())
            edits.append((body.start_byte + 1, body.start_byte + 1, told))
    return applied(text, edits)


def loaded(text: str) -> str:
    """An element that only the next statement takes is loaded there."""
    edits: list[Edit] = []
    for function in functions(syntax_tree(text)):
        names, body = names_of(function), function.child_by_field_name("body")
        used: dict[str, list[Syntax]] = {}
        for node in below(body) if body is not None else ():
            if node.type == "identifier":
                used.setdefault(text_of(node), []).append(node)
        for node in below(body) if body is not None else ():
            one = local(node)
            if one is None or one[2].type != "subscript_expression" or len(used[one[1]]) != 2:
                continue
            place, held = used[one[1]][1], one[2].child_by_field_name("argument")
            if node.next_named_sibling != _taking(place) or one[1] in names.changing:
                continue
            plain = one[0] == "auto" or names.pointers.get(text_of(held or node)) == one[0]
            value = text_of(one[2]) if plain else f"static_cast<{one[0]}>({text_of(one[2])})"
            edits.append((node.start_byte, node.end_byte, ""))
            edits.append((place.start_byte, place.end_byte, value))
    return applied(text, edits)


def _taking(node: Syntax) -> Syntax | None:
    """The plain statement in which a name is always read."""
    while node.parent is not None and node.parent.type != "compound_statement":
        node = node.parent
        sides = sides_of(node)
        if node.type in _SOMETIMES or (sides is not None and sides[1] in ("&&", "||")):
            return None
    return node if node.type in ("declaration", "expression_statement") else None


_SOMETIMES = frozenset({"conditional_expression", "lambda_expression", "gnu_asm_expression",
                        "pointer_expression"})  # fmt: skip
_TYPED = frozenset({"declaration", "type_descriptor", "call_expression"})
_TYPES = frozenset({
    "half", "half2", "__half", "__half2", "__nv_bfloat16", "__nv_bfloat162", "nv_bfloat16",
    "float2", "float4", "int2", "int4", "uint2", "uint4", "uint",
})  # fmt: skip

WORDS: dict[str, Callable[[str], str]] = {
    "numbers named": numbered,
    "other casts": cast,
    "choice as a branch": branched,
    "branch as a choice": chosen,
    "declared apart": apart,
    "types named": aliased,
    "elements loaded in place": loaded,
}

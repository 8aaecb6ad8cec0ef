"""Other spellings of CUDA C++ that mean the same: names, operands that change places, sides of
branches, steps with names of their own, an early return as a branch, the body in a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

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

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_PLAIN = frozenset(
    {"identifier", "number_literal", "binary_expression", "parenthesized_expression"}
)
_NAMES = ("identifier", "type_identifier")
"""What the grammar takes a variable for; one that is an argument may look like a type."""

_PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")


def commuted(text: str) -> str:
    """Operands of sums, products and bit operations change places."""

    def change(node: Syntax) -> str | None:
        sides = sides_of(node)
        if sides is None or sides[1] not in ("+", "*", "&", "|", "^"):
            return None
        left, right = (bracketed(written(side, change)) for side in (sides[0], sides[2]))
        return f"{right} {sides[1]} {left}"

    return changed(text, change)


def mirrored(text: str) -> str:
    """Comparisons the other way round."""

    def change(node: Syntax) -> str | None:
        sides = sides_of(node)
        if sides is None or sides[1] not in _MIRRORED:
            return None
        left, right = (bracketed(written(side, change)) for side in (sides[0], sides[2]))
        return f"{right} {_MIRRORED[sides[1]]} {left}"

    return changed(text, change)


def written_out(text: str) -> str:
    """`x += y` as `x = x + (y)`, and `++i` as `i += 1`."""

    def change(node: Syntax) -> str | None:
        if node.type == "update_expression":
            name = node.child_by_field_name("argument")
            alone = node.parent is not None and node.parent.type in (
                "expression_statement", "for_statement",
            )  # fmt: skip
            if not alone or name is None or name.type != "identifier":
                return None
            return f"{text_of(name)} {'+' if '++' in text_of(node) else '-'}= 1"
        if node.type != "assignment_expression" or node.parent is None:
            return None
        operator, left = node.child_by_field_name("operator"), node.child_by_field_name("left")
        right = node.child_by_field_name("right")
        if operator is None or left is None or right is None or left.type != "identifier":
            return None
        if text_of(operator) not in ("+=", "-=", "*="):
            return None
        return (
            f"{text_of(left)} = {text_of(left)} {text_of(operator)[0]} ({written(right, change)})"
        )

    return changed(text, change)


def other_side(text: str) -> str:
    """Branches and choices ask for the contrary, and their sides change places."""

    def change(node: Syntax) -> str | None:
        if node.type == "conditional_expression":
            parts = [
                node.child_by_field_name(name)
                for name in ("condition", "consequence", "alternative")
            ]
            if any(part is None for part in parts):
                return None
            asked, yes, no = (written(part, change) for part in parts if part is not None)
            return f"!({asked}) ? {bracketed(no)} : {bracketed(yes)}"
        if node.type != "if_statement":
            return None
        condition = node.child_by_field_name("condition")
        then, other = (node.child_by_field_name(n) for n in ("consequence", "alternative"))
        if condition is None or then is None or other is None or other.type != "else_clause":
            return None
        if condition.child_by_field_name("initializer") is not None:
            return None
        sides = [side for side in other.children if side.type not in ("else", "comment")]
        if len(sides) != 1 or sides[0].type == "if_statement" or then.type != "compound_statement":
            return None
        word = "if constexpr" if any(c.type == "constexpr" for c in node.children) else "if"
        asked = written(condition, change)
        return f"{word} (!{asked}) {written(sides[0], change)} else {written(then, change)}"

    return changed(text, change)


def named(text: str) -> str:
    """A part of what a statement computes gets a name of its own."""
    edits: list[Edit] = []
    for number, (statement, part) in enumerate(parts_of(syntax_tree(text))):
        name = f"part{number}_"
        edits.append(
            (statement.start_byte, statement.start_byte, f"auto {name} = {text_of(part)}; ")
        )
        edits.append((part.start_byte, part.end_byte, name))
    return applied(text, edits)


def parts_of(root: Syntax) -> Iterator[tuple[Syntax, Syntax]]:
    """Declarations and assignments with an inner sum or product of names and numbers."""
    for function in functions(root):
        for node in below(function):
            inside = node.parent is not None and node.parent.type == "compound_statement"
            if not inside or node.type not in ("declaration", "expression_statement"):
                continue
            plain = _inner(node)
            if plain is not None and "static" not in text_of(node)[:40]:
                yield node, plain


def _inner(statement: Syntax) -> Syntax | None:
    """The first inner binary expression of names and numbers that always runs."""
    for node in below(statement):
        if node.type in ("conditional_expression", "lambda_expression", "initializer_list"):
            return None
        if node.type in ("array_declarator", "template_argument_list", "attribute_declaration"):
            return None
        sides = sides_of(node)
        if sides is not None and sides[1] in ("&&", "||", "<<"):
            return None
        if sides is None or node.parent is None or node.parent.type == "init_declarator":
            continue
        if node.parent.type == "assignment_expression" or sides[1] not in ("+", "-", "*", "/", "%"):
            continue
        if all(one.type in _PLAIN or not one.is_named for one in below(node)):
            return node
    return None


def guarded(text: str) -> str:
    """`if (c) return;` as a branch around what follows."""
    edits: list[Edit] = []
    for function in functions(syntax_tree(text)):
        body = function.child_by_field_name("body")
        for node in body.named_children if body is not None else ():
            asked = node.child_by_field_name("condition") if node.type == "if_statement" else None
            then = node.child_by_field_name("consequence")
            if asked is None or then is None or node.child_by_field_name("alternative") is not None:
                continue
            if re.fullmatch(r"\{?\s*return\s*;\s*\}?", text_of(then)) and body is not None:
                edits.append((node.start_byte, node.end_byte, f"if (!{text_of(asked)}) {{"))
                edits.append((body.end_byte - 1, body.end_byte - 1, "}"))
                break
    return applied(text, edits)


def renamed(text: str) -> str:
    """What functions of the device declare in their bodies gets other names."""
    edits: list[Edit] = []
    for function in functions(syntax_tree(text)):
        body = function.child_by_field_name("body")
        if body is None:
            continue
        names = {name: f"n{at}_" for at, name in enumerate(sorted(_declared(body)))}
        edits += [
            (node.start_byte, node.end_byte, names[text_of(node)])
            for node in below(body)
            if node.type in _NAMES and text_of(node) in names and not _qualified(node)
        ]
    return applied(text, edits)


def _qualified(node: Syntax) -> bool:
    return node.parent is not None and node.parent.type == "qualified_identifier"


def _declared(body: Syntax) -> set[str]:
    """Names of declarations in a body; not those that are called or stand for a macro."""
    found = set()
    for node in below(body):
        if node.type == "init_declarator" or node.parent is None:
            held = node.child_by_field_name("declarator")
        elif node.type == "identifier" and node.parent.type == "declaration":
            held = node
        else:
            continue
        while held is not None and held.type in ("pointer_declarator", "array_declarator"):
            held = held.child_by_field_name("declarator")
        if held is not None and held.type == "identifier":
            found.add(text_of(held))
    called = {
        text_of(function)
        for node in below(body)
        if node.type == "call_expression"
        and (function := node.child_by_field_name("function")) is not None
    }
    return {name for name in found - called if not name.isupper()}


def outlined(text: str) -> str:
    """The body of every kernel moves into a function of the device."""
    edits: list[Edit] = []
    for function in functions(syntax_tree(text)):
        body = function.child_by_field_name("body")
        names = _given(function)
        if body is None or names is None or "__global__" not in text_of(function)[:400]:
            continue
        template = function.parent if function.parent is not None else function
        whole = template if template.type == "template_declaration" else function
        arguments = _arguments(whole)
        if arguments is None:
            continue
        kernel = _name(function)
        if kernel is None:
            continue
        name = f"{text_of(kernel)}_part"
        head = text_of(whole)[: body.start_byte - whole.start_byte]
        before = head[: kernel.start_byte - whole.start_byte]
        behind = head[kernel.end_byte - whole.start_byte :]
        before = re.sub(r"__launch_bounds__\s*\(([^()]|\([^()]*\))*\)", "", before)
        declared = before.replace("__global__", "__device__ __forceinline__") + name + behind
        edits.append((whole.start_byte, whole.start_byte, f"{declared}{text_of(body)}\n"))
        call = f"{{ {name}{arguments}({', '.join(names)}); }}"
        edits.append((body.start_byte, body.end_byte, call))
    return applied(text, edits)


def _declarator(function: Syntax) -> Syntax | None:
    declarator = function.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    return declarator


def _name(function: Syntax) -> Syntax | None:
    """The plain name of a function; None for a specialisation or a method named with its struct."""
    declarator = _declarator(function)
    name = declarator.child_by_field_name("declarator") if declarator is not None else None
    return name if name is not None and name.type == "identifier" else None


def _given(function: Syntax) -> list[str] | None:
    """Names of the parameters of a function; None where one has none."""
    declarator = _declarator(function)
    given = declarator.child_by_field_name("parameters") if declarator is not None else None
    names = []
    for one in given.named_children if given is not None else ():
        if one.type == "comment":
            continue
        if one.type not in _PARAMETERS:
            return None
        held = one.child_by_field_name("declarator")
        while held is not None and held.type != "identifier":
            held = held.named_children[-1] if held.named_children else None
        if held is None:
            return None
        names.append(text_of(held))
    return names if given is not None else None


def _arguments(whole: Syntax) -> str | None:
    """The template arguments that hand all parameters of a template on."""
    if whole.type != "template_declaration":
        return ""
    given = whole.child_by_field_name("parameters")
    names = []
    for one in given.named_children if given is not None else ():
        held = [n for n in below(one) if n.type in ("identifier", "type_identifier")]
        name = one.child_by_field_name("declarator") or one.child_by_field_name("name")
        if name is not None:
            name = next((x for x in below(name) if x.type.endswith("identifier")), name)
        if (
            "..." in text_of(one)
            or not held
            or one.type == "template_template_parameter_declaration"
        ):
            return None
        names.append(text_of(name if name is not None else held[-1]))
    return f"<{', '.join(names)}>"


CHANGES: dict[str, Callable[[str], str]] = {
    "renamed": renamed,
    "commuted": commuted,
    "mirrored": mirrored,
    "written out": written_out,
    "other side": other_side,
    "named": named,
    "return as a branch": guarded,
    "body in a function": outlined,
}

"""The syntax tree of CUDA C++ as the changes of spelling see it, and texts with changed parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from extractors.cuda.grammar import syntax_tree

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax

Edit = tuple[int, int, str]
"""First byte, byte behind the last one, and what stands there instead."""

_DEVICE = re.compile(r"__(global|device)__")


def text_of(node: Syntax) -> str:
    """The source text of a node."""
    return (node.text or b"").decode("ascii", "replace")


def below(node: Syntax) -> Iterator[Syntax]:
    """A node and all nodes in it, in the order of the text."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        pending += reversed(one.children)


def functions(root: Syntax) -> Iterator[Syntax]:
    """Functions of the device that the grammar reads without an error."""
    for node in below(root):
        body = node.child_by_field_name("body") if node.type == "function_definition" else None
        if body is None or node.has_error or body.type != "compound_statement":
            continue
        if _DEVICE.search(text_of(node)[: body.start_byte - node.start_byte]):
            yield node


def applied(text: str, edits: list[Edit]) -> str:
    """The text with the edits that lie in no other one."""
    data = text.encode("ascii", "replace")
    done = len(data) + 1
    for first, last, instead in sorted(edits, key=lambda e: (-e[0], e[0] == e[1], e[1])):
        if last <= done:
            data = data[:first] + instead.encode() + data[last:]
            done = first
    return data.decode("ascii")


def written(node: Syntax, change: Callable[[Syntax], str | None]) -> str:
    """The text of a node in which what `change` takes is changed, at every depth."""
    told = change(node)
    if told is not None:
        return told
    if not node.children:
        return text_of(node)
    data, at, parts = node.text or b"", node.start_byte, []
    for child in node.children:
        parts.append(data[at - node.start_byte : child.start_byte - node.start_byte].decode())
        parts.append(written(child, change))
        at = child.end_byte
    return "".join([*parts, data[at - node.start_byte :].decode()])


def changed(text: str, change: Callable[[Syntax], str | None]) -> str:
    """Every function of the device with what `change` makes of its body's nodes."""
    edits = []
    for function in functions(syntax_tree(text)):
        body = function.child_by_field_name("body")
        if body is not None:
            edits.append((body.start_byte, body.end_byte, written(body, change)))
    return applied(text, edits)


def sides_of(node: Syntax) -> tuple[Syntax, str, Syntax] | None:
    """Left, operator and right of a binary expression."""
    if node.type != "binary_expression":
        return None
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    operator = node.child_by_field_name("operator")
    if left is None or right is None or operator is None:
        return None
    return left, text_of(operator), right


def bracketed(text: str) -> str:
    """What can be an operand of anything."""
    return text if re.fullmatch(r"[\w.:]+", text) else f"({text})"

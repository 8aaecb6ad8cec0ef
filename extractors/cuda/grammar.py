"""The one place that needs tree-sitter: text of C++ with CUDA words to a concrete syntax tree."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kb.errors import InputError

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax
    from tree_sitter import Parser

_REFERENCE = "abstract_reference_declarator"


@cache
def _parser() -> Parser:
    try:
        import tree_sitter_cuda  # noqa: PLC0415
        from tree_sitter import Language, Parser  # noqa: PLC0415
    except ImportError as error:
        raise InputError(
            f"CUDA C++ is read with tree-sitter, which is not installed: {error}.",
            hint='Install it: pip install "tilelore[cuda-source]".',
        ) from None
    return Parser(Language(tree_sitter_cuda.language()))


def syntax_tree(text: str) -> Syntax:
    """The root of the syntax tree of ASCII text; what is no C++ stands in it as error nodes.

    Raises InputError when tree-sitter is not installed.
    """
    return _parser().parse(text.encode("ascii", "replace")).root_node


def declarator_in(node: Syntax) -> Syntax | None:
    """The declarator inside one; in parentheses only that of a reference, as in `float (&)[4]`."""
    inner = node.child_by_field_name("declarator")
    if inner is None and node.type == "abstract_parenthesized_declarator":
        inner = next(iter(node.named_children), None)
        return inner if inner is not None and inner.type == _REFERENCE else None
    return inner

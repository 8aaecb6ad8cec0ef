"""The one place that needs tree-sitter: text of C++ with CUDA words to a concrete syntax tree."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kb.errors import InputError

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax
    from tree_sitter import Parser

    from extractors.cuda.nodes import CType

AROUND = frozenset({"parenthesized_declarator", "attributed_declarator"})
"""What stands around a declarator and says nothing."""

_REFERENCE, _POINTER = "abstract_reference_declarator", "abstract_pointer_declarator"


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
    """The declarator inside one, as in `float (&)[4]`."""
    inner = node.child_by_field_name("declarator")
    if inner is None and node.type == "abstract_parenthesized_declarator":
        inner = next(iter(node.named_children), None)
        return inner if inner is not None and inner.type in (_REFERENCE, _POINTER) else None
    return inner


def points(node: Syntax, type_: CType) -> bool:
    """Whether a declarator in parentheses makes a pointer to what stands around: to an array of
    what is no pointer itself."""
    inner = next(iter(node.named_children), None)
    pointer = inner is not None and inner.type in ("pointer_declarator", _POINTER)
    return pointer and node.type.endswith("parenthesized_declarator") and not type_.pointers

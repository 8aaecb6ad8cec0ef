"""The one place that needs tree-sitter: text of C++ with CUDA words to a concrete syntax tree."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kb.errors import InputError

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax
    from tree_sitter import Parser


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

"""One walk gives what `ast.walk` gives, and each module has its own."""

from __future__ import annotations

import ast
from pathlib import Path

from extractors.syntax.nodes import nodes_of


def test_the_same_nodes_in_the_same_order() -> None:
    trees = [ast.parse(path.read_text()) for path in sorted(Path("extractors/syntax").glob("*.py"))]
    assert len(trees) > 5
    for tree in (*trees, *trees):
        assert nodes_of(tree) == tuple(ast.walk(tree))

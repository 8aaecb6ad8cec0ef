"""All nodes of one module, walked once for everyone who looks for some of them."""

from __future__ import annotations

import ast
from functools import lru_cache


@lru_cache(maxsize=4)
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """What `ast.walk` gives, in its order; nobody changes a tree."""
    found: list[ast.AST] = [tree]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return tuple(found)

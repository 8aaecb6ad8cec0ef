"""One walk gives what `ast.walk` gives but for the marks of names, and each module has its own."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from extractors.syntax.nodes import children, each, nodes_of, walk


def without_marks(nodes: Iterable[ast.AST]) -> list[ast.AST]:
    return [node for node in nodes if not isinstance(node, ast.expr_context)]


def test_the_same_nodes_in_the_same_order() -> None:
    trees = [ast.parse(path.read_text()) for path in sorted(Path("extractors/syntax").glob("*.py"))]
    assert len(trees) > 5
    for tree in (*trees, *trees):
        assert [*nodes_of(tree)] == without_marks(ast.walk(tree))


EVERYTHING = """
from . import one as two, three
import four as five
@six(*seven, eight=9, **ten)
async def f(a, /, b: int = 1, *c, d=2, **e) -> None:
    global g
    async with h as i, j:
        async for k in l:
            await m
    yield n
    return [o async for o, *p in q if r]
class S(T, u=v):
    w: x = 1
    nonlocal y
match z:
    case {"a": [1, *rest], **more} | Point(x=0) as whole if whole: pass
    case None: pass
try:
    lambda a: {b: c, **d}
except* (E, F) as error:
    raise error from None
else:
    del a[1:2:3], b.c
finally:
    a += f"{b!r:>{c}} {d}" if not e < f <= g else (h := -1)
assert a and b, {c for c in d}
type_ = 1j, b"", ..., "text"
"""


def test_every_kind_of_node() -> None:
    for node in without_marks(ast.walk(ast.parse(EVERYTHING))):
        for _ in range(2):  # of what has a body the first answer is kept
            assert [*walk(node)] == without_marks(ast.walk(node))
        assert children(node) == without_marks(ast.iter_child_nodes(node))


def test_those_of_one_class_in_the_same_order() -> None:
    for node in walk(ast.parse(EVERYTHING)):
        for kind in (ast.Name, ast.Constant, ast.FunctionDef):
            found = [one for one in ast.walk(node) if isinstance(one, kind)]
            assert [*each(node, kind)] == found

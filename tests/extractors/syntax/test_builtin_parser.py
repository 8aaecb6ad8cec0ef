"""Python's own parser in several threads at once."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor

from extractors.syntax.builtin_parser import python_expression, python_module

NESTED = "\n".join(f"x{i} = {'(' * 40}a{')' * 40} + [{', '.join('b' * 30)}]" for i in range(300))


def test_threads_that_read_at_once_get_the_same_tree() -> None:
    expected = ast.dump(python_module(NESTED))
    with ThreadPoolExecutor(4) as threads:
        trees = list(threads.map(python_module, [NESTED] * 12))
    assert {ast.dump(tree) for tree in trees} == {expected}


def test_an_expression_is_read_without_its_module() -> None:
    assert ast.unparse(python_expression("a + b.c")) == "a + b.c"

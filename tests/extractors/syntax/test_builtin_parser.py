"""Python's own parser in several threads at once."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from extractors.syntax.builtin_parser import python_expression, python_module

NESTED = "\n".join(f"x{i} = {'(' * 40}a{')' * 40} + [{', '.join('b' * 30)}]" for i in range(60))


@pytest.fixture
def threads_that_take_turns() -> Iterator[None]:
    """The collector runs often and sleeps, so that threads change in the middle of a parse."""

    def sleep(phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            time.sleep(0.0005)

    before = gc.get_threshold()
    gc.callbacks.append(sleep)
    gc.set_threshold(200)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(sleep)


def below(depth: int) -> ast.Module:
    """The parse at a depth of the Python stack: threads at one depth hide the fault."""
    return below(depth - 1) if depth else python_module(NESTED)


@pytest.mark.usefixtures("threads_that_take_turns")
def test_threads_that_read_at_once_get_the_same_tree() -> None:
    expected = ast.dump(python_module(NESTED))
    with ThreadPoolExecutor(4) as threads:
        trees = list(threads.map(below, [1, 15, 30, 45] * 4))
    assert {ast.dump(tree) for tree in trees} == {expected}


def test_an_expression_is_read_without_its_module() -> None:
    assert ast.unparse(python_expression("a + b.c")) == "a + b.c"

"""Keywords that a function gathers from its callers."""

from __future__ import annotations

import ast

from extractors.host.gathered import gathered
from extractors.syntax.nodes import each

_MODULE = """
def launch(kernel, grid, **options):
    kernel[grid](**options)

def one(x):
    launch(first, (1,), warps=4)

def two(x):
    launch(second, (1,), warps=8)
"""


def _told(kernel: str, name: str = "options") -> list[str]:
    tree = ast.parse(_MODULE)
    owner = next(n for n in each(tree, ast.FunctionDef) if n.name == "launch")
    calls = [c for c in each(tree, ast.Call) if isinstance(c.func, ast.Name)]
    found = gathered(
        owner, name, lambda called: [c for c in calls if ast.unparse(c.func) == called], kernel
    )
    return [ast.unparse(key.value) for call in found for key in call.keywords]


def test_calls_that_name_the_kernel_come_first() -> None:
    assert _told("first") == ["4"]
    assert _told("second") == ["8"]


def test_all_calls_when_none_names_it() -> None:
    assert _told("third") == ["4", "8"]


def test_another_name_gathers_nothing() -> None:
    assert _told("first", "grid") == []

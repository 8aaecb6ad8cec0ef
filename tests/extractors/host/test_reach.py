"""Functions that may lead to a kernel are read to their end, others at their beginning only."""

from __future__ import annotations

import ast

import pytest

from extractors.host.reach import leading_to
from tests.extractors.host.conftest import Read

_KERNEL = """
import functools
import triton
@triton.jit
def kern(x, n):
    pass
"""
_LONG = "    total = 0\n    for i in range(2000):\n        total += i\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def run(x):\n    kern[(1,)](x, 1)", "run"),
        ("def inner(x):\n    kern[(1,)](x, 1)\ndef run(x):\n    inner(x)", "run"),
        ("TABLE = {'a': kern}\ndef run(x):\n    TABLE['a'][(1,)](x, 1)", "run"),
        ("def run(x):\n    globals()['kern'][(1,)](x, 1)", "run"),
        ("class Op:\n    k = kern\n    def run(self, x):\n        self.k[(1,)](x, 1)", "Op"),
        ("if True:\n    def run(x):\n        kern[(1,)](x, 1)", "run"),
        (
            "from pkg.ops import ops\n@ops.add('a')\ndef inner(x):\n    kern[(1,)](x, 1)\n"
            "def run(x):\n    ops.get('a')(x)",
            "run",
        ),
        (
            "HELD = []\ndef hold(f):\n    HELD.append(f)\n    return f\n"
            "@hold\ndef inner(x):\n    kern[(1,)](x, 1)\ndef run(x):\n    HELD[0](x)",
            "run",
        ),
    ],
)
def test_what_may_launch_leads_to_the_kernel(text: str, name: str) -> None:
    assert name in _leading(text)


@pytest.mark.parametrize(
    "text",
    [
        "def run(x):\n    return triton.cdiv(x, 2)",
        "__all__ = ['kern', 'run']\ndef run(x):\n    return x",
        "def launch(x):\n    def grid(meta):\n        return (1,)\n    kern[grid](x, 1)\n"
        "def run(grid):\n    return grid",
        "def launch(x):\n    out = {}\n    out[0] = kern[(1,)](x, 1)\n"
        "def run(out):\n    return out",
        "@functools.cache\ndef launch(x):\n    kern[(1,)](x, 1)\n"
        "@functools.cache\ndef run(x):\n    return x",
    ],
)
def test_a_library_and_a_list_of_names_lead_nowhere(text: str) -> None:
    assert "run" not in _leading(text)


def _leading(text: str) -> set[str]:
    tree = ast.parse(_KERNEL + text)
    return leading_to(tree, ["kern"], package="pkg", tables=frozenset({"HELD", "out"}))


def test_a_launch_behind_many_steps_is_read(read: Read) -> None:
    facts = read(f"{_KERNEL}def run(x):\n{_LONG}    kern[(1,)](x, total)\n")
    (launch,) = facts.launches
    assert {b.parameter: b.expression for b in launch.bindings}["n"] == "1999000"


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("def make():\n    def both(x):\n", "    return both\nrun = make()\n"),
        ("class Op:\n    @staticmethod\n    def both(x):\n", ""),
    ],
)
def test_a_function_in_another_definition_is_read(read: Read, head: str, tail: str) -> None:
    body = f"{_LONG}    kern[(1,)](x, total)\n".replace("    ", "        ")
    (launch,) = read(f"{_KERNEL}{head}{body}{tail}").launches
    assert {b.parameter: b.expression for b in launch.bindings}["n"] == "1999000"


def test_of_a_function_that_leads_nowhere_no_one_asks_for_the_end(read: Read) -> None:
    endless = "    for i in range(4000):\n        for j in range(4000):\n            x\n"
    facts = read(f"{_KERNEL}def run(x):\n    kern[(1,)](x, 1)\ndef idle(x):\n{endless}")
    assert len(facts.launches) == 1
    assert not facts.diagnostics


def test_a_rounding_helper_is_recognised_however_much_was_read_before(read: Read) -> None:
    text = (
        f"{_KERNEL}def power(n):\n    m = 1\n    while m < n:\n        m *= 2\n    return m\n"
        f"def idle(x):\n    return power(x.shape[0])\n"
        "def run(x):\n    kern[(1,)](x, power(x.shape[0]))\n"
    )
    (launch,) = read(text).launches
    bound = {b.parameter: b.expression for b in launch.bindings}
    assert bound["n"] == "next_power_of_two(x.shape[0])"

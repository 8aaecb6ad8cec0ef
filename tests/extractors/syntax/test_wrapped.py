"""A function that a later statement wraps reads as the same function under decorators."""

from __future__ import annotations

import ast

import pytest

from extractors.modules import ModuleText
from extractors.read import read
from extractors.syntax.python import parse_module
from extractors.syntax.wrapped import decorated

KERNEL = """import triton
import triton.language as tl

{above}
def copy(x, out, SIZE: tl.constexpr, WIDE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(out + at, tl.load(x + at))

{below}
"""


def module(above: str = "", below: str = "") -> ast.Module:
    return parse_module(KERNEL.format(above=above, below=below), "m.py")


@pytest.mark.parametrize(
    ("above", "below"),
    [
        pytest.param("@triton.jit", "copy = triton.jit(copy)", id="one mark"),
        pytest.param(
            "@triton.jit(debug=True)", "copy = triton.jit(copy, debug=True)", id="with an option"
        ),
        pytest.param(
            "@triton.heuristics({'WIDE': rule})\n@triton.jit",
            "copy = triton.jit(copy)\ncopy = triton.heuristics({'WIDE': rule})(copy)",
            id="two statements",
        ),
        pytest.param(
            "@triton.heuristics({'WIDE': rule})\n@triton.jit",
            "copy = triton.heuristics({'WIDE': rule})(triton.jit(copy))",
            id="one in the other",
        ),
    ],
)
def test_the_same_function(above: str, below: str) -> None:
    wrapped, plain = decorated(module(below=below)), module(above=above)
    assert ast.dump(wrapped) == ast.dump(plain)


@pytest.mark.parametrize(
    "below",
    [
        pytest.param("fast = triton.jit(copy)", id="another name"),
        pytest.param("copy = triton.jit(other)", id="another function"),
        pytest.param("copy = join(copy, copy)", id="two of them"),
        pytest.param("copy = other\ncopy = triton.jit(copy)", id="another object by then"),
        pytest.param("if fast:\n    copy = triton.jit(copy)", id="in one case only"),
    ],
)
def test_left_as_it_is(below: str) -> None:
    tree = module(below=below)
    assert decorated(tree) is tree


def test_the_tree_given_is_not_changed() -> None:
    tree = module(below="copy = triton.jit(copy)")
    before = ast.dump(tree)
    assert decorated(tree) is not tree
    assert ast.dump(tree) == before


def test_a_wrapped_kernel_is_read() -> None:
    text = KERNEL.format(above="", below="copy = triton.jit(copy)")
    kernels = read(ModuleText("m", "m.py", text)).kernels
    assert [kernel.name for kernel in kernels] == ["copy"]

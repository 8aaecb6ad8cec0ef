"""A lifted kernel stands alone and brings nothing of the host."""

from __future__ import annotations

import ast

import pytest

from api.lift import Lifted, lift
from extractors.modules import ModuleText, TextModules
from extractors.read import read

MODULE = '''
import math
import torch
import cuda.tile as ct
from cuda.tile import RoundingMode as RMd
from pkg.helpers import norm as normalise, LIMIT
from .consts import SCALE

Int = ct.Constant[int]
HINT = 2
print("host code runs")

def unused():
    return open("/etc/passwd")

@ct.kernel(occupancy=HINT)
def k(X, Y, N: Int, eps: torch.Tensor = None):
    """Doc of the original."""
    # a comment
    x = ct.load(X, index=(ct.bid(0),), shape=(N,)).astype(torch.float32)
    y = normalise(x, SCALE) * -math.inf
    y = ct.truediv(y, LIMIT, rounding_mode=RMd.APPROX)
    ct.store(Y, index=(ct.bid(0),), tile=y)

def host(x):
    ct.launch(None, (1,), k, (x,))
'''
HELPERS = """
import cuda.tile as ct
LIMIT = 1.5 * 2

def _square(x):
    return x * x

def norm(x, s):
    k = _square(x)
    return k / ct.sum(k) * s
"""


def lifted() -> Lifted:
    """The kernel of MODULE, lifted."""
    texts = {
        "pkg.helpers": ModuleText("pkg.helpers", "pkg/helpers.py", HELPERS),
        "pkg.consts": ModuleText("pkg.consts", "pkg/consts.py", "SCALE = 0.5\n"),
    }
    module = read(ModuleText("pkg.mod", "pkg/mod.py", MODULE), TextModules(texts))
    return lift(module, module.kernels[0])


@pytest.mark.parametrize(
    "word", ["torch", "host", "unused", "passwd", "print", "Doc of", "comment", "launch", "pkg"]
)
def test_nothing_of_the_host_comes_along(word: str) -> None:
    assert word not in lifted().text


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("import cuda.tile as ct", id="native import"),
        pytest.param("@ct.kernel(occupancy=2)", id="hint as a literal"),
        pytest.param("N: ct.Constant[int]", id="annotation alias"),
        pytest.param("SCALE = 0.5", id="constant of a sibling"),
        pytest.param("LIMIT = 3.0", id="computed constant"),
        pytest.param('inf = float("inf")', id="infinity"),
        pytest.param("ct.RoundingMode.APPROX", id="enumeration"),
        pytest.param("astype(ct.float32)", id="host dtype becomes native"),
        pytest.param("def _square(x)", id="helper of a helper"),
        pytest.param("def norm(x, s)", id="helper under its own name"),
    ],
)
def test_what_comes_along(words: str) -> None:
    assert words in lifted().text


def test_it_is_python_and_complete() -> None:
    found = lifted()
    tree = ast.parse(found.text)
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert sorted(functions) == ["_square", "k", "norm"]
    assert found.kernel == "k"
    assert found.missing == ()


def test_a_triton_constant_is_wrapped() -> None:
    text = (
        "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n"
        "C: tl.constexpr = 3\n\n@triton.jit\ndef k(X):\n    tl.store(X, libdevice.tanh(1.0 * C))\n"
    )
    module = read(ModuleText("", "k.py", text))
    found = lift(module, module.kernels[0]).text
    assert "C = tl.constexpr(3)" in found
    assert "from triton.language.extra.libdevice import tanh" in found


def test_a_value_made_at_import_is_named_as_missing() -> None:
    text = (
        "import triton\nimport triton.language as tl\nC = probe()\n\n"
        "@triton.jit\ndef k(X):\n    tl.store(X, C)\n"
    )
    module = read(ModuleText("", "k.py", text))
    assert lift(module, module.kernels[0]).missing == ("C",)


HOSTILE = """
import triton
import triton.language as tl
import os

@triton.jit(noinline=__import__("os").system("touch bad"))
def k(X, n: "__import__('os').system('touch bad')" = os.system("touch bad"),
      m: (lambda: 0)() = ().__class__.__base__.__subclasses__(),
      p: tl.runtime.os.system("touch bad") = tl.core.os.system("touch bad")):
    tl.store(X, 1.0)
"""


def test_nothing_runs_when_a_lifted_kernel_is_defined() -> None:
    module = read(ModuleText("", "k.py", HOSTILE))
    found = lift(module, module.kernels[0]).text
    assert "bad" not in found
    assert "lambda" not in found
    assert "__" not in found
    assert "def k(X, n=None, m=None, p=None)" in found

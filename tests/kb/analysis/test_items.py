"""Loops over work items, and activations whose derivative is taken."""

from __future__ import annotations

import pytest

from extractors.modules import ModuleText
from extractors.read import read
from kb.analysis.derivatives import differentiated
from kb.analysis.facts import Facts

HEAD = """import triton
import triton.language as tl

@triton.jit
def kern(x, y, out, n, per: tl.constexpr, T: tl.constexpr):
    at = tl.arange(0, T)
    own = tl.program_id(0)
"""


def facts(body: str) -> Facts:
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    (kernel,) = read(ModuleText("m", "m.py", text)).kernels
    return Facts(kernel)


STEP = "    tl.store(out + i * T + at, tl.load(x + i * T + at))"


@pytest.mark.parametrize(
    ("body", "items"),
    [
        pytest.param(f"for i in range(own, n, tl.num_programs(0)):\n{STEP}", 1, id="strided"),
        pytest.param(
            f"for i in range(own * per, min(own * per + per, n)):\n{STEP}", 1, id="a chunk"
        ),
        pytest.param(
            f"for j in range(per):\n    i = own * per + j\n{STEP}", 1, id="a counted chunk"
        ),
        pytest.param(f"for i in range(0, n):\n{STEP}", 0, id="near miss: every block takes all"),
        pytest.param(
            f"i = own * per\nwhile i < n:\n{STEP}\n    i += 1", 1, id="a chunk walked by a counter"
        ),
        pytest.param(
            f"i = own\nwhile i < n:\n{STEP}\n    i += 1", 0, id="near miss: not a multiple"
        ),
    ],
)
def test_item_loops(body: str, items: int) -> None:
    assert len(facts(body).item_loops) == items


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param(
            "a = tl.load(x + at)\ns = tl.sigmoid(a)\nd = a * s * (1 - s)\n"
            "tl.store(out + at, d * tl.load(y + at))",
            1,
            id="derivative of the logistic function",
        ),
        pytest.param(
            "a = tl.load(x + at)\ns = 1 / (1 + tl.exp(-a))\nd = s * (1 - s)\n"
            "tl.store(out + at, d * tl.load(y + at))",
            1,
            id="written out",
        ),
        pytest.param(
            "a = tl.load(x + at)\ns = tl.sigmoid(a)\nd = s + a * s * (1 + -s)\n"
            "tl.store(out + at, d * tl.load(y + at))",
            1,
            id="one less the function as a sum",
        ),
        pytest.param(
            "a = tl.load(x + at)\ns = 1 + tl.math.tanh(a)\nd = -0.5 * s * (s - 2)\n"
            "tl.store(out + at, d * tl.load(y + at))",
            1,
            id="the square taken apart",
        ),
        pytest.param(
            "a = tl.load(x + at)\ns = 0.5 * tl.math.erf(a * 0.7071) + 0.5\n"
            "d = s + 0.3989 * a * tl.exp(-0.5 * a * a)\n"
            "tl.store(out + at, d * tl.load(y + at))",
            1,
            id="error function and bell",
        ),
        pytest.param(
            "a = tl.load(x + at)\ns = 1 / (1 + 0.3 * tl.abs(a))\n"
            "d = s + 0.3989 * a * tl.exp(-0.5 * a * a)\n"
            "tl.store(out + at, d * tl.load(y + at))",
            2,
            id="another function and bell",
        ),
        pytest.param(
            "a = tl.load(x + at)\ns = 1 / (1 + 0.3 * tl.abs(a))\n"
            "d = s + 0.3989 * tl.exp(-0.5 * a * a)\n"
            "tl.store(out + at, d * tl.load(y + at))",
            0,
            id="near miss: the bell is not weighed",
        ),
        pytest.param(
            "a = tl.load(x + at)\ns = 1 / (1 + 0.3 * tl.load(y + at))\n"
            "tl.store(out + at, s + 0.3989 * a * tl.exp(-0.5 * a * a))",
            0,
            id="near miss: a bell beside another tile",
        ),
        pytest.param(
            "a = tl.load(x + at)\ntl.store(out + at, a * (0.5 * tl.math.erf(a * 0.7071) + 0.5))",
            0,
            id="near miss: error function, forward",
        ),
        pytest.param(
            "a = tl.load(x + at)\nv = a * (1 + tl.math.tanh(a))\ntl.store(out + at, v * v)",
            0,
            id="near miss: the square of what was activated",
        ),
        pytest.param(
            "a = tl.load(x + at)\ns = tl.sigmoid(a)\n"
            "tl.store(out + at, (1 - s) * tl.load(y + at) + s * tl.load(y + n + at))",
            0,
            id="near miss: a gate",
        ),
        pytest.param(
            "a = tl.load(x + at)\ntl.store(out + at, a * tl.sigmoid(a))",
            0,
            id="near miss: the forward pass",
        ),
    ],
)
def test_differentiated(body: str, count: int) -> None:
    assert len(differentiated(facts(body))) == count

"""Forms of a program that mean the same are looked at as one."""

from __future__ import annotations

import pytest

from extractors.modules import ModuleText
from extractors.read import read
from kb.analysis.inline import inline
from kb.analysis.normal import normal
from kb.ir import Kernel, Op, alpha_digest

_HEAD = """import triton
import triton.language as tl

@triton.jit
def step(x, out, n, FLAG: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n)
"""
_STORE = "    tl.store(out + at, v, mask=at < n)\n"


def _kernel(body: str) -> Kernel:
    (found,) = read(ModuleText("", "k.py", f"{_HEAD}{body}{_STORE}")).kernels
    return inline(found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("    v = v * 2.0\n", "    v = 2.0 * v\n", id="a number on the right"),
        pytest.param("    v = v * n\n", "    v = n * v\n", id="what is handed in on the right"),
        pytest.param(
            "    m = T * 2\n    v = v * m\n", "    m = 2 * T\n    v = m * v\n",
            id="what is computed of that on the right",
        ),
        pytest.param(
            "    v = tl.where(v > 0, v, 0.0)\n", "    v = tl.where(0 < v, v, 0.0)\n",
            id="a number on the right of a comparison",
        ),
        pytest.param(
            "    v = tl.where(at < n, v, 0.0)\n", "    v = tl.where(n > at, v, 0.0)\n",
            id="what is handed in on the right of a comparison",
        ),
        pytest.param(
            "    v = tl.where(v > 0, v, 1.0)\n", "    v = tl.where(~(v > 0), 1.0, v)\n",
            id="a choice of what is so",
        ),
        pytest.param(
            "    if FLAG:\n        v = v + 1\n    else:\n        v = v + 2\n",
            "    if not FLAG:\n        v = v + 2\n    else:\n        v = v + 1\n",
            id="a branch on what is so",
        ),
    ],
)  # fmt: skip
def test_both_are_one(one: str, other: str) -> None:
    first, second = normal(_kernel(one)), normal(_kernel(other))
    assert [_shape(o) for o in first.entry.body.ops if o.kind not in _MADE] == [
        _shape(o) for o in second.entry.body.ops if o.kind not in _MADE
    ]


_MADE = ("not", "bit_not", "const")


def _shape(op: Op) -> tuple[object, ...]:
    kinds = [[inner.kind for inner in r.ops if inner.kind not in _MADE] for r in op.regions]
    roles = [role for role, _ in op.operands]
    hints = [value.rpartition(".")[0] for _, value in op.operands]
    return op.kind, roles, hints, kinds


def test_what_is_in_order_stays() -> None:
    kernel = _kernel("    v = v - 1.0\n")
    assert normal(kernel) is kernel
    assert alpha_digest(normal(kernel)) == alpha_digest(kernel)


def test_differences_keep_their_sides() -> None:
    kernel = _kernel("    v = 1.0 - v\n")
    assert normal(kernel) is kernel

"""What kernels of tiles ask of the device."""

from __future__ import annotations

import pytest

from extractors.patterns.cases import POINTER
from kb.analysis.constraints import constraints_of
from tests.extractors.rules.support import subject

_KERNEL = (
    POINTER
    + """
@triton.jit
def k(x, out, n, F: tl.constexpr, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + at, mask=at < n)
    BODY
    tl.store(out + at, v, mask=at < n)
"""
)
_ASM = (
    'v = tl.inline_asm_elementwise(asm="cvt.rn.satfinite.e2m1x2.f32 $0, $1, $2;", '
    'constraints="=r,r,r", args=[v, v], dtype=tl.int32, is_pure=True, pack=1)'
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("v = v.to(tl.float8e4nv)", [89], id="narrow float"),
        pytest.param(_ASM, [100], id="instruction"),
        pytest.param("v = v.to(tl.float16)", [], id="another float"),
        pytest.param("v = v.to(tl.int8).to(tl.float8e4nv, bitcast=True)", [], id="bits kept"),
        pytest.param("if F:\n        v = v.to(tl.float8e4nv).to(tl.float32)", [], id="on one side"),
    ],
)
def test_devices(body: str, expected: list[int]) -> None:
    told = constraints_of(subject(_KERNEL.replace("BODY", body)).facts)
    asked = [c.expression.rpartition(" ")[2] for c in told if "capability" in c.expression]
    assert [int(one) for one in asked] == expected

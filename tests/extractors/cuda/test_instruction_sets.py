"""Devices that the instructions of a kernel ask for."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda

COPY = 'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(n), "l"(x));'
BULK = 'asm volatile("mbarrier.try_wait.parity.shared.b64 p, [%0], %1;" :: "r"(n), "r"(n));'
PACKED = 'asm("cvt.rn.satfinite.e2m1x2.f32 %0, %1, %2;" : "=r"(n) : "f"(x[0]), "f"(x[1]));'
PAIR = 'asm("ld.global.v8.f32 {%0, %0, %0, %0, %0, %0, %0, %0}, [%1];" : "=f"(v) : "l"(x));'
PLAIN = 'asm("ld.global.v4.f32 {%0, %0, %0, %0}, [%1];" : "=f"(v) : "l"(x));'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(COPY, ["80"], id="asynchronous copy"),
        pytest.param(COPY + "\n" + BULK, ["90"], id="the newest of two"),
        pytest.param(PACKED, ["100"], id="conversion to four bits"),
        pytest.param(PAIR, ["100"], id="256 bits at once"),
        pytest.param(PLAIN, [], id="128 bits at once"),
        pytest.param(f"#if __CUDA_ARCH__ >= 900\n{BULK}\n#endif", [], id="compiled for some"),
        pytest.param(f"if (n > 4) {{ {BULK} }}", ["90"], id="under a condition of the run"),
        pytest.param(f"if constexpr (P) {{ {BULK} }}", [], id="for some of the template"),
        pytest.param(f"if constexpr (P && N > 2) {{ {BULK} }}", [], id="for some of two"),
    ],
)
def test_the_oldest_device(body: str, expected: list[str]) -> None:
    text = f"template <bool P, int N>\n__global__ void k(float* x, int n) {{ float v;\n{body}\n}}\n"
    (found,) = host_facts(read_cuda(text, "k.cu")).values()
    asked = [c.expression for c in found.constraints if "capability" in c.expression]
    assert [one.rpartition(" ")[2] for one in asked] == expected

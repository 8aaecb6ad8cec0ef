"""Sizes that are divided and whose rest is lost, in kernels of threads."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.constraints import constraints_of
from kb.analysis.facts import Facts

_KERNEL = """template <typename T> __global__ void k(float* x, float* y, int n, int d) {
  constexpr int V = 16 / sizeof(T);
  int t = threadIdx.x;
  BODY
}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "for (int i = t; i < n / 4; i += 32) y[4 * i] = x[4 * i];"
            "for (int i = t; i < n / 4; i += 32) y[4 * i + 1] = x[4 * i];",
            ["n % 4 == 0"], id="two loops",
        ),
        pytest.param("if (t < n / V) y[t * V] = x[t * V];", ["n % (16 // bytes_of(T)) == 0"],
                     id="compared, by elements of a type"),
        pytest.param("y[t] = x[t / (d / 2)] + x[t % (d / 2)];", ["d % 2 == 0"], id="halves"),
        pytest.param("y[t * (n / 4)] = x[t * (n / 4)];", ["n % 4 == 0"], id="rows of vectors"),
        pytest.param(
            "for (int i = t; i < n / 4; i += 32) y[4 * i] = x[4 * i];"
            "for (int i = n / 4 * 4 + t; i < n; i += 32) y[i] = x[i];",
            [], id="another loop takes the rest",
        ),
        pytest.param("y[blockIdx.x * n / 4 + t] = x[blockIdx.x * n / 4 + t];", ["n % 4 == 0"],
                     id="rows of vectors, divided together"),
        pytest.param("y[t * n / 4 + d] = x[(t + 3) * n / 4];", ["n % 4 == 0"],
                     id="where a thread begins"),
        pytest.param("y[n * d / 4 + t] = x[n * d / 4 + t];", [], id="two sizes of one product"),
        pytest.param("y[t] = x[t + d / 2];", [], id="the middle of a window"),
        pytest.param("for (int i = t; i < (n + 3) / 4; i += 32) y[i] = x[i];", [],
                     id="rounded up"),
    ],
)  # fmt: skip
def test_quotients(body: str, expected: list[str]) -> None:
    (kernel,) = read_cuda(_KERNEL.replace("BODY", body), "k.cu").kernels
    told = [
        c.expression for c in constraints_of(Facts(kernel)) if " is divided by " in str(c.because)
    ]
    assert told == expected

"""Where the host chooses how many threads a block has."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from kb.evidence import Lines

_KERNEL = "template <int W> __global__ void k(float* x, int n) { x[blockIdx.x] = n; }\n"
_HEADER = "namespace own { constexpr int kLanes = 32; }\n"


def block(host: str) -> tuple[str, tuple[Lines, ...]]:
    """What is told of the threads of a block, with its lines."""
    text = f'#include "own.h"\n{_KERNEL}{host}'
    found = read_cuda(text, "a.cu", lambda *_: ("own.h", _HEADER))
    (told,) = [d for d in host_facts(found)["k"].decisions if d.axis == "num_warps"]
    return told.value, told.lines


def test_conditions_that_part_blocks_and_the_function_behind_them() -> None:
    host = (
        "static int pick(int n) {\n  if (n > 4096) return 8;\n  return 4;\n}\n"
        "static int half(int n) { return n / 2; }\n"
        "void go(float* x, int n, int w, bool late) {\n  int s = w > 0 ? w : pick(half(n));\n"
        "  if (late) touch(x);\n"
        "  if (s >= 8)\n    k<8><<<n, 8 * 32>>>(x, n);\n  else\n    k<4><<<n, 4 * 32>>>(x, n);\n}\n"
    )
    assert block(host) == ("8 or 4", ((3, 3), (4, 4), (5, 5), (11, 11), (12, 12), (14, 14)))


def test_cases_of_a_lambda_and_a_number_of_a_header() -> None:
    host = (
        "void go(float* x, int n, int w) {\n"
        "  auto launch = [&]<int W>() {\n"
        "    k<W><<<n, static_cast<int>(W) * own::kLanes>>>(x, n);\n"
        "  };\n  switch (w) {\n    case 4:\n      launch.template operator()<4>();\n      break;\n"
        "    default:\n      launch.template operator()<8>();\n  }\n}\n"
    )
    value, lines = block(host)
    assert value == "4 or 8"
    assert {(5, 5), (7, 7), (8, 8)} <= {*lines}


@pytest.mark.parametrize(
    "host",
    [
        pytest.param(
            "void go(float* x, int n, bool b) {\n  if (b)\n    k<1><<<n, 64>>>(x, n);\n  else\n"
            "    k<2><<<n, 64>>>(x, n);\n}\n",
            id="one size on both sides",
        ),
        pytest.param(
            "int half(int n) { return n / 2; }\n"
            "void go(float* x, int n) {\n  k<1><<<n, half(n)>>>(x, n);\n}\n",
            id="a function that computes",
        ),
    ],
)
def test_what_chooses_nothing(host: str) -> None:
    launched = {at for at, row in enumerate(host.split("\n"), 3) if "<<<" in row}
    assert {first for first, _ in block(host)[1]} <= launched

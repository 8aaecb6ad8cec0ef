"""Where the host works out the extents of a block."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from kb.evidence import Lines

KERNEL = "__global__ void k(float* x, int n) { x[blockIdx.x] = n; }\n"
BRANCHES = """void go(float* x, int n) {
  int threads;
  if (n < 64) {
    threads = 64;
  } else {
    threads = 256;
  }
  k<<<n, threads>>>(x, n);
}
"""
HANDED = """void start(float* x, int n, dim3 block) {
  k<<<n, block>>>(x, n);
}
void go(float* x, int n) {
  dim3 block(n);
  block.x = 32 * n;
  dim3 other(4);
  start(x, n, block);
}
"""
METHOD = """struct Host {
  void go(float* x, int n,
      int threads = 256) {
    k<<<n, threads>>>(x, n);
  }
};
"""
CONSTANT = """namespace { constexpr int THREADS = 256; }
void go(float* x, int n) {
  k<<<n, THREADS>>>(x, n);
}
"""


@pytest.mark.parametrize(
    ("host", "found"),
    [
        pytest.param(BRANCHES, ((3, 3), (5, 5), (7, 7), (9, 9)), id="set in branches"),
        pytest.param(HANDED, ((3, 3), (6, 6), (7, 7)), id="handed over, an axis set anew"),
        pytest.param(
            HANDED.replace("n, block);", "n, other);"), ((3, 3), (8, 8)), id="another block"
        ),
        pytest.param(METHOD, ((4, 4), (5, 5)), id="a method, by a default"),
        pytest.param(
            "void go(float* x, int n) {\n  k<<<n, 64>>>(x, n);\n}\n", ((3, 3),), id="plain"
        ),
    ],
)
def test_lines_that_make_a_block(host: str, found: tuple[Lines, ...]) -> None:
    facts = host_facts(read_cuda(KERNEL + host, "k.cu"))["k"]
    assert [d.lines for d in facts.decisions if d.axis == "num_warps"] == [found]


def test_a_constant_of_the_file_is_a_number() -> None:
    (warps,) = [
        d
        for d in host_facts(read_cuda(KERNEL + CONSTANT, "k.cu"))["k"].decisions
        if d.axis == "num_warps"
    ]
    assert (warps.value, warps.lines) == ("8", ((2, 2), (4, 4)))


STRUCT = """template <int Warps, int Wide = 4> struct Traits {
  static constexpr int lanes = 32;
  static constexpr int threads = Warps * lanes;
  static constexpr int items = threads * Wide;
};
struct Config { static constexpr unsigned block = 1u << 9; };
using Chosen = Traits<4>;
constexpr int block = Config::block;
template <typename T> void start(float* x, int n) { k<<<n, T::threads>>>(x, n); }
void go(float* x, int n) {
  using Mine = Traits<6, 2>;
  CALL;
}
"""


@pytest.mark.parametrize(
    ("call", "warps"),
    [
        ("k<<<n, Mine::threads>>>(x, n)", "6"),
        ("k<<<n, Chosen::threads>>>(x, n)", "4"),
        ("k<<<n, Traits<2>::items>>>(x, n)", "8"),
        ("k<<<n, Config::block>>>(x, n)", "16"),
        ("k<<<n, block>>>(x, n)", "16"),
        ("k<<<n, Other::threads>>>(x, n)", "Other::threads threads"),
        ("k<<<n, Traits<N>::threads>>>(x, n)", "Traits<N>::threads threads"),
    ],
)
def test_threads_that_a_struct_holds_as_a_constant(call: str, warps: str) -> None:
    host = STRUCT.replace("CALL", call).replace(
        "template <typename T> void start(float* x, int n) { k<<<n, T::threads>>>(x, n); }\n", ""
    )
    (facts,) = host_facts(read_cuda(KERNEL + host, "k.cu")).values()
    assert [one.value for one in facts.decisions if one.axis == "num_warps"] == [warps]


def test_a_struct_that_a_caller_gives_holds_the_threads() -> None:
    host = STRUCT.replace("CALL", "start<Mine>(x, n)")
    (facts,) = host_facts(read_cuda(KERNEL + host, "k.cu")).values()
    assert [one.value for one in facts.decisions if one.axis == "num_warps"] == ["6"]


def test_a_number_of_threads_divided_by_another_constant() -> None:
    host = """void go(float* x, int n) {
  constexpr int wide = 64;
  constexpr int each = wide / 4;
  k<<<n, dim3(wide / each, wide)>>>(x, n);
}
"""
    (facts,) = host_facts(read_cuda(KERNEL + host, "k.cu")).values()
    assert [one.most for one in facts.block_sizes] == [256]

"""How much of an extent a block takes, by what the host divides for the grid or the block."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.host.facts import HostFacts
from kb.evidence import Decision

KERNEL = "__global__ void k(float* x, int n) { x[blockIdx.x * blockDim.x + threadIdx.x] = n; }\n"
PLAIN = """void go(float* x, int n) {
  const int threads = 256;
  k<<<(n + threads - 1) / threads, threads>>>(x, n);
}
"""
AXIS = """void go(float* x, int n) {
  dim3 block(64, 4);
  dim3 grid((n + block.y - 1) / block.y);
  k<<<grid, block>>>(x, n);
}
"""
CHOSEN = """void go(float* x, int n) {
  int rows = 1;
  if (n > 4096) {
    rows = 4;
  }
  k<<<(n + rows - 1) / rows, 64>>>(x, n);
}
"""
TEMPLATE = """template <int T>
void launch(float* x, int n) {
  k<<<(n + T - 1) / T, 64>>>(x, n);
}
void go(float* x, int n) {
  if (n < 512) {
    launch<1>(x, n);
  } else {
    launch<8>(x, n);
  }
}
"""
HELPER = """int up(int a, int b) { return (a + b - 1) / b; }
void go(float* x, int n) {
  dim3 grid(up(n, 128));
  k<<<grid, 128>>>(x, n);
}
"""
SHIFTED = """void go(float* x, int n) {
  k<<<(n + 127) >> 7, 128>>>(x, n);
}
"""
BLOCK = """void go(float* x, int n) {
  int threads = n / 4;
  k<<<1, threads>>>(x, n);
}
"""
BOUND = """void go(float* x, int n, int d) {
  int threads = min(d, 1024);
  k<<<(n + threads - 1) / threads, threads>>>(x, n);
}
"""
ROWS = """void go(float* x, int n, int d) {
  k<<<n / d, 64>>>(x, n);
}
"""
COUNTED = """void go(float* x, int n) {
  int count = 0;
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0);
  k<<<(n + count - 1) / count, 64>>>(x, n);
}
"""
RESIDENT = """void go(float* x, int n) {
  const int threads = 256;
  k<<<n * (2048 / threads), threads>>>(x, n);
}
"""


def tiles(host: str) -> list[Decision]:
    found = host_facts(read_cuda(KERNEL + host, "cuda/k.cu", lambda path, name: None))
    return told(found, "tile_selection")


def told(found: Mapping[str, HostFacts], axis: str) -> list[Decision]:
    return [d for d in next(iter(found.values())).decisions if d.axis == axis]


@pytest.mark.parametrize(
    ("host", "value", "lines"),
    [
        pytest.param(PLAIN, "constant", ((3, 3), (4, 4)), id="threads"),
        pytest.param(AXIS, "constant", ((3, 3), (4, 4)), id="an axis of the block"),
        pytest.param(CHOSEN, "heuristic(shape)", ((3, 3), (5, 5), (7, 7)), id="by the size"),
        pytest.param(TEMPLATE, "heuristic(shape)", ((4, 4), (8, 8), (10, 10)), id="instances"),
        pytest.param(
            TEMPLATE[: TEMPLATE.index("void go")], "compile-time parameter", ((4, 4),), id="open"
        ),
        pytest.param(HELPER, "constant", ((4, 4),), id="a function that divides"),
        pytest.param(HELPER.replace("up(n", "ceil_div(n"), "constant", ((4, 4),), id="a library"),
        pytest.param(SHIFTED, "constant", ((3, 3),), id="a shift"),
        pytest.param(BLOCK, "constant", ((3, 3),), id="elements of a thread"),
        pytest.param(BOUND, "heuristic(shape)", ((3, 3), (4, 4)), id="threads by the row"),
    ],
)
def test_what_a_block_takes(host: str, value: str, lines: tuple[tuple[int, int], ...]) -> None:
    (found,) = tiles(host)
    assert (found.value, found.lines) == (value, lines)


@pytest.mark.parametrize(
    "host",
    [
        pytest.param(ROWS, id="rows of a size that the caller gives"),
        pytest.param(COUNTED, id="a count that the device gives"),
        pytest.param(RESIDENT, id="numbers alone are divided"),
        pytest.param(HELPER.replace("/ b", "/ 2"), id="a function that divides by another number"),
    ],
)
def test_no_share_of_a_block(host: str) -> None:
    """What is left is the size of the block itself."""
    found = host_facts(read_cuda(KERNEL + host, "cuda/k.cu", lambda path, name: None))
    (warps,) = told(found, "num_warps")
    assert [(d.value, d.lines) for d in tiles(host)] == [("constant", warps.lines)]


@pytest.mark.parametrize(
    ("block", "value"),
    [
        pytest.param("128", ["constant"], id="a number"),
        pytest.param("std::min(m, 1024)", ["heuristic(shape)"], id="computed"),
        pytest.param("m", [], id="handed in"),
    ],
)
def test_how_large_a_block_is(block: str, value: list[str]) -> None:
    host = f"void go(float* x, int n, int m) {{ k<<<n, {block}>>>(x, n); }}\n"
    assert [d.value for d in tiles(host)] == value

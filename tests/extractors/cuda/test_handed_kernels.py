"""Launches of kernels that variables, lambdas and functions of the host hand on."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from kb.space import Launch

_KERNEL = "template <int N>\n__global__ void k(float* x, int n) { x[N] = n; }\n"
_CONFIG = "cudaLaunchConfig_t c; c.gridDim = n; c.blockDim = t; "
_BRANCHES = (
    "void go(float* x, int n, int t) {\n  auto* f = &k<1>;\n"
    "  if (n > 8) { f = &k<8>; } else if (n > 4) f = &k<4>;\n"
    f"  {_CONFIG}\n  cudaLaunchKernelEx(&c, f, x, n);\n}}\n"
)
_CHOICE = (
    "void go(float* x, int n, int t) {\n"
    "  auto pick = [&]() { return n > 8 ? &k<8> : &k<1>; };\n  auto f = pick();\n"
    f"  {_CONFIG}\n  cudaLaunchKernelEx(&c, f, x, n);\n}}\n"
)
_LAMBDA = (
    "void go(float* x, int n) {\n  dim3 grid(n);\n  void* args[] = {&x, &n};\n"
    "  auto run = [&](auto kernel, int t) {\n    dim3 block(t);\n"
    "    return cudaLaunchKernel((void*)kernel, grid, block, args, 0, 0);\n  };\n"
    "  if (n > 8) run(k<8>, 256); else run(k<1>, 32);\n}\n"
)
_FUNCTION = (
    "template <typename K, typename... Args>\n"
    "void launch(K kernel, dim3 grid, dim3 block, Args... args) {\n"
    "  cudaLaunchConfig_t c{grid, block};\n  cudaLaunchKernelEx(&c, kernel, args...);\n}\n"
    "template <typename K> void twice(K one, float* x, int n) { launch(one, n, 64, x, n); }\n"
    "void go(float* x, int n) {\n  launch(k<8>, dim3(n, 2), dim3(256), x, n);\n"
    "  twice(k<1>, x, n);\n}\n"
)


def _launches(host: str) -> tuple[Launch, ...]:
    (found,) = host_facts(read_cuda(_KERNEL + host, "k.cu")).values()
    return found.launches


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (_BRANCHES, [("1", "always"), ("8", "n > 8"), ("4", "not (n > 8) and n > 4")]),
        (_CHOICE, [("8", "n > 8"), ("1", "not (n > 8)")]),
        (_LAMBDA, [("8", "n > 8"), ("1", "not (n > 8)")]),
    ],
)
def test_a_variable_may_hold_one_of_several_kernels(
    host: str, expected: list[tuple[str, str]]
) -> None:
    found = _launches(host)
    assert [(one.bindings[0].expression, one.when) for one in found] == expected
    assert {b.expression for one in found for b in one.bindings[1:]} == {"x", "n"}
    assert {one.grid for one in found} == {("n",)}


def test_extents_of_a_lambda_are_what_it_is_called_with() -> None:
    (found,) = host_facts(read_cuda(_KERNEL + _LAMBDA, "k.cu")).values()
    (warps,) = [one for one in found.decisions if one.axis == "num_warps"]
    assert warps.value == "8 or 1"
    assert {10} <= {first for first, _ in warps.lines}


def test_functions_hand_kernels_on() -> None:
    found = _launches(_FUNCTION)
    shown = {(one.bindings[0].expression, one.host_function) for one in found}
    assert shown == {("8", "go"), ("1", "go")}
    assert all([b.expression for b in one.bindings[1:]] == ["x", "n"] for one in found)


def test_what_is_overwritten_at_once_is_not_launched() -> None:
    host = _BRANCHES.replace(
        "  if (n > 8) { f = &k<8>; } else if (n > 4) f = &k<4>;", "  f = &k<8>;"
    )
    assert [one.bindings[0].expression for one in _launches(host)] == ["8"]


def _tiles(host: str) -> list[tuple[str | None, int]]:
    (found,) = host_facts(read_cuda(_KERNEL + host, "k.cu")).values()
    told = [one for one in found.decisions if one.axis == "tile_selection"]
    blocks = {one.lines for one in found.decisions if one.axis == "num_warps"}
    return [(one.subject, len(one.lines)) for one in told if one.lines not in blocks]


def test_numbers_that_follow_a_size_are_tiles_by_size() -> None:
    assert _tiles(_BRANCHES) == [("N", 1)]
    assert _tiles(_BRANCHES.replace("n > 8", "n == 8").replace("n > 4", "n == 4")) == []
    assert _tiles(_BRANCHES.replace("k<8>", "k<1>").replace("k<4>", "k<1>")) == []


def test_numbers_that_the_compiler_chooses_are_tiles_by_size() -> None:
    host = (
        "template <int H> void go(float* x, int n) {\n"
        "  constexpr int rows = H > 256 ? 2 : 4;\n  k<rows><<<n, 64>>>(x, n);\n}\n"
    )
    assert _tiles(host) == [("N", 1)]
    assert _tiles(host.replace("H > 256 ? 2 : 4", "H / 64")) == []


def test_an_instance_without_shared_memory_is_another_algorithm() -> None:
    host = (
        "void go(float* x, int n, bool fits) {\n"
        "  if (fits) k<1><<<n, 64, 4 * n>>>(x, n);\n  else k<0><<<n, 64, 0>>>(x, n);\n}\n"
    )
    (found,) = host_facts(read_cuda(_KERNEL + host, "k.cu")).values()
    assert any(one.axis == "algorithm_selection" for one in found.decisions)
    (found,) = host_facts(read_cuda(_KERNEL + host.replace(", 0>>>", ", 8>>>"), "k.cu")).values()
    assert all(one.axis != "algorithm_selection" for one in found.decisions)


_TRAITS = """template <int STAGES, int TILE> struct Traits { static constexpr int tile = TILE; };
template <typename Traits> __global__ void k(float* x, int n) { x[Traits::tile] = n; }
template <int S, int N> void go(float* x, int n, int block) {
  using T = Traits<S, N>;
  k<T><<<n, block>>>(x, n);
}
void run(float* x, int n, int b) {
  if (n > 4096) {
    go<2, 128>(x, n, b);
  } else {
    go<1, 64>(x, n, b);
  }
}
"""


def test_numbers_in_a_type_that_follow_a_size_are_tiles_by_size() -> None:
    (found,) = host_facts(read_cuda(_TRAITS, "k.cu")).values()
    (tile,) = [one for one in found.decisions if one.axis == "tile_selection"]
    assert (tile.value, tile.subject) == ("heuristic(shape)", None)
    assert {first for first, _ in tile.lines} == {5, 8, 9, 11}
    same = _TRAITS.replace("go<1, 64>", "go<1, 128>")
    (found,) = host_facts(read_cuda(same, "k.cu")).values()
    assert not [one for one in found.decisions if one.axis == "tile_selection"]

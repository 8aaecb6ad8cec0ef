"""Launches by objects that are given the extents when they are made."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda

_KERNEL = (
    "template <int N> __global__ void k(const float* x, float* y) { y[threadIdx.x] = x[N]; }\n"
)
_THROWER = """
struct Go {
  Go(dim3 blocks, dim3 threads, cudaStream_t stream, size_t bytes = 0)
      : config(made(blocks, threads, bytes)) {}
  auto late(bool on = true) -> Go& { return *this; }
  template <typename F, typename... A> auto operator()(F&& f, A&&... a) const -> void {
    check(::cudaLaunchKernelEx(&config, f, std::forward<A>(a)...));
  }
  template <typename F, typename... A> void run(F&& f, A&&... a) const {
    return (*this)(std::forward<F>(f), std::forward<A>(a)...);
  }
 private:
  static auto made(dim3 blocks, dim3 threads, size_t size) -> cudaLaunchConfig_t {
    auto one = cudaLaunchConfig_t{};
    one.gridDim = blocks;
    one.blockDim = threads;
    one.dynamicSmemBytes = size;
    return one;
  }
  cudaLaunchConfig_t config;
};
"""


@pytest.mark.parametrize(
    ("host", "grid", "block"),
    [
        pytest.param("Go(n, 128, s)(k<3>, x, y);", ("n",), 128, id="called at once"),
        pytest.param("Go(n, 128, s).late(true)(k<3>, x, y);", ("n",), 128, id="after a method"),
        pytest.param("Go(n, 128, s).run(k<3>, x, y);", ("n",), 128, id="by a method"),
        pytest.param("Go go(n, 64, s); go(k<3>, x, y);", ("n",), 64, id="by a variable"),
        pytest.param("auto f = k<3>; Go(n, 32, s)(f, x, y);", ("n",), 32, id="kernel held"),
    ],
)
def test_objects_launch(host: str, grid: tuple[str, ...], block: int) -> None:
    text = f"{_KERNEL}{_THROWER}void go(float* x, float* y, int n, cudaStream_t s) {{ {host} }}\n"
    found = host_facts(read_cuda(text, "a.cu", lambda *_: None))["k"].launches
    assert [one.grid for one in found] == [grid]
    assert dict(found[0].hints)["block_x"] == block
    assert {b.parameter: b.expression for b in found[0].bindings}["N"] == "3"


def test_a_struct_keeps_its_kernel() -> None:
    text = (
        f"{_KERNEL}{_THROWER}template <int N> struct Host {{\n"
        "  static constexpr auto kernel = k<N>;\n"
        "  static void run(float* x, float* y, int n, cudaStream_t s) {\n"
        "    Go(n, 96, s)(kernel, x, y);\n  }\n};\n"
    )
    (found,) = host_facts(read_cuda(text, "a.cu", lambda *_: None))["k"].launches
    assert dict(found.hints)["block_x"] == 96


def test_other_objects_launch_nothing() -> None:
    text = (
        f"{_KERNEL}struct Log {{ Log(int a, int b) {{}} void operator()(auto f) const {{}} }};\n"
        "void go(int n) { Log(n, 128)(k<3>); }\n"
    )
    assert not host_facts(read_cuda(text, "a.cu", lambda *_: None))["k"].launches


_CLUSTER = "cutlass::launch_kernel_on_cluster"


@pytest.mark.parametrize(
    "host",
    [
        "cutlass::ClusterLaunchParams c = {n, 96, 2, 64};"
        f" auto f = k<3>; {_CLUSTER}(c, (void const*)f, x, y);",
        f"{_CLUSTER}({{n, 96, 2, 64}}, (void const*)k<3>, x, y);",
    ],
)
def test_cutlass_launches_on_clusters(host: str) -> None:
    text = f"{_KERNEL}void go(float* x, float* y, int n) {{ {host} }}\n"
    (found,) = host_facts(read_cuda(text, "a.cu", lambda *_: None))["k"].launches
    assert found.grid == ("n",)
    assert dict(found.hints)["block_x"] == 96
    other = text.replace(_CLUSTER, "mine::launch")
    assert not host_facts(read_cuda(other, "a.cu", lambda *_: None))["k"].launches


_WAITING = _KERNEL.replace("{", '{ asm volatile("griddepcontrol.wait;"); ', 1)


@pytest.mark.parametrize(
    ("kernel", "host", "found"),
    [
        pytest.param(_KERNEL, "k<3><<<n, 96>>>(x, y);", ["none"], id="angle brackets"),
        pytest.param(_KERNEL, "Go(n, 96, 0)(k<3>, x, y);", ["none"], id="an object made for it"),
        pytest.param(_WAITING, "k<3><<<n, 96>>>(x, y);", [], id="the kernel waits"),
        pytest.param(
            _KERNEL, "Go go(n, 96, 0); more(go); go(k<3>, x, y);", [], id="an object of before"
        ),
        pytest.param(
            _KERNEL,
            "cudaLaunchConfig_t c; more(&c); cudaLaunchKernelEx(&c, k<3>, x, y);",
            [],
            id="a configuration that may hold attributes",
        ),
    ],
)
def test_launches_that_wait_for_the_stream(kernel: str, host: str, found: list[str]) -> None:
    text = f"{kernel}{_THROWER}void go(float* x, float* y, int n) {{ {host} }}\n"
    decisions = host_facts(read_cuda(text, "a.cu", lambda *_: None))["k"].decisions
    assert [d.value for d in decisions if d.axis == "launch_overlap"] == found

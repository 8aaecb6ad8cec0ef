"""What the host of a CUDA kernel does to tensors, asks of them, and hands over twice."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from kb.evidence import Lines

_KERNEL = "__global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = x[n]; }\n"


def _told(host: str, axis: str) -> list[tuple[str, tuple[Lines, ...]]]:
    (found,) = host_facts(read_cuda(_KERNEL + host, "k.cu")).values()
    return [(d.value, d.lines) for d in found.decisions if d.axis == axis]


_RUN = "k<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), n); }"
_DEMANDED = "contiguous tensors demanded"


@pytest.mark.parametrize(
    ("before", "value"),
    [
        ("x = x.contiguous();", ".contiguous() on host"),
        ("TORCH_CHECK(x.is_contiguous());", _DEMANDED),
        ("TORCH_CHECK(x.dim() == 2 && x.stride(-1) == 1);", _DEMANDED),
        ("TORCH_CHECK(x.stride(0) == y.size(1));", "strides demanded"),
        ("TORCH_CHECK((reinterpret_cast<uintptr_t>(x.data_ptr()) & 15) == 0);",
         "aligned pointers demanded"),
        ("auto at = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };"
         " TORCH_CHECK(at(x.data_ptr()));",
         "aligned pointers demanded"),
        ("n = x.stride(0);", "strides as arguments"),
    ],
)  # fmt: skip
def test_layouts(before: str, value: str) -> None:
    host = f"void run(torch::Tensor x, torch::Tensor y, int n) {{\n{before}\n{_RUN}"
    assert _told(host, "layout_contract") == [(value, ((3, 3),))]


@pytest.mark.parametrize(
    "before",
    [
        "auto z = other.contiguous();",
        "TORCH_CHECK(other.is_contiguous());",
        "TORCH_CHECK(x.numel() % 16 == 0);",
        "auto own = [](const void* p) { return p != nullptr; }; TORCH_CHECK(own(x.data_ptr()));",
        "long far = x.stride(0);",
        "if (x.is_contiguous()) log(n);",
    ],
)
def test_no_layout_of_what_is_launched(before: str) -> None:
    host = f"void run(torch::Tensor x, torch::Tensor y, int n) {{\n{before}\n{_RUN}"
    assert _told(host, "layout_contract") == []


def test_layouts_that_a_caller_sees_to() -> None:
    host = """void inner(const float* x, float* y, int n) { k<<<1, 32>>>(x, y, n); }
void run(torch::Tensor x, torch::Tensor out) {
  TORCH_CHECK(out.is_contiguous());
  x = x.contiguous();
  inner(x.data_ptr<float>(), out.data_ptr<float>(), 3);
}"""
    assert dict(_told(host, "layout_contract")) == {
        ".contiguous() on host": ((5, 5),), _DEMANDED: ((4, 4),),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ("x.data_ptr<float>(), x.data_ptr<float>()", 1),
        ("x.data_ptr<float>(), y.data_ptr<float>()", 0),
        ("x.data_ptr<float>(), x.data_ptr<float>() + n", 0),
        ("nullptr, nullptr", 0),
    ],
)
def test_one_tensor_for_input_and_output(arguments: str, count: int) -> None:
    host = f"void run(torch::Tensor x, torch::Tensor y, int n) {{\nk<<<1, 32>>>({arguments}, n); }}"
    told = _told(host, "aliasing")
    assert told == [("in place (same array loaded and stored)", ((3, 3),))][:count]


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        ("at::cuda::getCurrentDeviceProperties()->major >= 9", ((2, 2),)),
        ("version.major >= 9", ()),
    ],
)
def test_properties_of_the_device(asked: str, lines: tuple[Lines, ...]) -> None:
    host = (
        f"void run(const float* x, float* y, int n) {{ if ({asked}) {{ k<<<1, 32>>>(x, y, n); }} }}"
    )
    assert [found for _, found in _told(host, "arch_dispatch")] == ([lines] if lines else [])


def test_a_block_that_the_runtime_chooses() -> None:
    host = """void run(const float* x, float* y, int n) {
  int block = 0, least = 0;
  cudaOccupancyMaxPotentialBlockSize(&least, &block, k, 0, 0);
  k<<<n, block>>>(x, y, n); }"""
    assert [value for value, _ in _told(host, "num_warps")] == ["block threads"]
    assert _told(host, "occupancy") == [("grid-coupled", ((4, 4),))]

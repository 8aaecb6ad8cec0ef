"""Sizes that must be whole vectors."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.alignment import aligned_arrays, vector_ends, whole_vectors
from kb.analysis.facts import Facts

HEAD = "__global__ void k(const float* x, float4* out, int n, int m) {\n"


def sizes(body: str) -> set[tuple[str, int | str]]:
    (kernel,) = read_cuda(f"{HEAD}{body}}}\n", "k.cu").kernels
    return {(found.size, found.elements) for found in whole_vectors(Facts(kernel))}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "out[threadIdx.x] = reinterpret_cast<const float4*>(x + blockIdx.x * n)[threadIdx.x];",
            {("n", 4)},
            id="rows of a runtime size read four by four",
        ),
        pytest.param(
            "out[threadIdx.x] = reinterpret_cast<const float4*>(x)[blockIdx.x * n + threadIdx.x];",
            set(),
            id="the size counts vectors",
        ),
        pytest.param(
            "out[threadIdx.x] = reinterpret_cast<const float4*>(x + blockIdx.x * 8)[threadIdx.x];",
            set(),
            id="a number of whole vectors",
        ),
        pytest.param(
            "float v = x[blockIdx.x * n]; out[threadIdx.x] = make_float4(v, v, v, v);",
            set(),
            id="one element at a time",
        ),
    ],
)
def test_sizes_that_move_vectors(body: str, expected: set[tuple[str, int | str]]) -> None:
    assert sizes(body) == expected


GUARDED = """int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
if (i < n) { out[i / 4] = *reinterpret_cast<const float4*>(x + i); }"""

TOGETHER = """float v = 0.f;
for (int i = threadIdx.x * 8; i < n; i += blockDim.x * 8)
    for (int j = 0; j < 8; ++j) v += x[i + j];
out[threadIdx.x] = make_float4(v, v, v, v);"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(GUARDED, {("n", 4)}, id="the place of the first element is compared"),
        pytest.param(GUARDED.replace("i < n", "i + 3 < n"), set(), id="that of the last one"),
        pytest.param(
            "for (int i = threadIdx.x * 4; i < n; i += blockDim.x * 4) "
            "{ out[i] = *reinterpret_cast<const float4*>(x + i); }",
            {("n", 4)},
            id="a loop in whole vectors",
        ),
        pytest.param(
            "for (int i = threadIdx.x; i < n; i += blockDim.x) "
            "{ out[i] = *reinterpret_cast<const float4*>(x + 4 * i); }",
            set(),
            id="the loop counts vectors",
        ),
        pytest.param(TOGETHER, {("n", 8)}, id="elements that an inner loop takes"),
        pytest.param(
            TOGETHER.replace("v += x[i + j]", "if (i + j < n) v += x[i + j]"),
            set(),
            id="each of them is compared",
        ),
        pytest.param(TOGETHER.replace("blockDim.x * 8", "blockDim.x"), set(), id="rounds overlap"),
        pytest.param(TOGETHER.replace("x[i + j]", "x[j]"), set(), id="another place"),
    ],
)
def test_sizes_that_end_within_a_vector(body: str, expected: set[tuple[str, int | str]]) -> None:
    (kernel,) = read_cuda(f"{HEAD}{body}}}\n", "k.cu").kernels
    assert {(found.size, found.elements) for found in vector_ends(Facts(kernel))} == expected


MOVED = """for (int i = 0; i < m; ++i) {
    out[i] = *reinterpret_cast<const float4*>(x + threadIdx.x * 4); x += 64; }"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(GUARDED, id="where it is given"),
        pytest.param(MOVED, id="moved on in every round"),
    ],
)
def test_arrays_that_begin_at_whole_vectors(body: str) -> None:
    (kernel,) = read_cuda(f"{HEAD}{body}}}\n", "k.cu").kernels
    assert {k: size for k, (size, _) in aligned_arrays(Facts(kernel)).items()} == {"x": "16"}


def test_vectors_of_another_type() -> None:
    text = HEAD.replace("float* x", "__nv_bfloat16* x").replace("float4* out", "int4* out")
    body = "out[threadIdx.x] = *reinterpret_cast<const int4*>(x + blockIdx.x * n);"
    (kernel,) = read_cuda(f"{text}{body}}}\n", "k.cu").kernels
    assert [(f.size, f.elements) for f in whole_vectors(Facts(kernel))] == [("n", 8)]


NAMED = """
template <typename T, int W> struct alignas(W * sizeof(T)) pack { T data[W]; };
template <typename T, int W>
__global__ void k(T* x, T* y, int n) {
  pack<T, W> v = *reinterpret_cast<const pack<T, W>*>(x + threadIdx.x * W);
  *reinterpret_cast<pack<T, W>*>(y + threadIdx.x * W) = v;
}
"""


def test_vectors_of_as_many_elements_as_the_kernel_says() -> None:
    (kernel,) = read_cuda(NAMED, "k.cu").kernels
    found = {name: size for name, (size, _) in aligned_arrays(Facts(kernel)).items()}
    assert found == {"x": "W * bytes_of(T)", "y": "W * bytes_of(T)"}


FIELD = """
struct Given { const __half* x; __half* out; };
__global__ void k(const Given given) {
  uint4 v = reinterpret_cast<const uint4*>(given.x)[threadIdx.x];
  reinterpret_cast<uint4*>(given.out)[threadIdx.x] = v;
}
"""
OPEN = """
template <typename T>
__global__ void k(const T* x, T* out) {
  reinterpret_cast<uint4*>(out)[threadIdx.x] = reinterpret_cast<const uint4*>(x)[threadIdx.x];
}
"""
ASSEMBLY = """
__global__ void k(const float* x, float* out) {
  float a, b, c, d;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + threadIdx.x * 4));
  out[threadIdx.x] = a + b + c + d;
}
"""
ASKED = """
__global__ void k(const __half* x, uint4* out, int n) {
  const __half* row = x + blockIdx.x * n;
  if (reinterpret_cast<uintptr_t>(row) % 16 == 0) {
    out[threadIdx.x] = reinterpret_cast<const uint4*>(row)[threadIdx.x];
  }
}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(FIELD, {"given.x": "16", "given.out": "16"}, id="fields of a record"),
        pytest.param(OPEN, {"x": "16", "out": "16"}, id="elements of any type"),
        pytest.param(ASSEMBLY, {"x": "16"}, id="an instruction that moves four"),
        pytest.param(ASSEMBLY.replace(".v4", ""), {}, id="an instruction that moves one"),
        pytest.param(ASKED, {}, id="the kernel asks for the address"),
    ],
)
def test_arrays_that_vectors_are_moved_of(text: str, expected: dict[str, str]) -> None:
    (kernel,) = read_cuda(text, "k.cu").kernels
    assert {name: size for name, (size, _) in aligned_arrays(Facts(kernel)).items()} == expected


def test_sizes_of_rows_that_the_kernel_asks_for_itself() -> None:
    (kernel,) = read_cuda(ASKED, "k.cu").kernels
    assert not list(whole_vectors(Facts(kernel)))


def test_vectors_of_two_elements_of_any_type() -> None:
    text = """
template <typename T, typename T2>
__global__ void k(const T* x, T2* out, int n) {
  int i = threadIdx.x * 2;
  if (i < n) { out[threadIdx.x] = *reinterpret_cast<const float2*>(x + i); }
}
"""
    (kernel,) = read_cuda(text.replace("T*", "float*"), "k.cu").kernels
    assert [(f.size, f.elements) for f in vector_ends(Facts(kernel))] == [("n", 2)]

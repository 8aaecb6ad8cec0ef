"""A kernel that only calls a function of the device is the program that the function is."""

from __future__ import annotations

import re

import pytest

from benchmarks.invariance.cuda_spellings import outlined
from extractors.cuda.read import read_cuda
from extractors.patterns.base import Pattern
from extractors.patterns.fast_path import FastPath
from extractors.patterns.handed_strides import HandedStrides
from extractors.patterns.loop_structure import LoopStructure
from extractors.patterns.problem_extents import ProblemExtents
from kb.analysis.facts import Facts
from kb.ir_text import to_text

EXPECTED = 31
"""Cases in CUDA C++ of the patterns that ask whether a step is the kernel's own."""

LEAVES = """template <typename T, int N>
__global__ void __launch_bounds__(N) rows(const T* x, T* y, const int* ids, int rows, int n) {
    int row = blockIdx.x;
    if (row >= rows) return;
    if (ids[row] < 0) {
        y[row] = 0;
        return;
    }
    for (int i = threadIdx.x; i < n; i += N) y[row * n + i] = x[ids[row] * n + i];
}
"""
LEAVES_LOOP = """__global__ void first(const int* x, int* y, int n) {
    for (int i = threadIdx.x; i < n; i += 32) {
        if (x[i] < 0) return;
        y[i] = x[i];
    }
    y[n] = 0;
}
"""
STRUCT = """namespace a { struct Params { float* x; int n; }; }
namespace b { struct Params { float* x; float* y; int n; }; }
template <typename Params>
__global__ void walk(Params params) {
    for (int t = blockIdx.y; t < params.rows; t += gridDim.y) {
        for (int i = threadIdx.x; i < params.n; i += blockDim.x) {
            params.y[t * params.n + i] = params.x[i];
        }
    }
}
"""
CALLED = """__device__ float twice(const float& v) { return 2.f * v; }
template <typename T, float (*Act)(const float&)>
__global__ void apply(const T* x, T* y, const int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = Act(x[i]);
}
void run(float* x, float* y, int n) { apply<float, twice><<<1, n>>>(x, y, n); }
"""
NEXT = """__global__ void later(const float* x, float* y, int n) {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 1000)
    int i = threadIdx.x;
    if (i < n) y[i] = x[i];
#else
    if (threadIdx.x == 0) printf("needs more");
#endif
}
"""


def steps(text: str) -> str:
    """The last kernel of a text without places."""
    kernel = read_cuda(text, "k.cu").kernels[-1]
    return re.sub(r" @\S+", "", to_text(kernel))


@pytest.mark.parametrize("text", [LEAVES, LEAVES_LOOP, STRUCT, CALLED, NEXT])
def test_the_body_may_stand_in_a_function(text: str) -> None:
    assert "_part(" in outlined(text)
    assert steps(outlined(text)) == steps(text)


OWN = [
    pytest.param(pattern, case.text, id=f"{pattern.name} {number}")
    for pattern in (FastPath(), LoopStructure(), ProblemExtents(), HandedStrides())
    for number, case in enumerate(pattern.matches)
    if outlined(case.text) != case.text
]


def test_cases_are_outlined() -> None:
    assert len(OWN) == EXPECTED


@pytest.mark.parametrize(("pattern", "text"), OWN)
def test_the_body_in_a_function_is_the_kernels_own(pattern: Pattern, text: str) -> None:
    """Patterns that ask whether a step is the kernel's own see the same in such a function."""
    both = [read_cuda(one, "k.cu").kernels for one in (text, outlined(text))]
    seen = [[d.value for k in kernels for d in pattern.find(Facts(k))] for kernels in both]
    assert seen[0] == seen[1]


def test_a_helper_before_more_work_only_leaves_itself() -> None:
    text = """__device__ void row(const int* ids, float* y) {
    if (ids[blockIdx.x] < 0) return;
    y[blockIdx.x] = 1.f;
}
__global__ void k(const int* ids, float* y, int n) {
    row(ids, y);
    y[n] = 0.f;
}
"""
    assert steps(text).count("return()") == 1
    assert steps(text.replace("    y[n] = 0.f;\n", "")).count("return()") == 2


def test_a_helper_before_a_return_leaves_the_kernel() -> None:
    text = """__device__ void row(const int* ids, float* y) {
    if (ids[blockIdx.x] < 0) return;
    y[blockIdx.x] = 1.f;
}
__global__ void k(const int* ids, float* y, int n) {
    if (n > 7) {
        row(ids, y);
        return;
    }
    y[n] = 0.f;
}
"""
    assert steps(text).count("return()") == 3


def test_a_struct_that_the_helper_writes_is_its_own() -> None:
    text = """struct P { float* y; int n; };
__device__ void part(P p) { p.n += 1; p.y[p.n] = 1.f; }
__global__ void k(P p) { part(p); p.y[p.n] = 0.f; }
"""
    found = steps(text)
    assert re.search(r"add\(lhs %\.\d+, rhs %\.\d+\) : scalar<i32>", found)
    last = found.rsplit("store", 1)[0].rsplit("attribute(x ", 1)[1]
    assert last.startswith("%p,")


@pytest.mark.parametrize(
    ("written", "bracketed"),
    [
        ("(a < 0 || b >= n)", "((a < 0) || (b >= n))"),
        ("!(a < n && b + 1 >= n * 2)", "!((a < n) && (b + 1 >= n * 2))"),
        ("(a < 0 || b >= n || n < 0 || a >= b)", "((a < 0) || (b >= n) || (n < 0) || (a >= b))"),
        ("(b && a < 0 || b >= n ? a : b)", "((b && (a < 0)) || (b >= n) ? a : b)"),
    ],
)
def test_comparisons_that_look_like_template_arguments(written: str, bracketed: str) -> None:
    head = "__global__ void k(int a, int b, int n, int* y) { y[0] = "
    assert steps(f"{head}{written}; }}") == steps(f"{head}{bracketed}; }}")


@pytest.mark.parametrize(
    "asked", ["a < 0 || b >= f<5>", "f<5> && a < 3 || b >= a", "f<5> || b >= f<a> && a >= f<3>"]
)
def test_templates_between_comparisons_end_in_no_error(asked: str) -> None:
    head = "template <int N> __device__ int f; __global__ void k(int a, int b, int* y) { y[0] = "
    assert "store" in steps(f"{head}({asked}); }}")

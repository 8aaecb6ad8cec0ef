"""What the grammar takes for something else than the compiler does."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.ir import kernel_ops
from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, understood

_KERNEL = """__global__ void k(const float* x, float* y, int i, int j, int h, int w) {
    TOLD
    if (in) y[0] = x[i * w + j];
}
"""


@pytest.mark.parametrize(
    "told",
    [
        "bool in = (i < h && j >= 0 && j < w);",
        "bool in; in = (i >= 0 && i < h && j >= 0 && j < w);",
    ],
)
def test_a_comparison_that_looks_like_a_template(told: str) -> None:
    kernel = understood(_KERNEL.replace("TOLD", told))
    assert len(ops(kernel, OpKind.GE)) == told.count(">=")
    assert len(ops(kernel, OpKind.LT)) == 2


@pytest.mark.parametrize("kind", ["T", "own", "half", "int"])
@pytest.mark.parametrize("value", ["*(x + n)", "-x[n]"])
def test_a_cast_of_what_begins_with_an_operator(kind: str, value: str) -> None:
    """The grammar takes it for a product or a difference where the type is a name."""
    text = (
        "template <typename T> __global__ void f(const float* x, T* out, int n) {{\n"
        "  using own = double;\n  out[n] = ({}){};\n}}\n"
    )
    plain, bracketed = (
        [op.kind for op in kernel_ops(read_cuda(text.format(kind, v), "k.cu").kernels[0])]
        for v in (value, f"({value})")
    )
    assert plain == bracketed
    assert OpKind.CAST in plain


_COMPARED = """template <int N> __device__ int count(const float* x) { return N; }
__global__ void k(const float* x, float* y, int n) {
    for (int i = 0; TOLD; ++i) y[i] = x[i];
}
"""


@pytest.mark.parametrize(
    ("told", "plain"),
    [
        ("i < count<4>(x)", "(i) < (count<4>(x))"),
        ("i < count<4>(x) - 1", "(i) < ((count<4>(x)) - 1)"),
        ("n + i < count<4>(x) * 2 && n", "((n + i) < ((count<4>(x)) * 2)) && n"),
    ],
)
def test_a_variable_before_a_call_with_template_arguments(told: str, plain: str) -> None:
    """The grammar takes the variable for a template whose argument is a comparison."""
    kernels = [understood(_COMPARED.replace("TOLD", one)) for one in (told, plain)]
    read, meant = ([op.kind for op in kernel_ops(kernel)] for kernel in kernels)
    assert read == meant
    assert {OpKind.LT, OpKind.RANGE} & set(read)


def test_a_product_with_an_element_makes_a_value() -> None:
    """`T x(a * b[0])` reads as a function that is handed pointers."""
    body = "__half x(p * g[0]); y[0] = x;"
    kernel = understood(f"__global__ void k(const float* g, float* y, float p) {{ {body} }}")
    assert len(ops(kernel, OpKind.MUL)) == 1


@pytest.mark.parametrize("index", ["i", "i * 2 + j", "i + w"])
def test_a_variable_that_begins_with_an_element_is_no_function(index: str) -> None:
    """The grammar takes `float v(x[i]);` for a function that takes an array of x."""
    text = f"""__global__ void k(const float* x, float* y, int i, int j, int w) {{
    float v(x[{index}]);
    y[0] = v;
}}
"""
    assert len(ops(understood(text), OpKind.LOAD)) == 1

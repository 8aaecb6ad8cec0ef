"""Loops that count by themselves are the `for` that they are."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.ir import kernel_ops
from kb.ops import OpKind

_HEAD = "__global__ void copy(const float* x, float* out, int n) {\n"
_RANGE = "for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = x[i];"


def loops(body: str) -> list[str]:
    """The loops of a kernel with a body."""
    (kernel,) = read_cuda(f"{_HEAD}{body}\n}}\n", "k.cu").kernels
    kinds = [op.kind for op in kernel_ops(kernel)]
    assert OpKind.OPAQUE not in kinds
    return [kind for kind in kinds if kind in (OpKind.FOR, OpKind.WHILE)]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_RANGE, id="for"),
        pytest.param(
            "int i = threadIdx.x; while (i < n) { out[i] = x[i]; i += blockDim.x; }", id="while"
        ),
        pytest.param(
            "int i = threadIdx.x; for (; i < n; i += blockDim.x) out[i] = x[i];", id="for without"
        ),
        pytest.param(
            "int i = threadIdx.x, at = i; while (i < n) "
            "{ out[at] = x[i]; i += blockDim.x, at += blockDim.x; }",
            id="two variables",
        ),
        pytest.param(
            "int i = threadIdx.x, at = i; while (i < n) "
            "{ out[at] = x[i]; i += blockDim.x; at += blockDim.x; }",
            id="two statements",
        ),
    ],
)
def test_a_loop_that_counts_is_a_range(body: str) -> None:
    assert loops(body) == [OpKind.FOR]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "int i = threadIdx.x; while (i < n) { out[i] = x[i]; i += blockDim.x; } out[0] = i;",
            id="asked for behind it",
        ),
        pytest.param(
            "int i = threadIdx.x; while (i < n) "
            "{ if (x[i] < 0) { i += 2; continue; } out[i] = x[i]; i += blockDim.x; }",
            id="a round ends elsewhere",
        ),
        pytest.param(
            "int i = threadIdx.x; while (i < n) { out[i] = x[i]; i += blockDim.x; n -= 1; }",
            id="the bound moves",
        ),
        pytest.param(
            "int i = threadIdx.x; while (i < n) { i += blockDim.x; out[i] = x[i]; }",
            id="used behind its step",
        ),
        pytest.param(
            "int i = threadIdx.x, at = i; while (i < n) "
            "{ out[at] = x[i]; i += blockDim.x; at = i * 2; }",
            id="a step that asks for the moved variable",
        ),
    ],
)
def test_other_loops_are_none(body: str) -> None:
    assert loops(body) == [OpKind.WHILE]


@pytest.mark.parametrize(
    ("choice", "branch"),
    [
        (
            "int i = threadIdx.x < 32 ? 0 : n; out[i] = x[i];",
            "int i; if (threadIdx.x < 32) i = 0; else { i = n; } out[i] = x[i];",
        ),
        (
            "float v = x[n]; half w = v > 0.f ? 448.f / v : 1.f; out[0] = w;",
            "float v = x[n]; half w; if (v > 0.f) w = 448.f / v; else w = 1.f; out[0] = w;",
        ),
    ],
    ids=["of one type", "of another type"],
)
def test_sides_that_set_one_variable_are_a_choice(choice: str, branch: str) -> None:
    both = [read_cuda(f"{_HEAD}{body}\n}}\n", "k.cu").kernels[0] for body in (choice, branch)]
    first, second = ([op.kind for op in kernel_ops(kernel)] for kernel in both)
    assert first == second
    assert OpKind.SELECT in first


@pytest.mark.parametrize("place", ["*(out + i)", "*(i + out)", "out[i]"])
def test_a_number_added_to_a_pointer_is_not_written(place: str) -> None:
    body = f"if (n > 3) {{ int i = threadIdx.x; while (i < n) {{ {place} = 1.f; i += 32; }} }}"
    (kernel,) = read_cuda(f"{_HEAD}{body}\n}}\n", "k.cu").kernels
    (loop,) = [op for op in kernel_ops(kernel) if op.kind in (OpKind.FOR, OpKind.WHILE)]
    assert (loop.kind, loop.results) == (OpKind.FOR, ())

"""A kernel with what the functions that it calls do in the place of the calls."""

from __future__ import annotations

import pytest

from extractors.cuda import nodes as n
from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.cuda.render import shown
from extractors.cuda.unfolded import unfolded
from kb.evidence import Lines

_PART = "template <typename T, int N>\n__device__ void part(T* to, int at, int n) { BODY }\n"


def _set(text: str) -> list[str]:
    """What the last kernel of a text sets, in order, in its own words."""
    found = read_cuda(text, "k.cu")
    whole = unfolded(found.definitions[-1], found.library)
    assigned = (one for one in n.inside(whole.body) if isinstance(one, n.Assign))
    return [f"{shown(one.target)} = {shown(one.value)}" for one in assigned]


@pytest.mark.parametrize(
    ("body", "kernel", "found"),
    [
        ("to[at] = N;", "part<float, D>(x, i, n);", ["x[i] = D"]),
        ("to[at] = N;", "if (n > 3) { part<float, D>(x + 1, 7, n); }", ["x + 1[7] = D"]),
        ("int i = at; to[i] = n;", "part<float, D>(x, i, n);", ["x[i'] = n"]),
        ("at += 1; to[at] = n;", "part<float, D>(x, i, n);", ["at = 1", "x[at] = n"]),
        ("to[at] = N;", "n = count(part<float, D>(x, i, n));", ["x[i] = D", "n = "]),
        ("to[at] = N; part<T, N>(to, at, n);", "part<float, D>(x, i, n);", ["x[i] = D"]),
        ("to[at] = N;", "part<float, D>(x, i);", []),
    ],
    ids=["words", "in a branch", "a name of both", "a number of its own", "in an expression",
         "itself", "too little"],
)  # fmt: skip
def test_work_of_functions(body: str, kernel: str, found: list[str]) -> None:
    text = _PART.replace("BODY", body)
    text += f"template <int D> __global__ void k(float* x, int n, int i) {{ {kernel} }}\n"
    told = _set(text)
    assert [one[: len(row)] for one, row in zip(told, found, strict=True)] == found


def test_functions_of_one_name_stay_calls() -> None:
    text = (
        "__device__ void part(int* x) { x[0] = 1; }\n__device__ void part(float* x) { x[0] = 2; }\n"
    )
    assert _set(text + "__global__ void k(float* x) { part(x); }\n") == []


def test_work_of_another_file_has_the_place_of_the_call() -> None:
    header = "__device__ void part(int* x) {\n  x[0] = 1;\n}\n"
    text = '#include "part.cuh"\n\n\n__global__ void k(int* x) {\n\n  part(x);\n}\n'
    found = read_cuda(text, "k.cu", lambda path, name: (name, header))
    whole = unfolded(found.definitions[-1], found.library)
    assert [one.at.line for one in n.inside(whole.body) if isinstance(one, n.Assign)] == [6]


def _lines(text: str, axis: str) -> list[tuple[Lines, ...]]:
    (found,) = host_facts(read_cuda(text, "k.cu")).values()
    return [d.lines for d in found.decisions if d.axis == axis]


def test_promises_in_a_function() -> None:
    part = "{\n  float* __restrict__ to = p.x;\n  to[threadIdx.x] = 1.f;\n}\n"
    head = "struct P { float* x; };\n__device__ void part(P p) "
    text = f"{head}{part}__global__ void k(P p) {{ part(p); }}\n"
    assert _lines(text, "aliasing") == [((3, 3),)]


def test_assertions_of_a_function_are_constraints() -> None:
    part = (
        "template <int N> __device__ void part(int* x) { static_assert(N % 8 == 0); x[0] = N; }\n"
    )
    text = part + "template <int D> __global__ void k(int* x) { part<D>(x); }\n"
    (found,) = host_facts(read_cuda(text, "k.cu")).values()
    assert "D % 8 == 0" in {one.expression for one in found.constraints}


def test_what_a_call_leaves_open_is_no_constraint() -> None:
    body = "{ static_assert(N % V == 0); }\n"
    part = f"template <int V, int N> __device__ void part(int (&x)[N]) {body}"
    text = part + "template <int D> __global__ void k(int* x) { int own[4]; part<D>(own); }\n"
    (found,) = host_facts(read_cuda(text, "k.cu")).values()
    assert not [one for one in found.constraints if "D" in one.expression]

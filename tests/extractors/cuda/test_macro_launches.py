"""Launches in the bodies of macros: the lines of the body, not those of the use."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda

_TEXT = """template <typename T, bool W> __global__ void k(const T* x, T* y, int n) { y[0] = x[n]; }
#define GO(T, W)                       \\
  do {                                 \\
    dim3 block(min(n, 1024));          \\
    k<T, W><<<n, block>>>(x, y, n);    \\
  } while (0)
#define EACH(FN)                       \\
  if (n > 4) {                         \\
    FN(float);                         \\
  }
#define HALF(T) GO(T, false)

void plain(float* x, float* y, int n) {
  GO(float, true);
}
void handed(float* x, float* y, int n) {
  EACH(
      HALF);
}
void flagged(float* x, float* y, int n) {
  bool wide = n % 4 == 0;
  if (wide) {
    k<float, true><<<n, 128>>>(x, y, n);
  } else {
    k<float, false><<<n, 128>>>(x, y, n);
  }
}
"""


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        pytest.param("plain", (5, 5), id="in a body"),
        pytest.param("handed", (5, 5), id="by a macro that another is given over lines"),
        pytest.param("flagged", (23, 23), id="not in a macro"),
    ],
)
def test_the_lines_are_those_of_the_body(function: str, lines: tuple[int, int]) -> None:
    found = host_facts(read_cuda(_TEXT, "a.cu"))["k"].launches
    assert next(one.lines for one in found if one.host_function == function) == lines


def test_the_block_is_made_in_the_body() -> None:
    decisions = host_facts(read_cuda(_TEXT, "a.cu"))["k"].decisions
    (warps,) = [one for one in decisions if one.axis == "num_warps" and "1024" in str(one.value)]
    assert {(4, 4), (5, 5)} <= set(warps.lines)


def test_a_measure_chooses_an_instance() -> None:
    decisions = host_facts(read_cuda(_TEXT, "a.cu"))["k"].decisions
    (chosen,) = [one for one in decisions if one.axis == "algorithm_selection"]
    assert {(22, 22), (23, 23), (25, 25)} <= set(chosen.lines)


def test_what_is_there_or_not_chooses_no_algorithm() -> None:
    text = _TEXT.replace("bool wide = n % 4 == 0;", "bool wide = y != nullptr;")
    decisions = host_facts(read_cuda(text, "a.cu"))["k"].decisions
    assert not [one for one in decisions if one.axis == "algorithm_selection"]


_NESTED = """__global__ void once(float* x, int n) { x[0] = n; }
__global__ void twice(float* x, int n) { x[0] = n + n; }
#define RUN(name) name<<<n, 128>>>(x, n)
#define CASE(count)                    \\
  case count: {                        \\
    if (n < 512) {                     \\
      RUN(once);                       \\
    } else {                           \\
      RUN(twice);                      \\
    }                                  \\
    break;                             \\
  }

void go(float* x, int n, int count) {
  switch (count) {
    CASE(2)
    CASE(4)
  }
}
"""


def test_a_macro_in_the_body_of_a_macro() -> None:
    decisions = host_facts(read_cuda(_NESTED, "a.cu"))["once"].decisions
    (chosen,) = [one for one in decisions if one.axis == "algorithm_selection"]
    assert {(6, 6), (7, 7), (9, 9)} <= set(chosen.lines)


def test_cases_of_types_behind_each_other_hold_one_code() -> None:
    """A macro that hands code to PyTorch's switch over types, which no header shows."""
    text = (
        "#define CASE(...) THO_DISPATCH_CASE(__VA_ARGS__)\n"
        "#define CASES(...) CASE(Half, __VA_ARGS__) CASE(Float, __VA_ARGS__)\n"
        "#define TYPES(TYPE, NAME, ...) THO_DISPATCH_SWITCH(TYPE, NAME, CASES(__VA_ARGS__))\n"
        "template <typename T, typename W> __global__ void k(T* x, const W* w) { x[0] = w[0]; }\n"
        "template <typename T, typename W> void launch(const Tensor& x, const Tensor& w) {\n"
        "  k<T, W><<<1, 32>>>(x.data_ptr<T>(), w.data_ptr<W>());\n}\n"
        "void go(Tensor x, Tensor w) {\n"
        '  TORCH_CHECK(w.is_contiguous(), "w");\n'
        '  TYPES(x.scalar_type(), "x", [&] {\n    using own_t = scalar_t;\n'
        '    TYPES(w.scalar_type(), "w", [&] {\n'
        "      launch<own_t, scalar_t>(x, w);\n    });\n  });\n}\n"
    )  # fmt: skip
    facts = host_facts(read_cuda(text, "k.cu"))["k"]
    assert len(facts.launches) == 1
    assert [c.lines for c in facts.constraints if "w." in c.expression] == [(9, 9)]

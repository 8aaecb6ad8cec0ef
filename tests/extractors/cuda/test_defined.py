"""Macros that stand for the numbers of a block, and calls of macros that are not there."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from kb.evidence import Decision

_KERNEL = "__global__ void k(float* x, int n) { x[blockIdx.x] = n; }\n"
_BLOCK = (
    "#define WIDE 64\n#define ALL (WIDE * 4)\n"
    + _KERNEL
    + "void go(float* x, int n) {\n  k<<<(n + ALL - 1) / ALL, ALL>>>(x, n);\n}\n"
)


def _told(text: str, axis: str) -> list[Decision]:
    return [d for d in host_facts(read_cuda(text, "k.cu"))["k"].decisions if d.axis == axis]


def test_a_block_leads_to_the_macros_of_its_numbers() -> None:
    (warps,) = _told(_BLOCK, "num_warps")
    assert (warps.value, warps.lines) == ("8", ((1, 1), (2, 2), (5, 5)))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_BLOCK.replace("ALL>>>(x", "32>>>(x + ALL - ALL"), id="an argument"),
        pytest.param(_BLOCK.replace("#define WIDE 64", "#define WIDE sizeof(x)"), id="no number"),
        pytest.param("#define ALL 1\n#undef ALL\n" + _BLOCK, id="defined again"),
    ],
)
def test_no_macro_of_a_number(text: str) -> None:
    text = text.replace("(n + ALL - 1) / ALL", "n")
    (warps,) = _told(text, "num_warps")
    line = text.split("\n").index(next(one for one in text.split("\n") if "<<<" in one)) + 1
    assert warps.lines == ((line, line),)


@pytest.mark.parametrize(
    ("set_", "value"),
    [
        ("block.x = 64;", "2"),
        ("block.x = 64; block.y = 2;", "4"),
        ("block.x = n;", "n threads"),
        ("", "block threads"),
    ],
)
def test_a_block_whose_axes_are_set(set_: str, value: str) -> None:
    text = _KERNEL + f"void go(float* x, int n) {{ dim3 block; {set_} k<<<n, block>>>(x, n); }}\n"
    assert [d.value for d in _told(text, "num_warps")] == [value]


@pytest.mark.parametrize(
    "check", ["CHECK(false, n)", "CHECK(false,\n   n)", "CHECK(false, n);", "CHECK(false, f(n)) "]
)
def test_a_macro_that_is_not_there_brings_its_own_semicolon(check: str) -> None:
    text = (
        _KERNEL
        + "void go(float* x, int n) {\n  switch (n) {\n"
        + "    case 1: { k<<<n, 64>>>(x, n); break; }\n    default:\n      "
        + f"{check}\n  }}\n}}\nvoid again(float* x, int n) {{ k<<<n, 64>>>(x, n); }}\n"
    )
    found = read_cuda(text, "k.cu")
    assert not found.library.unit.broken
    assert len(host_facts(found)["k"].launches) == 2


_CHOSEN = """#define EACH(n, ...) \\
  if (n == 4) { constexpr int N = 4; __VA_ARGS__(); } \\
  else { constexpr int N = 8; __VA_ARGS__(); }
#define CHECK(f) \\
  if (f) { return; }
template <int N> __global__ void k(float* x) { x[blockIdx.x] = N; }
void go(float* x, int n) {
  EACH(n, [&] {
    k<N><<<n, 64>>>(x); });
}
"""


def test_what_is_compiled_in_leads_to_the_macro_that_chooses_it() -> None:
    (told,) = _told(_CHOSEN, "specialization")
    assert (1, 3) in told.lines


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            _CHOSEN.replace("EACH(n, [&] {", "CHECK(n); {").replace("}); }", "} }")
            .replace("k<N>", "k<4>").replace("(x); });", "(x); }"),
            id="a check",
        ),
        pytest.param(
            _CHOSEN.replace("EACH(n, [&] {", "GO({").replace("k<N>", "k<4>")
            .replace("#define CHECK(f)", "#define GO(...) \\\n  __VA_ARGS__\n#define CHECK(f)"),
            id="nothing is chosen",
        ),
    ],
)  # fmt: skip
def test_a_macro_that_chooses_nothing(text: str) -> None:
    assert all(first == last for d in _told(text, "specialization") for first, last in d.lines)

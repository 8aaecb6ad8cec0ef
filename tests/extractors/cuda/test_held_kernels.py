"""Launches of kernels that members of structs, tables and template arguments hold, and of
specialisations and namesakes."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda

_KERNEL = "template <int N, typename T> __global__ void k(T* x, int n) { x[N] = n; }\n"
_STRUCT = """template <int N> struct Host {{
  template <typename T> static constexpr auto held = k<N, T>;
  static constexpr auto plain = k<8, float>;
  template <int... I> static constexpr auto table(Sequence<I...>) {{
    return Table<4>{{nullptr, k<I + 1, float>...}};
  }}
  static constexpr auto every = table(Sequence<0, 1, 2>{{}});
  static auto picked(int n) {{ if (n > 4) return held<half>; return held<int>; }}
  template <auto K> static void go(float* x, int n) {{ K<<<n, 128>>>(x, n); }}
  static void run(float* x, int n) {{ {run} }}
}};
"""


def _bound(host: str) -> list[tuple[tuple[str, ...], str]]:
    (found,) = host_facts(read_cuda(_KERNEL + host, "k.cu")).values()
    pairs = [{b.parameter: b.expression for b in one.bindings} for one in found.launches]
    return [((pair["N"], pair["T"]), one.when)
            for pair, one in zip(pairs, found.launches, strict=True)]  # fmt: skip


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("held<float><<<n, 32>>>(x, n);", [(("N", "float"), "always")]),
        ("auto f = n > 3 ? held<int> : held<float>; f<<<n, 32>>>(x, n);",
         [(("N", "int"), "n > 3"), (("N", "float"), "not (n > 3)")]),
        ("auto f = Host::template held<half>; f<<<n, 32>>>(x, n);", [(("N", "half"), "always")]),
        ("go<plain>(x, n);", [(("8", "float"), "always")]),
        ("go<k<7, int>>(x, n);", [(("7", "int"), "always")]),
        ("every[n]<<<n, 64>>>(x, n);", [(("I + 1", "float"), "always")]),
        ("static constexpr F t[2] = {[0] = held<int>, [1] = plain}; auto f = t[n];"
         " f<<<n, 32>>>(x, n);", [(("N", "int"), "always"), (("8", "float"), "always")]),
        ("picked(n)<<<n, 96>>>(x, n);", [(("N", "half"), "always"), (("N", "int"), "always")]),
    ],
)  # fmt: skip
def test_a_struct_holds_a_kernel(run: str, expected: list[tuple[tuple[str, ...], str]]) -> None:
    assert _bound(_STRUCT.format(run=run)) == expected


def test_a_lambda_hands_on_what_it_is_given() -> None:
    host = (
        "template <typename F, typename... A> void go(F kernel, int n, A... args) {\n"
        "  cudaLaunchConfig_t c; c.gridDim = n; c.blockDim = 64;\n"
        "  cudaLaunchKernelEx(&c, kernel, args...);\n}\n"
        "void run(float* x, int n) {\n"
        "  auto launch = [&](auto one) { go(one, n, x, n); };\n"
        "  if (n > 9) launch(k<3, float>); else launch(k<4, float>);\n}\n"
    )
    assert _bound(host) == [(("3", "float"), "n > 9"), (("4", "float"), "not (n > 9)")]


_SPECIAL = """template <typename T> __global__ void k(T* x);
template <> __global__ void k<float>(float* x) { x[0] = 1.f; }
template <> __global__ void k<int>(int* x) { x[0] = 2; }
void run(float* x, int* y) { k<float><<<4, 32>>>(x); k<int><<<8, 64>>>(y); }
"""
_SPACES = """namespace a { __global__ void k(float* x) { x[0] = 1.f; } }
namespace b { __global__ void k(float* x) { x[0] = 2.f; } }
void run(float* x, int n) { (n > 2 ? a::k : b::k)<<<4, 32>>>(x); b::k<<<8, 64>>>(x); }
"""


@pytest.mark.parametrize(
    ("text", "grids"), [(_SPECIAL, [["4"], ["8"]]), (_SPACES, [["4"], ["4", "8"]])]
)
def test_namesakes_are_told_apart(text: str, grids: list[list[str]]) -> None:
    facts = host_facts(read_cuda(text, "k.cu"))
    found = [[one.grid[0] for one in facts[name].launches] for name in ("k", "k_2")]
    assert found == grids


def test_a_lambda_is_called_with_template_arguments() -> None:
    host = (
        "void run(float* x, int n, int w) {\n"
        "  auto launch = [&]<int W>() { k<W, float><<<n, W * 32>>>(x, n); };\n"
        "  switch (w) { case 1: launch.template operator()<1>(); break;\n"
        "    case 2: launch.template operator()<2>(); break; }\n}\n"
    )
    assert _bound(host) == [(("1", "float"), "w == 1"), (("2", "float"), "w == 2")]

"""What a kernel asserts, in itself, in what it calls, and in the struct that it takes numbers from;
checks of what a launch was chosen or made by."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda

_KERNEL = """constexpr int kFile = 4;
template <int M> __device__ void inner(int* a, int n) {
  static_assert(M == 0 || M == 1, "x");
  constexpr int B = M * 2;
  static_assert(B % 4 == 0);
  a[n] = M;
}
template <typename K, typename T, int N, bool F>
__global__ void k(int* x, int n) {
  enum { COLS = K::COLS };
  constexpr int L = N / 2;
  BODY
  x[0] = n;
}
"""


def _told(text: str) -> list[str]:
    (found,) = host_facts(read_cuda(text, "k.cu")).values()
    checked = (c for c in found.constraints if c.checked_by_host)
    return sorted(c.expression for c in checked if "for elements" not in (c.because or ""))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("static_assert(COLS == 1);", ["COLS == 1"], id="of an enumeration"),
        pytest.param("static_assert(L % 8 == 0);", ["L % 8 == 0"], id="of a constant"),
        pytest.param("static_assert(sizeof(T) == 2);", ["bytes_of(T) == 2"], id="bytes"),
        pytest.param(
            "static_assert(std::is_same<T, half>::value || std::is_same_v<T, float>);",
            ["T == half or T == float"],
            id="one of two types",
        ),
        pytest.param(
            "if constexpr (F) { static_assert(N < 9); }", ["not F or N < 9"], id="on one side"
        ),
        pytest.param(
            "inner<N>(x, n);", ["(N * 2) % 4 == 0", "N == 0 or N == 1"], id="in what it calls"
        ),
        pytest.param("if constexpr (F) { inner<N>(x, n); }", [], id="calls it on one side"),
        pytest.param("static_assert(kFile == 4);", [], id="settled by the file"),
        pytest.param("constexpr int Q = kFile; static_assert(Q < 9);", [], id="settled behind it"),
    ],
)
def test_static_assertions(body: str, expected: list[str]) -> None:
    assert _told(_KERNEL.replace("BODY", body)) == expected


def test_a_function_with_overloads_asserts_nothing_of_the_kernel() -> None:
    other = "template <int M> __device__ void inner(float* a, int n) { a[n] = M; }\n"
    assert _told(other + _KERNEL.replace("BODY", "inner<N>(x, n);")) == []


_TRAITS = """template <typename input_t_, int kN_> struct Traits {
  using input_t = input_t_;
  static constexpr int kN = kN_;
  static_assert(kN % 4 == 0);
  static_assert(kN_ < 64);
};
template <int kN_> struct Others { static constexpr int kN = kN_; };
template <typename Tr> __global__ void k(float* x) { x[0] = Tr::kN; }
template <int W> void run(float* x) {
  using Tr = Traits<float, W>;
  k<Tr><<<1, 32>>>(x);
  MORE
}
"""


def test_a_struct_asserts_for_the_kernel() -> None:
    assert _told(_TRAITS.replace("MORE", "")) == ["Tr.kN % 4 == 0", "Tr.kN < 64"]


def test_not_where_another_launch_gives_another_struct() -> None:
    assert _told(_TRAITS.replace("MORE", "k<Others<W>><<<1, 32>>>(x);")) == []


_HOST = """template <int W> __global__ void k(const float* x, int n) { ((float*)x)[0] = n * W; }
void start(Tensor a, int n) { k<4><<<1, 32>>>(a.data_ptr<float>(), n); }
void host(Tensor a, Tensor b, int64_t rows, int width, int other) {
  CHECK
  const int64_t wide = a.size(1);
  int n = static_cast<int>(rows);
  AFTER
  start(a, n);
}
"""


@pytest.mark.parametrize(
    ("check", "after", "expected"),
    [
        pytest.param("", "TORCH_CHECK(wide == 64);", ["x.shape[1] == 64"], id="an extent by name"),
        pytest.param("TORCH_CHECK(rows % 8 == 0);", "", ["n % 8 == 0"], id="what was copied"),
        pytest.param("if (rows == 0) return;", "", ["n != 0"], id="nothing is launched"),
        pytest.param("if (rows <= 0) { return; }", "", ["n > 0"], id="nor below"),
        pytest.param("TORCH_CHECK(a.device().is_cuda());", "", ["x.device.is_cuda"], id="device"),
        pytest.param("if (rows == 7) return;", "", [], id="leaves one case out"),
        pytest.param("if (rows == 0 || other == 1) return;", "", [], id="or another case"),
        pytest.param("TORCH_CHECK(other == 8);", "", [], id="of something else"),
        pytest.param("auto d = Pack<float>::size; rows /= d; TORCH_CHECK(other == d);", "", [],
                     id="by what a size was divided"),
    ],
)  # fmt: skip
def test_checks_of_what_a_launch_is_made_of(check: str, after: str, expected: list[str]) -> None:
    text = _HOST.replace("CHECK", check, 1) if check else _HOST.replace("CHECK", "", 1)
    assert _told(text.replace("AFTER", after)) == expected


def test_a_check_of_what_chose_the_launch() -> None:
    host = """template <int W> __global__ void k(float* x) { x[0] = W; }
    void host(float* x, int bits, int other) {
      TORCH_CHECK(bits == 4 || bits == 8);
      TORCH_CHECK(other == 8);
      if (bits < 8) { k<4><<<1, 32>>>(x); } else { k<8><<<1, 32>>>(x); }
    }"""
    assert _told(host) == ["bits == 4 or bits == 8"]


@pytest.mark.parametrize(("body", "expected"), [
    ("#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890\n  __trap();\n#else\n  x[0] = n;\n#endif",
     ["10 * capability[0] + capability[1] >= 89"]),
    ("#if __CUDA_ARCH__ >= 1000\n  x[0] = n;\n#else\n  if (threadIdx.x == 0) {\n"
     '    printf("no");\n    __trap();\n  }\n#endif',
     ["10 * capability[0] + capability[1] >= 100"]),
    ("#if __CUDA_ARCH__ >= 1000\n  x[0] = n;\n#else\n  x[0] = 2 * n;\n#endif", []),
    ("#if WIDE >= 1000\n  x[0] = n;\n#else\n  __trap();\n#endif", []),
])  # fmt: skip
def test_devices_that_a_kernel_stops_on(body: str, expected: list[str]) -> None:
    text = f"__global__ void k(float* x, int n) {{\n{body}\n}}\n"
    (found,) = host_facts(read_cuda(text, "k.cu")).values()
    assert [c.expression for c in found.constraints if "capability" in c.expression] == expected


@pytest.mark.parametrize("call", ["x[0] = made(n);", "if (n > 0) { x[0] = made(n); }"])
def test_devices_that_a_function_of_the_kernel_stops_on(call: str) -> None:
    text = (
        "__device__ int made(int n) {\n#if __CUDA_ARCH__ < 890\n  __trap();\n  return 0;\n"
        "#else\n  return n;\n#endif\n}\n"
        f"__global__ void k(float* x, int n) {{ {call} }}\n"
    )
    (found,) = host_facts(read_cuda(text, "k.cu")).values()
    told = [c.expression for c in found.constraints if "capability" in c.expression]
    assert told == ([] if "if" in call else ["10 * capability[0] + capability[1] >= 89"])

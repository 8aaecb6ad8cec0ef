"""Extents that must be whole numbers of what the threads take at once."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from kb.evidence import Lines

_RUN = "k<<<n / 4, 32>>>(x, n); }"
_KERNEL = """template <int D, int V, int W>
__global__ void k(float* x, int n) {
%s
  constexpr int count = D / V;
  for (int i = 0; i < count; ++i) x[i] = n;
}
"""
_PLAIN = "__global__ void k(float* x, int n) { x[threadIdx.x] = n / 8; }\n"


def _told(text: str) -> list[tuple[str, tuple[Lines, ...]]]:
    (found,) = host_facts(read_cuda(text, "k.cu")).values()
    return [(d.value, d.lines) for d in found.decisions if d.axis == "tail_handling"]


@pytest.mark.parametrize(
    "asserted",
    ["D % V == 0", "W > 0 && 0 == D % V", "W * 32 == D", "sizeof(float) * W * 8 == D * 4 * V"],
)
def test_asserted(asserted: str) -> None:
    told = _told(_KERNEL % f"  static_assert({asserted});")
    expected = [] if "D * 4" in asserted else [("none: whole tiles demanded", ((3, 3),))]
    assert told == expected


@pytest.mark.parametrize("asserted", ["D % W == 0", "D > V", "sizeof(int) == D", "D % V == 1"])
def test_asserted_of_other_things(asserted: str) -> None:
    assert _told(_KERNEL % f"  static_assert({asserted});") == []


_PART = """template <int ROWS, int PACK>
__device__ void part(float* x, int n) {
  static_assert(ROWS % PACK == 0);
  constexpr int count = ROWS / PACK;
  for (int i = 0; i < count; ++i) x[i] = n;
}
template <int D, int V>
__global__ void k(float* x, int n) { part<D, V>(x, n); }
"""


def test_asserted_in_a_function() -> None:
    assert _told(_PART) == [("none: whole tiles demanded", ((3, 3),))]


def test_whole_warps_of_a_function_are_no_whole_tiles() -> None:
    host = "template <int B> void run(float* x, int n) { k<B, 32><<<1, B>>>(x, n); }"
    assert _told(_PART + host) == []


def test_the_kernel_divides_a_field() -> None:
    text = """struct P { float* x; int n; };
__device__ void part(const P& own) { own.x[threadIdx.x] = own.n / 8; }
__global__ void k(P p) { part(p); }
void run(float* x, int n) {
TORCH_CHECK(n % 8 == 0);
P given{x, n};
k<<<1, 32>>>(given); }
"""
    assert _told(text) == [("none: whole tiles demanded", ((5, 5),))]


def test_whole_warps_are_no_whole_tiles() -> None:
    kernel = _KERNEL % "  static_assert(D % V == 0);"
    host = "template <int B> void run(float* x, int n) { k<B, 32, 1><<<1, B>>>(x, n); }"
    assert _told(kernel + host) == []


@pytest.mark.parametrize(
    ("check", "run"),
    [
        ("TORCH_CHECK(n % 4 == 0);", _RUN),
        ("TORCH_CHECK(n % 4 == 0);", "k<<<1, 32>>>(x, 3 * n * n / 4); }"),
        ("constexpr int v = 16 / sizeof(float);\nTORCH_CHECK(n % v == 0);",
         "k<<<1, 32>>>(x, n / v); }"),
        ("if (n % 4 != 0) throw 1;", _RUN),
        ("TORCH_CHECK(n % 8 == 0);", "k<<<1, 32>>>(x, n); }"),
    ],
)  # fmt: skip
def test_checked(check: str, run: str) -> None:
    found = _told(f"{_PLAIN}void run(float* x, int n) {{\n{check}\n{run}")
    line = 2 + len(check.split("\n"))
    assert found == [("none: whole tiles demanded", ((line, line),))]


@pytest.mark.parametrize(
    ("check", "run"),
    [
        ("TORCH_CHECK(n % 8 == 0);", "k<<<1, 32>>>(x, n + 1); }"),
        ("int v = t.size(1);\nTORCH_CHECK(n % v == 0);", "k<<<1, 32>>>(x, n / v); }"),
        ("TORCH_CHECK(n % far == 0);", "k<<<1, 32>>>(x, n / far); }"),
        ("TORCH_CHECK(n > 4);", _RUN),
    ],
)
def test_checked_of_other_things(check: str, run: str) -> None:
    assert _told(f"{_PLAIN}void run(float* x, int n, int far) {{\n{check}\n{run}") == []


def test_a_check_that_is_defined_in_a_header_is_known_by_its_name() -> None:
    macro = "#define CHECK_HOST(C) if (C) {} else Error().stream\n"
    host = f'void run(float* x, int n) {{\nCHECK_HOST(n % 4 == 0) << "rest";\n{_RUN}'
    assert _told(macro + _PLAIN + host) == [("none: whole tiles demanded", ((4, 4),))]


_FIELDS = """struct Params { const float4* x; float4* out; int packs; };
__global__ void k(Params p) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.packs) p.out[i] = p.x[i];
}
void run(const float4* x, float4* out, int n) {
  Params p;
  p.x = x;
  p.out = out;
  p.packs = COUNT;
  k<<<8, 256>>>(p);
}
"""


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param("n / 4", True, id="divided for a field"),
        pytest.param("(n + 3) / 4", False, id="rounded up"),
    ],
)
def test_sizes_divided_for_fields(count: str, expected: bool) -> None:
    (found,) = host_facts(read_cuda(_FIELDS.replace("COUNT", count), "k.cu")).values()
    assert ("n % 4 == 0" in [c.expression for c in found.constraints]) is expected


@pytest.mark.parametrize(
    ("asserted", "lines"),
    [
        ("D > 64 && D % 32 == 0", ((6, 6),)),
        ("D > 64", ()),
        ("V % 32 == 0", ()),
        ("D % 16 == 0", ()),
        ("D % V == 0", ()),
    ],
)
def test_asserted_by_the_struct_that_launches(asserted: str, lines: tuple[Lines, ...]) -> None:
    told = _told(f"""template <int D, int V> __global__ void k(float* x) {{
  constexpr int each = (D + 31) / 32;
  for (int i = 0; i < each; ++i) x[threadIdx.x + 32 * i] = V;
}}
template <int D, int V> struct Runner {{
  static_assert({asserted});
  static void run(float* x, int n) {{ k<D, V><<<n, 32>>>(x); }}
}};
""")
    assert told == [("none: whole tiles demanded", lines)] * bool(lines)

"""Launches in functions and lambdas of the host, as their callers mean them."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.host.facts import HostFacts

_KERNEL = """template <int N> __global__ void k(float* x, int n) { if (threadIdx.x < n) x[N] = n; }
"""


def _facts(host: str) -> HostFacts:
    (found,) = host_facts(read_cuda(_KERNEL + host, "k.cu")).values()
    return found


_HELPER = """template <int W> void run(float* x, int cols) { k<W><<<1, W>>>(x, cols); }
"""


def test_template_arguments_that_callers_give() -> None:
    found = _facts(
        _HELPER
        + """void all(float* x, int cols) {
  if (cols <= 512) run<64>(x, cols);
  else run<256>(x, cols);
}"""
    )
    assert [(s.when, s.points) for s in found.tuning.spaces] == [
        ("cols <= 512", ((("N", 64),),)), ("not (cols <= 512)", ((("N", 256),),)),
    ]  # fmt: skip
    warps = [d for d in found.decisions if d.axis == "num_warps"]
    assert [d.value for d in warps] == ["2 or 8"]
    assert {(4, 4), (5, 5)} <= set(warps[0].lines)


def test_callers_of_a_function_with_many_launches() -> None:
    """Where there is no room for all launches times all calls, some are told by their callers."""
    ways = "\n".join(f"  else if (n == {at}) k<W><<<{at}, W>>>(x, n);" for at in range(2, 60))
    found = _facts(
        "template <int W> void run(float* x, int n) {\n  if (n == 1) k<W><<<1, W>>>(x, n);\n"
        + ways
        + """
}
void all(float* x, int cols) {
  if (cols <= 512) run<64>(x, cols);
  else if (cols <= 768) run<96>(x, cols);
  else run<256>(x, cols);
}"""
    )
    tiles = [d for d in found.decisions if d.axis == "tile_selection"]
    assert [d.value for d in tiles] == ["heuristic(shape)"]


def test_functions_one_calling_the_other() -> None:
    found = _facts(
        _HELPER
        + """template <int V> void more(float* x, int n) { run<V>(x, n); }
void all(float* x, int n) { if (n > 7) more<32>(x, n); else more<96>(x, n); }"""
    )
    assert [(one.when, dict(one.hints)["block_x"]) for one in found.launches] == [
        ("n > 7", 32), ("not (n > 7)", 96),
    ]  # fmt: skip


def test_a_function_between_that_only_launches() -> None:
    """As many functions lead to a launch as to one that stands in the last of them."""
    found = _facts(
        """template <int W> void launch(float* x, int cols) { k<W><<<1, W>>>(x, cols); }
template <int W> void run(float* x, int cols) { launch<W>(x, cols); }
template <int V> void more(float* x, int n) { run<V>(x, n); }
void some(float* x, int n) { if (n > 7) more<32>(x, n); else more<96>(x, n); }
void all(float* x, int n) { if (x != nullptr) some(x, n); }"""
    )
    assert {one.when for one in found.launches} == {
        "x != none and n > 7", "x != none and not (n > 7)",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "value"),
    [("std::integral_constant<int, 4>{}", 4), ("Number<8>{}", 8), ("std::true_type{}", 1)],
)
def test_constants_that_a_lambda_is_called_with(given: str, value: int) -> None:
    found = _facts(
        f"""void all(float* x, int n) {{
  auto run = [&](auto size) {{ constexpr int W = decltype(size)::value; k<W><<<1, 32>>>(x, n); }};
  if (n % 4 == 0) run({given});
  else run(std::integral_constant<int, 2>{{}});
}}"""
    )
    first, second = found.tuning.spaces
    assert (first.when, first.points) == ("n % 4 == 0", ((("N", value),),))
    assert second.points == ((("N", 2),),)


def test_what_a_lambda_sees_is_what_it_is_when_called() -> None:
    found = _facts(
        """void all(float* x, int n) {
  int threads = 0;
  auto run = [&]() { k<1><<<1, threads>>>(x, n); };
  threads = 128;
  run();
}"""
    )
    assert [dict(one.hints)["block_x"] for one in found.launches] == [128]


def test_checks_of_a_caller() -> None:
    found = _facts(
        _HELPER
        + """void all(torch::Tensor t) {
  TORCH_CHECK(t.numel() % 8 == 0);
  const int cols = 3;
  run<64>(t.data_ptr<float>(), t.numel());
}"""
    )
    assert "n % 8 == 0" in {c.expression for c in found.constraints}


def test_a_check_of_another_name_than_what_is_handed_on() -> None:
    found = _facts(
        _HELPER
        + """void all(float* x, int n, int m) {
  TORCH_CHECK(n % 8 == 0);
  run<64>(x, m);
}"""
    )
    assert not [c for c in found.constraints if "% 8" in c.expression]


def test_a_pointer_to_a_kernel() -> None:
    found = _facts(
        """void all(float* x, int n, bool wide) {
  void (*code)(float*, int) = k<1>;
  if (wide) code = k<4>;
  code<<<1, 32>>>(x, n);
}"""
    )
    assert [s.points for s in found.tuning.spaces] == [((("N", 1),),), ((("N", 4),),)]


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("if (n > 7) one(x, n); else two(x, n);", 1),
        ("one(x, n); two(x, n);", 0),
    ],
)
def test_kernels_of_two_functions_that_are_chosen_between(host: str, found: int) -> None:
    text = f"""__global__ void a(float* x) {{ x[0] = 1; }}
__global__ void b(float* x) {{ x[0] = 2; }}
void one(float* x, int n) {{ if (n > 3) a<<<1, 32>>>(x); }}
void two(float* x, int n) {{ if (n > 3) return; else b<<<1, 32>>>(x); }}
void run(float* x, int n) {{ {host} }}"""
    facts = host_facts(read_cuda(text, "k.cu"))["a"]
    assert len([d for d in facts.decisions if d.axis == "algorithm_selection"]) == found


def test_a_lambda_that_calls_a_function_which_launches() -> None:
    found = _facts(
        _HELPER
        + """void all(float* x, int n) {
  auto go = [&](auto wide) { run<decltype(wide)::value>(x, n); };
  if (n > 512) go(std::integral_constant<int, 128>{});
  else go(std::integral_constant<int, 32>{});
}"""
    )
    assert [s.points for s in found.tuning.spaces] == [((("N", 128),),), ((("N", 32),),)]


_EXTENTS = """static void launch(dim3 grid, dim3 block, float* x, int n) {
  k<1><<<grid, block>>>(x, n);
}
"""


def test_checks_of_a_caller_that_speak_of_what_it_does_not_hand_on() -> None:
    found = _facts(
        _EXTENTS
        + """void all(torch::Tensor t, int rows, int n) {
  TORCH_CHECK(t.dtype() == dl_float);
  TORCH_CHECK(rows % LINE == 0);
  TORCH_CHECK(block % 3 == 0);
  launch(dim3(rows), dim3(32), t.data_ptr<float>(), n);
}"""
    )
    told = {c.expression for c in found.constraints}
    assert {"x.dtype == dl_float", "rows % LINE == 0"} <= told
    assert not [one for one in told if "% 3" in one]  # another `block` than that of the launch


@pytest.mark.parametrize(
    ("before", "sizes"), [("", ["rows"]), ("if (rows == 0) return;", []),
                          ("if (rows % 4 != 0) throw std::runtime_error(\"\");", ["rows"])],
)  # fmt: skip
def test_grids_that_a_caller_makes(before: str, sizes: list[str]) -> None:
    host = f"void all(float* x, int rows, int n) {{ {before} launch(dim3(rows), 32, x, n); }}"
    assert [one.size for one in _facts(_EXTENTS + host).empty_grids] == sizes


@pytest.mark.parametrize(
    "host",
    [
        "switch (w) { case 1: k<1><<<1, 32>>>(x, n); break; case 2: k<2><<<1, 32>>>(x, n); }",
        "if (w == 1) k<1><<<1, 32>>>(x, n); else if (w == 2) k<2><<<1, 32>>>(x, n);",
    ],
)
def test_numbers_that_branches_or_cases_compare(host: str) -> None:
    found = _facts(f"void all(float* x, int n, int w) {{ {host} }}")
    assert "N == 1 or N == 2" in {c.expression for c in found.constraints}

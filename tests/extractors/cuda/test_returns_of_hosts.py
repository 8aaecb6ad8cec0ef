"""Functions of the host that launch one kernel and return, before they launch another."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from kb.evidence import Lines

_KERNELS = """__global__ void few(float* x) { x[threadIdx.x] = 1.f; }
__global__ void many(float* x) { x[threadIdx.x] = 2.f; }
"""


def _chosen(host: str) -> dict[str, tuple[Lines, ...]]:
    """The lines of the choice, by kernel."""
    found = host_facts(read_cuda(_KERNELS + host, "k.cu"))
    return {
        name: d.lines
        for name, facts in found.items()
        for d in facts.decisions
        if d.axis == "algorithm_selection"
    }


_NESTED = """void run(float* x, int n, bool apart) {
  if (apart) {
    if (n < 8) {
      few<<<1, 32>>>(x);
      return;
    }
  }
  many<<<n, 64>>>(x);
}"""


def test_a_return_inside_two_branches() -> None:
    found = _chosen(_NESTED)
    assert {(5, 5), (6, 6)} <= set(found["few"])
    assert {(5, 5), (10, 10)} <= set(found["many"])


def test_a_return_that_the_compiler_may_leave_out() -> None:
    found = _chosen(
        """template <bool W> void run(float* x, int n) {
  if (n < 8) {
    if constexpr (W) {
      few<<<1, 32>>>(x);
      return;
    }
  }
  many<<<n, 64>>>(x);
}"""
    )
    assert (4, 4) in found["few"]
    assert {(4, 4), (10, 10)} <= set(found["many"])


def test_a_branch_that_goes_on_chooses_nothing() -> None:
    assert not _chosen(_NESTED.replace("      return;\n", ""))


_CASES = """#define FEW(N) static_assert(N < 64, "few"); few<<<1, N>>>(x);
void run(float* x, int n) {
  switch (n) {
    case 1: FEW(1); return;
    case 2:
      FEW(2);
      return;
    default: break;
  }
  many<<<n, 64>>>(x);
}"""


@pytest.mark.parametrize("kernel", ["few", "many"])
def test_cases_that_return(kernel: str) -> None:
    assert (5, 5) in _chosen(_CASES)[kernel]


def test_cases_that_go_on_choose_nothing() -> None:
    assert not _chosen(_CASES.replace("return;", "break;"))


def test_nothing_is_run_behind_a_return() -> None:
    text = """void run(float* x, int n, bool apart) {
  if (apart) {
    switch (n) {
      case 1: few<<<1, 32>>>(x); break;
      case 2: many<<<1, 32>>>(x); break;
      default: return;
    }
    return;
  }
  few<<<1, 64>>>(x);
  many<<<1, 64>>>(x);
}"""
    assert {(5, 5), (7, 7)} <= set(_chosen(text)["many"])


_TRAITS = """template <bool V> struct Traits { static constexpr bool vector = V; };
template <typename T> __global__ void copy(float* x) { if (T::vector) x[threadIdx.x] = 1.f; }
void run(float* x, int n) {
  if (n % 4 == 0) {
    using Both = Traits<true>;
    copy<Both><<<1, 32>>>(x);
  } else {
    using Both = Traits<false>;
    copy<Both><<<1, 32>>>(x);
  }
}"""


def test_flags_of_a_type_that_a_launch_names() -> None:
    assert {(6, 6), (8, 8), (11, 11)} <= set(_chosen(_TRAITS)["copy"])


def test_one_type_on_both_sides_chooses_nothing() -> None:
    assert not _chosen(_TRAITS.replace("Traits<false>", "Traits<true>"))


def test_flags_that_nothing_is_measured_for_choose_nothing() -> None:
    assert not _chosen(_TRAITS.replace("n % 4 == 0", "n"))

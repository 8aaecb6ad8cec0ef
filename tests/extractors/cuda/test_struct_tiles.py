"""Tiles that functions of the host hand to a kernel in the arguments of a struct."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from extractors.cuda.struct_tiles import tiles_by_struct

_HANDED = """template <int M, int N, bool whole, typename T>
struct Sizes { static constexpr int rows = M; };
template <typename Traits> __global__ void k(float* x) { x[threadIdx.x * Traits::rows] = 0.f; }
template <typename Traits> void launch(float* x) { k<Traits><<<1, 32>>>(x); }
void small(float* x, bool flag) {
    if (flag) launch<Sizes<64, 32, true, float>>(x); else launch<Sizes<FIRST, 32, false, float>>(x);
}
"""


@pytest.mark.parametrize(
    ("first", "why"),
    [("128", ""), ("64", "the same numbers, another truth value"), ("M", "a number that is open")],
)
def test_one_struct_with_several_numbers(first: str, why: str) -> None:
    text = _HANDED.replace("FIRST", first)
    found = read_cuda(text, "k.cu")
    told = [*tiles_by_struct(found.definitions[0], found.library, "k.cu")]
    assert [d.value for d in told] == ([] if why else ["heuristic(shape)"])
    assert [d.lines for d in told] == ([] if why else [((6, 6),)])

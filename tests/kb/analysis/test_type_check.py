"""Operands that no specialisation could take are told; what some specialisation makes right
passes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kb.analysis.type_check import type_problems
from kb.ir_parse import parse
from kb.ir_verify import verify

CUTILE = """dialect cutile
kernel k(A, B, C, n, TM: constexpr<int>, TN: constexpr<int>, TK: constexpr<int>) {
    %.1 = const(value = 0)
    %i.2 = block_id(axis %.1)
    %at.3 = tuple(item %i.2, item %.1)
    %sa.4 = tuple(item %TM, item %TK)
    %sb.5 = tuple(item %TK, item %TN)
    %a.6 = load_tile(array %A, index %at.3, shape %sa.4)
    %b.7 = load_tile(array %B, index %at.3, shape %sb.5)
    %f32.8 = dtype(name = "f32")
    %f16.9 = dtype(name = "f16")
    %sc.10 = tuple(item %TM, item %TN)
    %zero.11 = full(shape %sc.10, value %.1, dtype %f32.8)
    %x.12 = cast(x %a.6, dtype %f16.9)
    %y.13 = cast(x %b.7, dtype %f16.9)
    %acc.14 = mma(lhs %x.12, rhs %y.13, acc %zero.11)
    %.15 = store_tile(array %C, index %at.3, value %acc.14)
    return()
}
"""
TRITON = """dialect triton
kernel k(X, Y, n, B: constexpr) {
    %.1 = const(value = 0)
    %pid.2 = block_id(axis %.1)
    %lanes.3 = arange(start %.1, size %B)
    %start.4 = mul(lhs %pid.2, rhs %B)
    %at.5 = add(lhs %start.4, rhs %lanes.3)
    %in.6 = lt(lhs %at.5, rhs %n)
    %from.7 = add(lhs %X, rhs %at.5)
    %x.8 = load(pointer %from.7, mask %in.6)
    %e.9 = exp(x %x.8)
    %to.10 = add(lhs %Y, rhs %at.5)
    %.11 = store(pointer %to.10, value %e.9, mask %in.6)
    return()
}
"""


def problems(text: str, points: tuple[Mapping[str, int], ...] = ()) -> list[str]:
    """What is told of a text, each with its line."""
    kernel = parse(text, own_lines=True)
    assert verify(kernel) == ()
    return [f"{p.span.line}: {p.message}" for p in type_problems(kernel, points)]


@pytest.mark.parametrize("text", [CUTILE, TRITON], ids=["cutile", "triton"])
def test_a_program_as_it_was_read_passes(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "written", "edited", "said"),
    [
        pytest.param(CUTILE, "array %C, index %at.3, value %acc.14",
                     "array %acc.14, index %at.3, value %C",
                     "17: store_tile takes an array or pointer as array, %acc.14 is a number",
                     id="array and tile exchanged"),
        pytest.param(TRITON, "pointer %to.10, value %e.9", "pointer %e.9, value %to.10",
                     "13: store takes an array or pointer as pointer, %e.9 is a float of [B]",
                     id="pointer and value exchanged"),
        pytest.param(TRITON, "value %e.9, mask %in.6", "value %in.6, mask %e.9",
                     "13: store takes a truth value for each element, such as a comparison as "
                     "mask, %e.9 is a float", id="a float masks"),
        pytest.param(TRITON, "mask %in.6)\n    %e.9", "mask %lanes.3)\n    %e.9",
                     "10: load takes a truth value", id="an index masks"),
        pytest.param(CUTILE, "%y.13 = cast(x %b.7, dtype %f16.9)",
                     "%y.13 = cast(x %b.7, dtype %f32.8)",
                     "16: mma multiplies f16 by f32; cast one side", id="two dtypes in a product"),
        pytest.param(CUTILE, "index %at.3, value", "index %f32.8, value",
                     "17: store_tile takes integers as index, %f32.8 is a dtype", id="as index"),
        pytest.param(CUTILE, "cast(x %a.6, dtype %f16.9)", "cast(x %f16.9, dtype %a.6)",
                     "14: cast takes a dtype as dtype, %a.6 is a number", id="cast turned round"),
        pytest.param(TRITON, "start %.1, size %B", "start %B, size %.1",
                     "5: arange of 0 elements", id="bounds exchanged"),
        pytest.param(CUTILE, "block_id(axis %.1)", "block_id(axis %A)", "", id="not certain"),
        pytest.param(CUTILE, ", value %acc.14", "", "17: store_tile has no value", id="no value"),
    ],
)  # fmt: skip
def test_an_operand_that_cannot_be(text: str, written: str, edited: str, said: str) -> None:
    assert written in text
    found = problems(text.replace(written, edited, 1))
    assert len(found) == (1 if said else 0)
    assert "".join(found).startswith(said)


@pytest.mark.parametrize(
    ("points", "count"),
    [
        pytest.param((), 0, id="sizes are open"),
        pytest.param(({"TM": 64, "TN": 64, "TK": 64},), 0, id="equal sizes"),
        pytest.param(({"TM": 128, "TN": 64, "TK": 32},), 1, id="sizes differ"),
        pytest.param(({"TM": 128, "TN": 64, "TK": 32}, {"TM": 64, "TN": 64, "TK": 32}), 0,
                     id="one point fits"),
    ],
)  # fmt: skip
def test_sizes_are_compared_where_the_tuning_space_tells(
    points: tuple[Mapping[str, int], ...], count: int
) -> None:
    turned = CUTILE.replace("lhs %x.12, rhs %y.13", "lhs %y.13, rhs %x.12")
    found = problems(turned, points)
    assert len(found) == count
    assert all("they must be as many" in text for text in found)


def test_tiles_that_do_not_broadcast() -> None:
    two = TRITON.replace("size %B)", "size %.20)").replace(
        "    %start.4",
        "    %.21 = const(value = 64)\n    %more.22 = arange(start %.1, size %.21)\n"
        "    %sum.23 = add(lhs %lanes.3, rhs %more.22)\n    %start.4"
    ).replace("    %lanes.3", "    %.20 = const(value = 32)\n    %lanes.3")  # fmt: skip
    (said,) = problems(two)
    assert said.startswith("9: add cannot broadcast lhs of [32] and rhs of [64]: 32 is not 64")


def test_what_two_ways_disagree_on_is_open() -> None:
    branch = TRITON.replace(
        "    %.11 = store(pointer %to.10",
        "    %p.12 = if(condition %n) then {\n        yield(value %to.10)\n    } else {\n"
        "        yield(value %e.9)\n    }\n    %.11 = store(pointer %p.12",
    )
    assert problems(branch) == []

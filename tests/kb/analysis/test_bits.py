"""Masks of whole numbers as arithmetic."""

from __future__ import annotations

import pytest

from kb.analysis import symbolic as s
from kb.analysis.bits import masked, together
from kb.analysis.symbolic import Atom, AtomKind, Expr

_X = s.of(Atom("x", AtomKind.PARAMETER))


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        pytest.param(31, s.mod(_X, s.number(32)), id="what is left"),
        pytest.param(1, s.mod(_X, s.number(2)), id="one bit"),
        pytest.param(-32, s.sub(_X, s.mod(_X, s.number(32))), id="whole multiples"),
        pytest.param(5, None, id="no power of two"),
        pytest.param(0, None, id="nothing"),
    ],
)
def test_masks(mask: int, expected: Expr | None) -> None:
    assert masked(_X, s.number(mask)) == expected
    assert masked(s.number(mask), _X) == expected


@pytest.mark.parametrize(
    ("high", "low", "joined"),
    [
        pytest.param(
            s.scale(_X, 16), s.mod(_X, s.number(16)), True, id="a rest below the multiple"
        ),
        pytest.param(s.scale(_X, 8), s.mod(_X, s.number(16)), False, id="a bit in both"),
        pytest.param(s.scale(_X, 4), s.number(3), True, id="a number below"),
        pytest.param(s.scale(_X, 4), _X, False, id="nothing known"),
        pytest.param(s.scale(_X, 4), s.scale(s.mod(_X, s.number(2)), -1), False, id="below zero"),
    ],
)
def test_bits_side_by_side_are_a_sum(high: s.Expr, low: s.Expr, joined: bool) -> None:
    expected = s.add(high, low) if joined else None
    assert together(high, low) == expected
    assert together(low, high) == expected

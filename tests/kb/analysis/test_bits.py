"""Masks of whole numbers as arithmetic."""

from __future__ import annotations

import pytest

from kb.analysis import symbolic as s
from kb.analysis.bits import masked
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

"""What atomics add up in 32-bit floats, and random numbers with the shape of their offsets."""

from __future__ import annotations

import pytest

from kb.analysis.row_sums import added_wide
from tests.kb.analysis.support import pointer


@pytest.mark.parametrize(
    ("value", "places"),
    [
        pytest.param("v.to(tl.float32)", 2, id="cast of what is loaded"),
        pytest.param("v", 0, id="as it is stored"),
        pytest.param("tl.zeros((T,), tl.int32).to(tl.float32)", 0, id="nothing is loaded"),
    ],
)
def test_atomics_on_widened_numbers(value: str, places: int) -> None:
    found = pointer(
        "x, out, T: tl.constexpr",
        "at = tl.arange(0, T)",
        "v = tl.load(x + at)",
        f"tl.atomic_add(out + at, {value})",
    )
    assert len(added_wide(found)) == places


def test_drawn_numbers_have_the_shape_of_their_offsets() -> None:
    draw = ("at = tl.arange(0, T)", "tl.store(out + at, tl.rand(seed, at))")
    found = pointer("out, seed, T: tl.constexpr", *draw)
    assert found.types.dtype(found.stores[0].value) == "f32"
    assert found.types.shape(found.stores[0].value) == ("T",)


def test_four_numbers_drawn_at_once() -> None:
    found = pointer(
        "out, seed, T: tl.constexpr",
        "at = tl.arange(0, T)",
        "a, b, c, d = tl.rand4x(seed, at)",
        "tl.store(out + at, a + b + c + d)",
    )
    assert found.types.shape(found.stores[0].value) == ("T",)

"""Which parameter an address begins at."""

from __future__ import annotations

import pytest

from kb.analysis.bases import bases
from tests.kb.analysis.support import pointer


@pytest.mark.parametrize(
    ("addresses", "found"),
    [
        ([["x"], ["y"]], {"x", "y"}),
        ([["x", "off"], ["x"]], {"x"}),
        ([["off", "x"], ["off", "y"]], {"x", "y"}),
        ([["off", "x"]], {"x"}),
        ([["a", "off", "x"], ["a", "off", "y"]], {"x", "y"}),
        ([[]], set()),
    ],
)
def test_the_base_is_what_distances_are_added_to(
    addresses: list[list[str]], found: set[str]
) -> None:
    assert bases(addresses, ["x", "y", "off", "a"]) == found


@pytest.mark.parametrize("name", ["OFFSET", "a", "z", "xx"])
def test_the_name_of_a_distance_tells_nothing(name: str) -> None:
    found = pointer(
        f"x, y, {name}, T: tl.constexpr",
        f"at = tl.program_id(0) * T + {name} + tl.arange(0, T)",
        "tl.store(y + at, tl.load(x + at))",
    )
    assert [access.array for access in found.accesses] == ["x", "y"]

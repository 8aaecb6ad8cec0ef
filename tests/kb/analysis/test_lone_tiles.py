"""Tiles of one element: a number that is put in and taken out again is the same number."""

from __future__ import annotations

import pytest

from kb.analysis.loops import Role
from tests.kb.analysis.support import tile


@pytest.mark.parametrize(("extent", "role"), [("1", Role.RUNNING_MAXIMUM), ("2", Role.OTHER)])
def test_a_state_in_a_tile_of_one_element(extent: str, role: Role) -> None:
    found = tile(
        "x, n, A: Int",
        f"top = ct.full(({extent},), -1.0, dtype=ct.float32)",
        "for i in range(n):",
        "    v = ct.load(x, index=(i,), shape=(A,))",
        "    now = ct.maximum(ct.sum(top, 0, keepdims=False), ct.max(v, 0, keepdims=False))",
        f"    top = ct.full(({extent},), now, dtype=ct.float32)",
        "ct.store(x, index=(0,), tile=top)",
    )
    assert [c.role for loop in found.loops for c in loop.carried] == [role]


def test_a_branch_hands_the_number_on() -> None:
    found = tile(
        "x, n, A: Int",
        "total = ct.full((1,), 0.0, dtype=ct.float32)",
        "for i in range(n):",
        "    if i > 2:",
        "        part = ct.sum(ct.load(x, index=(i,), shape=(A,)), 0, keepdims=False)",
        "        total = ct.full((1,), ct.sum(total, 0, keepdims=False) + part, dtype=ct.float32)",
        "ct.store(x, index=(0,), tile=total)",
    )
    assert [c.role for loop in found.loops for c in loop.carried] == [Role.SUM]

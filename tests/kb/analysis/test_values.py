"""Integer meaning: equal expressions are equal, whatever way they were written."""

from __future__ import annotations

import pytest

from kb.analysis.symbolic import AtomKind
from tests.kb.analysis.support import pointer, stored, tile


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ct.bid(0) * T + T", "T + T * block(0)"),
        ("(ct.bid(0) + 1) * T", "T + T * block(0)"),
        ("(n + T - 1) // T", "cdiv(n, T)"),
        ("ct.cdiv(n, T)", "cdiv(n, T)"),
        ("ct.bid(1) // T", "(block(1) // T)"),
        ("ct.bid(1) % T", "(block(1) % T)"),
        ("min(n, ct.bid(0) * T)", "min(T * block(0), n)"),
        ("ct.minimum(ct.bid(0) * T, n)", "min(T * block(0), n)"),
        ("n - n + 3", "3"),
        ("7 // 2 + 1", "4"),
        ("x.shape[1]", "x.shape[1]"),
        ("ct.num_tiles(x, axis=0, shape=(T, T))", "cdiv(x.shape[0], T)"),
        ("n << 2", "4 * n"),
        ("n >> 2", "(n // 4)"),
    ],
)
def test_normal_form(written: str, meant: str) -> None:
    assert (
        str(stored(tile("x, n: int, T: Int", f"ct.store(x, index=(0,), tile={written})"))) == meant
    )


@pytest.mark.parametrize("axis", ['"x"', "1.5", "True", "T"])
def test_an_axis_of_the_grid_that_is_no_number_is_not_guessed(axis: str) -> None:
    found = stored(tile("x, T: Int", f"ct.store(x, index=(0,), tile=ct.bid({axis}) * T)"))
    assert not found.has(AtomKind.BLOCK)


def test_lanes_know_their_axis() -> None:
    found = tile(
        "x, T: Int",
        "a = ct.arange(T, dtype=ct.int32)",
        "ct.store(x, index=(0, 0), tile=a[:, None] + a[None, :])",
    )
    assert str(stored(found)) == "lane(T)[-1] + lane(T)[-2]"


def test_a_branch_that_agrees_is_no_choice() -> None:
    found = tile(
        "x, n: int, F: Int",
        "if F:",
        "    m = n + 1",
        "else:",
        "    m = 1 + n",
        "ct.store(x, index=(0,), tile=m)",
    )
    assert str(stored(found)) == "n + 1"


def test_a_helper_hands_on_as_many_values_as_are_taken() -> None:
    found = pointer(
        "x, n, F: tl.constexpr",
        "if F:",
        "    both = (tl.program_id(0) % n, tl.program_id(0) // n)",
        "else:",
        "    both = (0, 1, 2)",
        "first, second = both",
        "tl.store(x, second)",
    )
    assert str(stored(found)) == "(block(0) // n)"


def test_counters_follow_the_iterations() -> None:
    found = pointer(
        "x, n, S: tl.constexpr",
        "p = x",
        "for i in range(n):",
        "    tl.store(p, i)",
        "    p += S",
    )
    (store,) = found.stores
    assert store.array == "x"
    assert [len(factors) for factors, _ in store.index[0].terms] == [2]
    assert "S" in str(store.index[0])

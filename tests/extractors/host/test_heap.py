"""Two heaps become one as if every object were looked at, whatever was written on the way."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extractors.host.expr import choose, sym
from extractors.host.heap import Content, Heap, merge_heaps

OBJECTS = range(6)
BASE: dict[int, Content] = {0: ("base", 0), 1: ("base", 1)}
"""Objects of the module; a branch may replace them, and then the other one still has them."""

Step = tuple[Any, Any]
steps = st.recursive(
    st.lists(st.tuples(st.sampled_from(OBJECTS), st.integers(0, 2)), max_size=4),
    lambda inner: st.lists(
        st.tuples(inner, inner) | st.tuples(st.sampled_from(OBJECTS), st.integers(0, 2)), max_size=3
    ),
    max_leaves=12,
)
"""Writes of a value to an object, and branches with writes of their own."""


def run(heap: Heap, todo: list[Step], name: str = "c") -> Heap:
    """The heap after writes and branches, by the merge under test."""
    for place, (first, second) in enumerate(todo):
        if isinstance(first, int):
            heap[first] = (second,)
        else:
            cond = sym(f"{name}{place}")
            left = run(heap.copy(), first, f"{cond.args[0]}t")
            right = run(heap.copy(), second, f"{cond.args[0]}f")
            heap = merge_heaps(cond, left, right, BASE, set())
    return heap


def plainly(heap: dict[int, Content], todo: list[Step], name: str = "c") -> dict[int, Content]:
    """The same, every object of both branches compared."""
    for place, (first, second) in enumerate(todo):
        if isinstance(first, int):
            heap[first] = (second,)
            continue
        cond = sym(f"{name}{place}")
        left = plainly(dict(heap), first, f"{cond.args[0]}t")
        right = plainly(dict(heap), second, f"{cond.args[0]}f")
        heap = {}
        for oid in {**left, **right}:
            one, other = (side.get(oid, BASE.get(oid)) for side in (left, right))
            known = one if other is None else other
            heap[oid] = choose(cond, one, other) if None not in (one, other) else known
    return heap


@given(steps)
def test_a_merge_looks_at_all_that_changed(todo: list[Step]) -> None:
    assert run(Heap(), todo).all() == plainly({}, todo)


def test_what_no_branch_wrote_is_taken_as_it_is() -> None:
    start = Heap()
    start[0] = (1,)
    left, right = start.copy(), start.copy()
    assert merge_heaps(sym("c"), left, right, BASE, set()) is left
    left[1] = (2,)
    merged = merge_heaps(sym("c"), left, right, {}, set())
    assert merged.all() == {0: (1,), 1: (2,)}
    assert (merged is left, start.all(), right.all()) == (False, {0: (1,)}, {0: (1,)})


def test_copies_do_not_see_what_the_others_write() -> None:
    first = Heap()
    first[0] = (1,)
    second = first.copy()
    first[0] = (2,)
    third = second.copy()
    second[1] = (3,)
    third.drop(0)
    assert [one.all() for one in (first, second, third)] == [{0: (2,)}, {0: (1,), 1: (3,)}, {}]

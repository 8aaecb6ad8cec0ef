"""The heap of one path, and how the heaps of two branches become one again.

A heap remembers what was written to it in a list that it shares with the heap it was copied from,
so that a merge looks at what the branches changed and not at everything there is.
"""

from __future__ import annotations

from collections.abc import Mapping

from extractors.host.expr import choose
from extractors.host.values import ABSENT, Choice, Expr, Ref, Value

MAX_ALTERNATIVES = 16
"""Ways in which conditions of the problem may choose from a list before all its items are kept."""

Content = object
"""Contents of a heap object: a dict (frame, dict, record) or a tuple, or a Choice of tuples
(list, set)."""

_Log = tuple[int, int, "_Log | None"]
"""What was written last, how many writes there were, and those before it."""


class Heap:
    """Contents by object; they are replaced, never changed.

    Copies hold one table together until one of them is written to.
    """

    __slots__ = ("_own", "_table", "log")

    def __init__(self, table: dict[int, Content] | None = None, log: _Log | None = None) -> None:
        self._table: dict[int, Content] = {} if table is None else table
        self._own = table is None
        self.log = log

    def get(self, oid: int) -> Content | None:
        """The contents of an object; None when there are none here."""
        return self._table.get(oid)

    def __setitem__(self, oid: int, content: Content) -> None:
        if not self._own:
            self._table, self._own = dict(self._table), True
        self._table[oid] = content
        log = self.log
        self.log = (oid, log[1] + 1 if log else 1, log)

    def drop(self, oid: int) -> None:
        """Forget an object."""
        if not self._own:
            self._table, self._own = dict(self._table), True
        del self._table[oid]

    def all(self) -> Mapping[int, Content]:
        """Every object with its contents."""
        return self._table

    def copy(self) -> Heap:
        """A heap of another branch that begins here."""
        self._own = False
        return Heap(self._table, self.log)


def _changed(left: _Log | None, right: _Log | None) -> tuple[list[int], _Log | None]:
    """Objects written by either of two branches, and what both began with."""
    found: set[int] = set()
    while left is not right:
        if right is None or (left is not None and left[1] >= right[1]):
            assert left is not None
            found.add(left[0])
            left = left[2]
        else:
            found.add(right[0])
            right = right[2]
    return sorted(found), left


def merge_heaps(
    cond: Expr, left: Heap, right: Heap, base: dict[int, Content], widened: set[Value]
) -> Heap:
    """One heap from two branches, object by object.

    Both sides began as copies of one heap, and most often they still hold the same objects.
    A list of records that too many conditions choose from becomes all that it may hold; the records
    that some branch leaves out are put into `widened`.
    """
    if left.log is right.log:
        return left
    changed, log = _changed(left.log, right.log)
    rows = [(oid, left.get(oid), right.get(oid)) for oid in changed]
    if all(first is second for _, first, second in rows):
        return left
    merged = left.copy()
    merged.log = log
    for oid, first, second in rows:
        if first is None and second is None:
            continue
        first = base.get(oid) if first is None else first
        second = base.get(oid) if second is None else second
        if first is None or second is None:
            merged[oid] = second if first is None else first
        else:
            merged[oid] = _merge_content(cond, first, second, widened)
    return merged


def _merge_content(cond: Expr, left: Content, right: Content, widened: set[Value]) -> Content:
    if left is right:
        return left
    if isinstance(left, dict) and isinstance(right, dict):
        merged = {}
        for key, first in left.items():
            second = right.get(key, ABSENT)
            merged[key] = first if first is second else choose(cond, first, second)
        if not right.keys() <= left.keys():
            for key, second in right.items():
                if key not in left:
                    merged[key] = second if second is ABSENT else choose(cond, ABSENT, second)
        return merged
    rows = [*_alternatives(left), *_alternatives(right)]
    if len(rows) > MAX_ALTERNATIVES or not widened.isdisjoint(item for row in rows for item in row):
        every = dict.fromkeys(item for row in rows for item in row)
        records = [one for one in every if isinstance(one, Ref) and one.kind in ("record", "dict")]
        if len(records) == len(every):
            widened.update(item for item in every if not all(item in row for row in rows))
            return tuple(sorted(records, key=lambda one: one.oid))
    return choose(cond, left, right)


def _alternatives(value: Content) -> list[tuple[Value, ...]]:
    """The rows that the contents of a list may be; none when one of them is no row."""
    if isinstance(value, Choice):
        then, other = _alternatives(value.then), _alternatives(value.other)
        return [*then, *other] if then and other else []
    return [value] if isinstance(value, tuple) else []

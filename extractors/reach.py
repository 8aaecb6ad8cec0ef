"""How many elements an array may have at most, where what the host passes makes offsets grow that
are computed in 32 bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.rules.base import Subject
from extractors.rules.count_overflow import short_counted
from extractors.rules.index_overflow import limited, short_offsets
from kb.analysis.contracts import LARGEST_INT32
from kb.space import Constraint, implied


def reach(subject: Subject, known: Sequence[Constraint]) -> Iterator[Constraint]:
    """The largest number of elements that 32 bits count, of the first array whose offsets are
    computed in them; nothing where the program alone tells it."""
    if any(str(LARGEST_INT32) in one.expression for one in known):
        return
    found, arrays = ([], []) if limited(subject.host.material) else short_offsets(subject)
    if not found:
        found, arrays = short_counted(subject)
    if found:
        first, *others = arrays
        also = f" (so do {', '.join(others)})" if others else ""
        yield implied(
            f"{first}.numel <= {LARGEST_INT32}",
            f"offsets into {first} are computed in 32 bits{also}",
            "widen the block index to 64 bits before it is multiplied",
            found[0].lines,
        )

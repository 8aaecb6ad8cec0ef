"""Arrays of a few numbers, which a kernel reads one by one, and numbers that it divides by."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.ops import OpKind
from kb.space import Constraint, implied

MAX_NAMES = 6
"""Arrays in one expression, which a person still reads."""


def few_numbers(facts: Facts) -> Iterator[Constraint]:
    """Arrays that are read at places that are numbers, and nowhere else, on every path: they have
    as many elements."""
    rows: dict[str, list[Access]] = {}
    for access in facts.accesses:
        rows.setdefault(access.array or "", []).append(access)
    single: dict[str, Access] = {}
    for array, accesses in rows.items():
        places = [_place(facts, one) for one in accesses]
        if not array or None in places or facts.guards(accesses[0].node):
            continue
        last = max(place for place in places if place is not None)
        if last == 0:
            single[array] = accesses[0]
            continue
        yield implied(
            f"{array}.numel >= {last + 1}",
            f"the kernel reads {last + 1} numbers of {array} by their places",
            "check its length before the launch",
            accesses[places.index(last)].node.lines,
        )
    if 0 < len(single) <= MAX_NAMES:
        yield implied(
            " and ".join(f"{array}.numel >= 1" for array in single),
            "one number is read from the begin of each of them",
            "pass an array, not a number, and none without elements",
            next(iter(single.values())).node.lines,
        )


def _place(facts: Facts, access: Access) -> int | None:
    """The place of one element that is loaded, as a number; None where it is none."""
    if access.is_store or access.is_atomic or len(access.index) != 1 or access.mask is not None:
        return None
    if access.mode in (Mode.DESCRIPTOR, Mode.BLOCK_POINTER, Mode.ADVANCED):
        return None
    shape = access.shape or facts.types.shape(access.value)
    place = access.index[0].constant
    single = all(extent == "1" for extent in shape)
    return place if single and place is not None and place >= 0 else None


def divides_by_loaded(facts: Facts) -> Iterator[Constraint]:
    """Arrays of one number that elements are divided by, on every path: a scale."""
    told: set[str] = set()
    for node in facts.graph.of(OpKind.DIV):
        load = _loaded(facts, node.op.inputs[1])
        if load is None or load.array in (None, *told) or facts.guards(node):
            continue
        told.add(load.array or "")
        yield implied(
            f"{load.array}.values != 0",
            f"the kernel divides by the number that is loaded from {load.array}",
            "refuse zero before the launch",
            node.lines,
        )


def _loaded(facts: Facts, value: str) -> Access | None:
    """The load of one number at a place that is a number, where a value is that number."""
    node: Node | None = facts.graph.producer(facts.graph.through(value, CASTS | COPIES))
    access = facts.access(node) if node is not None else None
    return access if access is not None and _place(facts, access) is not None else None

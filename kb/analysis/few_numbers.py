"""Arrays of a few numbers, which a kernel reads one by one, and numbers that it divides by."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.ir import ParameterKind
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
        if not array or None in places or not _always(facts, accesses[0].node):
            continue
        last = max(place for place in places if place is not None)
        if last == 0:
            single[array] = accesses[0]
            continue
        yield implied(
            f"{_given(facts, array)}{array}.numel >= {last + 1}",
            f"the kernel reads {last + 1} numbers of {array} by their places",
            "check its length before the launch",
            accesses[places.index(last)].node.lines,
        )
    if 0 < len(single) <= MAX_NAMES:
        yield implied(
            " and ".join(_one(facts, array, len(single)) for array in single),
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
        if load is None or load.array in (None, *told) or not _always(facts, node):
            continue
        told.add(load.array or "")
        yield implied(
            f"{_given(facts, load.array or '')}{load.array}.values != 0",
            f"the kernel divides by the number that is loaded from {load.array}",
            "refuse zero before the launch",
            node.lines,
        )


def _loaded(facts: Facts, value: str) -> Access | None:
    """The load of one number at a place that is a number, where a value is that number."""
    node: Node | None = facts.graph.producer(facts.graph.through(value, CASTS | COPIES))
    access = facts.access(node) if node is not None else None
    return access if access is not None and _place(facts, access) is not None else None


def _one(facts: Facts, array: str, several: int) -> str:
    """That an array has an element, as one of several demands."""
    without = _given(facts, array)
    text = f"{without}{array}.numel >= 1"
    return f"({text})" if without and several > 1 else text


def _given(facts: Facts, array: str) -> str:
    """The begin of a demand on an array of which the kernel asks whether it is there."""
    asks = any(
        array in (facts.graph.core(value) for value in node.op.inputs[:2])
        for node in facts.graph.of(OpKind.EQ, OpKind.NE)
    ) or any(
        facts.graph.core(node.op.inputs[0]) == array
        for node in facts.graph.of(OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT)
    )
    return f"{array} == none or " if asks else ""


def _always(facts: Facts, node: Node) -> bool:
    """Whether an operation runs on every path, but for those that ask for an array."""
    around, asked = node.parent, (OpKind.IF, OpKind.IF_EXPRESSION)
    while around is not None:
        if around.op.kind in asked and not _asks_for_array(facts, around):
            return False
        around = around.parent
    return True


def _asks_for_array(facts: Facts, branch: Node) -> bool:
    """Whether a branch asks whether an array is there."""
    test = facts.graph.producer(facts.graph.core(branch.op.inputs[0]))
    arrays = {p.name for p in facts.kernel.entry.parameters if p.kind is ParameterKind.ARRAY}
    return facts.graph.core(branch.op.inputs[0]) in arrays or (
        test is not None
        and test.op.kind in (OpKind.EQ, OpKind.NE)
        and any(facts.graph.core(value) in arrays for value in test.op.inputs[:2])
    )

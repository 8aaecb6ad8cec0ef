"""How arrays lie that the program addresses by strides, where the host says which axis each stride
belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from extractors.detect import Detection
from extractors.host.facts import HostFacts
from extractors.patterns.argument_strides import ArgumentStrides
from extractors.patterns.row_strides import RowStrides
from extractors.patterns.transposed_operand import ADDRESSED, TransposedOperand, joined
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.strides import joined_at
from kb.analysis.symbolic import Atom, AtomKind
from kb.evidence import AxisKind, Decision, Lines

_STRIDE = re.compile(r"(\w+)\.stride\[(\d+)\]")
_EXTENT = re.compile(r"\w+\.shape\[\d+\]")
Axes = dict[str, tuple[str, int]]
"""Parameters that are a stride: of which array, and of which of its axes."""

CONTIGUOUS = "host-contiguity-alignment-normalisation"
"""The pattern of a host that makes arrays contiguous, or demands that they are."""

HANDED = "strides-of-rows-handed-in"
"""The pattern of a kernel that is given strides, and of a host that hands them over."""

ASKED = "strides demanded"
"""What a host says that checks how far elements lie apart."""

DENSE = "compact strides computed from the sizes"
ANY_ORDER = "any order of the axes, by strides"
OTHER_ORDER = "axes in another order in the output"


def laid_out(detection: Detection, host: HostFacts) -> Iterator[Decision]:
    """Operands of products whose rows go along a later axis of the array than their columns; and
    outputs whose axes stand in another order than those of an input."""
    axes = _axes(host)
    facts = detection.facts
    if len(axes) < 2 or facts.of_threads:
        return
    told = {d.subject for d in detection.decisions if d.axis == TransposedOperand.axis}
    for product in facts.contractions:
        for role in ("lhs", "rhs"):
            loads = facts.held_loads(product.op.operand(role))
            turned = [a for a in loads if a.array not in told and _turned(a, axes)]
            if turned and facts.turned(product.op.operand(role)) is None:
                told |= {a.array for a in turned}
                nodes = [n for a in turned for n in (a.node, *joined(facts, a))]
                yield _decision(ADDRESSED, tuple(n.lines for n in nodes), turned[0].array)
    if not (facts.contractions or told):
        yield from _reordered(facts, axes)


def in_any_order(
    detection: Detection, host: HostFacts, told: Sequence[Decision]
) -> Iterator[Decision]:
    """Operands of products that are taken as they lie, in whatever order: rows and columns of each
    have a stride that is handed in, nothing else is told of how they lie, and the host does not
    put them in order."""
    facts = detection.facts
    given = next((d for d in told if d.pattern == ArgumentStrides.name), None)
    laid = any(d.axis == TransposedOperand.axis or d.pattern == CONTIGUOUS for d in told)
    if given is None or facts.of_threads or laid:
        return
    axes = _axes(host)
    operands = [
        facts.held_loads(product.op.operand(role))
        for product in facts.contractions
        for role in ("lhs", "rhs")
    ]
    if operands and all(any(_both_ways(a, axes) for a in loads) for loads in operands):
        yield _decision(ANY_ORDER, given.lines, given.subject)


def of_one_array(program: Decision, host: Decision, facts: Facts) -> bool:
    """Whether the strides that a program relies on place an array that the host makes, or finds,
    contiguous; true where one of the two does not say of which arrays it tells."""
    made = {*(host.subject or "").split(", ")} - {""}
    strides = {*(program.subject or "").split(", ")}
    placed = {
        access.array
        for access in facts.accesses
        if any(atom.value in strides for index in access.index for atom in index.atoms())
    }
    return not made or placed <= {None} or bool(made & placed)


def with_asked_strides(
    program: Sequence[Decision], host: Sequence[Decision]
) -> tuple[list[Decision], list[Decision]]:
    """Strides of rows that the kernel is handed, with the checks of the host that demand how far
    elements lie apart: both are one contract."""
    asked = [d for d in host if (d.pattern, d.value, d.file) == (CONTIGUOUS, ASKED, None)]
    lines = {line for d in asked for line in d.lines}
    if not any(d.pattern == HANDED and d.file is None for d in program):
        return [*program], [*host]
    told = [
        replace(d, lines=tuple(sorted({*d.lines, *lines})))
        if d.pattern == HANDED and d.file is None
        else d
        for d in program
    ]
    return told, [d for d in host if d not in asked]


def without_extents(
    program: Sequence[Decision], host: HostFacts, facts: Facts
) -> Iterator[Decision]:
    """What the program tells of rows a stride apart, without those for which the host hands over
    the extent of an array, or a part of a tile. Where extents are all that is handed over, rows
    follow each other."""
    given: dict[str, set[str]] = {}
    for launch in host.launches:
        for binding in launch.bindings:
            given.setdefault(binding.parameter, set()).add(binding.expression)
    extents = {n for n, every in given.items() if all(map(_EXTENT.fullmatch, every))}
    parts = {n for n, every in given.items() if any("//" in one for one in every)}
    parts -= {n for n in parts if any("stride" in one for one in given[n])}
    strided = any(d.pattern == ArgumentStrides.name for d in program)
    for decision in program:
        names = {*(decision.subject or "").split(", ")}
        if decision.pattern != RowStrides.name or not names & (extents | parts):
            yield decision
            continue
        if left := names - extents - parts:
            yield RowStrides().told(facts, left)
        elif (dense := names & extents) and not strided:
            yield replace(RowStrides().told(facts, dense), value=DENSE)


def _both_ways(access: Access, axes: Axes) -> bool:
    """True where rows and columns of a tile have strides of their own."""
    return {"-1", "-2"} <= _along(access, axes).keys()


def _axes(host: HostFacts) -> Axes:
    """The parameters that every launch gives the stride of the same axis."""
    found: dict[str, set[tuple[str, int] | None]] = {}
    for launch in host.launches:
        for binding in launch.bindings:
            told = _STRIDE.fullmatch(binding.expression)
            place = (told[1], int(told[2])) if told else None
            found.setdefault(binding.parameter, set()).add(place)
    single = {name: next(iter(places)) for name, places in found.items() if len(places) == 1}
    return {name: place for name, place in single.items() if place is not None}


def _turned(access: Access, axes: Axes) -> bool:
    """True when the rows of a tile go along a later axis of the array than its columns."""
    places = _along(access, axes)
    return {"-1", "-2"} <= places.keys() and places["-2"] > places["-1"]


def _along(access: Access, axes: Axes) -> dict[str, int]:
    """Axes of the array that the axes of a tile go along, those that wrap around or are held below
    an end as well."""
    found: dict[str, int] = {}
    for atom, axis in _order(access, axes):
        inside = (atom, *(a for e in atom.args for a in e.atoms()))
        lanes = {a.value for a in inside if a.kind is AtomKind.LANE}
        if len(lanes) == 1:
            found[lanes.pop()] = axis
    return found


def _order(access: Access, axes: Axes) -> list[tuple[Atom, int]]:
    """What moves the place of an access, with the axis that it moves along, first axis first."""
    found: dict[Atom, int] = {}
    for factors, _ in access.index[0].terms if access.mode is Mode.POINTER else ():
        given = [axes[a.value] for a in factors if a.value in axes]
        moving = [a for a in factors if a.kind not in (AtomKind.PARAMETER, AtomKind.EXTENT)]
        if len(given) == 1 and len(moving) == 1:
            found[moving[0]] = given[0][1]
    return sorted(found.items(), key=lambda pair: pair[1])


def _reordered(facts: Facts, axes: Axes) -> Iterator[Decision]:
    """Stores whose place moves along the axes in another order than that of what they store."""
    lines: set[Lines] = set()
    for store in facts.stores:
        written = _order(store, axes)
        for load in facts.feeding(store.value) if len(written) > 1 else ():
            read = [a for a, _ in _order(load, axes)]
            common = [a for a, _ in written if a in read]
            whole = _lanes(load) <= _lanes(store)
            if whole and len(common) > 1 and common != [a for a in read if a in common]:
                lines |= {n.lines for a in (load, store) for n in (a.node, *joined_at(facts, a))}
    if lines:
        yield _decision(OTHER_ORDER, tuple(lines), None)


def _lanes(access: Access) -> set[str]:
    """Axes of the tile that an access goes along."""
    return {a.value for e in access.index for a in e.atoms() if a.kind is AtomKind.LANE}


def _decision(value: str, lines: tuple[Lines, ...], subject: str | None) -> Decision:
    return Decision(
        axis=TransposedOperand.axis,
        value=value,
        pattern=TransposedOperand.name,
        lines=tuple(sorted(set(lines))),
        kind=AxisKind.DESIGN,
        subject=subject,
    )

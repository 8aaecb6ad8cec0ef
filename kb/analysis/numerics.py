"""The numerics class of every name that a kernel is tuned by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.numerics_rules import parameter_numerics
from kb.analysis.reach import tile_sums, unordered_adds
from kb.evidence import AxisNumerics, Numerics
from kb.knowledge import ParameterFact, ParameterRole
from kb.space import Launch, Tuning
from kb.vocabulary_model import folded

SIZES = frozenset({ParameterRole.TILE_SIZE, ParameterRole.GROUPING})
"""Roles of parameters that a host may tune even where it does not search."""

TILE_SUMS = "tile sums"


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisClass:
    """What the ontology says of an axis in general; `follows` is what decides in a given kernel."""

    axis: str
    numerics: Numerics
    reason: str
    follows: str = ""


Classes = Mapping[str, AxisClass]
"""Classes by name and alias of the axis, as `folded` writes them."""


def numerics_of(
    facts: Facts,
    tuning: Tuning,
    parameters: Sequence[ParameterFact],
    launches: Sequence[Launch],
    classes: Classes,
) -> tuple[AxisNumerics, ...]:
    """A class for every searched or launched name and every size that a host may choose."""
    return tuple(
        _one(facts, name, tuning, launches, classes) for name in tuned_names(tuning, parameters)
    )


def tuned_names(tuning: Tuning, parameters: Iterable[ParameterFact] = ()) -> tuple[str, ...]:
    """Names that are searched, launched with or declared, and the sizes among the parameters."""
    points = [point for case in tuning.spaces for point in case.points]
    named = [name for point in (*points, tuning.launched_with) for name, _ in point]
    sizes = [p.name for p in parameters if p.kind == "constexpr" and p.role in SIZES]
    return tuple(dict.fromkeys((*named, *tuning.effective_axes, *tuning.dead_axes, *sizes)))


def _one(
    facts: Facts, name: str, tuning: Tuning, launches: Sequence[Launch], classes: Classes
) -> AxisNumerics:
    if name in tuning.dead_axes:
        reason = "its value never reaches the launched kernel."
        return AxisNumerics(name=name, numerics=Numerics.STABLE, reason=reason)
    if name in facts.kernel.entry.parameter_names:
        return parameter_numerics(facts, name, launches)
    known = classes.get(folded(name))
    if known is None:
        reason = "neither a parameter of the kernel nor a known axis has this name."
        return AxisNumerics(name=name, numerics=Numerics.UNKNOWN, reason=reason)
    return hint_numerics(facts, name, known)


def hint_numerics(facts: Facts, name: str, known: AxisClass) -> AxisNumerics:
    """The class of a launch hint in this kernel: what the axis says, narrowed by what it sums."""
    for numerics, reason, nodes in _narrowed(facts, known):
        return AxisNumerics(name=name, numerics=numerics, reason=reason, lines=facts.spans(*nodes))
    return AxisNumerics(name=name, numerics=known.numerics, reason=known.reason)


def _narrowed(facts: Facts, known: AxisClass) -> Iterator[tuple[Numerics, str, list[Node]]]:
    unordered = unordered_adds(facts)
    if unordered:
        reason = "blocks add up by atomics, in the order in which the schedule lets them come."
        yield Numerics.CHANGES, reason, unordered
    if known.follows != TILE_SUMS:
        return
    sums, products = tile_sums(facts)
    if sums:
        yield Numerics.CHANGES, known.reason, sums
    elif products:
        reason = (
            "the kernel sums only inside matrix products; their order follows the instruction,"
            " which the compiler may choose anew."
        )
        yield Numerics.UNKNOWN, reason, products
    else:
        yield Numerics.STABLE, "the kernel sums nothing inside a tile.", []

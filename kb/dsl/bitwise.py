"""A design space held to the axes that cannot change the bits of a result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from kb.analysis.facts import Facts
from kb.analysis.numerics import Classes, hint_numerics
from kb.analysis.numerics_rules import parameter_numerics
from kb.dsl.model import Document, same
from kb.dsl.program import document_program
from kb.errors import ConstraintViolated
from kb.evidence import AxisKind, AxisNumerics, Numerics
from kb.space import Axis, GuardedPoints, Point, Scalar, Tuning
from kb.vocabulary_model import folded


class Bitwise:
    """The numerics class of every axis of one document."""

    def __init__(self, document: Document, classes: Classes) -> None:
        self.document = document
        self.classes = classes

    @cached_property
    def _facts(self) -> Facts | None:
        document = self.document
        return Facts(document_program(document)) if document.program is not None else None

    def of(self, name: str) -> AxisNumerics:
        """The class of an axis, tuned name or launch hint of the document."""
        facts, tuning = self._facts, self.document.tuning or Tuning()
        if name in tuning.dead_axes:
            reason = "its value never reaches the launched kernel."
            return AxisNumerics(name=name, numerics=Numerics.STABLE, reason=reason)
        if facts is not None and name in facts.kernel.entry.parameter_names:
            return parameter_numerics(facts, name, self.document.launches)
        known = self.classes.get(folded(dict(self.document.canonical).get(name, name)))
        if known is None:
            reason = "no program tells where it goes, and no known axis has this name."
            return AxisNumerics(name=name, numerics=Numerics.UNKNOWN, reason=reason)
        if facts is not None and self._kind(name) is AxisKind.TUNING:
            return hint_numerics(facts, name, known)
        return AxisNumerics(name=name, numerics=known.numerics, reason=known.reason)

    def _kind(self, name: str) -> AxisKind:
        kinds = [axis.kind for axis in self.document.space.axes if axis.name == name]
        return kinds[0] if kinds else AxisKind.TUNING

    def require(self, names: Iterable[str]) -> None:
        """Refuse to set an axis that is not bitwise stable. ConstraintViolated with the reason."""
        for name in names:
            found = self.of(name)
            if found.numerics is not Numerics.STABLE:
                raise ConstraintViolated(
                    f"the numerics of `{name}`: {found.numerics.value}; {found.reason}",
                    where="--bitwise-stable",
                    hint=f"Leave `{name}` as it is, or leave --bitwise-stable out.",
                )

    def restricted(self) -> Document:
        """The document with every axis that is not bitwise stable held at its first value.

        Points of a search that differ from the first point on such an axis are left out; a case
        that has no other keeps its own first point.
        """
        document = self.document
        held = {a.name for a in document.space.axes if self._moves(a)}
        tuning = document.tuning
        if tuning is not None:
            held |= {name for case in tuning.spaces for p in case.points for name, _ in p
                     if self.of(name).numerics is not Numerics.STABLE}  # fmt: skip
            tuning = replace(tuning, spaces=_agreeing(tuning.spaces, held))
        axes = tuple(_held(axis, tuning) if axis.name in held else axis for axis in
                     document.space.axes)  # fmt: skip
        kept = {axis.name: axis.values for axis in axes}
        marks = tuple(
            mark
            for mark in document.marks
            if mark.axis not in kept or any(same(mark.value, value) for value in kept[mark.axis])
        )
        return replace(document, space=replace(document.space, axes=axes), tuning=tuning,
                       marks=marks)  # fmt: skip

    def _moves(self, axis: Axis) -> bool:
        return len(axis.values) > 1 and self.of(axis.name).numerics is not Numerics.STABLE


def _agreeing(cases: tuple[GuardedPoints, ...], held: set[str]) -> tuple[GuardedPoints, ...]:
    first = next((point for case in cases for point in case.points), ())
    wanted = _on(first, held)
    found = []
    for case in cases:
        points = tuple(p for p in case.points if _on(p, held) == wanted)
        if not points and case.points:
            own = _on(case.points[0], held)
            points = tuple(p for p in case.points if _on(p, held) == own)
        found.append(replace(case, points=points))
    return tuple(found)


def _on(point: Point, names: set[str]) -> Point:
    return tuple((name, value) for name, value in point if name in names)


def _held(axis: Axis, tuning: Tuning | None) -> Axis:
    """The axis with the values that the kept points have, else with its first."""
    points = [dict(p) for case in (tuning.spaces if tuning else ()) for p in case.points]
    seen = [point[axis.name] for point in points if axis.name in point]
    values: list[Scalar] = [v for v in axis.values if any(same(v, other) for other in seen)]
    return replace(axis, values=tuple(values or axis.values[:1]))

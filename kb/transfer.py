"""Components of one operation's design space, inherited by another's template.

What transfers is not a kernel but the parts it is composed of: a decision carries over when the
target has the component that brings its axis, unless a rule of the ontology says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kb.donor import Donor
from kb.dsl.model import Refusal
from kb.evidence import AxisKind
from kb.planner.expressions import names, parse
from kb.space import Constraint, Origin, Scalar
from kb.template import (
    COMPOSITION,
    RULE,
    AdaptedAxis,
    AddedAxis,
    DonorFact,
    InheritedAxis,
    Template,
)
from kb.vocabulary_model import (
    Asked,
    Carry,
    OwnAxis,
    TransferRule,
    Vocabulary,
    folded,
)

ANY_VALUE = "any value"


def transfer(donor: Donor, target: str, vocabulary: Vocabulary) -> Template:
    """The template for operation `target`, seeded from `donor`.

    Raises UnknownName when the vocabulary has no operation `target`, or none of the donor's name.
    """
    return _Transfer(donor, target, vocabulary).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What becomes of one decision."""

    fact: DonorFact
    carry: Carry
    reason: str
    rule: TransferRule | None


class _Transfer:
    """One transfer; holds what every step looks up."""

    def __init__(self, donor: Donor, target: str, vocabulary: Vocabulary) -> None:
        self.donor = donor
        self.vocabulary = vocabulary
        self.target = vocabulary.operation(target)
        self.closure = vocabulary.closure(self.target.name)
        self.reach = [term.name for term in self.closure]
        self.giving = vocabulary.closure(donor.operation)
        self.shared = [term.name for term in self.giving if term.name in self.reach]
        self.roots = {term.name for term in vocabulary.operations if not term.broader}
        self.questions = {own.axis: own for own in self._questions()}

    def run(self) -> Template:
        verdicts = [self.judge(fact) for fact in self.donor.facts]
        inherited = self.inherited(verdicts)
        adapted = self.adapted(verdicts, {axis.axis for axis in inherited})
        taken = {axis.axis for axis in inherited} | {axis.axis for axis in adapted}
        tuned, left = self.tuned(taken)
        adapted = (*adapted, *tuned)
        taken |= {axis.axis for axis in tuned}
        own = tuple(self.owned(q) for q in self.questions.values() if q.axis not in taken)
        taken |= {axis.axis for axis in own}
        missing = self.missing(taken)
        taken |= {axis.axis for axis in missing}
        constraints, unfit = self.constraints(taken)
        return Template(
            name=f"{self.target.name}_from_{folded(self.donor.name)}",
            operation=self.target.name,
            donor=self.donor.name,
            donor_operation=self.vocabulary.operation(self.donor.operation).name,
            kernels=tuple(dict.fromkeys(fact.kernel for fact in self.donor.facts)),
            components=self.target.components,
            shared=tuple(self.shared),
            inherited=inherited,
            adapted=adapted,
            own=own,
            missing=missing,
            refused=(*self.refused(verdicts), *left, *unfit),
            constraints=constraints,
            mapping=self.mapping(taken),
            holes=self.holes(),
        )

    def bringing(self, axis: str) -> tuple[str, ...]:
        """Parts of the target that bring `axis`."""
        return tuple(term.name for term in self.closure if axis in term.axes)

    def rule_for(self, axis: str, value: str | None) -> TransferRule | None:
        """The rule of the nearest operation; one for this very value before one for any."""
        found = [
            rule
            for rule in self.vocabulary.transfer_rules
            if rule.axis == axis
            and rule.operation in self.reach
            and (rule.value is None or (value is not None and rule.value.lower() in value.lower()))
        ]
        found.sort(key=lambda rule: (self.reach.index(rule.operation), rule.value is None))
        return found[0] if found else None

    def judge(self, fact: DonorFact) -> _Verdict:
        """What becomes of one decision, and why."""
        axis = self.canonical(fact.decision.axis)
        rule = self.rule_for(axis, fact.decision.value)
        if rule is not None:
            return _Verdict(fact=fact, carry=rule.carry, reason=rule.reason, rule=rule)
        via = self.bringing(axis)
        if not via:
            givers = [term.name for term in self.giving if axis in term.axes]
            parts = " and ".join(givers) or "no operation known here"
            reason = f"it belongs to {parts}, which is no part of {self.target.name}"
            return _Verdict(fact=fact, carry=Carry.NOTHING, reason=reason, rule=None)
        common = [name for name in via if name in self.shared and name not in self.roots]
        if common:
            reason = f"both contain {' and '.join(common)}"
            return _Verdict(fact=fact, carry=Carry.VALUE, reason=reason, rule=None)
        reason = "every kernel decides it; the value depends on the operation"
        return _Verdict(fact=fact, carry=Carry.AXIS, reason=reason, rule=None)

    def canonical(self, name: str) -> str:
        term = self.vocabulary.find_axis(name)
        return term.name if term is not None else name

    def inherited(self, verdicts: Sequence[_Verdict]) -> tuple[InheritedAxis, ...]:
        """Axes whose values carry over, in the donor's order."""
        return tuple(
            InheritedAxis(
                axis=axis,
                kind=group[0].fact.decision.kind,
                values=tuple(dict.fromkeys(verdict.fact.decision.value for verdict in group)),
                facts=tuple(verdict.fact for verdict in group),
                via=self.bringing(axis),
                reason=self.with_rationale(group[0]),
                rule=_by(group[0].rule),
            )
            for axis, group in self.grouped(verdicts, Carry.VALUE)
        )

    def with_rationale(self, verdict: _Verdict) -> str:
        """Why the value carries over, and why one would choose it at all."""
        pattern = verdict.fact.decision.pattern
        known = [p.rationale for p in self.vocabulary.patterns if p.name == pattern]
        return f"{verdict.reason}; {known[0]}" if known and known[0] else verdict.reason

    def adapted(self, verdicts: Sequence[_Verdict], taken: set[str]) -> tuple[AdaptedAxis, ...]:
        """Axes of which only the question carries over."""
        return tuple(
            AdaptedAxis(
                axis=axis,
                kind=group[0].fact.decision.kind,
                candidates=self.candidates(axis, group[0].rule),
                donor_values=tuple(dict.fromkeys(verdict.fact.decision.value for verdict in group)),
                facts=tuple(verdict.fact for verdict in group),
                via=self.bringing(axis),
                reason=group[0].reason,
                rule=_by(group[0].rule),
            )
            for axis, group in self.grouped(verdicts, Carry.AXIS)
            if axis not in taken
        )

    def grouped(
        self, verdicts: Iterable[_Verdict], carry: Carry
    ) -> list[tuple[str, list[_Verdict]]]:
        groups: dict[str, list[_Verdict]] = {}
        for verdict in verdicts:
            if verdict.carry is carry:
                groups.setdefault(self.canonical(verdict.fact.decision.axis), []).append(verdict)
        return list(groups.items())

    def candidates(self, axis: str, rule: TransferRule | None) -> tuple[Scalar, ...]:
        """What to choose from: searched numbers, else the known values, the preferred first."""
        own = self.questions.get(axis)
        if own is not None and own.candidates:
            return own.candidates
        term = self.vocabulary.find_axis(axis)
        known = term.values if term is not None else ()
        first = (own.prefers if own else None) or (rule.prefers if rule else None)
        return tuple(known) if first is None else (first, *(v for v in known if v != first))

    def tuned(self, taken: set[str]) -> tuple[tuple[AdaptedAxis, ...], tuple[Refusal, ...]]:
        """Searched names of the donor: asked anew where the target has them, else left behind."""
        adapted: list[AdaptedAxis] = []
        left: list[Refusal] = []
        parameters = {parameter.name: parameter.axis for parameter in self.vocabulary.parameters}
        kernels = tuple(dict.fromkeys(fact.kernel for fact in self.donor.facts))
        for name, values in self.donor.tuned:
            axis = parameters.get(folded(name)) or self.canonical(name)
            rule = self.rule_for(axis, None)
            reason = rule.reason if rule else "the value depends on the operation"
            asked = folded(name) if folded(name) in self.questions else axis
            if asked in self.questions and asked not in taken:
                adapted.append(
                    AdaptedAxis(
                        axis=asked,
                        kind=AxisKind.TUNING,
                        candidates=self.candidates(asked, rule),
                        donor_values=values,
                        facts=(),
                        kernels=kernels,
                        via=self.bringing(axis),
                        reason=reason,
                        rule=_by(rule),
                    )
                )
                taken = taken | {asked}
            elif asked not in taken:
                shown = ", ".join(map(str, values))
                source = rule.source if rule else None
                left.append(_refusal(name, shown, reason, source, kernels))
        return tuple(adapted), tuple(left)

    def owned(self, own: OwnAxis) -> AddedAxis:
        """An axis that only the target has."""
        term = self.vocabulary.find_axis(own.axis)
        return AddedAxis(
            axis=own.axis,
            kind=term.kind if term is not None else AxisKind.TUNING,
            candidates=self.candidates(own.axis, self.rule_for(own.axis, None)),
            via=(own.operation,),
            reason=own.reason,
            rule=f"rule own/{own.name}",
            question=own.question,
            asked=own.asked,
        )

    def missing(self, taken: set[str]) -> tuple[AddedAxis, ...]:
        """Axes that the target decides and neither the donor nor the questions answer."""
        found: list[AddedAxis] = []
        for term in self.vocabulary.axes:
            via = self.bringing(term.name)
            rule = self.rule_for(term.name, None)
            told = rule is not None and rule.carry is not Carry.NOTHING
            particular = any(name not in self.roots for name in via)
            if term.name in taken or not (told or particular) or term.kind is AxisKind.HOST:
                continue
            if rule is not None and rule.carry is Carry.NOTHING:
                continue
            reason = rule.reason if rule else f"{' and '.join(via)} decides it; the donor does not"
            found.append(
                AddedAxis(
                    axis=term.name,
                    kind=term.kind,
                    candidates=self.candidates(term.name, rule),
                    via=via,
                    reason=reason,
                    rule=_by(rule),
                )
            )
        return tuple(found)

    def refused(self, verdicts: Sequence[_Verdict]) -> tuple[Refusal, ...]:
        """Decisions that must not carry over, then rules whose axis the donor did not decide."""
        found = [
            _refusal(
                self.canonical(verdict.fact.decision.axis),
                verdict.fact.decision.value,
                verdict.reason,
                verdict.rule.source if verdict.rule else None,
                (verdict.fact.iri,),
            )
            for verdict in verdicts
            if verdict.carry is Carry.NOTHING
        ]
        seen = {verdict.rule.name for verdict in verdicts if verdict.rule}
        for rule in self.vocabulary.transfer_rules:
            if (
                rule.carry is Carry.NOTHING
                and rule.operation in self.reach
                and rule.name not in seen
            ):
                value = rule.value or ANY_VALUE
                found.append(_refusal(rule.axis, value, rule.reason, rule.source, ()))
        return tuple(found)

    def constraints(self, taken: set[str]) -> tuple[tuple[Constraint, ...], tuple[Refusal, ...]]:
        """Constraints of the target's parts, then the donor's that speak only of what it has."""
        found = [
            term.as_constraint()
            for term in self.vocabulary.constraints
            if set(term.operations) & set(self.reach)
            or (not term.operations and set(term.axes) & taken)
        ]
        unfit: list[Refusal] = []
        known = {folded(name) for name in taken} | {"target"}
        for constraint in self.donor.constraints:
            used = {name.split(".")[0] for name in names(parse(constraint.expression))}
            strange = sorted(name for name in used if folded(name) not in known)
            if strange:
                reason = f"it speaks of {', '.join(strange)}, which {self.target.name} has not"
                unfit.append(_refusal("constraint", constraint.expression, reason, None, ()))
            elif constraint.expression not in [c.expression for c in found]:
                found.append(replace(constraint, origin=Origin.INHERITED))
        return tuple(found), tuple(unfit)

    def mapping(self, taken: set[str]) -> tuple[tuple[str, str], ...]:
        """Tuning parameters are parameters of the kernel to be written."""
        parameters = [parameter.name for parameter in self.vocabulary.parameters]
        return tuple((name, f"parameter {name}") for name in parameters if name in taken)

    def holes(self) -> tuple[str, ...]:
        """The questions that a person must answer."""
        return tuple(
            f"{own.axis}: {own.question} ({own.reason})"
            for own in self.questions.values()
            if own.asked is Asked.PERSON
        )

    def _questions(self) -> list[OwnAxis]:
        """The target's own axes, those of the nearest operation last so that they win."""
        found = [own for own in self.vocabulary.own_axes if own.operation in self.reach]
        return sorted(found, key=lambda own: -self.reach.index(own.operation))


def _by(rule: TransferRule | None) -> str:
    return RULE.format(rule.name) if rule is not None else COMPOSITION


def _refusal(
    axis: str, value: str, reason: str, source: str | None, derived_from: tuple[str, ...]
) -> Refusal:
    return Refusal(
        axis=axis, value=value, reason=reason, source=source or None, derived_from=derived_from
    )

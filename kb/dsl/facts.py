"""Entries of `evidence` and `refused` as records."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from kb.dsl.fields import Source, Words
from kb.dsl.model import Refusal
from kb.dsl.tree import Fact
from kb.evidence import AxisKind, Decision, Finding, Measurement, Severity
from kb.space import Scalar

Choice = TypeVar("Choice", bound=StrEnum)


def decision(source: Source, fact: Fact) -> Decision:
    """`decision "axis" "value"; pattern "name"; lines 1-2; elsewhere "file" 3-4`."""
    axis, value = _strings(source, fact, 'decision "axis" "value"')
    words = Words(source, fact.attributes, fact.place)
    found = Decision(
        axis=axis,
        value=value,
        kind=_choice(source, fact, words.text("kind"), AxisKind, AxisKind.DESIGN),
        pattern=words.text("pattern") or "",
        lines=words.lines(),
        subject=words.text("subject"),
        file=words.text("file"),
        elsewhere=words.elsewhere(),
    )
    words.finish()
    return found


def finding(source: Source, fact: Fact) -> Finding:
    """`finding "rule" "message"; severity "warning"; lines 1-2; fix "…"`."""
    rule, message = _strings(source, fact, 'finding "rule" "message"')
    words = Words(source, fact.attributes, fact.place)
    found = Finding(
        rule=rule,
        message=message,
        severity=_choice(source, fact, words.text("severity"), Severity, Severity.NOTE),
        lines=words.lines(),
        fix=words.text("fix"),
    )
    words.finish()
    return found


def measurement(source: Source, fact: Fact) -> Measurement:
    """`measurement "metric" value "unit"; target "H100"; samples 9; seed 0; kernel "digest"; …`."""
    form = 'measurement "metric" 1.5 "unit"'
    if len(fact.arguments) != 3:
        raise source.problem(f"write `{form}`", fact.place)
    metric, value, unit = fact.arguments
    if not isinstance(metric, str) or not isinstance(unit, str) or not _is_number(value):
        raise source.problem(f"write `{form}`", fact.place)
    words = Words(source, fact.attributes, fact.place)
    target, kernel = words.text("target"), words.text("kernel")
    if target is None or kernel is None:
        raise source.problem("a measurement needs `; target` and `; kernel`", fact.place)
    found = Measurement(
        metric=metric,
        value=float(str(value)),
        unit=unit,
        target=target,
        samples=words.whole("samples"),
        seed=words.whole("seed"),
        kernel_digest=kernel,
        versions=words.pairs("versions"),
        problem=words.pairs("problem"),
        point=words.pairs("point"),
    )
    words.finish()
    return found


def refusal(source: Source, fact: Fact) -> Refusal:
    """`refuse "axis" "value"; because "reason"`."""
    if fact.key != "refuse":
        raise source.unknown(fact.key, ["refuse"], fact.place)
    axis, value = _strings(source, fact, 'refuse "axis" "value"')
    words = Words(source, fact.attributes, fact.place)
    reason = words.text("because")
    if reason is None:
        raise source.problem('a refusal needs `; because "reason"`', fact.place)
    found = Refusal(
        axis=axis,
        value=value,
        reason=reason,
        source=words.text("source"),
        derived_from=words.texts("from") or (),
    )
    words.finish()
    return found


def _strings(source: Source, fact: Fact, form: str) -> tuple[str, str]:
    match fact.arguments:
        case (str(first), str(second)):
            return first, second
    raise source.problem(f"write `{form}`", fact.place)


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _choice(
    source: Source, fact: Fact, word: str | None, choices: type[Choice], default: Choice
) -> Choice:
    if word is None:
        return default
    if word not in tuple(choices):
        raise source.unknown(word, list(choices), fact.place)
    return choices(word)

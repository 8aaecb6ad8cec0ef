"""A kernel explained: each decision with its lines, why, at what price, and what else there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from api.console import lines_text, output, say, table
from api.json_form import (
    constraint_json,
    decision_json,
    finding_json,
    numerics_json,
    tuning_json,
)
from kb.analysis.numerics import Classes
from kb.evidence import AxisNumerics, Decision, Numerics
from kb.graph.axis_numerics import axis_classes
from kb.knowledge import KernelKnowledge
from kb.space import Tuning
from kb.vocabulary_model import AxisTerm, Vocabulary, folded

SCHEMA = "tilelore.explain/1"


def explain(iri: str, knowledge: KernelKnowledge, vocabulary: Vocabulary) -> dict[str, Any]:
    """The kernel as JSON values.

    Every decision carries `rationale`, `price`, `alternatives` and `numerics`: whether changing it
    can change bits, and why.
    """
    classes = axis_classes()
    return {
        "schema": SCHEMA,
        "kernel": knowledge.kernel.name,
        "iri": iri,
        "path": knowledge.source.path,
        "package": knowledge.source.package,
        "lines": list(knowledge.lines),
        "operation": knowledge.operation,
        "decisions": [
            {
                **_decision(decision, vocabulary),
                "numerics": _bits(decision, knowledge.numerics, classes),
            }
            for decision in knowledge.decisions
        ],
        "numerics": [numerics_json(row) for row in knowledge.numerics],
        "tuning": tuning_json(knowledge.tuning),
        "constraints": [
            {**constraint_json(c), "because": c.because, "hint": c.hint}
            for c in knowledge.constraints
        ],
        "findings": [finding_json(finding) for finding in knowledge.findings],
        "coverage": {"operations": knowledge.operations, "opaque": knowledge.opaque},
    }


def _decision(decision: Decision, vocabulary: Vocabulary) -> dict[str, Any]:
    axis = vocabulary.find_axis(decision.axis)
    pattern = next((p for p in vocabulary.patterns if p.name == decision.pattern), None)
    general = (pattern.rationale, pattern.price) if pattern is not None else ("", "")
    rationale, price = (axis.reason(decision.value) if axis is not None else None) or general
    return {
        **decision_json(decision),
        "rationale": rationale,
        "price": price,
        "alternatives": list(alternatives(decision, axis)),
    }


def _bits(decision: Decision, rows: Sequence[AxisNumerics], classes: Classes) -> dict[str, str]:
    """The class of a decision: of the tuned name that it speaks of, else of its axis."""
    known = classes.get(decision.axis)
    subjects = (decision.subject or "").split(", ")
    for row in rows:
        axis = classes.get(folded(row.name))
        if row.name in subjects or (axis is not None and axis.axis == decision.axis):
            return {"class": row.numerics.value, "reason": row.reason}
    if known is None:
        return {"class": Numerics.UNKNOWN.value, "reason": "the ontology does not know this axis."}
    return {"class": known.numerics.value, "reason": known.reason}


def alternatives(decision: Decision, axis: AxisTerm | None) -> tuple[str, ...]:
    """The other values of the axis that are known."""
    values = axis.values if axis is not None else ()
    return tuple(value for value in values if folded(value) != folded(decision.value))


def print_explanation(document: Mapping[str, Any]) -> None:
    """The document for people."""
    place = f"{document['path']}:{document['lines'][0]}-{document['lines'][1]}"
    console = output()
    console.print(f"[bold]{document['kernel']}[/bold]  {place}  {document['package'] or ''}")
    console.print(f"operation: {document['operation'] or 'not recognised'}")
    coverage = document["coverage"]
    console.print(f"{coverage['operations']} operations, {coverage['opaque']} not understood\n")
    for row in document["decisions"]:
        _print_decision(row)
    print_tuning(document["tuning"])
    table(
        "Numerics",
        ("name", "numerics", "lines", "because"),
        [
            (row["name"], row["numerics"], lines_text(row["lines"]), row["reason"])
            for row in document["numerics"]
        ],
    )
    table(
        "Constraints",
        ("expression", "origin", "checked by host", "lines", "because"),
        [
            (c["expression"], c["origin"], "yes" if c["checked_by_host"] else "no",
             lines_text([c["lines"]]) if "lines" in c else "", c["because"])
            for c in document["constraints"]
        ],
    )  # fmt: skip
    print_findings(document["findings"])


def _print_decision(row: Mapping[str, Any]) -> None:
    subject = f" ({row['subject']})" if row["subject"] else ""
    file = f" in {row['file']}" if row["file"] else ""
    say(f"{row['axis']} = {row['value']}{subject}")
    say(f"    {row['kind']}, lines {lines_text(row['lines'])}{file}; seen by {row['pattern']}")
    for one in row["elsewhere"]:
        say(f"    also at {one['file']}, lines {lines_text(one['lines'])}")
    if row["rationale"]:
        say(f"    why: {row['rationale']}")
    if row["price"]:
        say(f"    price: {row['price']}")
    say(f"    bits: {row['numerics']['class']}: {row['numerics']['reason']}")
    if row["alternatives"]:
        say(f"    instead: {' | '.join(row['alternatives'])}")
    say("")


def print_tuning(tuning: Mapping[str, Any]) -> None:
    """How tuning values are chosen."""
    rows = [
        (space["when"], ", ".join(f"{k}={v}" for k, v in point.items()))
        for space in tuning["spaces"]
        for point in space["points"]
    ]
    table(f"Tuning: {tuning['mechanism']}", ("when", "point"), rows)
    for name in ("effective_axes", "dead_axes", "cache_key"):
        if tuning[name]:
            say(f"{name.replace('_', ' ')}: {', '.join(tuning[name])}")
    if tuning["launched_with"]:
        pairs = ", ".join(f"{k}={v}" for k, v in tuning["launched_with"].items())
        say(f"launched with: {pairs}")
    say("")


def print_findings(findings: list[Mapping[str, Any]]) -> None:
    """What a reader should know."""
    for row in findings:
        say(f"{row['severity']}: {row['rule']}, lines {lines_text(row['lines'])}: {row['message']}")
        if row["fix"]:
            say(f"    fix: {row['fix']}")


def tuning_summary(tuning: Tuning) -> str:
    """One line: the mechanism and how many points."""
    points = sum(len(space.points) for space in tuning.spaces)
    dead = f", dead: {', '.join(tuning.dead_axes)}" if tuning.dead_axes else ""
    return f"{tuning.mechanism}, {points} points{dead}" if points else tuning.mechanism

"""What two kernels decide differently: decisions, tuning, constraints, findings, each with lines.

Kernels of two files, packages or revisions are paired first (`api.matching`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from api.json_form import point_json
from api.matching import Match, Pair, matched
from kb.evidence import Decision, Lines
from kb.ir import alpha_digest
from kb.knowledge import KernelKnowledge
from kb.space import Scalar, Tuning

SCHEMA = "tilelore.diff/2"
_PLACES = re.compile(r"\blines? \d+(?:-\d+)?")
_ORDER = ("design", "tuning", "host")


def diff_document(
    left: Sequence[KernelKnowledge],
    right: Sequence[KernelKnowledge],
    names: tuple[str, str] = ("A", "B"),
    *,
    unchanged_files: int = 0,
    asked: bool = False,
) -> dict[str, Any]:
    """The differences as JSON values; `unchanged_files` are those that were not read for that,
    `asked` says that a person named the two sides.

    A row of a pair has `left` and `right` with the values that only that side has, and the lines
    of the axis on both sides; an empty side decides nothing there.
    """
    found = matched(left, right, asked=asked)
    pairs = [pair_json(pair) for pair in found.pairs]
    changed = [pair for pair in pairs if not pair["same"]]
    return {
        "schema": SCHEMA,
        "left": names[0],
        "right": names[1],
        "pairs": pairs,
        "only_left": [_named(kernel) for kernel in found.only_left],
        "only_right": [_named(kernel) for kernel in found.only_right],
        "kernels": {
            "unchanged": len(pairs) - len(changed),
            "changed": len(changed),
            "moved": sum(pair["match"] == Match.PROGRAM.value for pair in pairs),
            "removed": len(found.only_left),
            "added": len(found.only_right),
        },
        "unchanged_files": unchanged_files,
        "same": not (changed or found.only_left or found.only_right),
    }


def _named(kernel: KernelKnowledge) -> dict[str, Any]:
    return {
        "name": kernel.kernel.name,
        "path": kernel.source.path,
        "lines": list(kernel.lines),
        "operation": kernel.operation,
        "decisions": len(kernel.decisions),
    }


def pair_json(pair: Pair) -> dict[str, Any]:
    """How the two kernels of a pair differ."""
    left, right = pair.left, pair.right
    subjects = left.kernel.dialect == right.kernel.dialect and pair.match is not Match.ASKED
    subjects |= left.kernel.name == right.kernel.name
    operation = None
    if left.operation != right.operation:
        operation = {"left": left.operation, "right": right.operation}
    rows = {
        "decisions": decision_rows(left.decisions, right.decisions, subjects=subjects),
        "tuning": tuning_rows(left.tuning, right.tuning),
        "constraints": _rows(
            [(c.expression, c.lines) for c in left.constraints],
            [(c.expression, c.lines) for c in right.constraints],
            "expression",
        ),
        "findings": _rows(
            [(_finding(f.rule, f.message), f.lines[0] if f.lines else None) for f in left.findings],
            [(_finding(f.rule, f.message), f.lines[0] if f.lines else None)
             for f in right.findings],
            "finding",
        ),
    }  # fmt: skip
    return {
        "left": left.kernel.name,
        "right": right.kernel.name,
        "left_path": left.source.path,
        "right_path": right.source.path,
        "match": pair.match.value,
        "operation": operation,
        **rows,
        "decisions_in_both": _in_both(left.decisions, right.decisions, subjects=subjects),
        "same_program": alpha_digest(left.kernel) == alpha_digest(right.kernel),
        "same": operation is None and not any(rows.values()),
    }


def _finding(rule: str, message: str) -> str:
    """A finding without the line numbers that its words name."""
    return f"{rule}: {_PLACES.sub('a line', message)}"


def decision_rows(
    left: Sequence[Decision], right: Sequence[Decision], *, subjects: bool = True
) -> list[dict[str, Any]]:
    """Axes whose values differ, by kind and name.

    With `subjects` each operand or loop of an axis is compared by itself; two kernels with other
    operands are compared by what they decide on the axis as a whole.
    """
    ours, theirs = _by_axis(left, subjects=subjects), _by_axis(right, subjects=subjects)
    found = []
    for key in {*ours, *theirs}:
        mine, other = ours.get(key, []), theirs.get(key, [])
        one, two = _values(mine), _values(other)
        if set(one) == set(two):
            continue
        found.append(
            {
                "axis": key[0],
                "subject": key[1] or None,
                "kind": (mine or other)[0].kind.value,
                "change": "changed" if mine and other else "only left" if mine else "only right",
                "left": [value for value in one if value not in two],
                "right": [value for value in two if value not in one],
                "left_lines": _lines(mine),
                "right_lines": _lines(other),
            }
        )
    return sorted(found, key=lambda d: (_ORDER.index(d["kind"]), d["axis"], d["subject"] or ""))


def _in_both(left: Sequence[Decision], right: Sequence[Decision], *, subjects: bool) -> int:
    """How many values, each on its axis, both sides decided."""
    one, two = (
        {(key, d.value) for key, rows in _by_axis(side, subjects=subjects).items() for d in rows}
        for side in (left, right)
    )
    return len(one & two)


def tuning_rows(left: Tuning, right: Tuning) -> list[dict[str, Any]]:
    """What differs in the search: mechanism, values per axis, dead axes, launch, cache key."""
    ours, theirs = _searched(left), _searched(right)
    rows: list[tuple[str, Any, Any]] = [("mechanism", left.mechanism, right.mechanism)]
    for name in dict.fromkeys((*ours, *theirs)):
        one, two = ours.get(name, []), theirs.get(name, [])
        if set(map(repr, one)) != set(map(repr, two)):
            rows.append((f"values of {name}", one, two))
    rows += [
        ("points", _points(left), _points(right)),
        ("dead axes", sorted(left.dead_axes), sorted(right.dead_axes)),
        ("launched with", point_json(left.launched_with), point_json(right.launched_with)),
        ("cache key", list(left.cache_key or ()), list(right.cache_key or ())),
    ]
    lines = [_span(left.lines), _span(right.lines)]
    return [
        {"field": name, "left": a, "right": b, "left_lines": lines[0], "right_lines": lines[1]}
        for name, a, b in rows
        if a != b
    ]


def _searched(tuning: Tuning) -> dict[str, list[Scalar]]:
    found: dict[str, list[Scalar]] = {}
    for case in tuning.spaces:
        for point in case.points:
            for name, value in point_json(point).items():
                values = found.setdefault(name, [])
                if repr(value) not in map(repr, values):
                    values.append(value)
    return found


def _points(tuning: Tuning) -> dict[str, list[dict[str, Scalar]]]:
    return {case.when: [point_json(point) for point in case.points] for case in tuning.spaces}


def _rows(
    left: Iterable[tuple[str, Lines | None]], right: Iterable[tuple[str, Lines | None]], name: str
) -> list[dict[str, Any]]:
    """Texts that only one side has, with their lines."""
    ours, theirs = dict(left), dict(right)
    only_left = [(text, lines, "left") for text, lines in ours.items() if text not in theirs]
    only_right = [(text, lines, "right") for text, lines in theirs.items() if text not in ours]
    return [
        {name: text, "only": side, "lines": _span(lines)}
        for text, lines, side in (*only_left, *only_right)
    ]


def _span(lines: Lines | None) -> list[list[int]]:
    return [list(lines)] if lines is not None else []


def _by_axis(
    decisions: Sequence[Decision], *, subjects: bool
) -> dict[tuple[str, str], list[Decision]]:
    found: dict[tuple[str, str], list[Decision]] = {}
    for decision in decisions:
        subject = (decision.subject or "") if subjects else ""
        found.setdefault((decision.axis, subject), []).append(decision)
    return found


def _values(decisions: Sequence[Decision]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(decision.value for decision in decisions))


def _lines(decisions: Sequence[Decision]) -> list[list[int]]:
    return [list(pair) for pair in sorted({p for decision in decisions for p in decision.lines})]

"""What two kernels decide differently; kernels of two files are paired by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from api.json_form import point_json
from kb.evidence import Decision
from kb.knowledge import KernelKnowledge
from kb.space import Scalar, Tuning

SCHEMA = "tilelore.diff/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An axis on which two kernels differ; an empty side decides nothing there."""

    axis: str
    subject: str | None
    kind: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    left_lines: tuple[tuple[int, int], ...]
    right_lines: tuple[tuple[int, int], ...]


def differences(left: KernelKnowledge, right: KernelKnowledge) -> tuple[Difference, ...]:
    """Axes (and their subjects) whose values differ, by kind and name."""
    ours, theirs = _by_axis(left.decisions), _by_axis(right.decisions)
    found = []
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key, []), theirs.get(key, [])
        one, two = _values(mine), _values(other)
        if set(one) != set(two):
            kind = (mine or other)[0].kind.value
            difference = Difference(
                axis=key[0],
                subject=key[1] or None,
                kind=kind,
                left=tuple(value for value in one if value not in two),
                right=tuple(value for value in two if value not in one),
                left_lines=_lines(mine),
                right_lines=_lines(other),
            )
            found.append(difference)
    order = ("design", "tuning", "host")
    return tuple(sorted(found, key=lambda d: (order.index(d.kind), d.axis, d.subject or "")))


def diff_document(
    left: Sequence[KernelKnowledge], right: Sequence[KernelKnowledge]
) -> dict[str, Any]:
    """The differences as JSON values. One kernel on each side: a pair whatever their names."""
    pairs, only_left, only_right = _paired(left, right)
    return {
        "schema": SCHEMA,
        "pairs": [_pair(one, two) for one, two in pairs],
        "only_left": only_left,
        "only_right": only_right,
        "same": not (only_left or only_right) and all(_pair(a, b)["same"] for a, b in pairs),
    }


def _paired(
    left: Sequence[KernelKnowledge], right: Sequence[KernelKnowledge]
) -> tuple[list[tuple[KernelKnowledge, KernelKnowledge]], list[str], list[str]]:
    if len(left) == len(right) == 1:
        return [(left[0], right[0])], [], []
    ours = {k.kernel.name: k for k in left}
    theirs = {k.kernel.name: k for k in right}
    pairs = [(kernel, theirs[name]) for name, kernel in ours.items() if name in theirs]
    return pairs, [n for n in ours if n not in theirs], [n for n in theirs if n not in ours]


def _pair(left: KernelKnowledge, right: KernelKnowledge) -> dict[str, Any]:
    rows = [
        {
            "axis": d.axis,
            "subject": d.subject,
            "kind": d.kind,
            "left": list(d.left),
            "right": list(d.right),
            "left_lines": [list(pair) for pair in d.left_lines],
            "right_lines": [list(pair) for pair in d.right_lines],
        }
        for d in differences(left, right)
    ]
    operation = None
    if left.operation != right.operation:
        operation = {"left": left.operation, "right": right.operation}
    tuning = _tuning(left.tuning, right.tuning)
    return {
        "left": left.kernel.name,
        "right": right.kernel.name,
        "operation": operation,
        "decisions": rows,
        "tuning": tuning,
        "same": not rows and not tuning and operation is None,
    }


def _tuning(left: Tuning, right: Tuning) -> list[dict[str, Any]]:
    """Fields of the tuning that differ; points as sets."""
    pairs: list[tuple[str, Any, Any]] = [
        ("mechanism", left.mechanism, right.mechanism),
        ("points", _points(left), _points(right)),
        ("effective_axes", sorted(left.effective_axes), sorted(right.effective_axes)),
        ("dead_axes", sorted(left.dead_axes), sorted(right.dead_axes)),
        ("launched_with", point_json(left.launched_with), point_json(right.launched_with)),
        ("cache_key", list(left.cache_key or ()), list(right.cache_key or ())),
    ]
    return [{"field": name, "left": a, "right": b} for name, a, b in pairs if a != b]


def _points(tuning: Tuning) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for case in tuning.spaces:
        for point in case.points:
            shown: dict[str, Scalar] = point_json(point)
            rows.append({"when": case.when, "point": shown})
    return rows


def _by_axis(decisions: Sequence[Decision]) -> dict[tuple[str, str], list[Decision]]:
    found: dict[tuple[str, str], list[Decision]] = {}
    for decision in decisions:
        found.setdefault((decision.axis, decision.subject or ""), []).append(decision)
    return found


def _values(decisions: Sequence[Decision]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(decision.value for decision in decisions))


def _lines(decisions: Sequence[Decision]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted({pair for decision in decisions for pair in decision.lines}))

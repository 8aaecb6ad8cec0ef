"""Knowledge as JSON: the shape of `extract --format json` (api/extract.schema.json)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from kb.evidence import AxisNumerics, Decision, Diagnostic, Finding, Lines
from kb.graph.encode import VERSION, encode
from kb.knowledge import KernelKnowledge, SourceKnowledge
from kb.space import Constraint, GuardedPoints, Point, Scalar, Tuning

SCHEMA = "tilelore.extract/1"


def tool_version() -> str:
    """Version of the installed tool."""
    try:
        return version("tilelore")
    except PackageNotFoundError:
        return VERSION


def extract_document(
    sources: Iterable[SourceKnowledge], iris: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """The whole document; `iris` gives names of kernels already encoded, by `id(knowledge)`."""
    return {
        "schema": SCHEMA,
        "tilelore": tool_version(),
        "sources": [source_json(source, iris or {}) for source in sources],
    }


def source_json(knowledge: SourceKnowledge, iris: Mapping[int, str]) -> dict[str, Any]:
    """One file."""
    source = knowledge.source
    return {
        "path": source.path,
        "package": source.package,
        "sha256": source.sha256,
        "dialect": source.dialect,
        "licence": source.licence,
        "kernels": [
            kernel_json(kernel, iris.get(id(kernel)) or encode(kernel).kernel)
            for kernel in knowledge.kernels
        ],
        "diagnostics": [diagnostic_json(diagnostic) for diagnostic in knowledge.diagnostics],
    }


def kernel_json(knowledge: KernelKnowledge, iri: str) -> dict[str, Any]:
    """One kernel."""
    return {
        "name": knowledge.kernel.name,
        "iri": iri,
        "lines": list(knowledge.lines),
        "operation": knowledge.operation,
        "parameters": [
            {
                "name": parameter.name,
                "kind": parameter.kind,
                "role": parameter.role.value,
                "dtype": parameter.dtype,
                "rank": parameter.rank,
            }
            for parameter in knowledge.parameters
        ],
        "decisions": [decision_json(decision) for decision in knowledge.decisions],
        "tuning": tuning_json(knowledge.tuning),
        "constraints": [constraint_json(constraint) for constraint in knowledge.constraints],
        "findings": [finding_json(finding) for finding in knowledge.findings],
        "coverage": {"operations": knowledge.operations, "opaque": knowledge.opaque},
        "numerics": [numerics_json(row) for row in knowledge.numerics],
    }


def numerics_json(row: AxisNumerics) -> dict[str, Any]:
    """Whether a tuned name can change bits."""
    return {
        "name": row.name,
        "numerics": row.numerics.value,
        "reason": row.reason,
        "lines": _ranges(row.lines),
    }


def decision_json(decision: Decision) -> dict[str, Any]:
    """One decision."""
    return {
        "axis": decision.axis,
        "kind": decision.kind.value,
        "value": decision.value,
        "pattern": decision.pattern,
        "lines": _ranges(decision.lines),
        "file": decision.file,
        "elsewhere": [
            {"file": file, "lines": _ranges(lines)} for file, lines in decision.by_file.items()
        ],
        "subject": decision.subject,
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """One finding."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "fix": finding.fix,
        "lines": _ranges(finding.lines),
    }


def constraint_json(constraint: Constraint) -> dict[str, Any]:
    """One constraint."""
    row: dict[str, Any] = {
        "expression": constraint.expression,
        "origin": constraint.origin.value,
        "checked_by_host": constraint.checked_by_host,
    }
    if constraint.lines is not None:
        row["lines"] = list(constraint.lines)
    return row


def tuning_json(tuning: Tuning) -> dict[str, Any]:
    """How the tuning axes get their values."""
    return {
        "mechanism": tuning.mechanism,
        "spaces": [_space(space) for space in tuning.spaces],
        "effective_axes": list(tuning.effective_axes),
        "dead_axes": list(tuning.dead_axes),
        "launched_with": point_json(tuning.launched_with),
        "cache_key": None if tuning.cache_key is None else list(tuning.cache_key),
    }


def _space(space: GuardedPoints) -> dict[str, Any]:
    row: dict[str, Any] = {
        "when": space.when,
        "points": [point_json(point) for point in space.points],
        "complete": space.complete,
    }
    if space.lines is not None:
        row["lines"] = list(space.lines)
    return row


def diagnostic_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """What was not understood."""
    row: dict[str, Any] = {
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
    }
    if diagnostic.lines is not None:
        row["lines"] = list(diagnostic.lines)
    return row


def point_json(point: Point) -> dict[str, Scalar]:
    """A point as an object; numbers that JSON lacks become text."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in point
    }


def _ranges(lines: Sequence[Lines]) -> list[list[int]]:
    return [list(pair) for pair in lines]

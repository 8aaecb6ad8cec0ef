"""Findings of source files: as text, as JSON, and as SARIF 2.1.0 for code review tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from api import console
from api.json_form import finding_json, tool_version
from kb.evidence import Finding, Severity
from kb.knowledge import KernelKnowledge, SourceKnowledge

SCHEMA = "tilelore.lint/1"
SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def _rows(sources: Sequence[SourceKnowledge]) -> Iterator[tuple[KernelKnowledge, Finding]]:
    for source in sources:
        for kernel in source.kernels:
            for finding in kernel.findings:
                yield kernel, finding


def lint_document(sources: Sequence[SourceKnowledge]) -> dict[str, Any]:
    """Findings with their file and kernel."""
    return {
        "schema": SCHEMA,
        "findings": [
            {"path": kernel.source.path, "kernel": kernel.kernel.name, **finding_json(finding)}
            for kernel, finding in _rows(sources)
        ],
    }


def print_lint(sources: Sequence[SourceKnowledge]) -> None:
    """One line per finding, as compilers write them, with its fix below."""
    count = 0
    for kernel, finding in _rows(sources):
        count += 1
        line = finding.lines[0][0] if finding.lines else kernel.lines[0]
        place = f"{kernel.source.path}:{line}"
        console.say(
            f"{place}: {finding.severity}: {finding.message} [{finding.rule}, {kernel.kernel.name}]"
        )
        if finding.fix:
            console.say(f"    fix: {finding.fix}")
    kernels = sum(len(source.kernels) for source in sources)
    console.note(f"{count} findings in {kernels} kernels")


def sarif_document(sources: Sequence[SourceKnowledge]) -> dict[str, Any]:
    """The findings as one SARIF run."""
    rows = list(_rows(sources))
    rules = sorted({finding.rule for _, finding in rows})
    driver = {
        "name": "tilelore",
        "version": tool_version(),
        "informationUri": "https://w3id.org/tilelore/",
        "rules": [{"id": rule} for rule in rules],
    }
    results = [_result(kernel, finding, rules) for kernel, finding in rows]
    return {
        "$schema": SARIF,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(kernel: KernelKnowledge, finding: Finding, rules: list[str]) -> dict[str, Any]:
    fix = f" Fix: {finding.fix}" if finding.fix else ""
    return {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": LEVELS[finding.severity],
        "message": {"text": f"{kernel.kernel.name}: {finding.message}{fix}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": kernel.source.path},
                    "region": {"startLine": first, "endLine": last},
                }
            }
            for first, last in (finding.lines or (kernel.lines,))
        ],
    }

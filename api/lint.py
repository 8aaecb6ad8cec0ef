"""Findings of source files for people and as JSON.

JSON, schema `tilelore.lint/1`: `findings`, each with `path`, `kernel`, `rule`, `severity` (error,
warning, note), `message`, `fix` and `lines` (pairs of first and last line, 1-based, inclusive);
`counts` of findings by severity; `kernels` and `files` that were read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from api import console
from api.json_form import finding_json
from kb.evidence import Finding, Severity
from kb.knowledge import KernelKnowledge, SourceKnowledge

SCHEMA = "tilelore.lint/1"


def rows_of(sources: Sequence[SourceKnowledge]) -> Iterator[tuple[KernelKnowledge, Finding]]:
    """Every finding with its kernel, by file, then by place of the kernel."""
    for source in sources:
        for kernel in sorted(source.kernels, key=lambda k: k.lines):
            for finding in kernel.findings:
                yield kernel, finding


def counts_of(sources: Sequence[SourceKnowledge]) -> dict[str, int]:
    """Number of findings of each severity."""
    found = Counter(finding.severity for _, finding in rows_of(sources))
    return {severity.value: found[severity] for severity in Severity}


def lint_document(sources: Sequence[SourceKnowledge]) -> dict[str, Any]:
    """Findings with their file and kernel."""
    return {
        "schema": SCHEMA,
        "files": len(sources),
        "kernels": sum(len(source.kernels) for source in sources),
        "counts": counts_of(sources),
        "findings": [
            {"path": kernel.source.path, "kernel": kernel.kernel.name, **finding_json(finding)}
            for kernel, finding in rows_of(sources)
        ],
    }


def print_lint(sources: Sequence[SourceKnowledge]) -> None:
    """Findings under their file and kernel: place, severity and rule, message, what to do."""
    shown: tuple[str, str] | None = None
    for kernel, finding in rows_of(sources):
        here = (kernel.source.path, kernel.kernel.name)
        if here != shown:
            console.say(f"{'' if shown is None else chr(10)}{here[0]}  {here[1]}")
            shown = here
        line = finding.lines[0][0] if finding.lines else kernel.lines[0]
        console.say(f"  {here[0]}:{line}: {finding.severity} [{finding.rule}] {finding.message}")
        for extra in _also(finding):
            console.say(f"      {extra}")
    console.note(_summary(sources))


def _also(finding: Finding) -> Iterator[str]:
    if len(finding.lines) > 1:
        yield f"see also: lines {console.lines_text(finding.lines[1:])}"
    if finding.fix:
        yield f"fix: {finding.fix}"


def _summary(sources: Sequence[SourceKnowledge]) -> str:
    counts = counts_of(sources)
    total = sum(counts.values())
    kernels = sum(len(source.kernels) for source in sources)
    each = ", ".join(f"{n} {name}{'s' * (n != 1)}" for name, n in counts.items() if n)
    kinds = f" ({each})" if each else ""
    return f"{total} findings{kinds} in {kernels} kernels of {len(sources)} files"

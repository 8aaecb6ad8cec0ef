"""Findings of source files for people and as JSON. What is found of several kernels at the same
lines, such as in the host function that launches them all, is shown to people once.

JSON, schema `tilelore.lint/1`: `findings`, each with `path`, `kernel`, `rule`, `severity` (error,
warning, note), `message`, `fix` and `lines` (pairs of first and last line, 1-based, inclusive);
`counts` of findings by severity; `kernels` and `files` that were read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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


def reports(sources: Sequence[SourceKnowledge]) -> list[tuple[Finding, list[KernelKnowledge]]]:
    """Every finding once, with the kernels of the file that it is told of."""
    found: dict[tuple[str, Finding], list[KernelKnowledge]] = {}
    for kernel, finding in rows_of(sources):
        same = replace(finding, lines=finding.lines or (kernel.lines,))
        found.setdefault((kernel.source.path, same), []).append(kernel)
    return [(finding, kernels) for (_, finding), kernels in found.items()]


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
    for finding, (kernel, *others) in (found := reports(sources)):
        here = (kernel.source.path, kernel.kernel.name)
        if here != shown:
            console.say(f"{'' if shown is None else chr(10)}{here[0]}  {here[1]}")
            shown = here
        place = f"{here[0]}:{finding.lines[0][0]}"
        console.say(f"  {place}: {finding.severity} [{finding.rule}] {finding.message}")
        for extra in _also(finding, others):
            console.say(f"      {extra}")
    console.note(_summary(sources, Counter(finding.severity for finding, _ in found)))


def _also(finding: Finding, others: Sequence[KernelKnowledge]) -> Iterator[str]:
    if others:
        yield f"the same for: {', '.join(one.kernel.name for one in others)}"
    if len(finding.lines) > 1:
        yield f"see also: lines {console.lines_text(finding.lines[1:])}"
    if finding.fix:
        yield f"fix: {finding.fix}"


def _summary(sources: Sequence[SourceKnowledge], counts: Mapping[Severity, int]) -> str:
    total = sum(counts.values())
    kernels = sum(len(source.kernels) for source in sources)
    numbers = [(counts.get(level, 0), level.value) for level in Severity]
    each = ", ".join(f"{n} {name}{'s' * (n != 1)}" for n, name in numbers if n)
    kinds = f" ({each})" if each else ""
    return f"{total} findings{kinds} in {kernels} kernels of {len(sources)} files"

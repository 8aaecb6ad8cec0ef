"""Findings of source files as SARIF 2.1.0, the form that code hosts show beside the lines.

Each rule carries its description, its reason and its remedy; each result its lines, and a
fingerprint that stays the same when lines move, so that a host tells new findings from old ones.
Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from api.json_form import tool_version
from api.lint import reports
from kb.evidence import Finding, Severity
from kb.graph import names
from kb.graph.vocabulary import RuleEntry, rules
from kb.knowledge import KernelKnowledge, SourceKnowledge

SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
FINGERPRINT = "tilelore/v1"


def sarif_document(sources: Sequence[SourceKnowledge]) -> dict[str, Any]:
    """The findings as one SARIF run; every rule is listed, with or without results."""
    described = rules()
    order = {name: index for index, name in enumerate(described)}
    driver = {
        "name": "tilelore",
        "version": tool_version(),
        "informationUri": "https://w3id.org/tilelore/",
        "rules": [_rule(entry) for entry in described.values()],
    }
    seen: dict[str, int] = {}
    results = [_result(finding, kernels, order, seen) for finding, kernels in reports(sources)]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SARIF, "version": "2.1.0", "runs": [run]}


def _rule(entry: RuleEntry) -> dict[str, Any]:
    """A reporting descriptor from the block of the rule in ontology/rules.ttl."""
    help_text = f"{entry.rationale} {entry.remedy}"
    shown = f"{entry.rationale}\n\n**What to do.** {entry.remedy}\n\n*Source: {entry.source}*"
    return {
        "id": entry.name,
        "name": "".join(word.capitalize() for word in entry.name.split("-")),
        "shortDescription": {"text": entry.label[:1].upper() + entry.label[1:]},
        "fullDescription": {"text": entry.definition},
        "help": {"text": help_text, "markdown": shown},
        "helpUri": names.rule(entry.name),
        "defaultConfiguration": {"level": LEVELS[Severity(entry.severity)]},
        "properties": {"tags": ["gpu", "kernel"]},
    }


def _result(
    finding: Finding, kernels: list[KernelKnowledge], order: dict[str, int], seen: dict[str, int]
) -> dict[str, Any]:
    kernel, names_ = kernels[0], [one.kernel.name for one in kernels]
    fix = f" Fix: {finding.fix}." if finding.fix else ""
    first, *others = [_place(kernel, lines) for lines in finding.lines]
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": order[finding.rule],
        "level": LEVELS[finding.severity],
        "message": {"text": f"{', '.join(names_)}: {finding.message}.{fix}"},
        "locations": [
            {**first, "logicalLocations": [{"name": x, "kind": "function"} for x in names_]}
        ],
        "partialFingerprints": {FINGERPRINT: _fingerprint(kernel, finding, seen)},
    }
    if others:
        related = enumerate(others, start=1)
        result["relatedLocations"] = [{"id": number, **place} for number, place in related]
    return result


def _place(kernel: KernelKnowledge, lines: tuple[int, int]) -> dict[str, Any]:
    first, last = max(lines[0], 1), max(lines[1], lines[0], 1)
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(kernel.source.path)},
            "region": {"startLine": first, "endLine": last},
        }
    }


def _uri(path: str) -> str:
    """A relative reference stays relative; a path from the root becomes a file URI."""
    posix = PurePosixPath(path)
    return posix.as_uri() if posix.is_absolute() else quote(path)


def _fingerprint(kernel: KernelKnowledge, finding: Finding, seen: dict[str, int]) -> str:
    """Of file, kernel, rule and message without its line numbers; repeats are counted."""
    message = re.sub(r"\bline \d+", "line", finding.message)
    parts = (kernel.source.path, kernel.kernel.name, finding.rule, message)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    seen[digest] = seen.get(digest, 0) + 1
    return f"{digest}:{seen[digest]}"

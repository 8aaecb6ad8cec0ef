"""Every rule on its own cases and near misses, in each dialect where it can occur, and on the
published code that it names."""

from __future__ import annotations

from functools import cache
from typing import NoReturn

import pytest

from api.corpora import Corpus, fetch, pinned
from api.extract import extract_file
from extractors.rules.base import Case, NearMiss, Rule, Seen
from extractors.rules.registry import rules
from kb.errors import InputError
from kb.evidence import Severity
from kb.graph.vocabulary import rules as described
from kb.knowledge import SourceKnowledge
from tests.extractors.rules.support import subject

RULES = rules()
MATCHES = [(rule, case) for rule in RULES for case in rule.matches]
MISSES = [(rule, miss) for rule in RULES for miss in rule.near_misses]
SEEN = [(rule, seen) for rule in RULES for seen in rule.seen]


def test_what_was_collected() -> None:
    assert len(RULES) >= 13
    assert len(MATCHES) >= 2 * len(RULES)
    assert len(MISSES) >= len(RULES)


@pytest.mark.parametrize(
    ("rule", "case"), MATCHES, ids=[f"{r.name}-{i}" for i, (r, _) in enumerate(MATCHES)]
)
def test_a_case_is_found(rule: Rule, case: Case) -> None:
    found = list(rule.find(subject(case.text)))
    assert found
    for finding in found:
        assert finding.rule == rule.name
        assert finding.lines
        assert finding.fix
    assert any(case.says in finding.message for finding in found)


@pytest.mark.parametrize(
    ("rule", "miss"), MISSES, ids=[f"{r.name}-{i}" for i, (r, _) in enumerate(MISSES)]
)
def test_a_near_miss_is_not_found(rule: Rule, miss: NearMiss) -> None:
    assert not list(rule.find(subject(miss.text))), miss.why


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_a_rule_has_a_case_in_every_dialect_where_it_can_occur(rule: Rule) -> None:
    dialects = {subject(case.text).facts.kernel.dialect for case in rule.matches}
    assert dialects == set(rule.dialects)


def no_download(requirement: str, folder: object) -> NoReturn:
    raise InputError(f"not cached in {folder}", where=requirement)


def corpus(package: str) -> Corpus:
    """The pinned wheel when it is in the cache already."""
    try:
        return fetch(pinned()[package], download=no_download)
    except (InputError, OSError):
        pytest.skip(f"the wheel of {package} is not in the cache: run `tilelore lint {package}`")


@cache
def knowledge(package: str, file: str) -> SourceKnowledge:
    found = corpus(package)
    return extract_file(found.folder / file, package=package)


@pytest.mark.parametrize(
    ("rule", "seen"), SEEN, ids=[f"{r.name}-{s.kernel}-{s.line}" for r, s in SEEN]
)
def test_a_published_kernel_has_it(rule: Rule, seen: Seen) -> None:
    kernels = {k.kernel.name: k for k in knowledge(seen.package, seen.file).kernels}
    findings = [f for f in kernels[seen.kernel].findings if f.rule == rule.name]
    assert seen.line in {finding.lines[0][0] for finding in findings}


def test_every_rule_is_described_in_the_vocabulary() -> None:
    assert {rule.name for rule in RULES} == set(described())


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_severities_are_the_usual_one_or_milder(rule: Rule) -> None:
    usual = Severity(described()[rule.name].severity)
    found = {f.severity for case in rule.matches for f in rule.find(subject(case.text))}
    assert usual in found
    assert found <= {usual, Severity.NOTE}

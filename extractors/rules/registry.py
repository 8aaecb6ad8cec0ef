"""Every rule of this folder, one per file, collected by itself. A file that fails to load stops
the program."""

from __future__ import annotations

from functools import cache

from extractors.rules.base import Rule, Subject
from kb.evidence import Finding
from kb.one_per_file import one_per_file


@cache
def rules() -> tuple[Rule, ...]:
    """One instance of every rule, by name."""
    found: dict[str, Rule] = {}
    for _, rule in one_per_file(__name__, __file__, Rule, without="base|cases.*|registry"):
        if rule.name in found:
            raise TypeError(f"two rules are called {rule.name}")
        found[rule.name] = rule
    return tuple(found[name] for name in sorted(found))


def findings_of(subject: Subject) -> tuple[Finding, ...]:
    """Findings about one kernel, each message once, by line and rule."""
    found: dict[tuple[str, str], Finding] = {}
    for rule in rules():
        for finding in rule.find(subject):
            found.setdefault((finding.rule, finding.message), finding)
    return tuple(sorted(found.values(), key=lambda f: (f.lines, f.rule, f.message)))

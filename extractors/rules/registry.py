"""Every rule of this folder, one per file, collected by itself. A file that fails to load stops
the program."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from extractors.rules.base import Rule, Subject
from kb.evidence import Finding

_NOT_RULES = frozenset({"base", "cases", "registry"})


@cache
def rules() -> tuple[Rule, ...]:
    """One instance of every rule, by name."""
    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if info.ispkg or info.name in _NOT_RULES:
            continue
        module = importlib.import_module(f"extractors.rules.{info.name}")
        own = [
            item
            for item in vars(module).values()
            if isinstance(item, type)
            and issubclass(item, Rule)
            and item.__module__ == module.__name__
        ]
        if len(own) != 1:
            raise TypeError(f"extractors/rules/{info.name}.py holds {len(own)} rules; one per file")
        rule = own[0]()
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

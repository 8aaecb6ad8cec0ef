"""Values that a kernel is launched for, and for no others: every launch stands in a branch of its
own that compares one thing with a number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.checks import MAX_LABELS, in_words
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.render import shown
from kb.evidence import Lines
from kb.space import Constraint, Origin

_NAME = re.compile(r"[A-Za-z_]\w*")

MAX_APART = 60
"""Lines between branches that are told as one place."""


def values_taken(found: Sequence[LaunchSite], definition: n.Definition) -> Iterator[Constraint]:
    """One constraint for each expression that all launches compare, in the words of the kernel."""
    rows = [_compared(one) for one in found]
    shared = set.intersection(*map(set, rows)) if rows else set()
    for asked in sorted(shared):
        values = dict.fromkeys(row[asked][0] for row in rows)
        if not 1 < len(values) <= MAX_LABELS:
            continue
        text = " or ".join(f"{asked} == {value}" for value in values)
        each = {in_words(text, one.words(definition)) for one in found}
        told = next(iter(each)) if len(each) == 1 else in_words(text, _own(asked))
        if told is not None:
            yield Constraint(
                expression=told, origin=Origin.STATED, checked_by_host=True,
                because="every launch stands in a branch for one of these values",
                hint="add a branch for another value, or refuse it where the caller can see it",
                lines=_place([row[asked][1] for row in rows]),
            )  # fmt: skip


def _own(asked: str) -> dict[str, str]:
    """The names of an expression, each by itself."""
    return {name: name for name in _NAME.findall(asked)}


def _compared(site: LaunchSite) -> dict[str, tuple[str, int]]:
    """What the branches around a launch compare, with the value and the line, of the sides that are
    taken where both are equal, and what is checked to be equal before it."""
    found: dict[str, tuple[str, int]] = {}
    for value, label in site.cases:
        found.setdefault(shown(value), (shown(label), value.at.line))
    for test in site.tests:
        match test:
            case n.Binary(operator="==", left=left, right=right) if shown(test) in site.guards:
                if isinstance(right, n.Constant | n.Name):
                    found.setdefault(shown(left), (shown(right), test.at.line))
    for check in site.checks:
        match check.condition:
            case n.Binary(operator="==", left=left, right=n.Constant() | n.Name() as right) if (
                check.given is None
            ):
                found.setdefault(shown(left), (shown(right), check.at.line))
    return found


def _place(lines: list[int]) -> Lines:
    first, last = min(lines), max(lines)
    return (first, last) if last - first <= MAX_APART else (lines[0], lines[0])

"""What a rule is: a general check over one kernel and its host code that yields findings, with
its cases, its near misses and where it was seen in published packages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from extractors.host.facts import HostFacts
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Lines, Node
from kb.evidence import Finding, Severity

Where = Node | Access | Lines | None


@dataclass(frozen=True, slots=True)
class Subject:
    """One kernel as rules see it: its program, and what the host code around it says."""

    facts: Facts
    host: HostFacts


@dataclass(frozen=True, slots=True)
class Case:
    """Source text of a module whose last kernel yields the finding; `says` is part of what it
    must say."""

    text: str
    says: str = ""


@dataclass(frozen=True, slots=True)
class NearMiss:
    """Source text that looks alike and must not yield the finding, with the reason."""

    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A true finding in a pinned package: file, kernel, and the first line of its evidence."""

    package: str
    file: str
    kernel: str
    line: int


class Rule:
    """A check. Subclasses say `name`, `dialects`, `matches` and `near_misses`; the description, the
    reason and the source are the block of that name in ontology/rules.ttl.

    `dialects` are those in which it can occur; `seen` is empty when no pinned package has a case.
    """

    name: ClassVar[str]
    dialects: ClassVar[tuple[str, ...]] = ("cutile", "triton")
    matches: ClassVar[tuple[Case, ...]]
    near_misses: ClassVar[tuple[NearMiss, ...]]
    seen: ClassVar[tuple[Seen, ...]] = ()

    def __init_subclass__(cls) -> None:
        for wanted in ("name", "matches", "near_misses"):
            if not getattr(cls, wanted, None):
                raise TypeError(f"{cls.__name__} says no {wanted}; a rule brings its cases")

    def find(self, subject: Subject) -> Iterable[Finding]:
        """Every finding of this rule about one kernel."""
        raise NotImplementedError

    def finding(
        self,
        subject: Subject,
        message: str,
        fix: str,
        where: Iterable[Where],
        severity: Severity = Severity.WARNING,
    ) -> Finding:
        """A finding with the lines of the places given; the head of the kernel when there are
        none."""
        head = subject.facts.kernel.entry.span.line
        return Finding(
            rule=self.name,
            severity=severity,
            message=message,
            lines=_lines(where) or ((head, head),),
            fix=fix,
        )


def _lines(where: Iterable[Where]) -> tuple[Lines, ...]:
    """Line ranges of places, sorted, none twice."""
    found: set[Lines] = set()
    for place in where:
        if isinstance(place, tuple):
            found.add(place)
        elif place is not None:
            node = place.node if isinstance(place, Access) else place
            found.add(node.lines)
    return tuple(sorted(one for one in found if one[0] > 0))

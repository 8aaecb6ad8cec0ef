"""Tuning spaces against the gold: is there a search, which points, which axes take effect.

A fact of the gold is judged only where the gold states it as data (configurations, a grid, a
number of points, lists of effective and dead axes); prose is left out. A point is compared as the
bag of its values, over all branches together: gold and source may order axes differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from benchmarks.gold.decisions import rate
from benchmarks.gold.entries import Entry
from kb.knowledge import KernelKnowledge
from kb.space import Tuning

SEARCHES = ("autotune", "exhaustive", "libtuner")
"""Words of a mechanism that times more than one configuration."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"-?\d+")

Bag = tuple[str, ...]
"""The values of a point, sorted, as text."""


@dataclass(frozen=True)
class Fact:
    """One fact of the gold on the tuning of a kernel, and what we say; for `points` the bags of
    both sides are counted."""

    package: str
    kernel: str
    fact: str
    gold: str
    ours: str
    agrees: bool
    wanted: int = 0
    given: int = 0
    common: int = 0


def compare(entry: Entry, known: KernelKnowledge) -> list[Fact]:
    """Every fact on the tuning of one kernel that the gold states as data."""
    gold = entry.get("tuning")
    if not isinstance(gold, dict):
        return []
    place = (str(entry["package"]), str(entry["kernel"]))
    ours = known.tuning
    facts: list[tuple[str, object, object]] = [
        ("searched", _searched(gold), any(word in ours.mechanism for word in SEARCHES))
    ]
    given = _ours(ours)
    if isinstance(gold.get("points"), int) and _searched(gold):
        every = {point for space in ours.spaces for point in space.points}
        facts.append(("number of points", gold["points"], len(every)))
    for fact, mine in (("effective_axes", ours.effective_axes), ("dead_axes", ours.dead_axes)):
        if "spaces" in gold and fact in gold:
            facts.append((fact, _names(gold[fact]), sorted(mine)))
    found = [Fact(*place, name, str(a)[:200], str(b)[:200], a == b) for name, a, b in facts]
    if "spaces" in gold:
        wanted = _gold(gold["spaces"])
        counts = (len(wanted), len(given), len(wanted & given))
        texts = (f"{len(wanted)} points", f"{len(given)} points")
        found.append(Fact(*place, "points", *texts, wanted == given, *counts))
    return found


def _searched(gold: dict[str, Any]) -> bool:
    mechanism = str(gold.get("mechanism", ""))
    if not mechanism:
        return "spaces" in gold
    return any(word in mechanism and f"no {word}" not in mechanism for word in SEARCHES)


def _names(texts: Iterable[object]) -> list[str]:
    return sorted(match[0] for text in texts if (match := _NAME.match(str(text))))


def _bag(values: Iterable[object]) -> Bag:
    return tuple(sorted(str(value) for value in values))


def _ours(tuning: Tuning) -> set[Bag]:
    return {_bag(value for _, value in point) for space in tuning.spaces for point in space.points}


def _gold(spaces: Iterable[dict[str, Any]]) -> set[Bag]:
    """The points of every branch: a list of configurations, or the product of a grid."""
    found: set[Bag] = set()
    for space in spaces:
        common = tuple(space.get("common", {}).values())
        if "grid" in space:
            found |= {_bag((*point, *common)) for point in product(*space["grid"].values())}
        for config in space.get("configs", ()):
            own = config.values() if isinstance(config, dict) else _NUMBER.findall(str(config))
            found.add(_bag((*own, *common)))
    return found


def summary(facts: list[Fact]) -> dict[str, Any]:
    """Agreement of facts, and of points."""
    points = [fact for fact in facts if fact.fact == "points"]
    common = sum(fact.common for fact in points)
    return {
        "facts": len(facts),
        "agreement": rate(sum(fact.agrees for fact in facts), len(facts)),
        "points": sum(fact.wanted for fact in points),
        "points_recall": rate(common, sum(fact.wanted for fact in points)),
        "points_precision": rate(common, sum(fact.given for fact in points)),
    }


def show(facts: list[Fact]) -> None:
    """Print the facts that differ."""
    for fact in facts:
        if not fact.agrees:
            print(f"SPACE  {fact.kernel:40} {fact.fact:22} gold {fact.gold} ours {fact.ours}")

"""Decisions against the gold: same axis, a common line.

Recall is over the decisions of the gold, absent values (not chosen, and said so) included.
Precision is over our decisions on axes that the gold of that kernel covers: the share that has a
common line with a gold decision of that axis. `value` is not compared: gold values are prose.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from benchmarks.gold.entries import Entry, overlap, ranges
from kb.evidence import Decision, Lines
from kb.knowledge import KernelKnowledge


@dataclass(frozen=True)
class Row:
    """One gold decision and whether it was found; `host` when its lines are outside the kernel."""

    package: str
    kernel: str
    axis: str
    value: str
    lines: list[Lines]
    host: bool
    found: bool
    disputed: bool = False


@dataclass(frozen=True)
class Judged:
    """A decision of ours: whether the gold covers its axis, whether a gold decision agrees, and how
    many of its line ranges meet one of the gold."""

    package: str
    kernel: str
    decision: Decision
    covered: bool
    agrees: bool
    ranges_met: int
    disputed: bool = False


def compare(entry: Entry, known: KernelKnowledge) -> tuple[list[Row], list[Judged]]:
    """The gold decisions of one kernel, and what we say of it."""
    package, name = str(entry["package"]), str(entry["kernel"])
    seen = [d for d in known.decisions if d.file is None]
    bodies = _bodies(known)
    rows = []
    wanted: dict[tuple[str, str], list[Lines]] = {}
    for item in entry["decisions"]:
        lines, file = ranges(item.get("lines")), str(item.get("file") or "")
        same = [d for d in known.decisions if d.axis == item["axis"]]
        places = [[at for where, at in _places(d) if where == file] for d in same]
        hits = [at for at in places if at and (not lines or overlap(at, lines))]
        wanted.setdefault((item["axis"], file), []).extend(lines or [(0, 10**9)])
        rows.append(
            Row(
                package=package, kernel=name, axis=item["axis"], value=str(item["value"])[:90],
                lines=lines, found=bool(hits),
                host=bool(file) or (bool(lines) and not overlap(bodies, lines)),
            )
        )  # fmt: skip
    judged = []
    covered = {axis for axis, _ in wanted}
    for d in seen:
        met = [overlap([at], wanted.get((d.axis, where), [])) for where, at in _places(d)]
        judged.append(Judged(package, name, d, d.axis in covered, any(met), sum(met)))
    return rows, judged


def _places(decision: Decision) -> list[tuple[str, Lines]]:
    """Lines of a decision with their file; no file for the kernel's own."""
    own = [(decision.file or "", at) for at in decision.lines]
    return own + [(file, lines) for file, lines in decision.elsewhere]


def _bodies(known: KernelKnowledge) -> list[Lines]:
    """The lines of the kernel, its decorators and its helpers in the same file."""
    home = known.kernel.entry.span.path
    spans = [f.span.lines for f in known.kernel.functions if f.span.path == home]
    return [(first - 2, last) for first, last in spans]


def summary(rows: list[Row], judged: list[Judged]) -> dict[str, Any]:
    """Counts and rates, first as the gold stands, then without what is disputed."""
    covered = [j for j in judged if j.covered]
    wrong = [j for j in covered if not j.agrees]
    inside = [row for row in rows if not row.host]
    agreed = [j for j in covered if j.agrees]
    by_axis = {axis: [0, 0] for axis in sorted({row.axis for row in rows})}
    for row in rows:
        by_axis[row.axis][0] += row.found
        by_axis[row.axis][1] += 1
    fair = [row for row in rows if row.found or not row.disputed]
    right = len(covered) - sum(not j.disputed for j in wrong)
    return {
        "kernels": len({(row.package, row.kernel) for row in rows}),
        "gold": len(rows),
        "found": sum(row.found for row in rows),
        "recall": rate(sum(row.found for row in rows), len(rows)),
        "recall_in_kernel": rate(sum(row.found for row in inside), len(inside)),
        "recall_undisputed": rate(sum(row.found for row in fair), len(fair)),
        "decisions": len(judged),
        "decisions_on_covered_axes": len(covered),
        "precision": rate(len(agreed), len(covered)),
        "precision_undisputed": rate(right, len(covered)),
        "ranges_met": rate(
            sum(j.ranges_met for j in agreed), sum(len(j.decision.lines) for j in agreed)
        ),
        "without_gold_by_axis": dict(Counter(j.decision.axis for j in wrong).most_common()),
        "by_axis": by_axis,
    }


def rate(part: int, whole: int) -> float | None:
    """A share with four digits; None of nothing."""
    return round(part / whole, 4) if whole else None


def show(rows: list[Row], judged: list[Judged]) -> None:
    """Print misses, and decisions that the gold does not have."""
    for row in rows:
        if not row.found:
            place = ("HOST" if row.host else "MISS") + ("?" if row.disputed else "")
            print(f"{place:6} {row.kernel:40} {row.axis:22} {row.lines} {row.value}")
    for j in judged:
        if j.covered and not j.agrees:
            d = j.decision
            mark = "EXTRA?" if j.disputed else "EXTRA "
            print(f"{mark} {j.kernel:40} {d.axis:22} {list(d.lines)} {d.value} <{d.pattern}>")

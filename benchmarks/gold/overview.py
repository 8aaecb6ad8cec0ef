"""All golds in few rows: the given files, those of our own by language, and first readings.

`golds.json` lists our own by language, in the order in which they were annotated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Counts = Mapping[str, Any]
"""What `decisions.summary`, `spaces.summary` and `claims.summary` say, by kind."""

RATES = ("recall", "recall_undisputed", "precision", "precision_undisputed")

LATEST = 4
"""So many of the last golds of a language tell what to expect of kernels not seen before."""


def own(folder: Path) -> dict[str, list[str]]:
    """Names of our own golds by language, in the order in which they were annotated."""
    text = (folder / "golds.json").read_text(encoding="utf-8")
    return {str(language): list(names) for language, names in json.loads(text).items()}


def group_of(name: str, folder: Path) -> str:
    """The row of the overview that a gold file counts for: its language, else the file itself."""
    for language, names in own(folder).items():
        if name in names:
            return f"our own, {language}"
    return f"given: {name}"


def overview(groups: Mapping[str, Counts], folder: Path) -> list[str]:
    """Two tables: every group as this tree reads it, and first readings of golds held out."""
    lines = [
        "| gold | kernels | decisions | recall | undisputed | precision | undisputed "
        "| space facts agree | constraints: recall | precision ≥ | defects: recall | precision ≥ |",
        "|---|" + "---:|" * 11,
    ]
    for name, total in groups.items():
        part = total["decisions"]
        cells = [str(part["kernels"]), str(part["gold"])]
        rates = [part[key] for key in RATES] + [total["spaces"]["agreement"]]
        for kind in ("constraints", "findings"):
            rates += [total[kind]["recall"], total[kind]["precision_lower_bound"]]
        lines.append(f"| {name} | " + " | ".join(cells + [share(rate) for rate in rates]) + " |")
    lines += [
        "",
        "| first reading, nothing corrected on it | golds | decisions | recall | precision |",
        "|---|---:|---:|---:|---:|",
        *_first_readings(folder),
    ]
    return lines


def _first_readings(folder: Path) -> Iterator[str]:
    """Per language: the last golds, and all of them."""
    for language, names in own(folder).items():
        several = len(names) > LATEST
        for title, chosen in (("the last", names[-LATEST:]), ("all", names)):
            if title == "all" and not several:
                continue
            parts = [first_reading(folder, name) for name in chosen]
            gold = sum(part["gold"] for part in parts)
            told = sum(part["decisions_on_covered_axes"] for part in parts)
            right = sum(part["precision"] * part["decisions_on_covered_axes"] for part in parts)
            recall = share(sum(part["found"] for part in parts) / gold)
            yield (
                f"| {language}, {title} | {len(parts)} | {gold} | {recall} "
                f"| {share(right / told)} |"
            )


def first_reading(folder: Path, name: str) -> Counts:
    """The counts of decisions that were kept when a gold was read for the first time."""
    text = (folder / "first_readings" / f"{name}.json").read_text(encoding="utf-8")
    counts: Counts = json.loads(text)["decisions"]
    return counts


def share(value: float | None) -> str:
    """A rate with three digits, a dash of nothing."""
    return "-" if value is None else f"{value:.3f}"

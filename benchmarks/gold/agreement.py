"""How far two annotators agree who read the same kernels blind, and the tool with both.

Usage: python -m benchmarks.gold.agreement --first GOLD.yaml --second GOLD.yaml [--corpus FOLDER]
[--out FILE.json]

Matched as the tool is: same axis, a common line. The second annotator is judged against the first
as a tool would be, and the first against the second; the tool is judged against either, and
against what both name. What two readers do not agree on, no tool can be asked for.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gold.decisions import compare, rate, summary
from benchmarks.gold.entries import Entry, Reader, load, overlap, ranges
from benchmarks.gold.run import machine

Item = dict[str, Any]
"""A decision of a gold: axis, value, lines."""


def shared(item: Item, others: Sequence[Item]) -> bool:
    """Whether one of the others is on the same axis and shares a line."""
    lines = ranges(item["lines"])
    return any(
        other["axis"] == item["axis"] and overlap(ranges(other["lines"]), lines) for other in others
    )


def against(pairs: Sequence[tuple[Entry, Entry]]) -> dict[str, Any]:
    """The second of each pair, judged against the first."""
    rows = [(gold["decisions"], told["decisions"]) for gold, told in pairs]
    wanted = [shared(item, told) for gold, told in rows for item in gold]
    covered = [
        shared(item, gold)
        for gold, told in rows
        for item in told
        if item["axis"] in {one["axis"] for one in gold}
    ]
    return {
        "gold": len(wanted),
        "recall": rate(sum(wanted), len(wanted)),
        "precision": rate(sum(covered), len(covered)),
    }


def of_both(pairs: Sequence[tuple[Entry, Entry]]) -> list[Entry]:
    """Entries with the decisions of the first that the second names, too."""
    return [
        {**one, "decisions": [x for x in one["decisions"] if shared(x, other["decisions"])]}
        for one, other in pairs
    ]


def of_tool(entries: Sequence[Entry], reader: Reader) -> dict[str, Any]:
    """The tool, judged against these entries."""
    rows, judged = [], []
    for entry in entries:
        known = reader.kernel(entry)
        if known is not None:
            more = compare(entry, known)
            rows += more[0]
            judged += more[1]
    told = summary(rows, judged)
    return {name: told[name] for name in ("gold", "recall", "precision")}


def main() -> None:
    """Compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=Path, required=True)
    parser.add_argument("--second", type=Path, required=True)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    second = {(str(e["package"]), str(e["file"]), str(e["kernel"])): e for e in load(given.second)}
    firsts = [(e, (str(e["package"]), str(e["file"]), str(e["kernel"]))) for e in load(given.first)]
    pairs = [(entry, second[key]) for entry, key in firsts if key in second]
    reader = Reader(given.corpus)
    found = {
        **machine(),
        "kernels": len(pairs),
        "second annotator against the first": against(pairs),
        "first annotator against the second": against([(two, one) for one, two in pairs]),
        "tool against the first": of_tool([one for one, _ in pairs], reader),
        "tool against the second": of_tool([two for _, two in pairs], reader),
        "tool against what both name": of_tool(of_both(pairs), reader),
    }
    text = json.dumps(found, indent=1) + "\n"
    print(text, end="")
    if given.out:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Which patterns have cases and near misses, and in which dialects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from extractors.host.cases import CASES, MISSES
from extractors.patterns.registry import patterns as recognisers
from extractors.told_cases import CASES as TOLD
from extractors.told_cases import MISSES as NOT_TOLD
from kb.graph.vocabulary import PatternEntry

DIALECTS = ("cutile", "triton", "cuda")


@dataclass(slots=True)
class Count:
    """Cases and near misses of one pattern in one dialect."""

    cases: int = 0
    misses: int = 0


Coverage = dict[str, dict[str, Count]]


def dialect_of(text: str) -> str:
    """The dialect of a case, from the module that it imports or the mark of its kernel."""
    if "__global__" in text:
        return "cuda"
    return "triton" if "import triton" in text else "cutile"


def coverage() -> Coverage:
    """Counts by pattern and dialect, of program and host recognisers, and of both together."""
    found: Coverage = defaultdict(lambda: {dialect: Count() for dialect in DIALECTS})
    for recogniser in recognisers():
        for case in recogniser.matches:
            found[recogniser.name][dialect_of(case.text)].cases += 1
        for miss in recogniser.near_misses:
            found[recogniser.name][dialect_of(miss.text)].misses += 1
    for host_case in (*CASES, *TOLD):
        found[host_case.pattern][dialect_of(host_case.text)].cases += 1
    for host_miss in (*MISSES, *NOT_TOLD):
        found[host_miss.pattern][dialect_of(host_miss.text)].misses += 1
    return found


def gaps(entry: PatternEntry, counts: dict[str, Count]) -> Iterator[str]:
    """What a pattern lacks in the dialects that it occurs in and is not excused from."""
    excused = dict(entry.unseen)
    for dialect in entry.dialects:
        if dialect in excused:
            continue
        if not counts[dialect].cases:
            yield f"no case in {dialect}"
        if not counts[dialect].misses:
            yield f"no near miss in {dialect}"

"""Operands of an epilogue for which the host makes an array where none is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from extractors.detect import Detection
from extractors.host.stand_ins import STAND_IN
from kb.evidence import Decision


def with_stand_ins(
    program: Sequence[Decision], host: Sequence[Decision], detection: Detection
) -> Iterator[Decision]:
    """Decisions of the program; an epilogue that reads such an array with the lines that make
    it."""
    made = [d for d in host if d.pattern == STAND_IN and d.file is None]
    for decision in program:
        if decision.axis != "epilogue" or not made:
            yield decision
            continue
        read = {
            a.array
            for a in detection.facts.accesses
            if a.node.lines in decision.lines and not a.is_store
        }
        lines = {line for d in made if d.subject in read for line in d.lines}
        yield replace(decision, lines=tuple(sorted({*decision.lines, *lines})))

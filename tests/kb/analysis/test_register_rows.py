"""Rows that threads keep in arrays of registers."""

from __future__ import annotations

from extractors.patterns.cases import vary
from extractors.patterns.cases_kept import ROUNDS_OF_CHOICE, VECTORS_KEPT
from kb.analysis.register_rows import kept_in_registers
from tests.extractors.patterns.test_cases import facts


def _kept(text: str) -> set[int]:
    known = facts(text)
    return {node.head[0] for node in kept_in_registers(known, known.loads)}


def test_vectors_are_seen_as_elements() -> None:
    assert _kept(VECTORS_KEPT) == {6, 12}


def test_rounds_take_from_one_row() -> None:
    assert {3, 6, 8} <= _kept(ROUNDS_OF_CHOICE)


def test_registers_that_every_round_fills_keep_nothing() -> None:
    again = "        for (int i = 0; i < 4; ++i) v[i] = x[round + i];\n        float top = v[0];"
    gone = "        for (int i = 0; i < 4; ++i) if (v[i] == top) v[i] = -1e30f;\n"
    text = vary(ROUNDS_OF_CHOICE, ("        float top = v[0];", again), (gone, ""))
    assert not _kept(text)


def test_sums_are_no_row() -> None:
    text = vary(VECTORS_KEPT, ("float v[16], sum = 0.f;", "float v[16], sum = 0.f, w[2] = {};"),
                ("sum += part[j] * part[j];", "w[0] += part[j];"),
                ("v[i * 4 + j] / sum", "w[0] / sum"))  # fmt: skip
    assert not _kept(text)

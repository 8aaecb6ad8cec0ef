"""The quoted notation against the real ontology."""

from __future__ import annotations

from kb.dsl.reader import read
from kb.dsl.writer import write
from kb.graph.terms import vocabulary
from tests.kb.dsl.test_dsl import QUOTED


def test_quoted_notation_reads_with_the_ontology() -> None:
    reading = read(QUOTED, vocabulary())
    document = reading.document
    assert len(reading.notes) == 1
    assert dict(document.canonical) == {
        "mask_fusion": "mask_placement",
        "lse_storage": "auxiliary_layout",
        "load_latency": "prefetch_depth",
    }
    assert read(write(document), vocabulary()).document == document


def test_every_axis_of_the_ontology_can_be_written() -> None:
    for axis in vocabulary().axes:
        text = f"{axis.kind}_space {{\n    {axis.name}: [1]\n}}\n"
        reading = read(text, vocabulary())
        assert reading.notes == ()
        assert write(reading.document) == text

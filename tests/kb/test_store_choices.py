"""The counts of chosen values follow the graphs, however these come and go."""

from __future__ import annotations

from pathlib import Path

from pyoxigraph import NamedNode, RdfFormat

from kb.results import Rows
from kb.store import LocalStore
from kb.store_choices import CHOICES, CHOSEN_BY, counted, miscounted
from kb.store_quads import ROOT, digest
from tests.kb.store_sample import kernel_graph

COUNTS = f"""
SELECT ?value ?axis ?words ?kernels WHERE {{ GRAPH <{CHOICES}> {{
  ?value tl:chosenOn ?axis ; tl:chosenAs ?words ; tl:chosenBy ?kernels
}} }} ORDER BY ?value
"""


def counts(store: LocalStore) -> dict[str, int]:
    """How many kernels have each value, by its last part; each has its axis and words."""
    rows = store.direct(COUNTS)
    assert isinstance(rows, Rows)
    told = {(row["axis"], row["words"]) for row in rows}
    assert told <= {(f"{ROOT}axis/softmax_scheme", "online")}
    return {str(row["value"]).rpartition("/")[2]: int(row["kernels"] or 0) for row in rows}


def test_counts_follow_adding_replacing_and_removing(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "kb") as store:
        assert counts(store) == {}
        store.add(*kernel_graph("one"))
        store.add(*kernel_graph("two", decisions=3))
        assert counts(store) == {"0": 2, "1": 2, "2": 1}
        store.add(*kernel_graph("two", decisions=3))
        assert counts(store) == {"0": 2, "1": 2, "2": 1}
        store.add(*kernel_graph("two", version=2, decisions=1))
        assert counts(store) == {"0": 2, "1": 1}
        store.remove(kernel_graph("one")[0])
        assert counts(store) == {"0": 1}
        store.rebuild()
        assert counts(store) == {"0": 1}
        assert store.check() == ()


def test_a_load_that_was_killed_before_it_was_counted(tmp_path: Path) -> None:
    graph, text, programs = kernel_graph("three", decisions=4)
    with LocalStore(tmp_path / "kb") as store:
        store.add(*kernel_graph("one"))
        store.folder.begin({digest(text.encode()): text.encode()}, programs, graphs=[graph])
        store.index.bulk_load(text.encode(), format=RdfFormat.N_QUADS)  # and then killed
        assert miscounted(store.index)
    with LocalStore(tmp_path / "kb") as store:
        assert counts(store) == {"0": 1, "1": 1}


def test_wrong_counts_are_told_and_rebuilt(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "kb") as store:
        store.add(*kernel_graph("one"))
        value = NamedNode(f"{ROOT}value/softmax_scheme/0")
        (held,) = store.index.quads_for_pattern(value, CHOSEN_BY, None, NamedNode(CHOICES))
        store.index.remove(held)
        assert [problem.where for problem in store.check()] == [CHOICES]
        store.rebuild()
        assert store.check() == ()


def test_a_reader_of_what_was_published_uncounted_sees_counts(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "kb") as store:
        store.add(*kernel_graph("one"))
        store.index.clear_graph(NamedNode(CHOICES))
        assert not counted(store.index)
    with LocalStore(tmp_path / "kb", read_only=True) as reader:
        assert counts(reader) == {"0": 1, "1": 1}


def test_counts_are_no_part_of_the_truth(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "kb") as store:
        store.add(*kernel_graph("one"))
        out = tmp_path / "out.nq"
        with out.open("wb") as stream:
            store.export(stream)
        assert CHOICES not in out.read_text()
        assert store.stats().graphs == 1

"""NVIDIA's attention.py, all of it: its graphs conform, survive the store, and answer questions.

Needs the unpacked corpus in the cache (`make demo` fetches it); nothing is downloaded here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest
from pyoxigraph import RdfFormat
from pyoxigraph import parse as parse_quads

from api.corpora import Corpus, fetch, pinned
from api.extract import extract_file
from kb.dsl.from_knowledge import knowledge_document
from kb.dsl.reader import read
from kb.dsl.writer import write
from kb.errors import InputError
from kb.graph.decode import decode
from kb.graph.decode_document import decode_document
from kb.graph.encode import KernelGraph, encode
from kb.graph.encode_document import encode_document
from kb.graph.encode_program import encode_program
from kb.graph.terms import vocabulary
from kb.knowledge import KernelKnowledge
from kb.results import Rows
from kb.store import AddResult, LocalStore
from kb.validation import require_conformance, validate

FILE = "tilegym/ops/cutile/attention.py"
KERNELS = 5


def _no_download(requirement: str, folder: Path) -> NoReturn:
    raise InputError(f"not cached in {folder}", where=requirement)


@cache
def corpus() -> Corpus | None:
    """The pinned wheel when it is in the cache already."""
    try:
        return fetch(pinned()["tilegym"], download=_no_download)
    except (InputError, OSError):
        return None


@cache
def kernels() -> tuple[KernelKnowledge, ...]:
    """Every kernel of the file, read once."""
    found = corpus()
    if found is None:
        pytest.skip("the tilegym wheel is not in the cache: run `make demo` or `tilelore extract`")
    package = f"{found.package}=={found.version}"
    source = extract_file(found.folder / FILE, package=package, licence=found.licence)
    return source.kernels


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """A knowledge base that holds the file, with shapes on."""
    folder = tmp_path_factory.mktemp("kb") / "kb"
    ontology = Path(__file__).resolve().parents[2] / "ontology"
    with LocalStore(folder, validate=require_conformance, vocabulary=ontology) as opened:
        for graph in map(encode, kernels()):
            assert opened.add(graph.name, graph.quads, graph.programs) is AddResult.ADDED
        yield opened


def stored(store: LocalStore, graph: KernelGraph) -> KernelKnowledge:
    """The knowledge that the store gives back for a graph."""
    quads = parse_quads(store.graph_text(graph.name), format=RdfFormat.N_QUADS)
    return decode(quads, store.program(graph.program_digest))


def test_the_file_holds_five_kernels_with_decisions() -> None:
    assert len(kernels()) == KERNELS
    assert all(kernel.decisions for kernel in kernels())


@pytest.mark.parametrize("index", range(KERNELS))
def test_graphs_conform_and_come_back_from_the_store(store: LocalStore, index: int) -> None:
    kernel = kernels()[index]
    graph = encode(kernel)
    assert validate(graph.quads) == ()
    assert store.add(graph.name, graph.quads, graph.programs) is AddResult.UNCHANGED
    assert stored(store, graph) == kernel


@pytest.mark.parametrize("index", range(KERNELS))
def test_the_dsl_of_a_kernel_is_text_graph_text(store: LocalStore, index: int) -> None:
    text = write(knowledge_document(kernels()[index]))
    document = read(text, vocabulary()).document
    graph = encode_document(document)
    assert validate(graph.quads) == ()
    assert store.add(graph.name, graph.quads, dict(graph.programs)) is AddResult.ADDED
    quads = list(parse_quads(store.graph_text(graph.name), format=RdfFormat.N_QUADS))
    again = decode_document(quads, store.program(graph.programs[0][0]))
    assert again == document
    assert write(again) == text
    assert store.remove(graph.name)


def test_a_whole_program_conforms_as_a_graph() -> None:
    assert validate(encode_program(kernels()[0].kernel)) == ()


def test_the_store_counts_what_was_read(store: LocalStore) -> None:
    stats = store.stats()
    assert stats.kernels == KERNELS
    assert stats.decisions == sum(len(kernel.decisions) for kernel in kernels())
    assert stats.findings == sum(len(kernel.findings) for kernel in kernels())
    assert store.check() == ()


def test_sparql_finds_each_decision_with_its_lines(store: LocalStore) -> None:
    found = store.query(
        "SELECT ?label ?axis ?value ?pattern ?first ?last {"
        " ?kernel a tl:Kernel ; rdfs:label ?label ; tl:hasDecision ?d ."
        " ?d tl:onAxis ?axis ; tl:value ?value ; tl:seenBy ?pattern ; tl:evidence ?span ."
        " ?span tl:startLine ?first ; tl:endLine ?last }"
    )
    assert isinstance(found, Rows)
    asked = {
        (
            row["label"],
            str(row["axis"]).rpartition("/")[2],
            row["value"],
            str(row["pattern"]).rpartition("/")[2],
            (row["first"], row["last"]),
        )
        for row in found
    }
    assert asked == {
        (kernel.kernel.name, decision.axis, decision.value, decision.pattern, lines)
        for kernel in kernels()
        for decision in kernel.decisions
        for lines in decision.lines
    }


@pytest.mark.parametrize("name", ["decisions_of_kernel", "alternatives", "tuning_of_kernel"])
def test_named_questions_have_answers(store: LocalStore, name: str) -> None:
    answer = store.ask(name, kernel=encode(kernels()[0]).kernel)
    assert isinstance(answer, Rows)
    assert len(list(answer)) > 0

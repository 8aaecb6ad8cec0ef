"""Text, document, graph and back: nothing is lost, and what people and tools write is accepted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from pyoxigraph import NamedNode, Quad, RdfFormat
from pyoxigraph import parse as parse_rdf

from kb.dsl.from_knowledge import knowledge_document
from kb.dsl.model import Document, ValueMark
from kb.dsl.reader import read
from kb.dsl.writer import write
from kb.errors import DoesNotConform, InputError
from kb.graph.decode_document import decode_document
from kb.graph.encode import encode
from kb.graph.encode_document import encode_document
from kb.graph.facts import canonical
from kb.graph.terms import vocabulary
from kb.results import Rows
from kb.space import Origin
from kb.store import AddResult, LocalStore
from kb.validation import require_conformance, validate
from tests.kb.dsl.documents import documents
from tests.kb.dsl.test_dsl import FULL, QUOTED
from tests.kb.graph.test_graph import sample

LAW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
DIGEST = "0f" * 32
MEASURED = (
    f'    measurement "mean-time" 12.5 "us"; target "h100"; samples 9; seed 0; kernel "{DIGEST}";'
    ' versions "triton" "3.9"\n'
)
WHOLE = FULL.replace('"sha256:00ff"', f'"{DIGEST}"').replace(
    "}\n\nrefused {", f"{MEASURED}}}\n\nrefused {{"
)
MARKED = """# Ours.
design_space {
    softmax_scheme: ["online", "naive" proposed by "ada"]; observed; because "one pass"
    load_latency: [1, 2 stated]  # moved
}

tuning_space {
    tile_m: [32, 64 inherited by "rule transfer/x", 64]
}
"""


@cache
def documents_to_keep() -> dict[str, Document]:
    """The notation of the design, a kernel read from its source, every section, marks and moves."""
    texts = {"quoted": QUOTED, "full": WHOLE, "marked": MARKED}
    found = {name: read(text, vocabulary()).document for name, text in texts.items()}
    kernel = write(knowledge_document(sample()))
    return {**found, "kernel": read(kernel, vocabulary()).document}


def again(document: Document) -> Document:
    """The document after a trip through N-Quads."""
    graph = encode_document(document)
    quads = list(parse_rdf(canonical(graph.quads), format=RdfFormat.N_QUADS))
    return decode_document(quads, next((text for _, text in graph.programs), None))


@given(documents())
@LAW
def test_any_document_comes_back_the_same(document: Document) -> None:
    found = again(document)
    assert (found, repr(found)) == (document, repr(replace(document, canonical=found.canonical)))
    assert write(found) == write(document)


@given(documents())
@LAW
def test_text_to_graph_to_text_is_identical(document: Document) -> None:
    text = write(document)
    assert write(again(read(text, vocabulary()).document)) == text


@pytest.mark.parametrize("name", ["quoted", "full", "marked", "kernel"])
def test_a_written_document_survives_and_is_stored(name: str, tmp_path: Path) -> None:
    document = documents_to_keep()[name]
    text = write(document)
    graph = encode_document(document)
    assert again(document) == document
    assert again(document).canonical == document.canonical
    assert write(again(document)) == text
    assert read(text, vocabulary()).document == document
    assert validate(graph.quads) == ()
    with LocalStore(tmp_path / "kb", validate=require_conformance) as store:
        assert store.add(graph.name, graph.quads, dict(graph.programs)) is AddResult.ADDED
        assert store.add(graph.name, graph.quads, dict(graph.programs)) is AddResult.UNCHANGED
        stored = [*parse_rdf(store.graph_text(graph.name), format=RdfFormat.N_QUADS)]
        digest = next((digest for digest, _ in graph.programs), None)
        program = None if digest is None else store.program(digest)
        assert write(decode_document(stored, program)) == text
        assert store.stats().kernels == 0


def test_the_tool_and_the_reader_give_the_same_document() -> None:
    document = knowledge_document(sample())
    assert again(document) == document
    assert documents_to_keep()["kernel"] == document


def test_a_kernel_and_its_document_share_the_program(tmp_path: Path) -> None:
    kernel, graph = encode(sample()), encode_document(knowledge_document(sample()))
    assert dict(graph.programs) == kernel.programs
    with LocalStore(tmp_path / "kb", validate=require_conformance) as store:
        store.add(kernel.name, kernel.quads, kernel.programs)
        store.add(graph.name, graph.quads, {})
        assert store.stats().decisions == len(sample().decisions)
        assert store.remove(kernel.name)
        assert store.program(kernel.program_digest) == kernel.program_text


def test_who_proposed_a_value_can_be_asked(tmp_path: Path) -> None:
    graph = encode_document(documents_to_keep()["marked"])
    with LocalStore(tmp_path / "kb") as store:
        store.add(graph.name, graph.quads, {})
        found = store.query(
            "SELECT ?axis ?value ?origin ?who { ?a tl:name ?axis ; tl:hasChoice ?c ."
            " ?c tl:value ?value ; tl:origin ?origin OPTIONAL { ?c tl:by ?who } } ORDER BY ?axis"
        )
    assert isinstance(found, Rows)
    assert [tuple(row[name] and str(row[name]) for name in found.variables) for row in found] == [
        ("load_latency", "2", "stated", None),
        ("softmax_scheme", "naive", "proposed", "ada"),
        ("tile_m", "64", "inherited", "rule transfer/x"),
    ]


def test_aliases_are_linked_to_the_axes_of_the_ontology() -> None:
    quads = encode_document(documents_to_keep()["quoted"]).quads
    linked = {str(q.object)[1:-1].rpartition("/")[2] for q in quads if "#onAxis" in str(q)}
    assert {"mask_placement", "softmax_scheme", "prefetch_depth", "occupancy"} <= linked


def test_a_mark_on_a_value_that_is_not_there_is_refused() -> None:
    document = documents_to_keep()["quoted"]
    mark = ValueMark(axis="softmax_scheme", value="three-pass", origin=Origin.PROPOSED)
    with pytest.raises(InputError, match="1 marks speak of values that no axis has"):
        encode_document(replace(document, marks=(mark,)))
    with pytest.raises(InputError, match="1 marks speak of values that no axis has"):
        encode_document(replace(document, marks=(replace(mark, axis="no_axis"),)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(QUOTED + 'constraints {\n}\nspace x {\n operation: "no_op"\n}\n',
                     "Name at most one operation", id="operation"),
        pytest.param(QUOTED + 'space x {\n source: "abc"\n}\n', "64 hexadecimal", id="digest"),
        pytest.param(QUOTED + 'evidence {\n decision "fusion" "x"; lines 1-1\n}\n',
                     "Say how it was seen", id="decision without pattern"),
        pytest.param(QUOTED + 'launch f {\n lines: 1-2\n Q -> "q"\n}\n',
                     "Name the parameter that is bound", id="binding of an unlisted parameter"),
        pytest.param(QUOTED.replace('"naive"]', '"naive"]; inherited'),
                     "inherited from", id="inherited from nothing"),
    ],
)  # fmt: skip
def test_a_document_that_breaks_a_shape_is_refused_with_a_hint(text: str, said: str) -> None:
    graph = encode_document(read(text, vocabulary()).document)
    with pytest.raises(DoesNotConform) as caught:
        require_conformance(graph.quads)
    assert said in caught.value.text


def test_the_program_must_be_the_one_that_is_named() -> None:
    graph = encode_document(documents_to_keep()["kernel"])
    with pytest.raises(InputError, match="is not given"):
        decode_document(graph.quads)
    with pytest.raises(InputError, match="not the program"):
        decode_document(graph.quads, "another")


def test_any_missing_quad_gives_a_document_or_an_input_error() -> None:
    graph = encode_document(documents_to_keep()["full"])
    program = dict(graph.programs)[next(iter(dict(graph.programs)))]
    for index in range(len(graph.quads)):
        with suppress(InputError):
            decode_document(graph.quads[:index] + graph.quads[index + 1 :], program)


def test_every_subject_belongs_to_the_graph() -> None:
    graph = encode_document(documents_to_keep()["full"])
    for quad in graph.quads:
        assert isinstance(quad, Quad)
        assert isinstance(quad.subject, NamedNode)
        subject = quad.subject.value
        assert subject == graph.subject or subject.startswith(graph.subject + "/")
        assert quad.graph_name == NamedNode(graph.name)


def test_a_stored_document_is_no_kernel_to_the_named_questions(tmp_path: Path) -> None:
    kernel, graph = encode(sample()), encode_document(knowledge_document(sample()))
    asked = ("findings_by_rule", "findings_of_kernel", "tuning_of_kernel", "constraints_of_kernel")
    with LocalStore(tmp_path / "kb") as store:
        store.add(kernel.name, kernel.quads, kernel.programs)
        before = [store.ask(name) for name in asked]
        store.add(graph.name, graph.quads, {})
        assert [store.ask(name) for name in asked] == before

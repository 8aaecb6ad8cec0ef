"""Validation as a door: what it reads, what it refuses to read, and how fast."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyoxigraph
import pytest
from rdflib import Graph, Literal, URIRef

from kb import validation
from kb.errors import DoesNotConform, InputError, SyntaxProblem
from kb.validation import parse_turtle, require_conformance, validate, validate_turtle

TL = "https://w3id.org/tilelore/ns#"
XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
SPAN = f"<urn:s> a <{TL}SourceSpan> ; <{TL}startLine> {{first}} ; <{TL}endLine> 4 ."


def test_syntax_error_says_line_and_column() -> None:
    with pytest.raises(SyntaxProblem) as caught:
        validate_turtle("<urn:a> <urn:b> <urn:c> .\n<urn:a> <urn:b> ;", where="k.ttl")
    assert caught.value.where.startswith("k.ttl:2:")


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda: validate_turtle("#" * (validation.MAX_BYTES + 1)), id="text too long"),
        pytest.param(lambda: validate(quads(validation.MAX_TRIPLES + 1)), id="too many quads"),
    ],
)
def test_size_is_bounded(read: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=r"read at once|more than"):
        read()


def quads(count: int) -> list[pyoxigraph.Quad]:
    node, edge = pyoxigraph.NamedNode("urn:n"), pyoxigraph.NamedNode("urn:p")
    return [pyoxigraph.Quad(node, edge, pyoxigraph.Literal(number)) for number in range(count)]


def test_quads_of_pyoxigraph_are_read() -> None:
    triples = list(pyoxigraph.parse(SPAN.format(first=5), format=pyoxigraph.RdfFormat.TURTLE))
    assert [(row.shape, row.path) for row in validate(triples)] == [
        ("SourceSpanShape", "tl:startLine")
    ]


def test_the_graph_handed_in_is_not_changed() -> None:
    graph = parse_turtle(
        SPAN.format(first=1) + f" <urn:k> <{TL}ranOn> <https://w3id.org/tilelore/target/h100> ."
    )
    before = set(graph)
    assert validate(graph) == ()
    assert set(graph) == before


def test_string_with_its_datatype_is_the_same_string() -> None:
    graph, edge = Graph(), URIRef(TL + "value")
    graph.parse(data=f"<urn:s> a <{TL}Setting> ; <{TL}name> 'n' .", format="turtle")
    graph.add((URIRef("urn:s"), edge, Literal("v", datatype=URIRef(XSD_STRING))))
    assert validate(graph) == ()


def test_term_that_nobody_knows_is_refused() -> None:
    found = validate_turtle(
        f"<urn:b> a <{TL}Binding> ; <{TL}expression> 'q' ; <{TL}parameter> <urn:nothing> ."
    )
    assert [(row.path, row.value) for row in found] == [("tl:parameter", "urn:nothing")]


def test_refusal_names_the_first_violations_and_their_number() -> None:
    with pytest.raises(DoesNotConform, match="1 shape violations; nothing was written") as caught:
        require_conformance(parse_turtle(SPAN.format(first=5)), where="kernel")
    assert "Give one tl:startLine" in caught.value.text


def test_imports_in_the_data_are_not_fetched() -> None:
    owl = "http://www.w3.org/2002/07/owl#"
    text = f"<urn:o> a <{owl}Ontology> ; <{owl}imports> <http://127.0.0.1:9/x> ."
    assert validate_turtle(text + SPAN.format(first=1)) == ()


def kernel_like(settings: int) -> str:
    """About five triples for each setting of one tuning space, and 25 decisions on one axis."""
    head = "@prefix tl: <https://w3id.org/tilelore/ns#> .\n"
    head += "@prefix axis: <https://w3id.org/tilelore/axis/> .\n"
    head += "@prefix p: <https://w3id.org/tilelore/pattern/> .\n"
    listed = ", ".join(f"<urn:s{n}>" for n in range(settings))
    rows = [f"<urn:p> a tl:TuningPoint ; tl:position 0 ; tl:setting {listed} ."]
    rows += [
        f"<urn:s{n}> a tl:Setting ; tl:name 'n{n}' ; tl:value {n} ; tl:position {n} ."
        for n in range(settings)
    ]
    rows += ["<urn:e> a tl:SourceSpan ; tl:startLine 1 ; tl:endLine 2 ."]
    rows += [
        f"<urn:d{n}> a tl:Decision ; tl:onAxis axis:fusion ; tl:value 'v{n}' ;"
        f" tl:chosenValue <https://w3id.org/tilelore/value/fusion/v{n}> ; tl:axisKind 'design' ;"
        " tl:seenBy p:dual-accumulators-sharing-one-operand ; tl:evidence <urn:e> ."
        for n in range(25)
    ]
    return head + "\n".join(rows)


def test_a_kernel_of_a_thousand_triples_takes_little_time() -> None:
    graph = parse_turtle(kernel_like(160))
    assert 900 < len(graph) < 1_200
    validate(graph)
    start = time.process_time()
    assert validate(graph) == ()
    assert time.process_time() - start < 0.4

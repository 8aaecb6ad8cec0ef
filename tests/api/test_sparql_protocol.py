"""The W3C SPARQL 1.1 Protocol tests (tests/w3c) against our endpoint, in process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from rdflib import Graph, Namespace, URIRef
from rdflib.collection import Collection
from rdflib.namespace import RDFS
from rdflib.term import Node

from api.http import create_app
from kb.store import LocalStore
from tests.api.asgi_client import AsgiClient

FOLDER = Path(__file__).resolve().parents[1] / "w3c" / "sparql11" / "protocol"
MF = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#")
HT = Namespace("http://www.w3.org/2011/http#")
CNT = Namespace("http://www.w3.org/2011/content#")
UT = Namespace("http://www.w3.org/2009/sparql/tests/test-update#")
FORMATS = {
    "boolean": ("application/sparql-results+json", "application/sparql-results+xml"),
    "tabular": (
        "application/sparql-results+json",
        "application/sparql-results+xml",
        "text/csv",
        "text/tab-separated-values",
    ),
    "RDF": ("text/turtle", "application/n-triples", "application/rdf+xml", "application/ld+json"),
}


@dataclass(frozen=True)
class Step:
    """One request and what its answer must be."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    statuses: tuple[str, ...]
    boolean: bool | None
    form: str


@dataclass(frozen=True)
class Case:
    """One W3C test: the graphs before it and its requests in order."""

    name: str
    graphs: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]


def text(graph: Graph, subject: Node, predicate: URIRef) -> str:
    return str(graph.value(subject, predicate) or "")


def read_step(graph: Graph, node: Node) -> Step:
    body = graph.value(node, HT.body) or node
    encoding = text(graph, body, CNT.characterEncoding)
    response = graph.value(node, HT.resp) or node
    headers = graph.value(node, HT.headers)
    fields = Collection(graph, headers) if headers else ()
    boolean = graph.value(response, MF.expectedBoolean)
    return Step(
        method=text(graph, node, HT.methodName),
        path=text(graph, node, HT.absolutePath),
        headers=tuple(
            (text(graph, h, HT.fieldName), text(graph, h, HT.fieldValue)) for h in fields
        ),
        body=text(graph, body, CNT.chars).encode(encoding or "utf-8"),
        statuses=tuple(str(s)[-3] for s in graph.objects(response, MF.expectedStatus)),
        boolean=None if boolean is None else bool(boolean.toPython()),  # type: ignore[attr-defined]
        form=text(graph, response, MF.expectedFormat),
    )


def read_cases() -> list[Case]:
    graph = Graph().parse(FOLDER / "manifest.ttl", publicID="http://w3c/")
    entries = next(graph.objects(None, MF.entries))
    cases = []
    for test in Collection(graph, entries):
        data = []
        for item in graph.objects(test, UT.graphData):
            name = str(graph.value(item, UT.graph)).rsplit("/", 1)[-1]
            data.append((text(graph, item, RDFS.label), (FOLDER / name).read_text()))
        requests = next(graph.objects(graph.value(test, MF.action), HT.requests))
        steps = tuple(read_step(graph, node) for node in Collection(graph, requests))
        cases.append(Case(str(test).rsplit("#", 1)[-1], tuple(data), steps))
    return cases


CASES = read_cases()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    with LocalStore(tmp_path_factory.mktemp("w3c") / "kb", scratch=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(store: LocalStore) -> AsgiClient:
    return AsgiClient(create_app(store, writable=True))


def test_all_protocol_tests_are_collected() -> None:
    assert len(CASES) == 34
    assert sum(len(case.steps) for case in CASES) >= 39


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_w3c_protocol(case: Case, store: LocalStore, client: AsgiClient) -> None:
    store.update("CLEAR ALL")
    for graph, triples in case.graphs:
        store.update(f"INSERT DATA {{ GRAPH <{graph}> {{ {triples} }} }}")
    for step in case.steps:
        answer = client.request(
            step.method, step.path, content=step.body or None, headers=list(step.headers)
        )
        assert str(answer.status_code)[0] in {s[0] for s in step.statuses}, answer.text
        if answer.status_code < 400:
            check_answer(step, answer)
        else:
            assert answer.headers["content-type"] == "application/problem+json"


def check_answer(step: Step, answer: httpx.Response) -> None:
    media = answer.headers.get("content-type", "").split(";")[0]
    if step.form:
        assert media in FORMATS[step.form]
    if step.boolean is not None:
        assert answer.json()["boolean"] is step.boolean

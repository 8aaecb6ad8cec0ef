"""People's SPARQL: limits, refusals, messages, and no way out to the network."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kb.errors import StoreError, SyntaxProblem, TileloreError
from kb.query_pool import (
    Limits,
    Query,
    QueryPool,
    QueryTimeout,
    ResultTooLarge,
    ServiceRefused,
    UpdateRefused,
)
from kb.results import BindingsFormat, Formats, GraphFormat, Rows
from kb.sparql_text import calls_service, form, with_prefixes, with_using
from kb.store import LocalStore
from tests.kb.store_sample import kernel_graph

RUNAWAY = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n2 ?o }"
MEMORY_BOMB = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?c ?f ?i"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    limits = Limits(timeout_s=10, max_rows=500, memory_bytes=2**30)
    with LocalStore(tmp_path_factory.mktemp("q") / "kb", limits=limits) as opened:
        opened.add(*kernel_graph("fmha", decisions=60))
        yield opened


def test_terms_come_back_as_they_are(store: LocalStore) -> None:
    text = 'SELECT ?a ?b ?c ?d ?e { VALUES (?a ?b ?c) { (1 1.5 true) } BIND("x"@en AS ?d) }'
    rows = store.query(text)
    assert isinstance(rows, Rows)
    assert list(rows) == [{"a": 1, "b": 1.5, "c": True, "d": "x", "e": None}]
    assert rows.rows[0][3].language == "en"  # type: ignore[union-attr]
    assert bool(store.query("ASK { ?k a tl:Kernel }"))
    assert "tl:Kernel" in store.query("CONSTRUCT { ?k a tl:Kernel } { ?k a tl:Kernel }").turtle  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        pytest.param("SELECT * {\n ?s ?p }", "query:2:", "Look at", id="missing object"),
        pytest.param("SELECT * { ?s ?p ?o", "query:1:", "not closed", id="open brace"),
        pytest.param("SELECT * { ?s skso:x ?o }", "query:1:", "did you mean `skos:`", id="prefix"),
        pytest.param("SELCT * { }", "query:1:1", "begins with SELECT", id="keyword"),
        pytest.param("", "query:1:1", "begins with SELECT", id="empty"),
        pytest.param("SELECT * { " + "{" * 5000, "query:1:", "flatter", id="deep nesting"),
    ],
)
def test_a_syntax_error_says_where_and_what_next(
    store: LocalStore, text: str, place: str, hint: str
) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        store.query(text)
    assert place in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT DATA { <a:a> <a:b> 1 }",
        "# SELECT\nPREFIX x: <http://x/> DELETE WHERE { ?s ?p ?o }",
        "CLEAR ALL",
        "LOAD <http://127.0.0.1:1/>",
        "with <g:g> delete { ?s ?p ?o } where { ?s ?p ?o }",
    ],
)
def test_updates_are_refused(store: LocalStore, text: str) -> None:
    with pytest.raises(UpdateRefused, match="only read"):
        store.query(text)
    with pytest.raises(StoreError, match="Free updates are refused"):
        store.update(text)


def test_a_runaway_query_is_killed_and_the_next_one_answers(store: LocalStore) -> None:
    began = time.monotonic()
    with pytest.raises(QueryTimeout, match=r"0\.5 s"):
        store.query(RUNAWAY, timeout=0.5)
    assert time.monotonic() - began < 2
    assert len(store.query("SELECT ?k { ?k a tl:Kernel }")) == 1  # type: ignore[arg-type]


def test_a_memory_bomb_ends_the_child_only(store: LocalStore) -> None:
    pool = QueryPool(Limits(timeout_s=20, memory_bytes=600 * 2**20))
    with pytest.raises(ResultTooLarge, match="memory"):
        pool.run(store.snapshot(), Query(MEMORY_BOMB))
    pool.close()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("SELECT * { ?s ?p ?o . ?a ?b ?c }", id="rows"),
        pytest.param("CONSTRUCT { ?s ?p ?c } { ?s ?p ?o . ?a ?b ?c }", id="triples"),
    ],
)
def test_a_large_answer_is_refused_never_cut(store: LocalStore, text: str) -> None:
    with pytest.raises(ResultTooLarge, match="more than 500"):
        store.query(text)
    with pytest.raises(ResultTooLarge, match="more than 7 "):
        store.query(text, limit=7)


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("SELECT * { SERVICE <http://x/> { ?s ?p ?o } }", True),
        ("SELECT * { ?s ?p e:.SERVICE SILENT <http://x/> { ?s ?p ?o } }", True),
        ('SELECT * { ?s ?p "SERVICE <x>" } # SERVICE', False),
        ("SELECT * { ?service ex:service <http://x/service> }", False),
    ],
)
def test_service_is_seen(text: str, uses: bool) -> None:
    assert calls_service(text) is uses


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    """A local server that notes who connects."""
    heard: list[str] = []
    server = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            heard.append("connected")
            connection.close()

    threading.Thread(target=listen, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}/", heard
    server.close()


SERVICES = (
    "SELECT * {{ SERVICE <{url}> {{ ?s ?p ?o }} }}",
    "PREFIX e: <http://e/> SELECT * {{ ?s a e:.SERVICE SILENT <{url}> {{ ?x ?y ?z }} }}",
    "SELECT * {{ BIND(<{url}> AS ?u) SERVICE SILENT ?u {{ ?s ?p ?o }} }}",
)


@pytest.mark.parametrize("sandbox", ["namespace", "seccomp", "none"])
def test_service_makes_no_outbound_request(
    store: LocalStore,
    listener: tuple[str, list[str]],
    sandbox: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even when the friendly filter sees nothing, and whichever way the network is taken."""
    url, heard = listener
    monkeypatch.setattr("kb.query_pool.calls_service", lambda _: False)
    monkeypatch.setenv("TILELORE_SANDBOX", sandbox)
    pool = QueryPool(Limits(timeout_s=10))
    for text in SERVICES:
        with suppress(TileloreError):  # SILENT answers, the others fail
            pool.run(store.snapshot(), Query(text.format(url=url)))
    pool.run(store.snapshot(), Query("ASK { ?s ?p ?o }"))
    pool.close()
    time.sleep(0.05)
    assert heard == []


def test_service_is_refused_with_a_hint(store: LocalStore) -> None:
    with pytest.raises(ServiceRefused, match="VALUES"):
        store.query(SERVICES[0].format(url="http://127.0.0.1:9/"))


@pytest.mark.parametrize(
    ("formats", "text", "begins"),
    [
        (Formats(bindings=BindingsFormat.CSV), "SELECT ?k { ?k a tl:Kernel }", b"k\r\nhttps:"),
        (Formats(bindings=BindingsFormat.TSV), "SELECT ?k { ?k a tl:Kernel }", b"?k\n<https:"),
        (Formats(bindings=BindingsFormat.XML), "SELECT ?k { ?k a tl:Kernel }", b"<?xml"),
        (Formats(boolean=BindingsFormat.XML), "ASK {}", b"<?xml"),
        (Formats(graph=GraphFormat.N_TRIPLES), "CONSTRUCT WHERE { ?k a tl:Kernel }", b"<https:"),
        (Formats(graph=GraphFormat.JSON_LD), "DESCRIBE ?k { ?k a tl:Kernel }", b"["),
        (Formats(graph=GraphFormat.RDF_XML), "CONSTRUCT WHERE { ?k a tl:Kernel }", b"<?xml"),
    ],
)
def test_formats(store: LocalStore, formats: Formats, text: str, begins: bytes) -> None:
    answer = store.query_serialized(Query(text, formats=formats))
    assert answer.body.startswith(begins), answer.body[:80]


def test_a_dataset_asked_for_has_nothing_else(store: LocalStore) -> None:
    graph, _, _ = kernel_graph("fmha")
    every = "SELECT * { ?k a tl:Kernel }"
    assert len(store.query(every, default_graph_uris=[graph])) == 1  # type: ignore[arg-type]
    assert len(store.query(every, default_graph_uris=["http://none/"])) == 0  # type: ignore[arg-type]
    assert len(store.query(f"SELECT * FROM <{graph}> {{ ?k a tl:Kernel }}")) == 1  # type: ignore[arg-type]
    assert len(store.query("SELECT * FROM <http://none/> { ?k a tl:Kernel }")) == 0  # type: ignore[arg-type]
    inside = "SELECT * { GRAPH ?g { ?k a tl:Kernel } }"
    assert len(store.query(inside, default_graph_uris=[graph])) == 0  # type: ignore[arg-type]
    assert len(store.query(inside, named_graph_uris=[graph])) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (
            "INSERT { ?s ?p 1 } WHERE { ?s ?p ?o }",
            "INSERT { ?s ?p 1 } USING <g:a> USING NAMED <g:b> WHERE { ?s ?p ?o }",
        ),
        (
            "DELETE WHERE { ?s ?p ?o }; CLEAR ALL",
            "DELETE { ?s ?p ?o } USING <g:a> USING NAMED <g:b> WHERE { ?s ?p ?o }; CLEAR ALL",
        ),
        ('INSERT DATA { <a:a> <a:b> "WHERE" }', 'INSERT DATA { <a:a> <a:b> "WHERE" }'),
    ],
)
def test_the_protocols_dataset_enters_the_update(update: str, expected: str) -> None:
    assert with_using(update, ["g:a"], ["g:b"]) == expected


def test_text_helpers() -> None:
    assert form("# SELECT\nBASE <http://x/> PREFIX ask: <http://y/> ASK {}") == "ASK"
    declared = with_prefixes("ASK { ?s a tl:X, x:y }")
    assert declared.startswith("PREFIX tl: <https://w3id.org/tilelore/ns#> ASK")

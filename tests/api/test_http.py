"""The HTTP interface: routes, formats, refusals as problem details, limits."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from api.http import Services, create_app
from api.negotiation import choose
from kb.errors import ConstraintViolated, SyntaxProblem
from kb.store import ONTOLOGY, Limits, LocalStore
from tests.api.asgi_client import AsgiClient
from tests.kb.store_sample import kernel_graph
from tests.kb.test_queries import SAMPLE

KERNELS = "SELECT ?label { GRAPH ?g { ?k a tl:Kernel ; rdfs:label ?label } } ORDER BY ?label"
GRAPH = "CONSTRUCT { ?k a tl:Kernel } WHERE { GRAPH ?g { ?k a tl:Kernel } }"
RUNAWAY = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"


def transfer(source: str, target: str) -> Mapping[str, Any]:
    if source == "loop":
        raise RuntimeError("secret /etc/path")
    return {"from": source, "to": target}


def generate(space: str, dialect: str, settings: Mapping[str, Any]) -> str:
    if "tile_q" in settings:
        raise ConstraintViolated("There is no axis tile_q.", hint="Did you mean `tile_m`?")
    if space == "{":
        raise SyntaxProblem("A `{` is not closed.", where="space:1:1")
    return f"# {dialect} {dict(settings)}\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    limits = Limits(timeout_s=1, max_rows=3000)
    folder = tmp_path_factory.mktemp("http") / "kb"
    with LocalStore(folder, vocabulary=ONTOLOGY, limits=limits) as opened:
        opened.load(SAMPLE)
        opened.add(*kernel_graph("extra"))
        yield opened


@pytest.fixture(scope="module")
def client(store: LocalStore) -> AsgiClient:
    services = Services(transfer=transfer, generate=generate, explain=lambda iri: {"iri": iri})
    return AsgiClient(create_app(store, services=services, writable=True))


def is_problem(answer: Any, status: int, *said: str) -> None:
    """The answer is problem details with that status and these words, and no trace."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    text = " ".join(str(document.get(name, "")) for name in ("where", "detail", "hint"))
    for word in said:
        assert word in text
    assert "Traceback" not in answer.text
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("query", "accept", "media", "begins"),
    [
        (KERNELS, None, "application/sparql-results+json", '{"head"'),
        (KERNELS, "application/json", "application/sparql-results+json", '{"head"'),
        (KERNELS, "*/*", "application/sparql-results+json", '{"head"'),
        (KERNELS, "text/csv", "text/csv; charset=utf-8", "label\r\nextra"),
        (
            KERNELS,
            "text/tab-separated-values",
            "text/tab-separated-values; charset=utf-8",
            "?label\n",
        ),
        (KERNELS, "application/sparql-results+xml", "application/sparql-results+xml", "<?xml"),
        (
            KERNELS,
            "text/csv;q=0.3, application/sparql-results+xml;q=0.9, */*;q=0.1",
            "application/sparql-results+xml",
            "<?xml",
        ),
        (KERNELS, "text/*", "text/csv; charset=utf-8", "label"),
        (
            "ASK { GRAPH ?g { ?k a tl:Kernel } }",
            "application/sparql-results+xml",
            "application/sparql-results+xml",
            "<?xml",
        ),
        ("ASK { GRAPH ?g { ?k a tl:Kernel } }", None, "application/sparql-results+json", '{"head"'),
        ("ASK {}", "text/csv", "text/csv; charset=utf-8", "true"),
        (GRAPH, None, "text/turtle; charset=utf-8", "@prefix"),
        (GRAPH, "application/n-triples", "application/n-triples; charset=utf-8", "<https:"),
        (GRAPH, "application/ld+json", "application/ld+json; charset=utf-8", "["),
        (GRAPH, "application/rdf+xml", "application/rdf+xml; charset=utf-8", "<?xml"),
    ],
)
def test_content_negotiation(
    client: AsgiClient, query: str, accept: str | None, media: str, begins: str
) -> None:
    headers = {} if accept is None else {"Accept": accept}
    answer = client.get("/sparql", params={"query": query}, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == media
    assert answer.headers["vary"] == "Accept"
    assert answer.text.startswith(begins), answer.text[:100]


def test_three_ways_to_ask(client: AsgiClient) -> None:
    direct = {"Content-Type": "application/sparql-query; charset=UTF-8"}
    answers = [
        client.get("/sparql", params={"query": KERNELS}),
        client.post("/sparql", data={"query": KERNELS}),
        client.post("/sparql", content=KERNELS.encode(), headers=direct),
    ]
    labels = [[row["label"]["value"] for row in a.json()["results"]["bindings"]] for a in answers]
    assert labels == [["extra", "fmha", "forward", "layer_norm"]] * 3


def test_the_service_describes_itself(client: AsgiClient) -> None:
    answer = client.get("/sparql", headers={"Accept": "text/turtle"})
    assert answer.status_code == 200
    for word in ("UnionDefaultGraph", "http://testserver/sparql", "SPARQL11Query"):
        assert word in answer.text
    assert "SPARQL11Update" not in answer.text


@pytest.mark.parametrize(
    ("params", "status", "said"),
    [
        ({"query": "SELECT * {"}, 400, ("query:1:", "not closed")),
        ({"query": "SELECT * { ?s foaf:name ?o }"}, 400, ("PREFIX foaf:",)),
        ({"query": "CLEAR ALL"}, 403, ("only read",)),
        ({"query": "ASK { SERVICE <http://x/> { ?s ?p ?o } }"}, 400, ("SERVICE", "VALUES")),
        ({"query": RUNAWAY}, 504, ("1 s", "LIMIT")),
        ({"query": "SELECT * { ?s ?p ?o }"}, 422, ("more than 3000 rows",)),
        ({"query": "ASK {}", "default-graph-uri": "not an iri"}, 400, ("not an iri",)),
        ({"update": "CLEAR ALL"}, 405, ("POST",)),
        ([("query", "ASK {}"), ("query", "ASK {}")], 400, ("2 queries",)),
    ],
)
def test_bad_queries(client: AsgiClient, params: Any, status: int, said: tuple[str, ...]) -> None:
    is_problem(client.get("/sparql", params=params), status, *said)


@pytest.mark.parametrize(
    ("body", "media", "status", "said"),
    [
        (b"ASK {}", None, 400, "Content-Type"),
        (b"ASK {}", "text/plain", 415, "text/plain"),
        (b"ASK {}", "application/sparql-query; charset=latin-1", 415, "UTF-8"),
        (b"ASK { ?s ?p '\xff' }", "application/sparql-query", 400, "not UTF-8"),
        (b"query=%ff%fe", "application/x-www-form-urlencoded", 400, "UTF-8"),
        (b"", "application/sparql-query", 400, "begins with SELECT"),
        (b"x" * (2**20 + 1), "application/sparql-query", 413, "longer than"),
        (b"{" * 100_000, "application/sparql-query", 400, "flatter"),
        (b"CLEAR ALL", "application/sparql-update", 403, "only reads"),
        (b"update=CLEAR+ALL", "application/x-www-form-urlencoded", 403, "only reads"),
    ],
)
def test_bad_bodies(
    client: AsgiClient, store: LocalStore, body: bytes, media: str | None, status: int, said: str
) -> None:
    """The endpoint was asked to be writable, but a store of kernels takes no free updates."""
    headers = {} if media is None else {"Content-Type": media}
    is_problem(client.post("/sparql", content=body, headers=headers), status, said)
    assert store.stats().kernels == 4


def test_no_format_is_406_and_a_wrong_method_405(client: AsgiClient) -> None:
    answer = client.get("/sparql", params={"query": "ASK {}"}, headers={"Accept": "image/png"})
    is_problem(answer, 406, "application/sparql-results+json")
    is_problem(client.request("PUT", "/sparql"), 405)
    is_problem(client.get("/nowhere"), 404)


def test_service_over_http_makes_no_outbound_request(
    client: AsgiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = []
    server = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        try:
            server.accept()
        except OSError:
            return
        heard.append(1)

    threading.Thread(target=listen, daemon=True).start()
    url = f"http://127.0.0.1:{server.getsockname()[1]}/"
    sneaky = f"PREFIX e: <http://e/> SELECT * {{ ?s a e:.SERVICE SILENT <{url}> {{ ?x ?y ?z }} }}"
    is_problem(client.get("/sparql", params={"query": sneaky}), 400, "SERVICE")
    monkeypatch.setattr("kb.query_pool.calls_service", lambda _: False)
    client.get("/sparql", params={"query": sneaky})
    for text in (f"SELECT * FROM <{url}> {{ ?s ?p ?o }}", f"ASK FROM NAMED <{url}> {{}}"):
        assert client.get("/sparql", params={"query": text}).status_code == 200
    time.sleep(0.05)
    server.close()
    assert heard == []


def test_kernels_and_programs(client: AsgiClient) -> None:
    assert client.get("/healthz").json()["kernels"] == 4
    page = client.get("/kernels", params={"search": "attention", "limit": 1}).json()
    assert (page["total"], page["kernels"][0]["label"]) == (1, "fmha")
    found = client.get("/kernels/" + page["kernels"][0]["id"]).json()
    assert found == client.get("/kernels/fmha").json()
    decision = next(d for d in found["decisions"] if d["axis"].endswith("softmax_scheme"))
    assert (decision["value"], decision["start_line"]) == ("online 1-pass", 30)
    assert [d["axis"] for d in found["tuning"] if d["effect"] == "dead"] == ["num_ctas"]
    assert len(found["constraints"]) == 2
    assert len(found["findings"]) == 1
    extra = client.get("/kernels/extra").json()["kernel"]
    assert client.get("/programs/" + extra["program"]).text == "kernel extra version 1\n"
    is_problem(client.get("/kernels/fhma"), 404, "Did you mean `fmha`")
    is_problem(client.get("/programs/" + "0" * 64), 404)
    is_problem(client.get("/programs/x"), 422)
    is_problem(client.get("/kernels", params={"limit": 0}), 422, "limit")


def test_questions(client: AsgiClient) -> None:
    listed = client.get("/questions").json()
    assert "dead_tuning_axes" in [question["name"] for question in listed]
    found = client.get("/questions/dead_tuning_axes", params={"kernel": ""}).json()
    assert [row["axis"] for row in found["rows"]] == ["num_ctas"]
    is_problem(client.get("/questions/dead_axes"), 404, "dead_tuning_axes")
    is_problem(client.get("/questions/metrics", params={"x": "y"}), 400, "no parameter")


def test_services(client: AsgiClient, store: LocalStore) -> None:
    asked = {"from": "fmha", "to": "layernorm"}
    assert client.post("/transfer", json=asked).json() == asked
    is_problem(client.post("/transfer", json={"from": "fmha"}), 422, "to")
    media = {"Content-Type": "application/json"}
    is_problem(client.post("/transfer", content=b"{", headers=media), 422)
    is_problem(client.post("/transfer", json={"from": "loop", "to": "x"}), 500)
    body = {"space": "x", "dialect": "triton", "settings": {"tile_m": 64}}
    assert client.post("/generate", json=body).json()["source"] == "# triton {'tile_m': 64}\n"
    plain = client.post("/generate", json=body, headers={"Accept": "text/x-python"})
    assert plain.text.startswith("# triton")
    is_problem(client.post("/generate", json={**body, "settings": {"tile_q": 1}}), 422, "tile_m")
    is_problem(client.post("/generate", json={**body, "space": "{"}), 400, "space:1:1")
    is_problem(client.post("/generate", json={**body, "dialect": "c"}), 422, "dialect")
    is_problem(client.post("/generate", json={**body, "space": "x" * 2**21}), 413, "longer")
    assert client.get("/explain/fmha").json()["iri"].endswith("fmha/1111111111111111")
    bare = AsgiClient(create_app(store))
    is_problem(bare.post("/transfer", json=asked), 501)


def test_openapi_has_examples_and_the_page_needs_nothing_else(client: AsgiClient) -> None:
    document = client.get("/openapi.json").json()
    assert {"/sparql", "/kernels", "/transfer", "/generate", "/healthz"} <= document["paths"].keys()
    assert "examples" in document["components"]["schemas"]["TransferRequest"]
    assert "tl:Kernel" in json.dumps(document["paths"]["/sparql"]["get"]["parameters"])
    page = client.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page.text)
    assert 'lang="en"' in page.text
    assert "<label" in page.text


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, 1),
        ("", 1),
        ("a/b", 1),
        ("c/d", 2),
        ("a/b;q=0.2, c/d;q=0.8", 2),
        ("c/*", 2),
        ("*/*;q=0.1, a/b;q=0", 2),
        ("x/y", None),
        ("nonsense", None),
        ("a/b;q=zz", None),
    ],
)
def test_choose(accept: str | None, expected: int | None) -> None:
    assert choose(accept, {"a/b": 1, "c/d": 2}) == expected

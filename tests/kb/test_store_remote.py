"""The same interface on a SPARQL 1.1 server: `oxigraph serve` (PyPI `oxigraph`)."""

from __future__ import annotations

import io
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kb.errors import DoesNotConform, StoreError, SyntaxProblem
from kb.query_pool import Query, QueryTimeout, ServiceRefused, UpdateRefused
from kb.results import BindingsFormat, Formats, Rows
from kb.store import ONTOLOGY, AddResult, LocalStore, RemoteSparqlStore, open_store
from kb.store_choices import CHOICES
from kb.store_remote import endpoints
from tests.kb.store_sample import kernel_graph

SERVER = shutil.which("oxigraph", path=str(Path(sys.executable).parent)) or shutil.which("oxigraph")
GRAPH, TEXT, PROGRAMS = kernel_graph("fmha")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    if SERVER is None:
        pytest.skip("the `oxigraph` server binary is not installed (pip install oxigraph)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [SERVER, "serve", "--union-default-graph", "--bind", f"127.0.0.1:{port}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            httpx.get(address + "/query", params={"query": "ASK {}"})
            break
        except httpx.TransportError:
            time.sleep(0.02)
    yield address
    server.kill()
    server.wait()


@pytest.fixture
def store(url: str) -> Iterator[RemoteSparqlStore]:
    with RemoteSparqlStore(url) as opened:
        opened.update("CLEAR ALL")
        yield opened


def test_add_ask_and_remove(store: RemoteSparqlStore) -> None:
    assert store.add(GRAPH, TEXT, PROGRAMS) is AddResult.ADDED
    assert store.add(GRAPH, TEXT, PROGRAMS) is AddResult.UNCHANGED
    assert store.add(*kernel_graph("fmha", version=2, decisions=3)) is AddResult.REPLACED
    store.add(*kernel_graph("two"))
    assert [(k.label, k.decisions) for k in store.kernels()] == [("fmha", 3), ("two", 2)]
    stats = store.stats()
    assert (stats.kernels, stats.graphs, stats.decisions) == (2, 2, 5)
    program = store.kernels()[0].program
    assert store.program(program) == "kernel fmha version 2\n"
    assert store.check() == ()
    assert store.remove(GRAPH)
    assert not store.remove(GRAPH)
    assert store.stats().programs == 1
    with pytest.raises(StoreError, match="no files to rebuild"):
        store.rebuild()


def test_what_kernels_chose_is_counted(store: RemoteSparqlStore) -> None:
    def counts() -> dict[str, int]:
        found = store.query(
            "SELECT ?value ?kernels { GRAPH ?choices { ?value tl:chosenBy ?kernels } }"
        )
        assert isinstance(found, Rows)
        return {str(row["value"])[-1]: int(row["kernels"] or 0) for row in found}

    store.add(*kernel_graph("one"))
    store.add(*kernel_graph("two", decisions=1))
    assert counts() == {"0": 2, "1": 1}
    store.remove(kernel_graph("one")[0])
    assert counts() == {"0": 1}
    store.update(f"DROP GRAPH <{CHOICES}>")
    store.set_vocabulary(ONTOLOGY)
    assert counts() == {"0": 1}


def test_refusals_leave_the_server_as_it_was(store: RemoteSparqlStore) -> None:
    store.add(*kernel_graph("two"))
    with pytest.raises(DoesNotConform):
        store.add(GRAPH, TEXT, {})
    with pytest.raises(SyntaxProblem):
        store.query("SELECT * {")
    with pytest.raises(UpdateRefused):
        store.query("CLEAR ALL")
    with pytest.raises(ServiceRefused):
        store.query("ASK { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }")
    assert store.stats().graphs == 1


def test_queries_formats_and_datasets(store: RemoteSparqlStore) -> None:
    store.add(GRAPH, TEXT, PROGRAMS)
    rows = store.query("SELECT ?k { GRAPH ?g { ?k a tl:Kernel } }")
    assert isinstance(rows, Rows)
    assert len(rows) == 1
    csv = Query("SELECT ?k { ?k a tl:Kernel }", formats=Formats(bindings=BindingsFormat.CSV))
    assert store.query_serialized(csv).body.startswith(b"k\r\nhttps:")
    assert not store.query("ASK { ?k a tl:Kernel }", default_graph_uris=["http://none/"]).value  # type: ignore[union-attr]
    assert len(store.query("SELECT * { ?s ?p ?o }", limit=100)) > 1  # type: ignore[arg-type]


def test_a_local_export_loads(store: RemoteSparqlStore, tmp_path: Path) -> None:
    with LocalStore(tmp_path / "kb") as local:
        local.add(GRAPH, TEXT, PROGRAMS)
        path = tmp_path / "all.nq"
        with path.open("wb") as out:
            local.export(out)
    assert [row.result for row in store.load(path)] == [AddResult.ADDED]
    again = io.BytesIO()
    store.export(again)
    assert again.getvalue() == path.read_bytes()


def test_a_server_that_is_not_there_or_slow() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        store = open_store(address, read_only=True)
        with pytest.raises(QueryTimeout, match=r"0\.2 s"):
            store.query("ASK {}", timeout=0.2)
    with pytest.raises(StoreError, match=r"cannot be reached.*TILELORE_KB"):
        store.query("ASK {}")
    store.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h:7878", ("http://h:7878/query", "http://h:7878/update")),
        ("http://h/ds/query", ("http://h/ds/query", "http://h/ds/update")),
        ("http://h/sparql/", ("http://h/sparql", "http://h/sparql")),
    ],
)
def test_endpoints(url: str, expected: tuple[str, str]) -> None:
    assert endpoints(url) == expected

"""A knowledge base on any SPARQL 1.1 server: the same interface over HTTP.

Every pattern names its graph, for servers differ in what the default graph is; one kernel is one
update; programs are literals in the programs graph, since there are no files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import httpx
import pyoxigraph as ox
from pyoxigraph import NamedNode, Quad

from kb import store_quads as sq
from kb.errors import DoesNotConform, StoreError, UnknownName
from kb.query_pool import Limits, Query, QueryTimeout, ResultTooLarge, refuse_early
from kb.questions import QUESTIONS, prepare
from kb.results import BindingsFormat, Formats, Result, ResultKind, Rows, Serialized, parse
from kb.sparql_text import form, syntax_problem, with_prefixes
from kb.store_ask import kernel_entries, kernel_names, read_stats
from kb.store_choices import COUNTED, counted_anew
from kb.store_records import (
    AddResult,
    Binding,
    CheckedGraph,
    DumpFormat,
    KernelEntry,
    KernelName,
    Loaded,
    Problem,
    Stats,
    Validator,
)

KINDS = {"ASK": ResultKind.BOOLEAN, "SELECT": ResultKind.BINDINGS}


def endpoints(url: str) -> tuple[str, str]:
    """Query and update URL of a server: `.../query` has `.../update` beside it (Oxigraph, Fuseki),
    `.../sparql` is both (Virtuoso), and a bare host is an Oxigraph server."""
    plain = url.rstrip("/")
    if plain.endswith("/query"):
        return plain, plain.removesuffix("/query") + "/update"
    if urlsplit(plain).path in ("", "/"):
        return plain + "/query", plain + "/update"
    return plain, plain


class RemoteSparqlStore:
    """A knowledge base behind a SPARQL 1.1 Protocol endpoint."""

    def __init__(
        self,
        url: str,
        *,
        validate: Validator | None = None,
        limits: Limits | None = None,
        client: httpx.Client | None = None,
    ) -> None:
        self._url = url
        self._query_url, self._update_url = endpoints(url)
        self._validate = validate
        self._limits = limits or Limits()
        self._client = client or httpx.Client(timeout=self._limits.timeout_s)

    @property
    def location(self) -> str:
        """The URL."""
        return self._url

    @property
    def writable(self) -> bool:
        """A server takes updates, unless it refuses them itself."""
        return True

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def __enter__(self) -> RemoteSparqlStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- the protocol

    def _post(
        self, url: str, fields: Sequence[tuple[str, str]], accept: str, timeout: float | None = None
    ) -> bytes:
        """The body of a form-encoded POST, read up to the byte limit."""
        body = httpx.QueryParams(tuple(fields)).__str__().encode()
        headers = {"Accept": accept, "Content-Type": "application/x-www-form-urlencoded"}
        seconds = self._limits.timeout_s if timeout is None else timeout
        try:
            with self._client.stream(
                "POST", url, content=body, headers=headers, timeout=seconds
            ) as answer:
                data = self._read(answer)
                if answer.status_code >= 400:
                    raise self._refused(answer.status_code, data, dict(fields))
                return data
        except httpx.TimeoutException:
            raise QueryTimeout(
                f"The server did not answer within {seconds:g} s.",
                where=url,
                hint="Bind more variables or add LIMIT.",
            ) from None
        except httpx.HTTPError as error:
            raise StoreError(
                f"The server cannot be reached: {error}.",
                where=url,
                hint="Is the URL right (--kb, TILELORE_KB) and the server running?",
            ) from None

    def _read(self, answer: httpx.Response) -> bytes:
        data = bytearray()
        for part in answer.iter_bytes():
            data += part
            if len(data) > self._limits.max_bytes:
                raise ResultTooLarge(
                    f"The answer has more than {self._limits.max_bytes} bytes.",
                    where=self._url,
                    hint="Add LIMIT or ask for less.",
                )
        return bytes(data)

    def _refused(self, status: int, data: bytes, fields: Mapping[str, str]) -> Exception:
        said = data.decode(errors="replace").strip()[:300]
        if status == 400:
            return syntax_problem(said, fields.get("query") or fields.get("update", ""))
        if status in (503, 504):
            return QueryTimeout(f"The server gave up ({status}): {said}.", where=self._url)
        return StoreError(
            f"The server answered {status}: {said}.",
            where=self._url,
            hint="Updates may be switched off there." if status in (401, 403, 405) else "",
        )

    def _select(self, sparql: str) -> Result:
        media = BindingsFormat.JSON.value
        asked = form(sparql)
        kind = KINDS.get(asked, ResultKind.GRAPH)
        accept = "text/turtle" if kind is ResultKind.GRAPH else media
        body = self._post(self._query_url, [("query", with_prefixes(sparql))], accept)
        return parse(Serialized(kind, accept, body))

    def _rows(self, sparql: str) -> Rows:
        answer = self._select(sparql)
        assert isinstance(answer, Rows)
        return answer

    # --- writing

    def update(
        self,
        sparql: str,
        *,
        using: Sequence[str] = (),
        using_named: Sequence[str] = (),
        base: str = "",
    ) -> None:
        """See `Store.update`."""
        head = f"BASE <{base}> " if base else ""
        fields = [("update", head + with_prefixes(sparql))]
        fields += [("using-graph-uri", iri) for iri in using]
        fields += [("using-named-graph-uri", iri) for iri in using_named]
        self._post(self._update_url, fields, "*/*")

    def add(
        self, graph: str, quads: Sequence[Quad] | str | bytes, programs: Mapping[str, str]
    ) -> AddResult:
        """See `Store.add`."""
        rows = sq.as_quads(graph, quads)
        content, old = self._admit(graph, rows, programs)
        if content == old:
            return AddResult.UNCHANGED
        update = sq.replace_graph(graph, rows, content)
        if programs:
            update += ";\n" + sq.insert_data(sq.PROGRAMS, sq.program_quads(programs))
        self.update(update)
        return AddResult.REPLACED if old else AddResult.ADDED

    def add_checked(self, graphs: Sequence[CheckedGraph]) -> tuple[AddResult, ...]:
        """See `Store.add_checked`."""
        return tuple(self.add(graph.name, graph.text, graph.programs) for graph in graphs)

    def _admit(
        self, graph: str, rows: Sequence[Quad], programs: Mapping[str, str]
    ) -> tuple[str, str]:
        sq.check_owned(graph, rows)
        content, old = sq.digest(sq.canonical(rows)), self.content_digest(graph)
        wanted = sq.program_digests(rows) - programs.keys()
        here = {name for name in wanted if self._has_program(name)}
        sq.check_programs(graph, wanted - here, programs)
        if old != content and self._validate is not None:
            self._validate(rows)
        return content, old

    def _has_program(self, name: str) -> bool:
        node = NamedNode(f"{sq.ROOT}program/{name}")
        return bool(self._select(f"ASK {{ GRAPH <{sq.PROGRAMS}> {{ {node} ?p ?text }} }}"))

    def remove(self, graph: str) -> bool:
        """See `Store.remove`."""
        if graph in sq.RESERVED or not self.content_digest(graph):
            return False
        self.update(
            sq.drop_graph(graph)
            + f";\nDELETE {{ GRAPH <{sq.PROGRAMS}> {{ ?program ?p ?text }} }} WHERE {{ "
            f"GRAPH <{sq.PROGRAMS}> {{ ?program ?p ?text }} "
            "FILTER NOT EXISTS { GRAPH ?g { ?kernel tl:hasProgram ?program } } }"
        )
        return True

    def content_digest(self, graph: str) -> str:
        """The digest of the graph's canonical text; '' when it is not there."""
        name = NamedNode(graph)
        found = self._rows(
            f"SELECT ?digest {{ GRAPH <{sq.CATALOGUE}> {{ {name} {sq.CONTENT_DIGEST} ?digest }} }}"
        )
        return str(found.values("digest")[0]) if len(found) else ""

    def set_vocabulary(self, folder: Path) -> bool:
        """Hold these ontology modules in the vocabulary graph; False when it does already."""
        if not self._select(COUNTED):  # filled by an earlier version or by other means
            self.update(counted_anew())
        content = sq.vocabulary_digest(folder)
        if content == self.content_digest(sq.VOCABULARY):
            return False
        self.update(sq.replace_graph(sq.VOCABULARY, sq.vocabulary_quads(folder), content))
        return True

    # --- reading

    def query(
        self,
        sparql: str,
        *,
        default_graph_uris: Sequence[str] = (),
        named_graph_uris: Sequence[str] = (),
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Result:
        """See `Store.query`."""
        asked = Query(sparql, default_graph_uris, named_graph_uris)
        return parse(self.query_serialized(asked, timeout=timeout, limit=limit))

    def query_serialized(
        self, query: Query, *, timeout: float | None = None, limit: int | None = None
    ) -> Serialized:
        """See `Store.query_serialized`. The answer's rows are counted here, after the server."""
        refuse_early(query.text)
        head = f"BASE <{query.base}> " if query.base else ""
        fields = [("query", head + with_prefixes(query.text))]
        fields += [("default-graph-uri", iri) for iri in query.default_graphs]
        fields += [("named-graph-uri", iri) for iri in query.named_graphs]
        kind = KINDS.get(form(query.text), ResultKind.GRAPH)
        media = _media(kind, query.formats)
        body = self._post(self._query_url, fields, media, timeout)
        most = self._limits.max_rows if limit is None else limit
        if kind is ResultKind.BINDINGS and query.formats.bindings is BindingsFormat.JSON:
            answer = parse(Serialized(kind, media, body))
            if isinstance(answer, Rows) and len(answer) > most:
                raise ResultTooLarge(f"The answer has more than {most} rows.", hint="Add LIMIT.")
        return Serialized(kind, media, body)

    def ask(self, name: str, **bindings: Binding) -> Result:
        """See `Store.ask`."""
        return self._select(prepare(QUESTIONS, name, bindings, self.named))

    def kernels(self) -> tuple[KernelEntry, ...]:
        """See `Store.kernels`."""
        return kernel_entries(self._select)

    def _quads(self, graph: str) -> list[Quad]:
        """The graph, by CONSTRUCT."""
        name = NamedNode(graph)
        text = f"CONSTRUCT {{ ?s ?p ?o }} WHERE {{ GRAPH {name} {{ ?s ?p ?o }} }}"
        body = self._post(self._query_url, [("query", text)], "application/n-triples")
        return sq.as_quads(graph, sq.parse(body, ox.RdfFormat.N_TRIPLES, where=self._query_url))

    def named(self, name: str) -> tuple[KernelName, ...]:
        """See `Store.named`."""
        return kernel_names(self._select, name)

    def graph_text(self, graph: str) -> str:
        """See `Store.graph_text`."""
        text = sq.canonical(self._quads(graph))
        if not text:
            raise UnknownName(f"There is no graph <{graph}>.", hint="See `tilelore kb stats`.")
        return text.decode()

    def program(self, digest: str) -> str:
        """See `Store.program`."""
        node = NamedNode(f"{sq.ROOT}program/{digest if digest.isalnum() else 'none'}")
        found = self._rows(
            f"SELECT ?text {{ GRAPH <{sq.PROGRAMS}> {{ {node} {sq.PROGRAM_TEXT} ?text }} }}"
        )
        if not len(found):
            raise UnknownName(f"No tile program has the digest {digest}.", where=self._url)
        return str(found.values("text")[0])

    def stats(self) -> Stats:
        """See `Store.stats`."""
        counted = self._rows(
            f"SELECT (COUNT(*) AS ?n) {{ GRAPH <{sq.PROGRAMS}> {{ ?s {sq.PROGRAM_TEXT} ?o }} }}"
        )
        programs = int(counted.values("n")[0] or 0)
        return read_stats(self._select, self._url, self.content_digest(sq.VOCABULARY), programs, 0)

    # --- whole-store work

    def _catalogue(self) -> dict[str, str]:
        found = self._rows(
            f"SELECT ?g ?d {{ GRAPH <{sq.CATALOGUE}> {{ ?g {sq.CONTENT_DIGEST} ?d }} }} ORDER BY ?g"
        )
        return {str(r["g"]): str(r["d"]) for r in found if r["g"] not in sq.RESERVED}

    def export(self, out: BinaryIO, form: DumpFormat = DumpFormat.NQUADS) -> int:
        """See `Store.export`."""
        count = 0
        for graph in (*self._catalogue(), sq.PROGRAMS):
            count += sq.write_quads(out, self._quads(graph), form)
        return count

    def load(self, path: Path) -> tuple[Loaded, ...]:
        """See `Store.load`."""
        groups, programs = sq.file_graphs(path)
        own = {graph: sq.own_programs(quads, programs) for graph, quads in groups.items()}
        for graph, quads in groups.items():
            self._admit(graph, quads, own[graph])
        return tuple(Loaded(g, self.add(g, groups[g], own[g])) for g in sorted(groups))

    def check(self) -> tuple[Problem, ...]:
        """See `Store.check`: every graph has its digest and owns its subjects."""
        problems: list[Problem] = []
        for graph, content in self._catalogue().items():
            quads = self._quads(graph)
            if sq.digest(sq.canonical(quads)) != content:
                problems.append(
                    Problem(
                        graph,
                        "The graph was changed after it was written.",
                        "Extract its kernel again.",
                    )
                )
                continue
            try:
                sq.check_owned(graph, quads)
            except DoesNotConform as error:
                problems.append(Problem(graph, error.message, error.hint))
        return tuple(problems)

    def rebuild(self) -> int:
        """See `Store.rebuild`: a server has no files to make it from."""
        raise StoreError(
            "A remote store has no files to rebuild from.",
            where=self._url,
            hint="Load an export of a local knowledge base.",
        )


def _media(kind: ResultKind, formats: Formats) -> str:
    if kind is ResultKind.GRAPH:
        return formats.graph.value
    return (formats.bindings if kind is ResultKind.BINDINGS else formats.boolean).value

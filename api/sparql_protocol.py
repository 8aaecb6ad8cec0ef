"""SPARQL 1.1 Protocol at one URL: queries by GET and POST, updates by POST where allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from api.negotiation import choose
from api.problem_details import RequestRefused
from kb.errors import InputError
from kb.sparql_text import form, is_absolute_iri, is_update
from kb.store import (
    BindingsFormat,
    Formats,
    GraphFormat,
    Query,
    ResultKind,
    Store,
    UpdateRefused,
)

FORM = "application/x-www-form-urlencoded"
QUERY = "application/sparql-query"
UPDATE = "application/sparql-update"

BINDINGS: Mapping[str, BindingsFormat] = {
    "application/sparql-results+json": BindingsFormat.JSON,
    "application/json": BindingsFormat.JSON,
    "application/sparql-results+xml": BindingsFormat.XML,
    "text/csv": BindingsFormat.CSV,
    "text/tab-separated-values": BindingsFormat.TSV,
    "application/xml": BindingsFormat.XML,
    "text/xml": BindingsFormat.XML,
}
GRAPHS: Mapping[str, GraphFormat] = {
    "text/turtle": GraphFormat.TURTLE,
    "application/x-turtle": GraphFormat.TURTLE,
    "application/n-triples": GraphFormat.N_TRIPLES,
    "text/plain": GraphFormat.N_TRIPLES,
    "application/ld+json": GraphFormat.JSON_LD,
    "application/json": GraphFormat.JSON_LD,
    "application/rdf+xml": GraphFormat.RDF_XML,
    "application/xml": GraphFormat.RDF_XML,
}
DATASET = ("default-graph-uri", "named-graph-uri")
USING = ("using-graph-uri", "using-named-graph-uri")
OPERATIONS = ("query", "update")

DESCRIPTION = """
PREFIX sd: <http://www.w3.org/ns/sparql-service-description#>
PREFIX formats: <http://www.w3.org/ns/formats/>
CONSTRUCT {{
  <{url}> a sd:Service ; sd:endpoint <{url}> ; sd:supportedLanguage sd:SPARQL11Query {update} ;
    sd:feature sd:UnionDefaultGraph , sd:EmptyGraphs ;
    sd:resultFormat formats:SPARQL_Results_JSON , formats:SPARQL_Results_XML ,
      formats:SPARQL_Results_CSV , formats:SPARQL_Results_TSV , formats:Turtle ,
      formats:N-Triples , formats:JSON-LD , formats:RDF_XML ;
    sd:defaultDataset <{url}#dataset> .
  <{url}#dataset> a sd:Dataset ; sd:defaultGraph <{url}#union> .
  <{url}#union> a sd:Graph .
}} WHERE {{}}
"""

EXAMPLE = (
    "SELECT ?label (COUNT(?d) AS ?decisions) WHERE { GRAPH ?g { ?k a tl:Kernel ; "
    "rdfs:label ?label ; tl:hasDecision ?d } } GROUP BY ?label ORDER BY DESC(?decisions)"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks: its kind (`query`, `update`, `description`), text and dataset."""

    kind: str
    text: str
    default_graphs: tuple[str, ...] = ()
    named_graphs: tuple[str, ...] = ()


def fields(text: str, where: str) -> list[tuple[str, str]]:
    """Form fields; 400 when they are not URL-encoded UTF-8."""
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=500)
    except ValueError:
        raise RequestRefused(400, f"The {where} is not URL-encoded UTF-8.") from None


def media_type(header: str | None) -> str:
    """The media type of a request body; 400 without one, 415 for a charset that is not UTF-8."""
    if not header:
        raise RequestRefused(
            400, "The request has a body and no Content-Type.", hint=f"Send {FORM} or {QUERY}."
        )
    media, *parameters = (part.strip() for part in header.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip('" ').lower() not in ("utf-8", "utf8"):
            raise RequestRefused(415, f"The charset {value} is not read here.", hint="Use UTF-8.")
    return media.lower()


def read_request(method: str, url_query: str, content_type: str | None, body: bytes) -> Asked:
    """What is asked, by the rules of SPARQL 1.1 Protocol 2.1 and 2.2. RequestRefused."""
    pairs = fields(url_query, "URL")
    if method == "GET":
        if any(name == "update" for name, _ in pairs):
            raise RequestRefused(405, "Updates are sent with POST.")
        if not any(name == "query" for name, _ in pairs):
            return Asked("description", "")
        return _asked(pairs)
    media = media_type(content_type)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise RequestRefused(400, "The body is not UTF-8.") from None
    if media == FORM:
        return _asked(pairs + fields(text, "body"))
    kinds = {QUERY: "query", UPDATE: "update"}
    if media not in kinds:
        raise RequestRefused(
            415, f"A body of {media} is not read here.", hint=f"Send {FORM}, {QUERY} or {UPDATE}."
        )
    return _asked([*(p for p in pairs if p[0] not in OPERATIONS), (kinds[media], text)])


def _asked(pairs: list[tuple[str, str]]) -> Asked:
    given = [(name, value) for name, value in pairs if name in OPERATIONS]
    if len(given) != 1:
        raise RequestRefused(400, f"{len(given)} queries or updates in one request; one is read.")
    kind, text = given[0]
    default, named = DATASET if kind == "query" else USING
    graphs = {name: tuple(v for n, v in pairs if n == name) for name in (default, named)}
    for iri in (*graphs[default], *graphs[named]):
        if not is_absolute_iri(iri):
            raise RequestRefused(400, f"{iri!r} is not the IRI of a graph.")
    return Asked(kind, text, graphs[default], graphs[named])


def formats_for(text: str, accept: str | None) -> Formats:
    """The formats the client accepts for what the query answers; 406 when there is none."""
    asked = form(text)
    bindings, graph = choose(accept, BINDINGS), choose(accept, GRAPHS)
    wanted = graph if asked in ("CONSTRUCT", "DESCRIBE") else bindings
    if wanted is None:
        offered = GRAPHS if asked in ("CONSTRUCT", "DESCRIBE") else BINDINGS
        raise RequestRefused(
            406, f"None of {accept} can be answered.", hint=f"Offered: {', '.join(offered)}."
        )
    chosen = bindings or BindingsFormat.JSON
    return Formats(chosen, chosen, graph or GraphFormat.TURTLE)


class SparqlEndpoint:
    """The protocol over one store."""

    def __init__(self, store: Store, *, writable: bool) -> None:
        self.store = store
        self.writable = writable

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        body = await request.body()
        content_type = request.headers.get("content-type")
        asked = read_request(request.method, request.url.query, content_type, body)
        base = str(request.url.replace(query="", fragment=""))
        if asked.kind == "update":
            return await run_in_threadpool(self.update, asked, base)
        return await run_in_threadpool(self.query, asked, base, request.headers.get("accept"))

    def update(self, asked: Asked, base: str) -> Response:
        """Run an update; 403 unless this endpoint was made writable."""
        if not self.writable:
            raise UpdateRefused(
                "This endpoint only reads.",
                hint="Add kernels with `tilelore extract --kb` or `tilelore kb load`.",
            )
        if not is_update(asked.text) and form(asked.text):
            raise InputError("A query was sent as an update.", hint="Send it as `query`.")
        self.store.update(
            asked.text, using=asked.default_graphs, using_named=asked.named_graphs, base=base
        )
        return Response(status_code=204)

    def query(self, asked: Asked, base: str, accept: str | None) -> Response:
        """Run a query, or describe the service."""
        text = asked.text
        if asked.kind == "description":
            update = ", sd:SPARQL11Update" if self.writable else ""
            text = DESCRIPTION.format(url=base, update=update)
        formats = formats_for(text, accept)
        question = Query(text, asked.default_graphs, asked.named_graphs, formats, base)
        answer = self.store.query_serialized(question)
        media = answer.media_type
        if answer.kind is ResultKind.GRAPH or media.startswith("text/"):
            media += "; charset=utf-8"
        headers = {"Vary": "Accept", "Content-Type": media, "X-Content-Type-Options": "nosniff"}
        return Response(answer.body, headers=headers)


def sparql_router(store: Store, *, writable: bool) -> APIRouter:
    """The routes `/sparql` and `/sparql/`."""
    endpoint = SparqlEndpoint(store, writable=writable)
    router = APIRouter(tags=["sparql"])
    router.add_api_route(
        "/sparql",
        endpoint.handle,
        methods=["GET"],
        response_class=Response,
        summary="SPARQL 1.1 query; without `query`, the service description",
        openapi_extra={"parameters": [_parameter(*row) for row in PARAMETERS]},
        responses=RESPONSES,
    )
    router.add_api_route(
        "/sparql",
        endpoint.handle,
        methods=["POST"],
        response_class=Response,
        summary="SPARQL 1.1 query as a form or as the body",
        responses=RESPONSES,
        openapi_extra={"requestBody": REQUEST_BODY},
    )
    router.add_api_route(
        "/sparql/", endpoint.handle, methods=["GET", "POST"], include_in_schema=False
    )
    return router


PARAMETERS = (
    ("query", "The query. Prefixes tl, rdfs, skos, prov, ... need no declaration.", EXAMPLE),
    ("default-graph-uri", "A graph of the default graph; may be repeated.", ""),
    ("named-graph-uri", "A graph that GRAPH may name; may be repeated.", ""),
)
REQUEST_BODY = {
    "content": {
        FORM: {
            "schema": {"type": "object", "properties": {"query": {"type": "string"}}},
            "example": {"query": EXAMPLE},
        },
        QUERY: {"schema": {"type": "string"}, "example": EXAMPLE},
    }
}
RESPONSES: dict[int | str, dict[str, object]] = {
    200: {"description": "The answer", "content": {m: {} for m in (*BINDINGS, *GRAPHS)}},
    400: {"description": "Syntax error, with line and column in `where`"},
    403: {"description": "An update was sent to a read-only endpoint"},
    406: {"description": "No format in Accept can be answered"},
    504: {"description": "The query ran past its time limit"},
}


def _parameter(name: str, description: str, example: str) -> dict[str, object]:
    row: dict[str, object] = {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": "string"},
    }
    return {**row, "example": example} if example else row

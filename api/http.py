"""The HTTP interface: SPARQL endpoint, kernels, named questions, transfer and generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi import Path as UrlPath
from fastapi import Query as UrlQuery
from fastapi.responses import FileResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import schemas
from api.problem_details import RequestRefused, install, problem
from api.sparql_protocol import sparql_router
from kb.errors import UnknownName
from kb.store import QUESTIONS, KernelEntry, Rows, Store, question, resolve_kernel

PAGE = Path(__file__).with_name("static") / "index.html"
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "model": schemas.ProblemDocument,
        "content": {"application/problem+json": {}},
        "description": text,
    }
    for status, text in (
        (400, "The input cannot be read"),
        (404, "Nothing has that name"),
        (422, "A constraint or shape is violated"),
    )
}
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

TransferService = Callable[[str, str], Mapping[str, Any]]
GenerateService = Callable[[str, str, Mapping[str, Any]], str]
ExplainService = Callable[[str], Mapping[str, Any]]
DiffService = Callable[[str, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the app offers beside the store; one that is None answers 501.

    `transfer(from_, to)` gives the template as a JSON-able document; `generate(space_dsl, dialect,
    settings)` the source text; `explain(kernel_iri)` and `diff(left, right)`, two kernels by IRI,
    JSON-able documents. Each raises the errors of `kb.errors`, which become problem details.
    """

    transfer: TransferService | None = None
    generate: GenerateService | None = None
    explain: ExplainService | None = None
    diff: DiffService | None = None


def create_app(
    store: Store,
    *,
    services: Services | None = None,
    writable: bool = False,
    max_request_bytes: int = 2**20,
) -> FastAPI:
    """The app over one store. Read-only unless `writable`, which also needs a store that takes
    free updates (a scratch or remote one)."""
    app = FastAPI(
        title="tilelore",
        summary="What GPU kernels decide: ask the graph, transfer designs, write kernels.",
        version="0.1.0",
        license_info={"name": "MIT", "identifier": "MIT"},
        separate_input_output_schemas=False,
        redirect_slashes=False,
    )
    install(app)
    app.add_middleware(RequestLimit, limit=max_request_bytes)
    app.include_router(sparql_router(store, writable=writable and store.writable))
    app.include_router(page_router())
    app.include_router(store_router(store))
    app.include_router(question_router(store))
    app.include_router(service_router(store, services or Services()))
    return app


class RequestLimit:
    """ASGI middleware that receives the whole request first and answers 413 when it is too long."""

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold the parts of the body, at most `limit` bytes, and hand them on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        held: list[Message] = []
        size, more = 0, True
        while more:
            message = await receive()
            held.append(message)
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
            if size > self.limit:
                said = f"The request is longer than {self.limit} bytes."
                await problem(413, "RequestTooLong", said)(scope, receive, send)
                return

        async def replay() -> Message:
            return held.pop(0) if held else await receive()

        await self.app(scope, replay, send)


def page_router() -> APIRouter:
    """The explorer page."""
    router = APIRouter()

    @router.get("/", include_in_schema=False)
    def explorer() -> FileResponse:
        headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        return FileResponse(PAGE, media_type="text/html; charset=utf-8", headers=headers)

    return router


def store_router(store: Store) -> APIRouter:
    """Health, kernels and programs."""
    router = APIRouter(tags=["kernels"], responses={404: PROBLEMS[404]})

    @router.get("/healthz", response_model=schemas.Health, summary="Whether the store answers")
    def health() -> schemas.Health:
        stats = store.stats()
        return schemas.Health(kernels=stats.kernels, vocabulary=stats.vocabulary)

    @router.get("/kernels", response_model=schemas.KernelPage, summary="The kernels known")
    def kernels(
        search: Annotated[str, UrlQuery(max_length=200, examples=["fmha"])] = "",
        offset: Annotated[int, UrlQuery(ge=0)] = 0,
        limit: Annotated[int, UrlQuery(ge=1, le=1000)] = 200,
    ) -> schemas.KernelPage:
        word = search.lower()
        found = [_row(k) for k in store.kernels() if word in f"{k.id} {k.operation}".lower()]
        page = found[offset : offset + limit]
        return schemas.KernelPage(total=len(found), offset=offset, kernels=page)

    @router.get(
        "/kernels/{kernel:path}",
        response_model=schemas.KernelDetail,
        summary="A kernel: decisions, tuning, constraints, findings",
    )
    def kernel(
        kernel: Annotated[str, UrlPath(description="id, IRI or label", examples=["fmha_kernel"])],
    ) -> schemas.KernelDetail:
        return kernel_detail(store, kernel)

    @router.get("/programs/{digest}", response_class=PlainTextResponse, summary="A tile program")
    def program(digest: Annotated[str, UrlPath(pattern="^[0-9a-f]{64}$")]) -> str:
        return store.program(digest)

    return router


def kernel_detail(store: Store, name: str) -> schemas.KernelDetail:
    """Everything the page shows of one kernel. UnknownName."""
    listed = store.kernels()
    iri = resolve_kernel(name, listed)
    entry = next(k for k in listed if k.iri == iri)

    def rows(asked: str) -> list[dict[str, Any]]:
        answer = store.ask(asked, kernel=iri)
        return list(answer) if isinstance(answer, Rows) else []

    return schemas.KernelDetail(
        kernel=_row(entry),
        decisions=rows("decisions_of_kernel"),
        tuning=rows("tuning_of_kernel"),
        constraints=rows("constraints_of_kernel"),
        findings=rows("findings_of_kernel"),
    )


def _row(entry: KernelEntry) -> schemas.KernelRow:
    return schemas.KernelRow(id=entry.id, **asdict(entry))


def question_router(store: Store) -> APIRouter:
    """The named questions."""
    router = APIRouter(tags=["questions"], responses={404: PROBLEMS[404], 400: PROBLEMS[400]})

    @router.get("/questions", response_model=list[schemas.QuestionRow], summary="Named questions")
    def questions() -> list[schemas.QuestionRow]:
        return [
            schemas.QuestionRow(
                name=q.name,
                title=q.title,
                description=q.description,
                sparql=q.text,
                parameters=[schemas.QuestionParameter(**asdict(p)) for p in q.parameters],
            )
            for q in QUESTIONS.values()
        ]

    @router.get(
        "/questions/{name}",
        response_model=schemas.QuestionAnswer,
        summary="The answer of a named question; its parameters are URL parameters",
    )
    def answer(
        name: Annotated[str, UrlPath(examples=["dead_tuning_axes"])], request: Request
    ) -> schemas.QuestionAnswer:
        question(QUESTIONS, name)
        bindings = {key: value for key, value in request.query_params.items() if value}
        result = store.ask(name, **bindings)
        if not isinstance(result, Rows):
            raise UnknownName(f"`{name}` does not answer with rows.", hint="Ask it at /sparql.")
        return schemas.QuestionAnswer(
            question=name, columns=list(result.variables), rows=list(result)
        )

    return router


def service_router(store: Store, services: Services) -> APIRouter:
    """Transfer, generation and explanation, as far as `services` has them."""
    router = APIRouter(tags=["design"], responses=PROBLEMS)

    @router.post("/transfer", summary="A design space for another operation")
    def transfer(asked: schemas.TransferRequest) -> dict[str, Any]:
        if services.transfer is None:
            raise RequestRefused(501, "This server does not transfer.")
        return dict(services.transfer(asked.from_, asked.to))

    @router.post("/generate", response_model=schemas.Generated, summary="Write a kernel")
    def generate(asked: schemas.GenerateRequest, request: Request) -> Response | schemas.Generated:
        if services.generate is None:
            raise RequestRefused(501, "This server does not generate.")
        source = services.generate(asked.space, asked.dialect, asked.settings)
        if "text/x-python" in request.headers.get("accept", ""):
            return Response(source, media_type="text/x-python; charset=utf-8")
        return schemas.Generated(dialect=asked.dialect, source=source)

    @router.get("/explain/{kernel:path}", summary="A kernel explained: rationale, alternatives")
    def explain(kernel: str) -> dict[str, Any]:
        if services.explain is None:
            raise RequestRefused(501, "This server does not explain.")
        return dict(services.explain(resolve_kernel(kernel, store.kernels())))

    @router.get("/diff", response_model=schemas.Difference, summary="What two kernels decide")
    def diff(
        left: Annotated[str, UrlQuery(min_length=1, max_length=500, examples=["fmha_kernel"])],
        right: Annotated[str, UrlQuery(min_length=1, max_length=500)],
    ) -> dict[str, Any]:
        if services.diff is None:
            raise RequestRefused(501, "This server does not compare.")
        known = store.kernels()
        return dict(services.diff(resolve_kernel(left, known), resolve_kernel(right, known)))

    return router

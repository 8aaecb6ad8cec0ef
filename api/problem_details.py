"""Errors as `application/problem+json` (RFC 9457): the same words as on the command line."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from kb.errors import (
    CannotEmit,
    CompilerFailed,
    ConstraintViolated,
    DoesNotConform,
    InputError,
    StoreError,
    TileloreError,
    UnknownName,
)
from kb.store import QueryTimeout, ReadOnly, ResultTooLarge, StoreBusy, UpdateRefused

STATUS: tuple[tuple[type[TileloreError], int], ...] = (
    (UpdateRefused, 403),
    (ReadOnly, 403),
    (QueryTimeout, 504),
    (StoreBusy, 503),
    (ResultTooLarge, 422),
    (StoreError, 503),
    (UnknownName, 404),
    (InputError, 400),
    (ConstraintViolated, 422),
    (DoesNotConform, 422),
    (CannotEmit, 422),
    (CompilerFailed, 502),
    (TileloreError, 400),
)
"""The first row whose class the error is of."""

TYPES = "https://w3id.org/tilelore/problem/"


class RequestRefused(InputError):
    """A request that HTTP has its own status for; `status` is that status."""

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        self.status = status
        super().__init__(message, where="request", hint=hint)


def status_of(error: TileloreError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, RequestRefused):
        return error.status
    return next(status for kind, status in STATUS if isinstance(error, kind))


def problem(status: int, kind: str, detail: str, **more: Any) -> JSONResponse:
    """One problem document; `kind` in words becomes its type and title."""
    slug = "".join("-" + c.lower() if c.isupper() else c for c in kind).strip("-")
    document = {
        "type": TYPES + slug,
        "title": slug.replace("-", " "),
        "status": status,
        "detail": detail,
        **{name: value for name, value in more.items() if value},
    }
    return JSONResponse(document, status, media_type="application/problem+json")


def _tilelore(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TileloreError)
    status = status_of(error)
    answer = problem(
        status, type(error).__name__, error.message, where=error.where, hint=error.hint
    )
    if status == 503:
        answer.headers["Retry-After"] = "1"
    return answer


def _validation(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    rows = [
        {"at": ".".join(str(part) for part in row["loc"]), "what": row["msg"]}
        for row in error.errors()
    ]
    said = "; ".join(f"{row['at']}: {row['what']}" for row in rows)
    return problem(422, "InvalidRequest", said, errors=rows)


def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    kind = {404: "NotFound", 405: "MethodNotAllowed"}.get(error.status_code, "HttpError")
    answer = problem(error.status_code, kind, str(error.detail), hint="See /docs.")
    answer.headers.update(error.headers or {})
    return answer


def _bug(_: Request, error: Exception) -> JSONResponse:
    return problem(
        500,
        "InternalError",
        "The server failed; nothing was changed.",
        hint=f"Report {type(error).__name__} with the server's log.",
    )


def install(app: FastAPI) -> None:
    """Every error of the app is answered with problem details, never with a stack trace."""
    app.add_exception_handler(TileloreError, _tilelore)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)

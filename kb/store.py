"""Open a knowledge base: a folder or a SPARQL server. The names the rest of the code uses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_data_dir

from kb.query_pool import (
    Limits,
    Query,
    QueryTimeout,
    ResultTooLarge,
    ServiceRefused,
    StoreBusy,
    UpdateRefused,
)
from kb.questions import QUESTIONS, Parameter, Question, question, resolve_kernel
from kb.results import (
    Answer,
    BindingsFormat,
    Formats,
    GraphFormat,
    GraphText,
    Result,
    ResultKind,
    Rows,
    Serialized,
    Term,
)
from kb.store_local import LocalStore
from kb.store_records import (
    AddResult,
    DumpFormat,
    KernelEntry,
    Loaded,
    Problem,
    ReadOnly,
    Stats,
    Store,
    StoreLocked,
    Validator,
)
from kb.store_remote import RemoteSparqlStore

__all__ = [
    "QUESTIONS",
    "AddResult",
    "Answer",
    "BindingsFormat",
    "DumpFormat",
    "Formats",
    "GraphFormat",
    "GraphText",
    "KernelEntry",
    "Limits",
    "Loaded",
    "LocalStore",
    "Parameter",
    "Problem",
    "Query",
    "QueryTimeout",
    "Question",
    "ReadOnly",
    "RemoteSparqlStore",
    "Result",
    "ResultKind",
    "ResultTooLarge",
    "Rows",
    "Serialized",
    "ServiceRefused",
    "Stats",
    "Store",
    "StoreBusy",
    "StoreLocked",
    "Term",
    "UpdateRefused",
    "Validator",
    "default_location",
    "open_store",
    "question",
    "resolve_kernel",
]

ONTOLOGY = Path(__file__).resolve().parent.parent / "ontology"


def default_location(environment: Mapping[str, str] | None = None) -> str:
    """TILELORE_KB, else `tilelore/kb` in the platform's folder for a user's data."""
    environ = os.environ if environment is None else environment
    given = environ.get("TILELORE_KB", "")
    return given or str(Path(user_data_dir("tilelore", appauthor=False)) / "kb")


def open_store(
    location: str | None = None,
    *,
    read_only: bool = False,
    validate: Validator | None = None,
    vocabulary: Path | None = ONTOLOGY,
    limits: Limits | None = None,
) -> Store:
    """The knowledge base at a folder or URL (default: `default_location`).

    A folder opened for writing is made when it is not there, repaired after a killed writer, and
    holds the vocabulary as it is in `vocabulary`. `validate` is called with every graph before it
    is written. Raises StoreLocked when another process writes it, StoreError when it cannot be
    used, or is not there and `read_only`.
    """
    where = location or default_location()
    if where.startswith(("http://", "https://")):
        remote = RemoteSparqlStore(where, validate=validate, limits=limits)
        if not read_only and vocabulary is not None:
            remote.set_vocabulary(vocabulary)
        return remote
    return LocalStore(
        Path(where).expanduser(),
        validate=validate,
        vocabulary=vocabulary,
        limits=limits,
        read_only=read_only,
    )

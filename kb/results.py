"""What a query answers, free of any engine: terms, rows, a yes or no, a graph."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

XSD = "http://www.w3.org/2001/XMLSchema#"
INTEGERS = frozenset(
    XSD + name
    for name in ("integer", "int", "long", "short", "nonNegativeInteger", "positiveInteger")
)


class ResultKind(Enum):
    """The three kinds of answer SPARQL has."""

    BINDINGS = "bindings"
    BOOLEAN = "boolean"
    GRAPH = "graph"


class BindingsFormat(Enum):
    """Formats of SELECT (all) and ASK (JSON and XML by the standard) answers."""

    JSON = "application/sparql-results+json"
    XML = "application/sparql-results+xml"
    CSV = "text/csv"
    TSV = "text/tab-separated-values"


class GraphFormat(Enum):
    """Formats of CONSTRUCT and DESCRIBE answers."""

    TURTLE = "text/turtle"
    N_TRIPLES = "application/n-triples"
    JSON_LD = "application/ld+json"
    RDF_XML = "application/rdf+xml"


@dataclass(frozen=True, slots=True)
class Formats:
    """The format wanted for each kind of answer."""

    bindings: BindingsFormat = BindingsFormat.JSON
    boolean: BindingsFormat = BindingsFormat.JSON
    graph: GraphFormat = GraphFormat.TURTLE


@dataclass(frozen=True, slots=True)
class Serialized:
    """An answer as bytes of `media_type`."""

    kind: ResultKind
    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Term:
    """An RDF term: `kind` is `iri`, `literal` or `bnode`."""

    kind: str
    value: str
    datatype: str = XSD + "string"
    language: str = ""

    def __str__(self) -> str:
        return self.value

    @property
    def python(self) -> str | int | float | bool:
        """The value as Python has it; the text for IRIs and unknown datatypes."""
        if self.kind != "literal":
            return self.value
        try:
            if self.datatype in INTEGERS:
                return int(self.value)
            if self.datatype in (XSD + "decimal", XSD + "double", XSD + "float"):
                return float(self.value)
        except ValueError:
            return self.value
        if self.datatype == XSD + "boolean":
            return self.value in ("true", "1")
        return self.value


@dataclass(frozen=True, slots=True)
class Rows:
    """A table: one optional term per variable and row."""

    variables: tuple[str, ...]
    rows: tuple[tuple[Term | None, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, str | int | float | bool | None]]:
        """Rows as dictionaries of Python values, None where unbound."""
        return iter(
            [
                {
                    name: None if term is None else term.python
                    for name, term in zip(self.variables, row, strict=True)
                }
                for row in self.rows
            ]
        )

    def values(self, variable: str) -> tuple[str | int | float | bool | None, ...]:
        """One column."""
        return tuple(row[variable] for row in self)


@dataclass(frozen=True, slots=True)
class Answer:
    """Yes or no, of an ASK."""

    value: bool

    def __bool__(self) -> bool:
        return self.value


@dataclass(frozen=True, slots=True)
class GraphText:
    """Triples of a CONSTRUCT or DESCRIBE as Turtle."""

    turtle: str


Result = Rows | Answer | GraphText


def term_from_json(row: Mapping[str, Any]) -> Term:
    """A term of the SPARQL JSON results format."""
    if row["type"] == "uri":
        return Term("iri", row["value"])
    if row["type"] == "bnode":
        return Term("bnode", row["value"])
    language = row.get("xml:lang", "")
    usual = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString" if language else XSD + "string"
    return Term("literal", row["value"], row.get("datatype", usual), language)


def parse(answer: Serialized) -> Result:
    """The answer as records; bindings and booleans must be JSON, graphs Turtle."""
    if answer.kind is ResultKind.GRAPH:
        return GraphText(answer.body.decode())
    document = json.loads(answer.body)
    if answer.kind is ResultKind.BOOLEAN:
        return Answer(bool(document["boolean"]))
    names = tuple(document["head"].get("vars", ()))
    rows = tuple(
        tuple(term_from_json(row[name]) if name in row else None for name in names)
        for row in document["results"]["bindings"]
    )
    return Rows(names, rows)

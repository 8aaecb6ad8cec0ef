"""The documents of the HTTP interface; pydantic lives here only."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Value = str | int | float | bool | None


class Document(BaseModel):
    """Base of all documents: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Health(Document):
    """Whether the service answers, and from which knowledge base."""

    status: Literal["ok"] = "ok"
    kernels: int
    vocabulary: str = Field(description="digest of the ontology that is loaded")


class KernelRow(Document):
    """One kernel in the listing."""

    id: str = Field(description="use it in /kernels/{id}")
    iri: str
    graph: str
    label: str
    dialect: str
    operation: str
    path: str
    start_line: int
    end_line: int
    program: str = Field(description="digest of the tile program; see /programs/{digest}")
    decisions: int
    findings: int


class KernelPage(Document):
    """Kernels, in order of IRI; `total` counts all that match."""

    total: int
    offset: int
    kernels: list[KernelRow]


class KernelDetail(Document):
    """A kernel with what it decided, searches and what a reader should know."""

    kernel: KernelRow
    decisions: list[dict[str, Value]]
    tuning: list[dict[str, Value]]
    constraints: list[dict[str, Value]]
    findings: list[dict[str, Value]]


class QuestionParameter(Document):
    """A parameter of a named question."""

    name: str
    kind: str
    default: str
    description: str


class QuestionRow(Document):
    """A named question."""

    name: str
    title: str
    description: str
    parameters: list[QuestionParameter]
    sparql: str


class QuestionAnswer(Document):
    """The rows that answer a named question."""

    question: str
    columns: list[str]
    rows: list[dict[str, Value]]


class TransferRequest(Document):
    """Which kernel or operation to inherit from, and the operation to design for."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"from": "fmha", "to": "layernorm"}]})
    from_: str = Field(alias="from", min_length=1, max_length=500)
    to: str = Field(min_length=1, max_length=500)


class GenerateRequest(Document):
    """A design space in the DSL, the dialect to write and settings of axes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "space": "kernel layernorm { operation: layernorm } ...",
                    "dialect": "triton",
                    "settings": {"tile_m": 64},
                }
            ]
        }
    )
    space: str = Field(min_length=1, max_length=1_000_000)
    dialect: Literal["triton", "cutile"] = "triton"
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict, max_length=200)


class Generated(Document):
    """A generated kernel: one Python file."""

    dialect: str
    source: str


class ProblemDocument(Document):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    where: str = ""
    hint: str = ""
    errors: list[dict[str, Any]] = Field(default_factory=list)

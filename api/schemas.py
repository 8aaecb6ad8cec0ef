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
    needed: bool


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


class KernelPair(Document):
    """How two kernels differ; `match` says how they were found to be one."""

    left: str
    right: str
    left_path: str
    right_path: str
    match: Literal["asked", "file and name", "same program", "name"]
    operation: dict[str, str | None] | None
    decisions: list[dict[str, Any]] = Field(
        description="axis, subject, kind, change, left, right, left_lines, right_lines"
    )
    tuning: list[dict[str, Any]] = Field(description="field, left, right, left_lines, right_lines")
    constraints: list[dict[str, Any]] = Field(description="expression, only, lines")
    findings: list[dict[str, Any]] = Field(description="finding, only, lines")
    decisions_in_both: int
    same_program: bool
    same: bool


class UnpairedKernel(Document):
    """A kernel that only one side has."""

    name: str
    path: str
    lines: tuple[int, int]
    operation: str | None
    decisions: int


class KernelCounts(Document):
    """How many kernels are as before, differ, moved, went and came."""

    unchanged: int
    changed: int
    moved: int
    removed: int
    added: int


class Difference(Document):
    """What `tilelore diff --format json` prints, and GET /diff answers."""

    schema_: Literal["tilelore.diff/2"] = Field(alias="schema")
    left: str
    right: str
    pairs: list[KernelPair]
    only_left: list[UnpairedKernel]
    only_right: list[UnpairedKernel]
    kernels: KernelCounts
    unchanged_files: int = Field(description="files of the same bytes on both sides")
    digests: dict[str, str] = Field(
        default_factory=dict, description="sha256 of the wheels; empty for a pinned one"
    )
    same: bool


class BlamedDecision(Document):
    """A decision with the revision that introduced it and where the kernel was then."""

    axis: str
    value: str
    subject: str | None
    kind: Literal["design", "tuning", "host"]
    revision: str
    date: str = Field(description="the author's date, ISO 8601")
    author: str
    summary: str
    path_then: str
    kernel_then: str
    lines: list[tuple[int, int]] = Field(description="where it stands now")
    file: str | None


class Blame(Document):
    """What `tilelore blame --format json` prints."""

    schema_: Literal["tilelore.blame/1"] = Field(alias="schema")
    kernel: str
    path: str
    revision: str
    decisions: list[BlamedDecision]
    revisions_read: int
    notes: list[str]


class ProblemDocument(Document):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    where: str = ""
    hint: str = ""
    errors: list[dict[str, Any]] = Field(default_factory=list)

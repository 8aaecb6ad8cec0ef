"""What is known of one kernel, all in one record: program, source, decisions, tuning, constraints,
findings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kb.evidence import AxisNumerics, Decision, Diagnostic, Finding, Lines
from kb.ir import Kernel
from kb.space import Constraint, Launch, Tuning


class ParameterRole(StrEnum):
    """What a parameter is for, from dataflow."""

    INPUT = "input"
    OUTPUT = "output"
    IN_OUT = "in-out"
    TILE_SIZE = "tile size"
    PROBLEM_SIZE = "problem size"
    STRIDE = "stride"
    FLAG = "flag"
    GROUPING = "grouping"
    SCALE = "scale"
    SCALAR = "scalar"
    UNUSED = "unused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterFact:
    """A parameter of the entry function: `kind` is tensor, scalar or constexpr."""

    name: str
    kind: str
    role: ParameterRole
    dtype: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The file a kernel was read from; `sha256` is of the file's bytes."""

    path: str
    sha256: str
    dialect: str
    package: str | None = None
    licence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelKnowledge:
    """Everything that extract says about one kernel; what the graph stores."""

    kernel: Kernel
    source: Source
    lines: Lines
    operation: str | None
    parameters: tuple[ParameterFact, ...]
    decisions: tuple[Decision, ...]
    tuning: Tuning
    launches: tuple[Launch, ...]
    constraints: tuple[Constraint, ...]
    findings: tuple[Finding, ...]
    operations: int
    opaque: int
    numerics: tuple[AxisNumerics, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKnowledge:
    """Everything read from one file."""

    source: Source
    kernels: tuple[KernelKnowledge, ...]
    diagnostics: tuple[Diagnostic, ...]

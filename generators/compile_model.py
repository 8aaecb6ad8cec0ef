"""What goes into a compiler process and what comes out: plain records that travel as JSON lines."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

Scalar = int | float | bool | str | None


class ArgumentKind(StrEnum):
    """How one kernel parameter is bound for a compile."""

    ARRAY = "array"
    ARRAY_LIST = "array_list"
    POINTER = "pointer"
    POINTER_TUPLE = "pointer_tuple"
    DESCRIPTOR = "descriptor"
    SCALAR = "scalar"
    CONSTEXPR = "constexpr"
    DTYPE = "dtype"


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One parameter of a signature.

    `dtype` is a name such as `f16` for arrays, pointers, scalars and dtype constants; `rank` counts
    the axes of an array; `shape` is the block of a descriptor, or how many pointers a tuple holds;
    `value` is what a constexpr is set to.
    """

    name: str
    kind: ArgumentKind
    dtype: str = ""
    rank: int = 0
    value: Scalar | tuple[Scalar, ...] = None
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        match self.kind:
            case ArgumentKind.CONSTEXPR:
                return f"{self.name}={self.value!r}"
            case ArgumentKind.DTYPE:
                return f"{self.name}={self.dtype}"
            case ArgumentKind.ARRAY | ArgumentKind.ARRAY_LIST:
                return f"{self.name}: {self.kind}<{self.dtype}, {self.rank}>"
        return f"{self.name}: {self.kind}<{self.dtype}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One way to specialise a kernel; `options` are launch hints such as num_warps."""

    arguments: tuple[Argument, ...]
    options: tuple[tuple[str, Scalar], ...] = ()

    def __str__(self) -> str:
        return ", ".join(map(str, self.arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileJob:
    """Compile the function `kernel` of the module `text` for one target such as `sm_90`.

    `most_work` stops after the compiler's front end when its result holds more (FrontEnd.work),
    `most_seconds` after so many, when that is less than the limit of the process.
    """

    dialect: str
    text: str
    kernel: str
    signature: Signature
    target: str
    most_work: int | None = None
    most_seconds: float | None = None

    def key(self, toolchain: str) -> str:
        """Name of the result in a cache: content, signature, target and compiler versions."""
        asked = asdict(replace(self, most_work=None, most_seconds=None))
        payload = json.dumps([toolchain, asked], sort_keys=True, default=str)
        return hashlib.sha256(payload.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """Machine code of one kernel: sha256 without debug and line information, and what it uses.

    Registers and stack bytes per thread, static shared bytes per block; None when the tool is
    absent.
    """

    digest: str
    registers: int | None = None
    stack_bytes: int | None = None
    shared_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """The compiler's input form (Tile IR text, TTIR): sha256 with locations masked, and how many
    values each thread computes, loops not unrolled; None when it was not counted. The compiler's
    time grows faster than this number.
    """

    digest: str
    work: int | None = None


class Outcome(StrEnum):
    """How a compile ended; LARGE when it was not tried (CompileJob.most_work), UNSUPPORTED when the
    target lacks something that the kernel needs.
    """

    DONE = "done"
    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    LARGE = "large"
    CRASHED = "crashed"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileResult:
    """What a compile gave; `message` is the compiler's last words when there is no result."""

    outcome: Outcome
    front_end: FrontEnd | None = None
    machine: MachineCode | None = None
    message: str = ""
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """True when there is something to compare."""
        return self.outcome is Outcome.DONE


def job_to_json(job: CompileJob) -> str:
    """One line of JSON."""
    return json.dumps(asdict(job))


def job_from_json(text: str) -> CompileJob:
    """The inverse of `job_to_json`."""
    data: dict[str, Any] = json.loads(text)
    return CompileJob(signature=signature_from_json(data.pop("signature")), **data)


def signature_from_json(data: dict[str, Any]) -> Signature:
    """The inverse of `asdict` of a signature, after a way through JSON; defaults may be absent."""
    arguments = tuple(_argument(item) for item in data["arguments"])
    options = tuple((str(name), value) for name, value in data["options"])
    return Signature(arguments=arguments, options=options)


def _argument(data: dict[str, Any]) -> Argument:
    value = data.get("value")
    given = {**data, "value": tuple(value) if isinstance(value, list) else value}
    given["shape"] = tuple(data.get("shape", ()))
    given["kind"] = ArgumentKind(data["kind"])
    return Argument(**given)


def result_to_json(result: CompileResult) -> str:
    """One line of JSON."""
    return json.dumps(asdict(result))


def result_from_json(text: str) -> CompileResult:
    """The inverse of `result_to_json`."""
    data: dict[str, Any] = json.loads(text)
    data["outcome"] = Outcome(data["outcome"])
    data["front_end"] = FrontEnd(**data["front_end"]) if data["front_end"] else None
    data["machine"] = MachineCode(**data["machine"]) if data["machine"] else None
    return CompileResult(**data)

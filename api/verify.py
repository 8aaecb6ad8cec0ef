"""verify(file or document): numerics against PyTorch, what the compilers say, and what our own
reader sees in the file.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import util
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from api.generate import generate
from api.lift import lift
from api.verify_cases import TOLERANCE, Suite, suite
from extractors.detect import decisions_of
from extractors.modules import ModuleText
from extractors.read import ReadModule, read
from extractors.syntax.builtin_parser import python_module
from generators.compile_model import Argument, ArgumentKind, CompileJob, Signature
from generators.compile_pool import CompilerPool, PoolSettings
from kb.analysis.facts import Facts
from kb.dsl.model import Document
from kb.errors import CompilerFailed, InputError, SyntaxProblem
from kb.evidence import AxisKind
from kb.graph.terms import targets

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 300.0
MAX_BYTES = 2_000_000
ARCHES = ("sm_80", "sm_90", "sm_100", "sm_120")
"""Targets that are compiled for beside the one that the file was written for."""

_DTYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
_REQUIRED = ("family", "host", "kernel", "dialect", "arch", "design_point")


class Kind(StrEnum):
    """What a check looks at."""

    NUMERICS = "numerics"
    COMPILE = "compile"
    DESIGN = "design"


class Result(StrEnum):
    """How a check ended; a note is no verdict on the file."""

    HOLDS = "holds"
    FAILS = "FAILS"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One check with its outcome."""

    kind: Kind
    check: str
    result: Result
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Redetected:
    """A design axis: what the file says that it has, and what the reader sees in its kernel."""

    axis: str
    chosen: str
    seen: str | None
    set: bool

    @property
    def agrees(self) -> bool | None:
        """None when no pattern speaks of the axis."""
        return None if self.seen is None else self.seen == self.chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that verification found about one file."""

    path: str
    family: str
    host: str
    device: str
    checks: tuple[Row, ...]
    redetected: tuple[Redetected, ...]

    @property
    def passed(self) -> bool:
        """Whether every check that ran holds."""
        return all(row.result is not Result.FAILS for row in self.checks)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "schema": "tilelore.verify/1",
            "path": self.path,
            "family": self.family,
            "host": self.host,
            "device": self.device,
            "passed": self.passed,
            "checks": [asdict(row) for row in self.checks],
            "redetected": [{**asdict(row), "agrees": row.agrees} for row in self.redetected],
        }


def verify(
    subject: Path | str | Document,
    *,
    arch: str = "sm_90",
    arches: tuple[str, ...] = ARCHES,
    cache: Path | None = None,
) -> Report:
    """Check a generated file, or the file that a design space generates for `arch`.

    Raises InputError for a file that says nothing of itself, CompilerFailed when its process did
    not answer.
    """
    if isinstance(subject, Document):
        with tempfile.TemporaryDirectory(prefix="tilelore-verify-") as folder:
            path = Path(folder) / "generated.py"
            path.write_text(generate(subject, "triton", {}, arch), encoding="utf-8")
            return verify(path, arch=arch, arches=arches, cache=cache)
    path = Path(subject)
    text = _text(path)
    facts = stated_facts(text, str(path))
    module = read(ModuleText("generated", str(path), text))
    redetected = tuple(_redetected(module, facts))
    device, launch, numerics = _run(path, facts)
    places = tuple(dict.fromkeys((str(facts["arch"]), *arches)))
    compiled = _compiled(module, facts, launch, places, cache)
    return Report(
        path=str(path),
        family=str(facts["family"]),
        host=str(facts["host"]),
        device=device,
        checks=(*numerics, *compiled, *_design(redetected)),
        redetected=redetected,
    )


# -- what the file says of itself


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError("the file is too large.", where=str(path), hint="Generate it again.")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"the file cannot be read: {problem}.", where=str(path)) from problem


def stated_facts(text: str, where: str) -> dict[str, Any]:
    """The TILELORE literal of a generated file; nothing is executed.

    Raises SyntaxProblem for text that is not Python, InputError when the file says nothing of
    itself.
    """
    try:
        tree = python_module(text)
    except (SyntaxError, ValueError, RecursionError) as problem:
        line = getattr(problem, "lineno", None) or 1
        raise SyntaxProblem("the file is not Python.", where=f"{where}:{line}") from None
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="TILELORE")], value=value):
                try:
                    facts = ast.literal_eval(value)
                except (ValueError, TypeError, RecursionError):
                    break
                if isinstance(facts, dict) and all(key in facts for key in _REQUIRED):
                    return facts
    raise InputError(
        "the file does not say what it is.",
        where=where,
        hint="Verify a file that `tilelore generate` wrote; it holds the constant TILELORE.",
    )


# -- numerics


def _run(path: Path, facts: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], tuple[Row, ...]]:
    """Where it ran, what the host passes, and one row per case: on the GPU, else in the
    interpreter.
    """
    if util.find_spec("torch") is None:
        raise CompilerFailed("PyTorch is not installed.", hint="Install `torch`.")
    for device in ("cuda", "interpreter") if _has_driver() else ("interpreter",):
        cases = suite(facts, gpu=device == "cuda")
        if cases is None:
            note = Row(
                kind=Kind.NUMERICS, check=str(facts["family"]), result=Result.NOTE,
                detail="no reference is known for this family",
            )  # fmt: skip
            return "none", {}, (note,)
        answers = _answers(path, facts, cases, device)
        if answers[0]["device"]:
            tolerance = TOLERANCE[str(facts["family"])]
            rows = tuple(_numerics(cases, answers[2:], tolerance))
            return str(answers[0]["device"]), answers[1]["launch"], rows
    raise CompilerFailed("neither a GPU nor the interpreter runs here.")


def _has_driver() -> bool:
    """Whether the kernel driver of an NVIDIA GPU is loaded."""
    return Path("/proc/driver/nvidia/version").exists() or Path("/dev/nvidiactl").exists()


def _answers(
    path: Path, facts: Mapping[str, Any], cases: Suite, device: str
) -> list[dict[str, Any]]:
    """The lines of the process that runs the file."""
    interpreted = device == "interpreter"
    if interpreted and util.find_spec("numpy") is None:
        raise CompilerFailed("Triton's interpreter needs NumPy.", hint="Install `numpy`.")
    job = {
        "path": str(path.resolve()),
        "host": facts["host"],
        "kernel": facts["kernel"],
        "family": facts["family"],
        "design_point": facts["design_point"],
        "device": device,
        "cases": list(cases.cases),
        "launch": cases.launch,
    }
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment["TRITON_INTERPRET"] = "1" if interpreted else "0"
    try:
        done = subprocess.run(
            [sys.executable, "-m", "generators.tuner.bench"], input=json.dumps(job), text=True,
            capture_output=True, check=False, timeout=SECONDS, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CompilerFailed(
            f"the kernel ran past {SECONDS:g} s.", where=str(path), hint="Try smaller tiles."
        ) from None
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines or (lines[0]["device"] and len(lines) < 2):
        words = done.stderr.strip().splitlines()
        raise CompilerFailed(
            f"the process that runs the file ended: {words[-1] if words else 'no message'}",
            where=str(path),
        )
    return lines


def _numerics(
    cases: Suite, answers: list[dict[str, Any]], tolerance: Mapping[str, float]
) -> Iterator[Row]:
    """One row per case; a case without an answer fell with its process."""
    by_name = {answer["case"]: answer for answer in answers}
    for case in cases.cases:
        answer = by_name.get(case["name"], {"error": None, "message": "the process ended"})
        error, limit = answer["error"], tolerance[case["dtype"]]
        if error is None:
            result, detail = Result.FAILS, str(answer["message"])
        else:
            result = Result.HOLDS if error <= limit else Result.FAILS
            detail = f"error {error:.1e}, at most {limit:.0e}"
        yield Row(kind=Kind.NUMERICS, check=str(case["name"]), result=result, detail=detail)


# -- compile facts


def _compiled(
    module: ReadModule,
    facts: Mapping[str, Any],
    launch: Mapping[str, Any],
    arches: tuple[str, ...],
    cache: Path | None,
) -> tuple[Row, ...]:
    """Registers, spills and shared memory of the kernel per target, without a GPU."""
    if not launch:
        return ()
    if launch.get("message"):
        message = str(launch["message"])
        return (Row(kind=Kind.COMPILE, check="host call", result=Result.FAILS, detail=message),)
    kernel = next(k for k in module.kernels if k.name == facts["kernel"])
    text = lift(module, kernel).text
    settings = PoolSettings(cache=cache or user_cache_path("tilelore"), seconds=120.0)
    rows: list[Row] = []
    with CompilerPool(settings) as pool:
        for arch in arches:
            job = CompileJob(
                dialect=str(facts["dialect"]), text=text, kernel=kernel.name,
                signature=signature(launch), target=arch,
            )  # fmt: skip
            rows.append(_compile_row(pool, job, own=arch == facts["arch"]))
    return tuple(rows)


def signature(launch: Mapping[str, Any]) -> Signature:
    """The signature of a recorded launch."""
    arguments = []
    for name in launch["order"]:
        if name in launch["constants"]:
            value = launch["constants"][name]
            arguments.append(Argument(name=name, kind=ArgumentKind.CONSTEXPR, value=value))
            continue
        described = launch["runtime"][name]
        if described.endswith("]"):
            dtype, _, block = described[1:-1].partition("[")
            shape = tuple(int(extent) for extent in block.split(","))
            kind = ArgumentKind.DESCRIPTOR
            arguments.append(Argument(name=name, kind=kind, dtype=_DTYPES[dtype], shape=shape))
        elif described.startswith("*"):
            dtype = _DTYPES[described[1:]]
            arguments.append(Argument(name=name, kind=ArgumentKind.POINTER, dtype=dtype))
        elif described == "unit":
            arguments.append(Argument(name=name, kind=ArgumentKind.CONSTEXPR, value=1))
        else:
            dtype = {"float": "f32", "bool": "i1"}.get(described, "i32")
            arguments.append(Argument(name=name, kind=ArgumentKind.SCALAR, dtype=dtype))
    options = tuple((name, value) for name, value in launch["options"].items())
    return Signature(arguments=tuple(arguments), options=options)


def _compile_row(pool: CompilerPool, job: CompileJob, *, own: bool) -> Row:
    """What a compile used; on another target than the file's own it is a note."""
    found = pool.compile(job)
    bad = Result.FAILS if own else Result.NOTE
    if not found.done or found.machine is None:
        return Row(kind=Kind.COMPILE, check=job.target, result=bad, detail=found.message[-200:])
    machine = found.machine
    shared = machine.shared_bytes or 0
    limit = _shared_limit(job.target)
    detail = (
        f"{machine.registers} registers, {machine.stack_bytes} bytes spilled per thread, "
        f"{shared} of {limit} bytes shared"
    )
    fits = limit is None or shared <= limit
    return Row(
        kind=Kind.COMPILE, check=job.target, result=Result.HOLDS if fits else bad,
        detail=detail if fits else f"{detail}: too many",
    )  # fmt: skip


def _shared_limit(arch: str) -> int | None:
    found = [t.limit("shared_bytes_per_block") for t in targets().values() if t.arch == arch]
    return min(found) if found else None


# -- what the reader sees


def _redetected(module: ReadModule, facts: Mapping[str, Any]) -> Iterator[Redetected]:
    kernels = [kernel for kernel in module.kernels if kernel.name == facts["kernel"]]
    if not kernels:
        raise InputError(f"the file has no kernel `{facts['kernel']}`.", where=module.module.path)
    seen: dict[str, set[str]] = {}
    for decision in decisions_of(Facts(kernels[0])):
        if decision.kind is AxisKind.DESIGN:
            seen.setdefault(decision.axis, set()).add(decision.value)
    for axis, chosen in facts["design_point"].items():
        if isinstance(chosen, str):
            values = "; ".join(sorted(seen[axis])) if axis in seen else None
            yield Redetected(
                axis=axis, chosen=chosen, seen=values, set=axis in facts.get("set", ())
            )


def _design(rows: tuple[Redetected, ...]) -> Iterator[Row]:
    """Axes that the caller set must be seen; for the others it is enough that none is contradicted
    by name.
    """
    for row in rows:
        if row.agrees is None and not row.set:
            continue
        if row.agrees is None:
            result, detail = Result.NOTE, f"{row.chosen}; no pattern speaks of it"
        elif row.agrees or _same_words(row.chosen, row.seen or ""):
            result, detail = Result.HOLDS, row.chosen
        else:
            result = Result.FAILS if row.set else Result.NOTE
            detail = f"{row.chosen}; the reader sees {row.seen}"
        yield Row(kind=Kind.DESIGN, check=row.axis, result=result, detail=detail)


def _same_words(chosen: str, seen: str) -> bool:
    """Whether one spelling is the other with a remark in brackets."""
    return chosen.partition(" (")[0] == seen.partition(" (")[0]

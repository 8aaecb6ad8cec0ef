"""verify --roundtrip: extract, emit from the program text alone, compile both, compare."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cache, partial
from pathlib import Path

from api.source_files import SourceTree
from api.subjects import Subject, subjects_of
from api.two_steps import read_and_work
from generators.compile_model import CompileJob, CompileResult, MachineCode, Outcome, Signature
from generators.compile_pool import CompilerPool, PoolSettings, available
from generators.emit_process import EmitProcess
from kb.dialects.registry import dialect as dialect_named
from kb.errors import CannotEmit

TARGETS: dict[str, tuple[str, ...]] = {
    "cutile": ("sm_80", "sm_90", "sm_120"),
    "triton": ("sm_80", "sm_90", "sm_100"),
}
"""Targets whose machine code is deterministic; the verdict stands on these."""

REPORTED: dict[str, tuple[str, ...]] = {"cutile": ("sm_100",)}
"""Targets that are compared when asked for by name: their compiler was seen to write two results
for one source."""

FIRST_TARGET = "sm_90"
MAX_SLOW = 2
"""How many compiles of the original may run out of time or crash before a search for its signature
is given up."""

MOST_WORK = 10_000
"""Values for each thread to compute, above which a signature is tried only when no smaller one
compiles: for sm_90, Triton 3.9 takes 11 to 23 s of CPU at 15,700 to 36,000 of them and more than
two minutes at 45,000."""

MOST_SECONDS = 8.0
"""How long a compile may take while there may be a smaller signature: a dozen kernels take 10 to
90 s with tiles of 64, less with smaller ones."""

_REASON_CHARS = 400
_MACHINE_PATHS = re.compile(r"/[^\s\"']*/(?:site-packages|tilelore-compile-\w+)/")
"""Folders of one machine in a compiler's words; a report reads the same wherever it was made."""
ROOT = Path(__file__).resolve().parent.parent


class Stage(StrEnum):
    """How far a kernel came: the step that stopped it, or `compared`."""

    READ = "read"
    SIGNATURE = "signature"
    EMIT = "emit"
    COMPILE = "compile"
    COMPARED = "compared"


def targets_asked(names: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """Targets by dialect: those of the verdict, or, when names are given, those named."""
    if not names:
        return dict(TARGETS)
    known = {dialect: (*row, *REPORTED.get(dialect, ())) for dialect, row in TARGETS.items()}
    return {dialect: tuple(t for t in row if t in names) for dialect, row in known.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCheck:
    """The verdict on one kernel. `targets` says per target whether machine code is identical, None
    when unknown.

    `front_end` says the same of the compiler's input form (Tile IR text, TTIR), which sees what
    machine code can hide.
    `original` is what the original compiled to, per target.
    """

    name: str
    dialect: str
    path: str
    line: int
    stage: Stage
    targets: dict[str, bool | None] = field(default_factory=dict)
    front_end: dict[str, bool | None] = field(default_factory=dict)
    original: dict[str, MachineCode | None] = field(default_factory=dict)
    opaque: int = 0
    signature: str = ""
    reason: str = ""

    @property
    def identical(self) -> bool | None:
        """True or False when the original compiles for at least one target; None otherwise."""
        known = [value for value in self.targets.values() if value is not None]
        if self.stage in (Stage.READ, Stage.SIGNATURE) or not known:
            return None
        return all(known)

    def to_json(self) -> dict[str, object]:
        """The public form: name, dialect, targets, identical, reason."""
        return {
            "name": self.name,
            "dialect": self.dialect,
            "targets": self.targets,
            "identical": self.identical,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to verify and with what: `jobs` processes, results kept under `cache`, compile limit in
    seconds.

    `reuse` lets machine code be looked up by the compiler's input form; without it every compile is
    made.
    """

    tree: SourceTree
    cache: Path
    jobs: int = 1
    seconds: float = 60.0
    targets: dict[str, tuple[str, ...]] = field(default_factory=targets_asked)
    reuse: bool = True


Progress = Callable[[int, int, KernelCheck], None]
"""Called after each kernel with files finished, files in all, and the verdict."""


def roundtrip(request: Request, progress: Progress | None = None) -> tuple[KernelCheck, ...]:
    """Verify every kernel of a tree; finished files are remembered under `cache`, so that a stopped
    run resumes.
    """
    settings = PoolSettings(
        cache=request.cache, workers=request.jobs, seconds=request.seconds, reuse=request.reuse
    )
    journal = _Journal(request)
    done: dict[Path, tuple[KernelCheck, ...]] = {}
    for file in request.tree.files:
        known = journal.load(file)
        if known is not None:
            done[file] = known
    # Large files hold many kernels: begun last, they would keep the other processes waiting.
    left = sorted(
        (file for file in request.tree.files if file not in done),
        key=lambda file: -file.stat().st_size,
    )
    read = partial(subjects_of, request.tree.root)
    with CompilerPool(settings) as pool, EmitProcess() as emitter:
        check = Checker(request, pool, emitter).check
        for file, checks in read_and_work(left, read, check, request.jobs):
            journal.save(file, checks)
            done[file] = checks
            if progress:
                for verdict in checks:
                    progress(len(done), len(request.tree.files), verdict)
    return tuple(verdict for file in request.tree.files for verdict in done[file])


@dataclass(frozen=True)
class Checker:
    """Takes kernels as read through signature, emission and both compiles."""

    request: Request
    pool: CompilerPool
    emitter: EmitProcess

    def check(self, subject: Subject) -> KernelCheck:
        """The verdict on one kernel."""
        blank = KernelCheck(
            name=subject.name, dialect=subject.dialect, path=subject.path, line=subject.line,
            stage=Stage.READ, opaque=len(subject.opaque),
        )  # fmt: skip
        if subject.problem:
            return replace(blank, reason=subject.problem)
        if not dialect_named(subject.dialect).written:
            return replace(blank, reason=f"a kernel read from {subject.dialect} is not written")
        if not available(subject.dialect):
            return replace(blank, reason=f"the compiler of {subject.dialect} is not installed")
        if not self.request.targets.get(subject.dialect):
            return replace(blank, reason=f"no target of {subject.dialect} was asked for")
        signature, why = self.signature(subject)
        if signature is None:
            return self._without_signature(blank, subject, why)
        return self._compare(replace(blank, signature=str(signature)), subject, signature)

    def _without_signature(self, blank: KernelCheck, subject: Subject, why: str) -> KernelCheck:
        """No candidate compiles: the first one tried, with the compiler's words about it."""
        tried = str(subject.signatures[0]) if subject.signatures else ""
        names = ", ".join(subject.missing)
        head = f"computed when the module is imported: {names}; " if names else ""
        reason = f"{head}the original does not compile: {why}"
        return replace(blank, stage=Stage.SIGNATURE, signature=tried, reason=reason)

    def signature(self, subject: Subject) -> tuple[Signature | None, str]:
        """The first candidate with which the original compiles: one that compiles soon, else any;
        for the first target, and for another only when that one lacks what the kernel needs. The
        compiler's first words when there is none.
        """
        first = ""
        for target in self._targets(subject):
            quick = replace(
                job_of(subject, subject.source, Signature(arguments=()), target),
                most_work=MOST_WORK,
                most_seconds=MOST_SECONDS,
            )
            found, why, ends = self._search(quick, subject.signatures)
            if found is None and ends & {Outcome.LARGE, Outcome.TIMEOUT}:
                whole = replace(quick, most_work=None, most_seconds=None)
                found, why, _ = self._search(whole, sorted(subject.signatures, key=_extent))
            if found is not None:
                return found, ""
            first = first or why
            if Outcome.UNSUPPORTED not in ends:
                break
        return None, first or "no signature could be derived"

    def _search(
        self, job: CompileJob, signatures: Sequence[Signature]
    ) -> tuple[Signature | None, str, set[Outcome]]:
        """The first signature that compiles within the bounds of the job; the first words of the
        compiler; how the compiles ended.

        Most candidates fall at the front end, which is fast. After a compile that ran past its time
        or crashed, smaller candidates are tried, the largest of them first.
        """
        first, pending, slow = "", list(signatures), 0
        ends: set[Outcome] = set()
        while pending and slow <= MAX_SLOW:
            signature = pending.pop(0)
            result = self.pool.compile(replace(job, signature=signature))
            if result.done:
                return signature, first, ends
            first = first or _short(result.message)
            ends.add(result.outcome)
            if result.outcome in (Outcome.TIMEOUT, Outcome.CRASHED):
                slow += 1
                size = _extent(signature)
                smaller = (other for other in pending if _extent(other) < size)
                pending = sorted(smaller, key=_extent, reverse=True)
        return None, first, ends

    def _targets(self, subject: Subject) -> list[str]:
        """The targets asked for, in the order in which candidates are tried on them."""
        targets = self.request.targets.get(subject.dialect, ())
        return sorted(targets, key=lambda target: target != FIRST_TARGET)

    def _compare(self, blank: KernelCheck, subject: Subject, signature: Signature) -> KernelCheck:
        emitted, reason = self._emit(subject)
        stage = Stage.COMPARED if emitted is not None else Stage.EMIT
        targets: dict[str, bool | None] = {}
        front: dict[str, bool | None] = {}
        asked = self.request.targets.get(subject.dialect, ())
        lefts = self._compiled(subject, subject.source, signature, asked)
        original = {target: left.machine for target, left in lefts.items()}
        rights = {}
        if emitted is not None:
            compiled = [target for target in asked if original[target] is not None]
            rights = self._compiled(subject, emitted, signature, compiled)
        for target, left in lefts.items():
            if left.machine is None:
                targets[target] = front[target] = None
                reason = (
                    reason or f"{target}: the original does not compile: {_short(left.message)}"
                )
            elif target not in rights:
                targets[target] = front[target] = False
            else:
                targets[target], front[target], why = _same(left, rights[target])
                reason = reason or (f"{target}: {why}" if why else "")
        if not any(original.values()):
            stage = Stage.COMPILE
        return replace(
            blank, stage=stage, targets=targets, front_end=front, original=original, reason=reason
        )

    def _compiled(
        self, subject: Subject, text: str, signature: Signature, targets: Sequence[str]
    ) -> dict[str, CompileResult]:
        """The original or the regenerated text for each target."""
        jobs = [job_of(subject, text, signature, target) for target in targets]
        return dict(zip(targets, self.pool.compile_all(jobs), strict=True))

    def _emit(self, subject: Subject) -> tuple[str | None, str]:
        """Emitted source, or None with the emitter's words."""
        try:
            return self.emitter.emit(subject.program, subject.dialect), ""
        except CannotEmit as problem:
            return None, f"not emitted: {_short(problem.text)}"


def job_of(subject: Subject, text: str, signature: Signature, target: str) -> CompileJob:
    """Compile the original or the regenerated text of a kernel."""
    return CompileJob(
        dialect=subject.dialect, text=text, kernel=subject.entry, signature=signature, target=target
    )


def _extent(signature: Signature) -> int:
    """Sum of the whole constants of a signature: small tiles compile fast."""
    values = (argument.value for argument in signature.arguments)
    return sum(value for value in values if isinstance(value, int))


def _same(left: CompileResult, right: CompileResult) -> tuple[bool, bool, str]:
    """Machine code equal, front-end form equal, and what to say about it."""
    if left.machine is None or right.machine is None:
        return False, False, f"the regenerated kernel does not compile: {_short(right.message)}"
    machine = left.machine.digest == right.machine.digest
    front = left.front_end == right.front_end
    return machine, front, "" if machine else "machine code differs"


def _short(message: str) -> str:
    flat = _MACHINE_PATHS.sub("", " ".join(message.split()))
    return flat if len(flat) <= _REASON_CHARS else f"…{flat[-_REASON_CHARS:]}"


@cache
def tool_digest() -> str:
    """sha256 of tilelore's own reading, emitting and compiling code; a change makes old verdicts
    void.
    """
    state = hashlib.sha256()
    for folder in ("extractors", "generators", "kb", "api"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            state.update(file.read_bytes())
    return state.hexdigest()


class _Journal:
    """Verdicts of finished files, by content of the tree and of the tool."""

    def __init__(self, request: Request) -> None:
        key = json.dumps(
            [tool_digest(), request.tree.digest, request.targets, request.reuse], sort_keys=True
        )
        self._folder = request.cache / "verdicts" / hashlib.sha256(key.encode()).hexdigest()[:24]
        self._root = request.tree.root

    def _place(self, file: Path) -> Path:
        name = hashlib.sha256(str(file.relative_to(self._root)).encode()).hexdigest()[:24]
        return self._folder / f"{name}.json"

    def load(self, file: Path) -> tuple[KernelCheck, ...] | None:
        """Verdicts on the kernels of a finished file."""
        try:
            rows = json.loads(self._place(file).read_text(encoding="utf-8"))
            return tuple(check_from_dict(row) for row in rows)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def save(self, file: Path, checks: Sequence[KernelCheck]) -> None:
        """Write beside and rename; a full disk only costs the memory of this file."""
        path = self._place(file)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_suffix(f".{os.getpid()}")
            beside.write_text(json.dumps([asdict(check) for check in checks]), encoding="utf-8")
            beside.replace(path)
        except OSError:
            return


def check_from_dict(row: dict[str, object]) -> KernelCheck:
    """The inverse of `dataclasses.asdict` on a verdict."""
    data: dict[str, object] = dict(row)
    original = data["original"]
    machines = original if isinstance(original, dict) else {}
    data["original"] = {t: MachineCode(**m) if m else None for t, m in machines.items()}
    data["stage"] = Stage(str(data["stage"]))
    return KernelCheck(**data)  # type: ignore[arg-type]


def report(checks: Iterable[KernelCheck]) -> dict[str, object]:
    """The JSON form of `verify --roundtrip`."""
    return {"kernels": [check.to_json() for check in checks if check.name]}


def unread(checks: Iterable[KernelCheck]) -> Iterator[KernelCheck]:
    """Files that could not be read at all."""
    return (check for check in checks if not check.name)

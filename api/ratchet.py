"""The ratchet: a fixed sample of kernels whose regenerated machine code must stay what it is.

The data file records, per kernel, the signature and the sha256 of the original's machine code with
the compiler versions it was made by. Under the same versions only the regenerated kernel is
compiled; under others both are. Only `python -m benchmarks.roundtrip.sample` rewrites the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from api.console import write_text
from api.roundtrip import Checker, job_of
from api.source_files import SourceTree
from api.subjects import Subject, subjects_of
from generators.compile_model import Signature, signature_from_json
from generators.compile_pool import CompilerPool
from generators.emit_process import EmitProcess
from kb.errors import CannotEmit, InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """One kernel of the sample; `targets` maps each to the sha256 of the original's machine code,
    empty until it is recorded.
    """

    package: str
    path: str
    kernel: str
    dialect: str
    targets: dict[str, str]
    signature: Signature | None = None

    @property
    def id(self) -> str:
        """Package, file and kernel in a few words."""
        return f"{self.package.partition('=')[0]}/{self.path.partition('/')[2]}:{self.kernel}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """All of the data file; `toolchains` are compiler versions by dialect."""

    toolchains: dict[str, str]
    kernels: tuple[Sampled, ...]


def load(path: Path) -> Sample:
    """The sample of a data file. InputError when it cannot be read or is not one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Sample(
            toolchains=data["toolchains"], kernels=tuple(_sampled(row) for row in data["kernels"])
        )
    except (OSError, ValueError, KeyError, TypeError) as problem:
        hint = "Take the file of the repository."
        raise InputError(f"no sample: {problem!r}.", where=str(path), hint=hint) from None


def save(path: Path, sample: Sample) -> None:
    """Write the data file, one kernel per line, whole or not at all."""
    rows = [json.dumps(_row(kernel), ensure_ascii=False) for kernel in sample.kernels]
    head = json.dumps(sample.toolchains, indent=1)
    listed = ",\n".join(rows)
    write_text(path, f'{{"toolchains": {head},\n"kernels": [\n{listed}\n]}}\n')


def _sampled(row: dict[str, Any]) -> Sampled:
    signature = row.get("signature")
    known = signature_from_json(signature) if signature else None
    return Sampled(**{**row, "signature": known})


def _row(kernel: Sampled) -> dict[str, Any]:
    """Empty fields of an argument are left out: they read back as their defaults."""
    row = asdict(kernel)
    if kernel.signature is not None:
        arguments = [
            {k: v for k, v in a.items() if k in ("name", "kind") or v not in ("", 0, (), None) or
             (k == "value" and v is not None)}
            for a in row["signature"]["arguments"]
        ]  # fmt: skip
        row["signature"]["arguments"] = arguments
    return row


@dataclass(frozen=True, slots=True)
class Ratchet:
    """Checks sampled kernels with running compilers; safe to call from several threads."""

    pool: CompilerPool
    emitter: EmitProcess
    toolchains: dict[str, str]

    def check(self, sampled: Sampled, tree: SourceTree) -> str:
        """What is wrong with a kernel; empty when it is what it was on all its targets."""
        subject = subject_of(sampled, tree)
        if subject.problem or subject.opaque:
            return f"not read in full: {subject.problem or ', '.join(subject.opaque)}"
        if sampled.signature is None:
            return "no signature is recorded"
        try:
            emitted = self.emitter.emit(subject.program, subject.dialect)
        except CannotEmit as problem:
            return f"not emitted: {problem.text}"
        said = (
            self._compared(subject, sampled.signature, emitted, target, digest)
            for target, digest in sampled.targets.items()
        )
        return "; ".join(filter(None, said))

    def _compared(
        self, subject: Subject, signature: Signature, emitted: str, target: str, digest: str
    ) -> str:
        if self.pool.toolchain(subject.dialect) != self.toolchains.get(subject.dialect):
            left = self.pool.compile(job_of(subject, subject.source, signature, target))
            if left.machine is None:
                return f"{target}: the original does not compile: {left.message}"
            digest = left.machine.digest
        right = self.pool.compile(job_of(subject, emitted, signature, target))
        if right.machine is None:
            return f"{target}: the regenerated kernel does not compile: {right.message}"
        return "" if right.machine.digest == digest else f"{target}: machine code differs"


def accept(sampled: Sampled, tree: SourceTree, checker: Checker) -> Sampled:
    """The kernel with its signature and the machine code of its original as they are now.

    The recorded signature is kept while the original compiles with it. Raises InputError when the
    original does not compile for one of the targets.
    """
    subject = subject_of(sampled, tree)
    kept = (sampled.signature,) if sampled.signature else ()
    subject = replace(subject, signatures=(*kept, *subject.signatures))
    signature, why = checker.signature(subject)
    where = f"{sampled.path} {sampled.kernel}"
    if signature is None:
        raise InputError(f"no signature: {why}", where=where, hint="Take it off the sample.")
    digests: dict[str, str] = {}
    for target in sampled.targets:
        result = checker.pool.compile(job_of(subject, subject.source, signature, target))
        if result.machine is None:
            message = f"{target}: the original does not compile: {result.message}"
            raise InputError(message, where=where, hint="Take the target off the sample.")
        digests[target] = result.machine.digest
    return replace(sampled, signature=signature, targets=digests, dialect=subject.dialect)


def subject_of(sampled: Sampled, tree: SourceTree) -> Subject:
    """The kernel as it is read now. InputError when the file has no such kernel."""
    subjects = subjects_of(tree.root, tree.root / sampled.path)
    for subject in subjects:
        if subject.name == sampled.kernel or not subject.name:
            return subject
    known = ", ".join(subject.name for subject in subjects)
    raise InputError(
        f"there is no kernel {sampled.kernel}.", where=sampled.path, hint=f"It has {known}."
    )


def toolchains(pool: CompilerPool, kernels: Iterable[Sampled]) -> dict[str, str]:
    """Compiler versions of the dialects that a sample uses."""
    return {name: pool.toolchain(name) for name in sorted({kernel.dialect for kernel in kernels})}

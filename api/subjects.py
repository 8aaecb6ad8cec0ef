"""Kernels of a file, each with all that a round trip needs of it; runs in a reader process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from api.lift import lift
from api.source_files import FolderModules, module_text
from extractors.opaque import opaque_ops
from extractors.read import read
from generators.compile_model import Signature
from generators.signatures import candidates
from kb.dsl.model import Document, DocumentKind
from kb.dsl.writer import write
from kb.errors import TileloreError
from kb.ir import Kernel
from kb.ir_text import to_text
from kb.space import DesignSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One kernel as read: program text for the emitter, lifted source and signatures for the
    compiler.
    """

    name: str
    dialect: str
    path: str
    line: int
    program: str
    source: str
    entry: str
    signatures: tuple[Signature, ...]
    opaque: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str = ""


def design_text(kernel: Kernel) -> str:
    """The kernel as a DSL file: the program and nothing that was read beside it."""
    space = DesignSpace(name=kernel.name, operation="", axes=(), dialect=kernel.dialect)
    return write(
        Document(space=space, kind=DocumentKind.KERNEL, program=to_text(kernel).rstrip("\n"))
    )


def subjects_of(root: Path, file: Path) -> tuple[Subject, ...]:
    """Every kernel of one file. A file that cannot be read gives one subject with the problem."""
    path = str(file.relative_to(root))
    text = module_text(root, file)
    if text is None:
        return ()
    try:
        module = read(text, FolderModules(root))
    except TileloreError as problem:
        return (_unread(path, problem),)
    found: list[Subject] = []
    for kernel in module.kernels:
        try:
            lifted = lift(module, kernel)
            program = design_text(kernel)
        except TileloreError as problem:
            found.append(replace(_unread(path, problem), name=kernel.name, dialect=kernel.dialect))
            continue
        found.append(
            Subject(
                name=kernel.name, dialect=kernel.dialect, path=path, line=kernel.entry.span.line,
                program=program, source=lifted.text, entry=lifted.kernel,
                signatures=tuple(candidates(kernel)), opaque=_opaque(kernel),
                missing=lifted.missing,
            )
        )  # fmt: skip
    return tuple(found)


def _unread(path: str, problem: TileloreError) -> Subject:
    return Subject(
        name="", dialect="", path=path, line=0, program="", source="", entry="", signatures=(),
        problem=problem.text,
    )  # fmt: skip


def _opaque(kernel: Kernel) -> tuple[str, ...]:
    return tuple(f"{op.span.line}: {op.attribute('what')}" for op in opaque_ops(kernel))

"""generate(document, …): a design space and settings as one importable Python file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from generators.module import Provenance, module_text
from kb.dsl.model import Document
from kb.dsl.writer import write
from kb.errors import InputError, SyntaxProblem
from kb.families.registry import family_of
from kb.planner.expressions import parse
from kb.planner.nodes import Literal
from kb.space import Scalar

DIALECTS = ("triton", "cutile")


def generate(
    document: Document, dialect: str, settings: Mapping[str, str] | None = None, arch: str = "sm_90"
) -> str:
    """The source of a kernel with its host function.

    Raises UnknownName for an axis that nothing follows, InputError for a value that cannot be built,
    ConstraintViolated for a point that breaks a constraint, CannotEmit when the dialect cannot say the program.
    """
    if dialect not in DIALECTS:
        raise InputError(f"`{dialect}` cannot be written.", hint=f"Write {' or '.join(DIALECTS)}.")
    values = {name: _scalar(text) for name, text in (settings or {}).items()}
    program = family_of(document)(document, values)
    return module_text(program, provenance_of(document), arch=arch)


def _scalar(text: str) -> Scalar:
    """A setting as the number, truth value or word that it spells."""
    try:
        tree = parse(text)
    except SyntaxProblem:
        return text
    return tree.value if isinstance(tree, Literal) else text


def provenance_of(document: Document) -> Provenance:
    """Where the file came from: the space, what it was derived from, and the decisions that it kept."""
    space = document.space
    lines = [("derived from", origin) for origin in space.derived_from]
    if space.source_digest:
        lines.append(("source", f"{document.path or 'source'}, sha256 {space.source_digest}"))
    return Provenance(
        name=space.name,
        operation=space.operation,
        space_digest=hashlib.sha256(write(document).encode()).hexdigest(),
        lines=tuple(lines),
    )

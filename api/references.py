"""What a person may name as a kernel: `FILE`, `FILE:KERNEL`, a DSL file, a kernel of the base."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from api.cuda_source import SUFFIXES
from api.extract import extract_file
from api.remember import recall, recall_entry
from kb.donor import Donor, donor_from_document, donor_from_knowledge, merged
from kb.dsl.from_knowledge import knowledge_document
from kb.dsl.model import Document
from kb.dsl.program import check_program
from kb.dsl.reader import read
from kb.errors import InputError, UnknownName
from kb.graph.encode import encode
from kb.graph.terms import vocabulary
from kb.knowledge import KernelKnowledge
from kb.store import KernelEntry, Store, open_store

MAX_DSL_BYTES = 8_000_000
NamedKernel = tuple[str, KernelKnowledge]
"""A kernel's IRI and what is known of it."""


def kernels_named(name: str, location: str | None) -> tuple[NamedKernel, ...]:
    """The kernels that a name stands for: those of a file, or one of the knowledge base.

    Raises UnknownName when nothing answers to it, InputError when the file cannot be read.
    """
    path, _, symbol = name.rpartition(":")
    if Path(name).is_file():
        path, symbol = name, ""
    if path and Path(path).is_file():
        return _of_file(path, symbol)
    if ":" not in name and Path(name).suffix in SUFFIXES | {".py"}:
        raise InputError("there is no such file.", where=name, hint="Check the path.")
    with open_store(location, read_only=True) as store:
        return (recall(store, name),)


def kernel_named(name: str, location: str | None) -> NamedKernel:
    """The one kernel of that name; InputError when a file holds several."""
    found = kernels_named(name, location)
    if len(found) > 1:
        listed = ", ".join(f"{name}:{knowledge.kernel.name}" for _, knowledge in found[:6])
        raise InputError(
            f"the file holds {len(found)} kernels.", where=name, hint=f"Name one: {listed}."
        )
    return found[0]


def _of_file(path: str, symbol: str) -> tuple[NamedKernel, ...]:
    source = extract_file(Path(path))
    if not source.kernels:
        note = source.diagnostics[0] if source.diagnostics else None
        message = note.message if note else "no kernel is defined here."
        raise InputError(message, where=path, hint=(note.hint or "") if note else "")
    listed = [knowledge.kernel.name for knowledge in source.kernels]
    if symbol and symbol not in listed:
        near = get_close_matches(symbol, listed, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"It defines {', '.join(listed)}."
        raise UnknownName(f"no kernel is named `{symbol}`.", where=path, hint=hint)
    chosen = [k for k in source.kernels if not symbol or k.kernel.name == symbol]
    return tuple((encode(knowledge).kernel, knowledge) for knowledge in chosen)


def read_dsl(path: str) -> Document:
    """The document of a DSL file. SyntaxProblem with line and column, also for a program that is
    not well formed or not well typed; UnknownName, InputError."""
    try:
        size = Path(path).stat().st_size
        if size > MAX_DSL_BYTES:
            raise InputError(
                f"the file has {size} bytes; at most {MAX_DSL_BYTES} are read.",
                where=path,
                hint="Leave out its evidence.",
            )
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}.", where=path) from None
    except UnicodeDecodeError:
        hint = "Save it as UTF-8 text."
        raise InputError("it is not UTF-8 text.", where=path, hint=hint) from None
    reading = read(text, vocabulary(), where=path)
    check_program(reading, where=path)
    return reading.document


def document_named(name: str, location: str | None) -> Document:
    """A design space: of a DSL file, a kernel in a source file, a kernel of the knowledge base."""
    if Path(name).is_file() and Path(name).suffix != ".py":
        return read_dsl(name)
    if name.endswith(".dsl"):
        raise InputError("there is no such file.", where=name, hint="Check the path.")
    return knowledge_document(kernel_named(name, location)[1])


def donor_named(name: str, location: str | None) -> Donor:
    """Who gives: a DSL file, a kernel, or all kernels of an operation (by any of its names).

    Raises UnknownName with what the knowledge base holds.
    """
    if Path(name).is_file() and Path(name).suffix != ".py":
        return donor_from_document(read_dsl(name), kernel=Path(name).name)
    path = name.rpartition(":")[0] or name
    if Path(path).is_file():
        iri, knowledge = kernel_named(name, location)
        return donor_from_knowledge(knowledge, kernel=iri)
    with open_store(location, read_only=True) as store:
        return donor_of_store(store, name)


def donor_of_store(store: Store, name: str) -> Donor:
    """A kernel of the store by name, or else its kernels of the operation of that name."""
    entries = store.kernels()
    if any(name in (entry.iri, entry.id, entry.label) for entry in entries):
        iri, knowledge = recall(store, name)
        return donor_from_knowledge(knowledge, kernel=iri)
    chosen = _implementing(entries, name)
    return merged([donor_from_knowledge(recall_entry(store, e), kernel=e.iri) for e in chosen])


def _implementing(entries: Sequence[KernelEntry], name: str) -> list[KernelEntry]:
    try:
        operation = vocabulary().operation(name).name
    except UnknownName as error:
        labels = [entry.label for entry in entries]
        near = get_close_matches(name, labels, n=1)
        hint = f"Did you mean the kernel `{near[0]}`? " if near else ""
        raise UnknownName(
            f"`{name}` is neither a kernel known here nor an operation.",
            where="--from",
            hint=hint + error.hint,
        ) from None
    found = [e for e in entries if e.operation.rpartition("/")[2] == operation]
    if not found:
        known = sorted({e.operation.rpartition("/")[2] for e in entries} - {""})
        listed = f"It knows kernels of {', '.join(known)}." if known else "It knows no kernel yet."
        raise UnknownName(
            f"the knowledge base has no kernel that implements `{operation}`.",
            where="--from",
            hint=f"{listed} Read one first: `tilelore extract tilegym`.",
        )
    return found

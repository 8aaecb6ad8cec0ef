"""`make demo`: the whole road on NVIDIA's attention kernel; all that it writes is in one folder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api import console, later
from api.corpora import fetch, pinned
from api.explain import explain, print_findings, print_tuning
from api.extract import extract_file
from api.later import DEFAULT_ARCH
from api.references import donor_of_store, read_dsl
from api.remember import recall, remember
from kb.dsl.check import check_document
from kb.dsl.from_knowledge import knowledge_document
from kb.dsl.model import Document
from kb.dsl.writer import write
from kb.errors import TileloreError
from kb.evidence import AxisKind
from kb.graph.terms import vocabulary
from kb.knowledge import KernelKnowledge, SourceKnowledge
from kb.store import QUESTIONS, Rows, Store, open_store
from kb.transfer import transfer

CORPUS = "tilegym"
FILE = "tilegym/ops/cutile/attention.py"
KERNEL = "_fmha_kernel"
OPERATION = "fmha"
SHOWN = 10
"""Rows of an answer that are printed."""

TARGETS = ("layernorm", "conv2d")
ASKED: tuple[tuple[str, dict[str, str]], ...] = (
    ("dead_tuning_axes", {}),
    ("scale_after_row_max", {}),
    ("axes_shared_by_operations", {"first": "fmha", "second": "layernorm"}),
)


@dataclass
class Journal:
    """What was done, how long it took, and what was written."""

    out: Path
    rows: list[tuple[str, str, str]] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    failed: bool = False

    @contextmanager
    def step(self, title: str) -> Iterator[list[str]]:
        """One step: its result is what the body puts in the list."""
        console.say(f"\n== {title}")
        begin = time.perf_counter()
        result: list[str] = []
        yield result
        self.rows.append((title, " ".join(result), f"{time.perf_counter() - begin:.1f} s"))

    def keep(self, name: str, text: str) -> Path:
        """Write a file of the demo."""
        path = self.out / name
        console.write_text(path, text)
        self.written.append(path)
        console.say(f"wrote {path}")
        return path

    def refuse(self, error: TileloreError, result: list[str]) -> None:
        """A step that did not work."""
        self.failed = True
        console.note(f"tilelore: {error.text}")
        result.append("FAILED")


def run_demo(out: Path) -> bool:
    """Do the main job; False when a generated kernel does not hold.

    Raises InputError when the corpus can neither be found in the cache nor be fetched.
    """
    journal = Journal(out)
    out.mkdir(parents=True, exist_ok=True)
    location = str(out / "kb")
    with journal.step(f"Read {FILE} of {pinned()[CORPUS]}") as result:
        source = _read()
        result.append(f"{len(source.kernels)} kernels")
    with journal.step("Validate and store") as result:
        done = remember([source], location)
        result.append(f"{done.added} added, {done.unchanged} unchanged, {done.replaced} replaced")
    journal.written.append(out / "kb")
    with open_store(location, read_only=True) as store:
        iri, knowledge = recall(store, KERNEL)
        with journal.step(f"What {KERNEL} decides, searches and risks") as result:
            _show(iri, knowledge)
            axes = {d.axis for d in knowledge.decisions}
            result.append(f"{len(knowledge.decisions)} decisions on {len(axes)} axes,")
            result.append(f"{len(knowledge.findings)} findings")
        with journal.step("Ask") as result:
            result.append(", ".join(_ask(store, name, given) for name, given in ASKED))
        spaces = _transfer(journal, store)
    _write_and_verify(journal, "fmha_triton.py", knowledge_document(knowledge))
    _write_and_verify(journal, "layernorm_triton.py", read_dsl(str(spaces[0])))
    _close(journal)
    return not journal.failed


def _read() -> SourceKnowledge:
    corpus = fetch(pinned()[CORPUS])
    package = f"{corpus.package}=={corpus.version}"
    source = extract_file(corpus.folder / FILE, package=package, licence=corpus.licence)
    console.table(
        "",
        ("kernel", "lines", "operation", "decisions", "findings"),
        [
            (
                k.kernel.name,
                console.lines_text([k.lines]),
                k.operation,
                len(k.decisions),
                len(k.findings),
            )
            for k in source.kernels
        ],
    )
    return source


def _show(iri: str, knowledge: KernelKnowledge) -> None:
    """Decisions with lines, tuning space, findings, as they were read back from the graph."""
    document = explain(iri, knowledge, vocabulary())
    for kind in AxisKind:
        rows = [
            (
                d["axis"] + (f" ({d['subject']})" if d["subject"] else ""),
                d["value"],
                console.lines_text(d["lines"]),
            )
            for d in document["decisions"]
            if d["kind"] == kind.value
        ]
        console.table(f"{kind.value} axes", ("axis", "value", "lines"), rows)
    print_tuning(document["tuning"])
    print_findings(document["findings"])


def _ask(store: Store, name: str, given: dict[str, Any]) -> str:
    found = store.ask(name, **given)
    rows = list(found) if isinstance(found, Rows) else []
    columns: Sequence[str] = found.variables if isinstance(found, Rows) else ()
    shown = [[_local(row[column]) for column in columns] for row in rows]
    asked = "".join(f" {key}={value}" for key, value in given.items())
    console.table(f"{QUESTIONS[name].title} ({name}{asked})", columns, shown[:SHOWN])
    if len(shown) > SHOWN:
        console.say(f"and {len(shown) - SHOWN} more")
    return f"{name}: {len(rows)} rows"


def _local(value: object) -> str:
    return "" if value is None else str(value).removeprefix("https://w3id.org/tilelore/")


def _transfer(journal: Journal, store: Store) -> list[Path]:
    """Templates of the target operations as DSL files."""
    spaces = []
    donor = donor_of_store(store, OPERATION)
    for target in TARGETS:
        with journal.step(f"Transfer {OPERATION} to {target}") as result:
            template = transfer(donor, target, vocabulary())
            spaces.append(journal.keep(f"{target}.dsl", write(template.document())))
            result.append(
                f"{len(template.inherited)} axes inherited, {len(template.adapted)} to derive anew,"
                f" {len(template.own)} own, {len(template.holes)} holes"
            )
            for hole in template.holes:
                console.say(f"  open: {hole}")
    return spaces


def _write_and_verify(journal: Journal, name: str, document: Document) -> None:
    """A Triton kernel from a design space, checked against the reference; a refusal is noted."""
    path = None
    with journal.step(f"Write {name}") as result:
        try:
            check_document(document, where=document.space.name)
            text = later.generate(document, "triton", {}, DEFAULT_ARCH)
            path = journal.keep(name, text)
            result.append(f"{len(text.splitlines())} lines")
        except TileloreError as error:
            journal.refuse(error, result)
    if path is None:
        return
    with journal.step(f"Verify {name}") as result:
        try:
            report = later.verify(path)
            found = report.to_json()
            console.print_report({k: v for k, v in found.items() if k != "redetected"})
            result.append("holds" if report.passed else "DOES NOT HOLD")
            journal.failed = journal.failed or not report.passed
        except TileloreError as error:
            journal.refuse(error, result)


def _close(journal: Journal) -> None:
    console.say("")
    console.table("What was done", ("step", "result", "time"), journal.rows)
    console.say("Written:")
    for path in journal.written:
        console.say(f"  {path}")

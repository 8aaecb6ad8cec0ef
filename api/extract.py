"""From source text to knowledge: all that the kernels of a file decide, search and demand.

The source is data: it is read, never imported and never run. A loader may look at sibling modules
of the same package folder and at nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from api.cuda_source import SUFFIXES as CUDA_SUFFIXES
from api.cuda_source import read_file
from api.including import look_anew
from api.lookups import Lookups
from api.pool import Work, each, in_order
from api.source_files import FolderModules, SiblingTables
from api.sources import SourceFile, lone_file
from extractors.by_file import in_their_files, note_in_file
from extractors.detect import Detection, detect
from extractors.host.events import KernelSignature
from extractors.host.facts import HostFacts
from extractors.host.read import read_host
from extractors.modules import ModuleText
from extractors.read import ReadModule, read
from extractors.syntax.python import MAX_BYTES, decode
from extractors.told_together import told_together
from kb.analysis.numerics import numerics_of
from kb.errors import InputError, SyntaxProblem
from kb.evidence import Diagnostic, Severity
from kb.fulfilled import fulfilled
from kb.graph.axis_numerics import axis_classes
from kb.implications import follows
from kb.ir import Kernel, ParameterKind
from kb.knowledge import KernelKnowledge, Source, SourceKnowledge
from kb.planner.expressions import parse
from kb.space import Constraint, Launch, Origin

Progress = Callable[[int, int, str], None]
"""Told after each file: how many are done, of how many, and which."""

_PLACE = re.compile(r":(\d+)(?::\d+)?$")


def extract_file(
    path: Path, *, package: str | None = None, licence: str | None = None
) -> SourceKnowledge:
    """Everything that the kernels of one file say.

    Raises InputError (unreadable, too large, not UTF-8, no Python file) and SyntaxProblem with line
    and column. A file without kernels is no error here: its diagnostics say so.
    """
    look_anew()
    return extract_source(lone_file(str(path), package=package, licence=licence))


def extract_source(file: SourceFile, lookups: Lookups | None = None) -> SourceKnowledge:
    """`extract_file` for a file whose root and name are known; `lookups` hears of other files."""
    data = _bytes(file)
    text = decode(data, file.shown)
    try:
        if file.path.suffix in CUDA_SUFFIXES:
            cuda = read_file(file, text, lookups)
            source = _source(file, data, ["cuda"])
            return _knowledge(source, cuda.kernels, cuda.hosts, cuda.diagnostics)
        found = read(_module(file, text), FolderModules(file.root, lookups))
        source = _source(file, data, [kernel.dialect for kernel in found.kernels])
        return _knowledge(source, found.kernels, _hosts(file, found, lookups), found.diagnostics)
    except RecursionError:
        raise SyntaxProblem(
            "the program nests too deeply to be analysed.", where=file.shown, hint="Split it."
        ) from None


def extract_or_explain(file: SourceFile, lookups: Lookups | None = None) -> SourceKnowledge:
    """The same, with what stood in the way as an error diagnostic instead of an exception."""
    try:
        return extract_source(file, lookups)
    except InputError as error:
        place = _PLACE.search(error.where)
        line = int(place.group(1)) if place else 0
        problem = Diagnostic(
            severity=Severity.ERROR,
            message=error.message,
            hint=error.hint or None,
            lines=(line, line) if line else None,
        )
        source = _source(file, file.head(), [])
        return SourceKnowledge(source=source, kernels=(), diagnostics=(problem,))


def extract_many(
    files: Sequence[SourceFile], *, jobs: int = 0, progress: Progress | None = None
) -> tuple[SourceKnowledge, ...]:
    """Files in their order, read by `jobs` processes (0: one per core). What fails has diagnostics.

    A file that ends its process or takes too long is reported and the others go on.
    """
    look_anew()
    count = 0

    def tell(index: int) -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(count, len(files), files[index].shown)

    return in_order(each(Work(extract_or_explain, unread), files, jobs=jobs), tell)


def unread(file: SourceFile, why: str) -> SourceKnowledge:
    """Nothing, and the reason."""
    hint = "Read it alone; is there enough memory?"
    problem = Diagnostic(severity=Severity.ERROR, message=why, hint=hint)
    source = _source(file, file.head(), [])
    return SourceKnowledge(source=source, kernels=(), diagnostics=(problem,))


def _bytes(file: SourceFile) -> bytes:
    if file.path.suffix not in {".py", *CUDA_SUFFIXES}:
        raise InputError(
            f"`{file.path.suffix or file.path.name}` is not a kind of source that is read.",
            where=file.shown,
            hint="Give a Python file with cuTile or Triton kernels, a .cu, .cuh, .h or .hpp file, "
            "a folder, or NAME==VERSION.",
        )
    try:
        size = file.path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(
                f"the file has {size} bytes; at most {MAX_BYTES} are read.",
                where=file.shown,
                hint="Split the module.",
            )
        return file.path.read_bytes()
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}.", where=file.shown) from None


def _module(file: SourceFile, text: str) -> ModuleText:
    relative = file.path.relative_to(file.root).with_suffix("")
    is_package = relative.name == "__init__"
    parts = relative.parts[:-1] if is_package else relative.parts
    dotted = ".".join(parts) if all(part.isidentifier() for part in parts) else ""
    return ModuleText(dotted, file.shown, text, is_package)


def _source(file: SourceFile, data: bytes, dialects: Sequence[str]) -> Source:
    counted = Counter(dialects).most_common(1)
    named = "cutile" if b"cuda.tile" in data or b"triton" not in data else "triton"
    return Source(
        path=file.shown,
        sha256=hashlib.sha256(data).hexdigest(),
        dialect=counted[0][0] if counted else named,
        package=file.package,
        licence=file.licence,
    )


def _hosts(file: SourceFile, found: ReadModule, lookups: Lookups | None) -> Mapping[str, HostFacts]:
    """What the host code of a module says of its kernels."""
    signatures = {kernel.name: signature_of(kernel) for kernel in found.kernels}
    if not signatures:
        return {}
    loader = SiblingTables(file.root, lookups=lookups)
    path = str(file.path.relative_to(file.root))
    return read_host(found.tree, path=path, kernels=signatures, loader=loader)


def _knowledge(
    source: Source,
    found: Sequence[Kernel],
    hosts: Mapping[str, HostFacts],
    diagnostics: Sequence[Diagnostic],
) -> SourceKnowledge:
    notes = [*diagnostics]
    kernels = []
    for kernel in found:
        facts = hosts.get(kernel.name, HostFacts())
        detection = detect(kernel, facts)
        told = [*facts.diagnostics, *_incomplete(kernel.name, facts), *_unbound(kernel, facts)]
        constraints, strange = _constraints(kernel, facts, detection.constraints)
        notes += [note_in_file(note, facts.files) for note in (*told, *strange)]
        known = _combined(kernel, source, facts, detection, constraints)
        kernels.append(in_their_files(known, facts.files))
    return SourceKnowledge(
        source=source, kernels=tuple(kernels), diagnostics=tuple(dict.fromkeys(notes))
    )


def signature_of(kernel: Kernel) -> KernelSignature:
    """What the host reader must know of a kernel that was read."""
    return KernelSignature(
        name=kernel.name,
        params=tuple((p.name, p.kind is ParameterKind.CONSTEXPR) for p in kernel.entry.parameters),
        decorator_hints=kernel.entry.options,
        lines=kernel.entry.span.lines,
    )


def _incomplete(name: str, facts: HostFacts) -> Iterator[Diagnostic]:
    """Spaces that could not be evaluated in full and that the host reader did not speak of."""
    told = " ".join(note.message for note in facts.diagnostics)
    for space in facts.tuning.spaces:
        if not space.complete and (space.reason or "") not in told:
            yield Diagnostic(
                severity=Severity.WARNING,
                message=f"not all configurations of `{name}` are known: {space.reason}",
                hint="What can be evaluated: literals, loops over them, conditions on the target.",
                lines=space.lines or facts.tuning.lines,
            )


def _bound(launch: Launch, kernel: Kernel) -> Launch:
    """The launch with what is passed to parameters that the kernel has."""
    known = kernel.entry.parameter_names
    return replace(launch, bindings=tuple(b for b in launch.bindings if b.parameter in known))


def _unbound(kernel: Kernel, facts: HostFacts) -> Iterator[Diagnostic]:
    """Values that a launch carries and that the kernel has no parameter for."""
    for launch in facts.launches:
        for binding in launch.bindings:
            if binding.parameter not in kernel.entry.parameter_names:
                yield Diagnostic(
                    severity=Severity.NOTE,
                    message=f"`{kernel.name}` has no parameter `{binding.parameter}`; "
                    "what the launch says of it is left out.",
                    lines=launch.lines,
                )


def _combined(
    kernel: Kernel,
    source: Source,
    facts: HostFacts,
    detection: Detection,
    constraints: tuple[Constraint, ...],
) -> KernelKnowledge:
    """One record of what the program and the host code around it say."""
    launches = tuple(_bound(launch, kernel) for launch in facts.launches)
    return KernelKnowledge(
        kernel=kernel,
        source=replace(source, dialect=kernel.dialect),
        lines=kernel.entry.span.lines,
        operation=detection.operation,
        parameters=detection.parameters,
        decisions=told_together(detection, facts),
        tuning=facts.tuning,
        launches=launches,
        constraints=constraints,
        findings=detection.findings,
        operations=detection.operations,
        opaque=detection.opaque,
        numerics=numerics_of(
            detection.facts, facts.tuning, detection.parameters, launches, axis_classes()
        ),
    )


def _constraints(
    kernel: Kernel, facts: HostFacts, implied: Sequence[Constraint]
) -> tuple[tuple[Constraint, ...], list[Diagnostic]]:
    """Constraints by expression, stated ones first; those beyond the grammar become notes. The host
    sees to one that the program implies when what it checks or passes says so."""
    kept: dict[str, Constraint] = {}
    notes: list[Diagnostic] = []
    found = (*facts.constraints, *implied)
    checked = {*facts.arguments, *(c.expression for c in found if c.checked_by_host)}
    checked = {part for text in checked for part in (text, *text.split(" and "))}
    for constraint in sorted(found, key=lambda c: c.origin is not Origin.STATED):
        text, problem = _within_grammar(constraint.expression)
        if problem:
            message = f"{kernel.name}: a constraint has no expression here: {problem}"
            notes.append(
                Diagnostic(severity=Severity.NOTE, message=message, lines=constraint.lines)
            )
        if text and text not in kept:
            known = (
                constraint.checked_by_host
                or follows(text, checked)
                or fulfilled(text, facts.launches, facts.tuning.spaces, checked)
            )
            kept[text] = replace(constraint, expression=text, checked_by_host=known)
    return tuple(kept.values()), notes


def _within_grammar(expression: str) -> tuple[str, str]:
    """What the grammar has words for, of conditions that hold together each by itself, and what is
    wrong with the whole."""
    problem = _beyond_grammar(expression)
    if not problem:
        return expression, ""
    parts = expression.split(" and ") if " or " not in expression else []
    return " and ".join(part for part in parts if not _beyond_grammar(part)), problem


def _beyond_grammar(expression: str) -> str:
    try:
        parse(expression)
    except SyntaxProblem as problem:
        return f"`{expression}`: {problem.message}"
    return ""


def kernels_of(sources: Sequence[SourceKnowledge]) -> Iterator[KernelKnowledge]:
    """Every kernel of several files, in order."""
    for source in sources:
        yield from source.kernels

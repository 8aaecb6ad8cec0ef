"""Lines of several files in one row of numbers: those of each further file begin beyond the last
that any file has. What is told of a kernel names them in their files again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kb.evidence import AxisNumerics, Decision, Diagnostic, Finding, Lines
from kb.ir import Origin
from kb.knowledge import KernelKnowledge
from kb.space import Constraint, Launch, Point, Tuning

BEYOND = 10_000_000
"""More lines than a file may have."""

_TOLD = re.compile(r"\b(lines? )(\d{8,9})(?:-(\d{8,9}))?\b")
_AT = re.compile(r"@(\d{8,9})\b")
"""A condition that is named by its line."""


def in_their_files(known: KernelKnowledge, files: Sequence[str]) -> KernelKnowledge:
    """What is known of a kernel, all lines in the files that they stand in: `files` are the further
    ones, in order."""
    if not files:
        return known
    home = known.kernel.entry.span.path
    return replace(
        known,
        decisions=tuple(_decision(one, files, home) for one in known.decisions),
        tuning=_tuning(known.tuning, files),
        launches=tuple(_launch(one, files) for one in known.launches),
        constraints=tuple(_constraint(one, files) for one in known.constraints),
        findings=tuple(_findings(known.findings, files)),
        numerics=tuple(_numerics(one, files) for one in known.numerics),
    )


def note_in_file(note: Diagnostic, files: Sequence[str]) -> Diagnostic:
    """A note that names the other file that it is about."""
    if note.lines is None or note.lines[0] < BEYOND:
        return replace(note, message=_words(note.message, files)) if files else note
    file, (first, _) = _place(note.lines, files)
    message = f"{_words(note.message, files)} ({file}:{first})"
    return replace(note, message=message, lines=None)


def _place(lines: Lines, files: Sequence[str]) -> Origin:
    number, first = divmod(lines[0], BEYOND)
    return files[number - 1], (first, lines[1] - number * BEYOND)


def _apart(lines: Iterable[Lines], files: Sequence[str]) -> tuple[list[Lines], list[Origin]]:
    """Lines of the kernel's own file, and those of others."""
    rows = list(lines)
    own = [one for one in rows if one[0] < BEYOND]
    return own, [_place(one, files) for one in rows if one[0] >= BEYOND]


def _words(text: str, files: Sequence[str]) -> str:
    """A text in which lines of other files are named with their file."""

    def told(found: re.Match[str]) -> str:
        first = int(found[2])
        file, (at, end) = _place((first, int(found[3] or first)), files)
        return f"{found[1]}{at}{f'-{end}' if found[3] else ''} of {file}"

    return _AT.sub(lambda found: f"@{int(found[1]) % BEYOND}", _TOLD.sub(told, text))


def _decision(decision: Decision, files: Sequence[str], home: str) -> Decision:
    """What nothing in the kernel's own file shows is a decision of the other file, which may lead
    back to that of the kernel."""
    own, others = _apart(decision.lines, files)
    if not others:
        return decision
    own += [lines for at, lines in decision.elsewhere if at == home]
    file = None if own else others[0][0]
    shown = own or [lines for at, lines in others if at == file]
    led = {one for one in (*others, *decision.elsewhere) if one[0] not in (file, home)}
    return replace(decision, lines=tuple(shown), file=file, elsewhere=tuple(sorted(led)))


def _launch(launch: Launch, files: Sequence[str]) -> Launch:
    if launch.lines[0] < BEYOND:
        return launch
    file, lines = _place(launch.lines, files)
    return replace(
        launch,
        file=file,
        lines=lines,
        when=_words(launch.when, files),
        grid=tuple(_words(one, files) for one in launch.grid),
        hints=_point(launch.hints, files),
        bindings=tuple(
            replace(one, expression=_words(one.expression, files)) for one in launch.bindings
        ),
    )


def _point(point: Point, files: Sequence[str]) -> Point:
    return tuple((k, _words(v, files) if isinstance(v, str) else v) for k, v in point)


def _tuning(tuning: Tuning, files: Sequence[str]) -> Tuning:
    spaces = tuple(
        replace(
            one,
            when=_words(one.when, files),
            lines=_own(one.lines),
            reason=_words(one.reason, files) if one.reason else one.reason,
        )
        for one in tuning.spaces
    )
    return replace(tuning, spaces=spaces, lines=_own(tuning.lines))


def _own(lines: Lines | None) -> Lines | None:
    return lines if lines is not None and lines[0] < BEYOND else None


def _constraint(constraint: Constraint, files: Sequence[str]) -> Constraint:
    because = _words(constraint.because, files) if constraint.because else constraint.because
    constraint = replace(constraint, expression=_words(constraint.expression, files))
    if constraint.lines is None or constraint.lines[0] < BEYOND:
        return replace(constraint, because=because)
    file, (first, last) = _place(constraint.lines, files)
    place = f"{file}:{first}" if first == last else f"{file}:{first}-{last}"
    return replace(constraint, because=because, lines=None, source=constraint.source or place)


def _findings(findings: Iterable[Finding], files: Sequence[str]) -> Iterator[Finding]:
    """Findings at their lines in the kernel's own file; what another file alone shows is not about
    the kernel."""
    for finding in findings:
        own, others = _apart(finding.lines, files)
        if own or not others:
            fix = _words(finding.fix, files) if finding.fix else finding.fix
            message = _words(finding.message, files)
            yield replace(finding, lines=tuple(own), message=message, fix=fix)


def _numerics(row: AxisNumerics, files: Sequence[str]) -> AxisNumerics:
    own, _ = _apart(row.lines, files)
    return replace(row, lines=tuple(own), reason=_words(row.reason, files))

"""Lines of several files are told in the files that they stand in."""

from __future__ import annotations

from dataclasses import replace

from extractors.by_file import BEYOND, in_their_files, note_in_file
from kb.evidence import Decision, Diagnostic, Finding, Lines, Severity
from kb.ir import Function, Kernel, Region, Span
from kb.knowledge import KernelKnowledge, Source
from kb.space import Constraint, GuardedPoints, Launch, Origin, Tuning

FILES = ("a.py", "b.py")


def at(first: int, last: int, file: int = 0) -> Lines:
    """Lines of the kernel's own file, or of a further one."""
    return first + file * BEYOND, last + file * BEYOND


def decision(*lines: Lines) -> Decision:
    return Decision(axis="num_warps", value="fixed 8", pattern="p", lines=lines)


def known(
    decisions: tuple[Decision, ...] = (),
    findings: tuple[Finding, ...] = (),
    constraints: tuple[Constraint, ...] = (),
    tuning: Tuning | None = None,
) -> KernelKnowledge:
    entry = Function("k", (), Region(), Span(1, 0, 9, "k.py"))
    return KernelKnowledge(
        kernel=Kernel(entry, dialect="triton"),
        source=Source(path="k.py", sha256="0", dialect="triton"),
        lines=(1, 9),
        operation=None,
        parameters=(),
        decisions=decisions,
        tuning=tuning or Tuning(),
        launches=(
            Launch(
                grid=(), bindings=(), hints=(), lines=at(3, 5, 2), when=f"condition@{BEYOND + 7}"
            ),
        ),
        constraints=constraints,
        findings=findings,
        operations=0,
        opaque=0,
    )


def test_a_decision_that_the_kernels_file_shows_is_of_it() -> None:
    rows = (decision(at(4, 4), at(7, 8, 1), at(2, 2, 2)), decision(at(5, 5)))
    mixed, own = in_their_files(known(rows), FILES).decisions
    assert (mixed.file, mixed.lines) == (None, ((4, 4),))
    assert mixed.elsewhere == (("a.py", (7, 8)), ("b.py", (2, 2)))
    assert own == rows[1]


def test_a_decision_that_it_does_not_show_is_of_the_first_that_does() -> None:
    (told,) = in_their_files(known((decision(at(7, 8, 1), at(2, 2, 2)),)), FILES).decisions
    assert (told.file, told.lines, told.elsewhere) == ("a.py", ((7, 8),), (("b.py", (2, 2)),))


def test_what_leads_back_to_the_kernels_file_is_shown_there() -> None:
    row = replace(decision(at(7, 8, 1)), elsewhere=(("k.py", (3, 3)), ("c.py", (1, 2))))
    (told,) = in_their_files(known((row,)), FILES).decisions
    assert (told.file, told.lines) == (None, ((3, 3),))
    assert told.elsewhere == (("a.py", (7, 8)), ("c.py", (1, 2)))


def test_launches_constraints_spaces_and_findings() -> None:
    finding = Finding(
        rule="r",
        severity=Severity.NOTE,
        message=f"compare line {BEYOND + 12} and lines {BEYOND + 3}-{BEYOND + 4}",
        lines=(at(12, 12, 1), at(5, 5)),
    )
    other = replace(finding, lines=(at(12, 12, 1),))
    stated = Constraint(expression="n > 0", origin=Origin.STATED, lines=at(6, 6, 1))
    tuning = Tuning(
        lines=at(8, 8, 1), spaces=(GuardedPoints(when="always", points=(), lines=at(8, 9)),)
    )
    told = in_their_files(known((), (finding, other), (stated,), tuning), FILES)
    (launch,) = told.launches
    assert (launch.file, launch.lines, launch.when) == ("b.py", (3, 5), "condition@7")
    assert (told.constraints[0].lines, told.constraints[0].source) == (None, "a.py:6")
    (shown,) = told.findings
    assert shown.lines == ((5, 5),)
    assert shown.message == "compare line 12 of a.py and lines 3-4 of a.py"
    assert (told.tuning.lines, told.tuning.spaces[0].lines) == (None, (8, 9))


def test_notes_name_the_file() -> None:
    note = Diagnostic(severity=Severity.NOTE, message="not known", lines=at(5, 6, 2))
    assert note_in_file(note, FILES).message == "not known (b.py:5)"
    assert note_in_file(note, FILES).lines is None
    own = Diagnostic(severity=Severity.NOTE, message="not known", lines=(5, 6))
    assert note_in_file(own, FILES) == own

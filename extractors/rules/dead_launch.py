"""A launch stands in a branch that is never taken."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.callers import leading
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, functions_of
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import ROWS_POINTER
from extractors.syntax.nodes import each
from kb.evidence import Finding, Lines, Severity

_OTHER = """
@triton.jit
def chunks(x, out, n, T: tl.constexpr):
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0) * 2.0, mask=at < n)
"""
_RUN = """
def run(x):
    m, n = x.shape
    T = triton.next_power_of_2(n)
    out = torch.empty_like(x)
    if n <= T:
        rows[(m,)](x, out, n, T)
    else:
        chunks[(m,)](x, out, n, T)
    return out
"""
_BRANCH = vary(ROWS_POINTER, ("import torch\n", f"import torch\n{_OTHER}")) + _RUN
_LAST = ROWS_POINTER + _OTHER + _RUN


class DeadLaunch(Rule):
    """The condition that chooses between two kernels compares a size with the same size rounded up:
    the kernel in the other branch is never launched there. Told of both kernels."""

    name = "dead-launch"
    dialects = ("triton",)
    matches = (
        Case(_BRANCH, "`chunks`"),
        Case(
            vary(_BRANCH, ("n <= T", "n > T"), ("        rows[(m,)]", "        first[(m,)]"),
                 ("        chunks[(m,)]", "        rows[(m,)]"),
                 ("        first[(m,)]", "        chunks[(m,)]")),
            "`chunks`",
        ),
        Case(_LAST, "the launch of `chunks`"),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_BRANCH, ("T = triton.next_power_of_2(n)",
                           "T = min(1024, triton.next_power_of_2(n))")),
            why="the rounded size has a limit, and longer rows exceed it",
        ),
        NearMiss(vary(_BRANCH, ("n <= T", "T <= 1024")), why="it depends on the size"),
        NearMiss(vary(_LAST, ("n <= T", "T <= 1024")), why="one side or the other is launched"),
        NearMiss(
            _LAST + "\ndef more(x):\n    chunks[(1,)](x, x, x.numel(), 64)\n",
            why="another function launches it",
        ),
        NearMiss(vary(_BRANCH, ("n <= T", "LONG")), why="a flag of the module is no condition"),
    )  # fmt: skip
    seen = (
        Seen(
            "liger-kernel",
            "liger_kernel/ops/softmax.py",
            "_softmax_single_block_forward_kernel",
            124,
        ),
        Seen(
            "liger-kernel",
            "liger_kernel/ops/softmax.py",
            "_softmax_multi_block_forward_kernel",
            124,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        told: set[int] = set()
        reached = _reached(material) if material is not None else set()
        for launch in material.sites() if material is not None else ():
            dead_ones = _dead(material, launch, reached) if material is not None else ()
            for test, dead, lines in dead_ones:
                if test.lineno not in told:
                    told.add(test.lineno)
                    yield self.finding(
                        subject,
                        f"`{ast.unparse(test)}` (line {test.lineno}) has one outcome whatever the "
                        f"sizes are: the launch of `{dead}` at line {lines[0]} is never reached",
                        "drop the branch, or compare with the limit that is meant",
                        [(test.lineno, lines[1])],
                        Severity.NOTE,
                    )
        if material is not None and not material.launches:
            yield from self._never(subject, material, reached)

    def _never(self, subject: Subject, material: Material, reached: set[int]) -> Iterator[Finding]:
        """The kernel that every launch of stands on a side that no way through the host reaches,
        beside a launch that one does."""
        name = material.signature.name
        tests = {
            lines: test
            for function in functions_of(material.tree)
            for test, dead, lines in _sides(function, reached)
            if dead == name
        }
        own = [call for call, dead in _launches(material.tree.body) if dead == name]
        if tests and len(own) == len(tests) and material.launched_here_only():
            lines, test = next(iter(tests.items()))
            yield self.finding(
                subject,
                f"`{ast.unparse(test)}` (line {test.lineno}) has one outcome whatever the sizes "
                f"are: the launch of `{name}` at line {lines[0]} is never reached",
                "drop the branch, or compare with the limit that is meant",
                [(test.lineno, lines[1])],
                Severity.NOTE,
            )


def _sides(function: ast.AST, reached: set[int]) -> Iterator[tuple[ast.expr, str, Lines]]:
    """Test, kernel and lines of launches on a side that no way through the host reaches, where one
    on the other side is reached."""
    for node in each(function, ast.If):
        if not node.orelse or not _ordered(node.test):
            continue
        for live, other in ((node.body, node.orelse), (node.orelse, node.body)):
            calls = list(_launches(other))
            if any(c.lineno in reached for c, _ in calls):
                continue
            if any(c.lineno in reached for c, _ in _launches(live)):
                for call, name in calls:
                    yield node.test, name, (call.lineno, call.end_lineno or call.lineno)


def _reached(material: Material) -> set[int]:
    """Lines of all launches that a way through the host reaches."""
    events = (event for row in material.events.values() for event in row)
    places = {event.lines for event in events if isinstance(event, LaunchRecord)}
    return {line for first, last in places for line in range(first, last + 1)}


def _dead(
    material: Material, launch: LaunchRecord, reached: set[int]
) -> Iterator[tuple[ast.expr, str, Lines]]:
    """Test, kernel and lines of launches beside this one that no way through the host reaches."""
    for function in leading(material, launch)[-1:]:
        for node in each(function, ast.If):
            if not node.orelse or not _ordered(node.test):
                continue
            for live, other in ((node.body, node.orelse), (node.orelse, node.body)):
                if any(one.lineno <= launch.lines[0] <= (one.end_lineno or 0) for one in live):
                    calls = list(_launches(other))
                    if calls and not any(c.lineno in reached for c, _ in calls):
                        call, name = calls[0]
                        yield node.test, name, (call.lineno, call.end_lineno or call.lineno)


def _ordered(test: ast.expr) -> bool:
    """A comparison of two names by size."""
    return (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.LtE | ast.Gt | ast.Lt | ast.GtE)
        and isinstance(test.left, ast.Name)
        and isinstance(test.comparators[0], ast.Name)
    )


def _launches(body: list[ast.stmt]) -> Iterator[tuple[ast.Call, str]]:
    for statement in body:
        for node in each(statement, ast.Call):
            if isinstance(node.func, ast.Subscript):
                yield node, ast.unparse(node.func.value)

"""A host function on the way to the launch accepts an argument and never reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.callers import called, leading
from extractors.host.facts import read_names
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from kb.evidence import Finding, Severity

_ACCEPTED = vary(AUTOTUNED, ("def run(x):", "def run(x, wide=False):"))
_TILED = vary(SEARCHED, ("def run(x):", "def run(x, **options):"))


class IgnoredArgument(Rule):
    """A parameter of a host function that leads to the launch, which its body never reads: whoever
    passes it changes nothing."""

    name = "ignored-argument"
    matches = (Case(_ACCEPTED, "`wide`"), Case(_TILED, "`options`"))
    near_misses = (
        NearMiss(AUTOTUNED, why="every argument is read"),
        NearMiss(
            vary(_ACCEPTED, ("    n = x.numel()", "    n = x.numel() if wide else x.shape[0]")),
            why="a value depends on it",
        ),
        NearMiss(vary(_ACCEPTED, ("wide", "_wide")), why="its name says that it is not used"),
        NearMiss(
            vary(_ACCEPTED, ("    n = x.numel()", "    n = [x.numel() for _ in [wide]][0]")),
            why="a comprehension reads it",
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_kernel", 847),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        told: set[ast.arg] = set()
        for launch in material.sites() if material is not None else ():
            for function in leading(material, launch) if material is not None else ():
                ignored = [arg for arg in _ignored(function) if arg not in told]
                told.update(ignored)
                if ignored:
                    names = ", ".join(f"`{arg.arg}`" for arg in ignored)
                    yield self.finding(
                        subject,
                        f"`{function.name}` accepts {names} and never reads "
                        f"{'them' if len(ignored) > 1 else 'it'}: passing another value changes "
                        "nothing",
                        "use it, refuse values that would need it, or drop it",
                        [(arg.lineno, arg.end_lineno or arg.lineno) for arg in ignored],
                        Severity.NOTE,
                    )


def _ignored(function: ast.FunctionDef) -> Iterator[ast.arg]:
    """Parameters that nothing reads. The signature of a backward pass is not its author's."""
    if function.name == "backward" or {"locals", "vars", "eval"} & called(function):
        return
    read = read_names(function)
    given = function.args
    rows = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    for position, arg in enumerate(rows):
        if arg is None or arg.arg in read or arg.arg.startswith("_"):
            continue
        if position == 0 and arg.arg in ("self", "cls", "ctx"):
            continue
        yield arg

"""The annotation of what a host function returns names another number of values."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache

from extractors.host.callers import behind
from extractors.host.origins import lines_of
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from extractors.syntax.nodes import children
from kb.evidence import Finding, Severity

_ONE = vary(
    AUTOTUNED,
    ("def run(x):", "def run(x) -> torch.Tensor:"),
    ("    return out\n", "    return out, n\n"),
)
_TWO = vary(
    SEARCHED,
    ("def run(x):", "def run(x) -> tuple[torch.Tensor, torch.Tensor]:"),
    ("    return out\n", "    return out, x, n\n"),
)
_SINGLE = frozenset({"Tensor", "int", "float", "bool", "str"})


class ReturnAnnotation(Rule):
    """A function on the way to the launch, or one that it calls, is annotated to return one value
    or a tuple of so many, and each of its returns gives a tuple of another number."""

    name = "return-annotation"
    matches = (Case(_ONE, "`run`"), Case(_TWO, "2 values"))
    near_misses = (
        NearMiss(vary(_ONE, ("return out, n", "return out")), why="one value"),
        NearMiss(vary(_TWO, ("return out, x, n", "return out, x")), why="two values"),
        NearMiss(
            vary(_TWO, ("return out, x, n", "return out, *x.shape")),
            why="nobody says how many there are",
        ),
        NearMiss(
            vary(_ONE, (" -> torch.Tensor", " -> tuple[torch.Tensor, ...]")), why="any number"
        ),
        NearMiss(vary(_ONE, (" -> torch.Tensor", " -> Outcome")), why="a name of a type"),
        NearMiss(
            vary(_ONE, ("    return out, n\n", "    def pair():\n        return out, n\n"
                        "    return pair()[0]\n")),
            why="what a function inside returns",
        ),
    )  # fmt: skip
    seen = (Seen("fla-core", "fla/ops/common/chunk_o.py", "chunk_bwd_kernel_dqkwg", 726),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for function in behind(material) if material is not None else ():
            told = _mismatch(function)
            if told is not None and function.returns is not None:
                said, given, returned = told
                yield self.finding(
                    subject,
                    f"`{function.name}` is annotated to return {_values(said)} and returns "
                    f"{_values(given)}: the return annotation misleads callers and checkers",
                    "annotate what is returned",
                    [lines_of(function.returns), lines_of(returned)],
                    Severity.NOTE,
                )


def _values(number: int) -> str:
    return "one value" if number == 1 else f"{number} values"


@lru_cache(maxsize=2048)
def _mismatch(function: ast.FunctionDef) -> tuple[int, int, ast.Return] | None:
    """How many values the annotation names, how many are returned, and where."""
    said = _said(function.returns)
    if said is None:
        return None
    returned = list(_returns(function))
    rows = [one.value for one in returned]
    if not rows or any(isinstance(n, ast.Yield | ast.YieldFrom) for n in _own(function)):
        return None
    counts = set()
    for value in rows:
        if not isinstance(value, ast.Tuple) or any(isinstance(e, ast.Starred) for e in value.elts):
            return None
        counts.add(len(value.elts))
    if len(counts) != 1 or said in counts:
        return None
    return said, counts.pop(), returned[-1]


def _said(annotation: ast.expr | None) -> int | None:
    """How many values an annotation names; None where it leaves that open."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return None
    name = annotation.attr if isinstance(annotation, ast.Attribute) else None
    name = annotation.id if isinstance(annotation, ast.Name) else name
    if name in _SINGLE:
        return 1
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
        return None
    base = annotation.value
    called = base.id if isinstance(base, ast.Name) else getattr(base, "attr", "")
    members = annotation.slice.elts
    if called not in ("tuple", "Tuple") or any(
        isinstance(one, ast.Constant) and one.value is Ellipsis for one in members
    ):
        return None
    return len(members)


def _returns(function: ast.FunctionDef) -> Iterator[ast.Return]:
    return (one for one in _own(function) if isinstance(one, ast.Return))


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Nodes of a function that belong to no function inside it, in the order of the text."""
    pending: list[ast.AST] = list(reversed(function.body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending += reversed(children(node))

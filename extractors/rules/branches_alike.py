"""Two branches that stand side by side do the same."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from extractors.host.callers import behind
from extractors.host.facts import Material, function_at
from extractors.host.origins import lines_of
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from extractors.syntax.nodes import each, walk
from kb.evidence import Finding, Lines, Severity

_SPACE = vary(
    SEARCHED,
    (
        "        yield SimpleNamespace(T=256, occupancy=1)",
        "        yield SimpleNamespace(T=64, occupancy=1)\n"
        "        yield SimpleNamespace(T=128, occupancy=2)",
    ),
)
_STEPS = (
    vary(AUTOTUNED, ("n = x.numel()", "n = rows(x.numel())"))
    + """
def rows(n):
    if n >= 256:
        return 128
    if n >= 96:
        return 128
    return 64
"""
)


class BranchesAlike(Rule):
    """Two branches that stand side by side, in the kernel or on the way to its launch, hold the
    same statements: what chooses between them changes nothing."""

    name = "branches-alike"
    matches = (
        Case(_SPACE, "`cap[0] < 9`"),
        Case(_STEPS, "`n >= 96`"),
        Case(vary(_STEPS, ("return 64", "return 64 if n > 8 else 64")), "`n > 8`"),
    )
    near_misses = (
        NearMiss(SEARCHED, why="another space"),
        NearMiss(
            vary(_STEPS, ("n >= 96:\n        return 128", "n >= 96:\n        return 96")),
            why="another number",
        ),
        NearMiss(
            vary(_STEPS, ("n >= 96:", "x % 2 == 0:")), why="another question with the same answer"
        ),
        NearMiss(
            vary(
                _STEPS,
                ("    if n >= 96:\n        return 128\n", "    n = n // 2\n"),
                ("return 64", "return 128 if n > 4 else 64"),
            ),
            why="one branch alone",
        ),
        NearMiss(
            vary(
                _SPACE,
                ("    if cap[0] < 9:", "    if d == 'small':"),
                ("    else:", "    elif d == 'short':"),
            ),
            why="two words for one thing",
        ),
    )
    seen = (
        Seen("tilegym", "tilegym/suites/flashinfer/cutile/gemm/ragged_bmm.py",
             "_ragged_bmm_kernel", 310),
        Seen("liger-kernel", "liger_kernel/ops/cutile/ops/llama4_rope.py",
             "_llama4_rope_kernel_ct", 29),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for function in _functions(material) if material is not None else ():
            for asked, lines in _alike(function):
                yield self.finding(
                    subject,
                    f"two branches at `{asked}` in `{function.name}` hold the same: one of them "
                    "could stand for both",
                    "keep one of them, or write what the other was meant to do",
                    lines,
                    Severity.NOTE,
                )


def _functions(material: Material) -> list[ast.FunctionDef]:
    own = function_at(material.tree, material.signature.name, material.signature.lines)
    return [*([own] if own is not None else []), *behind(material)]


@lru_cache(maxsize=2048)
def _alike(function: ast.FunctionDef) -> tuple[tuple[str, tuple[Lines, ...]], ...]:
    """Conditions whose branches hold the same, with the lines of both."""
    found: list[tuple[str, tuple[Lines, ...]]] = []
    inner = {id(one.orelse[0]) for one in each(function, ast.If) if _is_elif(one)}
    for node in walk(function):
        if isinstance(node, ast.IfExp) and ast.dump(node.body) == ast.dump(node.orelse):
            found.append((ast.unparse(node.test)[:80], (lines_of(node),)))
        elif isinstance(node, ast.If) and id(node) not in inner:
            found += _pairs(_arms(node))
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list):
                found += _pairs(_steps(block), steps=True)
    return tuple(found)


Arm = tuple[ast.expr | None, Sequence[ast.stmt]]


def _is_elif(node: ast.If) -> bool:
    return len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)


def _arms(node: ast.If) -> list[Arm]:
    """The branches of a chain, each with its condition."""
    found: list[Arm] = [(node.test, node.body)]
    while _is_elif(node):
        node = node.orelse[0]  # type: ignore[assignment]
        found.append((node.test, node.body))
    return [*found, (None, node.orelse)] if node.orelse else found


def _steps(block: Sequence[ast.stmt]) -> list[Arm]:
    """Conditions one after the other that each end in a return, and the return after them."""
    found: list[Arm] = []
    for one in block:
        if isinstance(one, ast.If) and not one.orelse and isinstance(one.body[-1], ast.Return):
            found.append((one.test, one.body))
        elif isinstance(one, ast.Return) and found:
            found.append((None, [one]))
        else:
            found.append((None, []))
    return found


def _pairs(arms: Sequence[Arm], *, steps: bool = False) -> Iterator[tuple[str, tuple[Lines, ...]]]:
    for (test, first), (other, second) in pairwise(arms):
        if test is None or not first or not second or not _says(first):
            continue
        if _text(first) != _text(second) or _synonyms(test, other):
            continue
        if steps and not (other is None or _one_size(test, other)):
            continue
        asked = ast.unparse(other if other is not None and steps else test)
        yield asked[:80], (_range(first), _range(second))


def _text(body: Sequence[ast.stmt]) -> str:
    return "\n".join(map(ast.dump, body))


def _range(body: Sequence[ast.stmt]) -> Lines:
    return body[0].lineno, body[-1].end_lineno or body[-1].lineno


def _says(body: Sequence[ast.stmt]) -> bool:
    """Whether branches set or give something: not only leave, refuse or pass."""
    if isinstance(body[-1], ast.Raise | ast.Continue | ast.Break | ast.Pass):
        return False
    told = [one for statement in body for one in walk(statement)]
    numbers = (one.value for one in told if isinstance(one, ast.Constant))
    return any(isinstance(n, int | float) and not isinstance(n, bool) and n > 1 for n in numbers)


def _synonyms(test: ast.expr, other: ast.expr | None) -> bool:
    """Whether two conditions compare one thing with words or types, of which two may mean the
    same."""
    rows = [one for one in (test, other) if isinstance(one, ast.Compare)]
    if len(rows) < 2 or ast.dump(rows[0].left) != ast.dump(rows[1].left):
        return False
    return all(
        isinstance(row.ops[0], ast.Eq | ast.In | ast.Is)
        and not isinstance(getattr(row.comparators[0], "value", ""), int | float)
        for row in rows
    )


def _one_size(test: ast.expr, other: ast.expr) -> bool:
    """Whether two conditions compare one thing with two numbers, the same way."""
    if not (isinstance(test, ast.Compare) and isinstance(other, ast.Compare)):
        return False
    alike = ast.dump(test.left) == ast.dump(other.left)
    ways = [type(op) for op in test.ops] == [type(op) for op in other.ops]
    return alike and ways and not isinstance(test.ops[0], ast.Eq | ast.In | ast.Is | ast.NotEq)

"""A search tries the same configuration more than once."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache

from extractors.host.configurations import config_lines
from extractors.host.events import SearchRecord
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from extractors.syntax.nodes import walk
from kb.evidence import Finding, Lines, Severity

_SEARCH = '[triton.Config({"T": t, "D": d}, num_warps=w) for t in (64, 128) for d in (0, 1) for w in (4, 8)]'  # noqa: E501
_LIST = vary(
    AUTOTUNED,
    (
        _SEARCH,
        """[
        triton.Config({"T": 64, "D": 0}, num_warps=4),
        triton.Config({"T": 128, "D": 0}, num_warps=4),
        triton.Config({"T": 64, "D": 0}, num_warps=4),
    ]""",
    ),
)
_POINTS = vary(
    SEARCHED,
    ("def space(d):", """def space(d):
    return [SimpleNamespace(T=64, occupancy=1), SimpleNamespace(T=64, occupancy=1)]

def other(d):"""),
)  # fmt: skip
_APPENDED = vary(
    SEARCHED,
    ("def space(d):", """def space(d):
    found = []
    found.append(SimpleNamespace(T=64, occupancy=1))
    found.append(SimpleNamespace(T=64, occupancy=1))
    return found

def other(d):"""),
)  # fmt: skip


class ListedTwice(Rule):
    """Two members of one list of configurations are written alike, out of numbers and names of
    axes."""

    name = "listed-twice"
    matches = (Case(_LIST, "1 of 3"), Case(_POINTS, "1 of 2"), Case(_APPENDED, "1 of 2"))
    near_misses = (
        NearMiss(
            vary(_LIST, ('"D": 0}, num_warps=4),\n    ]', '"D": 0}, num_warps=8),\n    ]')),
            why="the number of warps differs",
        ),
        NearMiss(SEARCHED, why="no list holds the same configuration twice"),
    )
    seen = (Seen("gemlite", "gemlite/triton_kernels/gemm_kernels.py", "gemm_INT_kernel", 174),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for search in material.searches if material is not None else ():
            for again, count in _lists(material, search) if material is not None else ():
                several = len(again) > 1
                yield self.finding(
                    subject,
                    f"{len(again)} of {count} configurations {'are' if several else 'is'} in the "
                    f"list already: {'each' if several else 'it'} is compiled and timed again",
                    "drop what is repeated, or write what it was meant to be",
                    [line for pair in again for line in pair],
                    Severity.NOTE,
                )


def _lists(
    material: Material, search: SearchRecord
) -> Iterator[tuple[list[tuple[Lines, Lines]], int]]:
    """Of every list that a search takes its configurations from, the members that stand there
    before, each with the first of its kind, and how many members there are."""
    places = (search.lines, *config_lines(material, search))
    for members in _groups(material.tree):
        start, end = members[0].lineno, lines_of(members[-1])[1]
        if not any(start <= high and low <= end for low, high in places):
            continue
        first: dict[str, Lines] = {}
        again = []
        for member in members:
            text = ast.dump(member)
            if text in first:
                again.append((first[text], lines_of(member)))
            first.setdefault(text, lines_of(member))
        if again:
            yield again, len(members)


@lru_cache(maxsize=16)
def _groups(tree: ast.Module) -> tuple[list[ast.expr], ...]:
    """Configurations that are members of one list, or are appended to one list in one block."""
    return tuple(_listed(tree))


def _listed(tree: ast.Module) -> Iterator[list[ast.expr]]:
    for node in walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            if len(node.elts) > 1 and all(map(_written_out, node.elts)):
                yield node.elts
            continue
        appended: dict[str, list[ast.expr]] = {}
        for statement in _block(node):
            call = statement.value if isinstance(statement, ast.Expr) else None
            if not isinstance(call, ast.Call) or getattr(call.func, "attr", "") != "append":
                continue
            if len(call.args) == 1 and _written_out(call.args[0]):
                appended.setdefault(ast.dump(call.func), []).append(call.args[0])
        yield from appended.values()


def _block(node: ast.AST) -> list[ast.stmt]:
    """Statements that follow one another in a function or a branch."""
    body = getattr(node, "body", [])
    return body if isinstance(body, list) else []


def _written_out(member: ast.expr) -> bool:
    """Whether a member is a call on numbers, texts and dictionaries of them that names an axis."""
    inner = [node for one in getattr(member, "args", ()) for node in walk(one)]
    inner += [node for key in getattr(member, "keywords", ()) for node in walk(key.value)]
    plain = all(
        isinstance(node, ast.Constant | ast.Dict | ast.UnaryOp | ast.USub) for node in inner
    )
    return isinstance(member, ast.Call) and plain and bool(inner)

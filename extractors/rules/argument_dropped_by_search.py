"""An argument that only the way without a search reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from extractors.host.callers import member
from extractors.host.events import SearchRecord
from extractors.host.facts import Material, functions_of
from extractors.host.origins import lines_of
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import SEARCHED
from extractors.syntax.nodes import each, walk
from kb.evidence import Finding, Lines, Severity

_FIXED = """
def given(x, out, configs):
    tile = configs["T"] if configs else 64
    ct.launch(None, (math.ceil(x.shape[1] / tile), x.shape[0], 1), move, (x, out, x.shape[1], tile))
    return out

def entry(x, tune=True, configs=None):
    out = torch.empty_like(x)
    if tune:
        return run(x)
    else:
        return given(x, out, configs)
"""
_BRANCHED = SEARCHED + _FIXED
_KEYWORD = vary(
    _BRANCHED,
    ("def entry(x, tune=True, configs=None):", "def entry(x, tune=True, **options):"),
    ("    if tune:", "    configs = options.get('configs', None)\n    if tune:"),
)
_AFTER = vary(
    _BRANCHED,
    ("        return run(x)\n    else:\n    ", "        return run(x)\n"),
)


@dataclass(frozen=True, slots=True)
class _Fork:
    """The statement where a function takes the way to a search or another one to a launch."""

    function: ast.FunctionDef
    searching: list[ast.stmt]
    other: list[ast.stmt]


class ArgumentDroppedBySearch(Rule):
    """A function takes one way to a launch with a search and another without, and reads an
    argument on the other one alone: where the search is taken it changes nothing."""

    name = "argument-dropped-by-search"
    dialects = ("cutile",)
    matches = (
        Case(_BRANCHED, "`configs`"),
        Case(_KEYWORD, "`configs`"),
        Case(_AFTER, "`configs`"),
    )
    near_misses = (
        NearMiss(
            vary(_BRANCHED, ("    if tune:", "    if tune and configs is None:")),
            why="the search is not taken where the argument is given",
        ),
        NearMiss(
            vary(_BRANCHED, ("        return run(x)", "        return run(x, configs)"),
                 ("def run(x):", "def run(x, configs=None):")),
            why="it is handed on to the search",
        ),
        NearMiss(
            vary(_BRANCHED, ("        return given(x, out, configs)", "        return configs")),
            why="the other way launches nothing",
        ),
    )  # fmt: skip
    seen = (Seen("tilegym", "tilegym/ops/cutile/bmm.py", "_static_persistent_bmm_kernel", 331),)

    def find(self, subject: Subject) -> Iterator[Finding]:
        material = subject.host.material
        told: set[tuple[int, str]] = set()
        for search in material.searches if material is not None else ():
            if material is None or search.kind != "exhaustive_search":
                continue
            for fork in _forks(material, search):
                for name, places in _dropped(fork).items():
                    if (fork.function.lineno, name) in told:
                        continue
                    told.add((fork.function.lineno, name))
                    start = fork.searching[0].lineno
                    yield self.finding(
                        subject,
                        f"`{fork.function.name}` reads `{name}` only where it does not search: on "
                        f"the way to the search (line {start}) what is given for it has no effect",
                        "hand it to the search, or refuse it there",
                        [(start, lines_of(fork.searching[-1])[1]), *places],
                        Severity.NOTE,
                    )


def _forks(material: Material, search: SearchRecord) -> Iterator[_Fork]:
    """Where the functions on the way to a search could have gone another way to a launch."""
    launching = {name for launch in material.launches for name in launch.stack}
    launching |= {node.name for node in functions_of(material.tree) if _launches([node])}
    for position, name in enumerate(search.stack):
        after = search.stack[position + 1] if position + 1 < len(search.stack) else None
        for function in functions_of(material.tree):
            if function.name != name:
                continue
            for block in _blocks(function):
                for at, node in enumerate(block):
                    if isinstance(node, ast.If):
                        yield from _fork(function, node, block[at + 1 :], search, after, launching)


def _fork(
    function: ast.FunctionDef,
    node: ast.If,
    rest: list[ast.stmt],
    search: SearchRecord,
    after: str | None,
    launching: set[str],
) -> Iterator[_Fork]:
    other = node.orelse or (rest if isinstance(node.body[-1], ast.Return) else [])
    for one, two in ((node.body, other), (other, node.body)):
        if not one or not two or not _leads(one, search, after) or _leads(two, search, after):
            continue
        if _launches(two) or launching & _called(two):
            yield _Fork(function, one, two)


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    for node in walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _leads(block: list[ast.stmt], search: SearchRecord, after: str | None) -> bool:
    if after is not None:
        return after in _called(block)
    return block[0].lineno <= search.lines[0] <= lines_of(block[-1])[1]


def _called(block: list[ast.stmt]) -> set[str]:
    found = (node.func for one in block for node in each(one, ast.Call))
    return {func.id for func in found if isinstance(func, ast.Name)}


def _launches(block: list[ast.stmt]) -> bool:
    return any(node.attr == "launch" for one in block for node in each(one, ast.Attribute))


def _dropped(fork: _Fork) -> dict[str, list[Lines]]:
    """Arguments, and members of the keywords, that are read on the other way alone, with the
    lines that read them."""
    reads: dict[str, list[ast.AST]] = {}
    loads: dict[str, list[ast.AST]] = {}
    for statement in fork.function.body:
        for node in each(statement, ast.Name):
            if isinstance(node.ctx, ast.Load):
                loads.setdefault(node.id, []).append(node)
    given = fork.function.args
    for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        reads[arg.arg] = loads.get(arg.arg, [])
    if given.kwarg is not None:
        members = _members(fork.function, given.kwarg.arg, len(loads.get(given.kwarg.arg, [])))
        for key, (places, alias) in members.items():
            reads[key] = loads.get(alias, []) if alias else places
    found: dict[str, list[Lines]] = {}
    first, last = fork.other[0].lineno, lines_of(fork.other[-1])[1]
    for name, nodes in reads.items():
        if nodes and all(first <= lines_of(node)[0] <= last for node in nodes):
            found[name] = sorted({lines_of(node) for node in nodes})[:2]
    return found


def _members(
    function: ast.FunctionDef, keywords: str, uses: int
) -> dict[str, tuple[list[ast.AST], str]]:
    """Members of the keywords that are asked for by name, with where, and the variable that alone
    holds one; none where the keywords are used otherwise."""
    found: dict[str, list[ast.AST]] = {}
    held: dict[str, str] = {}
    seen = 0
    for node in walk(function):
        key = member(node, keywords)
        if key is not None:
            found.setdefault(key, []).append(node)
            seen += 1
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            key = member(node.value, keywords)
            if key is not None:
                held[key] = node.targets[0].id
    if seen != uses:
        return {}
    return {
        key: (places, held[key] if key in held and len(places) == 1 else "")
        for key, places in found.items()
    }

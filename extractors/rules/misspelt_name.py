"""A function of the module calls a name that the kernel language does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from extractors.syntax.nodes import each
from kb.dialects.registry import dialect
from kb.evidence import Finding, Severity

SHORTEST = 4
"""Letters of a name that may be misspelt: shorter ones are too close to each other."""

_HELPER = (
    AUTOTUNED
    + """
@triton.jit
def up(a, b):
    return tl.cdiv(a, b) * b
"""
)
_TILED = (
    SEARCHED
    + """
@ct.function
def up(a, b):
    return ct.cdiv(a, b) * b
"""
)


class MisspeltName(Rule):
    """A call of a name that the language does not have, one letter or two turned letters away from
    one that it has: the function fails as soon as anybody compiles it."""

    name = "misspelt-name"
    dialects = ("triton", "cutile")
    matches = (
        Case(vary(_HELPER, ("tl.cdiv", "tl.cidv")), "`tl.cidv`"),
        Case(vary(_HELPER, ("tl.cdiv(a, b) * b", "tl.maximun(a, b)")), "`tl.maximun`"),
        Case(vary(_TILED, ("ct.cdiv(a, b) * b", "ct.minimun(a, b)")), "`ct.minimun`"),
    )
    near_misses = (
        NearMiss(_HELPER, why="the language has it"),
        NearMiss(_TILED, why="the language has it"),
        NearMiss(
            vary(_HELPER, ("tl.cdiv", "tl.round_up")),
            why="a name like no other may be one of a version that is not known here",
        ),
        NearMiss(
            vary(_HELPER, ("tl.cdiv", "tl.cidv"), ("def up(a, b)", "def up(tl, a, b)")),
            why="the name stands for an argument there",
        ),
    )
    seen = (Seen("flag-gems", "flag_gems/ops/softmax.py", "softmax_kernel_inner", 79),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        if material is None or subject.facts.kernel.dialect not in self.dialects:
            return
        found = _misspelt(material.tree, subject.facts.kernel.dialect)
        for call, meant in found:
            function = call.func
            yield self.finding(
                subject,
                f"`{ast.unparse(function)}`: the language has no such name, but `{meant}`: "
                "compiling the function fails",
                f"call `{meant}`",
                [(call.lineno, call.lineno)],
                Severity.WARNING,
            )


@lru_cache(maxsize=8)
def _misspelt(tree: ast.Module, language: str) -> tuple[tuple[ast.Call, str], ...]:
    """Calls of names that the language does not have, with those that are meant."""
    spoken = dialect(language)
    known = _names(language)
    aliases = set(_aliases(tree, spoken.module))
    found = []
    for function in each(tree, ast.FunctionDef):
        own = {arg.arg for arg in each(function.args, ast.arg)}
        for call in each(function, ast.Call):
            match call.func:
                case ast.Attribute(value=ast.Name(id=alias), attr=name) if alias in aliases - own:
                    meant = _meant(name, known)
                    if meant is not None:
                        found.append((call, f"{alias}.{meant}"))
    return tuple(found)


@lru_cache(maxsize=4)
def _names(language: str) -> frozenset[str]:
    """Names of a language that stand right in its module."""
    spoken = dialect(language)
    head = spoken.module + "."
    paths = [row.path for row in spoken.rows]
    paths += [*spoken.dtypes, *spoken.enums, *spoken.former]
    return frozenset(
        path.removeprefix(head).partition(".")[0] for path in paths if path.startswith(head)
    )


def _aliases(tree: ast.Module, module: str) -> Iterator[str]:
    """What the module calls the language."""
    parent, _, last = module.rpartition(".")
    for whole in each(tree, ast.Import):
        yield from (one.asname for one in whole.names if one.name == module and one.asname)
    for part in each(tree, ast.ImportFrom):
        if part.module == parent and not part.level:
            yield from (one.asname or last for one in part.names if one.name == last)


def _meant(name: str, known: frozenset[str]) -> str | None:
    """The one name that differs in a letter or in two turned letters; None for a known name."""
    if name in known or len(name) < SHORTEST or not name.islower() or not name.isalpha():
        return None
    near = [one for one in known if len(one) >= SHORTEST and _near(name, one)]
    return near[0] if len(near) == 1 else None


def _near(name: str, other: str) -> bool:
    """Whether two neighbours are turned, or one letter is another one, is missing or too much."""
    if abs(len(name) - len(other)) > 1 or not other.isalpha():
        return False
    first = next((i for i, (a, b) in enumerate(zip(name, other, strict=False)) if a != b), None)
    if first is None:
        return True
    ends = ((name[first + 1 :], other[first + 1 :]), (name[first + 1 :], other[first:]),
            (name[first:], other[first + 1 :]),
            (name[first : first + 2][::-1] + name[first + 2 :], other[first:]))  # fmt: skip
    return any(left == right for left, right in ends)

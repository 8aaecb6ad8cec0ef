"""The function that makes the configurations has a parameter without effect."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from extractors.host.facts import read_names
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from extractors.syntax.nodes import each
from kb.evidence import Finding

_SPACE = """def space(wide):
    return [triton.Config({"T": t, "D": 0}) for t in SIZES]

@triton.autotune("""
_LISTED = (
    'configs=[triton.Config({"T": t, "D": d}, num_warps=w) for t in (64, 128) for d in (0, 1) '
    "for w in (4, 8)]"
)
_MADE = vary(AUTOTUNED, ("@triton.autotune(", _SPACE), (_LISTED, "configs=space(True)"))
_DEAD = vary(_MADE, ("in SIZES", "in (64, 128)"))


class DeadParameter(Rule):
    """A parameter of the function that makes a space, which its body never reads: every value of it
    gives the same space."""

    name = "dead-parameter"
    matches = (Case(SEARCHED, "`d`"), Case(_DEAD, "`wide`"))
    near_misses = (
        NearMiss(vary(SEARCHED, ("T=256", "T=256 if d else 128")), why="the space depends on it"),
        NearMiss(
            vary(_MADE, ("in SIZES", "in ((64, 128) if wide else (64,))")),
            why="the space depends on it",
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_kernel", 182),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for search in material.searches if material is not None else ():
            if search.generator is None or material is None:
                continue
            name, lines, params = search.generator
            for node in each(material.tree, ast.FunctionDef):
                if (node.name, node.lineno) != (name, lines[0]):
                    continue
                read = read_names(node)
                for param in params:
                    if param in read or param in ("self", "cls") or param.startswith("_"):
                        continue
                    yield self.finding(
                        subject,
                        f"`{name}` never reads its parameter `{param}`: every value of it gives "
                        "the same space",
                        f"let the space depend on `{param}`, or drop the parameter",
                        [lines],
                    )

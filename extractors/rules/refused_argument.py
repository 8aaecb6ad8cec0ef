"""A host function takes an argument and refuses every value of it but one."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from extractors.host.callers import leading
from extractors.host.events import CheckRecord
from extractors.host.facts import Material
from extractors.host.values import Expr
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from extractors.syntax.nodes import nodes_of
from kb.evidence import Finding, Lines, Severity

_REFUSED = vary(
    AUTOTUNED,
    ("def run(x):", "def run(x, bias=None):"),
    ("    n = x.numel()", "    if bias is not None:\n        raise NotImplementedError(bias)\n"
     "    n = x.numel()"),
)  # fmt: skip
_TILED = vary(
    SEARCHED,
    ("def run(x):", "def run(x, mask=None):"),
    ("    b, n = x.shape", "    assert mask is None\n    b, n = x.shape"),
)


class RefusedArgument(Rule):
    """On every way to the launch the host raises unless an optional argument is None: it offers
    what it does not have."""

    name = "refused-argument"
    matches = (Case(_REFUSED, "`bias`"), Case(_TILED, "`mask`"))
    near_misses = (
        NearMiss(
            vary(_REFUSED, ("    if bias is not None:", "    if bias is not None and x.ndim > 2:")),
            why="it is refused together with something else only",
        ),
        NearMiss(vary(_REFUSED, ("if bias is not None", "if bias is None")), why="it is needed"),
        NearMiss(vary(_REFUSED, ("bias=None", "bias")), why="it is not offered as optional"),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/rms_norm.py", "_rms_norm_kernel_gather", 414),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for name, lines in _refused(material).items() if material is not None else ():
            yield self.finding(
                subject,
                f"the host takes `{name}` and raises unless it is None, on every way to the launch",
                "drop the argument, or do what it asks for",
                [lines],
                Severity.NOTE,
            )


def _refused(material: Material) -> dict[str, Lines]:
    """Optional arguments that each launch of the kernel asks to be None."""
    each: list[dict[str, Lines]] = []
    for launch in material.launches:
        optional = {n for f in leading(material, launch) for n in _optional(f)}
        found: dict[str, Lines] = {}
        for event in material.before(launch):
            cond = event.cond if isinstance(event, CheckRecord) else None
            if isinstance(event, CheckRecord) and isinstance(cond, Expr) and cond.op == "none":
                given = cond.args[0]
                name = given.args[0] if isinstance(given, Expr) and given.op == "sym" else None
                if isinstance(name, str) and name in optional and _asks(material, event.lines):
                    found.setdefault(name, event.lines)
        each.append(found)
    first = each[0] if each else {}
    return {name: lines for name, lines in first.items() if all(name in one for one in each)}


def _asks(material: Material, lines: Lines) -> bool:
    """Whether a name alone is compared with None where a check stands: what decides together with
    it may not be known."""
    for node in nodes_of(material.tree):
        if isinstance(node, ast.Assert | ast.If) and isinstance(node.test, ast.Compare):
            inside = (
                node.lineno <= lines[0] <= node.body[0].lineno
                if isinstance(node, ast.If)
                else (node.lineno == lines[0])
            )
            if inside and isinstance(node.test.ops[0], ast.Is | ast.IsNot):
                return isinstance(node.test.left, ast.Name)
    return False


def _optional(function: ast.FunctionDef) -> set[str]:
    """Parameters whose default is None."""
    args = function.args
    pairs = zip(reversed([*args.posonlyargs, *args.args]), reversed(args.defaults), strict=False)
    rows = [*pairs, *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    return {
        arg.arg
        for arg, default in rows
        if isinstance(default, ast.Constant) and default.value is None
    }

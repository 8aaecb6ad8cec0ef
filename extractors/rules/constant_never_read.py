"""A constant of the module that nothing reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache

from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from extractors.syntax.nodes import each
from kb.evidence import Finding, Lines, Severity

_POINTER = vary(
    AUTOTUNED, ("import triton.language as tl\n", "import triton.language as tl\nLIMIT = 65536\n")
)
_TILED = vary(SEARCHED, ("cache = {}\n", "cache = {}\nLN2 = math.log(2)\n"))


class ConstantNeverRead(Rule):
    """A name that the module sets once to a number, a text, an expression of them or a name of
    another module, and that neither the module reads nor another one takes from it."""

    name = "constant-never-read"
    matches = (
        Case(_POINTER, "`LIMIT`"),
        Case(_TILED, "`LN2`"),
        Case(
            vary(_TILED, ("LN2 = ", "log = get_logger(__name__)\nLN2 = ")),
            "`log`, `LN2`",
        ),
        Case(vary(_TILED, ("LN2 = math.log(2)", "ZERO = ct.PaddingMode.ZERO")), "`ZERO`"),
        Case(
            vary(_POINTER, ("= 65536", "= 65536 if torch.version.hip is None else 4096")), "`LIMIT`"
        ),
    )
    near_misses = (
        NearMiss(vary(_POINTER, ("x.numel()", "min(LIMIT, x.numel())")), why="it is read"),
        NearMiss(
            vary(_POINTER, ("LIMIT = ", '__all__ = ["LIMIT"]\nLIMIT = ')), why="it is exported"
        ),
        NearMiss(
            vary(_POINTER, ("LIMIT = 65536", "log = get_logger(__name__)")),
            why="a logger that every module has",
        ),
        NearMiss(
            vary(_POINTER, ("LIMIT = 65536", "LIMIT = register(4)")),
            why="the call that makes it may be what it is for",
        ),
        NearMiss(vary(_POINTER, ("LIMIT = ", "_ = ")), why="the name says that it is not used"),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_kernel", 26),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        found = _unread(material) if material is not None else {}
        if found:
            names = ", ".join(f"`{name}`" for name in found)
            yield self.finding(
                subject,
                f"{names}: set by the module, never read by it, and no other module of the package "
                "takes it",
                "drop it, or use it where its value is written out",
                found.values(),
                Severity.NOTE,
            )


def _unread(material: Material) -> dict[str, Lines]:
    """Constants with their lines; none where the module hands all of its names on. Loggers and
    names for types, which many modules begin with, are told beside another one alone."""
    taken = material.loader.imported if material.loader is not None else lambda _: False
    found = {name: at for name, at in _unread_here(material.tree).items() if not taken(name)}
    usual = all(_usual(value) for _, value in found.values())
    return {} if usual else {name: lines for name, (lines, _) in found.items()}


@lru_cache(maxsize=8)
def _unread_here(tree: ast.Module) -> dict[str, tuple[Lines, ast.expr]]:
    """The same with their values, whatever other modules take."""
    read = {name.id for name in each(tree, ast.Name) if not isinstance(name.ctx, ast.Store)}
    read |= {name for line in each(tree, ast.Global) for name in line.names}
    # A text may be a name in `__all__`, `globals()["x"]`, an annotation.
    read |= {text.value for text in each(tree, ast.Constant) if isinstance(text.value, str)}
    found: dict[str, tuple[Lines, ast.expr]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name) and _plain(node.value) and target.id not in read:
                if not target.id.startswith("__") and target.id.strip("_"):
                    found[target.id] = lines_of(node), node.value
    return found


def _usual(value: ast.expr) -> bool:
    return isinstance(value, ast.Call | ast.Subscript) and not ast.unparse(value).startswith(
        "math."
    )


def _plain(value: ast.expr) -> bool:
    """A number or text, computed from numbers, or one of two such; a name of another module; what
    is made of the name of the module alone, as loggers are."""
    if isinstance(value, ast.Attribute):
        return isinstance(value.value, ast.Name) or _plain(value.value)
    if isinstance(value, ast.Subscript):
        return isinstance(value.value, ast.Attribute) and _plain(value.value)
    if isinstance(value, ast.Call) and value.args and not value.keywords:
        if all(isinstance(one, ast.Name) and one.id == "__name__" for one in value.args):
            return True
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float | str) and value.value != ""
    if isinstance(value, ast.UnaryOp):
        return _plain(value.operand)
    if isinstance(value, ast.BinOp):
        return _plain(value.left) and _plain(value.right)
    if isinstance(value, ast.IfExp):
        return _plain(value.body) and _plain(value.orelse)
    if isinstance(value, ast.Call) and ast.unparse(value.func).startswith("math."):
        return all(_plain(one) for one in value.args)
    return False

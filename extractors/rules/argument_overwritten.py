"""An autograd function writes into what it was given and does not say so."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from extractors.host.callers import MAX_STEPS, handed
from extractors.host.origins import Origins, lines_of
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.syntax.nodes import each
from kb.evidence import Finding, Lines

_SAME_MEMORY = frozenset({
    "view", "reshape", "flatten", "squeeze", "unsqueeze", "detach", "view_as", "contiguous",
    "transpose", "permute", "movedim", "swapaxes",
})  # fmt: skip
"""Methods that give the memory of their tensor, some of them whenever its layout allows it."""

_IN_PLACE = (
    POINTER
    + """
import torch
@triton.jit
def turn(x, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(x + at, -v, mask=at < n)

def launch(x):
    x = x.contiguous()
    n = x.numel()
    turn[(triton.cdiv(n, 128),)](x, n, 128)
    return x

class Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return launch(x)

    @staticmethod
    def backward(ctx, dy):
        return launch(dy.clone())
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def turn(x, T: Int):
    ct.store(x, index=(ct.bid(0),), tile=-ct.load(x, index=(ct.bid(0),), shape=(T,)))

class Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return -x

    @staticmethod
    def backward(ctx, dy):
        flat = dy.view(-1)
        ct.launch(None, (ct.cdiv(flat.shape[0], 128), 1, 1), turn, (flat, 128))
        return dy
"""
)


class ArgumentOverwritten(Rule):
    """A kernel stores into an array that the forward pass of an autograd function is given and does
    not mark as changed, or into a gradient that its backward pass is given."""

    name = "argument-overwritten"
    matches = (
        Case(_IN_PLACE, "`x`"),
        Case(_TILES, "gradient"),
        Case(vary(_IN_PLACE, ("dy.clone()", "dy"), ("return launch(x)", "return -x")), "gradient"),
        Case(
            vary(
                _TILES,
                (
                    "        flat = dy.view(-1)\n",
                    "        dy = dy.contiguous()\n"
                    "        if ctx.reuse:\n            flat = dy.view(-1)\n"
                    "        else:\n            flat = torch.empty_like(dy)\n",
                ),
            ),
            "gradient",
        ),
        Case(
            vary(
                _TILES,
                (
                    "        flat = dy.view(-1)\n",
                    "        if dy.is_sparse:\n            dy = dy.to_dense()\n"
                    "        flat = dy.view(-1)\n",
                ),
            ),
            "gradient",
        ),
        Case(
            vary(_TILES, ("dy.view(-1)", "(dy if dy.is_contiguous() else dy.clone()).view(-1)")),
            "gradient",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_IN_PLACE, ("return launch(x)", "ctx.mark_dirty(x)\n        return launch(x)")),
            why="autograd is told",
        ),
        NearMiss(
            vary(_IN_PLACE, ("return launch(x)", "return launch(x.clone())")),
            why="a copy is overwritten",
        ),
        NearMiss(
            vary(_IN_PLACE, ("x = x.contiguous()", "x = x.float()")),
            why="another element type is another array",
        ),
        NearMiss(vary(_IN_PLACE, ("(torch.autograd.Function)", "")), why="autograd takes no part"),
        NearMiss(
            vary(_TILES, ("flat = dy.view(-1)", "flat = torch.empty_like(dy)")),
            why="the array is its own",
        ),
        NearMiss(
            vary(
                _TILES,
                ("        flat = dy.view(-1)\n",
                 "        flat = dy.view(-1)\n        flat = torch.empty_like(flat)\n"),
            ),
            why="the name stands for another array in the end",
        ),
    )  # fmt: skip
    seen = (Seen("liger-kernel", "liger_kernel/ops/rope.py", "_triton_rope", 97),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        if material is None or not material.launches:
            return
        owners = _functions(material.tree)
        if not owners:
            return
        written = dict.fromkeys(a.array for a in subject.facts.stores if a.array is not None)
        names: dict[str, None] = {}
        told: dict[ast.FunctionDef, None] = {}
        chosen: dict[Lines, None] = {}
        for launch in material.sites():
            for name in written:
                given = handed(material, launch, name) if name else None
                if given is not None and material.origins is not None:
                    for method, where in _passes(material.origins, given, owners, MAX_STEPS):
                        if method.name == "backward" or not _marks(method):
                            names[name] = None
                            told[method] = None
                            chosen |= {} if where is None else {where: None}
        if names:
            passes = {method.name for method in told}
            what = "what the forward pass is given" if "forward" in passes else ""
            also = "a gradient that the backward pass is given" if "backward" in passes else ""
            yield self.finding(
                subject,
                f"{', '.join(f'`{name}`' for name in names)}: the kernel overwrites "
                f"{' and '.join(filter(None, (what, also)))}, without mark_dirty: autograd takes "
                "the array for unchanged, and whoever else holds it computes with what is left",
                "write to an array of its own, or mark it as changed",
                [
                    *[access for access in subject.facts.stores if access.array in names],
                    *[lines_of(method) for method in told],
                    *chosen,
                ],
            )


@lru_cache(maxsize=8)
def _functions(tree: ast.Module) -> dict[ast.FunctionDef, ast.ClassDef]:
    """The passes of the autograd functions of a module."""
    return {
        item: node
        for node in each(tree, ast.ClassDef)
        if any(ast.unparse(base).endswith("autograd.Function") for base in node.bases)
        for item in node.body
        if isinstance(item, ast.FunctionDef) and item.name in ("forward", "backward")
    }


def _marks(method: ast.FunctionDef) -> bool:
    return any(node.attr == "mark_dirty" for node in each(method, ast.Attribute))


def _passes(
    origins: Origins,
    value: ast.expr,
    owners: dict[ast.FunctionDef, ast.ClassDef],
    steps: int,
) -> Iterator[tuple[ast.FunctionDef, Lines | None]]:
    """The passes that a value is handed to, as it stands or as a view of it on every way; where one
    side of a choice is such, the lines of that side."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in _SAME_MEMORY:
            return
        value = value.func.value
    if steps and isinstance(value, ast.IfExp):
        for side in (value.body, value.orelse):
            for method, where in _passes(origins, side, owners, steps - 1):
                yield method, where or lines_of(side)
    if steps == 0 or not isinstance(value, ast.Name):
        return
    assigned, passed = origins.sources(value)
    owner = origins.owner(value)
    if assigned:
        found = [list(_passes(origins, made, owners, steps - 1)) for made in assigned]
        if all(found):
            yield from found[0]
        elif owner is not None and _two_sides(owner, assigned):
            for made, rows in zip(assigned, found, strict=True):
                yield from ((method, where or lines_of(made)) for method, where in rows)
        if any(found) or owner is None or not all(_may_stay(owner, made) for made in assigned):
            return
    if isinstance(owner, ast.FunctionDef) and owner in owners:
        if value.id in [arg.arg for arg in owner.args.args[1:]]:
            yield owner, None
        return
    for made in passed:
        yield from _passes(origins, made, owners, steps - 1)


def _two_sides(owner: ast.AST, assigned: Sequence[ast.expr]) -> bool:
    """Whether two values of a name stand on the two sides of one branch, and there are no more."""
    return len(assigned) == 2 and any(
        sorted(_side(branch, made) for made in assigned) == [0, 1]
        for branch in ast.walk(owner)
        if isinstance(branch, ast.If)
    )


def _may_stay(owner: ast.AST, made: ast.expr) -> bool:
    """Whether a name is given a value on a condition alone, without another side."""
    return any(
        _side(branch, made) == 0 and not branch.orelse
        for branch in ast.walk(owner)
        if isinstance(branch, ast.If)
    )


def _side(branch: ast.If, made: ast.expr) -> int:
    """The side of a branch that a value stands on by itself, -1 for none."""
    for number, body in enumerate((branch.body, branch.orelse)):
        if any(isinstance(one, ast.Assign) and one.value is made for one in body):
            return number
    return -1

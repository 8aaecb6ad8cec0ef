"""An array is viewed with fewer axes before it is made contiguous."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from extractors.host.callers import handed
from extractors.host.origins import Origins, lines_of
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding, Lines, Severity

MAX_STEPS = 4
"""Callers that an array is followed through."""

_PLAIN = frozenset({"staticmethod", "classmethod"})
"""Decorators that leave the arguments of a function as they are."""

_ROWS = (
    POINTER
    + """
import torch
@triton.jit
def twice(x, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, T)
    ok = tl.arange(0, T) < n
    tl.store(out + at, tl.load(x + at, mask=ok) * 2.0, mask=ok)

def run(x):
    n = x.shape[-1]
    x = x.view(-1, n).contiguous()
    out = torch.empty_like(x)
    twice[(x.shape[0],)](x, out, n, triton.next_power_of_2(n))
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def twice(x, out, T: Int):
    at = (ct.bid(0), 0)
    ct.store(out, index=at, tile=ct.load(x, index=at, shape=(1, T)) * 2.0)

def launch(x):
    flat = x.view(-1, 64).contiguous()
    out = torch.empty_like(flat)
    ct.launch(None, (flat.shape[0], 1, 1), twice, (flat, out, 64))
    return out

def run(x):
    return launch(x)
"""
)


class ViewBeforeContiguous(Rule):
    """The rows of an argument are merged by `view`, and the result is made contiguous: an array
    whose axes cannot be merged as they lie, a transposed one, raises an error in the first call,
    before the second could copy it."""

    name = "view-before-contiguous"
    matches = (Case(_ROWS, "`x`"), Case(_TILES, "`x`"))
    near_misses = (
        NearMiss(
            vary(_ROWS, ("x.view(-1, n).contiguous()", "x.contiguous().view(-1, n)")),
            why="it is copied first",
        ),
        NearMiss(
            vary(_ROWS, ("x.view(-1, n).contiguous()", "x.reshape(-1, n).contiguous()")),
            why="reshape copies where it has to",
        ),
        NearMiss(
            vary(_ROWS, ("    n = x.shape", "    x = x.contiguous()\n    n = x.shape")),
            why="it is contiguous before",
        ),
        NearMiss(vary(_ROWS, ("def run", "@prepared\ndef run")), why="a decorator may copy it"),
        NearMiss(
            vary(_TILES, ("return launch(x)", "return launch(x.contiguous())")),
            why="who calls the function copies it",
        ),
        NearMiss(
            vary(_ROWS, ("x.view(-1, n)", "x.view(torch.uint8)")), why="another type, all axes"
        ),
    )
    seen = (
        Seen(
            "liger-kernel",
            "liger_kernel/ops/cutile/ops/swiglu.py",
            "_swiglu_bwd_ct",
            333,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        if material is None or material.origins is None:
            return
        found: dict[str, Lines] = {}
        for launch in material.sites():
            for name, _ in material.signature.params:
                given = handed(material, launch, name)
                made = material.origins.sources(given)[0] if isinstance(given, ast.Name) else []
                for value in made or ([given] if given is not None else []):
                    viewed = _viewed(value)
                    if viewed is not None and _as_given(material.origins, viewed, MAX_STEPS):
                        found[viewed.id] = lines_of(viewed)
        if found:
            names = ", ".join(f"`{name}`" for name in found)
            yield self.finding(
                subject,
                f"{names}: view comes before contiguous, and raises an error for an array whose "
                "axes it cannot merge, a transposed one, instead of letting it be copied",
                "call contiguous first, or reshape",
                found.values(),
                Severity.NOTE,
            )


def _viewed(value: ast.expr | None) -> ast.Name | None:
    """The name whose axes are merged by `view` before it is made contiguous."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    inner = value.func.value
    if value.func.attr != "contiguous" or not isinstance(inner, ast.Call):
        return None
    view = inner.func
    merges = any(
        isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub) for one in inner.args
    )
    if isinstance(view, ast.Attribute) and view.attr == "view" and merges:
        return view.value if isinstance(view.value, ast.Name) else None
    return None


def _as_given(origins: Origins, name: ast.Name, steps: int) -> bool:
    """Whether a name is a parameter as the callers give it, on some way from a function that no
    decorator changes."""
    owner = origins.owner(name)
    if not isinstance(owner, ast.FunctionDef) or not steps:
        return False
    arguments = [arg.arg for arg in owner.args.args]
    if name.id not in arguments or not {ast.unparse(d) for d in owner.decorator_list} <= _PLAIN:
        return False
    assigned, passed = origins.sources(name)
    if assigned:
        return False
    return all(isinstance(one, ast.Name) and _as_given(origins, one, steps - 1) for one in passed)

"""The kernel writes into a contiguous copy, and the caller keeps the array it was made from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.callers import handed, leading
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.syntax.nodes import each
from kb.evidence import Finding

_HELPER = (
    POINTER
    + """
import torch
@triton.jit
def twice(x, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0) * 2.0, mask=at < n)

def fill(x, out):
    x = x.contiguous()
    out = out.contiguous()
    n = x.numel()
    twice[(triton.cdiv(n, 128),)](x, out, n, 128)

def run(x):
    out = torch.empty_like(x)
    fill(x, out)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def copy(x, out, T: Int):
    ct.store(out, index=(ct.bid(0), 0), tile=ct.load(x, index=(ct.bid(0), 0), shape=(1, T)))

def fill(x, y):
    y = y.contiguous()
    ct.launch(None, (x.shape[0], 1, 1), copy, (x, y, 128))

def run(x):
    out = torch.empty_like(x)
    fill(x, out)
    return out
"""
)


class CopyWritten(Rule):
    """A host function rebinds a parameter to its contiguous form, lets the kernel write into that,
    and gives nothing back: where the caller's array is not contiguous, the results are in a copy
    that nobody holds."""

    name = "copy-written"
    matches = (Case(_HELPER, "`out`"), Case(_TILES, "`y`"))
    near_misses = (
        NearMiss(
            vary(_HELPER, ("    out = out.contiguous()\n", "")), why="the caller's array is written"
        ),
        NearMiss(
            vary(_HELPER, ("(x, out, n, 128)\n", "(x, out, n, 128)\n    return out\n")),
            why="what was written is given back",
        ),
        NearMiss(
            vary(_HELPER, ("    out = out", "    kept = out\n    out = out"),
                 ("(x, out, n, 128)\n", "(x, out, n, 128)\n    kept.copy_(out)\n")),
            why="the copy is copied back",
        ),
    )  # fmt: skip
    seen = (Seen("tilegym", "tilegym/ops/cutile/softmax.py", "_softmax_kernel", 212),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        written = {access.array for access in subject.facts.stores}
        told: set[str] = set()
        for launch in material.sites() if material is not None else ():
            for name, made in _copies(material, launch, written) if material is not None else ():
                if name not in told:
                    told.add(name)
                    yield self.finding(
                        subject,
                        f"`{name}` is rebound to `{name}.contiguous()` and written, and nothing "
                        "gives it back: where the caller's array is not contiguous the results go "
                        "into a copy, and the caller keeps an array without them",
                        "return the array that was written, copy it back, or refuse arrays that "
                        "are not contiguous",
                        [made, launch.lines],
                    )


def _copies(
    material: Material, launch: LaunchRecord, written: set[str | None]
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Parameters of the launching function that stand for a contiguous form which is written."""
    inner = leading(material, launch)[-1:]
    origins = material.origins
    call = origins.call_at(launch.lines) if origins is not None else None
    if not inner or origins is None or call is None or inner[0].name != launch.stack[-1]:
        return
    function = inner[0]
    for param, _ in material.signature.params:
        value = handed(material, launch, param)
        if param not in written or not isinstance(value, ast.Name):
            continue
        if value.id in {arg.arg for arg in function.args.args}:
            made = _rebound(function, value.id)
            if made is not None and not _elsewhere(function, value.id, made, call):
                yield value.id, (made.lineno, made.end_lineno or made.lineno)


def _rebound(function: ast.FunctionDef, name: str) -> ast.Assign | None:
    """The statement `name = name.contiguous()` of a function."""
    for node in each(function, ast.Assign):
        if (
            isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == name
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.func.attr == "contiguous"
            and isinstance(node.value.func.value, ast.Name)
            and node.value.func.value.id == name
        ):
            return node
    return None


def _elsewhere(function: ast.FunctionDef, name: str, made: ast.Assign, call: ast.Call) -> bool:
    """Whether anything after the launch may hand the copy on, or something keeps the original."""
    after = call.end_lineno or call.lineno
    return any(
        isinstance(one.ctx, ast.Load) and (one.lineno > after or one.lineno < made.lineno)
        for one in each(function, ast.Name)
        if one.id == name
    )

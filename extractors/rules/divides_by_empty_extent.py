"""Host code divides by an extent that may be zero, instead of returning an empty result."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from extractors.host.conditions import parts
from extractors.host.divisors import divisors
from extractors.host.facts import Material
from extractors.host.tree import default_of
from extractors.host.values import Expr
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject, Where
from extractors.rules.compiled_per_size import innermost
from kb.analysis.facts import Facts
from kb.evidence import Finding, Lines, Severity
from kb.ops import OpKind

MAX_TOLD = 3
"""Extents that one finding speaks of."""

_ROWS = (
    POINTER
    + """
import torch
@triton.jit
def double(x, out, rows, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    tl.store(out + row * n + at, tl.load(x + row * n + at, mask=at < n) * 2.0, mask=at < n)

def run(x, dim):
    n = x.shape[dim]
    rows = x.numel() // n
    out = torch.empty_like(x)
    double[(rows,)](x, out, rows, n, triton.next_power_of_2(n))
    return out
"""
)
_SHARES = (
    TILE
    + """
import torch
@ct.kernel
def double(x, out, steps: int, T: Int):
    for i in range(steps):
        at = (ct.bid(0) * steps + i, 0)
        ct.store(out, index=at, tile=ct.load(x, index=at, shape=(1, T)) * 2.0)

def run(x, out):
    rows = x.shape[0]
    blocks = min(64, rows)
    ct.launch(None, (blocks, 1, 1), double, (x, out, math.ceil(rows / blocks), 64))
"""
)
_ROWS_TILE = (
    TILE
    + """
import torch
@ct.kernel
def double(x, out, T: Int):
    at = (ct.bid(0), 0)
    ct.store(out, index=at, tile=ct.load(x, index=at, shape=(1, T)) * 2.0)

def run(x, out, dim):
    n = x.shape[dim]
    rows = x.numel() // n
    ct.launch(None, (rows, 1, 1), double, (x, out, 64))
"""
)
_PLACES = (
    POINTER
    + """
import torch
@triton.jit
def least(x, out, rows, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=float("inf"))
    tl.store(out + row, tl.argmin(v, axis=0))

def run(x, out, dim):
    n = x.shape[dim]
    rows = x.numel() // n
    least[(rows,)](x, out, rows, n, triton.next_power_of_2(n))
"""
)
_THREADS = """
#include <cuda_runtime.h>
#include <algorithm>
__global__ void twice(const float* x, float* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    out[i] = 2.0f * x[i];
  }
}

int shares(int a, int b) { return (a + b - 1) / b; }

void run(const float* x, float* out, int n, cudaStream_t stream) {
  dim3 threads = dim3(std::min(512, n));
  dim3 blocks = dim3(std::min(65535, shares(n, threads.x)));
  twice<<<blocks, threads, 0, stream>>>(x, out, n);
}
"""
_ASKED = vary(_ROWS, ("    n = x", "    if x.numel() == 0:\n        return x.clone()\n    n = x"))


class DividesByEmptyExtent(Rule):
    """The elements of an array of the caller are divided by its extents for what a launch is given,
    and nothing on the way asks whether there is any element: an empty array raises an error
    there. In CUDA what is divided by is zero with a size of the caller, such as the smaller one of
    it and a number of threads: the program ends there."""

    name = "divides-by-empty-extent"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(_ROWS, "`x.shape[dim]`"),
        Case(_ROWS_TILE, "`x.shape[dim]`"),
        Case(
            vary(_ROWS, ("    rows = x", "    if n == 1:\n        return x * 2\n    rows = x")),
            "`x.shape[dim]`",
        ),
        Case(_THREADS, "divides by zero"),
        Case(
            vary(_THREADS, ("shares(n, threads.x)", "(n + threads.x - 1) / threads.x")),
            "divides by zero",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_THREADS, ("  dim3 threads", "  if (n == 0) return;\n  dim3 threads")),
            why="nothing is launched for none",
        ),
        NearMiss(vary(_THREADS, ("std::min(512, n)", "512")), why="a number of threads of its own"),
        NearMiss(
            vary(_THREADS, ("std::min(512, n)", "std::max(32, std::min(512, n))")),
            why="one warp at least",
        ),
        NearMiss(
            vary(_ROWS, ("n = x.shape[dim]", "n = x.shape[-1]")),
            why="the length of rows is a size of the model",
        ),
        NearMiss(
            vary(_ROWS, ("def run(x, dim):", "def run(x, dim=-1):")),
            why="the length of rows, where the caller names no axis",
        ),
        NearMiss(_ASKED, why="nothing is launched for an empty array"),
        NearMiss(vary(_ROWS, ("x.numel() // n", "x.numel() // max(n, 1)")), why="one at least"),
        NearMiss(
            vary(_ROWS, ("    n = x", "    assert x.shape[dim] > 0\n    n = x")),
            why="it is asked for",
        ),
        NearMiss(
            vary(_ROWS, ("x.numel() // n", "x.shape[0] // x.shape[1]")),
            why="as many of a group: nobody passes none",
        ),
        NearMiss(_PLACES, why="the place of the least of nothing is no result"),
        NearMiss(
            vary(
                _PLACES,
                (
                    "    tl.store",
                    "    least, place = tl.min(v, axis=0, return_indices=True)\n    tl.store",
                ),
                ("tl.argmin(v, axis=0)", "at"),
            ),
            why="the place of the least of nothing is no result",
        ),
        NearMiss(_SHARES, why="held down by the extent: what comes before stops at none, too"),
    )
    seen = (Seen("flag-gems", "flag_gems/ops/log_softmax.py", "log_softmax_kernel", 113),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        yield from self._with_none(subject)
        found: dict[str, Lines] = {}
        material = subject.host.material if not _finds_places(subject.facts) else None
        for launch in material.sites() if material is not None else ():
            for part, text, places in divisors(material, launch) if material is not None else ():
                if material is None or not _empties(material, part):
                    continue
                if not _last_by_default(material, part, max(places)[0]):
                    found.setdefault(text, max(places))
        if found:
            names = list(found)[:MAX_TOLD]
            told = ", ".join(f"`{name}`" for name in names)
            lines: list[Where] = [found[name] for name in names]
            yield self.finding(
                subject,
                f"the host divides by {told} on the way to the launch, and nothing asks whether it "
                "is zero: an empty array raises an error instead of giving an empty result",
                "return before when there is nothing to do",
                lines,
                Severity.NOTE,
            )

    def _with_none(self, subject: Subject) -> Iterable[Finding]:
        grids = [one for one in subject.host.empty_grids if one.divides]
        if grids:
            told = ", ".join(f"`{one.size}`" for one in grids[:MAX_TOLD])
            yield self.finding(
                subject,
                f"where {told} is 0 the host divides by zero on the way to the launch, which ends "
                "the program, and no condition of this file keeps it out",
                "return before when there is nothing to do",
                [lines for one in grids for lines in one.lines],
                Severity.NOTE,
            )


def _finds_places(facts: Facts) -> bool:
    """Whether a kernel finds the place of an extreme, which nothing has none of."""
    least = facts.graph.of(OpKind.ARGMIN, OpKind.ARGMAX, OpKind.REDUCE_MIN, OpKind.REDUCE_MAX)
    asked = [n for n in least if n.op.operand("return_indices") is not None]
    return bool(asked) or any(n.op.kind in (OpKind.ARGMIN, OpKind.ARGMAX) for n in least)


def _last_by_default(material: Material, quotient: Expr, line: int) -> bool:
    """Whether the axis of a divisor is the last one where the caller names none: the length of
    rows, then, unless it is said otherwise."""
    axes = [one.args[1] for one in parts(quotient.args[1]) if one.op == "dim"]
    names = [str(one.args[0]) for axis in axes for one in parts(axis) if one.op == "sym"]
    around = [f for f in ast.walk(material.tree) if isinstance(f, ast.FunctionDef)]
    around = [f for f in around if f.lineno <= line <= (f.end_lineno or f.lineno)]
    given = (default_of(f, name) for f in around for name in names)
    return any(node is not None and ast.unparse(node) == "-1" for node in given)


def _empties(material: Material, quotient: Expr) -> bool:
    """Whether an array without rows makes the divisor zero: its elements are divided by an extent
    that is no length of rows. What heads or chunks are divided by, and the length of rows, are
    sizes of the model."""
    above, by = quotient.args[:2]
    if not isinstance(by, Expr):
        return False
    counted = any(
        (one.op == "attr" and one.args[1] == "numel") or one.args[:1] == ("prod",)
        for one in parts(above)
    )
    return counted and by.op == "dim" and not innermost(material, by)

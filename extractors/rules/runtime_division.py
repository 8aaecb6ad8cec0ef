# ruff: noqa: E501
"""Every element divides its number by one that is known only at run time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Finding, Severity
from kb.ir import ParameterKind
from kb.ops import OpKind

_NAMED = (AtomKind.PARAMETER, AtomKind.EXTENT)
_PASSED = (ParameterKind.SCALAR, ParameterKind.UNTOLD)
_FLAT = (
    POINTER
    + """
@triton.jit
def scale(x, w, out, n, width, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, v * tl.load(w + at % width), mask=at < n)
"""
)
_ROWS = (
    POINTER
    + """
@triton.jit
def scale(x, w, out, n, width, T: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    at = tl.arange(0, D)[None, :]
    v = tl.load(x + row[:, None] * D + at, mask=row[:, None] < n, other=0.0)
    u = tl.load(w + (row % width)[:, None] * D + at)
    tl.store(out + row[:, None] * D + at, v * u, mask=row[:, None] < n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def scale(x, w, out, width: int, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(out, at, ct.gather(x, at) * ct.gather(w, at // width))
"""
)
_THREADS = """
__global__ void scale(const float* x, const float* w, float* out, int n, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = x[i] * w[i % width]; }
}
"""


class RuntimeDivision(Rule):
    """The row or the column of an element is its number divided by a size that is passed at run
    time, or the rest of that: a processor has no instruction for it, and each element takes a
    series of them, a longer one in 64 bits."""

    name = "runtime-division"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(_FLAT, "in 64 bits"),
        Case(_TILES, "by `width`"),
        Case(_THREADS, "by `width`"),
    )
    near_misses = (
        NearMiss(vary(_FLAT, ("width, T", "width: tl.constexpr, T")), why="known when it is compiled"),
        NearMiss(
            vary(_FLAT, ("w + at % width", "w + tl.program_id(0) % width")),
            why="one division for a block",
        ),
        NearMiss(vary(_THREADS, ("i % width", "i % 32")), why="a number of the source"),
        NearMiss(
            vary(_THREADS, ("i % width", "blockIdx.x % width")), why="the same for all of a block"
        ),
        NearMiss(
            vary(_TILES, ("at // width", "at"), ("* ct.gather", "/ ct.gather")),
            why="numbers of the arrays are divided, no places",
        ),
        NearMiss(
            vary(_THREADS, ("{ out[i] = x[i] * w[i % width]; }",
                 "{ int c = i % width;\n    for (int k = 0; k < n; ++k) out[k * n] = x[k * n] * w[c * n + k]; }")),
            why="one division before a loop over elements",
        ),
        NearMiss(_ROWS, why="one division for a row of a tile"),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        found: dict[Node, str] = dict(_divisions(facts))
        if not found:
            return
        wide = any(facts.types.dtype(node.op.inputs[0]) in ("i64", "u64") for node in found)
        names = ", ".join(dict.fromkeys(found.values()))
        yield self.finding(
            subject,
            f"the place of every element is divided by {names}, known only at run time"
            f"{', in 64 bits' if wide else ''}: no instruction divides whole numbers, a "
            "quotient or remainder is a series of them, and each element does it again",
            "give rows and columns axes of the grid or of the tile, or divide by multiplication "
            "with a prepared divisor",
            found,
            Severity.NOTE,
        )


def _divisions(facts: Facts) -> Iterator[tuple[Node, str]]:
    """Quotients and remainders of what differs between elements, with what is divided by; none of
    what stands for a whole row of a tile, and none where matrix products are most of the work."""
    if facts.contractions:
        return
    scalars = {p.name for p in facts.kernel.entry.parameters if p.kind in _PASSED}
    for node in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD):
        above, below = (facts.values.expr(value) for value in node.op.inputs[:2])
        if not above.has(AtomKind.LANE) or below.constant is not None:
            continue
        name = _passed(facts, below, scalars)
        if name and _every_element(facts, node, above):
            yield node, name


def _every_element(facts: Facts, node: Node, above: Expr) -> bool:
    """Whether an access that rests on a quotient, in the same loop, has no lanes but those of what
    is divided, and no other access has more."""
    lanes = _lanes(above)
    held = [(one, {x for index in one.index for x in _lanes(index)}) for one in facts.accesses]
    return all(len(own) <= len(lanes) for _, own in held) and any(
        own <= lanes
        and one.loop is node.loop
        and any(facts.graph.rests_on(value, node) for value in one.address)
        for one, own in held
    )


def _lanes(expr: Expr) -> set[str]:
    return {atom.text for atom in expr.atoms() if atom.kind is AtomKind.LANE}


def _passed(facts: Facts, below: Expr, scalars: set[str]) -> str:
    """What a divisor is at run time: a number that is passed, or the extent of an array; empty for
    what is known when a kernel is compiled, or differs between elements."""
    if below.has(AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION):
        return ""
    given = {
        atom.text
        for atom in below.atoms()
        if (atom.kind is AtomKind.PARAMETER and atom.value in scalars - facts.constexprs)
        or atom.kind is AtomKind.EXTENT
    }
    if len(given) == 1 and below.atom is not None and below.atom.kind in _NAMED:
        return f"`{below}`"
    if given:
        return f"what is made of `{min(given)}`"
    return "a loaded number" if below.has(AtomKind.LOADED) else ""

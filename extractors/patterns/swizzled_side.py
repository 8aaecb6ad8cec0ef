"""A buffer beside the tiles, such as the scales of blocks, laid out in small tiles whose rows are
taken apart and put together in another order."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr, nested
from kb.evidence import Decision
from kb.ops import OpKind

_PARTS = (AtomKind.FLOOR_DIV, AtomKind.MOD)
_TAKEN = frozenset({
    OpKind.FLOOR_DIV, OpKind.DIV, OpKind.MOD, OpKind.BIT_AND, OpKind.SHIFT_RIGHT,
})  # fmt: skip
_MANY = 3
"""Parts of one position that no plain order of rows and columns has."""

_THREADS = """__global__ void quantise(const float* x, signed char* out, float* scales, int n) {
    int row = blockIdx.x, col = threadIdx.x;
    float top = 0.f;
#pragma unroll
    for (int i = 0; i < 16; ++i) top = fmaxf(top, fabsf(x[(row * n + col) * 16 + i]));
    int at = (row / 128) * (n / 4) * 512 + (col / 4) * 512 + (row % 32) * 16
        + ((row % 128) / 32) * 4 + col % 4;
    scales[at] = top;
#pragma unroll
    for (int i = 0; i < 16; ++i) out[(row * n + col) * 16 + i] = x[(row * n + col) * 16 + i] / top;
}
"""
_BITS = _THREADS.replace(
    """(row / 128) * (n / 4) * 512 + (col / 4) * 512 + (row % 32) * 16
        + ((row % 128) / 32) * 4 + col % 4""",
    "(((row >> 7) * (n >> 2) + (col >> 2)) << 9) | ((row & 31) << 4)"
    " | (((row >> 5) & 3) << 2) | (col & 3)",
)
_LANES = """__global__ void copy(const float* x, const float* y, float* out, int n) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int at = warp * 1024 + lane / 16 * 256 + lane % 16 * 16;
    out[blockIdx.x * n + at] = x[blockIdx.x * n + at] * y[threadIdx.x];
}
"""
_ROWS = (
    POINTER
    + """
@triton.jit
def quantise(x, out, scales, n, T: tl.constexpr):
    row = tl.program_id(0)
    col = tl.program_id(1)
    v = tl.load(x + (row * n + col) * T + tl.arange(0, T))
    top = tl.max(tl.abs(v), axis=0)
    tl.store(out + (row * n + col) * T + tl.arange(0, T), v / top)
    at = (row // 8) * n * 8 + (col // 4) * 32 + (row % 8) * 4 + col % 4
    tl.store(scales + at, top)
"""
)
_TILE = (
    TILE
    + """
@ct.kernel
def quantise(x, out, scales, n: int, T: Int):
    row = ct.bid(0)
    col = ct.bid(1)
    v = ct.load(x, index=(row, col), shape=(1, T))
    top = ct.max(ct.abs(v))
    ct.store(out, index=(row, col), tile=v / top)
    at = (row // 8) * n * 8 + (col // 4) * 32 + (row % 8) * 4 + col % 4
    ct.scatter(scales, at, top)
"""
)


class SwizzledSide(Pattern):
    """An address has three parts of one position, quotients and rests by constants, or both the
    quotient and the rest of two positions; another array is not taken apart so."""

    name = "side-buffer-swizzled-in-tiles"
    axis = "auxiliary_layout"
    source = "NVIDIA, cuBLAS documentation, 1D block scaling factors layout"
    matches = (
        Case(_THREADS, "swizzled in tiles"),
        Case(_BITS, "swizzled in tiles"),
        Case(_ROWS, "swizzled in tiles"),
        Case(_TILE, "swizzled in tiles"),
    )
    near_misses = (
        NearMiss(
            vary(_ROWS, (" + (row % 8) * 4", ""), ("(row // 8) * n * 8", "row * n")),
            why="only columns are taken apart",
        ),
        NearMiss(
            vary(_ROWS, ("    tl.store(out + (row * n + col) * T + tl.arange(0, T), v / top)", "")),
            why="it is the output itself",
        ),
        NearMiss(
            _THREADS.replace("(row % 32) * 16\n        + ((row % 128) / 32) * 4", "(row % 128) * 4")
            .replace("(col / 4) * 512", "col").replace(" + col % 4", ""),
            why="rows of tiles, one after the other",
        ),
        NearMiss(_BITS.replace("<< 4) |", "<< 1) |"), why="bits that stand in both are no sum"),
        NearMiss(_LANES, why="groups of lanes, each farther apart than the lanes in it"),
        NearMiss(ROW_NORM, why="tiles are stored in views"),
        NearMiss(ADD_POINTER, why="there is one output"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        sides = (facts.stores, facts.loads)
        found = [a for side in sides for a in _apart(side)]
        if found:
            taken = [n for a in found for n in _steps(facts, a)]
            yield self.decide(facts, "swizzled in tiles", [*taken, *found])


def _apart(accesses: Iterable[Access]) -> list[Access]:
    """Accesses of swizzled arrays, where others of the same kind are not."""
    known = [a for a in accesses if a.array is not None]
    found = [a for a in known if any(swizzled(e) for index in a.index for e in nested(index))]
    arrays = {a.array for a in found}
    return found if any(a.array not in arrays for a in known) else []


def swizzled(index: Expr) -> bool:
    """Whether an index puts parts of positions together in another order than they came."""
    parts: dict[Expr, set[Atom]] = {}
    for factors, _ in index.terms:
        for atom in factors:
            if _by_constant(atom):
                parts.setdefault(_whole(atom), set()).add(atom)
    both = [one for one in parts.values() if {a.kind for a in one} == set(_PARTS)]
    return len(both) > 1 or any(len(one) >= _MANY and not _in_order(index, one) for one in both)


def _in_order(index: Expr, one: set[Atom]) -> bool:
    """Whether the parts of a position lie as far apart as they count in it, so that none of them
    changed places with another."""
    steps = {atom: index.coefficient(atom).constant for atom in one}
    if None in steps.values():
        return False
    far = [step for _, step in sorted((_counts(a), s) for a, s in steps.items() if s is not None)]
    return all(near < next_ for near, next_ in pairwise(far))


def _counts(atom: Atom) -> int:
    """How many of its position one of a part stands for."""
    below = atom.args[0].atom
    inside = _counts(below) if below is not None and _by_constant(below) else 1
    by = atom.args[1].constant if atom.kind is AtomKind.FLOOR_DIV else 1
    return inside * (by or 1)


def _whole(atom: Atom) -> Expr:
    """The position that an atom is a part of a part of."""
    inside = atom.args[0]
    while (below := inside.atom) is not None and _by_constant(below):
        inside = below.args[0]
    return inside


def _by_constant(atom: Atom) -> bool:
    return atom.kind in _PARTS and atom.args[1].constant is not None


def _steps(facts: Facts, access: Access) -> list[Node]:
    """The quotients and rests that an address is made of."""
    return [
        node
        for value in (access.base or "", *access.address)
        for node in facts.graph.upstream(value)
        if node.op.kind in _TAKEN
    ]

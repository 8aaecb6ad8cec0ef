"""Where the two numbers of a rotation lie: side by side, or half a row apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.fused_halves import FusedHalves
from extractors.patterns.interleaved_pairs import InterleavedPairs
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.rotations import Turn, rotations
from kb.analysis.symbolic import AtomKind, Expr, add, make, sub
from kb.evidence import Decision

_BESIDE = "interleaved"
_APART = "rotated pairs half a row apart"
_MOVING = (
    AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.LOADED, AtomKind.CHOICE,
    AtomKind.OPAQUE,
)  # fmt: skip

_PACKED = """__global__ void turn(float2* x, const float* c, const float* s, int half) {
    int at = blockIdx.x * half + threadIdx.x;
    float2 v = x[at];
    float k = c[threadIdx.x], l = s[threadIdx.x];
    x[at] = make_float2(v.x * k - v.y * l, v.y * k + v.x * l);
}
"""
_HALVES = """__global__ void turn(half* x, const half* c, const half* s, int half_row, int wide) {
    int at = blockIdx.x * wide + threadIdx.x;
    half k = c[threadIdx.x], l = s[threadIdx.x];
    half u = x[at], w = x[at + half_row];
    x[at] = __hfma(u, k, __hmul(w, __hneg(l)));
    x[at + half_row] = __hfma(w, k, __hmul(u, l));
}
"""
_VECTORS = """__global__ void turn(half2* x, const half2* c, const half2* s, int far, int wide) {
    int at = blockIdx.x * wide + threadIdx.x * 2;
    half2 k = c[threadIdx.x], l = s[threadIdx.x];
    half2 u = x[at / 2], w = x[(at + far) / 2];
    x[at / 2] = __hfma2(u, k, __hmul2(w, __hneg2(l)));
    x[(at + far) / 2] = __hfma2(w, k, __hmul2(u, l));
}
"""
_SUMMED = (
    POINTER
    + """
@triton.jit
def turn(x, c, s, out, far, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    u = tl.load(x + at)
    w = tl.load(x + at + n // 2 + far)
    k = tl.load(c + at)
    l = tl.load(s + at)
    tl.store(out + at, u * k - w * l)
    tl.store(out + at + n, w * k + u * l)
"""
)


class RotatedPairs(Pattern):
    """Of a rotation the two elements are the two of one loaded vector, or loads of an array whose
    places differ by one, or by a size that nothing moves."""

    name = "pairs-of-a-rotation"
    axis = "operand_layout"
    source = "Su et al., RoFormer (2021), section 3.4.2; Black et al., GPT-NeoX-20B (2022)"
    matches = (
        Case(_PACKED, _BESIDE),
        Case(_VECTORS, _APART),
        Case(_SUMMED, _APART),
    )
    near_misses = (
        NearMiss(_PACKED.replace("v.y * k + v.x * l", "v.y * k"), why="nothing is turned"),
        NearMiss(_VECTORS.replace("at + far", "at + (int)c[0].x"), why="as far as is loaded"),
        NearMiss(_HALVES, why="halves of a row: told there"),
        NearMiss(
            vary(_SUMMED, ("+ n // 2 + far", "+ tl.load(far)")), why="as far apart as is loaded"
        ),
        NearMiss(vary(_SUMMED, ("w * k + u * l", "w * k")), why="nothing is turned"),
        NearMiss(ADD_POINTER, why="no rotation"),
        NearMiss(ADD_THREADS, why="no rotation"),
        NearMiss(PRODUCT, why="no rotation"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, dict[Access, None]] = {}
        for turn in rotations(facts):
            for value, pair in _pairs(facts, turn):
                found.setdefault(value, {}).update(dict.fromkeys(pair))
        if not found:
            return
        others = (FusedHalves(), InterleavedPairs())
        told = {at for other in others for d in other.seen(facts) for at in d.lines}
        for value, loads in found.items():
            if not all(a.node.lines in told for a in loads):
                yield self.decide(facts, value, loads)


def _pairs(facts: Facts, turn: Turn) -> Iterator[tuple[str, list[Access]]]:
    """How the elements that a rotation turns lie, where each is one load. Where both sides are
    loaded alike, those are turned that lie as the result does."""
    placed: set[object] = {
        atom for s in facts.stored_in(turn.node.result) for e in s.index for atom in e.top()
    }
    turned, by = (
        [facts.held_loads(value) for value in values] for values in (turn.turned, turn.by)
    )
    if any(len(loads) != 1 for loads in turned):
        return
    one_array = len({a.array for loads in by for a in loads}) == 1
    if one_array and _shared(turned, placed) <= _shared(by, placed):
        return
    one, other = (loads[0] for loads in turned)
    if one is other:
        if _of_two(facts, one):
            yield _BESIDE, [one]
        return
    if one.array is None or one.array != other.array or len(one.index) != len(other.index):
        return
    places = ([_whole(e) for e in a.index] for a in (one, other))
    ways = [w for a, b in zip(*places, strict=True) if (w := sub(a, b)).terms]
    if len(ways) == 1 and not ways[0].has(*_MOVING):
        number = ways[0].constant
        beside = number is not None and abs(number) == 1
        yield _BESIDE if beside else _APART, [one, other]


def _whole(index: Expr) -> Expr:
    """A place in elements, where it is counted in vectors of a few."""
    found = index
    for factors, number in index.terms:
        atom = factors[0] if len(factors) == 1 else None
        if atom is not None and atom.kind is AtomKind.FLOOR_DIV:
            if atom.args[1].constant == number:
                found = add(sub(found, make([(factors, number)])), atom.args[0])
    return found


def _shared(sides: list[list[Access]], placed: set[object]) -> int:
    """How many of what says where a result lies also say where elements lie."""
    places = {atom for side in sides for a in side for e in a.index for atom in e.top()}
    return len(places & placed)


def _of_two(facts: Facts, access: Access) -> bool:
    """Whether a thread loads two numbers at once."""
    made = facts.threads.producer(access.value) if facts.of_threads else None
    kinds = [r.type for r in made.op.results if r.name == access.value] if made is not None else []
    return any(kind is not None and kind.shape == ("2",) for kind in kinds)

"""Pairs that lie side by side: real and imaginary parts, or the two numbers of a rotation."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis import symbolic as s
from kb.analysis.accesses import BULK, Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_TURN = (
    POINTER
    + """
@triton.jit
def turn(x, c, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    u = tl.load(x + at * 2, mask=at < n)
    v = tl.load(x + at * 2 + 1, mask=at < n)
    tl.store(x + at * 2, u * c - v, mask=at < n)
    tl.store(x + at * 2 + 1, v * c + u, mask=at < n)
"""
)
_JOIN = (
    TILE
    + """
@ct.kernel
def join(x, y, out, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(out, 2 * at, ct.gather(x, at))
    ct.scatter(out, 2 * at + 1, ct.gather(y, at))
"""
)
MOST = 48
"""Accesses of a kernel that are compared with each other."""


_APART = (
    POINTER
    + """
@triton.jit
def turn(x, c, out, s, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.reshape(tl.load(x + row * s + tl.arange(0, 2 * T)), (T, 2))
    u, w = tl.split(v)
    k = tl.load(c + at)
    tl.store(out + row * s + tl.arange(0, 2 * T), tl.interleave(u * k - w, w * k + u))
"""
)
_APART_TILE = (
    TILE
    + """
@ct.kernel
def turn(x, c, out, T: Int):
    row = ct.bid(0)
    v = ct.reshape(ct.load(x, index=(row, 0), shape=(1, 2 * T)), (T, 2))
    u = ct.extract(v, index=(0, 0), shape=(T, 1))
    w = ct.extract(v, index=(0, 1), shape=(T, 1))
    k = ct.reshape(ct.load(c, index=(0,), shape=(T,)), (T, 1))
    ct.store(out, index=(row, 0), tile=ct.reshape(ct.cat((u * k - w, w * k + u), 1), (1, 2 * T)))
"""
)
_PAIR_OF_A_THREAD = """
__global__ void either(const float* p, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float w[2] = {p[i], p[i + n]};
    float sum = 0.f;
    for (int j = 0; j < n; ++j) { sum += w[j & 1]; w[j & 1] = sum; }
    out[i] = w[n & 1];
}
"""


_POINTS = """__global__ void length(const float* x, float* out, int n, int wide) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    const float* own = x + at * wide;
    if (at < n) out[at] = sqrtf(own[0] * own[0] + own[1] * own[1] + own[2] * own[2]);
}
"""
_SOME = """__global__ void area(const float* boxes, float* out, int n) {
    int step = gridDim.x * blockDim.x;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += step) {
        const float* box = boxes + at * 7;
        out[at] = box[3] * box[4] + box[0] * box[1] + box[6];
    }
}
"""
_PIECES = """__global__ void twice(const float4* x, float4* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = x[2 * at], w = x[2 * at + 1];
    v.x *= 2.f; w.x *= 2.f;
    out[2 * at] = v;
    out[2 * at + 1] = w;
}
"""
_BOXES = (
    POINTER
    + """
@triton.jit
def area(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    left = tl.load(x + at * 4, mask=at < n)
    top = tl.load(x + at * 4 + 1, mask=at < n)
    right = tl.load(x + at * 4 + 2, mask=at < n)
    bottom = tl.load(x + at * 4 + 3, mask=at < n)
    tl.store(out + at, (right - left) * (bottom - top), mask=at < n)
"""
)
_BOXES_TILE = (
    TILE
    + """
@ct.kernel
def area(x, out, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    wide = ct.gather(x, (at, 2)) - ct.gather(x, (at, 0))
    high = ct.gather(x, (at, 3)) - ct.gather(x, (at, 1))
    ct.scatter(out, at, wide * high)
"""
)
_RECORDS = "array of structures"


class InterleavedPairs(Pattern):
    """Two accesses of an array, one element apart, whose lanes step by two; three or more that go
    on one by one, whose lanes step by as many or more; or a loaded tile seen as pairs and taken
    apart."""

    name = "interleaved-pairs"
    axis = "operand_layout"
    source = "Su et al., RoFormer (2021), section 3.4.2: pairs of neighbouring dimensions"
    matches = (
        Case(_TURN, "interleaved"),
        Case(_JOIN, "interleaved"),
        Case(_APART, "interleaved"),
        Case(_APART_TILE, "interleaved"),
        Case(_POINTS, _RECORDS),
        Case(_SOME, _RECORDS),
        Case(_BOXES, _RECORDS),
        Case(_BOXES_TILE, _RECORDS),
    )
    near_misses = (
        NearMiss(vary(_TURN, ("at * 2", "at")), why="neighbours of a stencil"),
        NearMiss(vary(_JOIN, ("2 * at + 1", "2 * at + T")), why="halves of a row, a tile apart"),
        NearMiss(
            vary(_APART, ("(T, 2))", "(2, T))"), ("tl.split(v)", "tl.split(tl.trans(v))")),
            why="halves of a row that are made pairs",
        ),
        NearMiss(vary(_POINTS, ("at * wide", "at")), why="neighbours of a stencil"),
        NearMiss(vary(_BOXES, ("at * 4", "at")), why="neighbours of a stencil"),
        NearMiss(vary(_BOXES, ("at * 4", "at * 3")), why="the fourth is the first of the next"),
        NearMiss(
            vary(_BOXES, ("at * 4 + 3", f"at * 4 + {10**30}")),
            why="one of them is far away",
            value=_RECORDS,
        ),
        NearMiss(
            _SOME.replace("at * 7", "at * 4")
            .replace("+ box[6]", "")
            .replace("box[3]", "box[2] * box[3]"),
            why="four neighbours in every round",
            value=_RECORDS,
        ),
        NearMiss(_SOME.replace("at * 7", "at * 5"), why="the last is of the next", value=_RECORDS),
        NearMiss(
            _SOME.replace("box[6]", "box[600]"), why="one of them is far away", value=_RECORDS
        ),
        NearMiss(_PIECES, why="two vectors that are one piece", value="interleaved"),
        NearMiss(ADD_POINTER, why="every array is read at one place"),
        NearMiss(PRODUCT, why="whole tiles"),
        NearMiss(_PAIR_OF_A_THREAD, why="one of two that a thread holds"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        accesses = facts.accesses[:MOST]
        stored = [a for a in accesses if a.is_store and _vector(facts, a)]
        pieces = any(_paired(first, second) for first in stored for second in stored)
        found = [
            access
            for first in accesses
            for second in accesses
            if first.is_store == second.is_store and _paired(first, second)
            if not (_vector(facts, first) and _vector(facts, second) and pieces)
            for access in (first, second)
        ]
        records = _records(facts)
        pairs = [a for a in found if a not in records]
        where: list[Where] = [*pairs, *_placing(facts, pairs), *self._taken_apart(facts)]
        if where:
            yield self.decide(facts, "interleaved", where)
        if records:
            yield self.decide(facts, _RECORDS, [*records, *_placing(facts, records)])

    def _taken_apart(self, facts: Facts) -> list[Node]:
        """Where a loaded tile, seen as pairs on an axis of its own, is taken apart."""
        found = []
        for node in facts.graph.of(OpKind.SPLIT, OpKind.EXTRACT):
            pairs = node.op.inputs[0]
            taken = [facts.values.literal(v) for v in facts.values.items(node.op.operand("shape"))]
            core = facts.graph.producer(facts.graph.core(pairs))
            if (
                facts.types.shape(pairs)[-1:] == ("2",)
                and (node.op.kind == OpKind.SPLIT or taken[-1:] == [1])
                and core is not None
                and facts.access(core) is not None
            ):
                found.append(node)
        return found


def _vector(facts: Facts, access: Access) -> bool:
    """Whether a thread moves several elements at once by their type: where two such are stored
    side by side, two are one piece."""
    made = facts.threads.producer(access.value) if facts.of_threads else None
    kinds = [r.type for r in made.op.results if r.name == access.value] if made is not None else []
    return any(kind is not None and kind.shape for kind in kinds)


def _paired(first: Access, second: Access) -> bool:
    """True when the second lies one element behind the first in the last axis."""
    if first.array is None or first.array != second.array or not first.index:
        return False
    if len(first.index) != len(second.index) or first.index[:-1] != second.index[:-1]:
        return False
    index = first.index[-1]
    return s.sub(second.index[-1], index).constant == 1 and _by_two(index)


def _placing(facts: Facts, accesses: list[Access]) -> list[Node]:
    """Where the places of pairs or records are computed."""
    places = {e for a in accesses for e in (a.index[-1], _without_number(a.index[-1]))}
    steps = facts.graph.of(OpKind.MUL, OpKind.ADD) if places else []
    return [n for n in steps if facts.values.expr(n.result) in places]


def _records(facts: Facts) -> list[Access]:
    """Accesses that read, or write, three or more numbers of one record each: all are one place
    and its followers, few of them left out, and lanes lie no closer than the last of them."""
    groups: dict[tuple[str, bool, tuple[Expr, ...]], list[tuple[int, Access]]] = {}
    for access in facts.accesses[:MOST]:
        single = access.mode not in BULK and not _vector(facts, access)
        if access.array is not None and access.index and single:
            *rows, last = access.index
            place = (*rows, _without_number(last))
            number = s.sub(last, place[-1]).constant or 0
            groups.setdefault((access.array, access.is_store, place), []).append((number, access))
    found = []
    for (_, _, place), same in groups.items():
        numbers = sorted({number for number, _ in same})
        spread = numbers[-1] - numbers[0] + 1
        if spread < 2 * len(numbers) > 4 and _steps_over(place, spread):
            found += [access for _, access in same]
    return found


def _without_number(index: Expr) -> Expr:
    return s.sub(index, s.number(next((n for factors, n in index.terms if not factors), 0)))


def _steps_over(index: tuple[Expr, ...], numbers: int) -> bool:
    """True when neighbouring lanes are so many numbers apart or more, and rounds more than that, or
    by a size that is given; or where the rows of an array are records. Where both move, rounds may
    be as far apart as lanes, but for two, four or eight numbers: those a thread may have unrolled.
    """
    moved = [a for e in index for a in e.top() if a.kind in (AtomKind.LANE, AtomKind.INDUCTION)]
    of_lanes = any(a.kind is AtomKind.LANE for a in moved) and numbers.bit_count() > 1
    for atom in moved:
        step = index[-1].coefficient(atom)
        by = step.constant
        more = atom.kind is not AtomKind.LANE and not of_lanes
        if step.terms and by is not None and abs(by) < numbers + more:
            return False
    return bool(moved)


def _by_two(index: Expr) -> bool:
    """True when every step of a lane is even."""
    steps = [n for factors, n in index.terms for a in factors if a.kind is AtomKind.LANE]
    return bool(steps) and all(step % 2 == 0 for step in steps)

"""Elements that are copied to where other axes come first, place by place."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT
from extractors.patterns.cases_rows import ADD_POINTER, COPY
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import ONE, Atom, AtomKind, Expr, Term
from kb.evidence import Decision
from kb.ops import READS, OpKind

_COUNTERS = (AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION)
_PARTS = (AtomKind.FLOOR_DIV, AtomKind.MOD)
_TURNED = """__global__ void turn(const float* x, float* out, int B, int H, int T, int D) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < B * H * T * D) {
        int b = at / (H * T * D);
        int h = (at / (T * D)) % H;
        int t = (at / D) % T;
        int d = at % D;
        out[((b * T + t) * H + h) * D + d] = x[at];
    }
}
"""
_BACK = _TURNED.replace(
    "out[((b * T + t) * H + h) * D + d] = x[at]", "out[at] = x[((b * T + t) * H + h) * D + d]"
)
_TURNED_POINTER = """import triton
import triton.language as tl

@triton.jit
def turn(x, out, B, H, T, D, W: tl.constexpr):
    at = tl.program_id(0) * W + tl.arange(0, W)
    b = at // (H * T * D)
    h = (at // (T * D)) % H
    t = (at // D) % T
    d = at % D
    v = tl.load(x + at, mask=at < B * H * T * D)
    tl.store(out + ((b * T + t) * H + h) * D + d, v, mask=at < B * H * T * D)
"""


_AXES = """__global__ void turn(const float4* x, float4* out, int hidden, int length, int heads) {
    int wide = hidden / heads;
    const float4* from = x + blockIdx.x * hidden * length + blockIdx.y * hidden;
    float4* to = out + blockIdx.x * hidden * length + blockIdx.y * wide;
    to[threadIdx.y * wide * length + threadIdx.x] = from[threadIdx.y * wide + threadIdx.x];
}
"""
_PACKED = """__global__ void turn(const float4* x, const float4* bias, float4* out, int wide,
                     int length, int heads) {
    int part = blockIdx.y / length, row = blockIdx.y % length, d = wide / heads;
    int to = (part * gridDim.x + blockIdx.x) * length * wide + row * d;
    int from = (blockIdx.x * length + row) * 3 * wide + part * wide;
    float4 v = x[from + threadIdx.y * d + threadIdx.x];
    float4 b = bias[part * wide + threadIdx.y * d + threadIdx.x];
    v.x += b.x; v.y += b.y; v.z += b.z; v.w += b.w;
    out[to + threadIdx.y * d * length + threadIdx.x] = v;
}
"""
_SQUARE = """__global__ void turn(const float* x, float* out, int m, int n) {
    int row = blockIdx.x, at = threadIdx.x;
    out[row * m + at] = x[at * n + row] * 2.f;
}
"""
_ANOTHER = "axes in another order where it is stored"


class PermutedElements(Pattern):
    """A loaded number is stored as it is; one of the two places is a flat position, the other is
    put together from quotients and remainders of it, with products of the same extents. Or what a
    thread loads is stored where two of the numbers that count its axes change places."""

    name = "axes-permuted-by-index-arithmetic"
    axis = "operand_layout"
    source = "NVIDIA, An Efficient Matrix Transpose in CUDA C/C++ (2013)"
    matches = (
        Case(_TURNED, "read in order, written permuted"),
        Case(_BACK, "read permuted, written in order"),
        Case(_TURNED_POINTER, "read in order, written permuted"),
        Case(_AXES, _ANOTHER),
        Case(_PACKED, _ANOTHER),
        Case(_SQUARE, _ANOTHER),
    )
    near_misses = (
        NearMiss(
            _BACK.replace("((b * T + t) * H + h) * D + d]", "h * D + d]"),
            why="one axis in two is dropped: a row that all share",
        ),
        NearMiss(
            _BACK.replace("int D)", "int D, int sb, int st)").replace(
                "((b * T + t) * H + h) * D + d]", "b * sb + t * st + h * D + d]"
            ),
            why="strides are given: nothing is known of the order",
        ),
        NearMiss(
            _AXES.replace("wide * length +", "wide +").replace(
                "blockIdx.y * wide;", "blockIdx.y * hidden;"
            ),
            why="stored in the order in which it was loaded",
        ),
        NearMiss(
            _AXES.replace("length, int heads", "length, int heads, int far").replace(
                "wide * length +", "far +"
            ),
            why="a stride is given",
        ),
        NearMiss(_SQUARE.replace("x[at * n + row]", "x[row]"), why="a row that all share"),
        NearMiss(ADD_THREADS, why="one position for all arrays"),
        NearMiss(ADD_POINTER, why="one position for all arrays"),
        NearMiss(COPY, why="whole tiles, in the order of the array"),
        NearMiss(PRODUCT, why="whole tiles"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Where]] = {}
        for store in facts.stores:
            if store.mode is not Mode.POINTER or store.is_atomic:
                continue
            for load in facts.held_loads(store.value):
                value = _moved(load, store)
                if value:
                    found.setdefault(value, []).extend((load, store))
        if facts.of_threads and not found and not facts.contractions:
            found[_ANOTHER] = [*_changed(facts)]
        for value, where in found.items():
            if where:
                yield self.decide(facts, value, where)


def _changed(facts: Facts) -> Iterable[Where]:
    """Stores in another order of axes than what they are made of was loaded in, with the products
    that place them."""
    for store in facts.stores:
        placed = _counters(store) if not store.is_atomic else {}
        for load in facts.feeding(store.value) if len(placed) > 1 else ():
            if _other_order(_counters(load), placed):
                above = [n for v in store.address for n in facts.graph.upstream(v, _reads)]
                products = [n for n in above if n.op.kind == OpKind.MUL]
                moved = [n for n in products if _moves(facts.values.expr(n.result))]
                yield load
                yield from moved
                yield store
                break


def _reads(node: Node) -> bool:
    return node.op.kind in READS


def _moves(place: Expr) -> bool:
    return place.has(*_COUNTERS)


def _counters(access: Access) -> dict[Atom, Term]:
    """What the number of a thread, a block or a round is multiplied with in a place; none where
    something else says where it is."""
    found: dict[Atom, Term] = {}
    if access.mode is not Mode.POINTER or len(access.index) != 1:
        return {}
    for factors, number in access.index[0].terms:
        moving = [a for a in factors if a.kind in _COUNTERS or _counted(a)]
        if len(moving) != 1 or moving[0] in found:
            return {}
        found[moving[0]] = (tuple(a for a in factors if a is not moving[0]), number)
    return found


def _counted(atom: Atom) -> bool:
    """A quotient of the number of a block or a thread by what a launch tells, or its rest."""
    over = atom.args[0].atom if atom.kind in _PARTS else None
    return over is not None and over.kind in _COUNTERS and not _moves(atom.args[1])


def _other_order(read: dict[Atom, Term], written: dict[Atom, Term]) -> bool:
    """Whether two axes change places, and both arrays have the same."""
    return read.keys() == written.keys() and any(
        _farther(read[one], read[other]) and _farther(written[other], written[one])
        for one in read
        for other in read
    )


def _farther(one: Term, other: Term) -> bool:
    """Whether one distance is the other one times something, or that of which the other is a
    part."""
    if one[1] < other[1]:
        return False
    wide, narrow = list(one[0]), list(other[0])
    for atom in [a for a in narrow if a not in wide]:
        whole = atom.args[0].atom if atom.kind is AtomKind.FLOOR_DIV else None
        if whole is None or whole not in wide:
            return False
        narrow[narrow.index(atom)] = whole
    return one != other and all(narrow.count(a) <= wide.count(a) for a in narrow)


def _moved(load: Access, store: Access) -> str:
    """Which of the two places is the permuted one; empty when none is."""
    if load.mode is not Mode.POINTER or not load.index or not store.index:
        return ""
    read, written = load.index[0], store.index[0]
    if _permuted(written, read):
        return "read in order, written permuted"
    return "read permuted, written in order" if _permuted(read, written) else ""


def _permuted(place: Expr, flat: Expr) -> bool:
    """True when a place is made of three or more parts of a flat position, of which the n-th counts
    n of the extents: nothing is dropped, and not every part lies where it was."""
    if len(place.terms) < 3 or any(a.kind in _PARTS for a in flat.top()):
        return False
    factors = [f for f, _ in place.terms]
    parts = [[a for a in f if a.kind in _PARTS] for f in factors]
    extents = [[a for a in f if a.kind not in _PARTS] for f in factors]
    if any(len(p) != 1 for p in parts) or sorted(map(len, extents)) != [*range(len(parts))]:
        return False
    given = {a for part in parts for inner in part[0].args for a in inner.atoms()}
    known = all(a in given for some in extents for a in some)
    own = set(flat.atoms())
    of_flat = all(own <= set(part[0].args[0].atoms()) for part in parts)
    return (
        known
        and of_flat
        and any(_divisor(p[0]) != _times(e) for p, e in zip(parts, extents, strict=True))
    )


def _divisor(part: Atom) -> Expr:
    """What a flat position is divided by to find a part."""
    if part.kind is AtomKind.FLOOR_DIV:
        return part.args[1]
    inner = part.args[0].atom
    return inner.args[1] if inner is not None and inner.kind is AtomKind.FLOOR_DIV else ONE


def _times(extents: list[Atom]) -> Expr:
    return Expr(((tuple(extents), 1),))

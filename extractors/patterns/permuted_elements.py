"""Elements that are copied to where other axes come first, place by place."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT
from extractors.patterns.cases_rows import ADD_POINTER, COPY
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.symbolic import ONE, Atom, AtomKind, Expr
from kb.evidence import Decision

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


class PermutedElements(Pattern):
    """A loaded number is stored as it is; one of the two places is a flat position, the other is
    put together from quotients and remainders of it, with products of the same extents."""

    name = "axes-permuted-by-index-arithmetic"
    axis = "operand_layout"
    source = "NVIDIA, An Efficient Matrix Transpose in CUDA C/C++ (2013)"
    matches = (
        Case(_TURNED, "read in order, written permuted"),
        Case(_BACK, "read permuted, written in order"),
        Case(_TURNED_POINTER, "read in order, written permuted"),
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
        for value, where in found.items():
            yield self.decide(facts, value, where)


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

"""Numbers held to the range of the type that they are cast to."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.clamps import clamps, opposite
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.quantised import FEW_BITS
from kb.evidence import Decision
from kb.ops import OpKind

_POINTER = (
    POINTER
    + """
@triton.jit
def pack(x, out, scale, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0) * scale
    v = tl.minimum(tl.maximum(v, -448.0), 448.0)
    tl.store(out + at, v.to(tl.float8e4nv), mask=at < n)
"""
)
_TO_OPEN = vary(_POINTER, ("tl.float8e4nv", "out.dtype.element_ty"))
_RANGE = vary(
    _POINTER,
    ("scale, n,", "scale, n, low: tl.constexpr, high: tl.constexpr,"),
    ("v = tl.minimum(tl.maximum(v, -448.0), 448.0)", "v = tl.clamp(v, low, high)"),
)
_BY_STORE = vary(_RANGE, ("v.to(tl.float8e4nv)", "v"))
_TILE = """import cuda.tile as ct
@ct.kernel
def pack(x, out, scale, T: ct.Constant[int]):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,)) * scale
    v = ct.minimum(ct.maximum(v, -448.0), 448.0)
    ct.store(out, index=(ct.bid(0),), tile=ct.astype(v, ct.float8_e4m3fn))
"""
_THREADS = """__global__ void pack(const float* x, __nv_fp8_e4m3* out, float scale, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = __nv_fp8_e4m3(fmaxf(-448.f, fminf(x[at] * scale, 448.f)));
}
"""
_FLOATS = FEW_BITS - {"i4", "u4", "i8", "u8"} | {"f16"}
_SCALES = frozenset({OpKind.MUL, OpKind.DIV})
_LOOKS = VIEWS | CASTS


class SaturatingCast(Pattern):
    """A number is held between a bound and its negative, or is scaled and held between two bounds
    that the call gives, and is cast to floats of few bits, or to a type that is left open."""

    name = "number-held-to-the-range-of-a-narrow-type"
    axis = "rounding_mode"
    source = "Micikevicius et al., FP8 Formats for Deep Learning (2022), section 3.1: saturation"
    matches = (
        Case(_POINTER, "saturating"),
        Case(_TO_OPEN, "saturating"),
        Case(_RANGE, "saturating"),
        Case(_BY_STORE, "saturating"),
        Case(_TILE, "saturating"),
        Case(_THREADS, "saturating"),
    )
    near_misses = (
        NearMiss(vary(_POINTER, ("tl.float8e4nv", "tl.float32")), why="the type holds far more"),
        NearMiss(vary(_POINTER, ("-448.0", "0.0")), why="what is below zero is cut, as by a ReLU"),
        NearMiss(vary(_RANGE, (" * scale", "")), why="clamping to what the call asks for"),
        NearMiss(_TILE.replace("ct.maximum(v, -448.0)", "v"), why="one bound"),
        NearMiss(
            _THREADS.replace("__nv_fp8_e4m3", "float").replace(" * scale", ""),
            why="no narrow type",
        ),
        NearMiss(PRODUCT, why="nothing is held"),
        NearMiss(PRODUCT_POINTER, why="nothing is held"),
        NearMiss(PRODUCT_THREADS, why="nothing is held"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Node] = []
        for outer, inner, low, high in clamps(facts):
            cast = _cast(facts, outer)
            to = facts.types.dtype((cast or outer).result)
            narrow = cast is not None and {*to.split("|")} <= _FLOATS
            left_open = cast is None or not to or to.startswith(("dtypeof(", "?"))
            scaled = _scaled(facts, inner, (low, high))
            by_type = cast is not None and opposite(facts, low, high)
            by_call = scaled and _handed(facts, low, high)
            held = narrow and (by_type or by_call)
            held = held or (left_open and scaled and (by_type or by_call))
            if held and facts.stored_in((cast or outer).result):
                found += [inner, outer, *([cast] if cast is not None else [])]
        if found:
            yield self.decide(facts, "saturating", list(dict.fromkeys(found)))


def _cast(facts: Facts, clamp: Node) -> Node | None:
    """The first cast of what a clamp gives, views apart."""
    ahead = [clamp]
    while ahead:
        for user in facts.graph.users(ahead.pop().result):
            if user.kind in CASTS:
                return user
            ahead += [user] if user.kind in VIEWS else []
    return None


def _scaled(facts: Facts, inner: Node, bounds: tuple[str, str]) -> bool:
    """What is held is a loaded number times or over another."""
    for value in (v for v in inner.op.inputs[:2] if v not in bounds):
        made = facts.graph.producer(facts.graph.through(value, _LOOKS))
        if made is not None and made.kind in _SCALES and facts.feeding(made.result):
            return True
    return False


def _handed(facts: Facts, low: str, high: str) -> bool:
    """Two bounds that the caller gives."""
    given = {p.name for p in facts.kernel.entry.parameters}
    return low != high and {facts.graph.core(low), facts.graph.core(high)} <= given

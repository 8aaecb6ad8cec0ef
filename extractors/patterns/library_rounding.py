"""Rounding to whole numbers by a function of the library, which decides where halves go."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_EVEN = "nearest even by a library function"
_AWAY = "half away from zero by a library function"
_FUNCTIONS = {
    **dict.fromkeys(
        ("rint", "rintf", "nearbyint", "nearbyintf", "llrint", "llrintf", "lrintf", "hrint"), _EVEN
    ),
    **dict.fromkeys(("round", "roundf", "llround", "lroundf"), _AWAY),
}
"""Source: CUDA Math API: round and its kin take halves away from zero, rint and its kin to even."""
_KEPT = CASTS | VIEWS | {OpKind.CLAMP, OpKind.MINIMUM, OpKind.MAXIMUM}

_WHOLE = (
    POINTER
    + """
from triton.language.extra import libdevice
@triton.jit
def small(x, out, rate, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n) * rate
    v = libdevice.round(v)
    tl.store(out + at, v.to(tl.int8), mask=at < n)
"""
)
_STORED = vary(
    _WHOLE,
    ("rate, n, T: tl.constexpr", "rate, n, WHOLE: tl.constexpr, T: tl.constexpr"),
    ("    v = libdevice", "    if WHOLE:\n        v = libdevice"),
    ("v.to(tl.int8)", "tl.minimum(tl.maximum(v, -127.0), 127.0)"),
)
_THREADS = """__global__ void narrow(const float* x, signed char* out, float rate, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = (signed char)fminf(fmaxf(rintf(x[at] * rate), -127.f), 127.f);
}
"""


class LibraryRounding(Pattern):
    """What a library function rounded to whole numbers is cast to an integer, or stored."""

    name = "library-rounding-before-an-integer-cast"
    axis = "rounding_mode"
    source = "NVIDIA, CUDA Math API: round, rint, nearbyint"
    matches = (
        Case(_WHOLE, _AWAY),
        Case(vary(_WHOLE, ("libdevice.round", "libdevice.rint")), _EVEN),
        Case(_STORED, _AWAY),
        Case(_THREADS, _EVEN),
    )
    near_misses = (
        NearMiss(vary(_WHOLE, ("v.to(tl.int8)", "v * rate")), why="the number goes on as a float"),
        NearMiss(
            vary(_WHOLE, ("libdevice.round", "libdevice.trunc")), why="the fraction is cut off"
        ),
        NearMiss(vary(_THREADS, ("rintf", "truncf")), why="the fraction is cut off"),
        NearMiss(ADD_POINTER, why="nothing is rounded"),
        NearMiss(PRODUCT, why="nothing is rounded"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        calls = {n: v for n in facts.graph.of(OpKind.EXTERN_MATH) if (v := _way(n)) is not None}
        if not calls:
            return
        casts = [
            n for n in facts.graph.of(*CASTS) if facts.types.dtype(n.result).startswith(("i", "u"))
        ]
        ends = [(n, n.op.inputs[0]) for n in casts]
        ends += [(s.node, s.value) for s in facts.stores if s.value is not None]
        for way in dict.fromkeys(calls.values()):
            found: list[Node] = []
            for end, value in ends:
                made = [n for n in facts.graph.ends(value, _KEPT) if calls.get(n) == way]
                found += [*made, end] if made else []
            if found:
                yield self.decide(facts, way, found)


def _way(call: Node) -> str | None:
    """Where a function that rounds to whole numbers takes halves, if a call is of one."""
    name = str(call.op.attribute("spelling")).replace("::", ".").rpartition(".")[2]
    return _FUNCTIONS.get(name)

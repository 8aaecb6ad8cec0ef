"""Rounding to whole numbers by a function of the library, which decides where halves go."""

from __future__ import annotations

import re
from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.assembly import instructions
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

_CONVERTED = "nearest even by the conversion"
_CUT = "nearest even by the conversion, cut to the range"
_TO_WHOLE = re.compile(r"_*(float|half|bfloat16|double)2(int|uint|ll|ull|short|ushort|char)_rn")
"""Source: CUDA Math API, type casting intrinsics: _rn rounds to the nearest, halves to even."""
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
_THREADS_CONVERTED = vary(_THREADS, ("rintf(x[at] * rate)", "__float2int_rn(x[at] * rate)"))
_THREADS_ASSEMBLY = """__global__ void narrow(const float* x, signed char* out, float rate, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned v;
    asm volatile("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(v) : "f"(x[at] * rate));
    if (at < n) out[at] = reinterpret_cast<const signed char&>(v);
}
"""
_ASSEMBLY = vary(
    _WHOLE,
    (
        "libdevice.round(v)",
        "tl.inline_asm_elementwise("
        '"cvt.rni.sat.s8.f32 $0, $1;", "=r,f", [v], dtype=tl.int32, is_pure=True, pack=1)',
    ),
)


class LibraryRounding(Pattern):
    """What a library function rounded to whole numbers is cast to an integer, or stored; or a
    conversion that rounds to the nearest makes the integer that is stored."""

    name = "library-rounding-before-an-integer-cast"
    axis = "rounding_mode"
    source = "NVIDIA, CUDA Math API: round, rint, nearbyint"
    matches = (
        Case(_WHOLE, _AWAY),
        Case(vary(_WHOLE, ("libdevice.round", "libdevice.rint")), _EVEN),
        Case(_STORED, _AWAY),
        Case(_THREADS, _EVEN),
        Case(_THREADS_CONVERTED, _CONVERTED),
        Case(_THREADS_ASSEMBLY, _CUT),
        Case(vary(_WHOLE, ("libdevice.round", "libdevice.float2int_rn")), _CONVERTED),
        Case(_ASSEMBLY, _CUT),
    )
    near_misses = (
        NearMiss(vary(_WHOLE, ("v.to(tl.int8)", "v * rate")), why="the number goes on as a float"),
        NearMiss(
            vary(_WHOLE, ("libdevice.round", "libdevice.trunc")), why="the fraction is cut off"
        ),
        NearMiss(vary(_THREADS, ("rintf", "truncf")), why="the fraction is cut off"),
        NearMiss(
            vary(_THREADS_CONVERTED, ("2int_rn", "2int_rz")), why="the conversion cuts it off"
        ),
        NearMiss(vary(_THREADS_ASSEMBLY, (".rni.", ".rzi.")), why="the conversion cuts it off"),
        NearMiss(vary(_ASSEMBLY, (".rni.", ".rzi.")), why="the conversion cuts it off"),
        NearMiss(
            vary(_THREADS_CONVERTED, ("out[at] =", "out[at + (int)"), ("127.f)", "127.f)] = 0")),
            why="it is a place",
        ),
        NearMiss(ADD_POINTER, why="nothing is rounded"),
        NearMiss(PRODUCT, why="nothing is rounded"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        yield from self._called(facts)
        values = [s.value for s in facts.stores if s.value is not None]
        made: dict[str, list[Node]] = {}
        for node in facts.graph.of(OpKind.EXTERN_MATH, OpKind.INLINE_ASM, *CASTS):
            way = _converted(facts, node)
            if way and any(facts.graph.rests_on(v, node) for v in values):
                made.setdefault(way, []).append(node)
        for way, nodes in made.items():
            yield self.decide(facts, way, nodes)

    def _called(self, facts: Facts) -> Iterable[Decision]:
        calls = {n: v for n in facts.graph.of(OpKind.EXTERN_MATH) if (v := way_of(n)) is not None}
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


def _converted(facts: Facts, node: Node) -> str:
    """How a conversion to a whole number rounds, where it says that it takes the nearest."""
    words = {word for _, given in instructions(node, facts.values) for word in given}
    words |= {*str(node.op.attribute("opcode")).split(".")}
    if "rni" in words:
        return _CUT if "sat" in words else _CONVERTED
    name = str(node.op.attribute("spelling")).replace("::", ".").rpartition(".")[2]
    return _CONVERTED if _TO_WHOLE.fullmatch(name) else ""


def way_of(call: Node) -> str | None:
    """Where a function that rounds to whole numbers takes halves, if a call is of one."""
    name = str(call.op.attribute("spelling")).replace("::", ".").rpartition(".")[2]
    return _FUNCTIONS.get(name)

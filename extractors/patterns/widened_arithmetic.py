"""Arithmetic in 32-bit floats on what was stored in fewer bits."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.butterfly_stages import STAGES_POINTER
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER, COPY, LAYER_NORM_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import COPY_THREADS, ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, TURNS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_ARITHMETIC = frozenset({
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.EXP, OpKind.EXP2,
    OpKind.TANH, OpKind.NEG, OpKind.SIGMOID, OpKind.ERF, OpKind.LOG, OpKind.LOG2, OpKind.SQRT,
    OpKind.RSQRT, OpKind.POW, OpKind.CUMSUM, OpKind.CUMPROD, OpKind.SCAN,
    *REDUCTIONS,
})  # fmt: skip
_SEEN = VIEWS | TURNS | {
    OpKind.SELECT, OpKind.BITCAST, OpKind.SPLIT, OpKind.UNPACK, OpKind.EXTRACT, OpKind.INSERT,
    OpKind.ABS, OpKind.TUPLE,
}  # fmt: skip
_UPPER: dict[str, tuple[int, ...]] = {
    OpKind.SHIFT_LEFT: (16,),
    OpKind.BIT_AND: (0xFFFF0000, -0x10000),
}
"""How the bits of a bfloat16 come to be the upper half of a float of 32 bits."""

_MOST = 64
"""Values that are looked at on the way from a load or a cast to what reads it."""
_HALVES = """#include <cuda_fp16.h>
__global__ void twice(const half* x, half* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = __float2half(2.f * __half2float(x[at]));
}
"""
_LARGEST = (
    POINTER
    + """
@triton.jit
def largest(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=-float("inf")).to(tl.float32)
    tl.store(out + tl.program_id(0), tl.max(v, axis=0))
"""
)
_DOUBLE = vary(_LARGEST, ("tl.max(v, axis=0)", "1.0 / tl.max(v, axis=0).to(tl.float64)"))
_IN_STAGES = vary(STAGES_POINTER, ("* T + at)\n", "* T + at).to(tl.float32)\n"))
_EITHER = _HALVES.replace(
    "out[at] = __float2half(2.f * __half2float(x[at]))",
    "{ float v; if (out == x) v = 1.f; else v = __half2float(x[at]); out[at] = __float2half(2.f * v); }",  # noqa: E501
)
_BY_BITS = """__global__ void pairs(const unsigned* x, unsigned* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    unsigned low = (x[at] & 65535) << 16, high = x[at] & 4294901760;
    float made = *reinterpret_cast<float*>(&low) * *reinterpret_cast<float*>(&high);
    out[at] = *reinterpret_cast<unsigned*>(&made);
}
"""


class WidenedArithmetic(Pattern):
    """What was loaded is cast to 32-bit floats, or its bits become their upper halves, and those
    are computed with; matrix products widen by themselves."""

    name = "compute-in-32-bit-floats"
    axis = "compute_dtype"
    source = "Micikevicius et al., Mixed Precision Training (2018)"
    matches = (
        Case(_DOUBLE, "fp64"),
        Case(_LARGEST, "fp32"),
        Case(vary(_LARGEST, ("tl.max(v,", "tl.max(tl.abs(v),")), "fp32"),
        Case(ROW_NORM, "fp32"),
        Case(LAYER_NORM_POINTER, "fp32"),
        Case(ROW_NORM_THREADS, "fp32"),
        Case(_HALVES, "fp32"),
        Case(_IN_STAGES, "fp32"),
        Case(_EITHER, "fp32"),
        Case(_BY_BITS, "fp32"),
    )
    near_misses = (
        NearMiss(
            _BY_BITS.replace("<< 16", "<< 8").replace("4294901760", "4278190080"),
            why="the bits are no float of 16 bits",
        ),
        NearMiss(STAGES_POINTER, why="stages in the type of the array"),
        NearMiss(COPY, why="nothing is computed"),
        NearMiss(COPY_THREADS, why="nothing is computed"),
        NearMiss(PRODUCT, why="the product widens by itself"),
        NearMiss(ROW_NORM, why="32 bits are enough", value="fp64"),
        NearMiss(
            vary(_LARGEST, (".to(tl.float32)", "")), why="the largest in the type of the array"
        ),
        NearMiss(ADD_POINTER, why="the sum is taken in the type of the arrays"),
        NearMiss(
            _HALVES.replace("2.f * __half2float(x[at])", "__half2float(x[at])"),
            why="cast and cast back, nothing is computed",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Node] = []
        for access in facts.loads:
            for cast in self._casts(facts, access.value):
                computed = self._computed(facts, cast.result)
                found += [cast, *computed, *self._choice(facts, cast)] if computed else []
        for moved, seen in self._halves(facts):
            kinds = ((n, n.op.results[0].type) for n in self._computed(facts, seen.result))
            computed = [n for n, kind in kinds if kind is not None and kind.dtype == "f32"]
            found += [moved, *computed] if computed else []
        if found:
            found += self._narrowed(facts, found)
            casts = [n for n in found if n.op.kind in CASTS]
            chosen = casts and all(facts.types.dtype(n.result) != "f32" for n in casts)
            value = "fp32 or another type, by a condition" if chosen else "fp32"
            yield self.decide(facts, value, dict.fromkeys(found))
        double = [n for cast in facts.graph.of(*CASTS) for n in self._double(facts, cast)]
        if double:
            yield self.decide(facts, "fp64", dict.fromkeys(double))

    def _halves(self, facts: Facts) -> Iterable[tuple[Node, Node]]:
        """Where the bits of a loaded word are moved to the upper half, or all but that is cut off,
        with where they are seen as a float."""
        for seen in facts.graph.of(OpKind.BITCAST):
            moved = facts.graph.producer(facts.graph.through(seen.op.inputs[0], VIEWS))
            if moved is None or moved.op.kind not in _UPPER or not facts.feeding(moved.result):
                continue
            if facts.number(moved.op.inputs[1]) in _UPPER[moved.op.kind]:
                yield moved, seen

    def _choice(self, facts: Facts, cast: Node) -> list[Node]:
        """What chooses between 32-bit floats and another type that a value is cast to."""
        made = facts.graph.producer(cast.op.operand("dtype"))
        if made is None or made.op.kind not in (OpKind.IF, OpKind.IF_EXPRESSION):
            return []
        return [made, *facts.graph.upstream(made.op.inputs[0])]

    def _narrowed(self, facts: Facts, found: list[Node]) -> list[Node]:
        """Of threads: where what was computed is cast to the type in which it is stored."""
        made = [facts.graph.producer(facts.graph.plain(a.value)) for a in facts.stores]
        return [
            n
            for n in made
            if n is not None
            and facts.of_threads
            and n.op.kind in CASTS
            and facts.types.wide(n.op.inputs[0])
            and not facts.types.wide(n.result)
            and any(facts.graph.rests_on(n.result, one) for one in found)
        ]

    def _double(self, facts: Facts, cast: Node) -> list[Node]:
        """A cast to 64-bit floats with what is computed in them."""
        if facts.types.dtype(cast.result) != "f64" or not facts.feeding(cast.op.inputs[0]):
            return []
        computed = self._computed(facts, cast.result)
        return [cast, *computed] if computed else []

    def _casts(self, facts: Facts, value: str) -> list[Node]:
        """Casts of a loaded value to 32-bit floats."""
        casts = [n for n in self._users(facts, value) if n.op.kind in CASTS]
        return [n for n in casts if facts.types.wide(n.result)]

    def _computed(self, facts: Facts, value: str) -> list[Node]:
        """Arithmetic that takes a value in as it is."""
        return [n for n in self._users(facts, value) if n.op.kind in _ARITHMETIC]

    def _users(self, facts: Facts, value: str) -> list[Node]:
        """Operations that read a value, possibly seen in another shape."""
        found, pending = [], [value]
        for current in pending:
            for user in facts.graph.users(current):
                if user.op.kind in _SEEN and user.op.results and len(pending) < _MOST:
                    pending += [r.name for r in user.op.results]
                elif user.op.kind in LOOPS and len(pending) < _MOST:
                    pending += self._carried(facts, user, current)
                elif user.op.kind == OpKind.YIELD and len(pending) < _MOST:
                    pending += facts.graph.onward(user, current)
                found.append(user)
        return found

    def _carried(self, facts: Facts, loop: Node, value: str) -> list[str]:
        """What a loop that begins with a value calls it inside."""
        names = loop.op.regions[-1].arguments[1 if loop.op.kind == OpKind.FOR else 0 :]
        starts = facts.graph.inits(loop)
        return [a.name for a, start in zip(names, starts, strict=False) if start == value]

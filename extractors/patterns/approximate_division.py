"""Rounding of divisions, transcendental functions and narrowing casts."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.assembly import instructions
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Node
from kb.dialects.registry import rounding
from kb.evidence import Decision
from kb.ops import OpKind

_MODES = frozenset({"rn", "approx", "full"})
_OWN = frozenset({OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.TANH, OpKind.RSQRT})
"""Functions of which threads have approximate instructions beside exact ones."""
_NARROWING = {"rtne": "rn", "rtz": "rz"}


_FAST = (
    POINTER
    + """from triton.language.extra import libdevice
@triton.jit
def ratio(x, y, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n)
    w = tl.load(y + at, mask=at < n)
    tl.store(out + at, libdevice.fast_dividef(v, w), mask=at < n)
"""
)


_FAST_THREADS = """__global__ void ratio(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = __fdividef(x[at], 3.f);
}
"""


_UNFUSED_THREADS = """__global__ void scale(float* x, float rate, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) x[at] = __fmul_rn(x[at], rate) - 1.f;
}
"""
_NARROWED_THREADS = """#include <cuda_fp16.h>
__global__ void narrow(const float* x, half* out, float rate, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = __float2half_rn(x[at] * rate);
}
"""
_ONCE_THREADS = vary(
    _FAST_THREADS,
    ("    if (at < n)", "    float r = __frcp_rn(s);\n    if (at < n)"),
    ("int n", "float s, int n"),
    ("__fdividef(x[at], 3.f)", "x[at] * r"),
)
_POWERS_THREADS = vary(_FAST_THREADS, ("__fdividef(x[at], 3.f)", "__expf(x[at])"))
_WRITTEN = vary(
    _FAST_THREADS,
    (
        "    if (at",
        '    float r;\n    asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(3.f), "f"(4.f));\n',
    ),
    (" < n) out[at] = __fdividef(x[at], 3.f)", "    if (at < n) out[at] = r * x[at]"),
)


class ApproximateDivision(Pattern):
    """A rounding mode is given on the operation, by the function called, or in assembly.

    An instruction that has no exact form decides how a function is taken, not how it rounds.
    """

    name = "approximate-division-transcendental"
    axis = "rounding_mode"
    source = "NVIDIA, PTX ISA, div.approx and ex2.approx"
    matches = (
        Case(ATTENTION, "approx"),
        Case(SOFTMAX, "approx"),
        Case(vary(ATTENTION, ("RoundingMode.APPROX", "RoundingMode.RN")), "rn"),
        Case(_FAST, "approx"),
        Case(vary(_FAST, ("fast_dividef", "div_rn")), "rn"),
        Case(
            vary(_FAST, ("libdevice.fast_dividef(v, w)", "tl.fdiv(v, w, ieee_rounding=True)")), "rn"
        ),
        Case(
            vary(PRODUCT_POINTER, ("tl.float16)", 'tl.float16, fp_downcast_rounding="rtne")')), "rn"
        ),
        Case(_FAST_THREADS, "approx"),
        Case(_ONCE_THREADS, "rn"),
        Case(_WRITTEN, "rn"),
        Case(_UNFUSED_THREADS, "rn"),
        Case(_NARROWED_THREADS, "rn"),
    )
    near_misses = (
        NearMiss(
            _UNFUSED_THREADS.replace("__fmul_rn(x[at], rate)", "x[at] * rate"),
            why="the compiler may fuse a product and a sum",
        ),
        NearMiss(_POWERS_THREADS, why="a function of its own: another approximation"),
        NearMiss(
            vary(
                _ONCE_THREADS,
                (
                    "float r = __frcp_rn(s);",
                    'float r;\n    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(s));',
                ),
            ),
            why="an instruction of its own: another approximation",
        ),
        NearMiss(PRODUCT, why="no rounding mode is given"),
        NearMiss(PRODUCT_POINTER, why="no rounding mode is given"),
        NearMiss(PRODUCT_THREADS, why="no rounding mode is given"),
        NearMiss(vary(_ONCE_THREADS, ("__frcp_rn(s)", "1.f / s")), why="an operator says no mode"),
        NearMiss(_NARROWED_THREADS.replace("half_rn(", "half("), why="a cast that says no mode"),
        NearMiss(
            _NARROWED_THREADS.replace("(x[at] * rate)", "(2.f)"),
            why="a number that is exact anyway",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Node]] = {}
        for node in facts.graph.nodes:
            for value in self._modes(facts, node):
                found.setdefault(value, []).append(node)
        for value, nodes in found.items():
            yield self.decide(facts, value, nodes)

    def _modes(self, facts: Facts, node: Node) -> Iterable[str]:
        """The mode that an operand, the called function or a line of assembly gives."""
        mode = facts.graph.producer(facts.graph.through(node.op.operand("rounding"), COPIES))
        opcode = str(node.op.attribute("opcode")).split(".")
        only = facts.of_threads and (node.op.kind in _OWN or "approx" in opcode)
        if mode is not None and mode.op.kind == OpKind.ENUM and not only:
            yield str(mode.op.attribute("name")).removeprefix("rounding.")
        given = facts.values.literal(node.op.operand("rounding"))
        if isinstance(given, str) and given in _NARROWING:
            yield _NARROWING[given]
        if facts.values.literal(node.op.operand("ieee_rounding")) is True:
            yield "rn"
        yield from {*opcode} & {"rn"}
        named = rounding(facts.kernel.dialect, str(node.op.attribute("spelling")))
        made = any(facts.number(v) is None for v in node.op.inputs)
        if named is not None and made and node.op.kind not in _OWN:
            yield named
        yield from {
            modifier
            for _, modifiers in instructions(node, facts.values)
            for modifier in modifiers & _MODES
        }

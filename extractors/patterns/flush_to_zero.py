"""Denormal results are flushed to zero, or kept, by a flag on the operation."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.assembly import instructions
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision

_ASSEMBLY = (
    POINTER
    + """
@triton.jit
def power(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n)
    y = tl.inline_asm_elementwise(
        "ex2.approx.ftz.f32 $0, $1;", "=f,f", [v], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out + at, y, mask=at < n)
"""
)


_ASSEMBLY_THREADS = """__global__ void power(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x[at]));
    if (at < n) out[at] = y;
}
"""


_PLAIN = frozenset({"add", "sub", "mul", "fma", "div", "rcp", "sqrt"})
"""Arithmetic that the language has too: in assembly it says how denormals are treated."""
_KEPT_THREADS = vary(
    _ASSEMBLY_THREADS,
    ('"ex2.approx.ftz.f32 %0, %1;"', '"mul.rn.f32 %0, %1, %2;"'),
    ('"f"(x[at])', '"f"(x[at]), "f"(2.f)'),
)


class FlushToZero(Pattern):
    """The flag is given on an arithmetic operation: set, or expressly not set; or in assembly,
    where plain arithmetic is written to be without it.

    An operation that says nothing decides nothing: it keeps denormals because its dialect does.
    """

    name = "flush-to-zero-on-transcendental-arith-ops"
    axis = "denormal_mode"
    source = "NVIDIA, PTX ISA, ex2.approx.ftz.f32"
    matches = (
        Case(ATTENTION, "ftz"),
        Case(SOFTMAX, "ftz"),
        Case(vary(SOFTMAX, ("flush_to_zero=True", "flush_to_zero=False")), "ieee denormals"),
        Case(_ASSEMBLY, "ftz"),
        Case(_ASSEMBLY_THREADS, "ftz"),
        Case(_KEPT_THREADS, "ieee denormals"),
        Case(vary(_KEPT_THREADS, ("mul.rn.f32", "mul.rn.ftz.f32")), "ftz"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="no operation has the flag"),
        NearMiss(
            vary(SOFTMAX, ("flush_to_zero=True", "flush_to_zero=False")),
            why="the flag is off",
            value="ftz",
        ),
        NearMiss(
            vary(SOFTMAX, (", flush_to_zero=True", "")),
            why="the flag is not given, its default is no decision",
            value="ieee denormals",
        ),
        NearMiss(PRODUCT_POINTER, why="no operation has the flag"),
        NearMiss(vary(_ASSEMBLY, (".ftz", "")), why="the instruction keeps denormals"),
        NearMiss(
            vary(_KEPT_THREADS, ("mul.rn.f32", "mul.rn.f32x2")),
            why="written for the pair of numbers",
        ),
        NearMiss(PRODUCT_THREADS, why="no operation has the flag"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        given = [(facts.values.literal(n.op.operand("ftz")), n) for n in facts.graph.nodes]
        given += [(True, n) for n in facts.graph.nodes if _flushes(facts, n)]
        given += [(False, n) for n in facts.graph.nodes if _keeps(n)]
        for flag, value in ((True, "ftz"), (False, "ieee denormals")):
            nodes = [node for seen, node in given if seen is flag]
            if nodes:
                yield self.decide(facts, value, nodes)


def _keeps(node: Node) -> bool:
    """True for an instruction of plain arithmetic on single floats without the modifier."""
    name, *modifiers = str(node.op.attribute("opcode")).split(".")
    return name in _PLAIN and "f32" in modifiers and not {"ftz", "approx"} & set(modifiers)


def _flushes(facts: Facts, node: Node) -> bool:
    """True when an instruction of inline assembly has the modifier, read as such or lifted."""
    if "ftz" in str(node.op.attribute("opcode")).split("."):
        return True
    return any("ftz" in modifiers for _, modifiers in instructions(node, facts.values))

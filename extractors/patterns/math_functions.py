"""Transcendental functions that are taken as one operation."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_pointer import FLASH_POINTER_LSE
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, SOFTMAX
from extractors.patterns.cases_rows_pointer import LAYER_NORM
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.soft_capping import SOFT_CAPPED, capped
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Role
from kb.evidence import Decision
from kb.ops import OpKind

_GATE = (
    POINTER
    + """
@triton.jit
def gate(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(out + at, v * tl.sigmoid(v), mask=at < n)
"""
)
_TOGETHER = vary(
    _GATE,
    ("v * tl.sigmoid(v)", "tl.fma(v, w, v)"),
    ("    tl.store", "    w = v + 1.0\n    tl.store"),
)
_CARRIED = (
    POINTER
    + """
@triton.jit
def weigh(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    tot = tl.zeros((T,), dtype=tl.float32)
    for i in range(0, n, T):
        tot = tl.fma(tot, 0.5, tl.load(x + i + at))
    tl.store(out + at, tot)
"""
)
_ROOT_BELOW = (
    POINTER
    + """
@triton.jit
def norm(x, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    root = tl.sqrt(tl.sum(v * v, axis=0) / n + 1e-6)
    tl.store(out + row * n + at, v / root, mask=at < n)
"""
)
_ROOT_BELOW_TILE = (
    TILE
    + """
@ct.kernel
def norm(x, out, N: Int, T: Int):
    row = ct.bid(0)
    v = ct.astype(ct.load(x, index=(row, 0), shape=(1, T)), ct.float32)
    root = ct.sqrt(ct.sum(v * v, axis=1, keepdims=True) / N + 1e-6)
    ct.store(out, index=(row, 0), tile=ct.astype(v / root, out.dtype))
"""
)
_BY_ROOT = "divided by a root"
_NAMES = {
    OpKind.RSQRT: "rsqrt", OpKind.SIGMOID: "sigmoid", OpKind.TANH: "tanh", OpKind.ERF: "erf",
    OpKind.LOG: "log", OpKind.LOG2: "log2",
    OpKind.SIN: "sine", OpKind.COS: "cosine", OpKind.POW: "power",
}  # fmt: skip


_FAST = """__global__ void turn(const float* x, float* out, float base) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float s, c;
    __sincosf(x[at] * __powf(base, 0.5f), &s, &c);
    out[at] = s + c;
}
"""
_FORMS = 16
"""Forms of a root that are looked at."""
_FAST_NAMES = {OpKind.POW: "power", OpKind.SIN: "sine", OpKind.COS: "cosine"}


_INVERSE = """__global__ void invert(const float* x, float* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x[at]));
    out[at] = r;
}
"""


class MathFunctions(Pattern):
    """A reciprocal root, in one step or by a division, elements divided by a root, a logistic or
    hyperbolic function, or a product and a sum in one rounding, that reaches what is stored; a
    natural logarithm without a softmax of products, one to the base of two without exponentials, a
    power or an angle function, approximate where it says so."""

    name = "transcendental-function-as-one-operation"
    axis = "math_approximation"
    source = "NVIDIA, CUDA Math API: error bounds; PTX ISA, rsqrt.approx, tanh.approx, ex2.approx"
    matches = (
        Case(LAYER_NORM_POINTER, "rsqrt"),
        Case(_GATE, "sigmoid"),
        Case(LAYER_NORM, "rsqrt"),
        Case(LAYER_NORM_THREADS, "rsqrt"),
        Case(vary(LAYER_NORM_POINTER, ("tl.rsqrt(var + eps)", "1 / tl.sqrt(var + eps)")), "1/sqrt"),
        Case(vary(LAYER_NORM_THREADS, ("rsqrtf(", "1.f / sqrtf(")), "1/sqrt"),
        Case(_FAST, "fast power, sine, cosine"),
        Case(_INVERSE, "approximate reciprocal"),
        Case(_TOGETHER, "explicit fma"),
        Case(vary(_GATE, ("v * tl.sigmoid(v)", "tl.log(v)")), "log"),
        Case(vary(_GATE, ("v * tl.sigmoid(v)", "tl.log2(v)")), "log2"),
        Case(vary(_FAST, ("__sincosf", "sincosf"), ("__powf", "powf")), "sine"),
        Case(_ROOT_BELOW, _BY_ROOT),
        Case(_ROOT_BELOW_TILE, _BY_ROOT),
        Case(vary(LAYER_NORM_THREADS, ("rsqrtf(", "sqrtf("), ("c * r", "c / r")), _BY_ROOT),
    )
    near_misses = (
        NearMiss(SOFT_CAPPED, why="a cap of scores is told as such"),
        NearMiss(
            vary(LAYER_NORM_POINTER, ("tl.rsqrt(var + eps)", "tl.sqrt(var + eps)")),
            why="the root multiplies, nothing is divided",
            value="1/sqrt",
        ),
        NearMiss(
            vary(_ROOT_BELOW, ("v / root", "v / (root + 1e-6)")),
            why="elements are divided by more than a root",
            value=_BY_ROOT,
        ),
        NearMiss(
            vary(_ROOT_BELOW_TILE, ("v / root", "v * (1.0 / root)")),
            why="the inverse is taken once",
            value=_BY_ROOT,
        ),
        NearMiss(_CARRIED, why="a sum that a loop carries is scaled: part of its softmax"),
        NearMiss(
            vary(_TOGETHER, ("tl.fma(v, w, v)", "v * w + v")), why="left to the compiler to join"
        ),
        NearMiss(PRODUCT, why="there is no function"),
        NearMiss(SOFTMAX, why="the exponential is another pattern's"),
        NearMiss(PRODUCT_POINTER, why="there is no function"),
        NearMiss(PRODUCT_THREADS, why="there is no function"),
        NearMiss(vary(_INVERSE, ('"f"(x[at])', '"f"(__expf(x[at]))')), why="exponentials are told"),
        NearMiss(vary(_INVERSE, ("rcp.approx.ftz", "rcp.rn")), why="rounded as IEEE asks"),
        NearMiss(
            vary(_FAST, ("__sincosf", "sincosf"), ("__powf", "powf")),
            why="rounded as IEEE asks",
            value="fast power, sine, cosine",
        ),
        NearMiss(
            vary(FLASH_POINTER_LSE, ("tl.log2(tot)", "tl.log(tot)")),
            why="the logarithm of a softmax of products goes with its exponentials",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        bounded = capped(facts)
        caps = {node.op.kind for node in bounded}
        for kind, value in _NAMES.items():
            used = [
                node
                for node in facts.graph.of(kind)
                if any(facts.graph.rests_on(store.value, node) for store in facts.stores)
                and (kind not in _FAST_NAMES or node.op.operand("rounding") is None)
                and not (kind == OpKind.LOG and facts.score_products)
                and not (kind == OpKind.LOG2 and facts.exponentials)
                and (kind != OpKind.POW or facts.of_threads or facts.types.shape(node.result))
                and kind not in caps
                and not any(facts.graph.rests_on(cap.result, node) for cap in bounded)
            ]
            if used:
                yield self.decide(facts, value, used)
        together = [n for n in facts.graph.of(OpKind.FMA) if self._multiplies(facts, n)]
        if together:
            yield self.decide(facts, "explicit fma", together)
        yield from self._roots(facts)
        inverse = [n for n in facts.graph.of(OpKind.DIV) if self._inverse(facts, n)]
        if inverse:
            yield self.decide(facts, "approximate reciprocal", inverse)
        fast = [n for n in facts.graph.of(*_FAST_NAMES) if n.op.operand("rounding") is not None]
        if fast:
            names = [
                name for kind, name in _FAST_NAMES.items() if any(n.kind == kind for n in fast)
            ]
            yield self.decide(facts, f"fast {', '.join(names)}", fast)

    def _roots(self, facts: Facts) -> Iterable[Decision]:
        """Roots that divide: one, so that elements are multiplied, or elements themselves."""
        over = {n: self._divided(facts, n) for n in facts.graph.of(OpKind.SQRT)}
        ones = {
            root: [n for n in quotients if facts.number(n.op.inputs[0]) == 1]
            for root, quotients in over.items()
        }
        if any(ones.values()):
            yield self.decide(facts, "1/sqrt", [root for root, n in ones.items() if n])
        elements = [n for r, ns in over.items() if ns and not ones[r] for n in (r, *ns)]
        if elements:
            yield self.decide(facts, _BY_ROOT, elements)

    def _inverse(self, facts: Facts, node: Node) -> bool:
        """An instruction of a thread for one over a number, which has no exact form; the sum of
        exponentials that a softmax divides by is told as such."""
        name, *modifiers = str(node.op.attribute("opcode")).split(".")
        if name != "rcp" or "approx" not in modifiers:
            return False
        return not any(facts.graph.rests_on(node.result, e.node) for e in facts.exponentials)

    def _multiplies(self, facts: Facts, node: Node) -> bool:
        """A product and a sum of tiles in one rounding, which the program asks for by name."""
        wide = facts.types.shape(node.result) and not facts.of_threads
        sums = [c for loop in facts.loops for c in loop.of(Role.RUNNING_SUM, Role.SUM)]
        taken = {facts.graph.core(v) for v in node.op.inputs}
        carried = any(facts.graph.core(c.argument) in taken for c in sums)
        stored = any(facts.graph.rests_on(s.value, node) for s in facts.stores)
        return bool(wide) and not carried and stored

    def _divided(self, facts: Facts, root: Node) -> list[Node]:
        """Where a root, as it is, divides what reaches a store."""
        found, forms = list[Node](), [root.result]
        for value in forms:
            for user in facts.graph.users(value):
                if user.op.kind in HELD and len(user.op.results) == 1 and len(forms) < _FORMS:
                    forms.append(user.result)
                elif user.op.kind == OpKind.DIV and value == user.op.inputs[1]:
                    found.append(user)
        return [n for n in found if any(facts.graph.rests_on(s.value, n) for s in facts.stores)]

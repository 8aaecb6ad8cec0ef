"""A scale of the operation that is multiplied into what is stored."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.scale_placement import ScalePlacement
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.analysis.scalings import scaling
from kb.analysis.symbolic import AtomKind
from kb.dtypes import may_be_float
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

_LOSS = (
    POINTER
    + """
@triton.jit
def loss(x, y, losses, grads, rate, n, T: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for i in range(0, n, T):
        at = i + tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        w = tl.load(y + row * n + at, mask=at < n, other=0.0)
        total += tl.sum(tl.exp(w) * (w - v))
        tl.store(grads + row * n + at, -tl.exp(w) * rate, mask=at < n)
    tl.store(losses + row, total * rate)
"""
)
_GRADIENT_TILE = (
    TILE
    + """
@ct.kernel
def gradient(y, grads, rate: float, T: Int):
    i = ct.bid(0)
    w = ct.astype(ct.load(y, index=(i, 0), shape=(1, T)), ct.float32)
    ct.store(grads, index=(i, 0), tile=ct.astype(-w * rate, grads.dtype))
"""
)
_SCAN = (
    POINTER
    + """
@triton.jit
def scan(x, out, rate, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + at, tl.cumsum(v, axis=0) * rate, mask=at < n)
"""
)
_THREADS = """__global__ void gradient(const float* y, float* grads, float rate, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) grads[i] = -expf(y[i]) * rate;
}
"""
_ACTIVATED = vary(
    _THREADS,
    ("    if (i < n) grads[i] =", "    float w = y[i] * rate;\n    if (i < n) grads[i] ="),
    ("-expf(y[i]) * rate", "w / (1.f + expf(-w))"),
)
_VALUE = "scale multiplied into the result"
_WAY = VIEWS | CASTS | TURNS | {
    OpKind.MUL, OpKind.DIV, OpKind.NEG, OpKind.SELECT, OpKind.IF, OpKind.IF_EXPRESSION,
}  # fmt: skip
_FACTORS = frozenset({OpKind.MUL, OpKind.DIV, OpKind.NEG})
_BOUNDS = frozenset({
    OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE, OpKind.FLOOR_DIV, OpKind.CEIL_DIV, OpKind.MOD,
    OpKind.RANGE, OpKind.ARANGE, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.CLAMP,
})  # fmt: skip
_CURVES = (OpKind.EXP, OpKind.EXP2, OpKind.SIGMOID, OpKind.TANH, OpKind.ERF)
_LARGEST = frozenset({OpKind.REDUCE_MAX, OpKind.MAXIMUM})


class ScaledResults(Pattern):
    """What is computed of loaded elements is multiplied or divided by a number that is handed over,
    or that every block loads, with nothing but further factors before it is stored."""

    name = "scale-multiplied-into-the-result"
    axis = "scale_placement"
    source = "Hsu et al., Liger Kernel (2024), section 3: losses scaled where they are computed"
    matches = (
        Case(_LOSS, _VALUE),
        Case(vary(_LOSS, ("total * rate", "total / rate"), ("(w) * rate", "(w)")), _VALUE),
        Case(vary(_LOSS, ("-tl.exp(w) * rate", "-rate * tl.exp(w)")), _VALUE),
        Case(_GRADIENT_TILE, _VALUE),
        Case(_SCAN, _VALUE),
        Case(_THREADS, _VALUE),
        Case(vary(_SCAN, ("* rate", "* tl.load(rate)")), _VALUE),
        Case(vary(_SCAN, ("* rate", "* (1.0 / tl.load(rate))")), _VALUE),
        Case(
            _GRADIENT_TILE.replace("* rate", "* ct.load(y, index=(0, 0), shape=()).item()"), _VALUE
        ),
    )
    near_misses = (
        NearMiss(
            vary(_LOSS, ("total * rate", "total / n"), ("(w) * rate", "(w)")),
            why="an extent, no scale",
        ),
        NearMiss(
            vary(_LOSS, ("total * rate", "total + rate"), ("(w) * rate", "(w) - rate")),
            why="a shift, no scale",
        ),
        NearMiss(_GRADIENT_TILE.replace("-w * rate", "-w"), why="nothing is scaled"),
        NearMiss(_SCAN.replace(" * rate", " * 1.4427"), why="a number that is written down"),
        NearMiss(_SCAN.replace(" * rate", " * v"), why="every element has a factor of its own"),
        NearMiss(
            vary(_SCAN, ("tl.cumsum(v, axis=0) * rate", "v + tl.cumsum(v, axis=0) * rate")),
            why="one of two terms",
        ),
        NearMiss(
            vary(_SCAN, ("* rate", "* tl.load(rate + tl.program_id(0))")),
            why="every block has a factor of its own",
        ),
        NearMiss(
            vary(
                _SCAN,
                ("    tl.store", "    by = tl.load(rate)\n    tl.store"),
                ("tl.cumsum(v, axis=0) * rate", "by * by"),
            ),
            why="a square",
        ),
        NearMiss(_THREADS.replace(" * rate", " + rate"), why="a shift, no scale"),
        NearMiss(
            _ACTIVATED,
            why="an activation of what was scaled",
        ),
        NearMiss(
            vary(
                _SCAN,
                ("    tl.store", "    w = v * rate\n    tl.store"),
                ("tl.cumsum(v, axis=0) * rate", "w * tl.sigmoid(w)"),
            ),
            why="an activation of what was scaled",
        ),
        NearMiss(
            vary(
                _GRADIENT_TILE,
                ("    ct.store", "    w = w * rate\n    ct.store"),
                ("-w * rate", "w / (1.0 + ct.exp(-w))"),
            ),
            why="an activation of what was scaled",
        ),
        NearMiss(ADD_POINTER, why="nothing is scaled"),
        NearMiss(PRODUCT, why="nothing is scaled"),
        NearMiss(PRODUCT_POINTER, why="nothing is scaled"),
        NearMiss(PRODUCT_THREADS, why="nothing is scaled"),
        NearMiss(SOFTMAX_THREADS, why="divided by a sum, not by a number that is handed over"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        stores = [s for s in facts.stores if _number(facts.types.dtype(s.value))]
        found: dict[Node, None] = {}
        for store in stores:
            for node in facts.graph.upstream(store.value, lambda n: n.op.kind not in _WAY):
                factor = node.op.kind in (OpKind.MUL, OpKind.DIV) and _scaled(facts, node)
                if factor and not _bent(facts, node, store.value or ""):
                    found[node] = None
        told = {at for d in ScalePlacement().seen(facts) for at in d.lines} if found else set()
        if left := [node for node in found if node.lines not in told]:
            yield self.decide(facts, _VALUE, left)


def _scaled(facts: Facts, node: Node) -> bool:
    """A product or quotient of what was computed of loaded elements and a number that is handed
    over and is no extent."""
    sides = node.op.inputs[1::-1] if node.op.kind == OpKind.MUL else node.op.inputs[1:2]
    rate = scaling(facts, node) or next((v for v in sides if _alone(facts, v)), None)
    if rate not in sides:
        return False
    names = _given(facts, rate)
    if any(_extent(facts, name) for name in names) or not (names or _alone(facts, rate)):
        return False
    other = next((v for v in node.op.inputs[:2] if v != rate), None)
    if other is None:
        return False  # A square.
    if facts.graph.roots(other, *CONTRACTIONS):
        return False
    if facts.graph.kind_of(facts.graph.core(other)) in _LARGEST:
        return False
    return bool(facts.feeding(other) or facts.graph.roots(other, *REDUCTIONS))


def _bent(facts: Facts, product: Node, stored: str) -> bool:
    """Whether a curve is taken of a product, too, on the way to what is stored: an activation of
    what was scaled before."""
    curves = facts.graph.of(*_CURVES)
    bent = [n for n in curves if facts.graph.rests_on(n.result, product)]
    return any(facts.graph.rests_on(stored, n) for n in bent)


def _alone(facts: Facts, rate: str) -> bool:
    """A number that every block loads from the same place, or its reciprocal, or, on one side of a
    branch, a number that is written down."""
    if facts.types.shape(rate):
        return False
    ends = facts.graph.ends(rate, VIEWS | CASTS)
    made = [n.op.inputs[1] if _reciprocal(facts, n) else n.result for n in ends]
    loads = [a for v in made for a in facts.held_loads(v)]
    written = sum(facts.number(n.result) is not None for n in ends)
    if not loads or len(loads) + written < len(ends):
        return False
    return not any(a.has(AtomKind.BLOCK) or a.has(AtomKind.LANE) for x in loads for a in x.index)


def _reciprocal(facts: Facts, node: Node) -> bool:
    return node.op.kind == OpKind.DIV and facts.number(node.op.inputs[0]) == 1


def _given(facts: Facts, rate: str) -> set[str]:
    """The parameters that a number is a product or quotient of; none for one that is more."""
    below = facts.graph.core(rate) or ""
    if below in facts.graph.function.parameter_names:
        return {below}
    made = facts.graph.producer(below)
    if made is None or made.op.kind not in _FACTORS:
        return set()
    parts = [v for v in made.op.inputs[:2] if facts.number(v) is None]
    found = [_given(facts, v) for v in parts]
    return set().union(*found) if all(found) else set()


def _extent(facts: Facts, name: str) -> bool:
    """Whether a parameter is an extent, a step of an address, or a bound of numbers."""
    if name in facts.tile_extents:
        return True
    if any(node.op.kind in _BOUNDS for node in facts.graph.users(name)):
        return True
    return any(a.value == name for x in facts.accesses for i in x.index for a in i.atoms())


def _number(dtype: str) -> bool:
    """Whether a type may be one of numbers with a point."""
    return dtype == "?" or may_be_float(dtype)

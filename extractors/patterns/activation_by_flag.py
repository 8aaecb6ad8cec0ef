"""An activation that a flag puts between a result and its store, or leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_tensors import FLASH_CAPPED
from extractors.patterns.library_rounding import way_of
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.tangents import scored
from kb.evidence import Decision
from kb.ops import ATOMICS, CONTRACTIONS, OWN_THREAD, READS, REDUCTIONS, WRITES, OpKind

_TRITON = (
    POINTER
    + """
@triton.jit
def norm(x, w, out, n, T: tl.constexpr, SWISH: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    y = v * tl.rsqrt(tl.sum(v * v) / n) * tl.load(w + at, mask=at < n)
    if SWISH:
        y = y * tl.sigmoid(y)
    tl.store(out + row * n + at, y.to(tl.float16), mask=at < n)
"""
)
_CUTILE = (
    TILE
    + """
@ct.kernel
def product(a, b, out, T: Int, RELU: Int):
    acc = ct.full((T, T), 0.0, dtype=ct.float32)
    for k in range(8):
        x = ct.load(a, index=(ct.bid(0), k), shape=(T, T))
        y = ct.load(b, index=(k, ct.bid(1)), shape=(T, T))
        acc = ct.mma(x, y, acc)
    if RELU:
        acc = ct.maximum(acc, 0.0)
    ct.store(out, index=(ct.bid(0), ct.bid(1)), tile=acc)
"""
)
_CUDA = """__global__ void taps(const float* x, const float* w, float* out, int n, bool silu) {
    int at = blockIdx.x * 1024 + threadIdx.x * 4;
    float kept[4];
    for (int i = 0; i < 4; ++i) {
        kept[i] = 0.f;
        for (int k = 0; k < 3; ++k) kept[i] += x[at + i + k] * w[k];
    }
    if (silu) {
        for (int i = 0; i < 4; ++i) kept[i] = kept[i] / (1.f + expf(-kept[i]));
    }
    for (int i = 0; i < 4; ++i) out[at + i] = kept[i];
}
"""
_CURVES = frozenset({
    OpKind.EXP, OpKind.EXP2, OpKind.TANH, OpKind.ERF, OpKind.SIGMOID, OpKind.EXTERN_MATH,
    OpKind.MAXIMUM,
})  # fmt: skip
_POWERS = frozenset({OpKind.EXP, OpKind.EXP2})
_CUT = frozenset({OpKind.FLOOR, OpKind.CEIL})
"""A power of a whole number rounds a scale, it is no activation."""
_STOPS = READS | REDUCTIONS | CONTRACTIONS | ATOMICS
_FOUND = frozenset({*READS, *OWN_THREAD, OpKind.BLOCK_ID})
_HELD = HELD | LOOPS | {OpKind.VECTOR, OpKind.INSERT, OpKind.EXTRACT, OpKind.BITCAST, OpKind.COPY}
"""What hands a value on to its store."""


class ActivationByFlag(Pattern):
    """One side of a branch on a flag of the call takes an activation of a value that the other side
    leaves as it is, and the value is stored behind it."""

    name = "activation-by-a-flag-before-the-store"
    axis = "epilogue"
    source = "NVIDIA, CUTLASS documentation, epilogue: element-wise functions before the store"
    matches = (
        Case(_TRITON, "optional activation"),
        Case(_CUTILE, "optional activation"),
        Case(_CUDA, "optional activation"),
    )
    near_misses = (
        NearMiss(FLASH_CAPPED, why="scores are held below a bound before their softmax"),
        NearMiss(
            vary(_TRITON, ("    if SWISH:\n        y =", "    y =")), why="always an activation"
        ),
        NearMiss(vary(_TRITON, ("y * tl.sigmoid(y)", "y * 2.0")), why="a factor"),
        NearMiss(
            vary(_TRITON, ("y * tl.sigmoid(y)", "tl.exp2(tl.floor(tl.log2(y)))")),
            why="rounded to a power of two",
        ),
        NearMiss(
            vary(_TRITON, ("if SWISH:", "if tl.load(w) > 0.0:")), why="what was loaded decides"
        ),
        NearMiss(
            vary(_TRITON, ("y = y * tl.sigmoid(y)", "y = tl.sigmoid(v)")),
            why="an activation of something else",
        ),
        NearMiss(
            vary(_TRITON, ("tl.store(out + row * n + at, y", "y = tl.cumsum(y, axis=0)\n    tl.store(out + row * n + at, y")),  # noqa: E501
            why="more is done before the store",
        ),
        NearMiss(vary(_CUDA, ("if (silu)", "if (x[0] > 0.f)")), why="what was loaded decides"),
        NearMiss(vary(_CUDA, ("if (silu)", "if (threadIdx.x > 4)")), why="single threads"),
        NearMiss(
            vary(
                _CUDA,
                ("    float kept", "    __shared__ float left[4096];\n    float kept"),
                ("out[at + i] = kept[i]", "left[threadIdx.x * 4 + i] = kept[i]"),
            ),
            why="stored for the block alone",
        ),
        NearMiss(
            vary(_TRITON, ("y * tl.sigmoid(y)", "libdevice.round(y)")).replace(
                "import triton\n", "import triton\nfrom triton.language.extra import libdevice\n", 1
            ),
            why="rounded"
        ),
        NearMiss(ADD_POINTER, why="no branch"),
        NearMiss(ADD_THREADS, why="no flag"),
        NearMiss(PRODUCT, why="no activation"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        where: list[Where] = []
        for branch in facts.threads.of(OpKind.IF):
            if len(branch.op.regions) == 2 and _of_flags(facts, branch):
                where += _acted(facts, branch)
        if where:
            yield self.decide(facts, "optional activation", where)


def _of_flags(facts: Facts, branch: Node) -> bool:
    """Whether a condition asks for what the call gives, and for nothing else."""
    asked = branch.op.inputs[0]
    above = facts.threads.roots(asked, *_FOUND)
    given = set(facts.kernel.entry.parameter_names)
    read = {asked, *(v for n in facts.threads.upstream(asked) for v in n.op.inputs)}
    return not above and bool(read & given)


def _acted(facts: Facts, branch: Node) -> Iterator[Where]:
    """The head of a branch with the activations on one side of it whose value is stored."""
    graph = facts.threads
    ends = [graph.handed(branch, side) for side in (0, 1)]
    for place, result in enumerate(branch.op.results):
        values = [end[place] for end in ends if place < len(end)]
        if len(values) < 2 or not _stored(facts, branch, result.name):
            continue
        if scored(facts, facts.threads, branch):
            continue
        for made, kept in (values, values[::-1]):
            source = graph.producer(kept)
            if source is None or source.inside(branch):
                continue
            curves = _curves(facts, branch, made, source)
            if curves:
                yield branch.head
                yield from curves


def _curves(facts: Facts, branch: Node, made: str, source: Node) -> list[Node]:
    """Activations of what a node gives, in a branch, that a value is made of."""
    graph = facts.threads
    above = graph.upstream(made, lambda n: n.op.kind in _STOPS or n is source)
    return [
        n for n in above
        if n.op.kind in _CURVES and n.inside(branch) and graph.rests_on(n.result, source)
        if n.op.kind != OpKind.EXTERN_MATH or way_of(n) is None
        if n.op.kind not in _POWERS or graph.kind_of(graph.core(n.op.inputs[0])) not in _CUT
    ]  # fmt: skip


def _stored(facts: Facts, branch: Node, value: str) -> bool:
    """Whether a value of a branch is what a store behind it is given."""
    graph = facts.threads
    for store in graph.of(*WRITES):
        given = store.op.operand("value") or ""
        if store.index < branch.index or store.inside(branch) or not graph.rests_on(given, branch):
            continue
        if facts.shared.holds(store.op):
            continue
        pending, seen = [given], {given}
        for one in pending:
            if one == value:
                return True
            node = graph.producer(one)
            if one in graph.arguments or (node is not None and node.op.kind in _HELD):
                feeds = [feed for feed in graph.feeds(one) if feed not in seen]
                seen.update(feeds)
                pending += feeds
    return False

"""Functions that cost much, taken of the same numbers by several threads or blocks."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import ATOMICS, CONTRACTIONS, OWN_THREAD, READS, REDUCTIONS, OpKind

_FUNCTIONS = (
    OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.SIN, OpKind.COS, OpKind.POW,
    OpKind.TANH,
)  # fmt: skip
_ROOTS = (OpKind.SQRT, OpKind.RSQRT)
_EXCHANGED = (
    *REDUCTIONS, *CONTRACTIONS, *ATOMICS, OpKind.SHUFFLE, OpKind.CUMSUM, OpKind.SCAN, OpKind.OPAQUE,
)  # fmt: skip
_COUNTERS = (AtomKind.BLOCK, AtomKind.LANE)
_THREADS = "function computed again by every thread"
_BLOCKS = "function computed again by every block along an axis"
_SOME = "function computed again by the threads that share an element"
MOST = 400
"""Functions of a kernel that are looked at."""
Ways = dict[Atom, set[tuple[str, str]]]
"""What is made of the number of a thread or a block to say where something lies: quotients, rests
and the like, each by its kind and text, and the number itself by its own kind."""
_PARTS = (AtomKind.FLOOR_DIV, AtomKind.MOD)

_GATE = """__global__ void decay(const float* x, const float* a, float* out, int n) {
    int row = blockIdx.x, i = threadIdx.x;
    out[row * n + i] = x[row * n + i] * __expf(-a[row]);
}
"""
_WAVES = """__global__ void waves(const float* t, float* out, int half, float period) {
    int row = blockIdx.x, i = threadIdx.x;
    float f = expf(-logf(period) * i / half);
    out[row * half * 2 + i] = t[row] * f;
}
"""
_CHANNELS = """__global__ void turn(const float* x, const float* angle, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * 3) return;
    float c = cosf(angle[at / 3]);
    out[at] = x[at] * c;
}
"""
_LENGTHS = """__global__ void unit(const float* d, const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int point = at / 3;
    if (point >= n) return;
    float u = d[point * 2], v = d[point * 2 + 1];
    out[at] = x[at] * rsqrtf(u * u + v * v);
}
"""


class FunctionAgain(Pattern):
    """An exponential, a logarithm, a power, a sine or the like rests on what fewer threads or
    blocks tell apart than the elements that are stored of it, with nothing exchanged between
    threads on the way: all that share its argument compute it. Of a root the same, where some
    threads of a block share it."""

    name = "function-computed-again-by-those-that-share-its-argument"
    axis = "recompute"
    source = "NVIDIA, CUDA C++ Best Practices Guide: arithmetic in place of communication"
    matches = (
        Case(_GATE, _THREADS),
        Case(_WAVES, _BLOCKS),
        Case(_CHANNELS, _SOME),
        Case(_LENGTHS, _SOME),
    )
    near_misses = (
        NearMiss(_GATE.replace("-a[row]", "-a[row * n + i]"), why="an argument for every element"),
        NearMiss(_GATE.replace("i = threadIdx.x;", "i = 0;"), why="one thread"),
        NearMiss(
            _GATE.replace("float* out, int n) {", "float* out, int n) {\n    __shared__ float e;")
            .replace(
                "    out", "    if (i == 0) e = __expf(-a[row]);\n    __syncthreads();\n    out"
            )
            .replace("__expf(-a[row]);\n}", "e;\n}"),
            why="one thread computes it for all",
        ),
        NearMiss(
            _WAVES.replace("* i /", "* t[row * half + i] /"),
            why="every block has its own",
            value=_BLOCKS,
        ),
        NearMiss(_CHANNELS.replace("angle[at / 3]", "angle[at]"), why="an angle for every element"),
        NearMiss(
            _LENGTHS.replace("d[point * 2]", "d[blockIdx.x * 2]").replace(
                "d[point * 2 + 1]", "d[blockIdx.x * 2 + 1]"
            ),
            why="a root that a block has of a row is what rows are normalised by",
        ),
        NearMiss(ROW_NORM_THREADS, why="the argument was exchanged"),
        NearMiss(ADD_THREADS, why="no function"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        exchanged = facts.graph.node_set(facts.graph.of(*_EXCHANGED))
        taken = facts.threads.of(*_FUNCTIONS, *_ROOTS)
        apart = {n.lines for n in taken if _of_one(facts, n) or _through_block(facts, n)}
        found: dict[str, list[Node]] = {}
        for node in facts.graph.of(*_FUNCTIONS, *_ROOTS)[:MOST]:
            if node.lines not in apart and not facts.graph.resting(node.result) & exchanged:
                value = _shared(facts, node)
                if value:
                    found.setdefault(value, []).append(node)
        for value, nodes in found.items():
            yield self.decide(facts, value, nodes)


def _shared(facts: Facts, node: Node) -> str:
    """By whom a function is taken of the same number; empty when nobody else does, and when that is
    not known."""
    stores = [s for s in facts.stored_in(node.result) if s.array is not None and not s.is_atomic]
    own = _own(facts, node) if stores else None
    if own is None:
        return ""
    kinds: set[str] = set()
    for store in stores:
        if not any(index.has(AtomKind.OPAQUE) for index in store.index):
            for counter, ways in ways_of(facts, store.index, {}).items():
                if counter not in own:
                    kinds.add(_BLOCKS if counter.kind is AtomKind.BLOCK else _THREADS)
                elif is_part(own[counter]) and (own[counter] < ways or not is_part(ways)):
                    kinds.add(_SOME)
    if node.op.kind in _ROOTS and not own:
        return ""
    if node.op.kind in _ROOTS:
        kinds.discard(_THREADS)
    return next((value for value in (_THREADS, _BLOCKS, _SOME) if value in kinds), "")


def _of_one(facts: Facts, node: Node) -> bool:
    """Whether a branch around a function asks for the number of a thread: one takes it for
    others."""
    threads = facts.threads
    asked = (n.op.inputs[0] for n in node.around() if n.op.kind == OpKind.IF)
    tests = (test for condition in asked for test in threads.roots(condition, OpKind.EQ))
    return any(threads.roots(test.result, *OWN_THREAD) for test in tests)


def _through_block(facts: Facts, node: Node) -> bool:
    """Whether a function is taken of what memory of the block holds: another thread may have put
    it there."""
    above = facts.threads.upstream(node.result, lambda n: n.op.kind in READS)
    return any(n.op.kind in READS and facts.shared.holds(n.op) for n in above)


def _own(facts: Facts, node: Node) -> Ways | None:
    """What the argument of a function is told apart by; None where that is not known."""
    found: Ways = {}
    arrays = {p.name for p in facts.kernel.entry.parameters if p.kind is ParameterKind.ARRAY}
    pending = list(node.op.inputs)
    seen = set(pending)
    for value in pending:
        made = facts.graph.producer(value)
        if value in arrays:
            return None
        if made is not None and made.op.kind in READS:
            access = facts.access(made)
            places = access.index if access is not None and access.array is not None else ()
        elif facts.types.dtype(value).startswith(("i", "u")):
            places = (facts.values.expr(value),)
        else:
            more = [v for v in facts.graph.feeds(value) if v not in seen]
            seen.update(more)
            pending += more
            continue
        if not places or any(e.has(AtomKind.OPAQUE, AtomKind.CHOICE) for e in places):
            return None
        ways_of(facts, places, found)
        inner = {a.value for e in places for a in e.atoms() if a.kind is AtomKind.LOADED}
        pending += sorted(inner - seen)
        seen |= inner
    return found


def is_part(ways: set[tuple[str, str]]) -> bool:
    """Whether all that is made of a number is its quotients, or all its rests."""
    kinds = {kind for kind, _ in ways}
    return len(kinds) == 1 and kinds <= {*_PARTS}


def ways_of(facts: Facts, places: Iterable[Expr], found: Ways) -> Ways:
    """Adds what places make of the numbers of threads and blocks, and of the rounds of a loop that
    threads begin at places of their own."""
    own = {x.induction: facts.values.expr(x.low) for x in facts.loops if x.low is not None}
    rounds = {name for name, low in own.items() if low.has(*_COUNTERS)}
    for place in places:
        for atom in place.top():
            for counter in (atom, *(c for inner in atom.args for c in inner.atoms())):
                if counter.kind in _COUNTERS or counter.value in rounds:
                    found.setdefault(counter, set()).add((atom.kind, atom.text))
    return found

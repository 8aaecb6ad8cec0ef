"""What is loaded once before a loop whose rounds all compute with it."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_rows import NORM_PERSISTENT, SOFTMAX_CHUNKS
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_THREADS
from extractors.patterns.weight_hoisted import WeightHoisted
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import sides
from kb.analysis.loops import Loop, Role, persistent
from kb.analysis.record_fields import struct_of
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import COMPARISONS, READS

_WHOLE = ("i", "u")
"""How the names of types of whole numbers begin."""

_RUN = (AtomKind.LOADED, AtomKind.BLOCK, AtomKind.EXTENT)
_PLACED = (AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION)
_DECAY = (
    POINTER
    + """
@triton.jit
def scan(x, fade, h0, out, n, T: tl.constexpr):
    own = tl.program_id(0)
    at = own * T + tl.arange(0, T)
    by = tl.load(fade + own)
    h = tl.load(h0 + at)
    for i in range(n):
        h = h * tl.exp(by) + tl.load(x + i * T + at)
        tl.store(out + i * T + at, h)
"""
)
_LIMIT = vary(
    _DECAY,
    (
        "h * tl.exp(by) + tl.load(x + i * T + at)",
        "h + tl.where(tl.load(x + i * T + at) > by, 1.0, 2.0)",
    ),
    ("    h = tl.load(h0 + at)\n", "    h = tl.zeros([T], tl.float32)\n"),
)
_RESULT = vary(_DECAY, ("h * tl.exp(by) +", "h * tl.exp(tl.load(fade + own)) +"))
_HEADS = (
    POINTER
    + """
@triton.jit
def add(x, w, out, H, n, T: tl.constexpr):
    at = tl.arange(0, T)
    acc = tl.zeros([T], tl.float32)
    for h in range(H):
        g = tl.load(w + h * T + at)
        for i in range(n):
            acc += g * tl.load(x + (h * n + i) * T + at)
    tl.store(out + at, acc)
"""
)
_STRIPS = (
    POINTER
    + """
@triton.jit
def scale(x, w, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    g = tl.load(w + at)
    for i in range(n):
        tl.store(out + i * T + at, g * tl.load(x + i * T + at))
"""
)
_BATCHES = """struct Given { const float* x; const float* gains; float* out; int batches; int n; };
__global__ void scaled(Given p) {
    float gain = p.gains[threadIdx.x];
    for (int b = 0; b < p.batches; ++b) {
        int at = (b * gridDim.x + blockIdx.x) * p.n + threadIdx.x;
        p.out[at] = p.x[at] * gain;
    }
}
"""


class KeptOverRounds(Pattern):
    """A load before a loop feeds what every round adds up, hands on or stores; it is no place, no
    length and no start of what is handed on."""

    name = "loaded-before-the-loop-that-computes-with-it"
    axis = "invariant_residency"
    source = "Aho et al., Compilers, loop-invariant code motion"
    matches = (
        Case(ATTENTION, "load once per CTA"),
        Case(FLASH_POINTER, "load once per CTA"),
        Case(FLASH_THREADS, "load once per CTA"),
        Case(_DECAY, "load once per CTA"),
        Case(_LIMIT, "load once per CTA"),
        Case(_HEADS, "load once per round of the outer loop"),
        Case(_BATCHES, "load once per CTA"),
    )
    near_misses = (
        NearMiss(_RESULT, why="loaded again in every round"),
        NearMiss(
            vary(_DECAY, ("h * tl.exp(by) +", "h +")), why="where a carried tile begins, no more"
        ),
        NearMiss(
            vary(_DECAY, ("h * tl.exp(by) +", "h +"), ("range(n)", "range(by)")), why="a length"
        ),
        NearMiss(vary(_DECAY, ("h * tl.exp(by) +", "h +"), ("x + i", "x + by + i")), why="a place"),
        NearMiss(
            vary(_LIMIT, ("tl.load(x + i * T + at) > by", "at + i > by")), why="where a part begins"
        ),
        NearMiss(NORM_PERSISTENT, why="the loop goes over work items: told there"),
        NearMiss(_STRIPS, why="every round stores a part of its own: told there"),
        NearMiss(SOFTMAX_CHUNKS, why="every round loads what it needs"),
        NearMiss(PRODUCT, why="every round loads both operands"),
        NearMiss(PRODUCT_POINTER, why="every round loads both operands"),
        NearMiss(PRODUCT_THREADS, why="every round loads both operands"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Access] = []
        places = _places(facts) if facts.loops else frozenset()
        for loop in facts.rolled_loops:
            if loop in facts.item_loops or persistent(loop, facts.values) or _few(facts, loop):
                continue
            if facts.walks_chunk(loop) and not facts.contractions:
                continue
            found += [a for a in _kept(facts, loop) if a not in found and a.value not in places]
        told = {lines for d in WeightHoisted().seen(facts) for lines in d.lines} if found else set()
        found = [a for a in found if a.node.lines not in told]
        first = [a for a in found if not a.node.loops]
        if first:
            yield self.decide(facts, "load once per CTA", first)
        later = [a for a in found if a.node.loops and not facts.of_threads]
        if later:
            yield self.decide(facts, "load once per round of the outer loop", later)


def _few(facts: Facts, loop: Loop) -> bool:
    """True for the loops of a thread over the elements of its vectors and registers."""
    if not facts.of_threads or loop.range is None:
        return False
    ends = (facts.values.expr(v) for v in (loop.low, loop.high) if v is not None)
    named = [a for e in ends for a in e.atoms() if a.kind is not AtomKind.LANE]
    function = facts.graph.function
    given = {*function.parameter_names}
    structs = [struct_of(function, a.value) for a in named if a.kind is AtomKind.PARAMETER]
    fields = any(one and one not in facts.constexprs for one in structs)
    return not (fields or any(a.value in given or a.kind in _RUN for a in named))


def _places(facts: Facts) -> frozenset[str]:
    """Loaded numbers that are starts, lengths or indices: they stand in an address or a bound, or
    are compared with a place; and whole numbers."""
    exprs = [facts.values.expr(v) for x in facts.loops for v in (x.low, x.high) if v is not None]
    exprs += [e for n in facts.graph.of(*COMPARISONS) if _of_places(facts, n)
              for e in sides(facts, n)]  # fmt: skip
    named = {a.value for e in exprs for a in e.atoms() if a.kind is AtomKind.LOADED}
    whole = {a.value for a in facts.loads if facts.types.dtype(a.value).startswith(_WHOLE)}
    single = {a.value for a in facts.loads if not facts.types.shape(a.value)}
    return frozenset(facts.offset_loads | (named & single) | (whole & single))


def _of_places(facts: Facts, node: Node) -> bool:
    """Whether a comparison asks where a lane, a block or a round is."""
    return facts.of_threads or any(side.has(*_PLACED) for side in sides(facts, node))


def _stops(facts: Facts, node: Node) -> bool:
    """Loads, and comparisons of places."""
    return node.op.kind in READS or (node.op.kind in COMPARISONS and _of_places(facts, node))


def _kept(facts: Facts, loop: Loop) -> list[Access]:
    """Loads outside the loop, before it, that its results and stores are computed with."""
    before = {
        a.node: a
        for a in facts.loads
        if not a.node.inside(loop.node) and set(a.node.loops) <= set(loop.node.loops)
    }
    if not before:
        return []
    results = [c.next for c in loop.carried if c.role is not Role.COUNTER]
    results += [s.value for s in facts.stores if s.node.inside(loop.node)]
    taken = _taken_in(facts, loop.node, results)
    reached = facts.graph.made_from(taken, before, lambda n: _stops(facts, n))
    return [a for n, a in before.items() if n in reached]


def _taken_in(facts: Facts, loop: Node, values: list[str]) -> list[str]:
    """Values made outside a loop that the given ones are computed with in a round; not what the
    loop hands from round to round."""
    pending, seen = [*values], {*values}
    taken = []
    for value in pending:
        made = facts.graph.producer(value)
        if made is not None and not made.inside(loop):
            taken.append(value)
        elif made is not None and not _stops(facts, made):
            new = [v for v in facts.graph.feeds(value) if v not in seen]
            seen.update(new)
            pending += new
    return taken

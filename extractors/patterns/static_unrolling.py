"""A loop that the compiler writes out, or that is written out in the source."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_gluon import PRODUCT_GLUON
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import VIEWS, Node
from kb.analysis.symbolic import Atom, AtomKind, mul, sub
from kb.analysis.written_out import (
    apart_by_constants,
    blocks_by_extent,
    counted_rounds,
    numbers_apart,
    stages_in_a_row,
    summed_taps,
)
from kb.evidence import Decision
from kb.ops import OpKind

_TAPS_TILE = vary(
    PRODUCT, ("in range(ct.num_tiles(a, axis=1, shape=(TM, TK)))", "in ct.static_iter(range(4))")
)

_FOUR = vary(PRODUCT_POINTER, ("in range(0, tl.cdiv(K, TK))", "in range(4)"))
_TAPS_GLUON = vary(PRODUCT_GLUON, ("in range(R * S * (C // TK))", "in gl.static_range(4)"))

_UNROLLED_THREADS = """__global__ void taps(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float y = 0.f;
    #pragma unroll
    for (int k = 0; k < 3; ++k) y += x[at + k];
    if (at < n) out[at] = y;
}
"""
_PARTLY = vary(_UNROLLED_THREADS, ("#pragma unroll", "#pragma unroll 2"), ("k < 3", "k < n"))
_ASKED = vary(_UNROLLED_THREADS, ("k < 3", "k < n"))
_UNREAD = vary(_ASKED, ("k < n;", "k < count();"))
_INNER = vary(
    _UNROLLED_THREADS,
    (
        "y += x[at + k];",
        "{\n    #pragma unroll\n    for (int j = k; j < 3; ++j) y += x[at + j];\n    }",
    ),
)
_LEFT = vary(_UNROLLED_THREADS, ("    #pragma unroll\n", ""))

_HALVED = """__global__ void total(const float* x, float* out) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v += __shfl_down_sync(0xffffffff, v, i);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}
"""


OFFSETS = (
    POINTER
    + """
@triton.jit
def copy(x, out, n, RANK: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    place = 0
    for axis in tl.static_range(RANK):
        place += at // (axis + 1)
    tl.store(out + at, tl.load(x + place, mask=at < n), mask=at < n)
"""
)


_COLUMNS = (
    POINTER
    + """
@triton.jit
def columns(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    first = tl.load(x + at * 4)
    second = tl.load(x + at * 4 + 1)
    third = tl.load(x + at * 4 + 2)
    tl.store(out + at, tl.maximum(first, tl.maximum(second, third)))
"""
)
_REACHED = (
    POINTER
    + """
@triton.jit
def blocks(x, out, K: tl.constexpr):
    at = tl.program_id(0) * K + tl.arange(0, 64)
    tl.store(out + at, tl.load(x + at) * 2)
    if K > 64:
        tl.store(out + 64 + at, tl.load(x + 64 + at) * 2)
    if K > 128:
        tl.store(out + 128 + at, tl.load(x + 128 + at) * 2)
"""
)
_BY_HAND = (
    POINTER
    + """
@triton.jit
def twice(x, out, n, T: tl.constexpr):
    a = tl.program_id(0) * T * 3 + tl.arange(0, T)
    b = a + T
    c = b + T
    tl.store(out + a, 2 * tl.load(x + a, mask=a < n), mask=a < n)
    tl.store(out + b, 2 * tl.load(x + b, mask=b < n), mask=b < n)
    tl.store(out + c, 2 * tl.load(x + c, mask=c < n), mask=c < n)
"""
)

_SUMMED = (
    TILE
    + """
@ct.kernel
def mix(x, w, out, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    a = ct.gather(w, (at, 0)) * ct.gather(x, (at, 0))
    b = ct.gather(w, (at, 1)) * ct.gather(x, (at, 1))
    c = ct.gather(w, (at, 2)) * ct.gather(x, (at, 2))
    ct.scatter(out, at, a + b + c)
"""
)
_BOUNDS = (
    POINTER
    + """
@triton.jit
def level(x, bounds, out, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    a = tl.load(bounds)
    b = tl.load(bounds + 1)
    c = tl.load(bounds + 2)
    d = tl.load(bounds + 3)
    v = tl.load(x + at)
    n = (v > a).to(tl.int32) + (v > b).to(tl.int32) + (v > c).to(tl.int32)
    tl.store(out + at, n + (v > d).to(tl.int32))
"""
)
_ARITHMETIC = frozenset(
    {OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.BIT_AND, OpKind.BIT_OR,
     OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT, OpKind.MAXIMUM, OpKind.MINIMUM}
)  # fmt: skip
_SEVERAL = 4
"""Elements of one vector that are worked on one by one."""

_RUNNING = "runtime loop, not unrolled"
_TAPS = "hand-unrolled constant taps"

_ELEMENTS = """__global__ void twice(const float4* x, float4* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = x[at];
    out[at] = make_float4(v.x * 2.f, v.y * 2.f, v.z * 2.f, v.w * 2.f);
}
"""


class StaticUnrolling(Pattern):
    """The iterable of a loop is known when the kernel is compiled, by its own word; or what would
    be its rounds is written out: tiles of one array constants apart, products of neighbours that
    are summed, or blocks that run where a compile-time extent reaches them."""

    name = "compile-time-unrolled-taps"
    axis = "unrolling"
    source = "Triton documentation, static_range; cuTile documentation, static_iter"
    matches = (
        Case(_HALVED, "static_range/static_iter"),
        Case(
            vary(PRODUCT_POINTER, ("in range(0, tl.cdiv(K, TK))", "in tl.static_range(0, 4)")),
            "static_range/static_iter",
        ),
        Case(_TAPS_TILE, "static_range/static_iter"),
        Case(_TAPS_GLUON, "static_range/static_iter"),
        Case(_UNROLLED_THREADS, "static_range/static_iter"),
        Case(_PARTLY, "unrolled by 2"),
        Case(_INNER, "static_range/static_iter"),
        Case(_ASKED, "unrolling asked for, extent at run time"),
        Case(_LEFT, "left to the compiler, extent known"),
        Case(_FOUR, "left to the compiler, extent known"),
        Case(vary(_LEFT, ("k < 3", "k < n")), _RUNNING),
        Case(vary(_ASKED, ("#pragma unroll", "#pragma unroll 1")), _RUNNING),
        Case(PRODUCT_THREADS, _RUNNING),
        Case(_BY_HAND, "written out by hand"),
        Case(_COLUMNS, "written out by hand"),
        Case(_REACHED, "written out by hand"),
        Case(_SUMMED, _TAPS),
        Case(_ELEMENTS, "written out by hand"),
        Case(_BOUNDS, "written out by hand"),
        Case(vary(_BOUNDS, ("(v > d)", "(d < v)")), "written out by hand"),
    )
    near_misses = (
        NearMiss(
            vary(_COLUMNS, ("at * 4 + 2", "at * 8 + 2")), why="two of three places lie together"
        ),
        NearMiss(
            vary(_COLUMNS, ("tl.arange(0, T)", "tl.arange(0, 1)")), why="three numbers of a row"
        ),
        NearMiss(
            vary(_REACHED, ("K: tl.constexpr", "K")), why="the launch says it, not the compiler"
        ),
        NearMiss(vary(_REACHED, ("K > 128", "K > 64")), why="one extent is reached or not"),
        NearMiss(
            vary(_BY_HAND, ("    c = b + T\n", "    c = b + n\n")),
            why="the places lie apart by another number",
        ),
        NearMiss(
            vary(_SUMMED, ("(at, 1)) * ct.gather(x, (at, 1))", "(at, 4)) * ct.gather(x, (at, 4))")),
            why="no neighbours of one another",
            value=_TAPS,
        ),
        NearMiss(vary(_BOUNDS, ("(v > d)", "(v < d)")), why="three alike and another"),
        NearMiss(
            vary(_ELEMENTS, ("v.y * 2.f, v.z * 2.f, v.w * 2.f", "v.y, v.z, v.w")),
            why="one element is worked on",
        ),
        NearMiss(
            vary(_SUMMED, ("a + b + c", "ct.maximum(ct.maximum(a, b), c)")),
            why="nothing is summed",
            value=_TAPS,
        ),
        NearMiss(
            _HALVED.replace("#pragma unroll\n", ""),
            why="nothing is asked for",
            value="static_range/static_iter",
        ),
        NearMiss(
            _INNER,
            why="the loop around it is written out, which tells where it begins",
            value="unrolling asked for, extent at run time",
        ),
        NearMiss(
            vary(_INNER, ("k < 3", "k < n")),
            why="the loop around it is not written out",
            value="static_range/static_iter",
        ),
        NearMiss(OFFSETS, why="the rounds only say where an access goes"),
        NearMiss(_UNREAD, why="a function that is not there knows the number of rounds"),
        NearMiss(
            vary(_LEFT, ("k < 3", "k < n")),
            why="the rounds are known at run time",
            value="left to the compiler, extent known",
        ),
        NearMiss(PRODUCT, why="the loop runs over tiles counted at run time"),
        NearMiss(PRODUCT_POINTER, why="the loop runs over tiles counted at run time"),
        NearMiss(_PARTLY, why="one of the loops is asked to be unrolled", value=_RUNNING),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Where]] = {}
        kept = {loop.node for loop in facts.loops}
        graph = facts.threads if facts.of_threads else facts.graph
        for node in graph.of(OpKind.FOR):
            if not facts.of_threads and node not in kept:
                continue
            walked = graph.producer(graph.through(node.op.inputs[0], VIEWS))
            value = self._asked(facts, walked) if walked is not None else ""
            if value:
                found.setdefault(value, []).extend((walked, node))
        left = [] if found else self._left(facts) if facts.of_threads else [*counted_rounds(facts)]
        for node in facts.threads.of(OpKind.WHILE):
            factor = node.op.attribute("unroll")
            if isinstance(factor, int) and factor != 1:
                value = f"unrolled by {factor}" if factor else "static_range/static_iter"
                found.setdefault(value, []).append(node)
        if left:
            yield self.decide(facts, "left to the compiler, extent known", left)
        for value, places in found.items():
            yield self.decide(facts, value, places)
        if not found and not left and (running := self._running(facts)):
            yield self.decide(facts, _RUNNING, running)
        written = self._written_out(facts)
        if taps := summed_taps(facts):
            yield self.decide(facts, _TAPS, taps)
        elif not facts.of_threads:
            written += [*apart_by_constants(facts), *blocks_by_extent(facts)]
            written += [*numbers_apart(facts), *stages_in_a_row(facts)]
        if written:
            yield self.decide(facts, "written out by hand", written)

    def _written_out(self, facts: Facts) -> list[Where]:
        """Stores of one array, three or more in a row of which each lies a tile behind the last
        one, with what moves their places on."""
        if facts.of_threads:
            looped = facts.threads.of(OpKind.FOR, OpKind.WHILE)
            return [] if looped else _elements_apart(facts)
        found: list[Where] = []
        for array in dict.fromkeys(s.array for s in facts.stores if s.array is not None):
            stores = [s for s in facts.stores if s.array == array and len(s.index) == 1]
            tiles = {mul(lane.args[0], s.index[0].coefficient(lane)) for s in stores
                     for lane in s.index[0].top() if lane.kind is AtomKind.LANE}  # fmt: skip
            steps = [sub(b.index[0], a.index[0]) for a, b in pairwise(stores)]
            alike = len(stores) > 2 and len({s.node.parent for s in stores}) == 1
            if alike and len(set(steps)) == 1 and steps[0] in tiles:
                places = {s.index[0] for s in stores}
                found += [n for n in facts.graph.of(OpKind.ADD)
                          if facts.values.expr(n.result) in places]  # fmt: skip
                found += stores
        return found

    def _left(self, facts: Facts) -> list[Where]:
        """Loops of a thread whose rounds are known when the kernel is compiled."""
        values, found = facts.thread_values, list[Where]()
        for node in facts.threads.of(OpKind.FOR):
            walked = facts.threads.producer(facts.threads.through(node.op.inputs[0], VIEWS))
            if walked is None or walked.op.operand("loop_unroll_factor"):
                continue
            ends = [walked.op.operand(role) for role in ("low", "high", "step")]
            if all(end and values.expr(end).constant is not None for end in ends):
                found += [walked, node.head]
        return found

    def _unread(self, facts: Facts, walked: Node) -> bool:
        """Whether code that was not understood says how many rounds there are."""
        last = facts.thread_values.expr(walked.op.operand("high"))
        made = (facts.threads.producer(atom.value) for atom in last.atoms())
        return any(one is not None and one.op.kind == OpKind.OPAQUE for one in made)

    def _running(self, facts: Facts) -> list[Where]:
        """The loops of a thread, none of which is asked to be unrolled; empty where one may be."""
        loops = facts.threads.of(OpKind.FOR, OpKind.WHILE) if facts.of_threads else []
        walked = [facts.threads.producer(n.op.inputs[0]) for n in loops if n.op.kind == OpKind.FOR]
        if any(n is None or self._unread(facts, n) for n in walked):
            return []
        return list(loops)

    def _asked(self, facts: Facts, walked: Node) -> str:
        """What the program says of unrolling a loop over an iterable; empty when nothing."""
        if walked.op.kind in (OpKind.STATIC_RANGE, OpKind.STATIC_ITERATE):
            return "static_range/static_iter"
        made = facts.threads.producer(walked.op.operand("loop_unroll_factor"))
        factor = made.op.attribute("value") if made is not None else None
        if factor == 0 and _written_rounds(facts, walked):
            return "static_range/static_iter"
        if factor == 0:
            return "" if self._unread(facts, walked) else "unrolling asked for, extent at run time"
        return f"unrolled by {factor}" if isinstance(factor, int) and factor > 1 else ""


def _written_rounds(facts: Facts, walked: Node) -> bool:
    """Whether compile-time numbers and the counters of loops around it, which are written out
    themselves, tell where a loop begins, ends and goes on by."""
    values = facts.thread_values
    ends = [walked.op.operand(role) for role in ("low", "high", "step")]
    atoms = [atom for end in ends if end is not None for atom in values.expr(end).atoms()]
    return all(atom.value in facts.constexprs or _counter(facts, atom) for atom in atoms)


def _counter(facts: Facts, atom: Atom) -> bool:
    """Whether a number counts the rounds of a loop that is written out."""
    held = facts.threads.arguments.get(atom.value)
    if atom.kind is not AtomKind.INDUCTION or held is None or held[0].op.kind != OpKind.FOR:
        return False
    walked = facts.threads.producer(facts.threads.through(held[0].op.inputs[0], VIEWS))
    return walked is not None and walked.op.kind in (OpKind.STATIC_RANGE, OpKind.STATIC_ITERATE)


def _elements_apart(facts: Facts) -> list[Where]:
    """The elements of vectors that a thread takes out one by one, four or more of one vector, to do
    the same with each; or that it computes one by one and puts into vectors."""
    graph, taken = facts.threads, dict[tuple[str, str], dict[int, Node]]()
    for node in graph.of(OpKind.EXTRACT):
        number = facts.thread_values.literal(node.op.inputs[1])
        if not isinstance(number, int):
            continue
        for user in graph.users(node.result):
            taken.setdefault((node.op.inputs[0], user.op.kind), {})[number] = node
    found = [n for rows in taken.values() if len(rows) >= _SEVERAL for n in rows.values()]
    put = [n for n in graph.of(OpKind.INSERT) if _computed(facts, n)]
    return [*found, *(put if len(put) >= _SEVERAL else ())]


def _computed(facts: Facts, put: Node) -> bool:
    """Whether what is put into one place of a vector was computed for it."""
    made = facts.threads.producer(put.op.operand("value"))
    number = facts.thread_values.literal(put.op.operand("index"))
    return isinstance(number, int) and made is not None and made.op.kind in _ARITHMETIC

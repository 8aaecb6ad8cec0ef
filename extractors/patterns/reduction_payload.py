"""How the place of an extreme element is found along with its value."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS, SORT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import COMPARISONS, READS, OpKind

_CHOOSING = (OpKind.SORT, OpKind.TOPK, OpKind.REDUCE_MAX, OpKind.REDUCE_MIN, OpKind.REDUCE)
_ARGMAX = (
    POINTER
    + """
@triton.jit
def best(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=float("-inf"))
    tl.store(out, tl.argmax(v, axis=0))
"""
)
_SELECT = (
    POINTER
    + """
@triton.jit
def best(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=float("-inf"))
    tl.store(out, tl.min(tl.where(v == tl.max(v, axis=0), at, n), axis=0))
"""
)


_ARGMAX_TILE = (
    TILE
    + """
@ct.kernel
def best(x, out, N: Int, T: Int):
    v = ct.gather(x, (ct.bid(0), ct.arange(T, dtype=ct.int32)), padding_value=-math.inf)
    ct.scatter(out, ct.bid(0), ct.argmax(v, axis=0))
"""
)
_BESIDE = vary(
    _ARGMAX,
    ("    tl.store(out, tl.argmax(v, axis=0))\n",
     "    top, place = tl.max(v, axis=0, return_indices=True)\n    tl.store(out, place)\n"),
)  # fmt: skip
_SELECT_TILE = vary(
    _ARGMAX_TILE,
    ("ct.argmax(v, axis=0)",
     "ct.min(ct.where(v == ct.max(v, axis=0), ct.arange(T, dtype=ct.int32), N), axis=0)"),
)  # fmt: skip
_PAIRS = (
    POINTER
    + """
@triton.jit
def larger(a, i, b, j):
    later = b >= a
    return tl.where(later, b, a), tl.where(later, j, i)

@triton.jit
def best(x, out, places, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=float("-inf"))
    top, where = tl.associative_scan((v, at), 0, larger)
    tl.store(out + at, top, mask=at < n)
    tl.store(places + at, where, mask=at < n)
"""
)
_REDUCED = vary(
    _PAIRS,
    ("associative_scan((v, at), 0", "reduce((v, at), 0"),
    ("out + at, top, mask=at < n", "out, top"),
    ("places + at, where, mask=at < n", "places, where"),
)
_MERGED = (
    POINTER
    + """
@triton.jit
def add(out, places, top, place, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(out + at, mask=at < n)
    i = tl.load(places + at, mask=at < n)
    last = tl.load(top + tl.program_id(0))
    j = tl.load(place + tl.program_id(0))
    tl.store(out + at, tl.maximum(v, last), mask=at < n)
    tl.store(places + at, tl.where(v >= last, i, j), mask=at < n)
"""
)
_TOGETHER = "places carried beside their values"
_BELOW = "place packed below the value in one word"
_KEYS = (
    POINTER
    + """
@triton.jit
def best(x, out, places, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0)
    key = tl.max((v.to(tl.int64) << 32) | (n - at), axis=0)
    tl.store(places, n - (key & 0xFFFFFFFF))
    tl.store(out, key >> 32)
"""
)
_KEYS_TILE = (
    TILE
    + """
@ct.kernel
def best(x, out, T: Int):
    at = ct.arange(T, dtype=ct.int32)
    v = ct.load(x, index=(0,), shape=(T,))
    key = ct.max((v << 12) | at, axis=0)
    ct.store(out, index=(0,), tile=key & 4095)
"""
)
_KEYS_THREADS = """__global__ void best(const unsigned* x, int* out) {
    unsigned key = (x[threadIdx.x] << 16) | (0xFFFF & (65535 - threadIdx.x));
    unsigned top = __reduce_max_sync(0xffffffff, key);
    if (threadIdx.x == 0) out[blockIdx.x] = 65535 - (top & 0xFFFF);
}
"""


class ReductionPayload(Pattern):
    """An arg-reduction, the smallest index among those that equal the maximum, a value that goes
    along with a key that is sorted, places that are reduced, scanned or merged together with the
    values that lie there, or that are packed into one word with them."""

    name = "vocabulary-argmax-tracking-with-lowest-index-tie-break"
    axis = "reduction_payload"
    source = "tilelore catalogue, P96; Triton documentation, argmax: tie_break_left"
    matches = (
        Case(_ARGMAX, "argmax op"),
        Case(_BESIDE, "argmax op"),
        Case(_SELECT, "max + min(where(eq,idx,N))"),
        Case(_ARGMAX_TILE, "argmax op"),
        Case(_SELECT_TILE, "max + min(where(eq,idx,N))"),
        Case(SORT_THREADS, "carried as the value of a key-value sort"),
        Case(_PAIRS, _TOGETHER),
        Case(_REDUCED, _TOGETHER),
        Case(_MERGED, "place chosen beside the larger value"),
        Case(_KEYS, _BELOW),
        Case(
            vary(
                _KEYS, ("tl.max(", "tl.sort("), (", axis=0)\n    tl.store(pl", ")\n    tl.store(pl")
            ),
            _BELOW,
        ),
        Case(_KEYS_TILE, _BELOW),
        Case(_KEYS_THREADS, _BELOW),
    )
    near_misses = (
        NearMiss(
            SORT_THREADS.replace("Sort(keys, places)", "Sort(keys)"),
            why="keys alone are sorted",
            value="carried as the value of a key-value sort",
        ),
        NearMiss(
            vary(_KEYS, ("(n - at), axis", "tl.load(out + at), axis")), why="two loaded numbers"
        ),
        NearMiss(vary(_KEYS, ("n - (key & 0xFFFFFFFF)", "n")), why="no place is taken out again"),
        NearMiss(vary(_KEYS_TILE, ("key & 4095", "key")), why="no place is taken out again"),
        NearMiss(
            vary(_KEYS_THREADS, ("(0xFFFF & (65535 - threadIdx.x))", "1")), why="a number for all"
        ),
        NearMiss(vary(_MERGED, ("v >= last, i, j", "i >= j, i, j")), why="places are compared"),
        NearMiss(vary(_PAIRS, ("(v, at)", "(v, tl.exp(v))")), why="two numbers of every element"),
        NearMiss(SOFTMAX, why="only the maximum's value is used"),
        NearMiss(SOFTMAX_POINTER, why="only the maximum's value is used"),
        NearMiss(SOFTMAX_THREADS, why="only the maximum's value is used"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        pairs = [n for n in facts.graph.of(OpKind.SORT) if n.op.operand("payload")]
        if pairs:
            yield self.decide(facts, "carried as the value of a key-value sort", pairs)
        native = facts.graph.of(OpKind.ARGMAX, OpKind.ARGMIN)
        native += [
            n
            for n in facts.graph.of(OpKind.REDUCE_MAX, OpKind.REDUCE_MIN)
            if facts.flag(n.op.operand("return_indices") or "")
        ]
        if native:
            yield self.decide(facts, "argmax op", native)
        together = [
            n for n in facts.graph.of(OpKind.REDUCE, OpKind.SCAN) if self._with_places(facts, n)
        ]
        if together:
            yield self.decide(facts, _TOGETHER, together)
        if packed := _packed(facts):
            yield self.decide(facts, _BELOW, packed)
        if kept := self._beside_extremes(facts):
            yield self.decide(facts, "place chosen beside the larger value", kept)
        for node in facts.graph.of(OpKind.REDUCE_MIN):
            chosen = facts.graph.producer(facts.graph.through(node.op.inputs[0], VIEWS | CASTS))
            if chosen is None or chosen.op.kind != OpKind.SELECT:
                continue
            tests = facts.graph.roots(chosen.op.operand("condition"), OpKind.EQ)
            maxima = facts.graph.roots(chosen.op.operand("condition"), OpKind.REDUCE_MAX)
            if tests and maxima:
                yield self.decide(facts, "max + min(where(eq,idx,N))", (*maxima, chosen, node))

    def _with_places(self, facts: Facts, node: Node) -> bool:
        """Whether several tiles are combined, of which one holds nothing but places and another
        one what was loaded."""
        tiles = facts.graph.producer(node.op.inputs[0])
        if tiles is None or tiles.op.kind != OpKind.TUPLE:
            return False
        return any(self._place(facts, v) for v in tiles.op.inputs) and any(
            facts.feeding(v) for v in tiles.op.inputs
        )

    def _place(self, facts: Facts, value: str) -> bool:
        """Places of lanes, perhaps only where no others are given."""
        ends = [n.result for n in facts.graph.ends(value, VIEWS | CASTS)]
        found = [facts.values.expr(v) for v in ends if not facts.feeding(v)]
        return any(e.atoms() and e.has(AtomKind.LANE) for e in found)

    def _beside_extremes(self, facts: Facts) -> list[Node]:
        """The larger of two values, and by a comparison of the two one of two whole numbers that
        were loaded beside them, both stored."""
        extremes = [
            n
            for n in facts.graph.of(OpKind.MAXIMUM, OpKind.MINIMUM)
            if not facts.of_threads and facts.stored_in(n.result)
        ]
        found: list[Node] = []
        for choice in facts.graph.of(OpKind.SELECT) if extremes else ():
            test = facts.graph.producer(facts.graph.core(choice.op.operand("condition")))
            sides = [facts.held_loads(v) for v in choice.op.inputs[1:]]
            if test is None or test.op.kind not in COMPARISONS or not all(sides):
                continue
            compared = {facts.graph.core(v) for v in test.op.inputs[:2]}
            apart = not compared & {facts.graph.core(v) for v in choice.op.inputs[1:]}
            for top in extremes:
                same = {facts.graph.core(v) for v in top.op.inputs[:2]} == compared
                if same and apart and facts.stored_in(choice.result):
                    found += [top, test, choice]
        return found


def _packed(facts: Facts) -> list[Node]:
    """Words of what was loaded, shifted, and of a place in the bits below, with what finds the
    largest or sorts them and takes the place out again."""
    graph, words = facts.graph, dict[Node, Node]()
    for word in graph.of(OpKind.BIT_OR):
        for above, below in (word.op.inputs[:2], word.op.inputs[1::-1]):
            shifted = graph.producer(graph.through(above, VIEWS | CASTS))
            if shifted is None or shifted.op.kind != OpKind.SHIFT_LEFT:
                continue
            if facts.number(below) is None and _placed(facts, below):
                words[word] = shifted
    if not words:
        return []
    taken = [(n, v) for n in graph.of(OpKind.BIT_AND, OpKind.MOD) for v in n.op.inputs[:2]]
    found: list[Node] = []
    for chosen in graph.of(*_CHOOSING):
        if made := _straight(facts, chosen.op.operand("x") or chosen.op.inputs[0], [*words]):
            out = (n for n, v in taken if _straight(facts, v, [chosen]))
            if (first := next(out, None)) is not None:
                found += [*(words[n] for n in made), *made, chosen, first]
    return list(dict.fromkeys(found))


def _placed(facts: Facts, value: str) -> bool:
    """Whether a number is no loaded one, or is counted by lanes."""
    return not facts.feeding(value) or facts.values.expr(value).has(AtomKind.LANE)


def _straight(facts: Facts, value: str, nodes: list[Node]) -> set[Node]:
    """Those of the nodes that a value is made of, no load in between."""
    if not facts.graph.rests_on_any(value, facts.graph.node_set(nodes)):
        return set()
    return facts.graph.made_from([value], nodes, lambda n: n.op.kind in READS)

"""Numbers of few bits, several to a word."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_words import (
    UNPACK,
    UNPACK_TILE,
)
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.packing import packed
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_NIBBLES = (
    POINTER
    + """
@triton.jit
def unpack(words, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    word = tl.load(words + at, mask=at < n)
    tl.store(out + at, word >> 4, mask=at < n)
    tl.store(out + n + at, word & 15, mask=at < n)
"""
)
_PICKED = (
    POINTER
    + """
@triton.jit
def unpack(words, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    for i in range(4):
        word = tl.load(words + at, mask=at < n)
        tl.store(out + i * n + at, (word & (3 << (2 * i))) >> (2 * i), mask=at < n)
"""
)
_SIGNED = vary(_NIBBLES, ("word & 15", "(word << 4) >> 4"))
_PACK = (
    POINTER
    + """
@triton.jit
def pack(x, words, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    low = tl.load(x + 2 * at, mask=at < n) & 15
    high = tl.load(x + 2 * at + 1, mask=at < n) & 15
    tl.store(words + at, low | (high << 4), mask=at < n)
"""
)
_PACK_SUM = (
    POINTER
    + """
@triton.jit
def pack(x, words, EACH: tl.constexpr, BITS: tl.constexpr):
    at = tl.program_id(0)
    lane = tl.arange(0, EACH)
    part = tl.load(x + at * EACH + lane).to(tl.int32)
    tl.store(words + at, tl.sum(part << (lane * BITS), axis=0))
"""
)
_PACK_TILE = (
    TILE
    + """
@ct.kernel
def pack(x, words, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    low = ct.gather(x, 2 * at) & 15
    high = ct.gather(x, 2 * at + 1) & 15
    ct.scatter(words, at, low | (high << 4))
"""
)
_SIGNED_THREADS = """__global__ void unpack(const signed char* words, signed char* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    signed char word = words[at];
    out[2 * at] = (signed char)(word << 4) >> 4;
    out[2 * at + 1] = word >> 4;
}
"""
_FIELDS_THREADS = """__global__ void dot(const int* words, const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    unsigned word = words[at];
    float sum = (float)(word & 0xFF) * x[0] + (float)((word >> 8) & 0xFF) * x[1];
    out[at] = sum + (float)((word >> 16) & 0xFF) * x[2];
}
"""
_GATHERED_THREADS = """__global__ void pack(const unsigned short* x, unsigned* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    unsigned word = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) word |= ((unsigned)x[at * 8 + i]) << (i * 4);
    out[at] = word;
}
"""


_LOOKS = VIEWS | CASTS | {OpKind.BITCAST, OpKind.SELECT}
_SUMS = (OpKind.REDUCE_SUM, OpKind.REDUCE_OR, OpKind.REDUCE)


class PackedWords(Pattern):
    """A loaded word is shifted by a distance that its place decides, and its low bits are kept; or
    numbers shifted up beside each other are joined to the word that is stored."""

    name = "numbers-packed-in-words"
    axis = "operand_layout"
    source = "Frantar et al., GPTQ (2022), section 4: packed weights"
    matches = (
        Case(UNPACK, "several numbers packed in one word"),
        Case(_NIBBLES, "several numbers packed in one word"),
        Case(_PICKED, "several numbers packed in one word"),
        Case(UNPACK_TILE, "several numbers packed in one word"),
        Case(_SIGNED, "several numbers packed in one word"),
        Case(_GATHERED_THREADS, "several numbers packed in one word"),
        Case(_FIELDS_THREADS, "several numbers packed in one word"),
        Case(_SIGNED_THREADS, "several numbers packed in one word"),
        Case(_PACK, "several numbers packed in one word"),
        Case(_PACK_SUM, "several numbers packed in one word"),
        Case(_PACK_TILE, "several numbers packed in one word"),
    )
    near_misses = (
        NearMiss(vary(UNPACK, ("(at % 8) * 4", "16")), why="one part of every word is wanted"),
        NearMiss(vary(UNPACK_TILE, ("(at % 8) * 4", "16")), why="one part of every word"),
        NearMiss(vary(_NIBBLES, ("word & 15", "word & 1")), why="one bit beside a shifted word"),
        NearMiss(vary(_PICKED, ("2 * i", "4")), why="one part of every word is wanted"),
        NearMiss(vary(_SIGNED, ("word >> 4, mask", "word, mask")), why="one part of every word"),
        NearMiss(
            vary(_SIGNED, ("(word << 4)", "(word << 2)")), why="no bits lie beside each other"
        ),
        NearMiss(vary(_GATHERED_THREADS, ("<< (i * 4)", "<< 4")), why="all are shifted alike"),
        NearMiss(
            vary(_FIELDS_THREADS, (">> 8)", ">> 4)"), (">> 16)", ">> 4)")),
            why="fields lie over each other",
        ),
        NearMiss(vary(_PACK, ("low | (high << 4)", "low | high")), why="nothing is shifted"),
        NearMiss(
            vary(_PACK, ("words + at, low | (high << 4)", "words + (low | (high << 4)), low")),
            why="a place is computed, not what is stored",
        ),
        NearMiss(vary(_PACK, ("high << 4", "high << 8")), why="whole bytes side by side"),
        NearMiss(
            vary(_PACK, ("high << 4", "at << 16")), why="a place is joined to a number as a key"
        ),
        NearMiss(vary(_PACK_SUM, ("lane * BITS", "BITS")), why="all are shifted alike"),
        NearMiss(vary(_PACK_TILE, ("low | (high << 4)", "low | high")), why="nothing is shifted"),
        NearMiss(ADD_POINTER, why="no bits are taken"),
        NearMiss(ADD_THREADS, why="no bits are taken"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Node] = []
        for node in facts.graph.of(OpKind.BIT_AND):
            for value in node.op.inputs[:2]:
                shift = facts.graph.producer(facts.graph.through(value, VIEWS | CASTS))
                if shift is not None and self._placed(facts, shift):
                    found += [shift, node]
        for node in facts.graph.of(OpKind.SHIFT_RIGHT):
            bits = facts.graph.producer(facts.graph.through(node.op.inputs[0], VIEWS | CASTS))
            if bits is not None and self._masked(facts, bits, node):
                found += [bits, node]
        for node in facts.graph.of(OpKind.SHIFT_RIGHT):
            found += self._halves(facts, node)
            found += self._signed(facts, node)
        found += [*self._fields(facts), *self._gathered(facts)]
        found += packed(facts)
        if found:
            found += self._placing(facts, found)
            yield self.decide(facts, "several numbers packed in one word", found)

    def _placing(self, facts: Facts, shifts: list[Node]) -> list[Node]:
        """The remainder that says how far a word is shifted, and the quotient of the same position
        by the same number: the place of the word."""
        if facts.of_threads:
            return []
        by = [n.op.inputs[1] for n in shifts if n.op.kind == OpKind.SHIFT_RIGHT]
        above = [n for v in by for n in facts.graph.upstream(v) if n.op.kind == OpKind.MOD]
        places = {facts.graph.through(n.op.inputs[0], VIEWS) for n in above}
        words = facts.graph.of(OpKind.FLOOR_DIV) if places else []
        return [*above, *(n for n in words if facts.graph.through(n.op.inputs[0], VIEWS) in places)]

    def _gathered(self, facts: Facts) -> list[Node]:
        """Loaded numbers of a thread, each shifted up as far as a loop has counted and joined to
        the word that the loop carries and that is stored."""
        graph, found = facts.threads, list[Node]()
        stores = graph.of(OpKind.STORE) if facts.of_threads and graph.of(OpKind.SHIFT_LEFT) else []
        for node in graph.of(OpKind.BIT_OR) if stores else ():
            for value, word in (node.op.inputs[:2], node.op.inputs[1::-1]):
                shift = graph.producer(graph.through(value, VIEWS | CASTS))
                if shift is None or shift.op.kind != OpKind.SHIFT_LEFT or not node.loops:
                    continue
                counts = facts.thread_values.expr(shift.op.inputs[1]).has(AtomKind.INDUCTION)
                held = graph.through(word, VIEWS | CASTS) in graph.arguments
                loaded = any(graph.rests_on(shift.result, n) for n in graph.of(OpKind.LOAD))
                kept = any(graph.rests_on(n.op.operand("value"), node.loops[-1]) for n in stores)
                if counts and held and loaded and kept:
                    found += [shift, node]
        return found

    def _fields(self, facts: Facts) -> list[Node]:
        """Of a loaded word, fields at two or more distances, each as wide as its mask keeps and
        none over another."""
        fields: dict[str, dict[int, tuple[int, list[Node]]]] = {}
        for node in facts.graph.of(OpKind.BIT_AND):
            for value, mask in (node.op.inputs[:2], node.op.inputs[1::-1]):
                bits = facts.values.literal(mask)
                if not isinstance(bits, int) or bits < 1 or bits & (bits + 1):
                    continue
                shift = facts.graph.producer(facts.graph.through(value, VIEWS | CASTS))
                moved = shift is not None and shift.op.kind == OpKind.SHIFT_RIGHT
                by = facts.values.literal(shift.op.inputs[1]) if shift and moved else 0
                word = facts.graph.core(shift.op.inputs[0]) if shift and moved else value
                if isinstance(by, int) and word is not None and facts.held_loads(word):
                    where = [shift, node] if shift is not None and moved else [node]
                    one = fields.setdefault(facts.graph.core(word) or word, {})
                    one[by] = (bits.bit_length(), [*one.get(by, (0, []))[1], *where])
        return [
            node
            for one in fields.values()
            if len(one) > 1 and all(b - a >= one[a][0] for a, b in pairwise(sorted(one)))
            for _, where in one.values()
            for node in where
        ]

    def _signed(self, facts: Facts, shift: Node) -> list[Node]:
        """Of a loaded word, the low bits shifted up and down again, which keeps their sign; and the
        others shifted down beside them."""
        by = facts.values.expr(shift.op.inputs[1]).constant
        up = facts.graph.producer(facts.graph.through(shift.op.inputs[0], VIEWS | CASTS))
        if up is None or up.op.kind != OpKind.SHIFT_LEFT or not by or not 0 < by < 32:
            return []
        word = facts.graph.core(up.op.inputs[0])
        same = facts.values.expr(up.op.inputs[1]).constant == by
        high = [
            n
            for n in facts.graph.of(OpKind.SHIFT_RIGHT)
            if facts.graph.core(n.op.inputs[0]) == word
            and facts.values.expr(n.op.inputs[1]).constant == by
        ]
        return [up, shift, *high] if same and high and facts.held_loads(word) else []

    def _halves(self, facts: Facts, shift: Node) -> list[Node]:
        """Of a loaded word shifted by a number of bits, the masks that keep just those bits."""
        word, by = shift.op.inputs[:2]
        bits = facts.values.literal(by)
        if not isinstance(bits, int) or not 0 < bits < 32 or not facts.held_loads(word):
            return []
        core = facts.graph.core(word)
        low = [
            n
            for n in facts.graph.of(OpKind.BIT_AND)
            if core in {facts.graph.core(v) for v in n.op.inputs}
            and (1 << bits) - 1 in [facts.values.literal(v) for v in n.op.inputs]
        ]
        return [shift, *low] if low else []

    def _masked(self, facts: Facts, bits: Node, shift: Node) -> bool:
        """Bits of a loaded word that a mask picks, shifted down by as far as the mask was moved:
        both change with a loop or a lane."""
        if bits.op.kind != OpKind.BIT_AND:
            return False
        by = facts.values.expr(shift.op.inputs[1])
        moves = by.has(AtomKind.INDUCTION, AtomKind.LANE, AtomKind.BLOCK)
        for word, mask in (bits.op.inputs[:2], bits.op.inputs[1::-1]):
            made = facts.graph.producer(facts.graph.through(mask, VIEWS | CASTS))
            moved = made is not None and made.op.kind == OpKind.SHIFT_LEFT
            if moved and moves and facts.held_loads(word):
                return facts.values.expr(made.op.inputs[1] if made else None) == by
        return False

    def _placed(self, facts: Facts, shift: Node) -> bool:
        """A loaded word shifted right by what is computed from a block id or a lane."""
        if shift.op.kind != OpKind.SHIFT_RIGHT or not facts.held_loads(shift.op.inputs[0]):
            return False
        by = shift.op.inputs[1]
        return not facts.feeding(by) and bool(facts.graph.roots(by, OpKind.ARANGE, OpKind.BLOCK_ID))

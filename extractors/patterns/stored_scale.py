"""Scales of numbers that are stored in few bits: taken of the maximum, or loaded and multiplied
in."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import UNKNOWN, Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_scales import EXPAND_EITHER
from kb.analysis.accesses import Access
from kb.analysis.composed_steps import of_others
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, Node
from kb.analysis.shared_numbers import grouped, of_all
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_BITS = (OpKind.BIT_AND, OpKind.SHIFT_RIGHT)

QUANTISE = (
    POINTER
    + """
@triton.jit
def quantise(x, out, scales, n, T: tl.constexpr):
    at = tl.arange(0, T)
    row = tl.program_id(0)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    s = tl.max(tl.abs(v)) / 127.0
    tl.store(out + row * n + at, (v / s).to(tl.int8), mask=at < n)
    tl.store(scales + row, s)
"""
)
DYNAMIC = vary(
    PRODUCT_POINTER,
    ("acc += tl.dot(x, y)",
     "s = tl.max(tl.abs(x), axis=1) / 448.0\n"
     "        acc += tl.dot((x / s[:, None]).to(b.dtype.element_ty), y) * s[:, None]"),
)  # fmt: skip
_FAKE = vary(
    QUANTISE,
    ("tl.max(tl.abs(v)) / 127.0", "127.0 / tl.max(tl.abs(v))"),
    ("(v / s).to(tl.int8)", "tl.floor(v * s + 0.5) / s"),
    ("    tl.store(scales + row, s)\n", ""),
)
QUANTISE_TILE = (
    TILE
    + """
@ct.kernel
def quantise(x, out, scales, T: Int):
    i = ct.bid(0)
    v = ct.astype(ct.load(x, index=(i, 0), shape=(1, T)), ct.float32)
    s = ct.max(ct.abs(v), axis=1, keepdims=True) / 127.0
    ct.store(out, index=(i, 0), tile=ct.astype(v / s, ct.int8))
    ct.store(scales, index=(i, 0), tile=s)
"""
)
_EXPAND = (
    POINTER
    + """
@triton.jit
def expand(packed, scales, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    word = tl.load(packed + at // 8, mask=at < n)
    number = ((word >> ((at % 8) * 4)) & 15).to(tl.float32)
    tl.store(out + at, number * tl.load(scales + at // 32, mask=at < n), mask=at < n)
"""
)
_EXPAND_TILE = (
    TILE
    + """
@ct.kernel
def expand(packed, scales, out, T: Int):
    i = ct.bid(0)
    number = ct.astype(ct.load(packed, index=(i,), shape=(T,)) & 15, ct.float32)
    ct.store(out, index=(i,), tile=number * ct.load(scales, index=(i,), shape=(1,)))
"""
)
_MASKED_BY_LENGTH = (
    POINTER
    + """
@triton.jit
def ragged(x, lengths, scales, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    inside = (at < tl.load(lengths + tl.program_id(0))) & (at < n)
    v = tl.load(x + at, mask=inside)
    tl.store(out + at, v * tl.load(scales + tl.program_id(0)), mask=inside)
"""
)
_DOTTED = (
    POINTER
    + """
@triton.jit
def dotted(x, packed, scales, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    acc = tl.zeros([T], dtype=tl.float32)
    for k in range(0, n, T):
        word = tl.load(packed + row * n + (k + at) // 8)
        number = ((word >> ((at % 8) * 4)) & 15).to(tl.float32)
        acc += number * tl.load(x + k + at) * tl.load(scales + row * n + (k + at) // 32)
    tl.store(out + row, tl.sum(acc, axis=0))
"""
)
_LARGEST = vary(
    QUANTISE,
    ("    tl.store(out + row * n + at, (v / s).to(tl.int8), mask=at < n)\n", ""),
)
QUANTISE_THREADS = """__global__ void quantise(const float* x, signed char* out, float* scales) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float v[16];
    float top = 0.f;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        v[i] = x[at * 16 + i];
        top = fmaxf(top, fabsf(v[i]));
    }
    float s = top / 127.f;
    scales[at] = s;
#pragma unroll
    for (int i = 0; i < 16; ++i) out[at * 16 + i] = (signed char)(v[i] / s);
}
"""


_QUANTISE_VECTORS = """__global__ void narrow(const half* x, signed char* out, float* scales,
                       int n) {
    const uint4* from = reinterpret_cast<const uint4*>(x + blockIdx.x * n);
    uint4 bits = from[threadIdx.x];
    float top = 1e-6f;
    for (int j = 0; j < 8; ++j) {
        half v = reinterpret_cast<half*>(&bits)[j];
        top = fmaxf(top, fabsf(__half2float(v)));
    }
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    float by = 127.f / top;
    for (int j = 0; j < 8; ++j) {
        half v = reinterpret_cast<half*>(&bits)[j];
        out[blockIdx.x * n + threadIdx.x * 8 + j] = (signed char)(__half2float(v) * by);
    }
    if (threadIdx.x == 0) scales[blockIdx.x] = top / 127.f;
}
"""


_LOST = "the scale is not kept, so nobody can undo the division"


class StoredScale(Pattern):
    """Elements are divided by a scale made of the largest of them and the scale is stored; or bits
    of loaded words are multiplied by a loaded scale."""

    name = "scale-stored-beside-few-bits"
    axis = "quant_scaling"
    source = "Dettmers et al., LLM.int8() (2022), absmax quantisation"
    matches = (
        Case(QUANTISE, "scale from the largest element"),
        Case(QUANTISE_TILE, "scale from the largest element"),
        Case(QUANTISE_TILE.replace("v / s, ", "(1.0 / s) * v, "), "scale from the largest element"),
        Case(_LARGEST, "largest element stored"),
        Case(vary(_LARGEST, ("tl.abs(v)", "tl.maximum(v, -v)")), "largest element stored"),
        Case(QUANTISE_THREADS, "scale from the largest element"),
        Case(_QUANTISE_VECTORS, "scale from the largest element"),
        Case(DYNAMIC, "scale from the largest element"),
        Case(_FAKE, "scale from the largest element"),
        Case(_EXPAND, "loaded scale times unpacked bits"),
        Case(_DOTTED, "loaded scale times unpacked bits"),
        Case(_EXPAND_TILE, "loaded scale times unpacked bits"),
        Case(EXPAND_EITHER, "loaded scale times unpacked bits"),
    )
    near_misses = (
        NearMiss(vary(QUANTISE, ("    tl.store(scales + row, s)\n", "")), why=_LOST),
        NearMiss(
            vary(_DOTTED, (" * tl.load(scales + row * n + (k + at) // 32)", "")),
            why="the other factor is an operand, one for every element",
        ),
        NearMiss(vary(QUANTISE_THREADS, ("    scales[at] = s;\n", "")), why=_LOST),
        NearMiss(vary(DYNAMIC, ("y) * s[:, None]", "y)")), why="the product stays scaled"),
        NearMiss(vary(_FAKE, (" + 0.5) / s", " + 0.5)")), why="nobody can undo the scaling"),
        NearMiss(vary(_FAKE, ("tl.floor(v * s + 0.5)", "(v * s)")), why="nothing is lost between"),
        NearMiss(vary(_LARGEST, ("tl.max(tl.abs(v))", "tl.max(v)")), why="signs are kept"),
        NearMiss(
            vary(_LARGEST, ("tl.abs(v)", "tl.maximum(v, -v * 0.5)")),
            why="signs are kept, negative ones count half",
        ),
        NearMiss(
            vary(QUANTISE_TILE, ("    ct.store(scales, index=(i, 0), tile=s)\n", "")), why=_LOST
        ),
        NearMiss(
            vary(_EXPAND, (" & 15", ""), (" >> ((at % 8) * 4)", "")), why="nothing is unpacked"
        ),
        NearMiss(vary(_EXPAND_TILE, (" & 15", "")), why="nothing is unpacked"),
        NearMiss(_MASKED_BY_LENGTH, why="truth values that a loaded length decides are no bits"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions:
            if operands := quantised_operands(facts):
                yield self.decide(facts, "scale from the largest element", operands)
            return
        largest = largest_sizes(facts)
        divided = divided_by_largest(facts)
        if divided:
            ways = [way for d in divided for way in _ways(d) if _by(facts, d, way, largest)]
            made = [n for _, by in ways if (n := facts.graph.producer(by)) is not None]
            kept = kept_scales(facts, divided)
            made += _on_the_way(facts, largest, [*divided, *(s.node for s in kept)])
            value = "scale from the largest element"
            whole = of_all(facts, [by for _, by in ways])
            yield self.decide(facts, value, [*largest, *made, *divided, *kept, *whole])
        elif there := _there_and_back(facts, largest):
            yield self.decide(facts, "scale from the largest element", [*largest, *there])
        elif largest:
            kept = [s for s in facts.stores if _is_largest(facts, s, largest)]
            if kept:
                yield self.decide(facts, "largest element stored", [*largest, *kept])
        steps = facts.graph.of(OpKind.MUL)
        unpacked = [n for step in steps for n in self._unpacks(facts, step)]
        if unpacked:
            yield self.decide(facts, "loaded scale times unpacked bits", unpacked)

    def _unpacks(self, facts: Facts, node: Node) -> list[Node | Access]:
        """Bits of loaded words times a loaded number that no bits were taken of, and the loads of
        that number where several elements share it."""
        for bits, scale in _ways(node):
            if not self._bits(facts, bits) or self._bits(facts, scale):
                continue
            loads = facts.feeding(scale)
            words = facts.feeding(bits)
            arrays = {a.array for a in words} & {a.array for a in loads} - {None}
            apart = loads and not arrays and not any(a in words for a in loads)
            shared = [a for a in loads if grouped(a)]
            if apart and (node.loop is None or shared):
                return [node, *shared]
        return []

    def _bits(self, facts: Facts, value: str) -> bool:
        """Whether bits are taken of loaded words; truth values have none to take."""
        taken = facts.graph.roots(value, *_BITS)
        words = [n for n in taken if facts.types.dtype(n.result) != "i1"]
        return any(facts.feeding(n.op.inputs[0]) for n in words)


def divided_by_largest(facts: Facts) -> list[Node]:
    """Quotients of a tile by a number made of its largest element, where that number is stored."""
    largest = largest_sizes(facts)
    if not largest:
        return []
    steps = facts.graph.of(OpKind.DIV, OpKind.MUL)
    return [n for n in steps if any(_by(facts, n, way, largest) for way in _ways(n))]


def _on_the_way(facts: Facts, largest: list[Node], ends: list[Node]) -> list[Node]:
    """Where a scale is made of the largest element: single numbers that are computed of it on the
    way to what is scaled or stored by them."""
    taken = [v for n in ends for v in (n.op.inputs if n.op.kind == OpKind.MUL else n.op.inputs[1:])]
    steps = [n for n in facts.graph.of(OpKind.MUL, OpKind.DIV) if n not in ends]
    return [
        n
        for n in steps
        if any(facts.graph.rests_on(n.result, top) for top in largest)
        and any(facts.graph.rests_on(v, n) for v in taken)
    ]


def _there_and_back(facts: Facts, largest: list[Node]) -> list[Node]:
    """Where a tile is scaled by a number made of its largest element, and where that is undone on
    what was cut to whole numbers in between."""
    steps = facts.graph.of(OpKind.MUL, OpKind.DIV) if largest else []
    scaled = [
        (n, scale)
        for n in steps
        for tile, scale in _ways(n)
        if _wide(facts, tile)
        and any(facts.graph.rests_on(scale, r) for r in largest)
        and not any(facts.graph.rests_on(tile, r) for r in largest)
    ]
    for first, by in scaled:
        for last, (tile, scale) in ((n, way) for n in steps for way in _ways(n)):
            undone = {first.op.kind, last.op.kind} == {OpKind.MUL, OpKind.DIV}
            same = facts.graph.core(by) == facts.graph.core(scale)
            if undone and same and facts.graph.rests_on(tile, first):
                cut = facts.graph.roots(tile, OpKind.FLOOR, OpKind.CEIL, *CASTS)
                if any(facts.graph.rests_on(n.result, first) for n in cut):
                    return [first, last]
    return []


def quantised_operands(facts: Facts) -> list[Node]:
    """Where a tile is scaled by a number made of its largest element before a product, and what the
    product gave is scaled by that number again: the largest, the first step and the last one."""
    tops = [r for r in facts.graph.of(OpKind.REDUCE_MAX) if facts.contractions]
    tops = [r for r in tops if facts.graph.roots(r.op.inputs[0], OpKind.ABS)]
    steps = facts.graph.of(OpKind.MUL, OpKind.DIV) if tops else []
    found: list[Node] = []
    for first, (tile, scale) in ((n, way) for n in steps for way in _ways(n)):
        made = [r for r in tops if facts.graph.rests_on(scale, r)]
        if not made or not _wide(facts, tile) or facts.graph.roots(tile, *CONTRACTIONS):
            continue
        products = [p for p in facts.contractions if facts.graph.rests_on(p.result, first)]
        again = [
            last
            for last in steps
            if any(facts.graph.rests_on(last.result, p) for p in products)
            if facts.graph.core(scale) in {facts.graph.core(v) for v in last.op.inputs[:2]}
        ]
        found += [*made, first, *again] if again else []
    return found


def kept_scales(facts: Facts, divided: list[Node]) -> list[Access]:
    """Stores of the numbers that tiles were divided by."""
    largest = largest_sizes(facts) if divided else []
    return [s for s in facts.stores if any(_keeps(facts, s, d, largest) for d in divided)]


def largest_sizes(facts: Facts) -> list[Node]:
    """Where the largest size of elements is found."""
    reduced = [
        r
        for r in facts.graph.of(OpKind.REDUCE_MAX)
        if facts.graph.roots(r.op.inputs[0], OpKind.ABS)
        or any(_size(facts, n) for n in facts.graph.roots(r.op.inputs[0], OpKind.MAXIMUM))
    ]
    return reduced or _own(facts)


def _size(facts: Facts, node: Node) -> bool:
    """The larger one of a value and its negative."""
    for this, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
        made = facts.graph.producer(facts.graph.core(other))
        if made is not None and made.op.kind == OpKind.NEG:
            return facts.graph.core(made.op.inputs[0]) == facts.graph.core(this)
    return False


def _is_largest(facts: Facts, store: Access, largest: list[Node]) -> bool:
    """A number that is stored of the largest element; beside a tile, nothing else than that."""
    if _wide(facts, store.value):
        return False
    if any(_wide(facts, s.value) for s in facts.stores):
        made = facts.graph.producer(facts.graph.core(store.value))
        return made in largest or (made is not None and made.kind in LOOPS | {OpKind.MAXIMUM})
    return any(facts.graph.rests_on(store.value, r) for r in largest)


def _own(facts: Facts) -> list[Node]:
    """Of a thread that goes through elements of its own, in a loop or one by one, where it takes
    the larger one."""
    if not facts.of_threads:
        return []
    return [
        n
        for n in facts.graph.of(OpKind.MAXIMUM)
        if any(facts.graph.kind_of(facts.graph.core(v)) == OpKind.ABS for v in n.op.inputs[:2])
    ]


def _ways(node: Node) -> tuple[tuple[str, ...], ...]:
    """A value and the number that it is scaled by: of a product either factor may be the number."""
    pair = node.op.inputs[:2]
    return (pair,) if node.op.kind == OpKind.DIV else (pair, pair[::-1])


def _by(facts: Facts, node: Node, way: tuple[str, ...], largest: list[Node]) -> bool:
    """A loaded tile over a number of the maximum, where a store keeps what it rests on and
    another one the number itself."""
    tile, scale = way
    tops = [r for r in largest if facts.graph.rests_on(scale, r)]
    if not tops or not _elements(facts, tile) or not facts.feeding(tile):
        return False
    if of_others(facts, tops, tile) or any(facts.graph.rests_on(tile, r) for r in largest):
        return False
    return any(_keeps(facts, store, node, largest) for store in facts.stores)


def _elements(facts: Facts, value: str) -> bool:
    """A tile; of a thread also what it loads as a vector and takes apart."""
    taken = facts.of_threads and facts.types.dtype(value) in (UNKNOWN, "f32")
    return _wide(facts, value) or (
        taken and any(_wide(facts, a.value) for a in facts.feeding(value))
    )


def _keeps(facts: Facts, store: Access, node: Node, largest: list[Node]) -> bool:
    made = any(facts.graph.rests_on(store.value, r) for r in largest)
    return made and not facts.graph.rests_on(store.value, node)


def _wide(facts: Facts, value: str) -> bool:
    return any(extent != "1" for extent in facts.types.shape(value))

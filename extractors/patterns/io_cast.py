"""Where values are widened and narrowed between memory and arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns import cases_casts as casts
from extractors.patterns.base import UNKNOWN, Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, COPY, LAYER_NORM_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import COPY_THREADS, ROW_NORM_THREADS, SCATTERED, STARTS
from kb.analysis.accesses import Access
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.analysis.narrowing import narrowing, packed, rounded_early
from kb.analysis.register_rows import filled
from kb.analysis.registers import is_address
from kb.analysis.words_apart import as_bits, floats_kept, lengthened, of_one_type, words_apart
from kb.dialects.registry import stores_cast
from kb.evidence import Decision
from kb.ops import READS, OpKind

_SEEN = frozenset({OpKind.BITCAST, OpKind.SELECT, OpKind.EXTRACT, OpKind.INSERT, OpKind.UNPACK})
_WORDS = frozenset({OpKind.BITCAST, OpKind.VECTOR})
_MOST = 64
"""Values that are looked at on the way from a load to its cast."""
_BITS = frozenset({
    OpKind.BIT_AND, OpKind.BIT_OR, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT,
})  # fmt: skip
_SHIFTED = CASTS | {OpKind.ADD, OpKind.SUB}
_FLOATS = frozenset({"f16", "bf16", "f32"})
_WHOLE = frozenset("iu")
_NIBBLES = vary(
    ADD_POINTER,
    ("tl.load(x + at, mask=inside) + ", "((tl.load(x + at, mask=inside).to(tl.int32) >> 4) & 15).to(tl.float16) + "),  # noqa: E501
)  # fmt: skip
_PAIRS = """#include <cuda_bf16.h>
__global__ void twice(const unsigned* x, unsigned* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned word = x[at];
    float2 v = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&word));
    __nv_bfloat162 w = __floats2bfloat162_rn(v.x * 2.f, v.y * 2.f);
    out[at] = *reinterpret_cast<unsigned*>(&w);
}
"""
_NIBBLES_THREADS = """#include <cuda_fp16.h>
__global__ void expand(const unsigned* x, const half* y, half* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int code = (int)((x[at / 8] >> (at % 8 * 4)) & 15) - 8;
    out[at] = __hmul(__int2half_rn(code), y[at / 32]);
}
"""
_FILLED_VECTOR = """#include <cuda_fp16.h>
__global__ void larger(const half2* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    half2 v = __float2half2_rn(0.f);
    if (at < n) v = x[at];
    float2 wide = __half22float2(v);
    if (at < n) out[at] = fmaxf(wide.x, wide.y);
}
"""
_FILLED_WORDS = """#include <cuda_fp16.h>
__global__ void larger(const half* x, half* out, int n) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    half held[8];
    *(uint4*)held = *(const uint4*)(x + at);
    if (at < n)
        for (int i = 0; i < 8; i++) held[i] = __float2half(__half2float(held[i]) * 2.f);
    *(uint4*)(out + at) = *(uint4*)held;
}
"""
_COMMON = vary(
    PRODUCT,
    ("acc = ct.mma(x, y, acc)", "acc = ct.mma(x.astype(out.dtype), y.astype(out.dtype), acc)"),
)


_CHOSEN = vary(
    PRODUCT_POINTER,
    (
        "    tl.store(out",
        "    if out.dtype.element_ty == tl.float8e5:\n        acc = acc.to(tl.float8e5)\n"
        "    else:\n        acc = acc.to(tl.float16)\n    tl.store(out",
    ),
    ("acc.to(tl.float16), mask", "acc, mask"),
)


_BY_TYPE = vary(
    LAYER_NORM_POINTER,
    ("    row = ", "    if x.dtype.element_ty == tl.float16:\n        wide = tl.float32\n"
     "    else:\n        wide = x.dtype.element_ty\n    row = "),
    ("v = tl.load(x + row * sx + at, mask=inside, other=0.0).to(tl.float32)",
     "v = tl.load(x + row * sx + at, mask=inside, other=0.0).to(wide)"),
    ("(c * r * g + h).to(tl.float16)", "(c * r * g + h).to(wide)"),
)  # fmt: skip
_COUNTED = vary(
    ADD_POINTER,
    ("    tl.store(", "    tl.atomic_add(x, tl.sum(tl.load(y + at, mask=inside), axis=0)"
     ".to(tl.bfloat16))\n    tl.store("),
)  # fmt: skip
_EARLY = vary(ADD_POINTER, ("inside) +", "inside).to(tl.float32).to(out.dtype.element_ty) +"))
_FILLED = vary(
    ADD_POINTER,
    ("tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)", "at"),
)

_IDS = vary(
    ADD_POINTER,
    ("tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)",
     "tl.load(x + at, mask=inside).to(tl.int64)"),
)  # fmt: skip
_GIVEN = (
    (".to(tl.int64)", ".to(KIND) << 4"),
    ("tl.constexpr):", "tl.constexpr, KIND: tl.constexpr):"),
)
_LONGEST = frozenset({"i64", "u64", "f64"})


class IoCast(Pattern):
    """Casts right after loads and right before stores, with those of operands in between."""

    name = "widen-on-load-narrow-on-store"
    axis = "io_cast"
    source = "Micikevicius et al., Mixed Precision Training (2018)"
    matches = (
        Case(_EARLY, "upcast on load, downcast before the last step"),
        Case(ROW_NORM, "upcast on load, downcast on store"),
        Case(LAYER_NORM_POINTER, "upcast on load, downcast on store"),
        Case(PRODUCT, "downcast on store"),
        Case(_COMMON, "operands cast to a common type, downcast on store"),
        Case(
            vary(
                ROW_NORM,
                ("ct.astype(v * r * g, x.dtype)", "ct.transpose(ct.astype(v * r * g, x.dtype))"),
            ),
            "upcast on load, downcast on store",
        ),
        Case(ROW_NORM_THREADS, "upcast on load, downcast on store"),
        Case(_CHOSEN, "downcast on store"),
        Case(_BY_TYPE, "upcast on load, implicit cast on store"),
        Case(casts.BY_FLAG, "upcast on load, downcast on store"),
        Case(_COUNTED, "stay in storage dtype"),
        Case(COPY, "stay in storage dtype"),
        Case(ADD_POINTER, "stay in storage dtype"),
        Case(COPY_THREADS, "stay in storage dtype"),
        Case(SCATTERED, "stay in storage dtype"),
        Case(_PAIRS, "upcast on load, downcast on store"),
        Case(_NIBBLES, "upcast on load, implicit cast on store"),
        Case(_NIBBLES_THREADS, "unpacked on load"),
        Case(casts.BYTES, "unpacked on load"),
        Case(casts.JOINED, "downcast on store"),
        Case(casts.LENGTHENED, "widened on store"),
        Case(casts.LENGTHENED.replace("long", "int"), "stay in storage dtype"),
        Case(
            vary(casts.PLACE, ("(kept)", "(rintf(kept * 0.5f))")),
            "downcast on store",
        ),
        Case(_FILLED_VECTOR, "upcast on load"),
        Case(_IDS, "widened on store"),
        Case(vary(_IDS, *_GIVEN), "cast to a type that is handed over"),
        Case(_FILLED_WORDS, "upcast on load, downcast on store"),
    )
    near_misses = (
        NearMiss(
            vary(casts.BY_FLAG, ("made = tl.exp(v)\n", "made = tl.exp(v.to(tl.float32))\n")),
            why="one side of the branch is stored as it was computed",
            value="upcast on load, downcast on store",
        ),
        NearMiss(COPY, why="nothing is cast", value="upcast on load, downcast on store"),
        NearMiss(ROW_NORM, why="rows are widened", value="stay in storage dtype"),
        NearMiss(PRODUCT, why="the sum is narrowed", value="stay in storage dtype"),
        NearMiss(_FILLED, why="nothing is loaded"),
        NearMiss(_IDS, why="no type has more bits than 64", value="downcast on store"),
        NearMiss(
            vary(_IDS, *_GIVEN), why="any type may be asked for", value="stay in storage dtype"
        ),
        NearMiss(casts.BYTES, why="bytes become halves", value="stay in storage dtype"),
        NearMiss(
            casts.BYTES.replace("half* out", "unsigned char* out"),
            why="bytes stay bytes",
            value="unpacked on load",
        ),
        NearMiss(
            casts.BYTES.replace("& 0xff00ff00", "").replace("& 0x00ff00ff) << 8", ")"),
            why="nothing is taken apart: who knows what the bytes are",
        ),
        NearMiss(STARTS, why="addresses are stored, no values"),
        NearMiss(SCATTERED.replace("x[i] * 2", "S(1)"), why="counted, nothing loaded is added"),
        NearMiss(
            _NIBBLES_THREADS.replace("x[at / 8]", "(unsigned)at"),
            why="bits of a position",
            value="unpacked on load",
        ),
        NearMiss(casts.PLACE, why="a place becomes narrower, no value", value="downcast on store"),
        NearMiss(
            vary(_NIBBLES, (" >> 4) & 15).to(tl.float16)", " >> 4) & 15)")),
            why="no float is made",
            value="upcast on load, implicit cast on store",
        ),
        NearMiss(
            vary(
                _PAIRS,
                (
                    "__floats2bfloat162_rn(v.x * 2.f, v.y * 2.f)",
                    "*reinterpret_cast<__nv_bfloat162*>(&word)",
                ),
            ),
            why="the pairs are stored as they were loaded",
            value="upcast on load, downcast on store",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        common = [n for a in facts.loads for n in self._common(facts, a.value)]
        wide = [n for a in facts.loads for n in self._after(facts, a.value)]
        bits = _unpacked(facts) or ([] if wide else words_apart(facts))
        wide += [] if facts.of_threads else bits
        plain = [s for s in facts.stores if not s.is_atomic and facts.types.shape(s.value)]
        narrow = [n for a in plain or facts.stores for n in self._before(facts, a.value)]
        casts = [n for n in narrow if n.op.kind in CASTS]
        longest = [n for n in casts if facts.types.dtype(n.result) in _LONGEST]
        early = [] if narrow or facts.of_threads else rounded_early(facts)
        silent: list[Access] = []
        if not narrow and (wide or (not common and stores_cast(facts.kernel.dialect))):
            silent = self._silent(facts)
        parts = {
            "operands cast to a common type": common,
            "unpacked on load": bits if facts.of_threads and not wide else [],
            "upcast on load": wide,
            "downcast on store": [n for n in narrow if n not in longest],
            "downcast before the last step": early,
            "widened on store": longest,
            "implicit cast on store": []
            if narrow or early
            else silent
            if facts.of_threads
            else wide or silent,
        }
        value = ", ".join(name for name, places in parts.items() if places)
        if value:
            between = narrowing(facts).casts
            told = (common, wide, bits, between, narrow, early, silent)
            kept = floats_kept(facts) if wide and not narrow else []
            yield self.decide(facts, value, [*(n for nodes in told for n in nodes), *kept])
            return
        moved = [a for a in facts.loads if facts.types.shape(a.value) and self._stored(facts, a)]
        stores = [s for s in facts.stores if not s.is_atomic] or _added(facts)
        stores = [s for s in stores if not is_address(facts.graph, s.value)]
        above = [n for s in stores for n in facts.graph.upstream(s.value, _reads)]
        known = not any(n.op.kind == OpKind.OPAQUE for n in above)
        counted = [s for s in facts.stores if s not in stores]
        longer = known and facts.of_threads and lengthened(facts, moved, stores)
        known = known and (longer or of_one_type(facts, moved, stores))
        if moved and stores and known and (plain or not counted):
            casts = [n for n in facts.graph.of(*CASTS) if self._on_the_way(facts, n)]
            given = [n for n in casts if n.op.operand("dtype") in facts.constexprs]
            value = "cast to a type that is handed over" if given else "stay in storage dtype"
            value = "widened on store" if longer and not given else value
            yield self.decide(facts, value, [*moved, *casts, *stores])

    def _on_the_way(self, facts: Facts, cast: Node) -> bool:
        """A cast of tiles between loads and stores, to the type of another array."""
        wide = facts.types.shape(cast.result) and facts.feeding(cast.result)
        return bool(wide) and any(facts.graph.rests_on(s.value, cast) for s in facts.stores)

    def _stored(self, facts: Facts, access: Access) -> bool:
        """A load that a stored value is computed from."""
        return any(facts.graph.rests_on(s.value, access.node) for s in facts.stores)

    def _silent(self, facts: Facts) -> list[Access]:
        """Stores of 32-bit floats into arrays whose type the program does not say; those that a
        thread stores into are mostly told."""
        known = {
            p.name for p in facts.kernel.entry.parameters if p.annotation.split()[:1] == ["f32"]
        }
        return [
            a
            for a in facts.stores
            if not a.is_atomic
            and facts.types.shape(a.value)
            and facts.types.wide(a.value)
            and not (facts.of_threads and a.array in known)
        ]

    def _common(self, facts: Facts, value: str) -> list[Node]:
        """Casts of a loaded tile that a product reads, to the type of some array."""
        found, pending = [], [value]
        for current in pending:
            for user in facts.graph.users(current):
                if user.op.kind in CASTS and facts.types.dtype(user.result).startswith("dtypeof"):
                    if any(facts.graph.rests_on(p.result, user) for p in facts.contractions):
                        found.append(user)
                elif user.op.kind in VIEWS | TURNS and len(pending) < 8:
                    pending.append(user.result)
        return found

    def _after(self, facts: Facts, value: str) -> list[Node]:
        """Casts of a loaded tile to 32-bit floats, of its elements in a loop among them."""
        found, pending = [], [value]
        for current in pending:
            for user in facts.graph.users(current):
                if user.op.kind in CASTS and facts.types.wide(user.result):
                    found.append(user)
                elif len(pending) < _MOST:
                    pending += [n for n in _handed(facts, user, current) if n not in pending]
        return found

    def _before(self, facts: Facts, value: str) -> list[Node]:
        value = as_bits(facts, value)
        return self._cast(facts, value) or packed(facts, value) or _kept(facts, value)

    def _cast(self, facts: Facts, value: str) -> list[Node]:
        """The casts that hand a value on; on every side where a branch chooses the type, but those
        on which it is of the type of an array."""
        every = facts.graph.ends(value, VIEWS | TURNS)
        ends = [n for n in every if n.op.kind in CASTS]
        same = [facts.types.dtype(n.result).startswith("dtypeof") for n in every if n not in ends]
        if not all(same) or any(self._by_choice(facts, n) for n in ends):
            return []
        kinds = [(facts.types.dtype(n.op.inputs[0]), facts.types.dtype(n.result)) for n in ends]
        return [
            node
            for node, (before, after) in zip(ends, kinds, strict=True)
            if (before != after or after == UNKNOWN)
            and not _counts(facts, node, before, after)
            and facts.number(node.op.inputs[0]) is None
        ]

    def _by_choice(self, facts: Facts, cast: Node) -> bool:
        """A cast to 32-bit floats or to another type, as a flag says."""
        return facts.types.wide(cast.result) and facts.types.dtype(cast.result) != "f32"


def _kept(facts: Facts, value: str) -> list[Node]:
    """Casts to fewer bits of what a thread puts into registers, element by element or on one side
    of a branch, before it stores them."""
    found: dict[Node, None] = {}
    for current in (pending := [value] if facts.of_threads else []):
        for node in facts.graph.ends(current, VIEWS | TURNS):
            below = list(node.op.inputs) if node.op.kind in _WORDS else []
            if node.op.kind == OpKind.FOR:
                below = [*filled(facts.graph, current)]
            if node.op.kind in CASTS and facts.types.dtype(node.op.inputs[0]) == "f32":
                found.update({} if facts.types.wide(node.result) else {node: None})
            pending += [v for v in below if v not in pending][: _MOST - len(pending)]
    return list(found)


def _added(facts: Facts) -> list[Access]:
    """Of threads that store nothing else: what they add in memory and made of what they loaded."""
    return [
        a
        for a in (facts.stores if facts.of_threads else ())
        if any(facts.graph.rests_on(a.value, load.node) for load in facts.loads)
    ]


def _counts(facts: Facts, cast: Node, before: str, after: str) -> bool:
    """Of threads: a whole number that becomes a narrower one, and that no float was rounded to: an
    id or a count, no value of the problem."""
    if not facts.of_threads or not (before[:1] in _WHOLE and after[:1] in _WHOLE):
        return False
    above = facts.graph.upstream(cast.op.inputs[0], _reads)
    return not any(facts.types.dtype(r.name) in _FLOATS for n in above for r in n.op.results)


def _unpacked(facts: Facts) -> list[Node]:
    """Where a float is made of some bits of a loaded word, with the steps that take them out."""
    found: list[Node] = []
    kinds = _BITS | HELD | (_SHIFTED if facts.of_threads else frozenset())
    for cast in facts.graph.of(*CASTS, OpKind.BITCAST):
        word = facts.types.dtype(cast.op.inputs[0])
        if facts.types.dtype(cast.result) not in _FLOATS or not word.startswith(("i", "u")):
            continue
        if facts.of_threads and not facts.stored_in(cast.result):
            continue
        above = [*facts.graph.upstream(cast.op.inputs[0], lambda n: n.op.kind not in kinds)]
        bits = [n for n in above if n.op.kind in _BITS and facts.types.shape(n.result)]
        if bits and any(n.op.kind in READS for n in above):
            found += [cast, *bits]
    return found


def _handed(facts: Facts, user: Node, value: str) -> list[str]:
    """What a user of a tile makes of it: the tile seen otherwise, what a branch gives, or what a
    loop carries in its place."""
    if user.op.kind in VIEWS | _SEEN:
        return [r.name for r in user.op.results]
    if user.op.kind == OpKind.YIELD and user.parent is not None:
        return facts.graph.onward(user, value) if user.parent.op.kind == OpKind.IF else []
    if user.op.kind != OpKind.FOR or value not in facts.graph.inits(user):
        return []
    places = [i for i, init in enumerate(facts.graph.inits(user)) if init == value]
    arguments = user.op.regions[-1].arguments[1:]
    return [arguments[i].name for i in places if i < len(arguments)]


def _reads(node: Node) -> bool:
    return node.op.kind in READS

"""Arithmetic in the type that the arrays store."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import UNKNOWN, Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, COPY, ROW_NORM
from extractors.patterns.cases_rows_pointer import COPY_POINTER, SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, COPY_THREADS, STARTS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.registers import is_address
from kb.dtypes import may_be_float
from kb.evidence import Decision
from kb.ops import COMPARISONS, READS, REDUCTIONS, OpKind

_ROTATE = (
    TILE
    + """
@ct.kernel
def turn(x, y, c, s, out, T: Int):
    i = ct.bid(0)
    a = ct.load(x, index=(i,), shape=(T,))
    b = ct.load(y, index=(i,), shape=(T,))
    p = ct.load(c, index=(i,), shape=(T,))
    q = ct.load(s, index=(i,), shape=(T,))
    ct.store(out, index=(i,), tile=a * p - b * q)
"""
)
_COMPUTES = REDUCTIONS | {
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.EXP, OpKind.EXP2,
    OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.SELECT,
}  # fmt: skip


_EARLY = frozenset({OpKind.MUL, OpKind.FMA, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.ABS})
_WORDS = frozenset(
    {OpKind.BIT_AND, OpKind.BIT_OR, OpKind.BIT_XOR, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT}
)
_RANGES = frozenset({OpKind.RANGE, OpKind.STATIC_RANGE})
_INTEGERS = "integer arithmetic"
_SUMS = frozenset({OpKind.ADD, OpKind.SUB})
"""These are of pointers or places, too, where the type of the elements is open."""

_NUMBERS = frozenset({OpKind.CONST, OpKind.FULL, OpKind.ZEROS, OpKind.UNDEF})
_MOVED = "storage dtype, moved without arithmetic"
_NARROW = frozenset({"f16", "bf16", "f8e4m3", "f8e5m2"})
"""Types in which results are stored and seldom computed."""

_REPACK_THREADS = """__global__ void repack(const unsigned* x, unsigned* out) {
    unsigned v = x[blockIdx.x * 32 + threadIdx.x];
    unsigned made = 0;
    for (int i = 0; i < 8; ++i) {
        unsigned one = v & 0xF;
        made |= (one >= 8 ? one - 8 : 15 - one) << (i * 4);
        v >>= 4;
    }
    out[blockIdx.x * 32 + threadIdx.x] = made;
}
"""
_SMOOTHED_THREADS = """#include <cuda_fp16.h>
__global__ void smooth(const half* x, const half* s, unsigned char* out, float scale, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float v = __half2float(__hmul(x[at], s[threadIdx.x]));
    if (at < n) out[at] = __nv_cvt_float_to_fp8(v * scale, __NV_SATFINITE, __NV_E4M3);
}
"""
_HALVES_THREADS = """#include <cuda_fp16.h>
__global__ void plus(const half* x, const half* y, half* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at] + y[at];
}
"""


_FLOAT_STATISTICS_THREADS = """template <typename T>
__global__ void merge(const T* x, const float* f, T* out, float* both, int n) {
    int row = blockIdx.x, at = row * n + threadIdx.x;
    if (threadIdx.x < n) out[at] = x[at];
    both[at] = f[at] + f[at + n];
}
"""

_LARGER = ADD_POINTER.replace(
    "tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)", "tl.where(a > b, a, b)"
).replace(
    "    tl.store(",
    "    a = tl.load(x + at, mask=inside)\n    b = tl.load(y + at, mask=inside)\n    tl.store(",
)
_BESIDE_WIDE = vary(
    ADD_POINTER,
    ("    tl.store(", "    w = tl.load(x + at, mask=inside).to(tl.float32)\n"
     "    tl.store(y + at, tl.exp(w), mask=inside)\n    tl.store("),
)  # fmt: skip
_AS_STORED = vary(SOFTMAX_POINTER, (".to(tl.float32)", ""), ("y.to(x.dtype.element_ty)", "y"))


class StoragePrecision(Pattern):
    """Between loads and some store there is arithmetic in the type of the arrays; no cast to
    another, no matrix product, which widens by itself; or what is loaded is stored as it is."""

    name = "compute-in-storage-precision"
    axis = "compute_dtype"
    source = "tilelore catalogue, P69; Micikevicius et al., Mixed Precision Training (2018)"
    matches = (
        Case(_ROTATE, "storage dtype"),
        Case(ADD_POINTER, "storage dtype"),
        Case(_AS_STORED, "storage dtype"),
        Case(_BESIDE_WIDE, "storage dtype"),
        Case(_LARGER, "storage dtype"),
        Case(_HALVES_THREADS, "storage dtype"),
        Case(ADD_THREADS, "storage dtype"),
        Case(_SMOOTHED_THREADS, "storage dtype"),
        Case(_REPACK_THREADS, _INTEGERS),
        Case(COPY, _MOVED),
        Case(COPY_POINTER, _MOVED),
        Case(COPY_THREADS, _MOVED),
    )
    near_misses = (
        NearMiss(STARTS, why="addresses are stored, no values"),
        NearMiss(COPY, why="nothing is computed", value="storage dtype"),
        NearMiss(vary(COPY_POINTER, ("tl.load(", "1 + tl.load(")), why="computed", value=_MOVED),
        NearMiss(_LARGER.replace("a > b", "at > 7"), why="places are chosen, nothing is computed"),
        NearMiss(ROW_NORM, why="rows are widened right after the load"),
        NearMiss(PRODUCT, why="the product widens by itself"),
        NearMiss(COPY_POINTER, why="nothing is computed", value="storage dtype"),
        NearMiss(COPY_THREADS, why="nothing is computed", value="storage dtype"),
        NearMiss(_REPACK_THREADS.replace("= made", "= made * 2.f"), why="floats", value=_INTEGERS),
        NearMiss(
            _SMOOTHED_THREADS.replace("__hmul(x[at], s[threadIdx.x])", "x[at]"),
            why="widened as it was loaded",
        ),
        NearMiss(_FLOAT_STATISTICS_THREADS, why="statistics are kept wider than the rows are"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions:
            return
        whole = [s for s in facts.stores if not s.is_atomic]
        added = [s for s in facts.stores if s.node.op.kind == OpKind.ATOMIC_ADD]
        kept = whole or (added if facts.of_threads else [])
        kept = [s for s in kept if not is_address(facts.graph, s.value)]
        stores = [s for s in kept if not _cast_up(facts, s)]
        steps = [n for s in stores for n in self._steps(facts, s.value)]
        plain = [n for n in steps if self._computes(facts, n) or self._chooses(facts, n)]
        if plain:
            casts = [n for n in facts.graph.of(*CASTS) if self._matches(facts, n, plain)]
            yield self.decide(facts, "storage dtype", dict.fromkeys([*casts, *plain]))
        elif moved := self._moved(facts):
            yield self.decide(facts, _MOVED, moved)
        elif early := _before_widening(facts):
            yield self.decide(facts, "storage dtype", early)
        elif bits := _of_bits(facts, whole):
            yield self.decide(facts, _INTEGERS, bits)

    def _moved(self, facts: Facts) -> list[Access]:
        """Loads of lanes and stores, where every store is given what was loaded, or a number, and
        nothing that is loaded is computed with or cast."""
        found: list[Access] = []
        for store in facts.stores:
            ends = facts.graph.ends(store.value, VIEWS | {OpKind.PERMUTE, OpKind.TRANSPOSE})
            loads = [a for n in ends if (a := facts.access(n)) is not None and not a.is_store]
            rest = [n for n in ends if facts.access(n) is None and n.op.kind not in _NUMBERS]
            if store.is_atomic or rest:
                return []
            found += [*loads, store] if loads else []
        return list(dict.fromkeys(found))

    def _chooses(self, facts: Facts, node: Node) -> bool:
        """The larger or smaller of two tiles of the arrays' type, one of them just loaded."""
        test = facts.graph.producer(node.op.operand("condition"))
        if node.op.kind != OpKind.SELECT or test is None or test.op.kind not in COMPARISONS:
            return False
        tiles = [node.op.operand("x"), node.op.operand("y")]
        return set(tiles) == set(test.op.inputs[:2]) and any(
            v is not None and _narrow(facts, v) and _loaded(facts, v) for v in tiles
        )

    def _matches(self, facts: Facts, cast: Node, steps: list[Node]) -> bool:
        """A loaded tile that is cast to the type of another array, in which it is computed with."""
        stored = _narrow(facts, cast.result) and bool(facts.types.shape(cast.result))
        loaded = stored and bool(facts.held_loads(cast.op.inputs[0]))
        return loaded and any(facts.graph.rests_on(n.result, cast) for n in steps)

    def _steps(self, facts: Facts, value: str) -> list[Node]:
        """Arithmetic on tiles between the loads and a stored value."""
        above = facts.graph.upstream(value, lambda n: n.op.kind in READS)
        return [
            n
            for n in above
            if n.op.kind in _COMPUTES
            and any(facts.types.shape(v) for v in n.op.inputs[:2])
            and facts.feeding(n.result)
        ]

    def _computes(self, facts: Facts, node: Node) -> bool:
        """Arithmetic, no choice, whose result has the type of an array, or that takes a loaded tile
        in and no other tile of 32 bits."""
        if node.op.kind == OpKind.SELECT:
            return False
        if _narrow(facts, node.result) or _as_stored(facts, node.result):
            return True
        tiles = [v for v in node.op.inputs[:2] if facts.types.shape(v)]
        return all(_narrow(facts, v) for v in tiles) and any(_loaded(facts, v) for v in tiles)


def _of_bits(facts: Facts, stores: list[Access]) -> list[Node]:
    """Of threads: shifts and masks of loaded words, where whole numbers are all that is stored."""
    found: dict[Node, None] = {}
    for store in stores if facts.of_threads else ():
        above = [*facts.graph.upstream(store.value, lambda n: n.op.kind in READS)]
        made = [n for n in above if n.result and n.op.kind not in _NUMBERS | _RANGES]
        kinds = [facts.types.dtype(n.result) for n in made]
        if any(not kind.startswith(("i", "u")) for kind in kinds):
            return []
        found |= {n: None for n in above if n.op.kind in _WORDS and facts.feeding(n.result)}
    return [*found]


def _before_widening(facts: Facts) -> list[Node]:
    """Of threads: arithmetic on what was loaded in its own narrow type, before it is widened."""
    if not facts.of_threads:
        return []
    loaded = {facts.types.dtype(a.value) for a in facts.loads}
    steps = facts.graph.of(*_EARLY, *_SUMS)
    narrow = [n for n in steps if n.result and _narrow(facts, n.result)]
    narrow = [n for n in narrow if facts.types.dtype(n.result) in loaded]
    floats = [n for n in narrow if n.op.kind in _EARLY or facts.types.dtype(n.result) in _NARROW]
    fed = [n for n in floats if facts.feeding(n.result) and not _cast_to(facts, n)]
    if not fed:
        return []
    values = [s.value for s in facts.stores if s.value is not None]
    stored = {n for v in values for n in facts.graph.upstream(v, lambda n: n.op.kind in READS)}
    return [n for n in fed if n in stored]


def _cast_to(facts: Facts, node: Node) -> bool:
    """Whether what is computed with was cast to its type after it was loaded."""
    dtype = facts.types.dtype(node.result)
    above = facts.graph.upstream(node.result, lambda n: n.op.kind in READS)
    return any(n.op.kind in CASTS and facts.types.dtype(n.result) == dtype for n in above)


def _reaches(facts: Facts, node: Node, values: Iterable[str | None]) -> bool:
    return any(facts.graph.rests_on(value, node) for value in values)


def _cast_up(facts: Facts, store: Access) -> bool:
    """True when something is cast to another type than that of an array before it is stored."""
    above = facts.graph.upstream(store.value, lambda n: n.op.kind in READS)
    casts = [n for n in above if n.op.kind in CASTS and facts.feeding(n.result)]
    floats = [n for n in casts if facts.types.dtype(n.result).startswith(("f", "bf", UNKNOWN))]
    return any(not _narrow(facts, n.result) for n in floats)


def _narrow(facts: Facts, value: str) -> bool:
    dtype = facts.types.dtype(value)
    return not facts.types.wide(value) and (dtype.startswith("dtypeof") or dtype in _NARROW)


def _as_stored(facts: Facts, value: str) -> bool:
    """Whether every pointer of the kernel says that what lies behind it is of this type of
    float."""
    kinds = {facts.types.dtype(access.value) for access in facts.accesses}
    floats = {kind for kind in kinds if may_be_float(kind)}
    return facts.of_threads and floats == {facts.types.dtype(value)}


def _loaded(facts: Facts, value: str) -> bool:
    return facts.graph.kind_of(facts.graph.through(value, VIEWS)) in READS

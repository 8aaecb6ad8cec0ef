"""Where a value is rounded to the storage type relative to a multiplication."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extractors.patterns.base import UNKNOWN, Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from extractors.patterns.cases_vectors import ADDED_WIDE, ADDED_WIDE_PAIRS
from kb.analysis.accesses import Access
from kb.analysis.derivatives import differentiated, logistic
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, TURNS, VIEWS, Node
from kb.analysis.idioms import is_wide
from kb.analysis.narrowing import round_trips
from kb.analysis.normalisations import normalisations
from kb.dialects.registry import stores_cast
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, REDUCTIONS, OpKind

_GATE = (
    POINTER
    + """
@triton.jit
def gate(x, y, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    w = tl.load(y + at, mask=at < n)
    tl.store(out + at, (v * tl.sigmoid(v)).to(w.dtype) * w, mask=at < n)
"""
)


_ROUNDED_THREADS = vary(
    ROW_NORM_THREADS, ("__float2half(v * r * g)", "__hmul(__float2half(v * r), w[at])")
)
_BIASED_PAIRS = vary(
    ROW_NORM_THREADS,
    ("out[row * n + at] = __float2half(v * r * g)",
     "((half2*)out)[row * n + at] = __hadd2(__halves2half2(__float2half(v * r * g), "
     "__float2half(v * r)), ((const half2*)w)[at])"),
)  # fmt: skip
_OWN_TYPE_THREADS = """template <typename S, typename C>
__global__ void scale(const S* x, const S* y, S* out, int n, float by) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    C v = C(x[at]), w = C(y[at]);
    v = C(v * by);
    out[at] = S(v * w);
}
"""
_FUNCTIONS = frozenset({
    OpKind.EXP, OpKind.EXP2, OpKind.SIGMOID, OpKind.TANH, OpKind.ERF, OpKind.MAXIMUM,
})  # fmt: skip
_STEPS = _FUNCTIONS | REDUCTIONS | {
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.ABS, OpKind.MINIMUM,
}  # fmt: skip
_ACTED = vary(
    PRODUCT_POINTER,
    ("    tl.store(out +", "    acc = acc.to(tl.float16)\n"
     "    acc = acc * tl.sigmoid(acc.to(tl.float32))\n    tl.store(out +"),
)  # fmt: skip
_ADDED = vary(
    _ACTED,
    ("acc = acc.to(tl.float16)", "acc = (acc + tl.dot(y, x)).to(tl.float16)"),
)
_ACTED_TILE = vary(
    PRODUCT,
    ("    ct.store(out,", "    acc = ct.maximum(ct.astype(acc, a.dtype), 0.0)\n    ct.store(out,"),
)


_LARGEST = vary(
    _GATE,
    ("* w, mask=at < n)", "- tl.max(w), mask=at < n)"),
)
_LARGEST_TILE = vary(
    ROW_NORM, ("ct.astype(v * r * g, x.dtype)", "ct.abs(ct.astype(v * r * g, x.dtype))")
)


_WIDE_GATE = vary(
    _GATE,
    ("(v * tl.sigmoid(v)).to(w.dtype) * w", "(v * tl.sigmoid(v) * w.to(tl.float32)).to(w.dtype)"),
)
_STEPS_WIDE = (OpKind.MUL, OpKind.DIV, OpKind.ADD, OpKind.SUB, OpKind.FMA)
_GOES_ON = VIEWS | CASTS | {OpKind.VECTOR}
_TO_THE_END = "fp32 to the end"


class RoundingPoint(Pattern):
    """A computed 32-bit value is narrowed, and the narrowed value is multiplied by a loaded one or
    goes through another step; or a finished product is narrowed, and a function takes it before it
    is stored. Or a normalised row meets its weight, an activation its gate, in 32 bits."""

    name = "rounding-point-selection"
    axis = "intermediate_dtype"
    source = "tilelore catalogue, P68; Micikevicius et al., Mixed Precision Training (2018)"
    matches = (
        Case(_GATE, "rounded before the multiplication"),
        Case(
            vary(ROW_NORM, ("ct.astype(v * r * g, x.dtype)", "ct.astype(v * r, x.dtype) * g")),
            "rounded before the multiplication",
        ),
        Case(_ROUNDED_THREADS, "rounded before the multiplication"),
        Case(_LARGEST, "rounded before the next step"),
        Case(_LARGEST_TILE, "rounded before the next step"),
        Case(_BIASED_PAIRS, "rounded before the next step"),
        Case(_ACTED, "rounded before the activation"),
        Case(_ADDED, "rounded before the activation"),
        Case(_ACTED_TILE, "rounded before the activation"),
        Case(ROW_NORM, _TO_THE_END),
        Case(_WIDE_GATE, _TO_THE_END),
        Case(ROW_NORM_THREADS, _TO_THE_END),
        Case(ADDED_WIDE, _TO_THE_END),
        Case(ADDED_WIDE_PAIRS, _TO_THE_END),
    )
    near_misses = (
        NearMiss(_GATE, why="the activation is rounded first", value=_TO_THE_END),
        NearMiss(
            vary(_WIDE_GATE, (" * w.to(tl.float32)).to", ").to")),
            why="the activation meets nothing",
        ),
        NearMiss(
            vary(
                _WIDE_GATE,
                ("    tl.store(out", "    s = tl.sigmoid(v)\n    tl.store(out"),
                ("v * tl.sigmoid(v) * w", "s * (1 - s) * w"),
            ),
            why="a backward pass",
        ),
        NearMiss(
            ROW_NORM,
            why="the product is rounded once, right before the store",
            value="rounded before the multiplication",
        ),
        NearMiss(
            vary(_LARGEST, ("(v * tl.sigmoid(v)).to(w.dtype)", "(v * tl.sigmoid(v))")),
            why="32 bits go on into the next step",
        ),
        NearMiss(PRODUCT, why="the sum is rounded right before the store"),
        NearMiss(ADD_POINTER, why="nothing is rounded"),
        NearMiss(ATTENTION, why="scores go on in 32 bits, probabilities into a product"),
        NearMiss(
            vary(_ACTED, ("    acc = acc.to(tl.float16)\n", "")),
            why="the function takes 32 bits, what it gives is rounded",
        ),
        NearMiss(
            ROW_NORM_THREADS,
            why="the product is rounded once, right before the store",
            value="rounded before the multiplication",
        ),
        NearMiss(vary(ADDED_WIDE, ("half*", "float*")), why="nothing is short"),
        NearMiss(
            vary(ADDED_WIDE, ("__half2float(a[i])", "__half2float(__hmul(a[i], a[i]))")),
            why="a product in 16 bits goes on",
        ),
        NearMiss(
            vary(ADDED_WIDE, ("__half2float(b[i])", "2.f")), why="one array alone, nothing to meet"
        ),
        NearMiss(_OWN_TYPE_THREADS, why="what is loaded is cast to the type that is computed in"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions:
            yield from self._of_products(facts)
            return
        casts = facts.graph.of(*CASTS)
        own = _own_types(facts, casts) if facts.of_threads else set()
        again = {trip.cast for trip in round_trips(facts)}
        rounded = [n for n in casts if facts.types.dtype(n.result) not in own
                   and n not in again and self._narrows(facts, n)]  # fmt: skip
        found = [n for n in rounded if self._multiplied(facts, n)]
        if found:
            yield self.decide(facts, "rounded before the multiplication", found)
        onward = [n for n in rounded if n not in found and self._computed_on(facts, n)]
        if onward:
            yield self.decide(facts, "rounded before the next step", onward)
        if (
            not found
            and not onward
            and not again
            and (kept := _met_wide(facts) or _stay_wide(facts))
        ):
            yield self.decide(facts, _TO_THE_END, kept)

    def _computed_on(self, facts: Facts, cast: Node) -> bool:
        """What was rounded is reduced, or goes through more arithmetic, before it is stored."""
        pending = [cast.result]
        for value in pending:
            for user in facts.graph.users(value):
                if user.kind in _STEPS and facts.stored_in(user.result):
                    return True
                if user.kind in _GOES_ON and len(pending) < 16:
                    pending.append(user.result)
        return False

    def _of_products(self, facts: Facts) -> Iterable[Decision]:
        """Casts of a finished product that goes through a function before it is stored, with those
        of the function's result that is multiplied on."""
        graph = facts.graph
        casts = [n for n in graph.of(*CASTS) if graph.roots(n.result, *CONTRACTIONS)]
        first = [n for n in casts if self._finished(facts, n) and self._goes_on(facts, n)]
        if first:
            later = [n for n in casts if self._narrows(facts, n) and self._multiplied(facts, n)]
            after = [n for n in later if any(graph.rests_on(n.result, f) for f in first)]
            yield self.decide(
                facts, "rounded before the activation", dict.fromkeys([*first, *after])
            )

    def _finished(self, facts: Facts, cast: Node) -> bool:
        """A product, or the sum of products that a loop gave, cast to less than 32 bits."""
        if facts.types.wide(cast.result) or not self._short(facts, cast.result):
            return False
        ends = facts.graph.ends(cast.op.inputs[0], VIEWS | TURNS)
        for end in ends:
            if end.op.kind == OpKind.ADD:
                ends += [n for v in end.op.inputs[:2] for n in facts.graph.ends(v, VIEWS | TURNS)]
        ends = [n for n in ends if n.op.kind != OpKind.ADD]
        return bool(ends) and all(n.op.kind in CONTRACTIONS | LOOPS for n in ends)

    def _goes_on(self, facts: Facts, cast: Node) -> bool:
        """What was cast is taken by a function, and no other product is made of it."""
        if any(facts.graph.rests_on(p.result, cast) for p in facts.contractions):
            return False
        pending = [cast.result]
        for value in pending:
            for user in facts.graph.users(value):
                if user.op.kind in _FUNCTIONS and facts.stored_in(user.result):
                    return True
                if user.op.kind in VIEWS | CASTS | {OpKind.NEG} and len(pending) < 16:
                    pending.append(user.result)
        return False

    def _short(self, facts: Facts, value: str) -> bool:
        dtype = facts.types.dtype(value)
        return dtype.startswith("dtypeof") or dtype in ("f16", "bf16")

    def _narrows(self, facts: Facts, node: Node) -> bool:
        """A cast of an arithmetic result to less than 32 bits or to the type of an array."""
        core = facts.graph.producer(facts.graph.through(node.op.inputs[0], VIEWS))
        if core is None or core.op.kind not in (OpKind.MUL, OpKind.DIV, OpKind.ADD, OpKind.FMA):
            return False
        if facts.types.dtype(core.result).startswith(("i", "u")):
            return False
        dtypes = [facts.types.dtype(node.result), *self._asked(facts, node)]
        return any(d.startswith("dtypeof") or d in ("f16", "bf16", UNKNOWN) for d in dtypes)

    def _asked(self, facts: Facts, cast: Node) -> list[str]:
        """Types of the two sides of a branch, where the type of what it gives is cast to."""
        asked = facts.graph.producer(cast.op.operand("dtype"))
        if asked is None or asked.kind != OpKind.DTYPE_OF:
            return []
        ends = facts.graph.ends(asked.op.inputs[0], VIEWS)
        return [facts.types.dtype(end.result) for end in ends] if len(ends) > 1 else []

    def _multiplied(self, facts: Facts, node: Node) -> bool:
        """The narrowed value, perhaps chosen by a branch, is a factor beside a load."""
        pending = [node.result]
        for value in pending[:]:
            for user in facts.graph.downstream(value, 12):
                if user.op.kind != OpKind.MUL or not facts.graph.rests_on(user.result, node):
                    continue
                others = [v for v in user.op.inputs[:2] if not facts.graph.rests_on(v, node)]
                if any(facts.feeding(v) for v in others):
                    return True
        return False


def _met_wide(facts: Facts) -> list[Node | Access]:
    """Products of a normalised row and its weight, or of an activation and its gate, all in 32-bit
    floats, and the stores that round what is made of them."""
    roots = [norm.root for norm in normalisations(facts) if norm.sums]
    curves = facts.graph.of(OpKind.SIGMOID, OpKind.TANH, OpKind.ERF)
    curves += [n for n in facts.graph.of(OpKind.DIV) if logistic(facts, n)]
    if not (roots or curves) or differentiated(facts):
        return []
    met = [
        n
        for n in facts.graph.of(OpKind.MUL)
        if _meets(facts, n, roots, lambda a: a.array) or _meets(facts, n, curves, lambda a: a.node)
    ]
    stores = [
        store
        for store in facts.stores
        if any(facts.graph.rests_on(store.value, n) for n in met) and _rounds(facts, store)
    ]
    return [*met, *stores] if stores else []


def _stay_wide(facts: Facts) -> list[Node | Access]:
    """What threads compute in 32-bit floats with short numbers of several arrays, element by
    element, and where it is rounded to be stored."""
    if not facts.of_threads or facts.reductions:
        return []
    casts = facts.graph.of(*CASTS)
    wide = [n for n in casts if facts.types.dtype(n.result) == "f32"]
    if any(_short_steps(facts, n) for n in wide):
        return []
    short = {a.array for n in wide for a in facts.feeding(n.op.inputs[0])} - {None}
    steps = [
        n
        for n in (facts.graph.of(*_STEPS_WIDE) if len(short) > 1 else ())
        if facts.types.dtype(n.result) == "f32" and _of_several(facts, n, short)
    ]
    made = facts.graph.node_set(steps)
    rounded = [
        n
        for n in casts
        if facts.types.dtype(n.op.inputs[0]) == "f32"
        and facts.types.dtype(n.result) in ("f16", "bf16")
        and facts.graph.rests_on_any(n.result, made)
        and facts.stored_in(n.result)
    ]
    stores = [
        store
        for store in facts.stores
        if facts.graph.rests_on_any(store.value, made) and _rounds(facts, store)
    ]
    return [*steps, *rounded, *stores] if stores or rounded else []


def _short_steps(facts: Facts, cast: Node) -> bool:
    """Whether what is widened was computed in a shorter type before, or by a loop."""
    above = [*facts.graph.upstream(cast.op.inputs[0], lambda n: n.op.kind in READS)]
    if any(n.op.kind in LOOPS for n in above):
        return True
    steps = [n for n in above if n.op.kind in _STEPS_WIDE]
    return any(not facts.types.dtype(n.result).startswith(("f32", "f64", "i", "u")) for n in steps)


def _of_several(facts: Facts, node: Node, short: set[str | None]) -> bool:
    sides = [{a.array for a in facts.feeding(v)} & short for v in node.op.inputs[:2]]
    return len(sides) == 2 and all(sides) and len(sides[0] | sides[1]) > 1


def _meets(
    facts: Facts, product: Node, starts: list[Node], source: Callable[[Access], object]
) -> bool:
    """A product of what one of the functions gave and of a loaded tile of another source."""
    if not is_wide(facts, product.result) or facts.types.dtype(product.result) != "f32":
        return False
    for one, other in (product.op.inputs[:2], product.op.inputs[1::-1]):
        took = {source(a) for a in facts.feeding(one)}
        if not any(facts.graph.rests_on(other, s) for s in starts):
            own = {source(a) for a in facts.feeding(other) if facts.types.shape(a.value)}
            if own - took and any(facts.graph.rests_on(one, s) for s in starts):
                return True
    return False


def _rounds(facts: Facts, store: Access) -> bool:
    """A cast right before a store, or a store that casts by itself."""
    if store.is_atomic or not is_wide(facts, store.value):
        return False
    ends = facts.graph.ends(store.value, VIEWS | TURNS)
    if any(n.op.kind in CASTS and not facts.types.wide(n.result) for n in ends):
        return True
    return facts.types.dtype(store.value) == "f32" and stores_cast(facts.kernel.dialect)


def _own_types(facts: Facts, casts: list[Node]) -> set[str]:
    """Types that only an instantiation tells and that loaded elements of another type are cast to:
    those that a thread computes in, from its loads on."""
    given = {p.annotation.partition(" ")[0] for p in facts.kernel.entry.parameters}
    found = {
        facts.types.dtype(n.result)
        for n in casts
        if facts.types.dtype(n.op.inputs[0]) != facts.types.dtype(n.result)
        and facts.held_loads(n.op.inputs[0])
    }
    return {dtype for dtype in found if dtype.startswith("dtypeof")} - given

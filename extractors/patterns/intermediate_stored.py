"""What a kernel stores of the way to its output: another store takes it further."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS
from extractors.patterns.random_source import DRAWS
from extractors.patterns.side_output import width
from extractors.patterns.stored_scale import divided_by_largest, kept_scales
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, TURNS, VIEWS, Node
from kb.analysis.register_rows import filled
from kb.analysis.symbolic import Atom, AtomKind
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

_RESIDUAL = vary(
    LAYER_NORM_POINTER,
    ("(y, sy, x, sx,", "(y, sy, x, sx, z, kept,"),
    (
        "    mean = ",
        "    v += tl.load(z + row * sx + at, mask=inside, other=0.0)\n"
        "    tl.store(kept + row * sx + at, v, mask=inside)\n    mean = ",
    ),
)
_RESIDUAL_TILE = vary(
    ROW_NORM,
    ("norm(x, w,", "norm(x, z, kept, w,"),
    (
        "    r = ct",
        "    v = v + ct.gather(z, (row, at), check_bounds=inside)\n"
        "    ct.scatter(kept, (row, at), v)\n    r = ct",
    ),
)
_RESIDUAL_THREADS = vary(
    LAYER_NORM_THREADS,
    ("const half* x,", "const half* x, const half* z, half* kept,"),
    (
        "    float mean = ",
        "    v += inside ? __half2float(z[row * n + at]) : 0.f;\n"
        "    if (inside) kept[row * n + at] = __float2half(v);\n    float mean = ",
    ),
)
_TWICE = vary(
    _RESIDUAL,
    ("(y, sy, x, sx,", "(y, y2, sy, x, sx,"),
    ("    tl.store(y + row", "    tl.store(y2 + row * sy + at, (c * r * h).to(tl.float16), mask=inside)\n    tl.store(y + row"),  # noqa: E501
)  # fmt: skip
_GATED = vary(
    PRODUCT_POINTER,
    ("def product(a, b, out,", "def product(a, b, kept, out,"),
    (
        "    tl.store(out +",
        "    tl.store(kept + m[:, None] * N + n[None, :], acc)\n"
        "    acc = acc * tl.sigmoid(acc)\n    tl.store(out +",
    ),
)
_LOSS = (
    POINTER
    + """
@triton.jit
def loss(x, y, lse, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=float("-inf"))
    top = tl.max(v, axis=0)
    l = top + tl.log(tl.sum(tl.exp(v - top), axis=0))
    tl.store(lse + row, l)
    tl.store(out + row, l - tl.load(x + row * n + tl.load(y + row)))
"""
)
_BOTH = (
    POINTER
    + """
@triton.jit
def moments(x, one, two, n, T: tl.constexpr):
    at = tl.arange(0, T)
    u = tl.zeros([T], tl.float32)
    v = tl.zeros([T], tl.float32)
    for i in range(0, n):
        w = tl.load(x + i * T + at)
        u += w
        v += w * w
    tl.store(one + at, v)
    tl.store(two + at, u * 0.5)
"""
)
_RUNNING = (
    POINTER
    + """
@triton.jit
def running(x, a, kept, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.exp(tl.load(x + at, mask=at < n, other=0.0))
    tl.store(kept + at, v, mask=at < n)
    tl.store(out + at, tl.cumsum(v * tl.load(a + at), axis=0), mask=at < n)
"""
)
_MIXES = REDUCTIONS | CONTRACTIONS | LOOPS | {OpKind.SORT}
_SAME = TURNS | VIEWS | CASTS | {OpKind.VECTOR, OpKind.BITCAST}


class IntermediateStored(Pattern):
    """A value is stored, and what is computed from it is stored in another array, element by
    element or by a scan; all arrays as wide lead to one, or to all those that are the last."""

    name = "intermediate-stored-beside-the-output"
    axis = "side_output"
    source = "Hsu et al., Liger Kernel (2024), fused residual addition: the sum is an output, too"
    matches = (
        Case(_RESIDUAL, "sum with the residual"),
        Case(_RESIDUAL_TILE, "sum with the residual"),
        Case(_RESIDUAL_THREADS),
        Case(vary(_RESIDUAL, ("tl.store(kept +", "tl.store(z +")), "sum with the residual"),
        Case(_TWICE, "sum with the residual"),
        Case(_GATED, "intermediate result"),
        Case(_LOSS, "log-sum-exp"),
        Case(_RUNNING, "intermediate result"),
    )
    near_misses = (
        NearMiss(LAYER_NORM_POINTER, why="the statistics are narrower than the row"),
        NearMiss(LAYER_NORM_THREADS, why="the statistics are narrower than the row"),
        NearMiss(ADD_POINTER, why="one array is stored"),
        NearMiss(_BOTH, why="two sums of one loop: neither is made of the other"),
        NearMiss(
            vary(_TWICE, ("(c * r * h).to(tl.float16)", "tl.cos(g)")),
            why="one output is not made of it",
        ),
        NearMiss(
            vary(_RUNNING, ("tl.cumsum(v * tl.load(a + at), axis=0)", "tl.sum(v) + 0.0 * at")),
            why="a sum over all of the elements",
        ),
        NearMiss(PRODUCT, why="one array is stored"),
        NearMiss(
            vary(_GATED, ("tl.store(kept +", "tl.store(a +")),
            why="the product takes the place of what is read in every round",
        ),
        NearMiss(
            vary(_GATED, ("    acc = acc * tl.sigmoid(acc)\n", "")),
            why="the same value is stored twice",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        read = _read_again(facts)
        plain = [s for s in facts.stores if not s.is_atomic and s.array not in read | {None}]
        if len({s.array for s in plain}) < 2:
            return
        widest = max(width(facts, s) for s in plain)
        scales = kept_scales(facts, divided_by_largest(facts))
        plain = [s for s in plain if width(facts, s) == widest and s not in scales]
        kept = [s for s in plain if any(self._onward(facts, s, other) for other in plain)]
        last = {s.array for s in plain} - {s.array for s in kept}
        found: dict[str, list[Where]] = {}
        if len(last) > 1:
            ends = [s for s in plain if s.array in last]
            kept = [
                s for s in kept if {o.array for o in ends if self._onward(facts, s, o)} == last
            ]  # fmt: skip
        for store in kept:
            made = [
                n for n in facts.graph.ends(store.value, _SAME)
                if facts.access(n) is None and n.op.kind != OpKind.UNDEF
            ]  # fmt: skip
            if made and (facts.feeding(store.value) or facts.graph.roots(store.value, *DRAWS)):
                steps = [n for n in made if not n.op.regions]
                found.setdefault(_called(facts, made), []).extend((*steps, store))
        for value, where in found.items():
            yield self.decide(facts, value, where)

    def _onward(self, facts: Facts, store: Access, other: Access) -> bool:
        """True when another array is given what is computed from a stored value, not in turns."""
        if other.array == store.array or store.node.excludes(other.node):
            return False
        if facts.of_threads and _place(facts, store) and not _place(facts, other):
            return False  # Where an element was found, and no element.
        if facts.of_threads and not _lanes(store) <= _lanes(other):
            return False  # One number of what many threads store: no element of it.
        one, two = ({*_made(facts, s), facts.graph.through(s.value, _SAME)} for s in (store, other))
        return (
            one.isdisjoint(two) and _elementwise(facts, two, one)
            and not _elementwise(facts, one, two)
        )  # fmt: skip


def _read_again(facts: Facts) -> set[str | None]:
    """Arrays that are read; of rows that are reduced, those that are read behind what is stored in
    them: before it, a row is only updated."""
    if not facts.reductions:
        return {a.array for a in facts.loads}
    first = {s.array: s.node.index for s in reversed(facts.stores)}
    return {a.array for a in facts.loads if a.node.index > first.get(a.array, -1)} & {*first}


def _place(facts: Facts, store: Access) -> bool:
    """Whether a whole number is stored that no number with a point was rounded to."""
    made = facts.graph.through(store.value or "", CASTS)
    return facts.types.dtype(made or "").startswith(("i", "u"))


def _lanes(store: Access) -> set[Atom]:
    return {a for i in store.index for a in i.atoms() if a.kind is AtomKind.LANE}


def _made(facts: Facts, store: Access) -> list[str]:
    """What a store is given, on every side of a branch; what was never written is nothing, and of
    a loop that gives several values the one that is stored is known by its name alone."""
    ends = (n for n in facts.graph.ends(store.value, _SAME) if len(n.op.results) == 1)
    return [n.result for n in ends if n.op.kind not in (OpKind.UNDEF, OpKind.CONST)]


def _called(facts: Facts, made: list[Node]) -> str:
    """What is stored, by the operations that may make it."""
    sums = [node.op.inputs[:2] for node in made if node.op.kind == OpKind.ADD]
    if any(facts.held_loads(one) and facts.held_loads(other) for one, other in sums):
        return "sum with the residual"
    kinds = {facts.graph.kind_of(facts.graph.core(v)) for sides in sums for v in sides}
    kinds |= {node.op.kind for node in made}
    return "log-sum-exp" if kinds & {OpKind.LOG, OpKind.LOG2} else "intermediate result"


def _elementwise(
    facts: Facts, values: set[str | None], on: set[str | None], limit: int = 2000
) -> bool:
    """True when values are computed from others, element by element, in one round."""
    seen = {value for value in values if value is not None}
    pending = list(seen)
    for current in pending:
        if current in on:
            return True
        if len(seen) > limit:
            return False
        node = facts.graph.producer(current)
        carried = node is None and current in facts.graph.arguments
        feeds = facts.graph.feeds(current)
        if facts.of_threads and node is not None and node.op.kind == OpKind.FOR:
            feeds = filled(facts.graph, current)
        elif carried or (node is not None and (node.op.kind in _MIXES or facts.access(node))):
            continue
        new = [feed for feed in feeds if feed not in seen]
        seen.update(new)
        pending += new
    return False

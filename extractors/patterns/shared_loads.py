"""One load for several uses, or a second load of an element that a first one brought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from extractors.patterns.arrays_alike import ROTATED, ROTATED_TILE, UNDER_BRANCHES, alike
from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_kept import MIXED
from extractors.patterns.cases_rows import ADD_POINTER, SOFTMAX_CHUNKS
from extractors.patterns.cases_rows_pointer import DELTA
from extractors.patterns.cases_threads import TURNED_THREADS
from extractors.patterns.dual_orientation import both_ways
from extractors.patterns.product_summed import GEMV, GEMV_TILE, OUTER, OUTER_TILE
from kb.analysis.accesses import Access
from kb.analysis.derivatives import differentiated
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, VIEWS, Node
from kb.analysis.lane_products import outer_products, products_summed
from kb.analysis.made_once import made_once
from kb.analysis.symbolic import AtomKind, add, of, sub
from kb.evidence import Decision
from kb.ops import COMPARISONS, CONTRACTIONS, READS, REDUCTIONS, OpKind

_SPREADING = VIEWS | CASTS | {OpKind.BROADCAST_TO}
_FACTORS = frozenset({OpKind.MUL, OpKind.FMA})
_STOPS = READS | COMPARISONS | CONTRACTIONS | REDUCTIONS | {OpKind.ATTRIBUTE}
_AGAIN = "one element loaded again"
_PRODUCTS = "load once, use in several products"
_BESIDE = "load once, use in a product and beside it"
STORED = "load once, store several times"
_BROADCAST = "load once, for all rows of a tile"
_ALIKE = "load once, for several arrays"
_PARTNER = "elements of the other half loaded again"

_LABEL = (
    POINTER
    + """
@triton.jit
def loss(x, names, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    own = tl.load(x + row * n + tl.load(names + row))
    tl.store(out + row, tl.log(tl.sum(tl.exp(v), axis=0)) - own)
"""
)
_GATED = (
    TILE
    + """
@ct.kernel
def gated(a, b, c, out, T: Int):
    m = ct.bid(0)
    x = ct.load(a, index=(m, 0), shape=(T, T))
    zero = ct.full((T, T), 0.0, dtype=ct.float32)
    u = ct.mma(x, ct.load(b, index=(0, 0), shape=(T, T)), zero)
    v = ct.mma(x, ct.load(c, index=(0, 0), shape=(T, T)), zero)
    ct.store(out, index=(m, 0), tile=ct.astype(u * v, out.dtype))
"""
)
_SKIP = vary(
    _GATED,
    ("    v = ct.mma(x, ct.load(c, index=(0, 0), shape=(T, T)), zero)\n", ""),
    ("u * v", "u + x"),
)
_SUMMED = vary(_SKIP, ("u + x", "u * ct.rsqrt(ct.sum(x * x, axis=1, keepdims=True))"))
_CHOSEN = vary(
    PRODUCT,
    (
        "        acc = ct.mma(x, y, acc)\n",
        "        if TK == 64:\n            acc = ct.mma(x, y, acc)\n        else:\n"
        "            acc = ct.mma(x, y * 2, acc)\n",
    ),
)
_SPREAD = (
    POINTER
    + """
@triton.jit
def spread(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at)
    for i in range(n):
        tl.store(out + i * T + at, v)
"""
)

_PARTS = (
    POINTER
    + """
@triton.jit
def part(x, one, two, H, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * 2 * H + at, mask=at < 2 * H)
    tl.store(one + tl.program_id(0) * H + at, v, mask=at < H)
    tl.store(two + tl.program_id(0) * H + at - H, v, mask=(at >= H) & (at < 2 * H))
"""
)
"""A row that two arrays share."""

_TURNED = (
    POINTER
    + """
@triton.jit
def turned(x, by, out, half, T: tl.constexpr):
    row = tl.program_id(0) * half * 2
    at = tl.arange(0, T)
    other = tl.where(at < half, at + half, at - half)
    v = tl.load(x + row + at) + tl.load(by + at) * tl.load(x + row + other)
    tl.store(out + row + at, v)
"""
)
_TURNED_THREADS = """__global__ void turned(const float* x, const float* by, float* out, int half) {
    const float* own = x + blockIdx.x * half * 2;
    int at = threadIdx.x;
    float other = own[at < half ? at + half : at - half];
    out[blockIdx.x * half * 2 + at] = own[at] + by[at] * other;
}
"""
_LOADED_TWICE = vary(
    ROTATED,
    ("    e = tl.load", "    c = tl.load(cos + row * T + at)\n"
     "    d = tl.load(sin + row * T + at)\n    e = tl.load"),
)  # fmt: skip

_BOTH_WAYS = (
    POINTER
    + """
@triton.jit
def both(x, out, to, rate, M, N, T: tl.constexpr):
    row = (tl.program_id(0) * T + tl.arange(0, T))[:, None]
    col = (tl.program_id(1) * T + tl.arange(0, T))[None, :]
    v = tl.load(x + row * N + col) * rate
    tl.store(out + row * N + col, v)
    tl.store(to + col * M + row, v)
"""
)


class SharedLoads(Pattern):
    """A tile is an operand of several products, or of one and of what is stored or summed beside
    it; what was loaded once is stored several times; an element of what was loaded, chosen by a
    loaded index, is loaded again; every element is loaded for itself and for its partner half a
    row away; or all rows of a tile are multiplied with one row, to be summed."""

    name = "one-load-for-several-uses"
    axis = "load_reuse"
    source = "Hennessy and Patterson, Computer Architecture (2017), temporal locality"
    matches = (
        Case(_LABEL, _AGAIN),
        Case(_GATED, _PRODUCTS),
        Case(_SKIP, _BESIDE),
        Case(_SUMMED, _BESIDE),
        Case(_SPREAD, STORED),
        Case(_PARTS, STORED),
        Case(_BOTH_WAYS, STORED),
        Case(_TURNED, _PARTNER),
        Case(GEMV, _BROADCAST),
        Case(GEMV_TILE, _BROADCAST),
        Case(OUTER, _BROADCAST),
        Case(OUTER_TILE, _BROADCAST),
        Case(_TURNED_THREADS, _PARTNER),
        Case(ROTATED, _ALIKE),
        Case(ROTATED_TILE, _ALIKE),
        Case(UNDER_BRANCHES, _ALIKE),
        Case(MIXED, _ALIKE),
    )
    near_misses = (
        NearMiss(
            vary(_LABEL, ("tl.load(x + row * n + tl.load", "tl.load(out + row * n + tl.load")),
            why="an element of another array",
        ),
        NearMiss(
            vary(_LABEL, ("row * n + tl.load(names + row)", "row * n")),
            why="the first element: no index picks it",
        ),
        NearMiss(vary(_GATED, ("ct.mma(x, ct.load(c", "ct.mma(u, ct.load(c")), why="each tile enters one product"),  # noqa: E501
        NearMiss(vary(_SKIP, ("u + x", "u * 2.0")), why="one product"),
        NearMiss(vary(_SPREAD, ("at, v)", "at, v + i)")), why="every round stores another number"),
        NearMiss(TURNED_THREADS, why="loads in one loop, stores in another: each stored once"),
        NearMiss(
            vary(_PARTS, ("    tl.store(two +", "    v = v * 2.0\n    tl.store(two +")),
            why="two numbers, each stored once",
        ),
        NearMiss(vary(_TURNED, ("at - half)", "at)")), why="the first half alone is taken twice"),
        NearMiss(_TURNED_THREADS.replace("own[at] +", "at +"), why="every element is loaded once"),
        NearMiss(DELTA, why="every row has its partner"),
        NearMiss(vary(GEMV, ("tl.load(x + cols)", "cols * 1.0")), why="nothing is loaded for it"),
        NearMiss(vary(_BOTH_WAYS, ("to + col", "out + col")), why="one array", value=STORED),
        NearMiss(_LOADED_TWICE, why="each array has loads of its own", value=_ALIKE),
        NearMiss(
            vary(ROTATED_TILE, ("tile=e * c - f * d", "tile=e"), ("tile=f * c + e * d", "tile=f")),
            why="one array is turned, the other copied",
        ),
        NearMiss(_CHOSEN, why="one of the two products runs", value=_PRODUCTS),
        NearMiss(BACKWARD_KEYS, why="used straight and turned: told there"),
        NearMiss(ATTENTION, why="every tile enters one product"),
        NearMiss(PRODUCT, why="every tile enters one product"),
        NearMiss(SOFTMAX_CHUNKS, why="whole rows are loaded again"),
        NearMiss(ADD_POINTER, why="every load is used once"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        again = _again(facts)
        if again:
            yield self.decide(facts, _AGAIN, again)
        if partners := _partners(facts):
            yield self.decide(facts, _PARTNER, partners)
        if facts.contractions:
            yield from self._products(facts)
            return
        if stored := [*_stored(facts)]:
            yield self.decide(facts, STORED, stored)
        if broadcast := _broadcast(facts):
            yield self.decide(facts, _BROADCAST, broadcast)
        if not facts.of_threads and (several := _for_several(facts)):
            yield self.decide(facts, _ALIKE, several)

    def _products(self, facts: Facts) -> Iterable[Decision]:
        users: dict[Access, list[Node]] = {}
        for product in facts.contractions:
            for role in ("lhs", "rhs"):
                for access in _reached(facts, product.op.operand(role)):
                    if product not in users.setdefault(access, []):
                        users[access].append(product)
        told = set(both_ways(facts)) if users else set()
        free = {
            a: ps for a, ps in users.items() if _flat(facts, a) and not any(p in told for p in ps)
        }
        taken = {p: _arrays(facts, p) for p in facts.contractions} if free else {}
        several = {a: ps for a, ps in free.items() if _both(ps, taken)}
        if several:
            yield self.decide(facts, _PRODUCTS, _with_products(several))
        direct = {a for s in facts.stores for a in _reached(facts, s.value)}
        rest = {a: ps for a, ps in free.items() if len({p.loops for p in ps}) == 1}
        rest = {a: ps for a, ps in rest.items() if a not in several}
        summed = {a: _summed(facts, a, ps) for a, ps in rest.items()}
        beside = {a: ps + summed[a] for a, ps in rest.items() if a in direct or summed[a]}
        if beside:
            yield self.decide(facts, _BESIDE, _with_products(beside))


def _summed(facts: Facts, load: Access, products: list[Node]) -> list[Node]:
    """Of a tile that is an operand itself, the reductions of it that run beside the products and
    reach a store."""
    operands = [p.op.operand(role) for p in products for role in ("lhs", "rhs")]
    if not any(load in facts.held_loads(value) for value in operands):
        return []
    return [
        r
        for r in facts.reductions
        if load in _reached(facts, r.op.inputs[0])
        and not any(r.excludes(p) for p in products)
        and any(facts.graph.rests_on(store.value, r) for store in facts.stores)
    ]


def _arrays(facts: Facts, product: Node) -> frozenset[str | None]:
    """The arrays that the operands of a product are computed from."""
    sides = (product.op.operand(role) for role in ("lhs", "rhs"))
    return frozenset(a.array for side in sides for a in _reached(facts, side))


def _both(products: list[Node], taken: Mapping[Node, frozenset[str | None]]) -> bool:
    """True when two products of different statements run, not one or the other, nor each in its
    part of an axis with tiles of the same arrays."""
    return any(
        a.op.span != b.op.span
        and not a.excludes(b)
        and (a.loops == b.loops or taken[a] != taken[b])
        for at, a in enumerate(products)
        for b in products[at + 1 :]
    )


def _with_products(users: dict[Access, list[Node]]) -> list[Where]:
    """Loads, each with the products that take it."""
    where: list[Where] = []
    for access, products in users.items():
        where += [access, *products]
    return where


def _reached(facts: Facts, value: str | None) -> list[Access]:
    """Loads that a value is computed from, with nothing summed on the way and nothing handed on by
    a loop."""
    graph = facts.graph
    pending = [v for v in (value,) if v is not None]
    seen = set(pending)
    found: dict[Access, None] = {}
    for current in pending:
        made = graph.producer(current)
        if made is None or made.op.kind in _STOPS | LOOPS:
            access = facts.access(made) if made is not None else None
            if access is not None:
                found[access] = None
            continue
        new = [v for v in graph.feeds(current) if v not in seen]
        seen.update(new)
        pending += new
    return [*found]


def _flat(facts: Facts, access: Access) -> bool:
    """True for tiles with rows and columns."""
    return sum(extent != "1" for extent in facts.types.shape(access.value)) > 1


def _again(facts: Facts) -> list[Access]:
    """Loads of an array of many elements side by side, and of one at a loaded index."""
    single = [
        a
        for a in facts.loads
        if a.array is not None
        and not any(e.has(AtomKind.LANE) for e in a.index)
        and any(atom.kind is AtomKind.LOADED for e in a.index for atom in e.top())
    ]
    arrays = {one.array for one in single}
    many = [
        a
        for a in facts.loads
        if a.array in arrays
        and any(e.has(AtomKind.LANE) for e in a.index)
        and not any(e.has(AtomKind.LOADED) for e in a.index)
    ]
    both = {a.array for a in many}
    return [*many, *(one for one in single if one.array in both)]


def _partners(facts: Facts) -> list[Access]:
    """Loads of elements, and of those that lie as far before or behind them."""
    found: list[Access] = []
    twice = cache(lambda place: add(place, place))
    for other in facts.loads:
        chosen = [a for e in other.index for a in e.top() if a.kind is AtomKind.CHOICE]
        if len(chosen) != 1 or len(chosen[0].args) != 2 or other.array is None:
            continue
        way = sub(add(*chosen[0].args), twice(of(chosen[0])))
        partner = [add(twice(place), way) for place in other.index]
        for own in facts.loads:
            if own.array != other.array or len(own.index) != len(other.index):
                continue
            pairs = enumerate(zip(own.index, other.index, strict=True))
            apart = [(at, place) for at, (place, its) in pairs if place != its]
            if len(apart) == 1 and twice(apart[0][1]) == partner[apart[0][0]]:
                found += [] if own.node.excludes(other.node) else [own, other]
    return list(dict.fromkeys(found))


def _stored(facts: Facts) -> Iterable[Access]:
    """Loads whose numbers are stored as they are, in a loop that the load stands before, or to more
    than one array."""
    held = [(s, a) for s in facts.stores for a in facts.held_loads(s.value) if not s.is_atomic]
    for load in dict.fromkeys(a for _, a in held if facts.types.shape(a.value)):
        stores = [s for s, a in held if a is load and s.array not in (None, load.array)]
        apart = any(one.node.excludes(two.node) for one in stores for two in stores)
        if len({s.array for s in stores}) > 1 and not apart and not facts.of_threads:
            yield from (load, *stores)
    yield from made_once(facts)
    for store in facts.stores:
        for load in facts.held_loads(store.value) if store.node.loops else ():
            around, deep = load.node.loops, len(load.node.loops)
            outside = deep < len(store.node.loops) and store.node.loops[:deep] == around
            if outside and None not in (load.array, store.array) and facts.types.shape(load.value):
                yield from (load, store)


def _for_several(facts: Facts) -> list[Where]:
    """Tiles that are factors of what is stored in several arrays that are treated alike, with the
    products."""
    stores, shared = alike(facts) or ([], [])
    found: list[Where] = []
    for load in shared if not differentiated(facts) else ():
        below, users = [load.value], list[Node]()
        for value in below:
            for user in facts.graph.users(value):
                if user.op.kind in _SPREADING:
                    below.append(user.result)
                elif user.op.kind in _FACTORS:
                    users.append(user)
        met = {s.array for s in stores if any(facts.graph.rests_on(s.value, n) for n in users)}
        if len(met) > 1 and facts.types.shape(load.value):
            found += [load, *users]
    return found


def _broadcast(facts: Facts) -> list[Where]:
    """Loads of a column or a row that every row or column of another tile is multiplied with, to be
    summed; with the products."""
    found: list[Where] = []
    for made, _ in (*products_summed(facts), *outer_products(facts)):
        for side in made.op.inputs[:2]:
            below = facts.graph.through(side, _SPREADING)
            wide = [sum(e != "1" for e in facts.types.shape(v)) for v in (below, made.result)]
            if 0 < wide[0] < wide[1]:
                found += [n for a in facts.held_loads(below) for n in (a, made)]
    return found

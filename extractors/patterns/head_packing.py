"""All query heads that share one key head form the rows of one tile."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, PRODUCT, vary
from extractors.patterns.cases_pointer import FLASH_POINTER, FLASH_STAGED
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_PACKED = vary(
    ATTENTION,
    ("index=(bat, head, x, 0), shape=(1, 1, TM, W), padding", "index=(bat, y, 0, 0), shape=(1, 1, TM, W), padding"),  # noqa: E501
    ("index=(bat, kv, 0, j)", "index=(bat, y, 0, j)"),
    ("index=(bat, kv, j, 0)", "index=(bat, y, j, 0)"),
    ("index=(bat, head, x, 0), tile", "index=(bat, y, 0, 0), tile"),
)  # fmt: skip


_PACKED_POINTER = vary(
    FLASH_POINTER,
    ("    at = x * TM + tl.arange(0, TM)\n", "    at = tl.arange(0, TM)\n"),
    ("fixed = tl.load(a + bat * sb + head * sh + at[:, None] * sm", "fixed = tl.load(a + bat * sb + (kv * R + at[:, None]) * sh"),  # noqa: E501
    ("kv = head // R", "kv = head"),
    ("out + bat * ob + head * oh + at[:, None] * om", "out + bat * ob + (kv * R + at[:, None]) * oh"),  # noqa: E501
)  # fmt: skip

_PACKED_RUNTIME = vary(_PACKED_POINTER, ("R: tl.constexpr", "R"))

_COUNTED = vary(
    ATTENTION,
    ("index=(bat, head, x, 0), shape=(1, 1, TM, W), padding", "index=(bat, 0, (kv * R + x * TM) // TM, 0), shape=(1, 1, TM, W), padding"),  # noqa: E501
    ("    kv = head // R\n", "    kv = head\n"),
)  # fmt: skip
_SCALED = vary(
    _PACKED_POINTER, ("    if TRI:\n        edge", "    fixed = (fixed * rate).to(tl.float16)\n    if TRI:\n        edge")  # noqa: E501
)  # fmt: skip


_LATENT = "all query heads share one latent key head"
_SHARED_LATENT = vary(
    FLASH_POINTER,
    ("head = y % G", "head = 0"),
    ("b + bat * tb + kv * th + cols[None, :] * tn + lane[:, None], mask=cols[None, :] < size", "b + bat * tb + cols[:, None] * tn + lane[None, :], mask=cols[:, None] < size"),  # noqa: E501
    ("tl.dot(fixed, k)", "tl.dot(fixed, tl.trans(k))"),
    ("to(a.dtype.element_ty), v, acc)", "to(a.dtype.element_ty), k, acc)"),
)  # fmt: skip


_GROUPED = "all query heads of a key head in one CTA"
_ROWS_THREADS = """template <int G, int T>
__global__ void decode(const float* q, const float* k, const float* v, float* out, int n, int ql,
                       int kl, float rate) {
    int kv = blockIdx.x;
    int head = kv * G + threadIdx.y;
    float top = -INFINITY, sum = 0.f, acc = 0.f;
    float own = q[head * ql + threadIdx.x];
    for (int j = 0; j < n; ++j) {
        float s = own * k[j * T + kv * kl + threadIdx.x];
        for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
        float now = fmaxf(top, s * rate);
        float fade = expf(top - now), p = expf(s * rate - now);
        sum = sum * fade + p;
        acc = acc * fade + p * v[j * T + kv * kl + threadIdx.x];
        top = now;
    }
    out[head * ql + threadIdx.x] = acc / sum;
}
"""


def _sizes(facts: Facts, node: Node) -> list[Expr]:
    """The extents of the lanes that a value counts."""
    atoms = facts.values.expr(node.result).atoms()
    return [a.args[0] for a in atoms if a.kind is AtomKind.LANE]


def _tiles(facts: Facts, product: Node) -> list[Access]:
    """What the two sides of a product load."""
    sides = (product.op.operand(role) for role in ("lhs", "rhs"))
    return [a for side in sides for a in facts.held_loads(side)]


class HeadPacking(Pattern):
    """A stationary operand of a score product is a tile of two axes at index zero; the streamed
    operand is found by the same block ids and moves with the loop. Of threads: the number of a
    block times a compile-time parameter plus that of a thread finds queries, the number of the
    block alone finds keys."""

    name = "query-head-packing"
    axis = "kv_head_mapping"
    source = "tilelore catalogue, P11; FlashAttention-3, PackGQA"
    matches = (
        Case(_PACKED, "query-head packing into M tile (PackGQA)"),
        Case(_PACKED_POINTER, "query-head packing into M tile (PackGQA)"),
        Case(_PACKED_RUNTIME, "query-head packing into M tile (PackGQA)"),
        Case(_COUNTED, "query-head packing into M tile (PackGQA)"),
        Case(_SCALED, "query-head packing into M tile (PackGQA)"),
        Case(_SHARED_LATENT, _LATENT),
        Case(_ROWS_THREADS, _GROUPED),
    )
    near_misses = (
        NearMiss(
            vary(_COUNTED, ("(kv * R + x * TM) // TM", "x")),
            why="the rows of the tile are positions",
        ),
        NearMiss(
            vary(
                _ROWS_THREADS,
                ("k[j * T + kv * kl", "k[j * T + head * kl"),
                ("v[j * T + kv * kl", "v[j * T + head * kl"),
            ),
            why="every query head has its own key head",
        ),
        NearMiss(
            vary(_ROWS_THREADS, ("kv * G + threadIdx.y", "kv * n + threadIdx.y")),
            why="rows of an extent that is no compile-time parameter",
        ),
        NearMiss(ATTENTION, why="the block id counts query tiles, rows are positions"),
        NearMiss(BACKWARD_KEYS, why="the queries stream by"),
        NearMiss(PRODUCT, why="there are no scores"),
        NearMiss(FLASH_POINTER, why="the block id counts query tiles, rows are positions"),
        NearMiss(FLASH_THREADS, why="the block id counts query tiles, rows are positions"),
        NearMiss(FLASH_STAGED, why="keys of the diagonal begin at the rows of the query tile"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if grouped := _grouped(facts):
            yield self.decide(facts, _GROUPED, grouped)
        for product in facts.score_products:
            sides = [facts.scaled_loads(product.op.operand(role)) for role in ("lhs", "rhs")]
            for still, moving in (sides, sides[::-1]):
                if still and moving and self._packs(facts, product, still[0], moving[0]):
                    value = "query-head packing into M tile (PackGQA)"
                    made = self._lanes(facts, still[0])
                    yield self.decide(facts, value, (*made, still[0], product))
                    return
                if still and moving and self._shares(facts, product, still[0]):
                    made = self._lanes(facts, still[0])
                    yield self.decide(facts, _LATENT, (*made, still[0]))
                    return

    def _lanes(self, facts: Facts, still: Access) -> list[Node]:
        """Where the rows of a tile by pointers are counted: lanes, and the offsets made of them."""
        place = still.node.op.operand("pointer")
        made = facts.graph.producer(place)
        if still.mode is not Mode.POINTER or made is None or place is None:
            return []
        wide = [n for n in facts.graph.upstream(place) if n.op.kind == OpKind.ARANGE]
        size = {a.args[0] for a in still.index[0].atoms() if a.kind is AtomKind.LANE
                and a.value == "-2"}  # fmt: skip
        rows = [n for n in wide if {*_sizes(facts, n)} & size]
        return [made, *rows]

    def _shares(self, facts: Facts, product: Node, still: Access) -> bool:
        """One streamed tile is keys and values, and the block id that counts rows of the other
        does not find it: all heads share it."""
        loop = product.loop
        if loop is None or still.node.inside(loop) or still.mode is not Mode.POINTER:
            return False
        chain = {product, facts.graph.producer(facts.graph.core(product.op.operand("acc")))}
        raised = {e.node.result for e in facts.exponentials}
        weighs = [
            p
            for p in facts.contractions
            if p.inside(loop)
            and {facts.graph.core(p.op.operand(role)) for role in ("lhs", "rhs")} & raised
        ]
        weighed = [a for p in weighs for a in _tiles(facts, p)]
        twice = [a for p in chain if p in facts.contractions for a in _tiles(facts, p)]
        twice = [a for a in twice if a in weighed and a.node.inside(loop)]
        ids = {a for e in still.index for a in e.atoms() if a.kind is AtomKind.BLOCK}
        return any(ids - {a for e in x.index for a in e.atoms()} for x in twice)

    def _packs(self, facts: Facts, product: Node, still: Access, moving: Access) -> bool:
        loop = product.loop
        if loop is None or still.node.inside(loop) or not moving.node.inside(loop):
            return False
        if still.mode is Mode.POINTER:
            return self._packs_lanes(facts, still, moving)
        if still.mode is not Mode.TILE or len(still.shape) != len(still.index):
            return False
        tiled = [
            index
            for extent, index in zip(still.shape, still.index, strict=True)
            if extent != "1" and extent in facts.constexprs
        ]
        chosen = [index for index in still.index if index.has(AtomKind.BLOCK)]
        if len(tiled) > 1 and all(index.constant == 0 for index in tiled):
            return bool(chosen) and all(index in moving.index for index in chosen)
        return any(self._counted_from(index, moving) for index in tiled)

    def _counted_from(self, index: Expr, moving: Access) -> bool:
        """The number of a tile is made of a product of the number that finds the streamed operand,
        which no tile of that operand is counted by."""
        finds = {
            place.atom
            for extent, place in zip(moving.shape, moving.index, strict=False)
            if extent == "1" and place.atom is not None and place.has(AtomKind.BLOCK)
        }
        return any(
            (len(factors) == 1 and number != 1) or len(factors) > 1
            for atom in index.atoms()
            for part in atom.args
            for factors, number in part.terms
            if finds & set(factors)
        )

    def _packs_lanes(self, facts: Facts, still: Access, moving: Access) -> bool:
        """Row lanes are counted on from a block's first query head: lanes and head times group
        share a stride, and the streamed operand is found by that head alone."""
        index = still.index[0]
        lanes = [(f, a) for f, _ in index.terms for a in f if a.kind is AtomKind.LANE]
        steps = [{a for a in f if a.kind is not AtomKind.LANE} for f, _ in moving.index[0].terms
                 if any(a.kind is AtomKind.LANE for a in f)]  # fmt: skip
        for factors, lane in lanes:
            stride = {a for a in factors if a is not lane}
            for other, _ in index.terms:
                rest = [a for a in other if a not in stride]
                group = [a for a in rest if a.kind is AtomKind.PARAMETER]
                head = [a for a in rest if a not in group and a.kind is not AtomKind.LANE]
                packed = bool(stride) and stride < set(other) and len(group) == len(head) == 1
                found = [f for f, _ in moving.index[0].terms if packed and head[0] in f]
                # What counts in steps of the streamed lanes is a position among them.
                found = [f for f in found if not any(s and s <= {*f} for s in steps)]
                if any(group[0] not in f for f in found):
                    return Expr(((tuple(head), 1),)).has(AtomKind.BLOCK)
        return False


def _grouped(facts: Facts) -> list[Node]:
    """Where threads count the query heads that share the key head of their block, with the loads
    that these find; nothing where there is no softmax."""
    powers = [e for e in facts.exponentials if not e.rescale] if facts.of_threads else []
    queries = {a: found for a in facts.loads if powers and (found := _heads(facts, a))}
    if not queries:
        return []
    block, size, _ = next(iter(queries.values()))
    keys = [a for a in facts.loads if a not in queries and _found_by(a, block, size)]
    if not {a.array for a in keys} - {a.array for a in queries}:
        return []
    made = [n for n in facts.graph.of(OpKind.ADD) if _counts(facts, n, block, size)]
    return [*made, *(a.node for a in queries)]


_Heads = tuple[Atom, Atom, Atom]
"""The number of a block, how many heads it takes, and the number of a thread."""


def _heads(facts: Facts, access: Access) -> _Heads | None:
    """`(block * size + lane) * stride` in a place."""
    terms = [frozenset(factors) for index in access.index for factors, _ in index.terms]
    for lanes in terms:
        lane = next((a for a in lanes if a.kind is AtomKind.LANE), None)
        stride = lanes - {lane}
        for blocks in terms if lane is not None and stride else ():
            block = next((a for a in blocks if a.kind is AtomKind.BLOCK), None)
            rest = blocks - stride - {block}
            size = next(iter(rest), None)
            if block is None or size is None or len(rest) > 1 or not stride < blocks:
                continue
            if lane is not None and size.value in facts.constexprs:
                return block, size, lane
    return None


def _found_by(access: Access, block: Atom, size: Atom) -> bool:
    """Whether the number of the block alone, times a stride, is in a place."""
    terms = [factors for index in access.index for factors, _ in index.terms]
    return any(block in f and size not in f and len(f) == 2 for f in terms)


def _counts(facts: Facts, node: Node, block: Atom, size: Atom) -> bool:
    expr = facts.values.expr(node.result)
    terms = {frozenset(factors) for factors, _ in expr.terms}
    lanes = [f for f in terms if any(a.kind is AtomKind.LANE for a in f)]
    return frozenset((block, size)) in terms and len(terms) == 2 and len(lanes) == 1

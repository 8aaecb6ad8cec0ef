"""Products that several blocks compute alike, each for its own piece of what is made of them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from kb.analysis.accesses import Access
from kb.analysis.block_places import places, tell
from kb.analysis.chosen_positions import picks_one
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import AtomKind, Expr, of
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, OpKind

_ROW = (
    POINTER
    + """
@triton.jit
def norm(x, w, out, n, eps, W: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, W)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    r = tl.rsqrt(tl.sum(v * v, axis=0) / n + eps)
    own = tl.program_id(1) * T + tl.arange(0, T)
    u = tl.load(x + row * n + own, mask=own < n, other=0.0)
    tl.store(out + row * n + own, u * r * tl.load(w + own, mask=own < n), mask=own < n)
"""
)
_ROW_TILE = (
    TILE
    + """
@ct.kernel
def norm(x, out, W: Int, T: Int):
    v = ct.load(x, index=(ct.bid(0), 0), shape=(1, W))
    r = ct.rsqrt(ct.sum(v * v, axis=1, keepdims=True) + 1e-6)
    u = ct.load(x, index=(ct.bid(0), ct.bid(1)), shape=(1, T))
    ct.store(out, index=(ct.bid(0), ct.bid(1)), tile=u * r)
"""
)
_CHUNK = (
    POINTER
    + """
@triton.jit
def chunk(q, k, v, out, D: tl.constexpr, V, T: tl.constexpr, TV: tl.constexpr):
    m = tl.program_id(0) * T + tl.arange(0, T)
    cols = tl.program_id(1) * TV + tl.arange(0, TV)
    d = tl.arange(0, D)
    x = tl.load(q + m[:, None] * D + d[None, :])
    y = tl.load(k + m[None, :] * D + d[:, None])
    s = tl.where(m[:, None] >= m[None, :], tl.dot(x, y), 0.0)
    z = tl.load(v + m[:, None] * V + cols[None, :])
    tl.store(out + m[:, None] * V + cols[None, :], tl.dot(s, z))
"""
)
_CHUNK_TILE = (
    TILE
    + """
@ct.kernel
def chunk(q, k, v, out, D: Int, T: Int, TV: Int):
    m = ct.bid(0)
    n = ct.bid(1)
    x = ct.load(q, index=(m, 0), shape=(T, D))
    y = ct.load(k, index=(0, m), shape=(D, T))
    s = ct.mma(x, y, ct.full((T, T), 0.0, dtype=ct.float32))
    z = ct.load(v, index=(m, n), shape=(T, TV))
    ct.store(out, index=(m, n), tile=ct.mma(s, z, ct.full((T, TV), 0.0, dtype=ct.float32)))
"""
)


_WALK = (
    POINTER
    + """
@triton.jit
def norm(x, out, n, rows, W: tl.constexpr):
    at = tl.arange(0, W)
    top = tl.zeros((W,), dtype=tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        top += v / tl.sum(v, axis=0)
    tl.store(out + tl.program_id(0) * n + at, top, mask=at < n)
"""
)
_ALL = vary(_WALK, ("range(tl.program_id(0), rows, tl.num_programs(0))", "range(rows)"))


_SPLIT = (
    POINTER
    + """
@triton.jit
def product(x, w, out, n, K, T: tl.constexpr, TN: tl.constexpr):
    cols = tl.program_id(0) * TN + tl.arange(0, TN)
    acc = tl.zeros((TN,), dtype=tl.float32)
    first = tl.program_id(1) * K
    for k in range(first, first + K, T):
        v = tl.load(x + k + tl.arange(0, T))
        top = tl.max(tl.abs(v), axis=0)
        u = tl.load(w + (k + tl.arange(0, T))[:, None] * n + cols[None, :])
        acc += tl.sum((v / top)[:, None] * u, axis=0) * top
    tl.store(out + cols, acc, mask=tl.program_id(1) == 0)
"""
)


_SHARED = vary(
    _ROW,
    ("row = tl.program_id(0)\n", "head = tl.program_id(0) // 4\n    row = head // 2\n"),
    ("own = tl.program_id(1) * T", "own = tl.program_id(0) % 4 * T"),
    ("out + row * n", "out + head * n"),
)
_SHARED_TILE = vary(
    _ROW_TILE,
    ("    v = ct", "    head = ct.bid(0) // 4\n    v = ct"),
    ("(ct.bid(0), 0)", "(head // 2, 0)"),
    ("x, index=(ct.bid(0), ct.bid(1))", "x, index=(head // 2, ct.bid(0) % 4)"),
    ("out, index=(ct.bid(0), ct.bid(1))", "out, index=(head, ct.bid(0) % 4)"),
)
_TAKEN_APART = vary(
    _SHARED,
    ("x + row * n + at", "x + (head // 2 * 9 + head % 2) * n + at"),
    ("own = tl.program_id(0) % 4 * T + ", "own = "),
)


class ProductComputedAgain(Pattern):
    """A product takes another one that does not depend on a block id, and an operand that does: all
    blocks along that axis of the grid compute the first product. Or what is stored lies apart by a
    block id that a sum over loaded tiles in it does not depend on."""

    name = "product-computed-again-by-every-block-of-an-axis"
    axis = "recompute"
    source = "Yang et al., Gated Linear Attention (2023): chunkwise parallel form"
    matches = (
        Case(_CHUNK, "product computed again by every block along an axis"),
        Case(_CHUNK_TILE, "product computed again by every block along an axis"),
        Case(_ROW, "sum computed again by every block along an axis"),
        Case(_ROW_TILE, "sum computed again by every block along an axis"),
        Case(_SHARED, "sum computed again by every block along an axis"),
        Case(_SHARED_TILE, "sum computed again by every block along an axis"),
        Case(_SPLIT, "sum computed again by every block along an axis"),
        Case(_ALL, "sum computed again by every block along an axis"),
    )
    near_misses = (
        NearMiss(vary(_SHARED_TILE, ("shape=(1, W)", "shape=(1, 1)")), why="one element"),
        NearMiss(_TAKEN_APART, why="quotient and remainder tell the head together"),
        NearMiss(
            vary(
                _SHARED,
                ("    v = tl.load", "    if head % 2 == 0:\n        n += 1\n    v = tl.load"),
            ),
            why="what a block adds up is not known",
        ),
        NearMiss(
            vary(_ROW, ("x + row * n + at", "x + row * n + tl.program_id(1) * W + at")),
            why="every block sums its own piece",
        ),
        NearMiss(
            vary(_ROW_TILE, ("index=(ct.bid(0), 0)", "index=(ct.bid(0), ct.bid(1))")),
            why="every block sums its own piece",
        ),
        NearMiss(
            vary(
                _ROW,
                ("    own = ", "    v = tl.where(at == tl.program_id(1), v, 0.0)\n    own = "),
                ("r = tl.rsqrt(tl.sum(v * v, axis=0) / n + eps)", "r = 1.0"),
                ("u * r", "u * tl.max(v, axis=0)"),
            ),
            why="every block asks for its own place",
        ),
        NearMiss(
            vary(
                _ROW,
                ("row = tl.program_id(0)", "row = tl.program_id(0) * 2 + tl.program_id(1)"),
                ("own = tl.program_id(1) * T", "own = tl.program_id(0) * T"),
            ),
            why="rows of both axes",
        ),
        NearMiss(
            vary(
                _ROW,
                ("row = tl.program_id(0)", "row = tl.program_id(0)\n    pair = row // 2"),
                ("own = tl.program_id(1) * T", "own = row * 8 + pair * T"),
            ),
            why="what tells the row tells the place",
        ),
        NearMiss(
            vary(
                _ROW,
                (
                    "    v = tl.load(x + row * n + at, mask=at < n, other=0.0)\n",
                    "    if tl.program_id(1) == 0:\n        v = tl.load(x + row * n + at)\n"
                    "    else:\n        v = tl.load(w + row * n + at)\n",
                ),
            ),
            why="blocks choose what they sum",
        ),
        NearMiss(
            vary(
                _ROW,
                (
                    "x + row * n + at, mask=at < n, other=0.0)\n    r",
                    "x + row * n + at, mask=at < tl.program_id(1), other=0.0)\n    r",
                ),
            ),
            why="every block sums up to its own place",
        ),
        NearMiss(_WALK, why="every block walks rows of its own"),
        NearMiss(
            vary(_ROW, ("tl.sum(v * v,", "tl.sum(tl.where(at == 3, v, 0.0),")),
            why="one element is picked",
        ),
        NearMiss(
            vary(_CHUNK, ("tl.load(k + m[None, :] * D", "tl.load(k + cols[None, :] * D")),
            why="every block has a product of its own",
        ),
        NearMiss(vary(_CHUNK, ("tl.dot(s, z))", "s)")), why="one product"),
        NearMiss(ATTENTION, why="every block has queries of its own"),
        NearMiss(FLASH_POINTER, why="every block has queries of its own"),
        NearMiss(PRODUCT, why="one product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if found := _products(facts):
            yield self.decide(facts, "product computed again by every block along an axis", found)
        elif found := _statistics(facts):
            yield self.decide(facts, "sum computed again by every block along an axis", found)


def _products(facts: Facts) -> list[Node | Access]:
    found: dict[Node | Access, None] = {}
    for first in facts.contractions if not facts.of_threads else ():
        loads = [a for role in ("lhs", "rhs") for a in _loads(facts, first.op.operand(role))]
        own = {name for load in loads for name in _blocks(load)}
        for second in facts.contractions:
            sides = [second.op.operand(role) for role in ("lhs", "rhs")]
            takes = [facts.graph.rests_on(side, first) for side in sides]
            if second is first or takes[0] == takes[1] or not own:
                continue
            other = _loads(facts, sides[takes.index(False)])
            apart = any(_blocks(load) - own for load in other) or _alike(facts, loads, other)
            if apart:
                found |= dict.fromkeys((first, second, *loads))
    return [*found]


def _statistics(facts: Facts) -> list[Node | Access]:
    """Sums and extremes of loaded tiles that lie apart by fewer places of blocks than what is
    stored of them; with the loads and the stores."""
    for total in facts.reductions:
        loads = [a for a in _loads(facts, total.op.inputs[0]) if a.value not in facts.offset_loads]
        if facts.graph.roots(total.op.inputs[0], *CONTRACTIONS) or picks_one(facts, total):
            continue
        if all(extent == "1" for extent in facts.types.shape(total.op.inputs[0])):
            continue
        if not loads or not all(map(_known, loads)) or _of_block(facts, total, loads):
            continue
        own = {place for load in loads for place in _places(facts, load)}
        ids = {name for load in loads for name in _ids(facts, load)}
        stores = [s for s in facts.stored_in(total.result) if not s.is_atomic]
        apart = [
            s
            for s in stores
            if _further(facts, s, own) or _ids(facts, s) - ids or _alike(facts, loads, [s])
        ]
        if apart and len(apart) == len(stores):
            return [total, *loads, *apart]
    return []


def _of_block(facts: Facts, total: Node, loads: list[Access]) -> bool:
    """Whether something beside the loads, or where they lie, tells a sum of one block from that of
    another: what it is made of, what the loads leave out, or which of them are done."""
    values = [total.op.inputs[0], *(load.mask for load in loads if load.mask is not None)]
    above = [n for v in values for n in facts.graph.upstream(v, lambda n: n.op.kind in READS)]
    own = {name for load in loads for name in _ids(facts, load)}
    ids = [facts.values.expr(n.result) for n in above if n.op.kind == OpKind.BLOCK_ID]
    held = [b.op.inputs[0] for load in loads for b in facts.guards(load.node)]
    chosen = any(_chooses(facts, condition, loads) for condition in held)
    return chosen or any(str(one) not in own for one in ids)


def _chooses(facts: Facts, condition: str, loads: list[Access]) -> bool:
    """Whether a condition asks for more of the block than where the loads lie."""
    above = list(facts.graph.upstream(condition, lambda n: n.op.kind in READS))
    asked = [a for a in map(facts.access, above) if a is not None]
    own = places(one for load in loads for one in _index(facts, load))
    more = [p for p in places(one for a in asked for one in a.index).values() if not tell(own, p)]
    return bool(more) or any(n.op.kind == OpKind.BLOCK_ID for n in above)


def _further(facts: Facts, store: Access, own: set[str]) -> bool:
    """Whether all that says where a sum is from says where a store goes, and something that it does
    not tell."""
    tops = [atom for index in _index(facts, store) for atom in index.top()]
    told = {a.text for a in tops if {p.text for arg in a.args for p in arg.top()} & own}
    return own < _places(facts, store) - (told - own)


def _alike(facts: Facts, loads: list[Access], others: list[Access]) -> bool:
    """Whether the places of some accesses tell where all of the loads lie, and are not told by
    those: blocks that the accesses tell apart load the same."""
    own = places(one for load in loads for one in _index(facts, load))
    rest = places(one for access in others for one in _index(facts, access))
    known = all(map(_known, (*loads, *others))) and not _chosen(facts, loads)
    told = all(tell(rest, place) for place in own.values())
    return known and told and not all(tell(own, place) for place in rest.values())


def _chosen(facts: Facts, loads: list[Access]) -> bool:
    """Whether branches on the block say where tiles lie, or comparisons of places that these do not
    tell say what of them is left out."""
    own = places(one for load in loads for one in _index(facts, load))
    values = [v for load in loads for v in (*load.address, load.mask) if v is not None]
    above = {n for v in values for n in facts.graph.upstream(v, lambda n: n.op.kind in READS)}
    forks = [n for n in above if n.op.kind in (OpKind.IF, OpKind.IF_EXPRESSION)]
    asked = [n for load in loads for n in comparisons(facts, load.mask)]
    compared = places(side for n in asked for side in sides(facts, n))
    return any(facts.graph.roots(n.op.inputs[0], OpKind.BLOCK_ID) for n in forks) or not all(
        tell(own, place) for place in compared.values()
    )


def _ids(facts: Facts, access: Access) -> set[str]:
    """Block ids that say where a tile lies, or where the loop begins that moves it."""
    atoms = (atom for index in _index(facts, access) for atom in index.atoms())
    return {atom.text for atom in atoms if atom.kind is AtomKind.BLOCK}


def _index(facts: Facts, access: Access) -> list[Expr]:
    """What says where a tile lies, and where the loops begin that move it."""
    found = [*access.index]
    for loop in facts.loops:
        moving = facts.values.expr(loop.induction).atom
        if moving is not None and any(moving in index.atoms() for index in access.index):
            found += [facts.values.expr(loop.low)] if loop.low is not None else []
    return found


def _places(facts: Facts, access: Access) -> set[str]:
    """What says where a tile lies and is made of block ids, as it stands."""
    tops = [atom for index in _index(facts, access) for atom in index.top()]
    return {a.text for a in tops if of(a).has(AtomKind.BLOCK) and not of(a).has(AtomKind.LANE)}


def _known(access: Access) -> bool:
    """Whether where a tile lies is told, and by block ids and lanes each for themselves."""
    tops = [of(atom) for index in access.index for atom in index.top()]
    mixed = any(top.has(AtomKind.BLOCK) and top.has(AtomKind.LANE) for top in tops)
    return not mixed and not any(e.has(AtomKind.LOADED, AtomKind.OPAQUE) for e in access.index)


def _loads(facts: Facts, value: str | None) -> list[Access]:
    return [a for a in facts.feeding(value) if facts.types.shape(a.value)]


def _blocks(access: Access) -> set[str]:
    """Block ids that say where a tile lies."""
    atoms = (atom for index in access.index for atom in index.atoms())
    return {atom.text for atom in atoms if atom.kind is AtomKind.BLOCK}

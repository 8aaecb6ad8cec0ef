"""Every query head has a key head of its own."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, BACKWARD_KEYS, PRODUCT, vary
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, FLASH_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.accesses import Access, AccessReader, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_OWN = vary(ATTENTION, ("kv = head // R", "kv = head"))
_AGAIN = "ct.mma(ct.load(a, index=(bat, head, x, 0), shape=(1, 1, TM, W)).reshape((TM, W)),"
"""The rows that stay, loaded in every round again."""
_NUMBERS = (AtomKind.BLOCK, AtomKind.FLOOR_DIV, AtomKind.MOD)
Places = tuple[frozenset[Atom], frozenset[Atom]]


class OwnKeyHead(Pattern):
    """Both operands of a score product are found by the same numbers of the block ids, but for the
    one that counts tiles of the operand that stays."""

    name = "own-key-head-for-every-query-head"
    axis = "kv_head_mapping"
    source = "Vaswani et al., Attention Is All You Need (2017), multi-head attention"
    matches = (
        Case(_OWN, "MHA 1:1"),
        Case(vary(_OWN, ("ct.mma(fixed,", _AGAIN)), "MHA 1:1"),
        Case(vary(FLASH_POINTER, ("kv = head // R", "kv = head")), "MHA 1:1"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="the query head is divided"),
        NearMiss(FLASH_POINTER, why="the query head is divided"),
        NearMiss(FLASH_THREADS, why="the query head is divided"),
        NearMiss(
            vary(_OWN, ("index=(bat, kv, 0, j)", "index=(bat, 0, 0, j)")),
            why="all heads read one key head",
        ),
        NearMiss(
            vary(_OWN, ("index=(bat, head, x, 0), shape", "index=(bat, y, 0, 0), shape")),
            why="no block id counts query tiles: the rows may be heads",
        ),
        NearMiss(BACKWARD_KEYS, why="a loop runs over the query heads of a key head"),
        NearMiss(BACKWARD_KEYS_POINTER, why="a loop runs over the query heads of a key head"),
        NearMiss(ATTENTION_POINTER, why="one number: the batch alone may be meant"),
        NearMiss(PRODUCT, why="there are no scores"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for product in facts.score_products:
            held = [facts.held_loads(product.op.operand(role))[:1] for role in ("lhs", "rhs")]
            sides = [a for side in held for a in side]
            loop = product.loop
            kept = [a for a in sides if loop is not None and self._stays(facts, a, loop)]
            if len(sides) < 2 or len(kept) != 1:
                continue
            still = self._places(facts, kept[0], product)
            moving = self._places(facts, next(a for a in sides if a not in kept), product)
            # One number alone may be that of the batch, its heads the rows of a tile.
            if still and moving and still[0] == moving[0] and still[1] and len(still[0]) > 1:
                where = [n for n in facts.graph.nodes if self._makes(facts, n, still[0])]
                yield self.decide(facts, "MHA 1:1", [*where, *sides])
                return

    def _stays(self, facts: Facts, access: Access, loop: Node) -> bool:
        """True for a load that the rounds of a loop do not move."""
        own = facts.loop(loop)
        if not access.node.inside(loop) or own is None or own.induction is None:
            return not access.node.inside(loop)
        step = facts.values.expr(own.induction).atom
        return access.mode is Mode.TILE and not any(step in e.atoms() for e in access.index)

    def _places(self, facts: Facts, access: Access, product: Node) -> Places | None:
        """Numbers made of block ids that place an operand: those that count no tiles, and those
        that do. None when a loop other than the product's moves the operand."""
        parts = list(access.index)
        if access.mode is Mode.TILE and len(access.shape) == len(parts):
            tiled = [i for i, extent in zip(parts, access.shape, strict=True) if extent != "1"]
            parts = [index for index in parts if index not in tiled]
            tiles = {a for index in tiled for a in index.top()}
        else:
            counted = [f for index in parts for f, _ in index.terms if _of_tiles(facts, f)]
            tiles = {a for factors in counted for a in factors}
            parts = [Expr(tuple(t for t in i.terms if t[0] not in counted)) for i in parts]
        made = AccessReader(facts.graph, facts.values).block_pointer(access.base)
        if made is not None:
            parts.append(facts.values.expr(made.op.inputs[0]))
        atoms = [a for index in parts for a in index.top()]
        if any(_moves(facts, a, product) for a in atoms):
            return None
        chosen = (
            {a for a in held if a.kind in _NUMBERS and _rests_on_block(a)}
            for held in (set(atoms), tiles)
        )
        numbers, counted_tiles = chosen
        return frozenset(numbers), frozenset(counted_tiles)

    def _makes(self, facts: Facts, node: Node, numbers: frozenset[Atom]) -> bool:
        kinds = (OpKind.BLOCK_ID, OpKind.FLOOR_DIV, OpKind.MOD)
        return node.op.kind in kinds and facts.values.expr(node.result).atom in numbers


def _of_tiles(facts: Facts, factors: tuple[Atom, ...]) -> bool:
    """True for lanes, and for what is multiplied by the extent of a tile."""
    return any(a.kind is AtomKind.LANE or a.value in facts.tile_extents for a in factors)


def _rests_on_block(atom: Atom) -> bool:
    return atom.kind is AtomKind.BLOCK or any(arg.has(AtomKind.BLOCK) for arg in atom.args)


def _moves(facts: Facts, atom: Atom, product: Node) -> bool:
    """True for the variable of a loop that is not the innermost one around the product."""
    own = facts.loop(product.loop)
    step = facts.values.expr(own.induction).atom if own is not None and own.induction else None
    held = [atom, *(inner for arg in atom.args for inner in arg.atoms())]
    return any(a.kind is AtomKind.INDUCTION and a != step for a in held)

"""Which operand stays on chip while the others stream by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import (
    ATTENTION,
    BACKWARD_KEYS,
    POINTER,
    PRODUCT,
    PRODUCT_POINTER,
    TILE,
    vary,
)
from extractors.patterns.cases_pieces import PIECES_THREADS
from extractors.patterns.cases_pointer import DECODE_PART, FLASH_POINTER
from extractors.patterns.cases_rows import NORM_PERSISTENT
from extractors.patterns.cases_rows_pointer import NORM_PERSISTENT_POINTER
from extractors.patterns.cases_rows_threads import NORM_PERSISTENT_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.idioms import queries_first
from kb.analysis.lane_products import factors, products_summed, score_sums
from kb.analysis.loops import Role
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_LINEAR = (
    POINTER
    + """
@triton.jit
def attend(q, k, v, out, scale, n, D: tl.constexpr, T: tl.constexpr):
    m = tl.program_id(0) * T + tl.arange(0, T)
    d = tl.arange(0, D)
    own = tl.load(q + m[:, None] * D + d[None, :]) * scale
    acc = tl.zeros((T, D), dtype=tl.float32)
    for i in range(0, n, T):
        at = i + tl.arange(0, T)
        x = tl.load(k + at[None, :] * D + d[:, None])
        y = tl.load(v + at[:, None] * D + d[None, :])
        s = tl.where(m[:, None] >= at[None, :], tl.dot(own, x), 0.0)
        acc += tl.dot(s, y)
    tl.store(out + m[:, None] * D + d[None, :], acc)
"""
)


_VECTOR = "C-stationary product with a vector"
_ROWS = (
    POINTER
    + """
@triton.jit
def product(a, b, out, n, k, TM: tl.constexpr, TK: tl.constexpr):
    m = tl.program_id(0) * TM + tl.arange(0, TM)
    acc = tl.zeros((TM,), dtype=tl.float32)
    for i in range(0, k, TK):
        at = i + tl.arange(0, TK)
        x = tl.load(a + m[:, None] * k + at[None, :])
        acc += tl.sum(x * tl.load(b + at)[None, :], axis=1)
    tl.store(out + m, acc, mask=m < n)
"""
)
_ROWS_TILE = (
    TILE
    + """
@ct.kernel
def product(a, b, out, k: Int, TM: Int, TK: Int):
    m = ct.bid(0)
    acc = ct.zeros((TM,), dtype=ct.float32)
    for i in range(ct.cdiv(k, TK)):
        x = ct.load(a, index=(m, i), shape=(TM, TK))
        y = ct.load(b, index=(i,), shape=(TK,))
        acc = acc + ct.sum(x * ct.reshape(y, (1, TK)), axis=1)
    ct.store(out, index=(m,), tile=acc)
"""
)


_ADDS = "        acc += tl.dot(x, y)\n"
_OTHER = "        tl.store(side + n[None, :] + t, tl.dot(held, y))\n"
_BESIDE = vary(
    PRODUCT_POINTER,
    ("a, b, out,", "a, b, side, out,"),
    ("    acc = tl.zeros", "    held = tl.load(pa)\n    acc = tl.zeros"),
)


class StationaryOperandChoice(Pattern):
    """Loads that feed the products of a loop are split into those before the loop and those inside
    it."""

    name = "stationary-operand-choice"
    axis = "stationary_operand"
    source = "Dao et al., FlashAttention (2022); Dao, FlashAttention-2 (2023), section 3"
    matches = (
        Case(ATTENTION, "Q-stationary (loop KV)"),
        Case(BACKWARD_KEYS, "KV-stationary (loop Q)"),
        Case(PRODUCT, "C-stationary GEMM"),
        Case(FLASH_POINTER, "Q-stationary (loop KV)"),
        Case(DECODE_PART, "Q-stationary (loop KV)"),
        Case(PRODUCT_THREADS, "C-stationary GEMM"),
        Case(_ROWS, _VECTOR),
        Case(_ROWS_TILE, _VECTOR),
        Case(_LINEAR, "row tile of the scores kept, columns streamed"),
        Case(
            vary(_LINEAR, ("0.0)\n        acc", "0.0)\n        s = tl.exp2(s)\n        acc")),
            "row tile of the scores kept, columns streamed",
        ),
        Case(vary(PRODUCT_POINTER, ("dot(x, y)", "dot(x, y * 0.5 + 1.0)")), "C-stationary GEMM"),
        Case(vary(_BESIDE, (_ADDS, _ADDS + _OTHER)), "C-stationary GEMM"),
        Case(vary(_BESIDE, (_ADDS, _OTHER + _ADDS)), "C-stationary GEMM"),
        Case(vary(PRODUCT_POINTER, ("acc.to(", "tl.exp(acc).to(")), "C-stationary GEMM"),
        Case(PIECES_THREADS, "Q-stationary (loop KV)"),
    )
    near_misses = (
        NearMiss(
            vary(_ROWS, ("    tl.store(out + m, acc,", "    tl.store(out + m, m,")),
            why="the sum is not stored",
        ),
        NearMiss(vary(_ROWS, ("tl.load(b + at)[None, :]", "x")), why="squares of one array"),
        NearMiss(
            vary(DECODE_PART, ("row[None, :] * keys", "keys * keys")),
            why="both sides are loaded in the loop",
        ),
        NearMiss(FLASH_POINTER, why="one loop, one choice", value="KV-stationary (loop Q)"),
        NearMiss(
            vary(PRODUCT_POINTER, ("+= tl.dot(x, y)", "= tl.exp(acc) * tl.dot(x, y * 0.5)")),
            why="nothing is added up",
        ),
        NearMiss(
            PIECES_THREADS.replace("y[((i * P", "x[((i * P"),
            why="what is ahead is of another array",
        ),
        NearMiss(NORM_PERSISTENT, why="the weight stays, but no product is taken"),
        NearMiss(NORM_PERSISTENT_POINTER, why="the weight stays, but no product is taken"),
        NearMiss(NORM_PERSISTENT_THREADS, why="the weight stays, but no product is taken"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        seen: set[Node] = set()
        places: dict[str, list[Where]] = {}
        for product in sorted(facts.contractions, key=lambda p: not self._streams(facts, p)):
            loop = self._fed_by(facts, product)
            if loop is None or loop in seen:
                continue
            seen.add(loop)
            found = self._name(facts, product, self._sides(facts, product, loop), loop)
            if found is not None:
                value, kept = found
                places.setdefault(value, []).extend((*kept, loop, *_begun(facts, loop)))
        for total in score_sums(facts):
            if total.loop is not None and total.loop not in seen:
                row = self._kept_row(facts, total, total.loop)
                seen |= {total.loop} if row else set()
                places.setdefault("Q-stationary (loop KV)", []).extend(row)
        if not places and (row := _kept_before(facts)):
            places["Q-stationary (loop KV)"] = row
        if not places:
            places["C-stationary GEMM"] = self._fragments(facts)
            places[_VECTOR] = [] if facts.contractions else self._vectors(facts)
        for value, where in places.items():
            if where:
                yield self.decide(facts, value, where)

    def _fed_by(self, facts: Facts, product: Node) -> Node | None:
        """The loop around a product; of scores that threads multiply piece by piece, the one around
        the pieces that loads one of the two sides."""
        if not facts.of_threads or product not in facts.score_products:
            return product.loop
        for loop in reversed(product.loops):
            sides = self._sides(facts, product, loop)
            if any(a.node.inside(loop) for side in sides for a in side):
                return loop
        return product.loop

    def _sides(self, facts: Facts, product: Node, loop: Node) -> list[list[Access]]:
        return [self._loads(facts, product.op.operand(role), loop) for role in ("lhs", "rhs")]

    def _streams(self, facts: Facts, product: Node) -> bool:
        """Whether a loop loads both sides of a product: what it says does not hang on the order of
        the products beside it."""
        loop = product.loop
        if loop is None or facts.score_products:
            return False
        sides = self._sides(facts, product, loop)
        return all(side and all(a.node.inside(loop) for a in side) for side in sides)

    def _vectors(self, facts: Facts) -> list[Where]:
        """Sums over lanes of what a loop loads on both sides, with the loads and the loop that adds
        them up to a tile which is stored."""
        found: list[Where] = []
        for made, total in products_summed(facts):
            loop = facts.loop(made.loop) if made.loop is not None else None
            sides = [facts.feeding(v) for v in made.op.inputs[:2]]
            if loop is None or not all(any(a.loop is loop.node for a in s) for s in sides):
                continue
            if len({frozenset(a.array for a in s) for s in sides}) == 1:
                continue
            for state in loop.of(Role.SUM, Role.ACCUMULATOR, Role.RUNNING_SUM):
                kept = [e for e in facts.types.shape(state.argument) if e != "1"]
                if kept and facts.graph.rests_on(state.next, total):
                    if facts.stored_in(state.result):
                        streamed = [a for s in sides for a in s if a.loop is loop.node]
                        begun = facts.graph.producer(state.init)
                        found += [begun, loop.node, *streamed, total]
        return found

    def _fragments(self, facts: Facts) -> list[Where]:
        """Products that a loop adds up in registers, of fragments that it takes out of shared
        memory: with the outermost such loop."""
        found: list[Where] = []
        for product in [] if facts.exponentials else facts.contractions:
            loops = [facts.loop(node) for node in product.loops]
            adding = [x.node for x in loops if x is not None and x.of(Role.ACCUMULATOR)]
            made = [facts.graph.roots(v, OpKind.MATRIX_LOAD) for v in product.op.inputs[:2]]
            if adding and all(n and all(x.inside(adding[0]) for x in n) for n in made):
                found += [adding[0], product]
        return found

    def _kept_row(self, facts: Facts, total: Node, loop: Node) -> list[Where]:
        """Loads before a loop of the one side of a sum of products, where the loop loads the
        other."""
        wide = [
            [a for a in facts.feeding(v) if facts.types.shape(a.value)]
            for v in factors(facts, total)
        ]
        inside = [[a.node.inside(loop) for a in loads] for loads in wide]
        for here, there in ((0, 1), (1, 0)):
            if wide[here] and not any(inside[here]) and any(inside[there]):
                return [*wide[here], *wide[there], loop]
        return []

    def _loads(self, facts: Facts, value: str | None, loop: Node) -> list[Access]:
        """The loads that an operand holds; of one that is computed, where the loop adds products
        up or hands no tile on, the tiles of the loop that it is computed from."""
        held = facts.held_loads(value)
        made = facts.graph.producer(value)
        if not held and made is not None and not made.inside(loop):
            return self._made_before(facts, made.result)
        known = facts.loop(loop)
        if held or known is None or facts.of_threads:
            return held
        tiles = [c for c in known.carried if facts.types.shape(c.argument)]
        if tiles and not known.of(Role.ACCUMULATOR):
            return []
        fed = facts.feeding(value) if not facts.graph.roots(value, *CONTRACTIONS) else []
        return [a for a in fed if a.node.inside(loop) and len(facts.types.shape(a.value)) > 1]

    def _made_before(self, facts: Facts, value: str) -> list[Access]:
        """The tiles that an operand is computed from before a loop, such as a scaled one."""
        if facts.of_threads or facts.graph.roots(value, *CONTRACTIONS, *LOOPS):
            return []
        return [a for a in facts.feeding(value) if len(facts.types.shape(a.value)) > 1]

    def _chained(self, facts: Facts, product: Node, loop: Node) -> bool:
        """True when another product of the loop takes what a product gives, without a softmax."""
        others = [p for p in facts.contractions if p is not product and p.inside(loop)]
        operands = [p.op.operand(role) for p in others for role in ("lhs", "rhs")]
        return any(facts.graph.rests_on(v, product) for v in operands)

    def _name(
        self, facts: Facts, product: Node, sides: list[list[Access]], loop: Node
    ) -> tuple[str, Sequence[Access | Node]] | None:
        stays = [bool(side) and all(not a.node.inside(loop) for a in side) for side in sides]
        ahead = facts.of_threads and product in facts.score_products
        streams = [_streamed(side, loop, ahead) for side in sides]
        if all(streams) and not facts.score_products:
            own = [p for p in facts.contractions if p.loop is loop]
            return "C-stationary GEMM", [*own, *self._kept(facts, loop)]
        if stays[0] == stays[1] or not (streams[0] or streams[1]):
            return None
        kept = self._kept(facts, loop)
        side = ("row", "columns") if stays[0] else ("column", "rows")
        scores = "{} tile of the scores kept, {} streamed".format(*side)
        if product not in facts.score_products and self._chained(facts, product, loop):
            return scores, kept
        if product not in facts.score_products:
            return "weight-stationary persistent", kept
        first = queries_first(facts, product)
        if first is None and facts.of_threads:
            # A loop that rescales what it has so far walks the keys, whatever side they are on.
            rescaled = any(e.rescale and e.node.inside(loop) for e in facts.exponentials)
            first = stays[0] if rescaled else None
        if first is None:
            plain = not facts.of_threads and self._chained(facts, product, loop)
            return (scores, kept) if plain else None
        return ("Q-stationary (loop KV)" if stays[0] == first else "KV-stationary (loop Q)"), kept

    def _kept(self, facts: Facts, loop: Node) -> list[Access]:
        """Loads before the loop that feed products inside it."""
        inside = [p for p in facts.contractions if p.inside(loop)]
        operands = [p.op.operand(role) for p in inside for role in ("lhs", "rhs")]
        loads = [a for v in operands for a in facts.held_loads(v) or self._loads(facts, v, loop)]
        return [a for a in loads if not a.node.inside(loop)]


def _streamed(side: Sequence[Access], loop: Node, ahead: bool) -> bool:
    """Whether a loop loads all of a side, but perhaps for what is under way before it."""
    inside = {a.array for a in side if a.node.inside(loop)} - {None}
    before = {a.array for a in side if not a.node.inside(loop)}
    return bool(side) and (not before or (ahead and before <= inside))


def _begun(facts: Facts, loop: Node) -> list[Node]:
    """Where the accumulators of a loop are made that begin as zeros before it."""
    known = facts.loop(loop)
    sums = known.of(Role.ACCUMULATOR) if known is not None else []
    made = (facts.graph.producer(facts.graph.core(c.init)) for c in sums)
    return [n for n in made if n is not None and n.op.kind in (OpKind.ZEROS, OpKind.FULL)]


def _kept_before(facts: Facts) -> list[Where]:
    """What a thread loads before a loop over keys in which it takes a running maximum of scores and
    weighs what the loop brings: the scores are computed with it."""
    if not facts.of_threads or not any(e.rescale for e in facts.exponentials):
        return []
    for loop in facts.rolled_loops:
        inner = [x for x in facts.loops if x is loop or x.node.inside(loop.node)]
        tops = [c for x in inner for c in x.of(Role.RUNNING_MAXIMUM)]
        weights = [e.node for e in facts.exponentials if e.rescale and e.node.inside(loop.node)]
        before = [a for a in facts.loads if not a.node.loops and a.node.index < loop.node.index]
        asked = [x for c in tops for x in facts.feeding(c.next)]
        kept = [a for a in before if a in asked and facts.types.shape(a.value)]
        streamed = [a for a in asked if a.node.inside(loop.node)]
        if tops and weights and kept and streamed:
            return [*kept, loop.node]
    return []

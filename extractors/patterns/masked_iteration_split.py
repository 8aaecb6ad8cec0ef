"""In which iterations of a loop the mask is evaluated."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import (
    ATTENTION,
    ATTENTION_EVERY,
    BACKWARD_KEYS,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_masks import (
    BY_FLAG,
    LISTED,
    PEELED,
    PEELED_APART,
    PEELED_ROW,
    SIDED,
    SKIPPED,
    WALKED_AGAIN,
)
from extractors.patterns.cases_pointer import FLASH_POINTER, FLASH_STAGED, TWO_PRODUCTS
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from extractors.patterns.cases_tensors import FLASH_TENSORS
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS
from extractors.patterns.side_of_a_diagonal import LOWER
from kb.analysis.accesses import Access
from kb.analysis.diagonals import kept_sides
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Node
from kb.analysis.idioms import Mask, against_extent, between_lanes, comparisons, masks, sides
from kb.analysis.masked_loops import (
    always_made,
    fewer_behind,
    masked,
    region_of,
    staged,
    tile_loop,
)
from kb.analysis.peeled import peeled_tails
from kb.analysis.staged import sided_twins
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_BOUND = COPIES | {OpKind.IF, OpKind.MINIMUM, OpKind.MAXIMUM, OpKind.FLOOR_DIV, OpKind.CEIL_DIV}
_STAGED = "STAGE-coded inner function called twice"
_ORDERED = frozenset({OpKind.GE, OpKind.GT, OpKind.LE, OpKind.LT})
_AFTER = vary(PRODUCT_POINTER, ("acc.to(", "tl.where(m[:, None] >= n[None, :], acc, 0.0).to("))
_LOWER_WHOLE = vary(LOWER, ("at, mask=at < n, other=0.0)", "at)"), (", mask=at < n)", ")"))


_EVERY = "mask every iteration"
_BESIDE = (
    "        if (TRI or",
    "        s = ct.where(rows - j * TN - cols0 < W, s, -1.0e9)\n        if (TRI or",
)
_LAST = "masked in a peeled last tile"


class MaskedIterationSplit(Pattern):
    """A mask in a loop stands under a branch on the loop variable, in a loop of its own, or in
    every iteration; or the mask of a product stands outside of all loops."""

    name = "masked-unmasked-iteration-split"
    axis = "mask_placement"
    source = "cuTile compiler, loop_split: one branch on the loop variable against an outer value"
    matches = (
        Case(ATTENTION, "single loop + iv>=bound branch (compiler splits)"),
        Case(vary(ATTENTION, _BESIDE), "mask every iteration"),
        Case(ATTENTION_EVERY, "mask every iteration"),
        Case(BACKWARD_KEYS, "mask every iteration"),
        Case(
            vary(ATTENTION, ("j >= edge", "j * TN + TN > edge * TN")),
            "single loop + opaque branch (not split)",
        ),
        Case(_LOWER_WHOLE, "mask every iteration"),
        Case(SKIPPED, "mask every iteration"),
        Case(LISTED, "mask every iteration"),
        Case(FLASH_POINTER, "single loop + iv>=bound branch (compiler splits)"),
        Case(BACKWARD_KEYS_THREADS, "mask every iteration"),
        Case(FLASH_STAGED, _STAGED),
        Case(SIDED, _STAGED),
        Case(
            vary(
                FLASH_STAGED,
                (
                    "        if PART == 2:\n            s +=",
                    '        s = tl.where(cols0[None, :] < size - j, s, float("-inf"))\n'
                    "        if PART == 2:\n            s +=",
                ),
            ),
            "mask every iteration",
        ),
        Case(
            vary(
                FLASH_STAGED,
                (
                    "            s += tl.where(",
                    "            if TN > 16:\n                s += tl.where(",
                ),
            ),
            _STAGED,
        ),
        Case(PRODUCT_POINTER, "mask every iteration"),
        Case(_AFTER, "once, outside of the loops"),
        Case(BY_FLAG, "two explicit loops"),
        Case(FLASH_TENSORS, "two explicit loops"),
        Case(PEELED, _LAST),
        Case(PEELED_ROW, _LAST),
        Case(vary(FLASH_STAGED, ("4 - PARTS", "1")), "two explicit loops"),
    )
    near_misses = (
        NearMiss(
            vary(_AFTER, ("m[:, None] >= n[None, :]", "m[:, None] >= 4")),
            why="rows are held above a number, no side of a diagonal is kept",
            value="once, outside of the loops",
        ),
        NearMiss(
            ATTENTION_EVERY,
            why="the mask stands in the loop",
            value="once, outside of the loops",
        ),
        NearMiss(
            vary(BY_FLAG, ("        if NEAR:\n            s =", "        s =")),
            why="both loops mask every tile",
            value="two explicit loops",
        ),
        NearMiss(
            FLASH_TENSORS.replace("step<false>", "step<true>"),
            why="both loops mask every tile",
            value="two explicit loops",
        ),
        NearMiss(
            FLASH_STAGED,
            why="one of the two loops makes no mask",
            value="mask every iteration",
        ),
        NearMiss(
            vary(FLASH_STAGED, ("        if PART == 2:\n            s +=", "        s +=")),
            why="both loops mask every tile",
            value=_STAGED,
        ),
        NearMiss(
            vary(
                PRODUCT_POINTER,
                ("k[None, :] < K - t * TK", "m[:, None] < M"),
                ("k[:, None] < K - t * TK", "n[None, :] < N"),
            ),
            why="the mask is the same in every iteration, and could stand before the loop",
        ),
        NearMiss(
            vary(_LOWER_WHOLE, ("where(at <= row, v, 0.0)", "where(v <= 1.0, v, 0.0)")),
            why="numbers are compared, not places",
        ),
        NearMiss(
            vary(
                PEELED,
                (
                    "        s = tl.dot(own, tl.trans(x))\n",
                    "        s = tl.dot(own, tl.trans(x))\n"
                    "        s = tl.where(i * T + at[None, :] < n, s, -1e6)\n",
                ),
            ),
            why="the loop masks every tile, too",
            value=_LAST,
        ),
        NearMiss(
            vary(PEELED_ROW, ("x + i * T + at)", "x + i * T + at, mask=i * T + at < n)")),
            why="the loop masks every tile, too",
            value=_LAST,
        ),
        NearMiss(PEELED_APART, why="the sum of the loop goes on without it", value=_LAST),
        NearMiss(WALKED_AGAIN, why="a loop of its own walks the masked tiles", value=_LAST),
        NearMiss(
            SKIPPED,
            why="the branch skips tiles, it chooses no mask",
            value="single loop + opaque branch (not split)",
        ),
        NearMiss(
            vary(
                LISTED,
                ("places[:, None] * W", "(j * T + at)[:, None] * W"),
                ("places = tl.load", "kinds = tl.load"),
                ("places[None, :] <= row", "kinds[None, :] <= row"),
            ),
            why="numbers that are no places are compared",
        ),
        NearMiss(
            TWO_PRODUCTS,
            why="the loop without a mask is another product, of other arrays",
            value="two explicit loops",
        ),
        NearMiss(SOFTMAX, why="rows are padded, no mask is evaluated"),
        NearMiss(SOFTMAX_POINTER, why="rows are padded, no mask is evaluated"),
        NearMiss(SOFTMAX_THREADS, why="rows are padded, no mask is evaluated"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        every = masks(facts)
        inside = [m for m in every if m.node.loop is not None]
        once = [m for m in every if m.node.loop is None]
        once = [m for m in once if any(between_lanes(facts, c) for c in m.comparisons)]
        if once and facts.contractions:
            nodes = [node for m in once for node in (m.node, *m.comparisons, m.combined)]
            yield self.decide(facts, "once, outside of the loops", nodes)
        peeled = [] if inside else self._peeled(facts, every)
        if peeled:
            yield self.decide(facts, _LAST, peeled)
            return
        if not inside:
            last = peeled_tails(facts)
            if last:
                nodes = [n for p in last for n in (p.loop, p.load.node, *p.tests)]
                yield self.decide(facts, _LAST, dict.fromkeys(nodes))
                return
            tails: list[Where] = [a for a in facts.loads if self._tail(facts, a)]
            kept = [n for group in kept_sides(facts).values() for n in group if n.loop is not None]
            if tails or kept:
                yield self.decide(facts, _EVERY, [*tails, *self._tests(facts), *kept])
            return
        loops = {loop for m in inside if (loop := tile_loop(facts, m.node)) is not None}
        plain = self._unmasked(facts, loops)
        twice = staged(facts, inside) if plain is None else []
        always = always_made(facts, inside, twice) if twice else []
        if sided := (twice or sided_twins(facts, inside)) if plain is None else []:
            yield self.decide(facts, _STAGED, sided)
            if always:
                yield self.decide(facts, _EVERY, always)
            return
        if (plain := plain or self._unmasked(facts, masked(facts, inside))) is not None:
            parts = (n for m in inside for n in (tile_loop(facts, m.node), m.node, m.combined))
            yield self.decide(facts, "two explicit loops", (plain.head, *parts))
            return
        if fewer := fewer_behind(facts, inside):
            yield self.decide(facts, "two explicit loops", fewer)
            return
        told: dict[str, list[Where]] = {}
        for mask in inside:
            guard = _guard(facts, mask)
            if guard is None:
                tests = [n for n in mask.comparisons if n.loops]
                told.setdefault(_EVERY, []).extend((mask.node, mask.combined, *tests))
                continue
            branch, compared = guard
            value = "single loop + opaque branch (not split)"
            if compared is not None:
                value = "single loop + iv>=bound branch (compiler splits)"
            told.setdefault(value, []).extend((branch, compared, *_bounds(facts, compared, mask)))
        for value, where in told.items():
            yield self.decide(facts, value, where)

    def _peeled(self, facts: Facts, every: list[Mask]) -> list[Node]:
        """Masks of a product outside of the loops that goes on with what a loop summed without a
        mask, with the branch around them."""
        loops = [loop.node for loop, _ in facts.accumulators()]
        after = [p for p in facts.contractions if p.loop is None] if loops else []
        ends = [p for p in after if self._goes_on(facts, p, loops)]
        found = [m for m in every if any(facts.graph.rests_on(p.result, m.node) for p in ends)]
        guards = [g for m in found for g in facts.guards(m.node)[:1]]
        return [*guards, *(n for m in found for n in (m.node, *m.comparisons))]

    def _goes_on(self, facts: Facts, product: Node, loops: list[Node]) -> bool:
        """True for a product that is added to what a loop leaves."""
        added = [n for n in facts.graph.users(product.result) if n.op.kind == OpKind.ADD]
        others = [v for n in added for v in n.op.inputs[:2] if v != product.result]
        given = [product.op.operand("acc"), *others]
        return any(facts.graph.rests_on(v, n) for v in given if v is not None for n in loops)

    def _tail(self, facts: Facts, access: Access) -> bool:
        """A load in a loop whose lanes are held below an extent that comes nearer, or that they
        come nearer to, with the loop."""
        return bool(self._held(facts, access))

    def _tests(self, facts: Facts) -> list[Node]:
        """The comparisons that hold the lanes of such loads, where they are made in the loop."""
        return [test for a in facts.loads for test in self._held(facts, a) if test.loops]

    def _held(self, facts: Facts, access: Access) -> list[Node]:
        if access.loop is None or facts.of_threads:
            return []
        return [
            test
            for test in comparisons(facts, access.mask)
            if against_extent(facts, test)
            and any(side.has(AtomKind.INDUCTION, AtomKind.COUNT) for side in sides(facts, test))
        ]

    def _unmasked(self, facts: Facts, loops: set[Node]) -> Node | None:
        """A loop other than these with as many products of what is loaded from the same arrays."""
        for loop in facts.loops:
            if loop.node in loops or any(node.inside(loop.node) for node in loops):
                continue
            count, arrays = _products(facts, loop.node), _arrays(facts, loop.node)
            for other in loops if count else ():
                shared = arrays & _arrays(facts, other)
                if count == _products(facts, other) and (shared or not arrays):
                    return loop.node
        return None


def _arrays(facts: Facts, loop: Node) -> set[str | None]:
    """The arrays that a loop loads from."""
    return {access.array for access in facts.loads if access.node.inside(loop)}


def _products(facts: Facts, loop: Node) -> int:
    return len([p for p in facts.contractions if p.inside(loop)])


def _guard(facts: Facts, mask: Mask) -> tuple[Node, Node | None] | None:
    """The branch in the loop that decides at run time whether the mask is made, and its plain
    comparison."""
    loop = mask.node.loop
    for branch in facts.guards(mask.node):
        if loop is None or not branch.inside(loop) or _whole_tile(facts, branch, loop):
            continue
        tests = [
            n
            for n in facts.graph.upstream(branch.op.inputs[0])
            if n.inside(loop) and n.op.kind in _ORDERED
        ]
        moving = [n for n in tests if facts.values.expr(n.op.inputs[0]).has(AtomKind.INDUCTION)
                  or facts.values.expr(n.op.inputs[1]).has(AtomKind.INDUCTION)]  # fmt: skip
        if not moving:
            continue
        plain = [n for n in moving if _splittable(facts, n, loop)]
        return branch, plain[0] if plain and _conjunct(facts, branch, plain[0]) else None
    return None


def _whole_tile(facts: Facts, branch: Node, loop: Node) -> bool:
    """True for a branch that holds all products of a loop on one of its sides: it skips a tile,
    with its mask."""
    inside = [p for p in facts.contractions if p.inside(loop)]
    sides = {region_of(p, branch) for p in inside}
    return len(sides) == 1 and None not in sides


def _conjunct(facts: Facts, branch: Node, test: Node) -> bool:
    """True when nothing but compile-time flags stands beside the comparison."""
    stop = (OpKind.AND, OpKind.OR, OpKind.NOT, OpKind.BIT_AND, OpKind.BIT_OR)
    leaves = [
        n
        for n in facts.graph.upstream(branch.op.inputs[0], lambda n: n.op.kind not in stop)
        if n.op.kind not in stop
    ]
    return leaves == [test]


def _splittable(facts: Facts, test: Node, loop: Node) -> bool:
    """True when one side is the loop variable itself, stepping by one, and the other is known
    before the loop."""
    found = facts.loop(loop)
    if found is None or (found.step is not None and facts.values.expr(found.step).constant != 1):
        return False
    for this, other in (test.op.inputs[:2], test.op.inputs[1::-1]):
        bound = facts.graph.producer(other)
        if facts.graph.through(this, COPIES) == found.induction and (
            bound is None or not bound.inside(loop)
        ):
            return True
    return False


def _bounds(facts: Facts, test: Node | None, mask: Mask) -> list[Node]:
    """The operations that choose the iteration from which on the mask is needed."""
    if test is None:
        return []
    found = []
    for side in test.op.inputs[:2]:
        for node in facts.graph.upstream(side, lambda n: n.op.kind not in _BOUND):
            if node.op.kind in _BOUND and not node.op.regions and node.op.kind not in CONTRACTIONS:
                found.append(node)
    return [n for n in found if mask.node.loop is None or not n.inside(mask.node.loop)]

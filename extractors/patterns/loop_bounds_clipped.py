"""How far a loop over keys or queries runs."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import (
    ATTENTION,
    ATTENTION_POINTER,
    BACKWARD_KEYS,
    PRODUCT,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_bounds import (
    ALL,
    BACKWARDS,
    CHUNK_SUM,
    COUNTED_WORK,
    DIAGONAL,
    DOWN,
    LAST,
    LATER,
    LISTED,
    LISTED_TILES,
    LOOKED_UP,
    PIECE,
    RAGGED,
    REST,
    SCORES_MASKED,
    STEPS,
    TABLE,
    TOKENS,
    UNCLIPPED,
    WINDOW,
    WRITTEN,
)
from extractors.patterns.cases_pointer import DECODE_PART, FLASH_STAGED
from extractors.patterns.cases_split import SPLIT
from extractors.patterns.cases_tensors import FLASH_TENSORS
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_ROW_THREADS, PRODUCT_THREADS
from extractors.patterns.cases_walks import ROWS_COUNTED_THREADS, ROWS_WALKED, ROWS_WALKED_TILE
from kb.analysis.facts import Facts
from kb.analysis.graph import Lines, Node
from kb.analysis.idioms import between_lanes, masks
from kb.analysis.lane_products import score_sums
from kb.analysis.last_part import last_is_shorter
from kb.analysis.least_ends import BOUND, least, least_end
from kb.analysis.loops import Loop, Role, limits, persistent
from kb.analysis.own_places import apart_from, own_places
from kb.analysis.own_walks import begun, rounds_counted, walked_tiles
from kb.analysis.specialise import branches
from kb.analysis.splits import fixed_length, over_own_row, pieces
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import OpKind

_SCALARS = (AtomKind.PARAMETER, AtomKind.LOADED)
_LOWER = "lower bound clipped (sliding window/causal dKdV)"


class LoopBoundsClipped(Pattern):
    """A bound depends on the block's own position, so that tiles without work are never visited."""

    name = "loop-bounds-clipped-by-mask-structure"
    axis = "loop_extent"
    source = "Dao, FlashAttention-2 (2023), section 3.1, causal masking"
    matches = (
        Case(ATTENTION, "upper bound clipped (causal)"),
        Case(COUNTED_WORK, "clipped to valid range"),
        Case(BACKWARD_KEYS, "lower bound clipped (sliding window/causal dKdV)"),
        Case(ATTENTION_POINTER, "upper bound clipped (causal)"),
        Case(UNCLIPPED, "full extent + mask"),
        Case(FLASH_THREADS, "upper bound clipped (causal)"),
        Case(FLASH_TENSORS, "upper bound clipped (causal)"),
        Case(LOOKED_UP, "clipped to valid range"),
        Case(FLASH_STAGED, "band clipping"),
        Case(LAST, "clipped to valid range"),
        Case(STEPS, "clipped to valid range"),
        Case(WINDOW, "band clipping"),
        Case(LISTED, "clipped to valid range"),
        Case(DIAGONAL, "band clipping"),
        Case(REST, _LOWER),
        Case(ALL, "full extent + mask"),
        Case(PIECE, "clipped to valid range"),
        Case(WRITTEN, "clipped to valid range"),
        Case(LATER, _LOWER),
        Case(RAGGED, "upper bound clipped (causal)"),
        Case(DOWN, "clipped to valid range"),
        Case(TOKENS, "clipped to valid range"),
        Case(LISTED_TILES, "upper bound clipped (causal)"),
        Case(BACKWARDS, "upper bound clipped (causal)"),
        Case(SCORES_MASKED, "full extent + mask"),
        Case(CHUNK_SUM, "clipped to valid range"),
        Case(ROWS_COUNTED_THREADS, "clipped to valid range"),
        Case(ROWS_WALKED, "clipped to valid range"),
        Case(ROWS_WALKED_TILE, "clipped to valid range"),
    )
    near_misses = (
        NearMiss(vary(ROWS_WALKED, (" & (row < n)", "")), why="every block walks as many rows"),
        NearMiss(vary(ROWS_WALKED_TILE, ("row < end and ", "")), why="the problem alone ends it"),
        NearMiss(
            FLASH_TENSORS.replace("int t = blockIdx.x;", "int t = length / 64;"),
            why="every block walks all tiles",
            value="upper bound clipped (causal)",
        ),
        NearMiss(
            vary(ROWS_COUNTED_THREADS, ("min(row + 16, h)", "row + 16")),
            why="every block walks as many rows",
        ),
        NearMiss(SPLIT, why="every block takes as many tiles"),
        NearMiss(
            CHUNK_SUM, why="all chunks are alike but the last", value="upper bound clipped (causal)"
        ),
        NearMiss(PRODUCT_ROW_THREADS, why="every block walks its own rows to their end"),
        NearMiss(
            vary(DECODE_PART, ("range(low, high, T)", "range(0, 128, T)")),
            why="every block walks the same keys",
            value="clipped to valid range",
        ),
        NearMiss(DECODE_PART, why="the piece begins where the block id says", value=_LOWER),
        NearMiss(
            vary(
                PRODUCT_POINTER,
                ("    acc = tl.zeros(", "    at = tl.program_id(2) * 8 * TK\n    acc = tl.zeros("),
                ("for t in range(0, tl.cdiv(K, TK))", "for t in range(8)"),
                ("K - t * TK", "K - at"),
                ("        pa += TK\n", "        pa += TK\n        at += TK\n"),
            ),
            why="a part of the sum for every block, no mask between rows and columns",
        ),
        NearMiss(
            vary(LOOKED_UP, (TABLE, "range(0, tl.cdiv(K, TK))")),
            why="the bound is the whole extent and nothing is masked",
        ),
        NearMiss(
            vary(STEPS, ("tl.minimum(at + T, n)", "at + T")),
            why="every block takes as many",
        ),
        NearMiss(
            vary(ALL, (", mask=cols[:, None] < size, other=0.0", "")),
            why="the bound is the whole extent and nothing is masked",
        ),
        NearMiss(
            vary(RAGGED, ("tl.minimum((x + 1) * TM, size) if TRI else size", "size")),
            why="the length alone ends the loop",
            value="upper bound clipped (causal)",
        ),
        NearMiss(
            vary(TOKENS, ("tl.load(lengths + row)", "tl.load(lengths)")),
            why="every block walks as far",
        ),
        NearMiss(
            vary(DOWN, ("tl.load(lengths + tl.program_id(0))", "tl.cdiv(K, TK)")),
            why="the bound is the whole extent",
        ),
        NearMiss(PRODUCT, why="the bound is the whole extent and nothing is masked"),
        NearMiss(PRODUCT_POINTER, why="the bound is the whole extent and nothing is masked"),
        NearMiss(PRODUCT_THREADS, why="the bound is the whole extent and nothing is masked"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        clipped: dict[tuple[str, Lines], list[Where]] = {}
        causal = [m for m in masks(facts) if any(between_lanes(facts, c) for c in m.comparisons)]
        split = [piece.loop for piece in pieces(facts)]
        products = facts.contractions or score_sums(facts)
        rests: list[Where] = []
        for loop in facts.loops:
            if persistent(loop, facts.values) or loop.range is None:
                rests += _loaded_end(facts, loop) or least_end(facts, loop)
                continue
            ends = least(facts, loop)
            multiplies = any(p.inside(loop.node) for p in products)
            if ends and not (multiplies and facts.contractions):
                rests += [*ends, loop.node]
            if facts.walks_chunk(loop):
                continue
            first, last = (begun(facts, v) for v in limits(loop, facts.values))
            if not multiplies:
                bounds = [] if ends or facts.of_threads else _streamed(facts, loop, first, last)
                rests += [*bounds, loop.node.head] if bounds else []
                continue
            if over_own_row(facts, loop):
                continue
            low, high = _clipped(facts, first), _clipped(facts, last)
            high = high or (_beside(facts, last) if low else [])
            own = _own_band(facts, loop)
            if last_is_shorter(facts.values.expr(last)) and not low:
                rests += [*ends, *high, loop.node.head]
            elif loop in split and low:
                if not fixed_length(facts, loop):
                    low += [*high, *rounds_counted(facts, loop)]
                    yield self.decide(facts, "clipped to valid range", (*low, loop.node))
            elif low or high:
                value = _LOWER if _falls(facts, loop) else _value(low, high)
                same = clipped.setdefault((value, loop.node.lines), [])
                same += [*low, *high, loop.node.head, *_stages(facts, loop)]
            elif own and any(m.node.inside(loop.node) for m in causal):
                yield self.decide(facts, "band clipping", (*own, loop.node.head))
            elif bounds := _looked_up(facts, first, last):
                ends = [n for v in (first, last) for n in _beside(facts, v)]
                value = "upper bound clipped (causal)" if ends else "clipped to valid range"
                bounds += [*ends, *rounds_counted(facts, loop)]
                yield self.decide(facts, value, (*bounds, loop.node.head))
            elif self._innermost(facts, loop) and masked_keys(facts, loop):
                if any(x.low and facts.graph.rests_on(x.low, loop.node) for x in facts.loops):
                    continue  # Another loop goes on where this one ends.
                around = [*walked_tiles(facts, loop), *rounds_counted(facts, loop)]
                yield self.decide(facts, "full extent + mask", (loop.node, *around))
        if rests:
            yield self.decide(facts, "clipped to valid range", rests)
        for (value, _), places in clipped.items():
            yield self.decide(facts, value, places)
        for loop in split:
            moved = _moved(facts, loop)
            if moved:
                yield self.decide(facts, _LOWER, (*moved, loop.node))
        shifted = self._aligned(facts)
        if shifted:
            yield self.decide(facts, "bottom-right alignment by a runtime offset", shifted)

    def _innermost(self, facts: Facts, loop: Loop) -> bool:
        return any(p.loop is loop.node for p in facts.contractions)

    def _aligned(self, facts: Facts) -> list[Node]:
        """A number, given or loaded, is added both to positions in a mask and to a clipped
        bound."""
        scalars = {
            p.name for p in facts.kernel.entry.parameters if p.kind is not ParameterKind.CONSTEXPR
        } | {a.value for a in facts.loads if not a.node.loops}
        compared = [c for m in masks(facts) for c in m.comparisons if between_lanes(facts, c)]
        shifts = {
            name
            for c in compared
            for v in c.op.inputs[:2]
            for name in _added(facts.values.expr(v), scalars)
        }
        bounds = [
            n for loop in facts.loops for b in (loop.low, loop.high) for n in _clipped(facts, b)
        ]
        moved = {name for n in bounds for name in _inside(facts.values.expr(n.result), scalars)}
        both = shifts & moved
        if not both:
            return []
        return [
            n
            for n in facts.graph.of(OpKind.ADD)
            if any(facts.graph.core(v) in both for v in n.op.inputs[:2])
        ]


def masked_keys(facts: Facts, loop: Loop) -> bool:
    """True when scores of all keys are computed and masked, or loads beside them are."""
    scored = any(p.inside(loop.node) for p in facts.score_products)
    return any(
        m.node.inside(loop.node) and (scored or any(between_lanes(facts, c) for c in m.comparisons))
        for m in masks(facts)
    ) or (scored and any(a.mask is not None and a.node.inside(loop.node) for a in facts.loads))


def _looked_up(facts: Facts, low: str | None, high: str | None) -> list[Node]:
    """The loads of the ends of a loop of which the last, or without a product the first, is loaded
    from a place that the block id chooses, or rests on such a number."""
    begins, ends = _loaded(facts, low), _loaded(facts, high)
    return [*begins, *ends] if ends or (begins and not facts.contractions) else []


def _streamed(facts: Facts, loop: Loop, low: str | None, high: str | None) -> list[Node]:
    """Loaded ends of a loop that reads in every round, or of tiles that it stores."""
    bounds = _looked_up(facts, low, high)
    touched = facts.loads if facts.of_threads else facts.accesses
    return bounds if bounds and any(a.loop is loop.node for a in touched) else []


def _value(low: list[Node], high: list[Node]) -> str:
    if low and high:
        return "band clipping"
    return "upper bound clipped (causal)" if high else _LOWER


def _falls(facts: Facts, loop: Loop) -> bool:
    """True when the number of rounds, counted from zero, is the less the further on the block is:
    what comes before its tile is left out."""
    if loop.high is None or facts.values.expr(loop.low).constant != 0:
        return False
    count = facts.values.expr(loop.high)
    divided = (AtomKind.FLOOR_DIV, AtomKind.CEIL_DIV)
    parts = (count, *(a.args[0] for a in count.top() if a.kind in divided))
    terms = [row for part in parts for row in part.terms]
    return any(n < 0 and any(a.kind is AtomKind.BLOCK for a in f) for f, n in terms)


def _added(expr: Expr, scalars: set[str]) -> set[str]:
    if not expr.has(AtomKind.LANE, AtomKind.INDUCTION):
        return set()
    return {f[0].value for f, _ in expr.terms if len(f) == 1 and f[0].kind in _SCALARS} & scalars


def _inside(expr: Expr, scalars: set[str]) -> set[str]:
    return {a.value for a in expr.atoms() if a.kind in _SCALARS} & scalars


def _clipped(facts: Facts, bound: str | None) -> list[Node]:
    """The operations of a bound that rest on the block's own position, when the bound is clipped
    by it."""
    if bound is None:
        return []
    own = own_places(facts)
    atoms = [*apart_from(facts.values.expr(bound), own)]
    if not any(a.kind is AtomKind.BLOCK or a in own for a in atoms):
        return []
    if any(a.kind is AtomKind.LOADED and a not in own for a in atoms) and _loaded(facts, bound):
        return []
    made = facts.graph.producer(facts.graph.core(bound))
    if made is not None and made.op.kind in (OpKind.MOD, OpKind.BLOCK_ID):
        return [made]
    return [
        n
        for n in facts.graph.upstream(bound, lambda n: n.op.kind not in BOUND)
        if n.op.kind in BOUND and not n.op.regions and not _decoded(facts, n)
        and any(a.kind is AtomKind.BLOCK or a in own for a in facts.values.expr(n.result).atoms())
    ]  # fmt: skip


def _moved(facts: Facts, loop: Loop) -> list[Node]:
    """The maxima that move the begin of a block's piece, where positions are counted from it."""
    step = facts.values.expr(loop.induction).atom
    inside = [a for a in facts.loads if a.node.inside(loop.node)] if step is not None else []
    places = [index for a in inside for index in a.index if step in set(index.top())]
    begins = {a for index in places for a in index.atoms() if a.kind is AtomKind.MAXIMUM}
    if loop.low is not None:
        begins |= {a for a in facts.values.expr(loop.low).atoms() if a.kind is AtomKind.MAXIMUM}
    return [n for n in facts.graph.of(OpKind.MAXIMUM) if facts.values.expr(n.result).atom in begins]


def _own_band(facts: Facts, loop: Loop) -> list[Node]:
    """The operations that give the first position and the number of rounds of a loop with a fixed
    number of rounds that begins at the block's own tile."""
    if loop.high is None or not facts.values.compile_time(facts.values.expr(loop.high)):
        return []
    begun = [c.init for c in loop.of(Role.COUNTER) if not _pointer(facts, c.init)]
    placed = [v for v in begun if facts.values.expr(v).has(AtomKind.BLOCK)]
    return [
        n
        for v in ((*placed, loop.high) if placed else ())
        for n in facts.graph.upstream(v, lambda n: n.op.kind not in BOUND)
        if n.op.kind in BOUND and not n.op.regions
    ]


def _pointer(facts: Facts, value: str) -> bool:
    return bool(facts.types.shape(value)) or facts.types.of(value).kind in ("pointer", "array")


def _stages(facts: Facts, loop: Loop) -> list[Node]:
    """The compile-time branches around a loop that is written once and stands in two of them."""
    again = [x for x in facts.loops if x is not loop and x.node.lines == loop.node.lines]
    chosen = [b.node for b in branches(facts)]
    return [g for g in facts.guards(loop.node) if g in chosen] if again else []


def _loaded(facts: Facts, bound: str | None) -> list[Node]:
    """The loads of a bound, where a block id, or the number of an item of a loop around, says which
    number is loaded."""
    if bound is None or not facts.values.expr(bound).has(AtomKind.LOADED):
        return []
    placed = (AtomKind.BLOCK, AtomKind.INDUCTION)
    return [a.node for a in facts.feeding(bound) if any(i.has(*placed) for i in a.index)]


def _beside(facts: Facts, bound: str | None) -> list[Node]:
    """Where a bound that rests on a loaded length ends, or begins, at the block's own position, if
    that comes first, with the rounds counted from there."""
    if bound is None:
        return []
    way = [*facts.graph.upstream(bound, lambda n: n.op.kind not in BOUND)]
    ends = [
        n
        for n in way
        if n.op.kind in (OpKind.MINIMUM, OpKind.MAXIMUM)
        and any(facts.values.expr(v).has(AtomKind.BLOCK) for v in n.op.inputs[:2])
    ]
    counted = (OpKind.CEIL_DIV, OpKind.FLOOR_DIV)
    return [*ends, *(n for n in way if n.op.kind in counted)] if ends else []


def _decoded(facts: Facts, node: Node) -> bool:
    """True for the steps that take a block id apart."""
    first = facts.values.expr(node.op.inputs[0]).atom
    block = first is not None and first.kind is AtomKind.BLOCK
    return block and node.op.kind == OpKind.FLOOR_DIV


def _loaded_end(facts: Facts, loop: Loop) -> list[Where]:
    """The loaded numbers that end the walk of all blocks over the work, with the loop."""
    ends = [] if facts.of_threads else facts.feeding(loop.high)
    ends = [a for a in ends if not (a.node.inside(loop.node) or facts.types.shape(a.value))]
    return [*ends, loop.node.head] if ends else []

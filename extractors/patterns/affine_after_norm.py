"""What the normalised row is multiplied and shifted by."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_norms_threads import (
    ROTATED_ROW_THREADS,
    WEIGHED_AND_ROTATED_THREADS,
    WITH_RESIDUAL_THREADS,
)
from extractors.patterns.cases_rows import (
    LAYER_NORM_POINTER,
    NORM_BACKWARD,
    NORM_PERSISTENT,
    ROW_NORM,
    RUNNING_NORM,
    SOFTMAX,
)
from extractors.patterns.cases_rows_kept import CENTRED_THREADS
from extractors.patterns.cases_rows_pointer import NORM_BACKWARD_LOCKED, RECURRENCE, SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import (
    NORM_BACKWARD_SHARED,
    ROW_NORM_THREADS,
    SOFTMAX_THREADS,
)
from extractors.patterns.cases_split import SPLIT_LANES_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import CASTS, COPIES, VIEWS, Node
from kb.analysis.normalisations import (
    Normalisation,
    normalisations,
    of_own_row,
    scaled_by,
    start_of,
    starts,
    turned,
)
from kb.analysis.rebuilt import coefficients, normalised
from kb.analysis.symbolic import AtomKind, sub
from kb.evidence import Decision
from kb.ops import READS, OpKind

_THROUGH = VIEWS | CASTS | {OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT, OpKind.INSERT,
                             OpKind.COPY, OpKind.MUL, OpKind.ADD, OpKind.SUB, OpKind.FMA,
                             OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.DIV, OpKind.FLOOR,
                             OpKind.CEIL, OpKind.TANH, OpKind.SIGMOID, OpKind.ERF, OpKind.EXP,
                             OpKind.NEG, OpKind.VECTOR, OpKind.BITCAST,
                             OpKind.ATTRIBUTE}  # fmt: skip


_SHIFTED = (
    ("TN: Int):", "TN: Int, offset: ct.Constant[float]):"),
    ("dy * g\n", "dy * (g + offset)\n"),
)
_CHOSEN = vary(
    LAYER_NORM_POINTER,
    ("T: tl.constexpr", "T: tl.constexpr, HAS: tl.constexpr"),
    ("(c * r * g + h).to", "(c * r * g + h if HAS else c * r * g).to"),
)
_ROWS = vary(
    NORM_BACKWARD_LOCKED,
    (
        "    v = tl.load(x + own * sx + cols,",
        "    g = tl.load(w + own * N + cols, mask=cols < N, other=0.0)\n"
        "    for i in range(own * G, own * G + G):\n"
        "      r = tl.load(stat + i)\n      v = tl.load(x + i * sx + cols,",
    ),
    ("    dy = tl.load(gy + own * sx", "      dy = tl.load(gy + i * sx"),
    (
        "    g = tl.load(w + cols, mask=cols < N, other=0.0).to(tl.float32)\n"
        "    r = tl.load(stat + own)\n    hat",
        "      hat",
    ),
    ("load(means + own)", "load(means + i)"),
    ("    wdy =", "      wdy ="),
    ("    c = tl.sum", "      c = tl.sum"),
    ("    d = tl.sum", "      d = tl.sum"),
    ("    tl.store(gx + own * sx", "      tl.store(gx + i * sx"),
)
_CHANNELS = (
    POINTER
    + """
@triton.jit
def back(gx, gy, x, w, means, stat, gw, sx, L, C: tl.constexpr, T: tl.constexpr):
    own = tl.program_id(0)
    mean = tl.load(means + own)
    r = tl.load(stat + own)
    c = 0.0
    at = tl.arange(0, T)
    for channel in range(own * C, own * C + C):
        g = tl.load(w + channel)
        v = tl.load(x + channel * sx + at, mask=at < L, other=0.0)
        dy = tl.load(gy + channel * sx + at, mask=at < L, other=0.0)
        hat = (v - mean) * r
        wdy = g * dy
        c += tl.sum(hat * wdy)
        tl.atomic_add(gw + channel, tl.sum(dy * hat))
    for channel in range(own * C, own * C + C):
        g = tl.load(w + channel)
        v = tl.load(x + channel * sx + at, mask=at < L, other=0.0)
        dy = tl.load(gy + channel * sx + at, mask=at < L, other=0.0)
        hat = (v - mean) * r
        tl.store(gx + channel * sx + at, (g * dy - hat * c) * r, mask=at < L)
"""
)


_VECTORS = """struct Four { float at[4]; };
__global__ void norm(const Four* x, const Four* w, Four* out, int n, float eps) {
    float part = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) {
        Four v = x[blockIdx.x * n + i];
        #pragma unroll
        for (int k = 0; k < 4; k++) part += v.at[k] * v.at[k];
    }
    for (int o = 16; o > 0; o /= 2) part += __shfl_xor_sync(0xffffffff, part, o);
    float r = rsqrtf(part / (4 * n) + eps);
    for (int i = threadIdx.x; i < n; i += 32) {
        Four v = x[blockIdx.x * n + i], u;
        if (w != nullptr) {
            #pragma unroll
            for (int k = 0; k < 4; k++) u.at[k] = w[i].at[k] * (r * v.at[k]);
        } else {
            #pragma unroll
            for (int k = 0; k < 4; k++) u.at[k] = r * v.at[k];
        }
        out[blockIdx.x * n + i] = u;
    }
}
"""
_KEEPING = HELD | COPIES | READS | {
    OpKind.FOR, OpKind.EXTRACT, OpKind.INSERT, OpKind.ATTRIBUTE, OpKind.SELECT, OpKind.UNDEF,
}  # fmt: skip
MAX_KEPT = 64
"""Values that a kept element is followed through."""


class AffineAfterNorm(Pattern):
    """A product with another loaded row, perhaps shifted by a number, and a sum with a third. In a
    backward pass the gradient is multiplied."""

    name = "affine-after-normalisation"
    axis = "affine"
    source = "Ba et al., Layer Normalization (2016), gain and bias"
    matches = (
        Case(ROW_NORM, "weight"),
        Case(NORM_PERSISTENT, "weight"),
        Case(LAYER_NORM_POINTER, "weight and bias"),
        Case(
            vary(LAYER_NORM_POINTER, ("(c * r * g + h)", "tl.sigmoid(c * r * g + h)")),
            "weight and bias",
        ),
        Case(vary(ROW_NORM, ("v * r * g", "v * r * (1.0 + g)")), "weight + offset"),
        Case(vary(ROW_NORM, ("v * r * g", "v * r")), "none"),
        Case(ROW_NORM_THREADS, "weight"),
        Case(vary(NORM_BACKWARD, *_SHIFTED), "weight + offset"),
        Case(RUNNING_NORM, "weight and bias"),
        Case(NORM_BACKWARD, "weight"),
        Case(vary(NORM_BACKWARD_LOCKED, ("wdy = dy * g", "wdy = (dy + dy) * g")), "weight"),
        Case(NORM_BACKWARD_LOCKED, "weight"),
        Case(NORM_BACKWARD_SHARED, "weight"),
        Case(_VECTORS, "weight"),
        Case(_CHOSEN, "weight and bias"),
        Case(WITH_RESIDUAL_THREADS, "weight"),
        Case(ROTATED_ROW_THREADS, "none"),
        Case(WEIGHED_AND_ROTATED_THREADS, "weight"),
        Case(CENTRED_THREADS, "none"),
        Case(
            vary(
                LAYER_NORM_POINTER,
                ("(c * r * g + h).to", "(tl.floor((c * r * g + h) / 0.5) * 0.5).to"),
            ),
            "weight and bias",
        ),
        Case(_ROWS, "weight"),
        Case(_CHANNELS, "weight"),
        Case(
            vary(
                NORM_BACKWARD,
                _SHIFTED[0],
                ("dy * g\n", "dy * (g + ct.full((TN,), offset, dtype=ct.float32))\n"),
            ),
            "weight + offset",
        ),
    )
    near_misses = (
        NearMiss(SPLIT_LANES_POINTER, why="numbers out of words times a vector, summed at once"),
        NearMiss(RECURRENCE, why="sums over unit vectors are stored, no normalised row"),
        NearMiss(NORM_BACKWARD, why="the weight enters as it was loaded", value="weight + offset"),
        NearMiss(
            vary(NORM_BACKWARD_LOCKED, ("wdy = dy * g", "wdy = dy")),
            why="the gradient takes no weight in",
        ),
        NearMiss(
            vary(NORM_BACKWARD_SHARED, ("w[i] * dy", "w[row * n + i] * dy")),
            why="every row has factors of its own",
        ),
        NearMiss(vary(_ROWS, ("wdy = dy * g", "wdy = dy")), why="the gradient takes no weight in"),
        NearMiss(
            vary(_CHANNELS, ("g * dy", "dy")),
            why="what is loaded for each channel multiplies nothing",
        ),
        NearMiss(WITH_RESIDUAL_THREADS, why="rows have their residuals", value="weight and bias"),
        NearMiss(SOFTMAX, why="no normalisation by a root"),
        NearMiss(SOFTMAX_POINTER, why="no normalisation by a root"),
        NearMiss(SOFTMAX_THREADS, why="no normalisation by a root"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        told: dict[str, list[Where]] = {}
        stored: set[str | None] = set()
        for norm in normalisations(facts):
            made = [s for s in facts.stores if facts.graph.rests_on(s.value, norm.root)]
            wide = [s for s in made if len(facts.types.shape(s.value)) > 0]
            if told and (stored & {s.array for s in wide} or not wide):
                continue  # of one result; every array that is normalised by itself has its own
            if not wide:
                return
            gains = self._others(facts, wide, norm, OpKind.MUL)
            shifts = self._others(facts, wide, norm, OpKind.ADD)
            shifts = [n for n in shifts if not of_own_row(facts, n, wide, norm.root)]
            if not (gains or shifts) and _summed_again(facts, norm, wide):
                return
            stored |= {s.array for s in wide}
            value, where = self._value(facts, norm.root, gains, shifts, wide)
            told.setdefault(value, []).extend(where)
        for value, places in told.items():
            yield self.decide(facts, value, places)
        if told:
            return
        moved = [n for n in facts.graph.of(OpKind.ADD) if self._moved(facts, n)]
        if moved:
            yield self.decide(facts, "weight + offset", moved)
            return
        gains = [n for n in facts.graph.of(OpKind.MUL) if self._gains(facts, n)]
        gains = gains or self._by_channel(facts)
        if gains and (normalised(facts) or coefficients(facts)):
            yield self.decide(facts, "weight", gains)

    def _gains(self, facts: Facts, node: Node) -> bool:
        """A loaded row of the block's own times one that every block reads alike."""
        for row, gain in (node.op.inputs[:2], node.op.inputs[1::-1]):
            held, own = facts.held_loads(gain) or _kept(facts, gain), facts.feeding(row)
            shape = facts.types.shape(gain)
            if not held or not shape or not any(_of_block(facts, a) for a in own):
                continue
            walks = any(_walked(a) for a in own) and shape[-1] != "1"
            still = all(not _of_block(facts, a) or _column(a, own) for a in held)
            moved = any(_walked(a) or _of_item(facts, a) for a in held)
            if still or (walks and not moved):
                return True
        return False

    def _by_channel(self, facts: Facts) -> list[Node]:
        """Loaded rows times a number that a loop over channels loads, beside numbers that are
        loaded once, as the statistics of a group are."""
        found: dict[bool, list[Node]] = {True: [], False: []}
        for node in facts.graph.of(OpKind.MUL):
            for row, number in (node.op.inputs[:2], node.op.inputs[1::-1]):
                held = facts.held_loads(number)
                if held and not facts.types.shape(number) and facts.types.shape(row):
                    walked = any(map(_walked, held))
                    if not walked or facts.held_loads(row):
                        found[walked].append(node)
        return found[True] if found[False] else []

    def _moved(self, facts: Facts, node: Node) -> bool:
        """A row that every block reads alike, plus a number that was handed in, on its way to be
        multiplied with a row of the block's own."""
        if facts.contractions or not facts.reductions:
            return False
        for row, number in (node.op.inputs[:2], node.op.inputs[1::-1]):
            held = facts.held_loads(row)
            still = held and not any(i.has(AtomKind.BLOCK) for a in held for i in a.index)
            core = facts.graph.core(number)
            filled = facts.graph.producer(core)
            if filled is not None and filled.op.kind == OpKind.FULL:
                core = facts.graph.core(filled.op.operand("value"))
            handed = core in facts.graph.function.parameter_names
            if still and handed and facts.types.shape(row):
                users = facts.graph.downstream(node.result, 8)
                return any(n.op.kind == OpKind.MUL for n in users)
        return False

    def _others(
        self, facts: Facts, stores: list[Access], norm: Normalisation, kind: str
    ) -> list[Node]:
        """Operations on the way to the output that take another array's load in, from outside the
        row."""
        own = starts(facts, norm)
        found = []
        for store in stores:
            for node in facts.graph.upstream(store.value, lambda n: not _passes(facts, n)):
                if node.op.kind != kind or turned(facts, node, norm.root, own):
                    continue
                sides = [
                    {start_of(facts, a) for a in facts.feeding(v)} - self._of_root(facts, norm, v)
                    for v in node.op.inputs[:2]
                ]
                if any(side and not side & own for side in sides) and any(
                    side & own for side in sides
                ):
                    found.append(node)
        return found

    def _of_root(self, facts: Facts, norm: Normalisation, value: str) -> set[str | None]:
        """Arrays that only the root brings in."""
        if norm.sums or not facts.graph.rests_on(value, norm.root):
            return set()
        return {start_of(facts, a) for a in facts.feeding(norm.root.result)}

    def _value(
        self, facts: Facts, root: Node, gains: list[Node], shifts: list[Node], stores: list[Access]
    ) -> tuple[str, list[Node | Access]]:
        row = facts.feeding(root.result)
        own = {a.array or a.node for a in row} | {a.node for a in row}
        taken = (v for n in (*gains, *shifts) for v in n.op.inputs[:2])
        loads = [a for v in taken for a in facts.held_loads(v) if not {a.array, a.node} & own]
        if gains and shifts:
            return "weight and bias", [*gains, *shifts, *loads]
        if not gains:
            scaled = [n for n in facts.graph.of(OpKind.MUL) if scaled_by(facts, n, root)]
            return ("bias", [*shifts, *loads]) if shifts else ("none", [*scaled, *stores])
        for gain in gains:
            for value in gain.op.inputs[:2]:
                made = facts.graph.producer(facts.graph.core(value))
                if (
                    made is not None
                    and made.op.kind == OpKind.ADD
                    and not facts.graph.rests_on(value, root)
                ):
                    return "weight + offset", [made, gain, *loads]
        return "weight", [*gains, *loads]


def _passes(facts: Facts, node: Node) -> bool:
    """True for what hands single elements on: also a loop over the elements of a vector."""
    if node.op.kind != OpKind.FOR:
        return node.op.kind in _THROUGH
    walked = facts.graph.producer(node.op.inputs[0])
    return walked is not None and walked.op.kind == OpKind.STATIC_RANGE


def _column(gain: Access, rows: list[Access]) -> bool:
    """True for a load that a loop moves as it moves one along the own row: that of the column."""
    if len(gain.index) != 1 or gain.index[0].has(AtomKind.BLOCK, AtomKind.OPAQUE):
        return False
    walked = {a for a in gain.index[0].atoms() if a.kind is AtomKind.INDUCTION}
    starts = [sub(a.index[0], gain.index[0]) for a in rows if len(a.index) == 1]
    moved = (AtomKind.BLOCK, AtomKind.INDUCTION)
    return any(
        any(start.has(kind) for kind in moved) and not walked & {*start.atoms()} for start in starts
    )


def _walked(access: Access) -> bool:
    """True when a loop moves an access."""
    return any(i.has(AtomKind.INDUCTION) for i in access.index)


def _kept(facts: Facts, value: str) -> list[Access]:
    """The load of a value that a thread kept in an array of its own, filled by a loop before."""
    pending, found = [value], dict[Node, None]()
    for current in pending if facts.of_threads else ():
        node = facts.graph.producer(current)
        if len(pending) > MAX_KEPT or (node is not None and node.op.kind not in _KEEPING):
            return []
        if node is None or node.op.regions:
            feeds = list(facts.graph.feeds(current))
        elif node.op.kind in READS:
            found[node], feeds = None, []
        else:
            feeds = [v for role, v in node.op.operands if role in ("x", "y", "value")]
        pending += [v for v in feeds if v not in pending]
    loads = [a for n in found if (a := facts.access(n)) is not None]
    return loads if len(loads) == 1 else []


def _of_block(facts: Facts, access: Access) -> bool:
    """True when the block id, or a loop over rows, moves an access; where it lies may be counted on
    in a way that only shows that a row of that loop does."""
    known = any(i.has(AtomKind.BLOCK) or i.has(AtomKind.INDUCTION) for i in access.index)
    return known or _of_item(facts, access)


def _of_item(facts: Facts, access: Access) -> bool:
    """True for a place of unknown form in a loop over rows."""
    unknown = any(i.has(AtomKind.OPAQUE) for i in access.index)
    return unknown and any(access.node.inside(loop.node) for loop in facts.item_loops)


def _summed_again(facts: Facts, norm: Normalisation, stores: list[Access]) -> bool:
    """True when sums over what was normalised are stored, not the row itself."""
    later = [r for r in facts.reductions if facts.graph.rests_on(r.op.inputs[0], norm.root)]
    return bool(later) and all(any(facts.graph.rests_on(s.value, r) for r in later) for s in stores)

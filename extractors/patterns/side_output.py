"""What a kernel stores beside its output."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_LSE, POINTER, PRODUCT, vary
from extractors.patterns.cases_counters import REPLAYED_THREADS
from extractors.patterns.cases_merges import GATED_THREADS, MERGE_LOOP_THREADS
from extractors.patterns.cases_norms_threads import SCORES_THREADS
from extractors.patterns.cases_rows import (
    ADD_POINTER,
    LAYER_NORM_POINTER,
    NORM_BACKWARD,
    ROW_NORM,
    RUNNING_NORM,
)
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS
from extractors.patterns.cases_scales import LARGEST_POINTER, NEAREST_THREADS, PACKED_SCALE
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.norm_kind import ONE_STEP
from extractors.patterns.operand_under_flag import flagged, one_side
from extractors.patterns.parameter_gradient import COLUMNS, summed_over_rows
from extractors.patterns.stored_scale import QUANTISE, divided_by_largest, kept_scales
from kb.analysis.accesses import Access, Mode
from kb.analysis.carried_sums import leads
from kb.analysis.chosen_positions import chosen_positions
from kb.analysis.composed_sums import left_by_states
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.analysis.loops import Loop
from kb.analysis.merging import LOGARITHMS, log_sums
from kb.analysis.normalisations import normalisations
from kb.analysis.rebuilt import backward
from kb.analysis.record_fields import field_of
from kb.analysis.row_chunks import of_rounds
from kb.analysis.specialise import branches
from kb.analysis.symbolic import ONE, Atom, AtomKind
from kb.analysis.types import broadcast
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

_STATE = (
    POINTER
    + """
@triton.jit
def scan(x, out, last, n, s, T: tl.constexpr, KEEP: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    h = tl.zeros([T], tl.float32)
    for t in range(n):
        h = h * 0.5 + tl.load(x + t * s + at)
        tl.store(out + t * s + at, tl.exp(h))
    if KEEP:
        tl.store(last + at, h)
"""
)
_TOTALS = (
    POINTER
    + """
@triton.jit
def scan(x, out, totals, n, T: tl.constexpr):
    own = tl.program_id(0)
    at = own * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, tl.cumsum(v, axis=0), mask=at < n)
    tl.store(totals + own, tl.sum(v, axis=0))
"""
)
_SUM = vary(_STATE, ("tl.exp(h)", "tl.load(x + t * s + at) * 2.0"), ("    if KEEP:\n    ", ""))
_KEPT = (
    POINTER
    + """
@triton.jit
def step(x, state, out, last, T: tl.constexpr, KEEP: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    h = tl.load(state + at) * 0.5 + tl.load(x + at)
    tl.store(out + at, tl.exp(h))
    if KEEP:
        tl.store(last + at, h)
"""
)

_ROUNDED_SCALE = (
    POINTER
    + """
@triton.jit
def scale(x, out, scales, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    top = tl.max(tl.abs(v), axis=0)
    by = top / 448.0
    tl.store(out + tl.program_id(0) * n + at, (v / by).to(tl.float8e4nv), mask=at < n)
    tl.store(scales + tl.program_id(0), by)
"""
)
_LOSS = (
    POINTER
    + """
@triton.jit
def loss(x, label, out, stat, n, step, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * step + at, mask=at < n, other=-float("inf"))
    top = tl.max(v, 0)
    total = top + tl.log(tl.sum(tl.exp(v - top), 0))
    tl.store(stat + row, total)
    tl.store(out + row, total - tl.load(x + row * step + tl.load(label + row)))
"""
)
_PLACES = "positions of the chosen elements"
_ASKING = frozenset({OpKind.AND, OpKind.IF_EXPRESSION, OpKind.CAST, OpKind.COPY})


class SideOutput(Pattern):
    """Stores that are narrower than the output and computed from a reduction."""

    name = "statistics-stored-beside-the-output"
    axis = "side_output"
    source = "tilelore catalogue, axis side_output; Dao et al., FlashAttention (2022)"
    matches = (
        Case(ATTENTION_LSE, "log-sum-exp"),
        Case(LAYER_NORM_POINTER, "statistics saved for backward"),
        Case(ROW_NORM, "statistics saved for backward"),
        Case(ATTENTION, "none"),
        Case(RUNNING_NORM, "statistics saved for backward"),
        Case(LAYER_NORM_THREADS, "statistics saved for backward"),
        Case(MERGE_LOOP_THREADS, "log-sum-exp"),
        Case(_LOSS, "log-sum-exp"),
        Case(_STATE, "final state"),
        Case(vary(_STATE, ("at, h)", "at[None, :], tl.trans(h[:, None]))")), "final state"),
        Case(_KEPT, "on request"),
        Case(_TOTALS, "total of the scanned tile"),
        Case(QUANTISE, "scale of the quantised output"),
        Case(NEAREST_THREADS, "scale of the quantised output"),
        Case(REPLAYED_THREADS, "on request"),
        Case(LARGEST_POINTER, _PLACES),
    )
    near_misses = (
        NearMiss(SCORES_THREADS, why="scores, read again", value="statistics saved for backward"),
        NearMiss(PACKED_SCALE, why="a scale, in the array of what it scales", value="none"),
        NearMiss(ONE_STEP, why="what is read from the state is the result, however narrow"),
        NearMiss(REPLAYED_THREADS.replace("kept != nullptr", "n > 4"), why="the work decides"),
        NearMiss(
            vary(REPLAYED_THREADS, ("kept[i] = x[i] > 0.f", "kept[i] = 0")),
            why="counters of another kernel are cleared, nothing is told",
        ),
        NearMiss(
            NORM_BACKWARD,
            why="a gradient summed over rows is no statistic of them",
            value="statistics saved for backward",
        ),
        NearMiss(
            COLUMNS,
            why="sums of rows that are normalised anew are gradients",
            value="statistics saved for backward",
        ),
        NearMiss(PRODUCT, why="a product has no statistics to save"),
        NearMiss(ADD_POINTER, why="nothing is reduced"),
        NearMiss(vary(_KEPT, ("KEEP: tl.constexpr", "KEEP")), why="chosen at run time"),
        NearMiss(_SUM, why="a sum beside the output: nothing that is stored rests on it"),
        NearMiss(PRODUCT_THREADS, why="a product has no statistics to save"),
        NearMiss(
            vary(_ROUNDED_SCALE, ("by = ", "by = tl.exp2(tl.ceil(tl.log2(top / 448.0)))  # ")),
            why="the scale is rounded to a power of two, nothing was exponentiated before",
            value="log-sum-exp",
        ),
        NearMiss(
            vary(
                _ROUNDED_SCALE,
                ("    top =", "    v = v / (1.0 + tl.exp(-v))\n    top ="),
                ("by = ", "by = tl.exp2(tl.ceil(tl.log2(top / 448.0)))  # "),
            ),
            why="an activation before the scale: no exponentials are summed",
            value="log-sum-exp",
        ),
        NearMiss(
            vary(_LOSS, ("    tl.store(stat + row, total)\n", "")), why="only the loss is stored"
        ),
        NearMiss(
            vary(LARGEST_POINTER, ("    tl.store(out + at, top)\n", "")), why="the output itself"
        ),
        NearMiss(GATED_THREADS, why="a softplus is no log-sum-exp", value="log-sum-exp"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.stores:
            return
        sums = [added for _, added in log_sums(facts)]
        merged = [s for added in sums for s in facts.stores if _is(facts, s, added)]
        if merged and any(s not in merged for s in facts.stores):
            alike = [s for s in facts.stores if s.array in {m.array for m in merged}]
            yield self.decide(facts, "log-sum-exp", [*alike, *sums])
            most = max(width(facts, s) for s in facts.stores)
            narrow = [s for s in self._asked(facts) if s not in alike and width(facts, s) < most]
            if narrow:
                yield self.decide(facts, "on request", narrow)
            return
        states = [s for s in facts.stores if self._state(facts, s)]
        if states:
            yield self.decide(facts, "final state", [*states, *self._before(facts, states)])
            return
        summed = [*summed_over_rows(facts), *left_by_states(facts)]
        asked = [s for s in self._asked(facts) if s not in summed]
        given = [s for s in facts.stores if s not in asked]
        if not any(
            self._reduced(facts, s) or facts.graph.roots(s.value, *CONTRACTIONS) for s in given
        ):
            # What alone rests on what was reduced is the output, in one of its forms.
            asked = [s for s in asked if not self._reduced(facts, s)]
        always = [s for s in facts.stores if s not in asked] or facts.stores
        widest = max(width(facts, s) for s in always)
        main = [s for s in always if width(facts, s) == widest]
        arrays = {s.array for s in main}
        side = [
            s
            for s in facts.stores
            if width(facts, s) < widest and s.array not in arrays and self._reduced(facts, s)
        ]
        side = [s for s in side if not (s.is_atomic or s in summed or of_rounds(facts, s))]
        if side and backward(facts, side):
            side = [s for s in side if not facts.graph.roots(s.value, *REDUCTIONS)]
        scans = [s for s in main if facts.graph.roots(s.value, OpKind.CUMSUM, OpKind.SCAN)]
        if not (scans or any(self._reduced(facts, s) for s in main)) or widest == 0:
            side = []
        logs = [n for s in side for n in self._logarithm(facts, s)]
        if logs:
            yield self.decide(facts, "log-sum-exp", [*logs, *side])
        elif side and scans:
            yield self.decide(facts, "total of the scanned tile", side)
        elif side and set(side) & set(kept_scales(facts, divided_by_largest(facts))):
            yield self.decide(facts, "scale of the quantised output", side)
        elif side:
            yield self.decide(facts, "statistics saved for backward", side)
        elif scales := kept_scales(facts, divided_by_largest(facts)):
            yield self.decide(facts, "scale of the quantised output", scales)
        elif beside := self._beside(facts):
            yield self.decide(facts, "log-sum-exp", beside)
        elif asked:
            yield self.decide(facts, "on request", asked)
        elif places := chosen_positions(facts):
            yield self.decide(facts, _PLACES, [n for pair in places for n in pair])
        elif not any(self._reduced(facts, s) for s in main) or widest == 0:
            return
        elif (
            len(main) == len(facts.stores)
            and len({s.array for s in main}) == 1
            and (facts.graph.of(OpKind.EXP, OpKind.EXP2, OpKind.RSQRT) or normalisations(facts))
        ):
            yield self.decide(facts, "none", main)

    def _asked(self, facts: Facts) -> list[Access]:
        """Stores to arrays that are written only where a compile-time flag says so, or where there
        is such an array, beside one that is always written."""
        chosen = {branch.node for branch in branches(facts)}
        arrays: dict[str | None, list[Access]] = {}
        for access in facts.accesses:
            arrays.setdefault(access.array, []).append(access)
        written = {a: held for a, held in arrays.items() if a and all(s.is_store for s in held)}
        found = [
            access
            for held in written.values()
            if one_side(facts, [access.node for access in held], chosen)
            for access in held
        ]
        there = [
            s
            for held in written.values()
            if all(_given(facts, s) for s in held)
            for s in held
            if facts.graph.kind_of(facts.graph.core(s.value)) != OpKind.CONST  # cleared, not told
        ]
        widest = max((width(facts, s) for s in facts.stores if s not in there), default=0)
        found += [s for s in there if s not in found and width(facts, s) <= widest]
        always = [s for s in facts.stores if s not in found]
        return found if any(not flagged(s.node, chosen) for s in always) else []

    def _state(self, facts: Facts, store: Access) -> bool:
        """What a loop carries, stored after it, where the loop stores what it makes of it."""
        held = handed(facts, store.value)
        return any(
            carried.result in held and self._used(facts, loop, carried.argument, store)
            for loop in facts.loops
            if not store.node.inside(loop.node)
            for carried in loop.carried
        )

    def _before(self, facts: Facts, last: list[Access]) -> list[Access]:
        """Where every round stores the state that it begins with, beside its end."""
        carried = {c.argument for loop in facts.loops for c in loop.carried}
        final = {s.array for s in last}
        return [
            s
            for s in facts.stores
            if s.loop is not None and s.array not in final and carried & handed(facts, s.value)
        ]

    def _used(self, facts: Facts, loop: Loop, state: str, last: Access) -> bool:
        """A store in a loop of something else that rests on what the loop carries."""
        return any(
            not store.is_atomic
            and store.array != last.array
            and store.node.inside(loop.node)
            and leads(facts.graph, store.value, state)
            for store in facts.stores
        )

    def _reduced(self, facts: Facts, store: Access) -> bool:
        roots = [norm.root for norm in normalisations(facts)]
        return bool(facts.graph.roots(store.value, *REDUCTIONS)) or any(
            facts.graph.rests_on(store.value, root) for root in roots
        )

    def _beside(self, facts: Facts) -> list[Access]:
        """Stores of a maximum plus the logarithm of a sum of exponentials, where something else of
        the same width is stored too."""
        added = {
            user
            for node in facts.graph.of(*LOGARITHMS)
            if _summed(facts, node)
            for user in facts.graph.users(node.result)
            if user.op.kind in (OpKind.ADD, OpKind.FMA)
        }
        found = [s for s in facts.stores if any(_is(facts, s, node) for node in added)]
        arrays = {s.array for s in found}
        return found if any(s.array not in arrays for s in facts.stores) else []

    def _logarithm(self, facts: Facts, store: Access) -> list[Node]:
        """Logarithms of exponentials that were summed up."""
        logs = facts.graph.roots(store.value, OpKind.LOG, OpKind.LOG2)
        powers = [e.node for e in facts.exponentials]
        return [
            n
            for n in logs
            if any(
                facts.graph.rests_on(total.result, power)
                for total in facts.graph.roots(n.op.inputs[0], OpKind.REDUCE_SUM, *CONTRACTIONS)
                for power in powers
            )
        ]


def _summed(facts: Facts, logarithm: Node) -> bool:
    """Whether a logarithm is taken of a sum over lanes of exponentials."""
    inside = [*facts.graph.upstream(logarithm.op.inputs[0], lambda n: n.op.kind in LOGARITHMS)]
    kinds = {node.op.kind for node in inside}
    return OpKind.REDUCE_SUM in kinds and not kinds.isdisjoint((OpKind.EXP, OpKind.EXP2))


def _given(facts: Facts, store: Access) -> bool:
    """True for a store that waits for its own array to be there."""
    for guard in facts.guards(store.node):
        condition = guard.op.inputs[0]
        for test in facts.graph.upstream(condition, lambda n: n.op.kind not in _ASKING):
            sides = [*test.op.inputs[:2]] if test.op.kind == OpKind.NE else [test.result]
            if store.array in {field_of(facts.graph, v) or facts.graph.core(v) for v in sides}:
                return True
        if store.array == (field_of(facts.graph, condition) or facts.graph.core(condition)):
            return True
    return False


def _is(facts: Facts, store: Access, made: Node) -> bool:
    """Whether what is stored is what an operation gave, chosen or scaled."""
    kinds = HELD | {OpKind.SELECT, OpKind.MUL}
    return bool(facts.graph.made_from([store.value], (made,), lambda n: n.op.kind not in kinds))


def handed(facts: Facts, value: str) -> set[str]:
    """Values that a value is, seen through reshapes, turns, casts and branches."""
    pending, found = [value], set[str]()
    while pending:
        below = facts.graph.through(pending.pop(), VIEWS | CASTS | TURNS)
        if below is None or below in found:
            continue
        found.add(below)
        if facts.graph.kind_of(below) in (OpKind.IF, OpKind.IF_EXPRESSION):
            pending += facts.graph.feeds(below)
    return found


def _lane(atom: Atom) -> bool:
    return atom.kind is AtomKind.LANE and atom.value == "-1"


def width(facts: Facts, store: Access) -> int:
    """Axes that a store runs over: those of its element indices, else those of its value; of
    threads whose vectors have no known type, those that their places are several elements apart
    in."""
    shape = facts.types.shape(store.value)
    if not shape and facts.of_threads:
        apart = (i.coefficient(a) != ONE for i in store.index for a in i.top() if _lane(a))
        return int(any(apart))
    if store.mode is Mode.ELEMENT:
        places = facts.values.items(store.node.op.operand("index"))
        shape = reduce(broadcast, (facts.types.shape(place) for place in places), ())
    return len([extent for extent in shape if extent != "1"])

"""What a backward pass gets from the forward pass: statistics to compute from, not the
intermediate tensor."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, ATTENTION_LSE, BACKWARD_KEYS, POINTER, vary
from extractors.patterns.cases_pairs import COMPARED_ROWS
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, FLASH_POINTER
from extractors.patterns.cases_rows import NORM_BACKWARD, ROW_NORM, SOFTMAX
from extractors.patterns.cases_rows_pointer import RECURRENCE
from extractors.patterns.cases_split import SPLIT_LANES_POINTER
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, FLASH_THREADS
from kb.analysis.accesses import Access
from kb.analysis.composed_steps import divided, targets
from kb.analysis.derivatives import differentiated
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import recomputed
from kb.analysis.rebuilt import coefficients, normalised, over_saved, width
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

_ROOTS = frozenset({OpKind.RSQRT, OpKind.LOG, OpKind.LOG2, OpKind.SQRT})


_SQUASHED = """import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def back(gy, x, gx, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    t = libdevice.tanh(tl.load(x + at, mask=at < n))
    tl.store(gx + at, tl.load(gy + at, mask=at < n) * (1 - libdevice.pow(t, 2)), mask=at < n)
"""


_SOFTMAX_BACK = (
    POINTER
    + """
@triton.jit
def back(y, gy, gx, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    p = tl.load(y + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    g = tl.load(gy + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(gx + row * n + at, p * (g - tl.sum(p * g, axis=0)), mask=at < n)
"""
)
_OTHER_FORM = vary(
    _SOFTMAX_BACK, ("p * (g - tl.sum(p * g, axis=0))", "p * g - p * tl.sum(p * g, axis=0)")
)
_LOG_SOFTMAX_BACK = vary(
    _SOFTMAX_BACK, ("p * (g - tl.sum(p * g, axis=0))", "g - tl.exp(p) * tl.sum(g, axis=0)")
)
_UNIT_BACK_ROWS = (
    POINTER
    + """
@triton.jit
def back(y, r, gy, gx, n, R: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)
    at = row[:, None] * n + tl.arange(0, T)[None, :]
    v = tl.load(y + at)
    by = tl.load(r + row)
    g = tl.load(gy + at)
    tl.store(gx + at, g * by[:, None] - tl.sum(g * v, 1)[:, None] * v * by[:, None])
"""
)
_GROUP_WEIGHT_BACK = (
    POINTER
    + """
@triton.jit
def back(x, mean, inverse, gy, gw, n, groups, size, R: tl.constexpr, T: tl.constexpr):
    channel = tl.program_id(0)
    item = tl.arange(0, R)
    at = item[:, None] * n + channel * T + tl.arange(0, T)[None, :]
    group = channel // size + item * groups
    v = (tl.load(x + at) - tl.load(mean + group)[:, None]) * tl.load(inverse + group)[:, None]
    tl.store(gw + channel, tl.sum(v * tl.load(gy + at)))
"""
)
_GATED_BACK = (
    POINTER
    + """
@triton.jit
def back(gy, x, u, gx, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    f = tl.sigmoid(v)
    y = v * f
    g = tl.load(gy + at, mask=at < n) * tl.load(u + at, mask=at < n)
    tl.store(gx + at, g * (f + y - f * y), mask=at < n)
"""
)
_WEIGHED = (
    POINTER
    + """
@triton.jit
def weigh(x, w, out, rows, n, T: tl.constexpr, W: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    at = tl.arange(0, W)
    v = tl.load(x + tl.program_id(1) * rows * n + row[:, None] * n + at[None, :])
    c = tl.load(w + tl.program_id(1) * n + at)
    tl.store(out + tl.program_id(1) * rows + row, tl.sum(v * c[None, :], axis=1))
"""
)

_MIXED = (
    POINTER
    + """
@triton.jit
def mix(x, w, out, n, M: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0)
    m = tl.arange(0, M)
    acc = tl.zeros((M,), dtype=tl.float32)
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        g = tl.load(w + m[:, None] * n + at[None, :], mask=at[None, :] < n, other=0.0)
        acc += tl.sum(g * v[None, :], axis=1)
    tl.store(out + row * M + m, acc)
"""
)

_STEP = (
    POINTER
    + """
@triton.jit
def step(state, k, v, beta, out, D: tl.constexpr, T: tl.constexpr):
    own = tl.program_id(0)
    d = tl.arange(0, D)
    at = (own * T + tl.arange(0, T))[:, None] * D + d[None, :]
    s = tl.load(state + at)
    key = tl.load(k + own * D + d)
    new = tl.load(v + own * T + tl.arange(0, T)) - tl.sum(s * key[None, :], axis=1)
    new = new * tl.load(beta + own)
    tl.store(out + at, s + new[:, None] * key[None, :])
"""
)
_IN_PARTS = vary(
    _MIXED,
    (
        "tl.sum(g * v[None, :], axis=1)",
        "tl.sum(tl.sum(tl.reshape(g * v[None, :], (M, 4, T // 4)), axis=2), axis=1)",
    ),
)


class RecomputeFromStatistics(Pattern):
    """A row statistic is stored beside the output, or loaded to rebuild what the forward pass
    computed."""

    name = "recompute-from-statistics-instead-of-storing-p"
    axis = "recompute"
    source = "Dao et al., FlashAttention (2022), section 3.1, recomputation"
    matches = (
        Case(BACKWARD_KEYS, "recompute P = exp2(S*scale - LSE)"),
        Case(
            vary(BACKWARD_KEYS, ("first = x * TN // TM", "first = max(0, x * TN - 8) // TM")),
            "recompute P = exp2(S*scale - LSE)",
        ),
        Case(ATTENTION_LSE, "statistics saved"),
        Case(_SOFTMAX_BACK, "store P/S"),
        Case(_OTHER_FORM, "store P/S"),
        Case(_LOG_SOFTMAX_BACK, "recompute P = exp(saved log P)"),
        Case(_UNIT_BACK_ROWS, "recompute activation"),
        Case(ROW_NORM, "statistics saved"),
        Case(NORM_BACKWARD, "recompute activation"),
        Case(_GROUP_WEIGHT_BACK, "recompute activation"),
        Case(_SQUASHED, "recompute activation"),
        Case(vary(_SQUASHED, ("libdevice.pow(t, 2)", "t * t")), "recompute activation"),
        Case(_GATED_BACK, "recompute activation"),
        Case(BACKWARD_KEYS_POINTER, "recompute P = exp2(S*scale - LSE)"),
        Case(BACKWARD_KEYS_THREADS, "recompute P = exp2(S*scale - LSE)"),
    )
    near_misses = (
        NearMiss(COMPARED_ROWS, why="rows are compared with others, a mask is one or zero"),
        NearMiss(SPLIT_LANES_POINTER, why="numbers out of words times a vector, summed at once"),
        NearMiss(vary(_GATED_BACK, ("f + y - f * y", "f + y")), why="no derivative is taken"),
        NearMiss(_STEP, why="what the state holds is taken off, no statistic was saved"),
        NearMiss(
            vary(
                _STEP,
                ("new = new * tl.load(beta + own)", "new = new * tl.sigmoid(tl.load(beta + own))"),
            ),
            why="a gate, no statistic",
        ),
        NearMiss(_IN_PARTS, why="a row times a matrix, summed in parts"),
        NearMiss(_MIXED, why="a row times a matrix, summed at once: nothing is made again"),
        NearMiss(
            vary(
                _MIXED,
                ("(M,), dtype", "(M, T), dtype"),
                ("acc += tl.sum(g * v[None, :], axis=1)", "acc += g * v[None, :]"),
                ("row * M + m, acc)", "row * M + m, tl.sum(acc, axis=1) * tl.load(w - m))"),
            ),
            why="a row times a matrix, summed after the loop",
        ),
        NearMiss(
            RECURRENCE,
            why="a step takes away what the state holds, no statistic was saved",
            value="recompute activation",
        ),
        NearMiss(
            vary(_SQUASHED, ("pow(t, 2)", "pow(t, 3)")),
            why="one less a cube is no derivative of a hyperbolic tangent",
        ),
        NearMiss(
            vary(_SOFTMAX_BACK, ("p * (g -", "p * (p -")),
            why="the gradient is no part of the difference",
        ),
        NearMiss(
            vary(_OTHER_FORM, ("- p * tl.sum(p * g", "- p * tl.sum(p * p")),
            why="the gradient is no part of the sum",
        ),
        NearMiss(
            vary(_LOG_SOFTMAX_BACK, ("tl.exp(p) * tl.sum(g", "tl.exp(p) * tl.sum(p")),
            why="the sum is not the gradient's",
        ),
        NearMiss(
            vary(_GROUP_WEIGHT_BACK, (" - tl.load(mean + group)[:, None]", "")),
            why="a factor of a group of rows is no statistic of the row",
        ),
        NearMiss(_WEIGHED, why="a factor along the axis that is summed is no statistic of a row"),
        NearMiss(ATTENTION, why="the statistic stays in the loop and is dropped"),
        NearMiss(SOFTMAX, why="the output is all that is stored"),
        NearMiss(FLASH_POINTER, why="the statistic stays in the loop and is dropped"),
        NearMiss(FLASH_THREADS, why="the statistic stays in the loop and is dropped"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        rebuilt = recomputed(facts)
        if rebuilt:
            where = [
                node
                for e in facts.exponentials
                if e.node in rebuilt
                for node in (e.difference, e.node)
            ]
            value = "recompute P = exp2(S*scale - LSE)"
            yield self.decide(facts, value, where)
            gradient = self._gradient(facts)
            if gradient:
                yield self.decide(facts, "dS = P*(dP - Delta), Delta loaded", gradient)
            return
        saved = self._saved(facts)
        if saved:
            yield self.decide(facts, "statistics saved", saved)
            return
        kept = self._stored(facts)
        if kept:
            yield self.decide(facts, "store P/S", kept)
            return
        powers = self._exponentiated(facts)
        if powers:
            yield self.decide(facts, "recompute P = exp(saved log P)", powers)
            return
        pairs = differentiated(facts)
        taken = [node for pair in pairs for node in (*_summed(facts, pair[0]), *pair)]
        made = normalised(facts)
        again = [*_statistics(facts, made), *made, *taken] or coefficients(facts)
        if again:
            yield self.decide(facts, "recompute activation", again)
        elif targets(facts) and (kept := divided(facts)):
            yield self.decide(facts, "store P/S", kept)

    def _gradient(self, facts: Facts) -> list[Node]:
        """probability * (product - loaded row)."""
        found = []
        for node in facts.graph.of(OpKind.SUB):
            over, under = node.op.inputs[:2]
            product = facts.graph.producer(facts.graph.core(over))
            if (
                product is None
                or product.op.kind not in CONTRACTIONS
                or not facts.held_loads(under)
            ):
                continue
            found += [n for n in facts.graph.downstream(node.result) if n.op.kind == OpKind.MUL][:1]
        return found

    def _stored(self, facts: Facts) -> list[Node]:
        """A loaded tile times a second one less a number, or times the second one less the tile
        times the number: the sum over the row of the two tiles' product. The gradient of a softmax
        whose output was saved."""
        if facts.contractions or not facts.reductions:
            return []
        found = []
        for node in facts.graph.of(OpKind.SUB):
            over, under = node.op.inputs[:2]
            second = {a.array for a in facts.held_loads(over)}
            if not facts.graph.roots(under, OpKind.REDUCE_SUM):
                continue
            summed = {a.array for a in facts.feeding(under)}
            for user in facts.graph.users(node.result) if second else ():
                others = [v for v in user.op.inputs[:2] if v != node.result]
                first = {a.array for v in others for a in facts.held_loads(v)}
                if user.op.kind == OpKind.MUL and first and summed == first | second:
                    found += [*(a.node for v in others for a in facts.held_loads(v)), node, user]
            one, other = _tiles(facts, over), _tiles(facts, under)
            if len(one) == 2 and len(other) == 1 and other < one == summed:
                found += [*(a.node for a in facts.feeding(over)), node]
        return found

    def _exponentiated(self, facts: Facts) -> list[Node]:
        """A loaded tile less the exponential of a second one times the sum of the first: the
        gradient of a logarithm of a softmax whose output was saved."""
        if facts.contractions or not facts.reductions or not facts.exponentials:
            return []
        found = []
        for node in facts.graph.of(OpKind.SUB):
            over, under = node.op.inputs[:2]
            first = {a.array for a in facts.held_loads(over)}
            product = facts.graph.producer(facts.graph.core(under))
            if len(first) != 1 or product is None or product.op.kind != OpKind.MUL:
                continue
            for one, other in (product.op.inputs[:2], product.op.inputs[1::-1]):
                power = facts.graph.producer(facts.graph.core(one))
                if power is None or power.op.kind not in (OpKind.EXP, OpKind.EXP2):
                    continue
                logs = {a.array for a in facts.held_loads(power.op.inputs[0])}
                summed = {a.array for a in facts.feeding(other)}
                if logs and summed == first and facts.graph.roots(other, OpKind.REDUCE_SUM):
                    found += [power, node]
        return found

    def _saved(self, facts: Facts) -> list[Where]:
        """Stores of a root or logarithm of a reduction, one number per row, beside a wider
        output."""
        found: list[Where] = []
        for store in facts.stores:
            made = self._statistic(facts, store)
            if made is not None and any(_wider(facts, other, store) for other in facts.stores):
                found += [made, store]
        return found

    def _statistic(self, facts: Facts, store: Access) -> Node | None:
        core = facts.graph.core(store.value)
        node = facts.graph.producer(core)
        if node is None or not facts.graph.roots(core, *REDUCTIONS):
            return None
        if node.op.kind == OpKind.ADD:
            sides = [facts.graph.kind_of(facts.graph.core(v)) for v in node.op.inputs[:2]]
            return node if any(kind in _ROOTS for kind in sides) else None
        if node.op.kind == OpKind.DIV and not over_saved(facts, core):
            sides = [facts.graph.kind_of(facts.graph.core(v)) for v in node.op.inputs[:2]]
            return node if OpKind.SQRT in sides or OpKind.REDUCE_SUM in sides else None
        return node if node.op.kind in _ROOTS else None


def _statistics(facts: Facts, made: list[Node]) -> list[Node]:
    """The loads of what tiles are normalised with: fewer numbers than they have."""
    return [
        a.node
        for n in made
        for a in facts.feeding(n.result)
        if width(facts, a.value) < width(facts, n.result)
    ]


def _summed(facts: Facts, activation: Node) -> list[Node]:
    """Products of loaded tiles whose sum an activation takes: what it was taken of is made again,
    too."""
    above = facts.graph.upstream(activation.op.inputs[-1], lambda n: facts.access(n) is not None)
    products = [n for n in above if n.op.kind in (OpKind.MUL, OpKind.FMA)]
    return [n for n in products if _of_two(facts, n)]


def _of_two(facts: Facts, product: Node) -> bool:
    """Whether the sides of a product are loaded from arrays that are not the same."""
    sides = [{a.array for a in facts.feeding(v)} for v in product.op.inputs[:2]]
    return all(sides) and not sides[0] & sides[1]


def _tiles(facts: Facts, value: str) -> set[str | None]:
    """Arrays of the loaded tiles that are factors of a product."""
    product = facts.graph.producer(facts.graph.core(value))
    if product is None or product.op.kind != OpKind.MUL:
        return set()
    return {a.array for side in product.op.inputs[:2] for a in facts.held_loads(side)}


def _wider(facts: Facts, other: Access, store: Access) -> bool:
    return width(facts, other.value) > width(facts, store.value)

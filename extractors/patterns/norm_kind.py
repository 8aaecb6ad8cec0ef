"""Which normalisation is computed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_norms_threads import (
    ADDED_THREADS,
    CENTRED_IN_PLACE_THREADS,
    LENGTHS_THREADS,
    NORM_ALONE_THREADS,
    PAIRS_THREADS,
)
from extractors.patterns.cases_pointer import DECODE_PART
from extractors.patterns.cases_rows import (
    LAYER_NORM_POINTER,
    NORM_BACKWARD,
    ROW_NORM,
    RUNNING_NORM,
    SOFTMAX,
)
from extractors.patterns.cases_rows_pointer import (
    NORM_BACKWARD_LOCKED,
    NORM_BACKWARD_POINTER,
    RECURRENCE,
    SOFTMAX_POINTER,
)
from extractors.patterns.cases_rows_threads import (
    ROW_NORM_THREADS,
    SOFTMAX_THREADS,
)
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import Node
from kb.analysis.normalisations import Normalisation, normalisations
from kb.analysis.rebuilt import coefficients, normalised
from kb.analysis.symbolic import Atom, AtomKind, Expr, of
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_HELD_CENTRE = vary(
    NORM_BACKWARD_LOCKED,
    ("hat = (v - tl.load(means + own)) * r",
     "hat = tl.where(cols < N, v - tl.load(means + own), 0.0) * r"),
)  # fmt: skip

_PADDED_BY_MEAN = (
    POINTER
    + """
@triton.jit
def norm(x, out, n, eps, T: tl.constexpr):
    row = tl.program_id(0)
    total, squared = 0.0, 0.0
    for i in range(0, n, T):
        at = i + tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        total += tl.sum(v)
        squared += tl.sum(v * v)
    m = total / n
    r = tl.rsqrt(squared / n - m * m + eps)
    for i in range(0, n, T):
        at = i + tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at < n, other=m)
        tl.store(out + row * n + at, (v - m) * r, mask=at < n)
"""
)

_UNIT_BACK = (
    POINTER
    + """
@triton.jit
def back(x, r, gy, gx, n, R: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)
    at = row[:, None] * n + tl.arange(0, T)[None, :]
    by = tl.load(r + row)[:, None]
    y = tl.load(x + at) * by
    g = tl.load(gy + at)
    tl.store(gx + at, by * (g - y * tl.sum(g * y, axis=1)[:, None]))
"""
)
_UNIT_BACK_TILE = (
    TILE
    + """
@ct.kernel
def back(x, r, gy, gx, R: Int, T: Int):
    row = ct.bid(0)
    by = ct.load(r, index=(row, 0), shape=(R, 1))
    y = ct.load(x, index=(row, 0), shape=(R, T)) * by
    g = ct.load(gy, index=(row, 0), shape=(R, T))
    ct.store(gx, index=(row, 0), tile=by * (g - y * ct.sum(g * y, axis=1, keepdims=True)))
"""
)

_GROUPED = "GroupNorm, LayerNorm of one group"
_CHANNEL = "InstanceNorm or BatchNorm"
_BY_GROUP = vary(LAYER_NORM_POINTER, ("load(w + at,", "load(w + row % 8 * n + at,"))
_BY_CHANNEL = vary(
    LAYER_NORM_POINTER, ("load(w + at, mask=inside, other=0.0)", "load(w + row % 8)")
)
_TAKEN = (AtomKind.MOD, AtomKind.FLOOR_DIV)
_FORMS = 16
"""Forms of a root that are looked at."""

ONE_STEP = (
    POINTER
    + """
@triton.jit
def step(x, state, out, n, W: tl.constexpr):
    row = x + tl.program_id(0) * n
    at = tl.arange(0, W)
    held = tl.load(state + at[:, None] * W + at[None, :])
    query = tl.load(row + W + at)
    query = query * tl.rsqrt(tl.sum(query * query, axis=0) + 1e-6)
    key = tl.load(row + at)
    key = key * tl.rsqrt(tl.sum(key * key, axis=0) + 1e-6)
    part = tl.sum(held * key[:, None], axis=0)
    held += (tl.load(row + 2 * W + at) - part)[None, :] * key[:, None]
    tl.store(state + at[:, None] * W + at[None, :], held)
    tl.store(out + tl.program_id(0) * W + at, tl.sum(held * query[:, None], axis=0))
"""
)


class NormKind(Pattern):
    """The root of a mean of squares multiplies a row, with or without its mean taken away; or the
    root of their sum does. In a backward pass the root, and perhaps the mean, are loaded."""

    name = "root-of-mean-square-normalisation"
    axis = "norm_kind"
    source = "Ba et al., Layer Normalization (2016); Zhang and Sennrich, RMSNorm (2019)"
    matches = (
        Case(ROW_NORM, "RMSNorm"),
        Case(LAYER_NORM_POINTER, "LayerNorm"),
        Case(_BY_GROUP, _GROUPED),
        Case(_BY_CHANNEL, _CHANNEL),
        Case(_PADDED_BY_MEAN, "LayerNorm"),
        Case(ROW_NORM_THREADS, "RMSNorm"),
        Case(ADDED_THREADS, "LayerNorm"),
        Case(PAIRS_THREADS, "LayerNorm"),
        Case(NORM_ALONE_THREADS, "LayerNorm"),
        Case(CENTRED_IN_PLACE_THREADS, "LayerNorm"),
        Case(NORM_BACKWARD, "RMSNorm"),
        Case(NORM_BACKWARD_POINTER, "RMSNorm"),
        Case(NORM_BACKWARD_LOCKED, "LayerNorm"),
        Case(_HELD_CENTRE, "LayerNorm"),
        Case(_UNIT_BACK, "L2"),
        Case(_UNIT_BACK_TILE, "L2"),
        Case(vary(ROW_NORM, ("keepdims=False) / N + eps", "keepdims=False) + eps")), "L2"),
    )
    near_misses = (
        NearMiss(_BY_GROUP, why="factors of the group's own", value="LayerNorm"),
        NearMiss(
            vary(_BY_GROUP, ("row % 8 * n", "row * sx")), why="a tensor of rows", value=_GROUPED
        ),
        NearMiss(LENGTHS_THREADS, why="the root scales no row"),
        NearMiss(ADDED_THREADS, why="the mean is that of what was stored", value="RMSNorm"),
        NearMiss(CENTRED_IN_PLACE_THREADS, why="a mean is taken away", value="RMSNorm"),
        NearMiss(RECURRENCE, why="what the state holds is taken away, no mean", value="LayerNorm"),
        NearMiss(
            vary(RECURRENCE, ("tl.program_id(0) * n", "tl.load(rate - 1 - tl.program_id(0))")),
            why="one array says where the rows of all others begin",
            value="LayerNorm",
        ),
        NearMiss(
            ONE_STEP, why="what the state holds of a packed row is taken away", value="LayerNorm"
        ),
        NearMiss(SOFTMAX, why="a sum of exponentials, no root"),
        NearMiss(RUNNING_NORM, why="the statistics were made elsewhere"),
        NearMiss(PRODUCT, why="no root"),
        NearMiss(SOFTMAX_POINTER, why="a sum of exponentials, no root"),
        NearMiss(SOFTMAX_THREADS, why="a sum of exponentials, no root"),
        NearMiss(
            vary(
                NORM_BACKWARD_POINTER,
                ("wdy, axis=1) / N", "wdy, axis=1)"),
            ),
            why="a sum, no mean: the backward of a division by the length of a vector",
            value="RMSNorm",
        ),
        NearMiss(
            vary(
                _UNIT_BACK,
                ("- y * tl.sum(", "- g * tl.sum("),
            ),
            why="what is taken away is no part of the row",
        ),
        NearMiss(
            vary(_UNIT_BACK, ("tl.sum(g * y, axis=1)", "(tl.sum(g * y, axis=1) / n)")),
            why="the sum is divided by the extent",
            value="L2",
        ),
        NearMiss(ROW_NORM, why="the sum is divided by the extent", value="L2"),
        NearMiss(
            vary(DECODE_PART, ("* rate", "* tl.load(b + who) * rate")),
            why="scores times a loaded number: weights are summed, no row is made again",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        kinds = [(self._kind(facts, n), n) for n in normalisations(facts) if n.sums]
        if kinds:
            told = [n for kind, n in kinds if kind == kinds[0][0]]
            made = [node for n in told for node in (*n.sums, n.root, *n.centres)]
            made += [node for n in told for node in _scaled(facts, n.root.result)]
            own = {array for n in told for array in n.row}
            yield self.decide(facts, self._part(facts, kinds[0][0], own), made)
            return
        rows = normalised(facts)
        taken = [(row, n) for row in rows for n in self._centred(facts, row)]
        rows, centres = [row for row, _ in taken] or rows, [n for _, n in taken]
        where: list[Node] = rows or coefficients(facts)
        if where and (means := self._means(facts)):
            own = {a.array for n in (*rows, *centres) for a in facts.feeding(n.result)}
            value = self._part(facts, "LayerNorm" if centres else "RMSNorm", own)
            yield self.decide(facts, value, [*where, *centres, *means])
        elif where and not centres and (less := self._projected(facts)):
            yield self.decide(facts, "L2", [*where, *less])

    def _part(self, facts: Facts, kind: str, own: set[str | None]) -> str:
        """Which part of an item a mean is taken of: all of it; a group of channels, where the
        factors come from places that depend on the group; or one channel, with one factor."""
        if kind != "LayerNorm":
            return kind
        rows = [e for a in facts.loads if a.array in own for e in a.index]
        blocks = {x.text for e in rows for x in self._atoms(facts, e) if x.kind is AtomKind.BLOCK}
        for access in facts.loads:
            if access.array in own or not _multiplies(facts, access.value):
                continue
            atoms = [x for e in access.index for x in self._atoms(facts, e)]
            chosen = {x.text for x in atoms if x.kind is AtomKind.BLOCK}
            counted = any(x.kind in (AtomKind.LANE, AtomKind.INDUCTION) for x in atoms)
            divided = any(of(x).has(AtomKind.BLOCK) for x in atoms if x.kind in _TAKEN)
            if chosen and not counted:
                return _CHANNEL
            if chosen and (divided or chosen < blocks or facts.types.shape(access.value) == ()):
                return _GROUPED
        return kind

    def _atoms(self, facts: Facts, index: Expr) -> list[Atom]:
        """What an index is made of, with where the loops begin that count it up."""
        atoms = [*index.atoms()]
        for loop in facts.loops:
            if facts.values.expr(loop.induction).atom in atoms and loop.low is not None:
                atoms += facts.values.expr(loop.low).atoms()
        return atoms

    def _projected(self, facts: Facts) -> list[Node]:
        """A gradient less the row times the sum of their products, which nothing divides: the
        gradient of a row divided by its length."""
        found = []
        for node in facts.graph.of(OpKind.SUB):
            over, under = node.op.inputs[:2]
            sums = facts.graph.roots(under, OpKind.REDUCE_SUM)
            first = {a.array for a in facts.feeding(over)}
            for total in sums if not facts.graph.roots(over, *REDUCTIONS) else ():
                taken = {a.array for a in facts.feeding(total.op.inputs[0])}
                factors = facts.graph.upstream(under, lambda n: n.op.kind in REDUCTIONS)
                again = {a.array for n in factors if (a := facts.access(n)) is not None}
                if taken & first and (taken & again) - first:
                    found += [total, node]
        return list(dict.fromkeys(found))

    def _kind(self, facts: Facts, norm: Normalisation) -> str:
        if norm.centres:
            return "LayerNorm"
        return "RMSNorm" if self._mean(facts, norm.root) else "L2"

    def _centred(self, facts: Facts, row: Node) -> list[Node]:
        """The subtraction of a loaded mean below a row that is made again, perhaps of the lanes
        of a mask alone."""
        sides = [facts.graph.producer(facts.graph.core(v)) for v in row.op.inputs[:2]]
        kept = [n.op.operand("x") for n in sides if n is not None and n.op.kind == OpKind.SELECT]
        sides += [facts.graph.producer(facts.graph.core(v)) for v in kept if v is not None]
        return [n for n in sides if n is not None and n.op.kind == OpKind.SUB]

    def _means(self, facts: Facts) -> list[Node]:
        """Sums over a row that are divided by, or multiplied with, what no memory gives."""
        found = []
        for total in facts.graph.of(OpKind.REDUCE_SUM):
            for node in facts.graph.downstream(total.result, 8):
                others = [v for v in node.op.inputs[:2] if not facts.graph.rests_on(v, total)]
                if node.op.kind in (OpKind.DIV, OpKind.MUL):
                    found += [total for v in others if self._count(facts, v)]
        return list(dict.fromkeys(found))

    def _count(self, facts: Facts, value: str) -> bool:
        """A number that no memory gives, or a product that one divides."""
        under = [n.op.inputs[1] for n in facts.graph.roots(value, OpKind.DIV)]
        return any(not facts.feeding(v) for v in (value, *under))

    def _mean(self, facts: Facts, root: Node) -> bool:
        """Whether the sum of squares is divided, or scaled, before its root is taken."""
        steps = facts.graph.upstream(root.op.inputs[0], lambda n: n.op.kind in REDUCTIONS)
        return any(node.op.kind in (OpKind.DIV, OpKind.MUL) for node in steps)


def _multiplies(facts: Facts, factor: str) -> bool:
    """Whether something is multiplied with a number as it stands, or as a branch hands it on."""
    for value in (seen := [factor]):
        for user in facts.graph.users(value):
            if user.op.kind == OpKind.MUL:
                return True
            if (user.op.kind in HELD or user.op.kind == OpKind.YIELD) and len(seen) < _FORMS:
                seen += [v for v in facts.graph.onward(user, value) if v not in seen]
    return False


def _scaled(facts: Facts, factor: str) -> list[Node]:
    """Where elements are multiplied with, or divided by, a number as it stands."""
    found, seen = list[Node](), [factor]
    for value in seen:
        for user in facts.graph.users(value):
            if user.op.kind in (OpKind.MUL, OpKind.DIV):
                found.append(user)
            elif user.op.kind in HELD and len(user.op.results) == 1 and len(seen) < _FORMS:
                seen.append(user.result)
    return found

"""How lanes that must not be written are kept from memory in a scatter."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.padding_policy import clips_elements
from extractors.patterns.unmasked_accesses import stored_past
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_REDIRECT = vary(
    ROW_NORM,
    ("    ct.scatter(out, (row, at),", "    ct.scatter(out, (row, ct.where(at < N, at, -1)),"),
)


_SORTED = (
    TILE
    + """
@ct.kernel
def back(x, order, out, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    to = ct.gather(order, at)
    v = ct.gather(x, at)
    ct.scatter(out, to, v)
"""
)
_BARE_THREADS = """__global__ void plus(const float* x, float* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = x[at] + 1.f;
}
"""


_BY_FLAG = vary(
    ROW_NORM,
    (
        "    ct.scatter(out, (row, at),",
        "    if N > 64:\n        to = ct.where(at < N, at, N)\n    else:\n        to = ct.where(at < N, at, -1)\n    ct.scatter(out, (row, to),",  # noqa: E501
    ),
)


_CLIPPED = "scatter checked against the bounds"
_PAST = "none: lanes past the end are stored, too"
_BESIDE = (
    POINTER
    + """
@triton.jit
def halves(x, out, sums, n, W: tl.constexpr, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    at = rows[:, None] * W + tl.arange(0, W)[None, :]
    inside = (rows < n)[:, None]
    v = tl.load(x + at, mask=inside, other=0.0)
    tl.store(out + at, v / 2, mask=inside)
    tl.store(sums + rows, tl.sum(v, axis=1))
"""
)


class SentinelRedirect(Pattern):
    """The index of a store is a select between a position and a constant outside the array, or was
    loaded and is checked against its bounds; or the store has a mask; or the check alone clips; or
    lanes past the end go into an array that goes on past it."""

    name = "sentinel-index-redirect-for-masked-scatter"
    axis = "masked_store"
    source = "tilelore catalogue, P38"
    matches = (
        Case(_REDIRECT, "redirect invalid lanes to an OOB index"),
        Case(_BY_FLAG, "redirect invalid lanes to an OOB index"),
        Case(_SORTED, "loaded positions outside the array are dropped"),
        Case(ADD_POINTER, "store mask operand"),
        Case(
            vary(
                ADD_POINTER, ("tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)", "0.0")
            ),
            "store mask operand",
        ),
        Case(ROW_NORM, _CLIPPED),
        Case(vary(_SORTED, ("ct.scatter(out, to, v)", "ct.scatter(out, at, v)")), _CLIPPED),
        Case(ADD_THREADS, "store mask operand"),
        Case(_BESIDE, _PAST),
    )
    near_misses = (
        NearMiss(
            vary(ADD_POINTER, ("inside)\n", "True)\n")),
            why="every lane is stored",
            value="store mask operand",
        ),
        NearMiss(
            _BESIDE.replace("(sums + rows, tl.sum(v, axis=1))", "(sums, tl.sum(v))"),
            why="what is not masked is one number",
            value=_PAST,
        ),
        NearMiss(
            vary(
                ROW_NORM,
                (
                    "ct.scatter(out, (row, at),",
                    "ct.scatter(out, (row, at), check_bounds=False, value=",
                ),
            ),
            why="lanes are written where they are",
        ),
        NearMiss(
            vary(_SORTED, ("ct.scatter(out, to, v)", "ct.scatter(out, to, v, check_bounds=False)")),
            why="nothing is checked",
        ),
        NearMiss(
            vary(_SORTED, ("ct.scatter(out, to, v)", "ct.scatter(out, at, v)")),
            why="positions are computed",
            value="loaded positions outside the array are dropped",
        ),
        NearMiss(PRODUCT_DESCRIPTOR, why="tiles are clipped by the bounds of the descriptor"),
        NearMiss(
            vary(ADD_POINTER, (", mask=inside)\n", ", mask=None)\n")),
            why="None is no mask",
            value="store mask operand",
        ),
        NearMiss(_BARE_THREADS, why="every lane writes its own place"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        redirected: list[Node] = []
        for store in facts.stores:
            for value in facts.values.items(store.node.op.operand("index")):
                ends = facts.graph.ends(value, VIEWS | CASTS)
                chosen = [n for n in ends if n.op.kind == OpKind.SELECT]
                redirected += [*chosen, store.node] if chosen else []
        if redirected:
            yield self.decide(facts, "redirect invalid lanes to an OOB index", redirected)
        dropped = [s for s in facts.stores if self._drops(facts, s)]
        if dropped and not redirected:
            loads = [a for s in dropped for a in self._places(facts, s)]
            yield self.decide(
                facts, "loaded positions outside the array are dropped", [*loads, *dropped]
            )
        masked = [
            s
            for s in facts.stores
            if s.mask is not None and (facts.types.shape(s.value) or facts.types.shape(s.mask))
        ]
        if masked:
            yield self.decide(facts, "store mask operand", masked)
        if past := self._past(facts):
            yield self.decide(facts, _PAST, past)
        clipped = [s for s in facts.stores if clips_elements(facts, s)]
        if clipped and not (redirected or dropped or masked):
            yield self.decide(facts, _CLIPPED, clipped)

    def _past(self, facts: Facts) -> list[Access]:
        """Stores of a tile program without a mask that go past where other masks end."""
        wide = [a for a in facts.accesses if facts.types.shape(a.value) and a.array is not None]
        pointed = [a for a in wide if a.mode is Mode.POINTER]
        return [] if facts.of_threads else stored_past(facts, pointed)

    def _drops(self, facts: Facts, store: Access) -> bool:
        """Elements scattered under the check of bounds at positions that were loaded."""
        return clips_elements(facts, store) and bool(self._places(facts, store))

    def _places(self, facts: Facts, store: Access) -> list[Access]:
        """Loads of several positions that a scatter goes to."""
        items = facts.values.items(store.node.op.operand("index"))
        return [
            a
            for a in facts.loads
            if facts.types.shape(a.value)
            and any(facts.graph.rests_on(item, a.node) for item in items)
        ]

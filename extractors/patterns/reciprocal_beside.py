"""A factor and its reciprocal are stored both: one to scale by, the other to take it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER
from extractors.patterns.scale_of_maxima import LOOPED
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_POINTERS = vary(LOOPED, ("row, top / 448.0)", "row, tl.where(top > 1e-12, top / 448.0, 1.0))"))
_TILES = (
    TILE
    + """
@ct.kernel
def quantise(x, out, scale, back, T: Int):
    row = ct.bid(0)
    v = ct.load(x, index=(row, 0), shape=(1, T))
    by = ct.max(v, axis=1, keepdims=True) / 127.0
    ct.store(out, index=(row, 0), tile=ct.astype(v / by, ct.int8))
    ct.store(scale, index=(row, 0), tile=by)
    ct.store(back, index=(row, 0), tile=1.0 / by)
"""
)
_THREADS = """__global__ void scale(const float* tops, float* out, float* back, int count) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float top = 0.f;
    for (int i = 0; i < count; ++i) top = fmaxf(top, tops[row * count + i]);
    out[row] = 448.f / top;
    back[row] = top * 0.002232f;
}
"""
_SAME = VIEWS | CASTS
_Pair = tuple[str | None, str | None]
"""What is divided by what; None for a number."""


class ReciprocalBeside(Pattern):
    """Two arrays are given quotients of one value: a number over it in one, and it over a number in
    the other; or one is given the reciprocal of what the other is given."""

    name = "reciprocal-stored-beside-a-factor"
    axis = "side_output"
    source = "NVIDIA, Transformer Engine documentation: scale and scale_inv of a tensor"
    matches = (
        Case(_POINTERS, "scale and its reciprocal"),
        Case(_TILES, "scale and its reciprocal"),
        Case(_THREADS, "scale and its reciprocal"),
    )
    near_misses = (
        NearMiss(vary(_POINTERS, ("top / 448.0", "448.0 / top")), why="the same quotient twice"),
        NearMiss(
            vary(_POINTERS, ("top / 448.0", "tl.load(tops + row) / 448.0")), why="of another value"
        ),
        NearMiss(vary(_TILES, ("1.0 / by", "v / by")), why="elements are divided by it"),
        NearMiss(vary(_THREADS, ("back[row]", "out[row + 1]")), why="one array"),
        NearMiss(vary(_THREADS, ("448.f / top", "top")), why="the maximum, no reciprocal"),
        NearMiss(LAYER_NORM_POINTER, why="mean and deviation"),
        NearMiss(ADD_POINTER, why="one output"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        plain = [s for s in facts.stores if not s.is_atomic and s.array is not None]
        if len({s.array for s in plain}) < 2 or not facts.graph.of(OpKind.DIV):
            return
        given = [(s, {*_quotients(facts, s)}, _values(facts, s)) for s in plain]
        where: dict[Access, None] = {}
        for one, mine, _ in given:
            for other, its, values in given:
                turned = {(b, a) for a, b in mine if b is not None and (a is None or b is None)}
                back = any(a is None and b in values for a, b in mine)
                if one.array != other.array and (turned & its or back):
                    where |= {one: None, other: None}
        if where:
            yield self.decide(facts, "scale and its reciprocal", where)


def _ends(facts: Facts, store: Access) -> list[Node]:
    """What a store is given, on every side of a choice."""
    found = facts.graph.ends(store.value, _SAME)
    for node in found:
        if node.op.kind == OpKind.SELECT:
            found += [n for v in node.op.inputs[1:] for n in facts.graph.ends(v, _SAME)]
    return found


def _values(facts: Facts, store: Access) -> set[str | None]:
    """The values that a store is given, but for numbers."""
    return {n.result for n in _ends(facts, store) if n.op.kind != OpKind.CONST}


def _quotients(facts: Facts, store: Access) -> Iterator[_Pair]:
    """The quotients that a store is given, with a number on one side; a product with a number is
    one, too."""
    for node in _ends(facts, store):
        if node.op.kind not in (OpKind.DIV, OpKind.MUL):
            continue
        sides = [facts.graph.core(v) for v in node.op.inputs[:2]]
        numbers = [isinstance(facts.values.literal(v), int | float) for v in sides]
        if sum(numbers) != 1:
            continue
        held = sides[numbers.index(False)]
        over = node.op.kind == OpKind.MUL or numbers[1]
        yield (held, None) if over else (None, held)

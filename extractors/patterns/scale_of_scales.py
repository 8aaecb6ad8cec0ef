"""Scales that are scaled themselves: every one of a group is multiplied by a second one."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_LOOKS = VIEWS | CASTS
_BITS = (OpKind.BIT_AND, OpKind.SHIFT_RIGHT)

_EXPAND = (
    POINTER
    + """
@triton.jit
def expand(packed, small, large, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    word = tl.load(packed + at // 8, mask=at < n)
    number = ((word >> ((at % 8) * 4)) & 15).to(tl.float32)
    scale = tl.load(small + at // 32).to(tl.float32) * tl.load(large + at // 8192)
    tl.store(out + at, number * scale, mask=at < n)
"""
)
_EXPAND_TILE = (
    TILE
    + """
@ct.kernel
def expand(packed, small, large, out, T: Int):
    i = ct.bid(0)
    number = ct.astype(ct.load(packed, index=(i,), shape=(T,)) & 15, ct.float32)
    scale = ct.load(small, index=(i,), shape=(1,)) * ct.load(large, index=(0,), shape=(1,))
    ct.store(out, index=(i,), tile=number * scale)
"""
)
_EXPAND_THREADS = """__global__ void expand(const unsigned* packed, const float* small,
                       const float* large, float* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float number = (float)((packed[at / 8] >> (at % 8 * 4)) & 15);
    float scale = small[at / 32] / large[0];
    out[at] = number * scale;
}
"""
_TWO = "scale of a group times a second scale"


class ScaleOfScales(Pattern):
    """What is computed from bits of loaded words is multiplied by the product or quotient of
    numbers that are loaded from two other arrays."""

    name = "scale-made-of-two-loaded-scales"
    axis = "quant_scaling"
    source = "Dettmers et al., QLoRA (2023), section 3: double quantisation"
    matches = (Case(_EXPAND, _TWO), Case(_EXPAND_TILE, _TWO), Case(_EXPAND_THREADS, _TWO))
    near_misses = (
        NearMiss(vary(_EXPAND, (" * tl.load(large + at // 8192)", "")), why="one scale"),
        NearMiss(
            vary(_EXPAND, ("tl.load(large + ", "tl.load(small + ")), why="two numbers of one array"
        ),
        NearMiss(
            vary(
                _EXPAND,
                ("tl.load(small + at // 32).to", "tl.load(small + at // 32)[:, None].to"),
                ("tl.load(large + at // 8192)", "tl.load(large + at // 8192)[None, :]"),
                ("number *", "number[:, None] *"),
            ),
            why="one scale for every row, one for every column",
        ),
        NearMiss(vary(_EXPAND_TILE, (" & 15", "")), why="no bits are taken out of words"),
        NearMiss(vary(_EXPAND_THREADS, (" / large[0]", "")), why="one scale"),
        NearMiss(ADD_POINTER, why="nothing is scaled"),
        NearMiss(PRODUCT, why="nothing is scaled"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.graph.of(*_BITS):
            return
        found: list[Node] = []
        for node in facts.graph.of(OpKind.MUL):
            for number, scale in (node.op.inputs[:2], node.op.inputs[1::-1]):
                words = _words(facts, number)
                made = _made_of_two(facts, scale, words) if words else None
                if made is not None and facts.stored_in(node.result):
                    found += [made, node]
        if found:
            yield self.decide(facts, _TWO, found)


def _words(facts: Facts, value: str) -> set[str | None]:
    """Arrays of the words that bits are taken of on the way to a number."""
    bits = facts.graph.roots(value, *_BITS)
    return {a.array for n in bits for a in facts.feeding(n.op.inputs[0])}


def _made_of_two(facts: Facts, scale: str, words: set[str | None]) -> Node | None:
    """The product or quotient of loads of two arrays that a scale is, perhaps shifted."""
    node = facts.graph.producer(_ends(facts, scale))
    if node is not None and node.kind == OpKind.ADD:
        sides = [facts.graph.producer(_ends(facts, v)) for v in node.op.inputs[:2]]
        node = next((n for n in sides if n is not None and n.kind == OpKind.MUL), None)
    if node is None or node.kind not in (OpKind.MUL, OpKind.DIV):
        return None
    arrays = [{a.array for a in facts.feeding(v)} for v in node.op.inputs[:2]]
    if not all(arrays) or arrays[0] & arrays[1] or (arrays[0] | arrays[1]) & words:
        return None
    return None if _outer(facts, node) else node


def _outer(facts: Facts, node: Node) -> bool:
    """Whether one side has lanes along one axis, and the other along another: a scale for every row
    and one for every column."""
    left, right = (facts.types.shape(v) for v in node.op.inputs[:2])
    pairs = list(zip(reversed(left), reversed(right), strict=False))
    return any(x != "1" == y for x, y in pairs) and any(x == "1" != y for x, y in pairs)


def _ends(facts: Facts, value: str) -> str | None:
    """A value below its looks; of a branch, the side that computes it."""
    ends = facts.graph.ends(value, _LOOKS)
    computed = [n for n in ends if n.kind in (OpKind.MUL, OpKind.DIV, OpKind.ADD)]
    return computed[0].result if computed else None

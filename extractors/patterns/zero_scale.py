"""What a group of zeros is scaled by, whose largest size is zero."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.stored_scale import QUANTISE, QUANTISE_TILE, largest_sizes
from kb.analysis.facts import Facts
from kb.analysis.floors import floors
from kb.analysis.graph import Node
from kb.analysis.idioms import begun, comparisons
from kb.analysis.loops import Role
from kb.evidence import Decision
from kb.ops import OpKind

_SMALL = 0.01
"""No number of data that is scaled has to be larger."""

_KEPT = "largest size kept from zero"
_REPLACED = "zero scale replaced"
_TURNED = vary(
    QUANTISE,
    ("(v / s)", "(v * back)"),
    ("/ 127.0", "/ 127.0\n    back = tl.where(s != 0.0, 1.0 / s, 0.0)"),
)
_FLOORED = vary(QUANTISE, ("tl.max(tl.abs(v)) /", "tl.maximum(tl.max(tl.abs(v)), 1e-12) /"))
_FLOORED_TILE = vary(
    QUANTISE_TILE,
    ("ct.max(", "ct.maximum(ct.max("),
    ("keepdims=True)", "keepdims=True), 1e-12)"),
)
_THREADS = """__global__ void quantise(const float* x, signed char* out, float* scales, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float top = 0.f;
    for (int i = 0; i < n; ++i) top = fmaxf(top, fabsf(x[row * n + i]));
    float back = top != 0.f && n > 0 ? 127.f / top : 0.f;
    scales[row] = top / 127.f;
    for (int i = 0; i < n; ++i) out[row * n + i] = (signed char)(x[row * n + i] * back);
}
"""


_EXPONENT = _THREADS.replace(
    "float back = top != 0.f && n > 0 ? 127.f / top : 0.f;",
    "top = fmaxf(top, 1e-10f);\n"
    "    unsigned held = __float_as_uint(top / 127.f) >> 23;\n"
    "    float back = __uint_as_float((254u - held) << 23);",
)


class ZeroScale(Pattern):
    """The largest size of a group is kept above zero by a small number, which may be where the
    running maximum begins; or a number takes the place of what is made of it where it is zero."""

    name = "scale-of-a-group-of-zeros"
    axis = "empty_row_handling"
    source = "FlashInfer, csrc/fp4_kv_quantization.cu: vecMax != 0"
    matches = (
        Case(vary(QUANTISE, ("/ 127.0", "/ 127.0\n    s = tl.where(s == 0.0, 1.0, s)")), _REPLACED),
        Case(_TURNED, _REPLACED),
        Case(_THREADS, _REPLACED),
        Case(_FLOORED, _KEPT),
        Case(_FLOORED_TILE, _KEPT),
        Case(_THREADS.replace("top = 0.f", "top = 1e-3f"), _KEPT),
        Case(_EXPONENT, _KEPT),
    )
    near_misses = (
        NearMiss(QUANTISE, why="a scale of zero stays"),
        NearMiss(QUANTISE_TILE, why="a scale of zero stays"),
        NearMiss(vary(_TURNED, ("s != 0.0", "v != 0.0")), why="elements are asked for"),
        NearMiss(vary(_FLOORED, ("1e-12", "8.0")), why="a bound that data may lie below"),
        NearMiss(_EXPONENT.replace("fmaxf(top, 1e-10f)", "top"), why="a scale of zero stays"),
        NearMiss(vary(_FLOORED, ("tl.abs(v)", "v")), why="a maximum, no size"),
        NearMiss(
            _THREADS.replace("top != 0.f && n > 0 ? 127.f / top : 0.f", "127.f / top"),
            why="a scale of zero stays",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        largest = largest_sizes(facts)
        if not largest:
            return
        chosen = facts.graph.of(OpKind.SELECT, OpKind.IF, OpKind.IF_EXPRESSION)
        if replaced := [n for n in chosen if _replaces(facts, n, largest)]:
            yield self.decide(facts, _REPLACED, replaced)
        if kept := _kept(facts, largest):
            yield self.decide(facts, _KEPT, kept)


def _kept(facts: Facts, largest: list[Node]) -> list[Node]:
    """Bounds of a largest size, with what divides by it, and where a running one begins."""
    found = [
        node
        for floor in floors(facts)
        if (floor.number is None or 0 < floor.number <= _SMALL)
        and any(facts.graph.rests_on(floor.bounded, r) for r in largest)
        for node in (floor.node, floor.taken)
    ]
    for loop in facts.loops:
        for state in loop.of(Role.RUNNING_MAXIMUM):
            first = facts.number(begun(facts, state.init))
            inside = any(n.inside(loop.node) for n in largest)
            if inside and isinstance(first, int | float) and 0 < first <= _SMALL:
                made = facts.graph.producer(begun(facts, state.init))
                found += [made or loop.node]
    return found


def _replaces(facts: Facts, node: Node, largest: list[Node]) -> bool:
    """A number in place of what is made of a largest size, where that is zero, and by which
    something is divided or multiplied."""
    if len(node.op.results) != 1:
        return False
    tests = comparisons(facts, node.op.inputs[0])
    pairs = [p for t in tests for p in (t.op.inputs[:2], t.op.inputs[1::-1])]
    compared = [v for v, other in pairs if facts.number(other) == 0]
    chosen = facts.graph.feeds(node.result) if node.op.regions else node.op.inputs[1:]
    made = [v for v in chosen if facts.number(v) is None]
    return (
        len(made) == len(chosen) - 1
        and any(_of_size(facts, v, r) for v in compared for r in largest)
        and any(facts.graph.rests_on(v, r) for v in made for r in largest)
        and _scales(facts, node)
    )


def _of_size(facts: Facts, value: str, largest: Node) -> bool:
    """Whether a value is made of a largest size, and nothing is added to it or taken off."""
    return facts.graph.rests_on(value, largest) and not any(
        facts.graph.rests_on(value, n) and facts.graph.rests_on(n.result, largest)
        for n in facts.graph.of(OpKind.ADD, OpKind.SUB)
    )


def _scales(facts: Facts, node: Node) -> bool:
    """Whether something is divided by a value, or multiplied with it or with its inverse."""
    divided = any(facts.graph.rests_on(n.op.inputs[1], node) for n in facts.graph.of(OpKind.DIV))
    return divided or any(
        facts.graph.rests_on(value, node)
        for n in facts.graph.of(OpKind.MUL)
        for value in n.op.inputs[:2]
    )

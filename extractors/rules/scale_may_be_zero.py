"""Values are divided by their own largest magnitude, which nothing keeps from being zero."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Graph, Node
from kb.analysis.idioms import comparisons
from kb.evidence import Finding
from kb.ops import OpKind

_QUANTISE = (
    POINTER
    + """
@triton.jit
def quantise(x, out, scales, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.max(tl.abs(v), axis=0) / 127.0
    tl.store(out + row * n + at, (v / scale).to(tl.int8), mask=at < n)
    tl.store(scales + row, scale)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def quantise(x, out, T: Int):
    v = ct.astype(ct.load(x, index=(ct.bid(0), 0), shape=(1, T), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    top = ct.max(ct.abs(v), axis=1, keepdims=True)
    ct.store(out, index=(ct.bid(0), 0), tile=v / top)
"""  # noqa: E501
)


_THREADS = """__global__ void quantise(const float* x, signed char* out, float* scales) {
    int at = blockIdx.x * 32 + threadIdx.x;
    float v = x[at];
    float top = fabsf(v);
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    float scale = top / 127.0f;
    out[at] = roundf(v / scale);
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}
"""
NEAR = 40
"""Values behind a quotient among which the choice is looked for that leaves it out."""


class ScaleMayBeZero(Rule):
    """A tile is divided by the maximum of its own absolute values, perhaps times a number, or
    multiplied by a number over that maximum. A tile of zeros gives 0 / 0, or 0 times infinity."""

    name = "scale-may-be-zero"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(_QUANTISE, "zeros"),
        Case(_TILES, "zeros"),
        Case(_THREADS, "zeros"),
        Case(
            vary(
                _QUANTISE,
                ("T: tl.constexpr", "TOP: tl.constexpr, T: tl.constexpr"),
                ("/ 127.0", "/ TOP"),
            ),
            "zeros",
        ),
        Case(
            vary(
                _QUANTISE,
                ("tl.max(tl.abs(v), axis=0) / 127.0", "127.0 / tl.max(tl.abs(v), axis=0)"),
                ("v / scale", "v * scale"),
            ),
            "zeros",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_QUANTISE, ("tl.max(tl.abs(v), axis=0)",
                             "tl.maximum(tl.max(tl.abs(v), axis=0), 1e-6)")),
            why="the scale is kept above zero",
        ),
        NearMiss(
            _THREADS.replace("= roundf(", "= top == 0.f ? 0.f : roundf("),
            why="a choice leaves the quotient out where it would be no number",
        ),
        NearMiss(
            vary(_QUANTISE, ("(v / scale)", "tl.where(scale > 0.0, v / scale, 0.0)")),
            why="a select leaves the quotient out where it would be no number",
        ),
        NearMiss(
            vary(_QUANTISE, ("/ 127.0", "/ 127.0 + 1e-8")),
            why="a small number is added",
        ),
        NearMiss(
            vary(_TILES, ("v / top", "v / ct.where(top > 0.0, top, 1.0)")),
            why="a select replaces zero",
        ),
        NearMiss(
            vary(_TILES, ("v / top", "v * top")),
            why="nothing is divided",
        ),
        NearMiss(
            vary(_QUANTISE, ("tl.max(tl.abs(v), axis=0) / 127.0",
                             "127.0 / tl.maximum(tl.max(tl.abs(v), axis=0), 1e-6)"),
                 ("v / scale", "v * scale")),
            why="the maximum is kept above zero before a number is divided by it",
        ),
        NearMiss(
            vary(_QUANTISE, ("tl.max(tl.abs(v), axis=0) / 127.0",
                             "127.0 / tl.max(tl.abs(v), axis=0)"), ("v / scale", "v")),
            why="what is divided by the maximum multiplies nothing",
        ),
    )  # fmt: skip

    seen = (
        Seen(
            "sageattention", "sageattention/quant_per_block.py", "quant_per_block_int8_kernel", 26
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        graph = subject.facts.graph
        for node in graph.of(OpKind.DIV):
            top = _largest(graph, node.op.inputs[1])
            if top is None or graph.producer(top.op.inputs[0]) is None:
                continue
            held = graph.producer(graph.core(_magnitudes(graph, top)))
            if held is None or _left_out(subject.facts, node, top):
                continue
            if graph.rests_on(node.op.inputs[0], held):
                yield self.finding(
                    subject,
                    "a tile is divided by its own largest magnitude: a tile of zeros gives 0 / 0, "
                    "which is a NaN",
                    "keep the divisor above zero: a maximum with a small number, or a select",
                    [node, top],
                )
            elif scaled := _times(graph, node, held):
                yield self.finding(
                    subject,
                    "a tile is multiplied by a number over its own largest magnitude: a tile of "
                    "zeros gives 0 times infinity, which is a NaN",
                    "keep the divisor above zero: a maximum with a small number, or a select",
                    [scaled, node, top],
                )


def _left_out(facts: Facts, quotient: Node, top: Node) -> bool:
    """Whether a choice by comparing the largest magnitude with zero takes something else than what
    is made of the quotient."""
    graph = facts.graph
    for user in graph.downstream(quotient.result, NEAR):
        if user.op.kind != OpKind.SELECT:
            continue
        kept = [user.op.operand(side) for side in ("x", "y")]
        for test in comparisons(facts, user.op.operand("condition")):
            sides = [one for one in test.op.inputs[:2] if facts.number(one) != 0]
            asked = len(sides) == 1 and graph.rests_on(sides[0], top)
            if asked and not graph.rests_on(sides[0], quotient):
                return any(not graph.rests_on(one, quotient) for one in kept)
    return False


def _times(graph: Graph, quotient: Node, held: Node) -> Node | None:
    """The product of a quotient with what the largest magnitude was taken of."""
    for product in graph.of(OpKind.MUL):
        sides = product.op.inputs[:2]
        cores = [graph.core(one) for one in sides]
        if quotient.result in cores:
            other = sides[1 - cores.index(quotient.result)]
            if graph.rests_on(other, held) and not graph.rests_on(other, quotient):
                return product
    return None


def _number(graph: Graph, value: str | None) -> bool:
    """A constant, or a number that the launch gives."""
    return graph.kind_of(value) == OpKind.CONST or value in graph.function.parameter_names


def _largest(graph: Graph, value: str) -> Node | None:
    """The maximum of magnitudes that a divisor is, up to a factor; None for any other."""
    for _ in range(16):
        node = graph.producer(graph.core(value))
        if node is None:
            return None
        if node.op.kind == OpKind.REDUCE_MAX:
            made = graph.producer(graph.core(node.op.inputs[0]))
            return node if made is not None and made.op.kind == OpKind.ABS else None
        if node.op.kind not in (OpKind.MUL, OpKind.DIV):
            return None
        left, right = (graph.core(one) for one in node.op.inputs[:2])
        if _number(graph, right) and left is not None:
            value = left
        elif _number(graph, left) and right is not None:
            if node.op.kind == OpKind.DIV:
                return None
            value = right
        else:
            return None
    return None


def _magnitudes(graph: Graph, top: Node) -> str | None:
    """What the absolute values were taken of."""
    made = graph.producer(graph.through(top.op.inputs[0], VIEWS | CASTS))
    return made.op.inputs[0] if made is not None else None

"""The largest magnitude that a scale follows is taken by a maximum that leaves a NaN out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from extractors.rules.nan_never_chosen import asks_for_nan
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, TURNS, VIEWS, Node
from kb.evidence import Finding, Severity
from kb.ops import READS, OpKind

_LARGEST = (OpKind.REDUCE_MAX, OpKind.MAXIMUM)
_HELD = CASTS | COPIES | VIEWS | TURNS
_NUMBERS = frozenset({OpKind.CONST, OpKind.FULL})
_INVERTED = frozenset({OpKind.DIV, OpKind.EXP2})

_ROWS = (
    POINTER
    + """
@triton.jit
def quantise(x, out, scales, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.max(tl.abs(v), axis=0) / 448.0 + 1e-12
    tl.store(out + row * n + at, (v / scale).to(tl.float8e4nv), mask=at < n)
    tl.store(scales + row, scale)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def quantise(x, out, scales, T: Int):
    i = ct.bid(0)
    v = ct.astype(ct.load(x, index=(i, 0), shape=(1, T)), ct.float32)
    scale = ct.max(abs(v), axis=1, keepdims=True) / 448.0 + 1e-12
    ct.store(out, index=(i, 0), tile=ct.astype(v / scale, out.dtype))
    ct.store(scales, index=(i, 0), tile=scale)
"""
)
_THREADS = """
__global__ void quantise(const float* x, signed char* out, float* scales, int n) {
  float most = 1e-12f;
  for (int i = 0; i < n; ++i) {
    most = fmaxf(most, fabsf(x[(size_t)threadIdx.x * n + i]));
  }
  float inverse = 127.0f / most;
  for (int i = 0; i < n; ++i) {
    out[(size_t)threadIdx.x * n + i] = (signed char)rintf(x[(size_t)threadIdx.x * n + i] * inverse);
  }
  scales[threadIdx.x] = most / 127.0f;
}
"""


class NanLeftOutOfScale(Rule):
    """The largest magnitude of numbers that are loaded is taken by a maximum that leaves a NaN out,
    as maxima do unless they are told otherwise, and the same numbers are divided by it."""

    name = "nan-left-out-of-scale"
    dialects = ("cuda", "cutile", "triton")
    matches = (Case(_ROWS, "a NaN"), Case(_TILES, "a NaN"), Case(_THREADS, "a NaN"))
    near_misses = (
        NearMiss(
            vary(_ROWS, ("    scale =", "    tl.device_assert(v == v)\n    scale =")),
            why="a NaN is asked for",
        ),
        NearMiss(
            vary(_TILES, ("keepdims=True) /", "keepdims=True, propagate_nan=True) /")),
            why="the maximum hands a NaN on",
        ),
        NearMiss(vary(_ROWS, ("(v / scale)", "v")), why="nothing is divided by it"),
        NearMiss(
            vary(_ROWS, ("tl.max(tl.abs(v), axis=0)", "tl.sum(tl.abs(v), axis=0)")),
            why="a sum hands a NaN on",
        ),
        NearMiss(
            vary(_ROWS, ("tl.max(tl.abs(v), axis=0)",
                         "tl.maximum(tl.abs(v), tl.abs(tl.load(scales + at)))")),
            why="the longer of two sides",
        ),
        NearMiss(
            vary(_ROWS, ("tl.max(tl.abs(v), axis=0) / 448.0 + 1e-12",
                         "tl.maximum(tl.abs(v), 1e-12)")),
            why="every number is held above zero for itself",
        ),
        NearMiss(
            vary(_THREADS, ("const float* x", "const int* x"), ("fabsf(", "(float)abs(")),
            why="whole numbers have none",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        found = {} if asks_for_nan(facts) else dict.fromkeys(_scaled(facts))
        if found:
            yield self.finding(
                subject,
                "the largest magnitude, by which the numbers are divided, is taken by a maximum "
                "that drops a NaN: with a NaN among them the scale is that of the others and does "
                "not show it",
                "let the maximum hand a NaN on, or say that inputs have none",
                found,
                Severity.NOTE,
            )


def _scaled(facts: Facts) -> Iterator[Node]:
    """Maxima of magnitudes, each with the quotients of the same numbers by it."""
    for largest in facts.graph.of(*_LARGEST):
        if largest.op.operand("propagate_nan") or not _of_numbers(facts, largest):
            continue
        if largest.op.kind == OpKind.MAXIMUM and _held_above(facts, largest):
            continue
        loads = facts.graph.node_set(_loads(facts, largest))
        quotients = [n for n in facts.graph.of(OpKind.DIV, OpKind.MUL) if
                     _divides(facts, n, largest, loads)] if loads else []  # fmt: skip
        if quotients:
            yield largest
            yield from quotients


def _held_above(facts: Facts, largest: Node) -> bool:
    """Whether a maximum only holds each number above a constant of its own."""
    sides = [facts.graph.ends(side, _HELD) for side in largest.op.inputs[:2]]
    return any(ends and all(n.op.kind in _NUMBERS for n in ends) for ends in sides)


def _of_numbers(facts: Facts, largest: Node) -> bool:
    """Whether a maximum is of real numbers; threads take that of halves by instructions of which
    some hand a NaN on."""
    dtype = facts.types.dtype(largest.result)
    return dtype == "f32" if facts.of_threads else dtype[:1] not in ("i", "u")


def _loads(facts: Facts, largest: Node) -> list[Node]:
    """Where the numbers are loaded whose magnitudes are compared, there and elsewhere."""
    sides = largest.op.inputs[: 1 if largest.op.kind == OpKind.REDUCE_MAX else 2]
    sizes = [node for side in sides for node in facts.graph.ends(side, _HELD)]
    numbers = [node.op.inputs[0] for node in sizes if node.op.kind == OpKind.ABS]
    made = [node for one in numbers for node in facts.graph.ends(one, _HELD)]
    loaded = {node.result for node in made if node.op.kind in READS}
    arrays = {load.array for load in facts.loads if load.value in loaded and load.array}
    if len(arrays) > 1:
        return []  # the longer of two sides, not the largest of many numbers
    whole = any(facts.types.dtype(value)[:1] in ("i", "u") for value in loaded)
    return [] if whole else [
        load.node for load in facts.loads if load.array in arrays or load.value in loaded
    ]  # fmt: skip


def _divides(facts: Facts, node: Node, largest: Node, loads: int) -> bool:
    """Whether a quotient, or a product with an inverse, is of the numbers by their largest."""
    graph = facts.graph
    left, right = node.op.inputs[:2] if len(node.op.inputs) > 1 else ("", "")
    for number, by in ((left, right), (right, left)):
        if graph.rests_on(number, largest) or not graph.rests_on(by, largest):
            continue
        if node.op.kind == OpKind.DIV:
            inverse = by == right
        else:
            above = graph.upstream(by, lambda n: n is largest)
            inverse = any(n.op.kind in _INVERTED and graph.rests_on(n.result, largest)
                          for n in above)  # fmt: skip
        if inverse and graph.rests_on_any(number, loads) and facts.stored_in(node.result):
            return True
    return False

"""The largest magnitude that a scale follows is taken by a maximum that leaves a NaN out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from extractors.rules.nan_never_chosen import asks_for_nan
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, TURNS, VIEWS, Node
from kb.evidence import Finding, Severity
from kb.ops import COMPARISONS, READS, OpKind

_LARGEST = (OpKind.REDUCE_MAX, OpKind.MAXIMUM)
_HELD = CASTS | COPIES | VIEWS | TURNS
_NUMBERS = frozenset({OpKind.CONST, OpKind.FULL})
_SCALES = _HELD | _NUMBERS | READS | COMPARISONS | {
    OpKind.REDUCE_MAX, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.MUL, OpKind.DIV, OpKind.ABS,
    OpKind.FOR, OpKind.WHILE, OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT,
}  # fmt: skip
"""What a scale is made of beside the largest magnitude."""

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
_PARTS = (
    POINTER
    + """
@triton.jit
def largest(x, out, n, CHUNK: tl.constexpr, T: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    most = tl.zeros((T,), dtype=tl.float32)
    for j in range(0, CHUNK, T):
        at = i * CHUNK + j + tl.arange(0, T)
        v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        most = tl.maximum(most, tl.abs(v))
    tl.store(out + i, tl.max(most, axis=0))
"""
)
_MERGED = (
    POINTER
    + """
@triton.jit
def merged(parts, scale, n):
    most = 0.0
    for j in range(n):
        most = tl.maximum(most, tl.load(parts + j))
    tl.store(scale, 448.0 / tl.maximum(most, 1e-12))
"""
)


class NanLeftOutOfScale(Rule):
    """The largest magnitude of numbers that are loaded is taken by a maximum that leaves a NaN out,
    as maxima do unless they are told otherwise, and the same numbers are divided by it, or it is
    stored for those who divide."""

    name = "nan-left-out-of-scale"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(_ROWS, "a NaN"),
        Case(_TILES, "a NaN"),
        Case(_THREADS, "a NaN"),
        Case(_PARTS, "which is stored"),
        Case(_MERGED, "which is stored"),
        Case(
            vary(
                _MERGED,
                ("448.0 / tl.maximum(most, 1e-12)", "tl.where(most > 0.0, 448.0 / most, 1.0)"),
            ),
            "which is stored",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_ROWS, ("    scale =", "    tl.device_assert(v == v)\n    scale =")),
            why="a NaN is asked for",
        ),
        NearMiss(
            vary(_TILES, ("keepdims=True) /", "keepdims=True, propagate_nan=True) /")),
            why="the maximum hands a NaN on",
        ),
        NearMiss(
            vary(_ROWS, ("(v / scale)", "v"), ("tl.store(scales + row, scale)", "pass")),
            why="nothing is divided by it, and it is not stored",
        ),
        NearMiss(
            vary(_PARTS, ("tl.abs(v)", "v")), why="the largest number, which is no magnitude"
        ),
        NearMiss(
            vary(_PARTS, ("tl.max(most, axis=0)", "tl.sum(most, axis=0)")),
            why="a sum of magnitudes is no scale",
        ),
        NearMiss(
            vary(_MERGED, ("most = 0.0", "most = -float('inf')")),
            why="numbers of either sign, which are no magnitudes",
        ),
        NearMiss(
            vary(_MERGED, ("448.0 / tl.maximum(most, 1e-12)", "most")),
            why="numbers above zero, of which nobody says that they are magnitudes",
        ),
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
        if asks_for_nan(facts):
            return
        found = dict.fromkeys(_scaled(facts))
        if found:
            yield self._told(subject, "by which the numbers are divided,", found)
            return
        kept = dict.fromkeys(_kept(facts))
        if kept:
            yield self._told(subject, "which is stored,", kept)

    def _told(self, subject: Subject, what: str, found: Iterable[Node]) -> Finding:
        return self.finding(
            subject,
            f"the largest magnitude, {what} is taken by a maximum that drops a NaN: with a NaN "
            "among them the scale is that of the others and does not show it",
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


def _kept(facts: Facts) -> Iterator[Node]:
    """Maxima of magnitudes that are stored, perhaps with others and times a number."""
    for largest in facts.graph.of(*_LARGEST):
        if largest.op.operand("propagate_nan") or not _of_numbers(facts, largest):
            continue
        if largest.op.kind == OpKind.MAXIMUM and _held_above(facts, largest):
            continue
        inverted = not _loads(facts, largest)
        if inverted and not _of_magnitudes(facts, largest):
            continue
        if any(_leads(facts, one.value, largest, inverted) for one in facts.stores):
            yield largest


def _leads(facts: Facts, stored: str, largest: Node, inverted: bool) -> bool:
    """Whether a stored number is a maximum, or a scale that is made of it alone; `inverted` where
    only a number that is divided by it tells that it is a scale."""
    graph = facts.graph
    above = [
        node
        for node in graph.upstream(stored, lambda n: n is largest or n.op.kind not in _SCALES)
        if graph.rests_on(node.result, largest)
    ]
    if largest not in above or any(node.op.kind not in _SCALES for node in above):
        return False
    return not inverted or any(
        node.op.kind == OpKind.DIV and graph.rests_on(node.op.inputs[1], largest) for node in above
    )


def _of_magnitudes(facts: Facts, largest: Node) -> bool:
    """Whether a loop goes through loaded numbers of one array and begins at zero, below which it
    keeps nothing."""
    if largest.op.kind != OpKind.MAXIMUM:
        return False
    for loop in facts.loops:
        for carried in loop.carried:
            begun = facts.graph.producer(facts.graph.core(carried.init))
            zero = begun is not None and begun.op.attribute("value") in (0, 0.0)
            if zero and facts.graph.core(carried.next) == largest.result:
                others = [v for v in largest.op.inputs[:2] if v != carried.argument]
                made = facts.graph.ends(others[0], _HELD) if len(others) == 1 else []
                return bool(made) and all(node.op.kind in READS for node in made)
    return False


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

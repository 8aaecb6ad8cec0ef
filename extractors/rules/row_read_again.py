"""Successive loops load the same elements from global memory again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_POINTER = (
    POINTER
    + """
@triton.jit
def softmax(x, out, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    top = float("-inf")
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        v = tl.load(x + row + at, mask=at < n, other=float("-inf"))
        top = tl.maximum(top, tl.max(v, axis=0))
    tot = 0.0
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        v = tl.load(x + row + at, mask=at < n, other=float("-inf"))
        tot += tl.sum(tl.exp(v - top), axis=0)
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        v = tl.load(x + row + at, mask=at < n, other=float("-inf"))
        tl.store(out + row + at, tl.exp(v - top) / tot, mask=at < n)
"""
)
_TILED = (
    TILE
    + """
@ct.kernel
def norm(x, out, N: Int, T: Int):
    row = ct.bid(0)
    tot = ct.full((1, T), 0.0, dtype=ct.float32)
    for j in range(ct.cdiv(N, T)):
        v = ct.load(x, index=(row, j), shape=(1, T), padding_mode=ct.PaddingMode.ZERO)
        tot += v * v
    scale = ct.rsqrt(ct.sum(tot, axis=1, keepdims=True) / N)
    for j in range(ct.cdiv(N, T)):
        w = ct.load(x, index=(row, j), shape=(1, T), padding_mode=ct.PaddingMode.ZERO)
        ct.store(out, index=(row, j), tile=w * scale)
"""
)
_KEPT = """
template <bool KEEP>
__global__ void norm(const float* x, float* out, int n) {
  extern __shared__ float row[];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = x[blockIdx.x * n + i];
    if constexpr (KEEP) { row[i] = v; }
    sum += v * v;
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = KEEP ? row[i] : x[blockIdx.x * n + i];
    out[blockIdx.x * n + i] = v * sum;
  }
}
"""


class RowReadAgain(Rule):
    """Two loops of one block, one after the other, load the same elements of one array, and no
    compile-time flag keeps them in shared memory where they fit."""

    name = "row-read-again"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(_POINTER, "3 loops"),
        Case(_TILED, "2 loops"),
        Case(vary(_KEPT, ("KEEP ? row[i] : ", "")), "2 loops"),
        Case(vary(_KEPT, ("KEEP ? row[i]", "KEEP ? 0.0f")), "2 loops"),
    )
    near_misses = (
        NearMiss(_KEPT, why="a flag keeps the row in shared memory where it fits"),
        NearMiss(
            vary(
                _KEPT,
                (
                    "v = KEEP ? row[i] : x[blockIdx.x * n + i];",
                    "v;\n    if constexpr (KEEP) { v = row[i]; }\n"
                    "    else { v = x[blockIdx.x * n + i]; }",
                ),
            ),
            why="a flag keeps the row in shared memory where it fits",
        ),
        NearMiss(
            vary(_TILED, ("w = ct.load(x", "w = ct.load(y"), ("(x, out", "(x, y, out")),
            why="the second loop reads another array",
        ),
        NearMiss(
            vary(_TILED, ("w = ct.load(x, index=(row", "w = ct.load(x, index=(row + 1")),
            why="the second loop reads other elements",
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/softmax.py", "_softmax_kernel_chunked", 153),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        for loads in _repeats(subject.facts):
            array = loads[0].array
            yield self.finding(
                subject,
                f"`{array}` is loaded from global memory in {len(loads)} loops, the same elements "
                "each time: a row that does not stay in the cache is read as often",
                "keep the row in registers or shared memory where it fits, or compute the "
                "statistics in one pass (online)",
                loads,
                Severity.NOTE,
            )


def _repeats(facts: Facts) -> Iterator[list[Access]]:
    """Loads of the same elements in loops that stand one after the other."""
    written = {a.array for a in facts.stores}
    groups: dict[tuple[object, ...], list[Access]] = {}
    for access in facts.loads:
        loop = access.loop
        if loop is None or access.array is None or access.array in written:
            continue
        if all(extent == "1" for extent in facts.types.shape(access.value)):
            continue  # single elements stay in the cache
        if access.mode is Mode.ADVANCED or any(i.has(*_UNSURE) for i in access.index):
            continue
        place = tuple(_renamed(index, loop, facts) for index in access.index)
        bounds = _bounds(facts, loop)
        if bounds is None or not _moves(access, loop, facts) or _kept(access, loop, facts):
            continue
        key = (access.array, access.mode, place, bounds, loop.parent, loop.branch)
        groups.setdefault(key, []).append(access)
    told: set[str] = set()
    for loads in groups.values():
        first: dict[int, Access] = {}
        for access in loads:
            first.setdefault(id(access.loop), access)
        if len(first) > 1 and loads[0].array not in told:
            told.add(str(loads[0].array))
            yield list(first.values())


def _kept(access: Access, loop: Node, facts: Facts) -> bool:
    """Whether a compile-time flag inside the loop has the value read from a copy instead."""
    around = access.node.parent if facts.of_threads else None
    while around is not None and around is not loop:
        condition = around.op.operand("condition")
        if around.op.kind in _BRANCHES and condition is not None:
            flag = facts.values.compile_time(facts.values.expr(condition))
            if flag and _reads_copy(facts, around, str(access.array)):
                return True
        around = around.parent
    return False


def _reads_copy(facts: Facts, branch: Node, array: str) -> bool:
    """Whether threads read other memory than an array inside a branch."""
    graph, around = facts.threads, branch.op
    for one in graph.of(around.kind):
        if one.op.span.path != around.span.path or one.lines != branch.lines:
            continue
        for load in graph.of(OpKind.LOAD):
            place = load.op.operand("pointer") or load.op.inputs[0]
            if load.inside(one) and place != array:
                behind = {v for node in graph.upstream(place) for v in node.op.inputs}
                if array not in behind:
                    return True
    return False


_BRANCHES = (OpKind.IF, OpKind.IF_EXPRESSION)
_UNSURE = (AtomKind.OPAQUE, AtomKind.LOADED, AtomKind.CHOICE, AtomKind.COUNT)


def _bounds(facts: Facts, node: Node) -> tuple[str, ...] | None:
    """The bounds of a loop as text; None when they are not known."""
    loop = facts.loop(node)
    if loop is None or loop.high is None or loop.induction is None:
        return None
    exprs = [facts.values.expr(v) for v in (loop.low, loop.high, loop.step) if v is not None]
    return None if any(e.has(AtomKind.OPAQUE) for e in exprs) else tuple(map(str, exprs))


def _counter(facts: Facts, node: Node) -> Atom | None:
    loop = facts.loop(node)
    return facts.values.expr(loop.induction).atom if loop and loop.induction else None


def _moves(access: Access, node: Node, facts: Facts) -> bool:
    counter = _counter(facts, node)
    return counter is not None and any(counter in set(i.atoms()) for i in access.index)


def _renamed(index: Expr, node: Node, facts: Facts) -> str:
    """The text of an index with the counter of its loop under one name."""
    counter = _counter(facts, node)
    return str(index) if counter is None else str(index).replace(counter.text, "#")

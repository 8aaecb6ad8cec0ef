"""Places past the extent of the data that a kernel fills, as what comes after has a fixed size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows_threads import ADD_THREADS, SORT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_STORED = "padding written by the kernel"
_SORTED = "keys padded to the items of the threads"
_PLACES = (AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION)
_BELOW = {OpKind.LT: True, OpKind.LE: True, OpKind.GT: False, OpKind.GE: False}
"""Whether the left side of a comparison lies below the right one."""

_PACK = """__global__ void pack(const float* x, float* out, int rows, int cols, int padded,
                     int all) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= all) return;
    int row = at / padded;
    int col = at % padded;
    float v = 0.f;
    if (row < rows && col < cols) v = x[row * cols + col];
    out[at] = v;
}
"""
_ROWS = """__global__ void scale(const float* x, unsigned char* out, int rows, int all, int cols) {
    for (int row = blockIdx.x; row < all; row += gridDim.x) {
        bool past = row >= rows;
        for (int c = threadIdx.x; c < cols; c += blockDim.x) {
            if (past) {
                out[row * cols + c] = 0;
                continue;
            }
            out[row * cols + c] = (unsigned char)(x[row * cols + c] * 3.f);
        }
    }
}
"""


class FilledPadding(Pattern):
    """Threads store a number where a place lies past an extent, in an array that takes computed
    values elsewhere, or store what was loaded below an extent and a number past it; or keys of a
    sort are a number past the extent of the row."""

    name = "places-past-the-extent-filled"
    axis = "tile_padding"
    source = "NVIDIA, cuBLAS documentation: layout of block scaling factors, 128x4 tiles"
    matches = (
        Case(_PACK, _STORED),
        Case(_ROWS, _STORED),
        Case(SORT_THREADS, _SORTED),
    )
    near_misses = (
        NearMiss(vary(_PACK, ("    out[at] = v", "    if (row < rows && col < cols) out[at] = v")),
                 why="nothing past the extents is stored"),
        NearMiss(vary(_PACK, ("row < rows && col < cols", "rows > 4")), why="no place asked for"),
        NearMiss(vary(_ROWS, ("row >= rows", "x[row] > 0.f")), why="what was loaded is asked for"),
        NearMiss(vary(_ROWS, ("row >= rows", "row < rows")), why="places below are cleared"),
        NearMiss(vary(_ROWS, ("out[row * cols + c] = 0", "marks[row * cols + c] = 0"),
                      ("int cols)", "int cols, float* marks)")), why="another array is cleared"),
        NearMiss(vary(SORT_THREADS, ("= at < n ?", "= n > 7 ?")), why="no place is asked for"),
        NearMiss(ADD_THREADS, why="nothing past the extent"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        written = [node for store in facts.stores for node in _written(facts, store)]
        if written:
            yield self.decide(facts, _STORED, dict.fromkeys(written))
        keys = [node for sort in facts.graph.of(OpKind.SORT) for node in _keys(facts, sort)]
        if keys:
            yield self.decide(facts, _SORTED, dict.fromkeys(keys))


def _written(facts: Facts, store: Access) -> list[Node]:
    """A store past an extent, with what asks for that; none of others."""
    if store.is_atomic or store.array is None or store.value is None:
        return []
    if facts.number(store.value) is not None:
        computed = any(
            other.array == store.array and other.value and facts.number(other.value) is None
            for other in facts.stores
        )
        past = [t for t, holds in _tests(facts, store.node, store.mask) if _past(facts, t, holds)]
        return [*past, store.node] if past and computed else []
    own = {sides(facts, test) for test, _ in _tests(facts, store.node, store.mask)}
    found: list[Node] = []
    for load in facts.held_loads(store.value):
        inside = [t for t, holds in _asked(facts, load.mask, True) if _past(facts, t, not holds)]
        number = load.padding not in ("", "undetermined")
        apart = not own & {sides(facts, test) for test in inside}
        if number and inside and apart and load.node.parent is store.node.parent:
            found += [*inside, load.node, store.node]
    return found


def _keys(facts: Facts, sort: Node) -> list[Node]:
    """Choices between loaded keys and others by a place, which a sort takes."""
    found: list[Node] = []
    for value in sort.op.inputs[:1]:
        for node in facts.graph.upstream(value):
            if node.op.kind != OpKind.SELECT or len(node.op.inputs) < 3:
                continue
            sides_ = [bool(facts.feeding(v)) for v in node.op.inputs[1:3]]
            asked = comparisons(facts, node.op.inputs[0])
            if sides_[0] != sides_[1] and asked and all(_by_place(facts, t) for t in asked):
                found += [node, *asked]
    return [*found, sort] if found else []


def _tests(facts: Facts, node: Node, mask: str | None) -> Iterator[tuple[Node, bool]]:
    """Comparisons that hold, or do not, where an operation runs: of its mask and of the branches
    around it."""
    yield from _asked(facts, mask, True)
    for one in (node, *node.around()):
        if one.parent is not None and one.parent.op.kind == OpKind.IF:
            yield from _asked(facts, one.parent.op.inputs[0], one.branch == 0)


def _asked(facts: Facts, condition: str | None, holds: bool) -> Iterator[tuple[Node, bool]]:
    """The comparisons of a condition, each with whether it holds where the condition does."""
    node = facts.graph.producer(facts.graph.core(condition)) if condition is not None else None
    if node is None:
        return
    if node.op.kind in _BELOW:
        yield node, holds
    elif node.op.kind == OpKind.NOT:
        yield from _asked(facts, node.op.inputs[0], not holds)
    elif node.op.kind in (OpKind.AND, OpKind.OR, OpKind.BIT_AND, OpKind.BIT_OR):
        for value in node.op.inputs[:2]:
            yield from _asked(facts, value, holds)


def _past(facts: Facts, test: Node, holds: bool) -> bool:
    """Whether a test says that a place lies past an extent."""
    left, right = sides(facts, test)
    below = _BELOW[OpKind(test.op.kind)] == holds
    place, extent = (right, left) if below else (left, right)
    return _is_place(place) and _is_extent(extent)


def _by_place(facts: Facts, test: Node) -> bool:
    if test.op.kind not in _BELOW:
        return False
    left, right = sides(facts, test)
    return any(_is_place(a) and _is_extent(b) for a, b in ((left, right), (right, left)))


def _is_place(side: Expr) -> bool:
    return side.has(*_PLACES) and not side.has(AtomKind.LOADED)


def _is_extent(side: Expr) -> bool:
    return side.constant is None and not side.has(*_PLACES) and not side.has(AtomKind.LOADED)

"""How segments and pages of irregular length are found."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, TILE, vary
from extractors.patterns.cases_indirect import (
    CODES,
    ROWS,
    ROWS_THREADS,
    SEGMENT,
    SLOT_THREADS,
    SPARSE,
    TABLE_THREADS,
)
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.alternatives import alternatives
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.held_pointers import held_pointers
from kb.analysis.led_places import in_ring, led_by
from kb.analysis.loops import Loop
from kb.analysis.symbolic import ONE, Atom, AtomKind, Expr, mul, of, only_bounds, scale, sub
from kb.evidence import Decision

_PAGED = vary(
    ATTENTION,
    ("out, rate: float", "out, pages, rate: float"),
    ("        k = ct.load(b, index=(bat, kv, 0, j)", "        page = ct.gather(pages, (bat, j)).item()\n        k = ct.load(b, index=(page, kv, 0, 0)"),  # noqa: E501
)  # fmt: skip


Found = tuple[Node, Node]
"""What loads a number, and an access that it places."""

_GATHER = "token-level gather"
_PAGE = "page id scalar + tile load"
_OFFSET = "cu_seqlens pointer offset"
_POSITIONS = (AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT)
_ROW = "row by a loaded id"
_ELEMENT = "element by a loaded index"
_STATE = (
    POINTER
    + """
@triton.jit
def pick(x, ids, out, s, T: tl.constexpr):
    own = tl.program_id(0)
    at = tl.arange(0, T)
    tl.store(out + own * s + at, tl.load(x + tl.load(ids + own) * s + at))
"""
)
_POINTERS_THREADS = """
__global__ void part(const float* x, const float** rows, const int* starts, int* sizes, int wide) {
    int i = threadIdx.x;
    int at = starts[i];
    sizes[i] = starts[i + 1] - at;
    rows[i] = x + at * wide;
}
"""
_GUARDED = vary(
    _STATE,
    (
        "    tl.store(out",
        "    row = tl.load(ids + own)\n    row = tl.where(row > 0, row, 0)\n    tl.store(out",
    ),
    ("tl.load(x + tl.load(ids + own) * s", "tl.load(x + row * s"),
)
_BLOCKS = vary(
    _STATE,
    (
        "tl.store(out + own * s + at, tl.load(x + tl.load(ids + own) * s + at))",
        "at = tl.load(ids + own) * T + tl.arange(0, T)\n"
        "    tl.store(out + own * T + tl.arange(0, T), tl.load(x + at * s))",
    ),
    ("def pick(x, ids, out, s, T", "def pick(x, ids, out, s, n, T"),
)
"""A list says which tiles of an array are read."""
_CALL = """__global__ void copy(const float* x, const int* turn, float* out, int n) {
    const float* half = x + (*turn % 2) * n;
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        out[blockIdx.x * 64 + i] = half[blockIdx.x * 64 + i];
}
"""
"""Which half of a buffer is read is loaded, the same for all blocks."""
_SLOT = vary(
    _STATE,
    (
        "tl.store(out + own * s + at, tl.load(x + tl.load(ids + own) * s + at))",
        "slot = tl.load(ids + own)\n"
        "    page = out + (slot // 16).to(tl.int64) * s + (slot % 16) * T\n"
        "    tl.store(page + at, tl.load(x + own * T + at))",
    ),
)
_LABEL = (
    POINTER
    + """
@triton.jit
def label(x, names, out, s):
    own = tl.program_id(0)
    tl.store(out + own, tl.load(x + own * s + tl.load(names + own)))
"""
)
_LABEL_TILE = (
    TILE
    + """
@ct.kernel
def label(x, names, out):
    own = ct.bid(0)
    name = ct.load(names, own, shape=())
    ct.scatter(out, own, ct.gather(x, (own, name), check_bounds=False))
"""
)


_BEGUN = vary(
    _STATE,
    (
        "tl.store(out + own * s + at, tl.load(x + tl.load(ids + own) * s + at))",
        "begin = tl.load(ids + own)\n"
        "    if tl.load(ids + own + 1) - begin == 1:\n"
        "        tl.store(out + own * s + at, tl.load(x + begin * s + at))",
    ),
)


class IndirectAccess(Pattern):
    """A loaded number is part of the address of another access: a start that positions are added
    to, a row or an element that it chooses, or a page."""

    name = "block-table-indirection"
    axis = "ragged_access"
    source = "Kwon et al., Efficient Memory Management with PagedAttention (2023)"
    matches = (
        Case(_PAGED, _PAGE),
        Case(_BLOCKS, _PAGE),
        Case(vary(_BLOCKS, ("x + at * s", "x + at % n * s")), _PAGE),
        Case(ROWS, "token-level gather"),
        Case(vary(CODES, ("table + code", "table + code * n")), "token-level gather"),
        Case(SEGMENT, _OFFSET),
        Case(SPARSE, "loop bounds loaded"),
        Case(_STATE, _ROW),
        Case(_GUARDED, _ROW),
        Case(vary(_GUARDED, ("row, 0)", "row, own)")), _ROW),
        Case(_SLOT, _ROW),
        Case(_LABEL, _ELEMENT),
        Case(_LABEL_TILE, _ELEMENT),
        Case(ROWS_THREADS, _OFFSET),
        Case(TABLE_THREADS, _ROW),
        Case(SLOT_THREADS, _ROW),
        Case(_BEGUN, _OFFSET),
        Case(_POINTERS_THREADS, "cu_seqlens pointer offset"),
    )
    near_misses = (
        NearMiss(TABLE_THREADS, why="the number chooses a row of known length", value=_OFFSET),
        NearMiss(SLOT_THREADS, why="a page and a place in it, either way", value=_OFFSET),
        NearMiss(
            vary(_BLOCKS, ("(ids + own) * T", "(ids + own) * 4")),
            why="a place between the tiles, not the number of one",
            value=_PAGE,
        ),
        NearMiss(
            _POINTERS_THREADS.replace("starts[i + 1] - at", "4"),
            why="nothing says that segments begin there",
        ),
        NearMiss(
            _POINTERS_THREADS.replace("x + at * wide", "x + i * wide"),
            why="as many rows for each",
        ),
        NearMiss(CODES, why="numbers of a table, looked up by codes"),
        NearMiss(vary(CODES, (" % 16", "")), why="numbers of a table, looked up by classes"),
        NearMiss(_SLOT, why="a place in a page is no start of a segment", value=_OFFSET),
        NearMiss(ATTENTION, why="addresses are computed from block ids"),
        NearMiss(
            vary(SPARSE, ("tl.load(starts + own + 1)", "n")),
            why="every row ends where the array does",
            value="loop bounds loaded",
        ),
        NearMiss(SEGMENT, why="positions are counted from the start", value=_ROW),
        NearMiss(
            vary(_STATE, ("tl.load(ids + own) * s + at", "tl.load(ids) * own + at")),
            why="a stride is loaded",
        ),
        NearMiss(_STATE, why="the row is the loaded one", value=_OFFSET),
        NearMiss(
            vary(_GUARDED, ("row, 0)", "row, own)"), ("row * s", "row * T")),
            why="the number of a tile, or that of the block",
            value=_PAGE,
        ),
        NearMiss(_GUARDED, why="the row is the loaded one, or the first", value=_OFFSET),
        NearMiss(ROWS_THREADS.replace("y] +", "y] % n +"), why="a place in a ring"),
        NearMiss(_CALL, why="one number for all blocks", value=_OFFSET),
        NearMiss(_BEGUN, why="a segment begins at the row", value=_ROW),
        NearMiss(_LABEL, why="one element is picked", value=_OFFSET),
        NearMiss(ADD_POINTER, why="addresses are computed from block ids"),
        NearMiss(FLASH_THREADS, why="addresses are computed from block ids"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Found]] = {}
        for access in facts.accesses:
            for node in self._loaded(facts, access):
                if value := self._value(facts, access, node):
                    found.setdefault(value, []).append((node, access.node))
        if starts := [pair for pair in held_pointers(facts) if _begins(facts, pair[0])]:
            found.setdefault(_OFFSET, []).extend(starts)
        bounds = [n for loop in facts.loops for n in self._bounds(facts, loop)]
        gathered = _GATHER in found and facts.contractions
        apart = self._problems(facts, found) if gathered else set()
        for value, pairs in found.items():
            kept = [pair for pair in pairs if pair[0] not in apart]
            if nodes := [n for pair in kept for n in pair]:
                yield self.decide(facts, value, [*nodes, *led_by(facts, kept)])
        if bounds:
            yield self.decide(facts, "loop bounds loaded", bounds)

    def _problems(self, facts: Facts, found: dict[str, list[Found]]) -> set[Node]:
        """Beside gathered rows, the one number per block that chooses a matrix: it says to which
        problem the tile of a block belongs."""
        chosen = {node for value in (_ROW, _ELEMENT) for node, _ in found.get(value, ())}
        return {
            node
            for node in chosen
            if not node.loops and not set(facts.types.shape(node.result)) - {"1"}
        }

    def _bounds(self, facts: Facts, loop: Loop) -> list[Node]:
        """Loads of both ends of a loop that reads from place to place."""
        ends = [v for v in (loop.low, loop.high) if v is not None]
        if len(ends) < 2 or not all(facts.values.expr(v).has(AtomKind.LOADED) for v in ends):
            return []
        step = facts.values.expr(loop.induction).atom
        inside = [a for a in facts.loads if a.node.inside(loop.node)]
        if not any(step in set(e.atoms()) for a in inside for e in a.index):
            return []
        placed = (AtomKind.BLOCK, AtomKind.INDUCTION)
        loads = [
            a.node
            for v in ends
            for a in facts.feeding(v)
            if not a.node.inside(loop.node) and any(i.has(*placed) for i in a.index)
        ]
        return [*loads, loop.node] if len({*loads}) > 1 else []

    def _loaded(self, facts: Facts, access: Access) -> list[Node]:
        names = {a.value for e in access.index for a in e.atoms() if a.kind is AtomKind.LOADED}
        return [n for name in names if (n := facts.graph.producer(name)) is not None]

    def _value(self, facts: Facts, access: Access, node: Node) -> str:
        if set(facts.types.shape(node.result)) - {"1"}:
            return "" if _looked_up(access) else _GATHER
        own = [e for e in access.index if any(a.value == node.result for a in e.atoms())]
        own = [side for e in own for side in alternatives(e, node.result)]
        if own and all(only_bounds(e, node.result) or in_ring(e, node.result) for e in own):
            return ""
        single = not set(facts.types.shape(access.value)) - {"1"}
        if facts.of_threads and _of_the_call(facts, node):
            return ""
        if len(access.index) > 1 and any(_is_loaded(e) for e in own):
            return _ELEMENT if single and access.mode is Mode.ELEMENT else _PAGE
        if any(_of_tiles(e, node.result) for e in own):
            return _PAGE
        steps = [s for e in own for s in _steps(e, node.result)]
        if steps and all(s.has(*_POSITIONS) for s in steps):
            return ""
        if not steps and access.mode is Mode.POINTER and _paged(own, node.result):
            return _ROW
        if access.mode is Mode.ELEMENT and single and steps and all(s.constant == 1 for s in steps):
            return _ELEMENT
        if access.mode is not Mode.POINTER or access.array in self._tables(facts):
            return _OFFSET
        if steps and all(_chosen(e, s, node.result) for e in own for s in _steps(e, node.result)):
            if _begins(facts, node):
                return _OFFSET
            return _ROW if any(s.constant != 1 for s in steps) else _ELEMENT
        return _OFFSET

    def _tables(self, facts: Facts) -> set[str | None]:
        """Arrays of numbers that say where other accesses are."""
        return {a.array for a in facts.loads if a.value in facts.offset_loads}


def chosen_rows(facts: Facts, accesses: Iterable[Access]) -> list[Access]:
    """Accesses of whole rows, or of a tile of rows, that loaded numbers choose."""
    pattern = IndirectAccess()
    return [
        access
        for access in accesses
        if access.value not in facts.offset_loads
        if any(pattern._value(facts, access, n) in (_ROW, _GATHER)
               for n in pattern._loaded(facts, access))
    ]  # fmt: skip


def _looked_up(access: Access) -> bool:
    """Whether loaded numbers alone say which elements of an array are read: those of a table of
    numbers, a weight of each class or a code, and no rows."""
    parts = (AtomKind.LOADED, AtomKind.FLOOR_DIV, AtomKind.MOD)
    atoms = [a for e in access.index for a in e.atoms()]
    alone = bool(atoms) and all(a.kind in parts for a in atoms)
    return alone and not access.is_store


def _of_the_call(facts: Facts, node: Node) -> bool:
    """Whether a number is loaded from one place, the same for all blocks and rounds: it says where
    the work of the whole call lies, not of a part."""
    own = facts.access(node)
    return own is not None and bool(own.index) and all(i.constant is not None for i in own.index)


def _begins(facts: Facts, node: Node) -> bool:
    """True for a number whose next one in its array is loaded, too: a segment begins there."""
    own = facts.access(node)
    if own is None or own.array is None or not own.index:
        return False
    beside = [a for a in facts.loads if a.array == own.array and a.index]
    return any(sub(a.index[-1], own.index[-1]) == ONE for a in beside)


def _is_loaded(index: Expr) -> bool:
    return index.atom is not None and index.atom.kind is AtomKind.LOADED


def _steps(index: Expr, value: str) -> list[Expr]:
    """What a loaded number is multiplied with; where a branch chooses between that and another
    place, only if it counts single rows."""
    taken = [a for a in set(index.top()) if _is_number(a, value)]
    steps = [(a, index.coefficient(a)) for a in taken]
    return [step for a, step in steps if a.value == value or _single(index, step)]


def _is_number(atom: Atom, value: str) -> bool:
    """Whether an atom is a loaded number, or a choice of that or another one."""
    if atom.kind is not AtomKind.CHOICE:
        return atom.value == value
    return any(one.atom is not None and _is_number(one.atom, value) for one in atom.args)


def _single(index: Expr, step: Expr) -> bool:
    """Whether a step is a row, and as long as none of those of lanes or rounds, times a size:
    those count tiles or chunks."""
    moving = [a for a in set(index.top()) if a.kind in (AtomKind.LANE, AtomKind.INDUCTION)]
    sizes = [of(a) for a in step.top() if a.kind is AtomKind.PARAMETER]
    return step.constant is None and not any(
        mul(size, index.coefficient(a)) == step
        and (index.coefficient(a) != ONE or a.args[:1] == (size,))
        for size in sizes
        for a in moving
    )


def _of_tiles(index: Expr, value: str) -> bool:
    """True for a loaded number that counts tiles: a step of it is as long as a tile is. Positions
    may wrap around behind it."""
    inside = [a.args[0] for a in set(index.top()) if a.kind is AtomKind.MOD and a.args]
    steps = _steps(index, value)
    lanes = [a for a in set(index.top()) if a.kind is AtomKind.LANE]
    tiles = [mul(index.coefficient(a), a.args[0]) for a in lanes]
    return any(s in tiles for s in steps) or any(_of_tiles(e, value) for e in inside)


def _paged(index: list[Expr], value: str) -> bool:
    """True for a loaded number that is taken apart to a page and a place in it."""
    kinds = {
        a.kind
        for e in index
        for a in e.top()
        if a.kind in (AtomKind.FLOOR_DIV, AtomKind.MOD) and a.args[0].atom is not None
        if a.args[0].atom.value == value
    }
    return len(kinds) == 2


def _chosen(index: Expr, step: Expr, value: str) -> bool:
    """True when nothing else counts in the steps of a loaded number: it chooses a row, or one
    element, and is no start that positions are added to."""
    others = [
        a
        for a in set(index.top())
        if a.kind not in (AtomKind.PARAMETER, AtomKind.EXTENT) and not _is_number(a, value)
    ]
    if step.constant is not None and step.constant != 1:
        beside = [index.coefficient(a).constant for a in others]
        inside = [abs(by) < step.constant for by in beside if by is not None]
        return len(inside) == len(beside) and all(inside) and not _moved(others)
    return all(index.coefficient(a) not in (step, scale(step, -1)) for a in others)


def _moved(others: list[Atom]) -> bool:
    """Whether a block or a round goes on from there."""
    return any(of(a).has(AtomKind.BLOCK, AtomKind.INDUCTION) for a in others)

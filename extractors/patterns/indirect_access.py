"""How segments and pages of irregular length are found."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision

_PAGED = vary(
    ATTENTION,
    ("out, rate: float", "out, pages, rate: float"),
    ("        k = ct.load(b, index=(bat, kv, 0, j)", "        page = ct.gather(pages, (bat, j)).item()\n        k = ct.load(b, index=(page, kv, 0, 0)"),  # noqa: E501
)  # fmt: skip
_ROWS = (
    POINTER
    + """
@triton.jit
def pick(x, rows, out, s, n, T: tl.constexpr, W: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    row = tl.load(rows + at, mask=at < n)
    c = tl.arange(0, W)
    inside = at[:, None] < n
    v = tl.load(x + row[:, None] * s + c[None, :], mask=inside)
    tl.store(out + at[:, None] * s + c[None, :], v, mask=inside)
"""
)
_SEGMENT = (
    POINTER
    + """
@triton.jit
def segment(x, starts, out, s, T: tl.constexpr):
    first = tl.load(starts + tl.program_id(1))
    at = first + tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at))
"""
)


_SPARSE = (
    POINTER
    + """
@triton.jit
def rows(x, starts, out, n, T: tl.constexpr):
    own = tl.program_id(0)
    total = tl.zeros([T], tl.float32)
    for i in range(tl.load(starts + own), tl.load(starts + own + 1)):
        total += tl.load(x + i * T + tl.arange(0, T))
    tl.store(out + own * T + tl.arange(0, T), total)
"""
)
_ROWS_THREADS = """__global__ void segment(const float* x, const int* starts, float* out, int n) {
    int at = starts[blockIdx.y] + blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at];
}
"""


class IndirectAccess(Pattern):
    """A loaded number is part of the address of another load."""

    name = "block-table-indirection"
    axis = "ragged_access"
    source = "Kwon et al., Efficient Memory Management with PagedAttention (2023)"
    matches = (
        Case(_PAGED, "page id scalar + tile load"),
        Case(_ROWS, "token-level gather"),
        Case(_SEGMENT, "cu_seqlens pointer offset"),
        Case(_SPARSE, "loop bounds loaded"),
        Case(_ROWS_THREADS, "cu_seqlens pointer offset"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="addresses are computed from block ids"),
        NearMiss(
            vary(_SPARSE, ("tl.load(starts + own + 1)", "n")),
            why="every row ends where the array does",
            value="loop bounds loaded",
        ),
        NearMiss(ADD_POINTER, why="addresses are computed from block ids"),
        NearMiss(FLASH_THREADS, why="addresses are computed from block ids"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Node]] = {}
        for access in facts.accesses:
            for node in self._loaded(facts, access):
                found.setdefault(self._value(facts, access, node), []).extend((node, access.node))
        bounds = [n for loop in facts.loops for n in self._bounds(facts, loop)]
        if bounds:
            found.setdefault("loop bounds loaded", []).extend(bounds)
        for value, nodes in found.items():
            yield self.decide(facts, value, nodes)

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
        return [*loads, loop.node] if loads else []

    def _loaded(self, facts: Facts, access: Access) -> list[Node]:
        names = {a.value for e in access.index for a in e.atoms() if a.kind is AtomKind.LOADED}
        return [n for name in names if (n := facts.graph.producer(name)) is not None]

    def _value(self, facts: Facts, access: Access, node: Node) -> str:
        if facts.types.shape(node.result):
            return "token-level gather"
        alone = (
            any(e.atom is not None and e.atom.kind is AtomKind.LOADED for e in access.index)
            and len(access.index) > 1
        )
        return "page id scalar + tile load" if alone else "cu_seqlens pointer offset"

"""Numbers stored in few bits become full ones: each block of them is multiplied by its scale."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, NORM_BACKWARD
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.symbolic import Atom, AtomKind, sub
from kb.evidence import Decision
from kb.ops import OpKind

_BLOCK = (
    POINTER
    + """
@triton.jit
def widen(x, scales, out, rows, cols, T: tl.constexpr):
    m = tl.program_id(0)
    n = tl.program_id(1)
    row = m * T + tl.arange(0, T)
    col = n * T + tl.arange(0, T)
    at = row[:, None] * cols + col[None, :]
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, v * tl.load(scales + m * tl.cdiv(cols, T) + n), mask=inside)
"""
)
_GROUP = (
    POINTER
    + """
@triton.jit
def widen(x, scales, out, n, G: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    s = tl.load(scales + at // G, mask=at < n, other=0.0)
    tl.store(out + at, v * s, mask=at < n)
"""
)
_BLOCK_TILE = (
    TILE
    + """
@ct.kernel
def widen(x, scales, out, T: Int):
    m = ct.bid(0)
    n = ct.bid(1)
    v = ct.astype(ct.load(x, index=(m, n), shape=(T, T)), ct.float32)
    s = ct.load(scales, index=(m, n), shape=(1, 1))
    ct.store(out, index=(m, n), tile=v * s)
"""
)
_GROUP_THREADS = """__global__ void widen(const char* x, const float* scales, float* out, int n, int group) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = (float)x[at] * scales[at / group];
}
"""  # noqa: E501


_CODES_THREADS = """__constant__ float TABLE[4] = {0.f, 1.f, 2.f, 4.f};
__global__ void widen(const unsigned char* x, const float* scales, float* out, int n) {
    __shared__ float own[64];
    own[threadIdx.x] = scales[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    int at = blockIdx.x * 512 + threadIdx.x * 8;
    unsigned char codes = x[at / 4];
    float by = own[threadIdx.x];
    out[at] = TABLE[codes & 3] * by;
    out[at + 1] = TABLE[(codes >> 2) & 3] * by;
}
"""
_DROPPED_THREADS = """__global__ void drop(const float* x, const unsigned* kept, float* out,
                     int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = (float)((kept[at / 32] >> (at % 32)) & 1) * x[at];
}
"""


class BlockScaleApplied(Pattern):
    """A loaded number is multiplied by one that several neighbours share: it is loaded at their
    place divided by a size, or once for a tile of two axes at the place of both; the product is
    stored."""

    name = "loaded-scale-times-its-block"
    axis = "quant_scaling"
    source = "DeepSeek-AI, DeepSeek-V3 Technical Report (2024), section 3.3.2: fine-grained scales"
    matches = (
        Case(_BLOCK, "loaded scale times its block"),
        Case(_GROUP, "loaded scale times its block"),
        Case(_BLOCK_TILE, "loaded scale times its block"),
        Case(_GROUP_THREADS, "loaded scale times its block"),
        Case(_CODES_THREADS, "loaded scale times unpacked codes"),
    )
    near_misses = (
        NearMiss(_DROPPED_THREADS, why="a bit that keeps a number or drops it"),
        NearMiss(
            vary(
                _GROUP,
                ("def widen(x, scales,", "def widen(x, scales, shares,"),
                (
                    "    tl.store(",
                    "    c = tl.load(shares + at // G, mask=at < n, other=0.0)\n    tl.store(",
                ),
                ("v * s", "v * s + tl.load(x + (at ^ 1), mask=at < n, other=0.0) * c"),
            ),
            why="pairs are turned by an angle",
        ),
        NearMiss(
            vary(_BLOCK, ("scales + m * tl.cdiv(cols, T) + n", "scales + m")),
            why="a number for each strip of rows is a statistic, too",
        ),
        NearMiss(vary(_BLOCK, ("v * tl.load", "v + tl.load")), why="added, not scaled"),
        NearMiss(vary(_GROUP, ("at // G", "at % G")), why="one factor for each column"),
        NearMiss(vary(_GROUP, ("at // G", "at")), why="one factor for each element"),
        NearMiss(
            vary(_BLOCK_TILE, ("index=(m, n), shape=(1, 1)", "index=(0, n), shape=(1, T)")),
            why="one factor for each column",
        ),
        NearMiss(_GROUP_THREADS.replace("at / group", "at"), why="one factor for each element"),
        NearMiss(NORM_BACKWARD, why="a factor for each row, and one for each column"),
        NearMiss(ADD_POINTER, why="nothing is multiplied"),
        NearMiss(PRODUCT, why="a product of matrices"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions or len(facts.loads) < 2:
            return
        codes = _unpacked(facts)
        if codes:
            yield self.decide(facts, "loaded scale times unpacked codes", codes)
            return
        records = _records(facts)
        own = [a for a in facts.loads if a.array not in records]
        shared = {a.node: a for a in own if _of_group(a) or _of_tile(facts, a)}
        found: list[Where] = []
        for node in facts.graph.of(OpKind.MUL) if shared else ():
            for element, scale in (node.op.inputs[:2], node.op.inputs[1::-1]):
                given = [a for a in facts.held_loads(scale) if a.node in shared]
                tiles = [a for a in facts.held_loads(element) if a.node not in shared]
                if _turned(facts, node, [a.node for a in given], shared):
                    continue
                if given and any(_beside(a, g) for a in tiles for g in given):
                    stores = facts.stored_in(node.result)
                    found += [*given, node] if stores else []
        if found:
            yield self.decide(facts, "loaded scale times its block", found)


def _records(facts: Facts) -> set[str | None]:
    """Arrays of which a group has several numbers, side by side: no scale of its elements."""
    if not facts.of_threads:
        return set()
    first: dict[str | None, Access] = {}
    found = set[str | None]()
    for access in (a for a in facts.loads if len(a.index) == 1 and a.array is not None):
        other = first.setdefault(access.array, access)
        apart = sub(access.index[0], other.index[0]).constant if _of_group(access) else 0
        found |= {access.array} if apart else set()
    return found


def _unpacked(facts: Facts) -> list[Node]:
    """Products of a loaded number and one that a few bits of a loaded word stand for: they are cast
    or name a number of a table. One bit alone is a mask. What is stored rests on some of them."""
    found: list[Node] = []
    for node in facts.graph.of(OpKind.MUL) if facts.of_threads else ():
        for element, scale in (node.op.inputs[:2], node.op.inputs[1::-1]):
            given = {a.node.result for a in facts.held_loads(scale)}
            words = {n.result for n in _words(facts, element)}
            if given and words and not given & words:
                found.append(node)
    return found if any(facts.stored_in(n.result) for n in found) else []


def _words(facts: Facts, element: str) -> list[Node]:
    """The loads of words whose bits a number is, or that name it in a table of numbers."""
    graph = facts.threads
    value = graph.through(element, CASTS | {OpKind.COPY})
    made = graph.producer(value)
    if made is not None and made.op.kind == OpKind.EXTRACT:
        table = graph.producer(graph.core(made.op.operand("x")))
        fixed = table is not None and table.op.kind == OpKind.VECTOR
        numbers = table.op.inputs if table is not None and fixed else ("",)
        known = all(graph.kind_of(v) == OpKind.CONST for v in numbers)
        value = made.op.operand("index") if known else None
    made = graph.producer(graph.through(value, CASTS | {OpKind.COPY}))
    if made is not None and made.op.kind == OpKind.SUB:
        made = graph.producer(graph.through(made.op.inputs[0], CASTS | {OpKind.COPY}))
    if made is None or made.op.kind not in (OpKind.BIT_AND, OpKind.SHIFT_RIGHT):
        return []
    single = any(facts.thread_values.literal(v) == 1 for v in made.op.inputs[:2])
    return graph.roots(made.result, OpKind.LOAD) if not single else []


def _turned(facts: Facts, product: Node, given: list[Node], shared: Collection[Node]) -> bool:
    """True for one of two products that are added, each with a shared number of its own: pairs are
    turned by an angle."""
    added = (OpKind.ADD, OpKind.SUB, OpKind.FMA)
    users = [n for n in facts.graph.users(product.result) if n.op.kind in added]
    others = [v for n in users for v in n.op.inputs if v != product.result]
    return any(
        facts.graph.rests_on(v, n) for v in others for n in shared if given and n not in given
    )


def _of_group(access: Access) -> bool:
    """A place that is the quotient of a position, which neighbours share."""
    return any(
        atom.kind is AtomKind.FLOOR_DIV and atom.args[0].has(AtomKind.LANE)
        for index in access.index
        for atom in index.top()
    )


def _of_tile(facts: Facts, access: Access) -> bool:
    """One number at the place of two block ids."""
    alone = all(extent == "1" for extent in facts.types.shape(access.value))
    return (
        alone and len(_blocks(access)) > 1 and not any(i.has(AtomKind.LANE) for i in access.index)
    )


def _beside(element: Access, scale: Access) -> bool:
    """True when the elements lie where the scale is of: a quotient of their place, or the same
    tile of two axes."""
    if _of_group(scale):
        divided = {
            atom.args[0]
            for index in scale.index
            for atom in index.top()
            if atom.kind is AtomKind.FLOOR_DIV
        }
        lanes = {a for place in divided for a in place.top() if a.kind is AtomKind.LANE}
        return any(lanes & set(index.top()) for index in element.index)
    axes = 2 if element.mode is not Mode.POINTER else _axes(element)
    return axes > 1 and _blocks(scale) <= _blocks(element)


def _axes(access: Access) -> int:
    """Axes along which the lanes of a tile of pointers lie."""
    return len({a.value for i in access.index for a in i.top() if a.kind is AtomKind.LANE})


def _blocks(access: Access) -> set[Atom]:
    """Block ids that say where an access is."""
    return {atom for index in access.index for atom in index.atoms() if atom.kind is AtomKind.BLOCK}

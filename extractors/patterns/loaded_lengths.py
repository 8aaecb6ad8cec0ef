"""Sequences padded to one length, whose own lengths are loaded."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_pointer import DECODE_PART
from extractors.patterns.cases_rows import COPY
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind, Expr, only_bounds
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_POSITIONS = (AtomKind.LANE, AtomKind.INDUCTION, AtomKind.BLOCK)
_ORDERS = COMPARISONS - {OpKind.EQ, OpKind.NE}
_TILE = vary(
    ATTENTION,
    ("out, rate: float", "out, lengths, rate: float"),
    ("size = b.shape[2]", "size = ct.load(lengths, index=(ct.bid(1),), shape=(1,)).item()"),
)
_WINDOW = vary(
    _TILE,
    ("for j in range(0, last):", "for i in range(0, last):\n        j = max(0, size - x * TM) // TN + i"),  # noqa: E501
)  # fmt: skip
_POINTER = vary(
    ATTENTION_POINTER,
    ("out, rate,", "out, rate, lengths,"),
    ("    last = tl.minimum", "    size = tl.load(lengths + y)\n    last = tl.minimum"),
)
_THREADS = vary(
    FLASH_THREADS,
    ("half* out, float rate,", "half* out, const int* lengths, float rate,"),
    ("int last = TRI ? min((x + 1) * T, size) : size;", "int last = lengths[head];"),
)
_WALKED = (
    TILE
    + """
@ct.kernel
def double(x, out, lengths, n: Int, T: Int):
    for one in range(ct.bid(0), n * n, ct.num_blocks(0)):
        size = ct.load(lengths, index=(one // n,), shape=(1,)).item()
        if one % n * T < size:
            v = ct.load(x, index=(one // n, one % n), shape=(1, T))
            ct.store(out, index=(one // n, one % n), tile=v + v)
"""
)


class LoadedLengths(Pattern):
    """A number that the block id chooses is loaded and ends a loop or a range of positions; where
    anything lies does not depend on it."""

    name = "padded-sequences-with-loaded-lengths"
    axis = "ragged_access"
    source = "PyTorch documentation, torch.nn.utils.rnn.pad_packed_sequence"
    matches = (
        Case(_TILE, "length loaded per sequence"),
        Case(_WINDOW, "length loaded per sequence"),
        Case(_POINTER, "length loaded per sequence"),
        Case(_WALKED, "length loaded per sequence"),
        Case(_THREADS, "length loaded per sequence"),
        Case(DECODE_PART, "length loaded per sequence"),
    )
    near_misses = (
        NearMiss(
            vary(_WINDOW, ("max(0, size - x * TM) // TN + i", "size + i")),
            why="the number says where the keys lie",
        ),
        NearMiss(ATTENTION, why="the length is handed in"),
        NearMiss(
            vary(_POINTER, ("tl.load(lengths + y)", "tl.load(lengths)")),
            why="one length for all blocks",
        ),
        NearMiss(
            vary(_WALKED, ("index=(one // n,)", "index=(0,)")), why="one length for all blocks"
        ),
        NearMiss(
            vary(_POINTER, ("out + y * sh", "out + size * sm + y * sh")),
            why="the number says where the result lies",
        ),
        NearMiss(
            vary(
                _THREADS, ("int last = lengths[head];", "int last = size; rate *= lengths[head];")
            ),
            why="the loaded number scales scores",
        ),
        NearMiss(PRODUCT_POINTER, why="nothing but operands is loaded"),
        NearMiss(COPY, why="nothing but the input is loaded"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        numbers = [a for a in facts.loads if self._chosen(facts, a)]
        if not numbers:
            return
        placing = {a.array for a in facts.loads if self._places(facts, a)}
        walked = self._paged(facts)
        if walked and not any(a.array in placing and not a.loop for a in numbers):
            return
        ends = [
            (facts.values.expr(v), x.node)
            for x in facts.loops
            for v in (x.low, x.high)
            if v is not None and not (walked and self._listed(facts, x))
        ]
        ends += [
            (end, n) for n in facts.graph.of(*_ORDERS) for end in self._ends(facts, n.op.inputs)
        ]
        held: dict[str, list[Where]] = {}
        for end, node in ends:
            for atom in end.atoms():
                if atom.kind is AtomKind.LOADED:
                    held.setdefault(atom.value, []).append(node.head)
        found = [a for a in numbers if a.value in held and a.array not in placing]
        if found:
            where = [*found, *(place for a in found for place in held[a.value])]
            yield self.decide(facts, "length loaded per sequence", where)

    def _places(self, facts: Facts, access: Access) -> bool:
        """Whether a loaded number says where something lies, and not only how far positions go."""
        return access.value in facts.offset_loads and any(
            not only_bounds(index, access.value)
            for other in facts.accesses
            for index in other.index
            if any(atom.value == access.value for atom in index.atoms())
        )

    def _paged(self, facts: Facts) -> bool:
        """Whether what a loop reads lies where numbers say that are looked up along it: then a
        length says how many pages there are, and nothing is padded."""
        looked = {a.value for a in facts.loads if a.loop is not None} & facts.offset_loads
        return bool(looked) and any(
            a.loop is not None and any(x.value in looked for i in a.index for x in i.atoms())
            for a in facts.loads
            if facts.types.shape(a.value)
        )

    def _listed(self, facts: Facts, loop: Loop) -> bool:
        """Whether a loop goes over a list, of which every entry says where its round reads."""
        step = facts.values.expr(loop.induction).atom
        inside = [a for a in facts.loads if a.node.inside(loop.node)]
        reads = [a for a in inside if any(step in e.atoms() for e in a.index)]
        return bool(reads) and all(a.value in facts.offset_loads for a in reads)

    def _chosen(self, facts: Facts, access: Access) -> bool:
        """A load of one number from a place that the block id chooses."""
        alone = all(extent == "1" for extent in facts.types.shape(access.value))
        own = (AtomKind.BLOCK, *((AtomKind.INDUCTION,) if self._walks(facts, access) else ()))
        placed = any(i.has(*own) and not i.has(AtomKind.LANE) for i in access.index)
        return alone and placed

    def _walks(self, facts: Facts, access: Access) -> bool:
        """Whether a load stands in a loop that begins at the block's own place: one round after the
        other does what one block would."""
        around = [loop for loop in facts.loops if access.node.inside(loop.node)]
        starts = [facts.values.expr(x.low) for x in around if x.low is not None]
        return any(start.has(AtomKind.BLOCK) for start in starts)

    def _ends(self, facts: Facts, sides: tuple[str, ...]) -> list[Expr]:
        """The side of a comparison that positions are compared with."""
        left, right = (facts.values.expr(v) for v in sides[:2])
        pairs = ((left, right), (right, left))
        return [end for end, place in pairs if place.has(*_POSITIONS) and not end.has(*_POSITIONS)]

"""Elements that several lanes load, and words that are loaded once for all numbers in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_words import UNPACK, UNPACK_TILE
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.symbolic import ONE, Atom, AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_SAME = "neighbouring lanes read the same element"
_ONCE = "a word read once for all its fields"
_WIDTHS = (1, 2, 4, 8, 16)
_SPREAD = (
    POINTER
    + """
@triton.jit
def unpack(words, out, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    field = tl.arange(0, 8)
    word = tl.load(words + at)
    code = (word[:, None] >> (field * 4)[None, :]) & 15
    tl.store(out + at[:, None] * 8 + field[None, :], code)
"""
)
_HALVES = (
    POINTER
    + """
@triton.jit
def unpack(words, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    word = tl.load(words + at, mask=at < n)
    tl.store(out + at, word & 15, mask=at < n)
    tl.store(out + n + at, (word >> 4) & 15, mask=at < n)
"""
)


class WordsShared(Pattern):
    """The place that lanes load from is a quotient of their positions; or a loaded word is shifted
    down by distances that differ along an axis which the load does not have, or by numbers that
    are written out, to fields of one width. The former is told where neither products nor words
    are shared."""

    name = "element-loaded-by-several-lanes-or-once-for-its-fields"
    axis = "load_reuse"
    source = "Frantar et al., GPTQ (2022), section 4: packed weights"
    matches = (
        Case(UNPACK, _SAME),
        Case(UNPACK_TILE, _SAME),
        Case(_SPREAD, _ONCE),
        Case(_HALVES, _ONCE),
    )
    near_misses = (
        NearMiss(vary(UNPACK, ("at // 8", "at // 8 * 8 + at % 8")), why="every lane its own"),
        NearMiss(
            vary(UNPACK, ("words + at // 8", "words + at // 64 * 8 + at % 64 % 8")),
            why="the rest moves lanes on",
        ),
        NearMiss(vary(UNPACK_TILE, ("at // 8", "at")), why="every lane its own", value=_SAME),
        NearMiss(vary(_HALVES, ("word & 15", "word >> 4")), why="one field", value=_ONCE),
        NearMiss(
            vary(_HALVES, ("word & 15", "word & 31"), (">> 4) & 15", ">> 5)")),
            why="the word and the bit that a number names",
        ),
        NearMiss(
            vary(_HALVES, ("word & 15", "word & 127"), (">> 4) & 15", ">> 7) & 1")),
            why="a sign, and the rest",
        ),
        NearMiss(ADD_POINTER, why="every lane its own"),
        NearMiss(PRODUCT_POINTER, why="every lane its own"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        fields: dict[Access, list[Node]] = {}
        for load, shift in _shifts(facts):
            fields.setdefault(load, []).append(shift)
        once: list[tuple[Access, list[Node]]] = []
        for load, shifts in fields.items():
            along = any(_lanes(facts, n) - _own(load) for n in shifts)
            if along or _fields(facts, shifts):
                once.append((load, shifts))
        for load, shifts in once:
            yield self.decide(facts, _ONCE, [load, *shifts], load.array)
        if not once and not facts.contractions:
            same = [a for a in facts.loads if any(_shared(a))]
            if same:
                yield self.decide(facts, _SAME, same)


def _shared(load: Access) -> Iterator[bool]:
    """For every axis of lanes, whether it moves the place of a load by a quotient alone."""
    tops = [atom for index in load.index for atom in index.top()]
    for lane in _own(load):
        moving = [atom for atom in tops if lane in _inside(atom)]
        yield bool(moving) and all(
            atom.kind is AtomKind.FLOOR_DIV and atom.args[1] != ONE for atom in moving
        )


def _inside(atom: Atom) -> set[str]:
    """The lanes that an atom is made of."""
    inner = {a.text for arg in atom.args for a in arg.atoms()}
    return {atom.text, *inner}


def _own(load: Access) -> set[str]:
    atoms = (atom for index in load.index for atom in index.atoms())
    return {atom.text for atom in atoms if atom.kind is AtomKind.LANE}


def _shifts(facts: Facts) -> Iterator[tuple[Access, Node]]:
    """What takes a field out of a loaded word: a shift down, or a mask on the word itself."""
    for node in facts.graph.of(OpKind.SHIFT_RIGHT, OpKind.BIT_AND):
        word = facts.graph.through(node.op.inputs[0], VIEWS | CASTS)
        for load in facts.loads:
            if load.value == word:
                yield load, node


def _fields(facts: Facts, nodes: list[Node]) -> bool:
    """Whether the low bits of a word are kept, and others are shifted down: fields of one width,
    which is a power of two."""
    kept = {facts.values.literal(n.op.inputs[1]) for n in nodes if n.op.kind == OpKind.BIT_AND}
    moved = [n for n in nodes if n.op.kind == OpKind.SHIFT_RIGHT]
    over = [
        facts.values.literal(user.op.inputs[1])
        for n in moved
        for user in facts.graph.users(n.result)
        if user.op.kind == OpKind.BIT_AND
    ]
    width = next((b for b in _WIDTHS if kept == {(1 << b) - 1}), 0)
    by = [facts.values.expr(n.op.inputs[1]).constant for n in moved]
    even = width > 0 and bool(by) and all(b is not None and b > 0 == b % width for b in by)
    return even and set(over) <= kept


def _lanes(facts: Facts, node: Node) -> set[str]:
    if node.op.kind == OpKind.BIT_AND:
        return set()
    atoms = facts.values.expr(node.op.inputs[1]).atoms()
    return {atom.text for atom in atoms if atom.kind is AtomKind.LANE}

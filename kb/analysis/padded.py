"""Loads whose lanes outside an array read as something, loads that nothing checks, and lanes past
the end that a choice sets."""

from __future__ import annotations

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import against_extent, comparisons, masks
from kb.analysis.symbolic import AtomKind
from kb.ir import Literal
from kb.ops import OpKind


def padded(facts: Facts) -> list[Access]:
    """Loads whose lanes outside the array read as something; a single element only where the
    program says as what, and beside padded tiles only where that is not zero, else it is inside or
    the program is wrong."""
    read = [a for a in facts.loads if a.padding and not _unchecked(facts, a)]
    wide = any(_several(facts, a) for a in read)
    alone = [a for a in read if _given(facts, a) and not (wide and a.padding == "zero")]
    return [a for a in read if _several(facts, a) or a in alone]


def unchecked_elements(facts: Facts) -> list[Access]:
    """Single elements that are loaded by their place with the check of bounds off."""
    return [
        a
        for a in facts.loads
        if a.mode is Mode.ELEMENT
        and a.mask is None
        and _off(facts, a)
        and not set(facts.types.shape(a.value)) - {"1"}
    ]


def _several(facts: Facts, access: Access) -> bool:
    """More than one element; of a pointer or by elements, a tile of one, too."""
    shape = facts.types.shape(access.value)
    return any(extent != "1" for extent in shape) if access.mode is Mode.TILE else bool(shape)


def _given(facts: Facts, access: Access) -> bool:
    """A single element with a padding of its own, under a check that is made."""
    padding = access.node.op.operand("padding")
    if access.mode is Mode.TILE:
        return bool(facts.types.shape(access.value)) and access.padding != "undetermined"
    return access.mode is Mode.ELEMENT and padding is not None and facts.checked(access)


def _unchecked(facts: Facts, access: Access) -> bool:
    """True when the check of bounds of an access is off, or may be compiled out where the access
    gives no padding."""
    if _off(facts, access):
        return access.mask is None
    if access.mode is not Mode.ELEMENT or access.node.op.operand("padding") is not None:
        return False
    return access.mask is None and not facts.checked(access)


def _off(facts: Facts, access: Access) -> bool:
    return facts.values.literal(access.check_bounds) is False


def tail_choice(facts: Facts, node: Node) -> tuple[str | None, Literal]:
    """What a choice with a tail mask keeps, or a product with one, and the number that is there
    past the end; nothing where no number is."""
    if node.op.kind == OpKind.SELECT:
        rest = _number(facts, facts.graph.plain(node.op.operand("y")))
        masked = _tail(facts, node.op.operand("condition"))
        return (node.op.operand("x"), rest) if rest is not None and masked else (None, None)
    for kept, factor in (node.op.inputs[:2], node.op.inputs[1::-1]):
        cast = facts.graph.producer(facts.graph.through(factor, VIEWS))
        if cast is not None and cast.op.kind in CASTS and _tail(facts, cast.op.inputs[0]):
            return kept, 0
    return None, None


_MOVING = (AtomKind.BLOCK, AtomKind.INDUCTION)


def clamped_places(facts: Facts) -> list[Node]:
    """Bounds that keep the places of lanes, or that of one number such as the last of a tile,
    inside an array where it is read."""
    bounds = facts.graph.of(OpKind.MINIMUM, OpKind.CLAMP)
    if not bounds:
        return []
    held = {
        atom
        for access in facts.loads
        for index in access.index
        for atom in index.atoms()
        if atom.kind is AtomKind.MINIMUM and any(side.has(AtomKind.LANE) for side in atom.args)
    }
    held |= {
        atom
        for access in facts.loads
        if not facts.types.shape(access.value)
        for index in access.index
        for factors, _ in index.terms
        for atom in factors
        if atom.kind is AtomKind.MINIMUM and any(side.has(*_MOVING) for side in atom.args)
    }
    return [n for n in bounds if held & set(facts.values.expr(n.result).atoms())]


def set_past_the_end(facts: Facts) -> list[Node]:
    """Choices and products by tail masks that set lanes past the end of what was loaded or
    computed to a number; not those of scores, which are masks."""
    found = []
    scores = {mask.node for mask in masks(facts)}
    for node in facts.graph.of(OpKind.SELECT, OpKind.MUL):
        if node in scores:
            continue
        kept, rest = tail_choice(facts, node)
        if rest is not None and _number(facts, kept) is None and facts.types.shape(node.result):
            found.append(node)
    return found


def _tail(facts: Facts, condition: str | None) -> bool:
    return any(against_extent(facts, test) for test in comparisons(facts, condition))


def _number(facts: Facts, value: str | None) -> Literal:
    """The number that a value, or every element of a tile, is."""
    made = facts.graph.producer(value)
    if made is not None and made.op.kind in (OpKind.ZEROS, OpKind.ZEROS_LIKE):
        return 0
    if made is not None and made.op.kind == OpKind.FULL:
        value = made.op.operand("value")
    known = facts.values.literal(value)
    return facts.values.expr(value).constant if known is None else known

"""Computed operands of products, and the casts that narrow them right before."""

from __future__ import annotations

from dataclasses import dataclass, field

from kb.analysis.assembly import instructions
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.analysis.lane_products import factors, score_sums
from kb.dtypes import may_be_float
from kb.ops import CONTRACTIONS, OpKind

_LOOKS = VIEWS | TURNS
_PACKS = _LOOKS | {OpKind.BITCAST, OpKind.VECTOR, OpKind.SELECT, OpKind.BIT_OR, OpKind.SHIFT_LEFT,
                   OpKind.IF}  # fmt: skip
_NARROW = frozenset({"f16x2", "bf16x2", "e4m3x2", "e5m2x2", "e2m1x2", "ue8m0x2", "f16", "bf16"})


@dataclass(slots=True)
class Narrowing:
    """`casts` narrow an operand of one of the products in `into`; `kept` are products that take a
    computed operand in 32 bits."""

    casts: list[Node] = field(default_factory=list)
    into: list[Node] = field(default_factory=list)
    kept: list[Node] = field(default_factory=list)


def narrowing(facts: Facts) -> Narrowing:
    """What becomes of operands that are themselves computed, from a product or by rounding."""
    found = Narrowing()
    for product in facts.contractions:
        for role in ("lhs", "rhs"):
            _operand(facts, product, product.op.operand(role) or "", found)
    sums = score_sums(facts)
    weights = [e.node for e in facts.exponentials if not e.rescale] if sums else []
    for total in facts.graph.of(OpKind.REDUCE_SUM) if sums else ():
        for value in factors(facts, total) if total not in sums else ():
            if any(facts.graph.rests_on(value, w) for w in weights):
                _weight(facts, total, value, found)
    return found


def _weight(facts: Facts, total: Node, value: str, found: Narrowing) -> None:
    """A probability that weighs a loaded tile: narrowed by a cast, or left in 32 bits."""
    casts = [n for n in facts.graph.ends(value, _LOOKS) if n.op.kind in CASTS]
    narrow = [n for n in casts if facts.types.dtype(n.result) != "f32"]
    if narrow:
        found.casts += narrow
        found.into.append(total)
    elif facts.types.dtype(value) == "f32":
        found.kept.append(total)


def _operand(facts: Facts, product: Node, value: str, found: Narrowing) -> None:
    cores = [n for core in facts.graph.ends(value, _LOOKS) for n in _below_mask(facts, core)]
    casts = [core for core in cores if core.op.kind in CASTS]
    if not any(_before(p, product) for p in _made(facts, product, value)):
        casts = [core for core in casts if _rounded(facts, core)]
    elif not casts and facts.types.dtype(value) == "f32":
        found.kept.append(product)
    if casts:
        found.casts += casts
        found.into.append(product)


def _below_mask(facts: Facts, core: Node) -> list[Node]:
    """What a selection leaves where it does not put a number; any other operation itself."""
    if core.op.kind != OpKind.SELECT or facts.number(core.op.inputs[2]) is None:
        return [core]
    return facts.graph.ends(core.op.inputs[1], _LOOKS)


def _before(made: Node, product: Node) -> bool:
    """True for a product in the same outermost loop, or in a loop that is over."""
    return made.loops[:1] == product.loops[:1] or bool(made.loops)


def _rounded(facts: Facts, core: Node) -> bool:
    """A cast of computed numbers to less than 32 bits or to the type of an array."""
    if facts.types.dtype(core.result) == "f32":
        return False
    below = facts.graph.ends(core.op.inputs[0], _LOOKS)
    return any(n.op.kind in (OpKind.MUL, OpKind.SUB, OpKind.DIV) for n in below)


def _made(facts: Facts, product: Node, value: str) -> list[Node]:
    """Other products that a value is computed from."""
    products = facts.graph.of(*CONTRACTIONS)
    above = facts.graph.made_from([value], products, lambda n: n.op.kind in CONTRACTIONS)
    return [n for n in products if n in above and n is not product]


def packed(facts: Facts, value: str | None) -> list[Node]:
    """What narrows 32-bit floats right before they are put into the word that a thread stores: a
    cast, a vector made of wider elements, or a conversion in assembly."""
    found: list[Node] = []
    if value is None or not facts.of_threads:
        return found
    for node in facts.graph.upstream(value, lambda n: n.op.kind not in _PACKS or _wider(facts, n)):
        converts = any(
            name == "cvt" and "f32" in modifiers and modifiers & _NARROW
            for name, modifiers in instructions(node, facts.values)
        )
        if converts or _wider(facts, node):
            found.append(node)
    return found


def _wider(facts: Facts, node: Node) -> bool:
    """A cast or a vector of 32-bit floats that gives another type."""
    if node.op.kind not in CASTS and node.op.kind != OpKind.VECTOR:
        return False
    taken = {facts.types.dtype(v) for v in node.op.inputs[:1]}
    made = node.op.results[0].type if node.op.kind == OpKind.VECTOR else None
    given = made.dtype if made is not None else facts.types.dtype(node.result)
    return taken == {"f32"} and may_be_float(given) and given != "f32"

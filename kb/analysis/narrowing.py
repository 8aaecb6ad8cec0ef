"""Computed operands of products, and the casts that narrow them right before."""

from __future__ import annotations

from dataclasses import dataclass, field

from kb.analysis.accesses import Access
from kb.analysis.assembly import instructions
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.analysis.idioms import recomputed
from kb.analysis.lane_products import factors, score_sums
from kb.analysis.loops import Carried
from kb.dtypes import may_be_float, parts
from kb.ops import CONTRACTIONS, WRITES, OpKind

_LOOKS = VIEWS | TURNS
_PACKS = _LOOKS | {OpKind.BITCAST, OpKind.VECTOR, OpKind.SELECT, OpKind.BIT_OR, OpKind.SHIFT_LEFT,
                   OpKind.IF}  # fmt: skip
_NARROW = frozenset({"f16x2", "bf16x2", "e4m3x2", "e5m2x2", "e2m1x2", "ue8m0x2", "f16", "bf16"})


@dataclass(slots=True)
class Narrowing:
    """`casts` narrow an operand of one of the products in `into`; `kept` are products that take a
    computed operand in 32 bits; `matched` cast a loaded operand to the type of the other one."""

    casts: list[Node] = field(default_factory=list)
    matched: list[Node] = field(default_factory=list)
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
    found.matched += [cast for cast in casts if _matches(facts, product, cast)]
    whole = [cast for cast in casts if facts.types.dtype(cast.result) == "tf32"]
    casts = [cast for cast in casts if cast not in whole]
    if whole and (facts.score_products or recomputed(facts)):
        found.kept += whole
    if not any(_before(p, product) for p in _made(facts, product, value)):
        casts = [core for core in casts if _rounded(facts, core)]
    elif not casts and facts.types.dtype(value) == "f32":
        found.kept.append(product)
    if casts:
        found.casts += casts
        found.into.append(product)


def _matches(facts: Facts, product: Node, cast: Node) -> bool:
    """Whether a loaded operand is cast to the type that the other one was loaded in."""
    ends = [facts.graph.ends(product.op.operand(role), _LOOKS) for role in ("lhs", "rhs")]
    other = [node for nodes in ends if cast not in nodes for node in nodes]
    wanted = facts.types.dtype(cast.result)
    loaded = facts.held_loads(cast.op.inputs[0])
    return (
        bool(loaded)
        and bool(other)
        and wanted.startswith("dtypeof")
        and all(facts.access(one) is not None for one in other)
        and all(facts.types.dtype(one.result) == wanted for one in other)
        and all(facts.types.dtype(a.value) != wanted for a in loaded)
    )


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


def stored_states(facts: Facts) -> list[tuple[Node, Access]]:
    """Casts to fewer bits of what a loop carries in 32 and computes further, with the stores in the
    loop that they stand before."""
    found = []
    for loop in facts.loops:
        states = {v for c in loop.carried if _grows(facts, c) for v in (c.argument, c.next)}
        for store in facts.stores if states else ():
            inside = not store.is_atomic and store.node.inside(loop.node)
            for cast in facts.graph.ends(store.value, _LOOKS) if inside else ():
                if cast.op.kind in CASTS and not facts.types.wide(cast.result):
                    below = facts.graph.through(cast.op.inputs[0], _LOOKS)
                    found += [(cast, store)] if below in states else []
    return found


def _grows(facts: Facts, state: Carried) -> bool:
    """Whether a loop computes what it carries from itself, in 32-bit floats."""
    on = state.next != state.argument
    on = on and facts.graph.rests_on_argument(state.next, state.argument)
    return on and facts.types.wide(state.argument) and facts.types.wide(state.next)


_BITS = frozenset({OpKind.BITCAST, OpKind.ATTRIBUTE})
_HANDED = _LOOKS | {OpKind.UNPACK, OpKind.VECTOR, OpKind.TUPLE}
_SHORT = ("dtypeof", "f16", "bf16", "f8", "f4")
_MOST = 32
UNTOLD = "?"
"""The type of a value that the program does not tell."""


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """A computed 32-bit float that is narrowed by `cast` only to be seen in 32 bits again, by
    `back`; whether its bits are stored, too."""

    cast: Node
    back: tuple[Node, ...]
    stored: bool


def round_trips(facts: Facts) -> list[RoundTrip]:
    """Casts that do nothing but round, in program order."""
    found = [trip for cast in facts.graph.of(*CASTS) if (trip := _trip(facts, cast))]
    backs = {node for trip in found for node in trip.back}
    return [trip for trip in found if trip.cast not in backs]


def _trip(facts: Facts, cast: Node) -> RoundTrip | None:
    given = facts.types.dtype(cast.result)
    if (
        facts.of_threads
        and given.startswith("dtypeof")
        and not parts(given) <= _stored_types(facts)
    ):
        return None  # The type that a thread computes in.
    if not (given.startswith(_SHORT) and _wide(facts, cast) and facts.feeding(cast.result)):
        return None
    back, stored, more = _uses(facts, cast)
    return RoundTrip(cast, tuple(back), stored) if back and not more else None


def narrow(facts: Facts, node: Node) -> bool:
    """Whether an operation on loaded tiles gives a tile in a type that arrays are stored in."""
    kind = facts.types.dtype(node.result)
    if kind == UNTOLD and node.op.results[0].type is not None:
        kind = node.op.results[0].type.dtype
    own = not kind.startswith("dtypeof") or not facts.of_threads
    own = own or parts(kind) <= _stored_types(facts)
    sides = [facts.held_loads(v) for v in node.op.inputs[:2]]
    lanes = facts.types.shape(node.result) and all(sides) and not facts.contractions
    return kind.startswith(_SHORT) and own and bool(lanes or (facts.of_threads and any(sides)))


def widened(facts: Facts, node: Node) -> list[Node]:
    """Casts of what an operation gives to 32-bit floats that are computed further."""
    back, _, _ = _uses(facts, node)
    return [n for n in back if facts.stored_in(n.result)]


def _uses(facts: Facts, node: Node) -> tuple[list[Node], bool, bool]:
    """Casts of a value to 32-bit floats, whether its bits are stored, and whether something else
    takes it."""
    back: list[Node] = []
    stored = more = False
    for value in (pending := [node.result]):
        for user in facts.graph.users(value):
            kind = user.op.kind
            if kind in CASTS and facts.types.dtype(user.result) == "f32":
                back.append(user)
            elif kind in WRITES or kind in _BITS or user.op.operand("bitcast"):
                stored = True
            elif kind in _HANDED or kind in (OpKind.YIELD, OpKind.IF):
                pending += [v for v in facts.graph.onward(user, value) if v not in pending]
            else:
                more = True
        if len(pending) > _MOST:
            return back, stored, True
    return back, stored, more


def _wide(facts: Facts, cast: Node) -> bool:
    """Whether 32-bit floats are cast; a function that is no cast of a type takes them by its
    name."""
    source = facts.types.dtype(cast.op.inputs[0])
    made = facts.graph.producer(facts.graph.through(cast.op.inputs[0], VIEWS))
    kind = made.op.results[0].type if made is not None else None
    if source == UNTOLD and kind is not None:
        source = kind.dtype
    return source == "f32" or (source == UNTOLD and cast.op.operand("dtype") is None)


def _stored_types(facts: Facts) -> set[str]:
    """Types of the elements of arrays that the kernel is handed."""
    given = facts.kernel.entry.parameters
    return {p.annotation.partition(" ")[0] for p in given} | {f"dtypeof({p.name})" for p in given}


def rounded_early(facts: Facts) -> list[Node]:
    """Casts of 32-bit floats to the type of an array, of which what is stored is computed on, one
    element for each."""
    further = {*facts.contractions, *facts.reductions}
    return [
        cast
        for cast in facts.graph.of(*CASTS)
        if facts.types.wide(cast.op.inputs[0])
        and facts.types.dtype(cast.result).startswith("dtypeof")
        and facts.types.shape(cast.result)
        and not any(facts.graph.rests_on(one.result, cast) for one in further)
        and facts.stored_in(cast.result)
        and not facts.types.wide(facts.stored_in(cast.result)[0].value)
    ]

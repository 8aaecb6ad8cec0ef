"""One loaded tile enters two products, once as it is and once turned."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, PRODUCT, vary
from extractors.patterns.cases_kept import BOTH_LAYOUTS
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, FLASH_POINTER
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, FLASH_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import TURNS, Node
from kb.analysis.scalings import ELEMENTWISE
from kb.analysis.symbolic import Atom, AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_STEPS = ELEMENTWISE | {OpKind.CLAMP, OpKind.MINIMUM, OpKind.MAXIMUM, OpKind.ABS, OpKind.NEG}
_TWICE = vary(
    BACKWARD_KEYS,
    ("s = ct.mma(k, q.permute((1, 0)),", "q2 = ct.load(a, index=(bat, head, 0, m), shape=(1, 1, W, TM), order=(0, 1, 3, 2))\n"  # noqa: E501
     "            s = ct.mma(k, q2.reshape((W, TM)),"),
    ("dp = ct.mma(v, o.permute((1, 0)),", "o2 = ct.load(d, index=(bat, head, 0, m), shape=(1, 1, W, TM), order=(0, 1, 3, 2))\n"  # noqa: E501
     "            dp = ct.mma(v, o2.reshape((W, TM)),"),
)  # fmt: skip


class DualOrientation(Pattern):
    """The uses of a load in products are split into direct and turned ones; or it is stored as it
    is and turned."""

    name = "dual-orientation-reuse-of-one-loaded-tile"
    axis = "load_reuse"
    source = "NVIDIA, PTX ISA, wgmma: one shared-memory tile, two descriptors"
    matches = (
        Case(BACKWARD_KEYS, "load once, use as X and X^T"),
        Case(_TWICE, "load twice in two layouts"),
        Case(BACKWARD_KEYS_POINTER, "load once, use as X and X^T"),
        Case(BACKWARD_KEYS_THREADS, "load once, use as X and X^T"),
        Case(BOTH_LAYOUTS, "load once, use as X and X^T"),
    )
    near_misses = (
        NearMiss(vary(BOTH_LAYOUTS, ("tl.trans(v)", "v")), why="one layout, twice"),
        NearMiss(ATTENTION, why="every tile enters one product"),
        NearMiss(PRODUCT, why="every tile enters one product"),
        NearMiss(FLASH_POINTER, why="every tile enters one product"),
        NearMiss(FLASH_THREADS, why="every tile enters one product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        direct, turned = _operands(facts)
        both = _in_both(direct, turned)
        if not facts.contractions and (where := _stored_both_ways(facts)):
            yield self.decide(facts, "load once, use as X and X^T", where)
        if both:
            yield self.decide(facts, "load once, use as X and X^T", both)
        twice = [(a, b) for a in direct for b in turned if a is not b and a.array == b.array
                 and a.array is not None and a.loop is b.loop
                 and _blocks(a) == _blocks(b)]  # fmt: skip
        if twice and not both:
            yield self.decide(
                facts, "load twice in two layouts", [x.node for pair in twice for x in pair]
            )


def both_ways(facts: Facts) -> list[Node]:
    """Products that take one loaded tile as it lies and turned, with the turns."""
    return _in_both(*_operands(facts))


def _in_both(direct: dict[Access, list[Node]], turned: dict[Access, list[Node]]) -> list[Node]:
    both = [
        a
        for a in direct
        if any(not n.excludes(other) for n in direct[a] for other in turned.get(a, ()))
    ]
    return [n for a in both for n in (*direct[a], *turned[a])]


def _operands(facts: Facts) -> tuple[dict[Access, list[Node]], dict[Access, list[Node]]]:
    """Loaded tiles with the products that take them as they lie, and with those that take them
    turned, each of these with the turn."""
    direct: dict[Access, list[Node]] = {}
    turned: dict[Access, list[Node]] = {}
    for product in facts.contractions:
        for role in ("lhs", "rhs"):
            value = product.op.operand(role)
            turn = facts.turned(value)
            for access in facts.held_loads(value):
                if turn is not None or access.transposed:
                    way = [product] if turn is None else [turn, product]
                    turned.setdefault(access, []).extend(way)
                else:
                    direct.setdefault(access, []).append(product)
    return direct, turned


def _stored_both_ways(facts: Facts) -> list[Node | Access]:
    """A loaded tile of two axes that goes, element by element, into one array as it lies and into
    another one turned; with the turn."""
    ways: dict[Access, dict[bool, list[Node | Access]]] = {}
    for store in facts.stores if not facts.of_threads else ():
        above = [*facts.graph.upstream(store.value, lambda n: n.op.kind not in _STEPS)]
        turns = [n for n in above if n.op.kind in TURNS]
        for node in above:
            access = facts.access(node)
            if access is not None and sum(e != "1" for e in facts.types.shape(access.value)) > 1:
                way = ways.setdefault(access, {}).setdefault(len(turns) % 2 == 1, [])
                way += [*turns, store]
    return [
        node
        for access, found in ways.items()
        if len(found) == 2
        for node in (access, *found[False], *found[True])
    ]


def _blocks(access: Access) -> set[Atom]:
    """Block ids that an access is placed by; two tiles of one array have others."""
    return {a for index in access.index for a in index.atoms() if a.kind is AtomKind.BLOCK}

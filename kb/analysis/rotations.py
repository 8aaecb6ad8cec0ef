"""Rotations of pairs of elements, such as a rotary position embedding: two elements times a cosine
and a sine, once subtracted and once added."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.ops import OpKind

_LOOKS = VIEWS | CASTS


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """`x * c + y * d`, or a difference, where x and y are elements of one array."""

    node: Node
    less: bool
    turned: tuple[str, str]
    by: tuple[str, str]


Pair = tuple[str, str]


@lru_cache(maxsize=2)
def rotations(facts: Facts) -> list[Turn]:
    """Both halves of every rotation; of one that turns the sign of an element or of the sine first,
    the sum."""
    if len(facts.graph.of(OpKind.MUL, OpKind.FMA)) < 2:
        return []
    turns = [turn for node in _sums(facts) for turn in _turns(facts, node)]
    found: dict[Turn, None] = {}
    for one in turns:
        for other in turns:
            if one.less and not other.less and _of_one_pair(facts, one, other):
                found |= dict.fromkeys((one, other))
    signed = [t for t in turns if not t.less]
    return [*found] or [t for t in signed if any(_signed(facts, v) for v in (*t.turned, *t.by))]


def _of_one_pair(facts: Facts, one: Turn, other: Turn) -> bool:
    """Whether two sums turn the same elements; by the same factors where only the place in a vector
    tells the elements apart."""
    by = [{facts.graph.core(v) or v for v in turn.by} for turn in (one, other)]
    turned = set(one.turned)
    return turned == set(other.turned) and (len(turned) > 1 or by[0] == by[1])


def _sums(facts: Facts) -> list[Node]:
    return facts.graph.of(OpKind.ADD, OpKind.SUB, OpKind.FMA)


def _turns(facts: Facts, node: Node) -> Iterator[Turn]:
    """The ways in which a sum is one of two products that take elements of one array."""
    terms = _terms(facts, node)
    if len(terms) < 2:
        return
    (_, left), (less, right) = terms
    for x, c in (left, left[::-1]):
        arrays = _arrays(facts, x)
        for y, d in (right, right[::-1]):
            if not arrays or x == y or c == d or arrays != _arrays(facts, y):
                continue
            if _angle(facts, c, arrays) and _angle(facts, d, arrays):
                cores = (facts.graph.core(x) or x, facts.graph.core(y) or y)
                yield Turn(node, less, cores, (c, d))


def _terms(facts: Facts, node: Node) -> list[tuple[bool, Pair]]:
    """The factors of the two products that a sum is of, each with whether it is subtracted."""
    found: list[tuple[bool, Pair]] = []
    values = node.op.inputs[:2]
    if node.kind == OpKind.FMA:
        found.append((False, (values[0], values[1])))
        values = node.op.inputs[2:3]
    for value in values:
        made = facts.graph.producer(facts.graph.through(value, _LOOKS))
        less = node.kind == OpKind.SUB and bool(found)
        if made is not None and made.kind == OpKind.NEG:
            less = not less
            made = facts.graph.producer(facts.graph.through(made.op.inputs[0], _LOOKS))
        if made is None or made.kind != OpKind.MUL:
            return []
        factors = [_signless(facts, factor) for factor in made.op.inputs[:2]]
        less = less != (factors[0][0] != factors[1][0])
        found.append((less, (factors[0][1], factors[1][1])))
    return found


def _signless(facts: Facts, value: str) -> tuple[bool, str]:
    """Whether a factor is another value with its sign turned, and that value."""
    made = facts.graph.producer(facts.graph.through(value, _LOOKS))
    if made is not None and made.kind == OpKind.NEG:
        return True, made.op.inputs[0]
    return False, value


def _arrays(facts: Facts, value: str) -> set[str | None]:
    """Arrays whose elements a value is computed from; not those that say where they lie or of
    which type they are."""
    found: set[str | None] = set()
    pending, seen = [value], {value}
    for current in pending:
        node = facts.graph.producer(current)
        access = facts.access(node) if node is not None else None
        if access is not None:
            found.add(access.array)
            continue
        feeds = facts.graph.feeds(current)
        for value in feeds[:1] if node and node.kind in CASTS else feeds:
            if value not in seen and facts.graph.rests_on_any(value, facts.access_nodes):
                seen.add(value)
                pending.append(value)
    return found


def _angle(facts: Facts, value: str, turned: set[str | None]) -> bool:
    """Whether a factor is a sine or cosine, or comes from other arrays than what is turned."""
    if facts.graph.roots(value, OpKind.SIN, OpKind.COS):
        return True
    arrays = _arrays(facts, value)
    return bool(arrays) and not arrays & turned


def _signed(facts: Facts, value: str) -> bool:
    """Whether a value changes its sign in one of two halves."""
    ends = facts.graph.ends(value, _LOOKS)
    chosen = [n for n in ends if n.kind == OpKind.SELECT]
    sides = [facts.graph.kind_of(facts.graph.core(v)) for n in chosen for v in n.op.inputs[1:]]
    return OpKind.NEG in sides or (len(ends) > 1 and any(n.kind == OpKind.NEG for n in ends))

"""Normalisations: what is multiplied by the inverse root of a sum over a row."""

from __future__ import annotations

from dataclasses import dataclass

from kb.analysis.accesses import Access
from kb.analysis.differences import DIFFERENCES, difference
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import COPIES, Node
from kb.analysis.idioms import is_wide
from kb.analysis.row_sums import row_sums
from kb.ops import READS, REDUCTIONS, OpKind

_MOVES = COPIES | {OpKind.ADD, OpKind.POINTER_CAST}


@dataclass(frozen=True, slots=True, eq=False)
class Normalisation:
    """A root that enters the output: of sums over a row, or of a loaded number when `sums` is
    empty. `row` are the arrays that the normalised row comes from, `centres` the subtractions of a
    mean that was summed."""

    root: Node
    sums: tuple[Node, ...]
    centres: tuple[Node, ...]
    row: frozenset[str | None]


def normalisations(facts: Facts) -> list[Normalisation]:
    """Roots of sums of squares, or of single loaded numbers, whose inverse multiplies what is
    stored."""
    found = []
    for root in facts.graph.of(OpKind.RSQRT, OpKind.SQRT):
        sums = row_sums(facts, root.result)
        if not any(facts.graph.rests_on(s.value, root) for s in facts.stores):
            continue
        if sums and not facts.reductions and not _scales_elements(facts, root):
            continue  # a distance, or another number that scales no row
        if sums:
            summed = [v for n in sums for v in n.op.inputs[: 1 if facts.reductions else None]]
            row = {array for value in summed for array in _arrays(facts, value)}
            less = [
                (n, taken[0])
                for n in facts.graph.of(*DIFFERENCES)
                if (taken := difference(facts, n)) and _takes_mean(facts, n, *taken, root)
            ]
            centres = [n for n, over in less if row & _arrays(facts, over)]
            found.append(Normalisation(root, tuple(sums), tuple(centres), frozenset(row)))
        elif row := _scaled_by_stored(facts, root):
            found.append(Normalisation(root, (), (), frozenset(row)))
    return found


def _scaled_by_stored(facts: Facts, root: Node) -> set[str | None]:
    """Arrays of the tile that the inverse root of a loaded number multiplies; empty when the root
    is of something else."""
    if is_wide(facts, root.result) or not facts.feeding(root.result):
        return set()
    factors = [
        value
        for node in facts.graph.downstream(root.result, 12)
        if node.op.kind in (OpKind.MUL, OpKind.DIV)
        for value in node.op.inputs[:2]
        if is_wide(facts, value) and not facts.graph.rests_on(value, root)
    ]
    return {a.array for v in factors for a in facts.feeding(v) if is_wide(facts, a.value)}


def _scales_elements(facts: Facts, root: Node) -> bool:
    """Whether a loop multiplies by what a root gives, or divides by it, what it loads."""
    return any(
        a.loop is not None and a.loop is node.loop
        for node in facts.graph.downstream(root.result, 12)
        if node.op.kind in (OpKind.MUL, OpKind.DIV)
        for value in node.op.inputs[:2]
        if not facts.graph.rests_on(value, root)
        for a in facts.feeding(value)
    )


def _takes_mean(facts: Facts, node: Node, over: str, under: tuple[str, ...], root: Node) -> bool:
    """A row less a number that was reduced from it, which is not computed from the root. Where the
    rounds of a loop write the differences back where the row lies, what they wrote is no part of
    it."""
    mean = [n for v in under for n in row_sums(facts, v) if not _of_two(facts, n, over)]
    if not mean or any(facts.graph.rests_on(v, root) for v in under):
        return False
    arrays = _arrays(facts, over) & {a for v in under for a in _arrays(facts, v)}
    made = set(facts.graph.upstream(over, lambda n: n.op.kind in READS or _beside(facts, n, node)))
    return bool(arrays) and not any(n in made for n in row_sums(facts, over))


def _of_two(facts: Facts, total: Node, over: str) -> bool:
    """Whether a tile of products of loaded numbers is summed that is not the row itself: a product
    of a matrix or of two vectors, no mean."""
    made = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
    if total.op.kind not in REDUCTIONS or made is None or made.op.kind != OpKind.MUL:
        return False
    loaded = all(facts.feeding(value) for value in made.op.inputs[:2])
    return loaded and made is not facts.graph.producer(facts.graph.core(over))


def _beside(facts: Facts, other: Node, node: Node) -> bool:
    """Whether another difference is taken in the rounds of the same loop."""
    kinds = other.op.kind in DIFFERENCES and node.loop is not None and other.loop is node.loop
    return kinds and difference(facts, other) is not None


def _arrays(facts: Facts, value: str) -> set[str | None]:
    """Arrays of the elements that a value is computed from, and of what was stored where they are
    loaded; not of those that only say where they lie."""
    found = _met(facts, value)
    before = [s for a in found for s in facts.stores if s.array == a.array]
    first = min((a.node.index for a in found), default=0)
    kept = [a for s in before if s.node.index < first for a in _met(facts, s.value)]
    return {a.array for a in (*found, *kept)}


def _met(facts: Facts, value: str) -> list[Access]:
    met = facts.graph.upstream(value, lambda n: n.op.kind in READS)
    return [a for n in met if (a := facts.access(n)) is not None and not a.is_store]


def start_of(facts: Facts, access: Access) -> str | None:
    """The array of an access; where none is known, the value that its pointer is counted from."""
    if access.array is not None:
        return access.array
    value, made = access.base, facts.graph.producer(access.base)
    while made is not None and made.op.kind in _MOVES:
        value, made = made.op.inputs[0], facts.graph.producer(made.op.inputs[0])
    return value


def starts(facts: Facts, norm: Normalisation) -> frozenset[str | None]:
    """What the rows of a normalisation are loaded from, and where what was made of them is kept in
    between."""
    own = norm.row
    if None in norm.row:
        summed = [value for total in norm.sums for value in total.op.inputs[:1]]
        loads = {access for value in summed for access in facts.feeding(value)}
        own = norm.row - {None} | {start_of(facts, access) for access in loads}
    read = {access.array for access in facts.loads}
    kept = [one for one in facts.stores if one.array in read and one.value is not None]
    return own | {
        start_of(facts, one) for one in kept
        if any(start_of(facts, access) in own for access in facts.feeding(one.value))
    }  # fmt: skip


def turned(facts: Facts, product: Node, root: Node, row: frozenset[str | None]) -> bool:
    """Whether a normalised element times a loaded number is added to, or taken from, another one
    times a loaded number: the row is rotated, no weight stands there."""
    if not facts.graph.rests_on(product.result, root):
        return False
    pending = [product.result]
    for value in pending:
        for user in facts.graph.users(value):
            if user.op.kind in HELD or user.op.kind == OpKind.NEG:
                pending += [one for one in facts.graph.onward(user, value) if one not in pending]
            elif user.op.kind == OpKind.FMA and value in user.op.inputs[:2]:
                continue  # multiplied once more: what is added is another product
            elif user.op.kind in (OpKind.ADD, OpKind.SUB, OpKind.FMA):
                others = [v for v in user.op.inputs[:3] if v != value]
                near = (v for v in others if facts.graph.rests_on(v, root))
                loads = (access for v in near for access in facts.feeding(v))
                if any(start_of(facts, access) not in row for access in loads):
                    return True
    return False


def of_own_row(facts: Facts, total: Node, stores: list[Access], root: Node) -> bool:
    """Whether what is added to a normalised row is loaded from where the row is stored in its own
    array: a residual, no bias."""
    added = [v for v in total.op.inputs[:2] if not facts.graph.rests_on(v, root)]
    loads = [access for v in added for access in facts.feeding(v)]
    places = [one.index for one in stores]
    return bool(loads) and all(one.index and one.index in places for one in loads)


def scaled_by(facts: Facts, product: Node, root: Node) -> bool:
    """Whether something is multiplied with the inverse root itself."""
    sides = [facts.graph.core(v) for v in product.op.inputs[:2]]
    return root.result in sides and len(set(sides)) > 1

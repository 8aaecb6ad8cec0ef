"""Launches that are given one array, and whether it holds partial results of the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Choice, Expr, Value
from kb.evidence import Lines

Held = dict[int, set[Value]]
"""Arrays that launches may hand over."""


def others_of(material: Material, launch: LaunchRecord, held: Held) -> list[LaunchRecord]:
    """Launches of other kernels on the same way through the host code, one for each of them and for
    each place: the first that is given an array of this launch, else the first."""
    found: dict[tuple[str, Lines], LaunchRecord] = {}
    ours = tensors(material, launch, held)
    near: set[tuple[str, Lines]] = set()
    for event in material.of_root(launch):
        if isinstance(event, LaunchRecord) and event.kernel.name != launch.kernel.name:
            key = (event.kernel.name, event.lines)
            if key in near:
                continue
            if ours & tensors(material, event, held):
                near.add(key)
                found[key] = event
            else:
                found.setdefault(key, event)
    return list(found.values())


def tensors(material: Material, launch: LaunchRecord, known: Held) -> set[Value]:
    """The arrays that a launch may hand over."""
    if id(launch) not in known:
        every = (leaf for _, value in launch.args for leaf in leaves(value))
        known[id(launch)] = {leaf for leaf in every if leaf in material.machine.tensors}
    return known[id(launch)]


def shared_by(
    material: Material, ahead: Sequence[LaunchRecord], before: LaunchRecord, after: LaunchRecord
) -> list[str]:
    """Parameters of this kernel that both launches give one array of partial results; `ahead` are
    all launches before the later one. Where an axis of the grid is another one later, it takes an
    array of exactly one element for each block."""
    blocks, fewer = _factors(before.grid), _factors(after.grid)
    if blocks is None or fewer is None or not blocks - fewer:
        blocks = None
    exact = blocks is not None and fewer is not None and bool(fewer - blocks)
    if exact and not _grouped(blocks or Counter(), fewer or Counter()):
        blocks = None
    outcomes = set() if blocks else _outcomes(material, ahead, after)
    given = {leaf for _, value in before.args for leaf in leaves(value) if isinstance(leaf, Expr)}
    mine = after if after.kernel.name == material.signature.name else before
    rows = after.args if mine is after else before.args
    taken = {leaf for _, value in after.args for leaf in leaves(value) if isinstance(leaf, Expr)}
    return [
        name
        for name, value in rows
        for leaf in leaves(value)
        if isinstance(leaf, Expr)
        and leaf in given & taken
        and (fact := material.machine.tensors.get(leaf)) is not None
        and fact.dims is not None
        and (
            (_factors(fact.dims) == blocks if exact else _by_block(fact.dims, blocks))
            if blocks
            else fact.dims[1:] in outcomes or fact.dims[:-1] in outcomes
        )
    ]


def _grouped(blocks: Counter[Value], fewer: Counter[Value]) -> bool:
    """Whether a later grid lacks an axis of an earlier one and is as long along another, so that
    each of its blocks stands for a group of the earlier ones."""
    return fewer.total() < blocks.total() and bool(fewer & blocks)


def _by_block(extents: Value, blocks: Counter[Value]) -> bool:
    """Whether an array holds one element for each block, or a number of them that is written in
    the host code."""
    factors = _factors(extents)
    if factors is None or blocks - factors:
        return False
    return all(isinstance(one, int) for one in factors - blocks)


def _outcomes(
    material: Material, ahead: Sequence[LaunchRecord], after: LaunchRecord
) -> set[tuple[Value, ...]]:
    """Extents of arrays that the host made and that no launch ahead of the later one is given."""
    earlier = {leaf for one in ahead for _, value in one.args for leaf in leaves(value)}
    later = [leaf for _, value in after.args for leaf in leaves(value) if leaf not in earlier]
    facts = [material.machine.tensors.get(leaf) for leaf in later if isinstance(leaf, Expr)]
    return {fact.dims for fact in facts if fact is not None and fact.dims}


def _factors(value: Value) -> Counter[Value] | None:
    """What the numbers of a row are products of, ones left out; None for no row of numbers."""
    if not isinstance(value, tuple):
        return None
    found: Counter[Value] = Counter()
    pending = list(value)
    while pending:
        one = pending.pop()
        if isinstance(one, Expr) and one.op == "*":
            pending += one.args
        elif isinstance(one, Expr | Choice | int):
            found[one] += 0 if one == 1 else 1
        else:
            return None
    return +found

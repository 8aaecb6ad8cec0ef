"""Which way compile-time branches go once compile-time parameters have values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kb.analysis.facts import Facts
from kb.analysis.fold import fold
from kb.analysis.graph import Node
from kb.ir import Literal
from kb.ops import TERMINATORS, OpKind

MAX_STEPS = 400
"""Operations that a condition may rest on."""

_AT_RUN_TIME = frozenset({OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.THREAD_ID, OpKind.LANE_ID,
                          OpKind.WARP_ID, OpKind.CLOCK})  # fmt: skip
"""Operations that may have an axis for an operand and are told by no parameter."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch on compile-time parameters: its condition and the parameters that it rests on."""

    node: Node
    condition: str
    parameters: tuple[str, ...]


def branches(facts: Facts, *kinds: OpKind) -> Iterator[Branch]:
    """Every branch whose condition rests on compile-time parameters and nothing else; `kinds` other
    than statements."""
    for node in facts.graph.of(OpKind.IF, *kinds):
        condition = node.op.inputs[0]
        names = _rests_on(facts, condition)
        if names and names <= facts.constexprs:
            yield Branch(node, condition, tuple(sorted(names)))


def _rests_on(facts: Facts, value: str) -> frozenset[str]:
    """Names that a value is computed from; empty when something else has a say."""
    pending, seen = [value], {value}
    names: set[str] = set()
    for current in pending:
        node = facts.graph.producer(current)
        if node is None:
            if current not in facts.kernel.entry.parameter_names:
                return frozenset()
            names.add(current)
        elif node.op.kind == OpKind.CONST:
            continue
        elif not _by_parameters(node) or len(seen) > MAX_STEPS:
            return frozenset()
        for feed in facts.graph.feeds(current):
            if feed not in seen:
                seen.add(feed)
                pending.append(feed)
    return frozenset(names)


def _by_parameters(node: Node) -> bool:
    """True for an operation whose operands alone say what it gives."""
    return bool(node.op.inputs) and not node.op.regions and node.op.kind not in _AT_RUN_TIME


def outcome(facts: Facts, value: str, given: Mapping[str, Literal]) -> Literal:
    """What a condition is for these parameters, None when that is not known."""
    known = dict(given)
    needed = {n.index: n for n in facts.graph.upstream(value)}
    for index in sorted(needed):
        node = needed[index]
        literal = fold(node.op, known)
        if literal is not None and len(node.op.results) == 1:
            known[node.result] = literal
    return known.get(value)


def has_work(node: Node, region: int) -> bool:
    """True when a region of a branch does more than hand values on."""
    if region >= len(node.op.regions):
        return False
    kinds = [op.kind for op in node.op.regions[region].ops]
    return any(kind not in TERMINATORS and kind != OpKind.CONST for kind in kinds)

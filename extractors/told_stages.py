"""Arrays that pass from kernel to kernel: the host tells which, the program whether it does nothing
but add up what an earlier kernel made, or leaves something to a later one beside its output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.detect import Detection
from extractors.host.facts import HostFacts
from extractors.host.partial import MERGED, STAGES
from extractors.host.passes import APART, HANDED_ON, LEFT, PASSES, TAKEN
from kb.analysis.accesses import Access
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Role
from kb.evidence import AxisKind, Decision
from kb.ops import OpKind

ACROSS = "cross_cta_reduction"
SPLIT = "reduction_split"
SIDE = "side_output"
BESIDE = "array-left-beside-the-output"

_KEEPING = HELD | {OpKind.SELECT}
"""Operations that hand a loaded element on, or a neutral one in its place."""


def second_stage(
    detection: Detection, host: Sequence[Decision], launched: HostFacts
) -> Iterator[Decision]:
    """Arrays that an earlier kernel made and this one adds up, unless the host tells so by the
    extents."""
    facts = detection.facts
    taken = [d for d in host if d.pattern == HANDED_ON and d.value == TAKEN and d.file is None]
    if facts.of_threads or not taken or any(d.pattern == STAGES for d in host):
        return
    names = {name for d in taken for name in (d.subject or "").split(", ")}
    loads = [a for a in facts.loads if a.array in names]
    found = {a: step for a in loads if (step := _summed(facts, a)) is not None}
    if not found:
        return
    lines = {n.lines for a, step in found.items() for n in (a.node, step)}
    lines |= {one.lines for one in launched.launches}
    arrays = ", ".join(dict.fromkeys(str(a.array) for a in found))
    told = {d.axis for d in (*detection.decisions, *host)}
    for axis, value, pattern in (
        (ACROSS, "second kernel", MERGED),
        (SPLIT, "partials merged by a second kernel", STAGES),
    ):
        if axis not in told:
            yield Decision(
                axis=axis, value=value, pattern=pattern, lines=tuple(sorted(lines)),
                kind=AxisKind.DESIGN, subject=arrays,
            )  # fmt: skip


def left_beside(
    detection: Detection, host: Sequence[Decision], program: Sequence[Decision]
) -> Iterator[Decision]:
    """Arrays that a later kernel takes, stored beside the gradients of a kernel that only a
    backward pass leads to, unless the program tells of them."""
    facts = detection.facts
    if not any(d.pattern == PASSES and d.value == APART for d in host):
        return
    left = [d for d in host if d.pattern == HANDED_ON and d.value == LEFT and d.file is None]
    names = {name for d in left for name in (d.subject or "").split(", ")}
    told = {line for d in program if d.axis == SIDE for line in d.lines}
    stores = [s for s in facts.stores if s.array is not None]
    beside = [s for s in stores if s.array in names and s.node.lines not in told]
    others = [s for s in stores if s.array not in names]
    if facts.of_threads or not others or not beside or any(s.is_atomic for s in beside):
        return
    if all(any(s.node.excludes(o.node) for o in others) for s in beside):
        return
    yield Decision(
        axis=SIDE, value="for a later kernel", pattern=BESIDE,
        lines=tuple(sorted({s.node.lines for s in beside})), kind=AxisKind.DESIGN,
        subject=", ".join(dict.fromkeys(str(s.array) for s in beside)),
    )  # fmt: skip


def _summed(facts: Facts, access: Access) -> Node | None:
    """What adds up the elements that a load gives, over lanes or over rounds; None where something
    else is made of them, too, or nothing adds them up."""
    steps: list[Node] = []
    pending = [access.node.result]
    for value in pending:
        for user in facts.graph.users(value) if value is not None else ():
            if _adds(facts, user, value):
                steps.append(user)
            elif user.op.kind in _KEEPING and user.result is not None:
                pending.append(user.result)
            else:
                return None
    return steps[0] if steps else None


def _adds(facts: Facts, node: Node, value: str) -> bool:
    """A sum over lanes, or a step of a sum that a loop carries."""
    if node.op.kind == OpKind.REDUCE_SUM:
        return True
    if node.op.kind != OpKind.ADD:
        return False
    return any(
        node.inside(loop.node)
        and facts.graph.through(carried.next, HELD) == node.result
        and any(
            facts.graph.through(v, HELD) == carried.argument
            for v in node.op.inputs[:2]
            if v != value
        )
        for loop in facts.rolled_loops
        for carried in loop.of(Role.SUM, Role.RUNNING_SUM, Role.ACCUMULATOR)
    )

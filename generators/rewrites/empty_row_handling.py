"""empty_row_handling: the running sum of an online softmax begins with zero, or with one so that a
row without any valid key divides by one."""

from __future__ import annotations

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions, refuse_mixed
from generators.rewrites.edit import Step
from kb.analysis.idioms import begun
from kb.analysis.loops import Role
from kb.ir import Kernel
from kb.ops import OpKind

UNGUARDED = "none (NaN)"
ONE = "l init = 1"
_LOWEST = -1e38
"""A maximum that begins at or below this, in f32, is minus infinity for every real score."""


class EmptyRowHandling(Rewrite):
    """The first value of the sum is multiplied by exp(first maximum - maximum), which is zero in
    every row that has a key: it only shows in rows that have none.

    Source: Dao, FlashAttention-2 (2023), section 3.1: the sum is rescaled with the maximum.
    """

    axis = "empty_row_handling"
    values = (UNGUARDED, ONE)

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Begin every running sum with the other number."""
        seen: set[str] = set()
        changed = change_functions(kernel, lambda site: _begin(site, value, seen))
        if not seen:
            raise NotApplicable(
                "no loop carries a running maximum and a running sum.",
                where=f"{kernel.entry.span} {kernel.name}",
                hint="The axis speaks of an online softmax.",
            )
        if len(seen) > 1:
            refuse_mixed(kernel, value)
        return changed or kernel


def _begin(site: Site, value: str, seen: set[str]) -> bool:
    fills: dict[str, Step] = {}
    for loop in site.facts.loops:
        tops, sums = loop.of(Role.RUNNING_MAXIMUM), loop.of(Role.RUNNING_SUM)
        if not tops or not sums or not site.facts.contractions or not site.owns(loop.node):
            continue
        for state in tops:
            _unbounded(site, begun(site.facts, state.init))
        for state in sums:
            fill = site.draft.producer(site.facts.graph.plain(begun(site.facts, state.init)))
            if fill is None:
                raise NotApplicable("the sum begins elsewhere.", where=str(loop.node.op.span))
            fills[fill.result] = fill
    touched = False
    for fill in fills.values():
        has = ONE if _first(site, fill) == 1 else UNGUARDED
        seen.add(has)
        if has != value:
            _exchange(site, fill, value)
            touched = True
    return touched


def _unbounded(site: Site, top: str) -> None:
    """Raises NotApplicable unless a maximum begins with minus infinity."""
    fill = site.draft.producer(site.facts.graph.plain(top))
    first = _first(site, fill) if fill is not None else None
    if first is None or first > _LOWEST:
        raise NotApplicable(
            "the maximum begins with a number that a row can have.",
            where=str(fill.span) if fill is not None else str(site.function.span),
            hint="What the sum begins with then counts as a key of its own.",
        )


def _first(site: Site, fill: Step) -> float | None:
    """The number of a fill, of zeros, or of zeros with a number added or taken away."""
    if fill.kind == OpKind.ZEROS:
        return 0.0
    literal = site.facts.values.literal
    if fill.kind == OpKind.FULL:
        number = literal(fill.operand("value"))
        return float(number) if isinstance(number, int | float) else None
    if fill.kind in (OpKind.ADD, OpKind.SUB):
        base, number = site.draft.producer(fill.inputs[0]), literal(fill.inputs[1])
        zeros = base is not None and base.kind == OpKind.ZEROS
        if zeros and isinstance(number, int | float):
            return float(number if fill.kind == OpKind.ADD else -number)
    return None


def _exchange(site: Site, fill: Step, value: str) -> None:
    """Zeros get one added and lose it again; a fill is given the other number."""
    draft, one = site.draft, value == ONE
    if _first(site, fill) not in (0.0, 1.0):
        raise NotApplicable("the sum begins with another number.", where=str(fill.span))
    if fill.kind == OpKind.FULL:
        made = draft.producer(fill.operand("value"))
        first = draft.before(made if made is not None and made.block is fill.block else fill)
        fill.set_operand("value", first.constant(1.0 if one else 0.0))
    elif one:
        result, fill.results = fill.results[0], [draft.fresh("")]
        after = draft.after(fill)
        operands = [("lhs", fill.result), ("rhs", after.constant(1.0))]
        after.put(Step(OpKind.ADD, operands, [], [result], [], fill.span, fill.block))
    else:
        zeros = draft.producer(fill.inputs[0])
        if zeros is None or len(draft.users(zeros.result)) != 1:
            raise NotApplicable("the zeros have another use.", where=str(fill.span))
        draft.remove(fill)
        zeros.results = [fill.results[0]]

"""Loops whose only branch compares the induction variable with an invariant become two loops.

cuTile's compiler splits such a loop by itself; Triton's does not, so the split is written out: the
first loop runs up to the bound without the branch, the second from the bound with its body.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kb.ir import Kernel, Op, Region, Value, walk
from kb.ops import OpKind

_FIRST = 200_000
"""Numbers of the values made here; readers and the lowering stay below."""


def split_loops(kernel: Kernel) -> Kernel:
    """The program with every such loop written as two."""
    splitter = _Splitter()
    return replace(kernel, entry=replace(kernel.entry, body=splitter.region(kernel.entry.body)))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A loop that can be split: its branch, the bound, the condition that stays the same."""

    branch: Op
    bound: str
    condition: str | None


@dataclass(slots=True)
class _Splitter:
    count: int = _FIRST
    producers: dict[str, Op] = field(default_factory=dict)

    def region(self, region: Region) -> Region:
        """A region with its loops split; inner loops first."""
        ops: list[Op] = []
        for op in region.ops:
            inner = replace(op, regions=tuple(self.region(r) for r in op.regions))
            self.producers.update({value.name: inner for value in inner.results})
            found = self._candidate(inner) if inner.kind == OpKind.FOR else None
            ops += [inner] if found is None else self._split(inner, found)
        return Region(region.arguments, tuple(ops))

    # -- recognising

    def _candidate(self, loop: Op) -> _Candidate | None:
        iterable = self.producers.get(loop.inputs[0])
        if iterable is None or iterable.kind != OpKind.RANGE or iterable.operand("step"):
            return None
        (body,) = loop.regions
        branches = [op for op in body.ops if op.kind in (OpKind.IF, OpKind.FOR, OpKind.WHILE)]
        if len(branches) != 1 or branches[0].kind != OpKind.IF:
            return None
        (branch,) = branches
        other = branch.regions[1].ops
        if len(other) != 1 or other[0].kind != OpKind.YIELD:
            return None
        return self._guard(branch, body)

    def _guard(self, branch: Op, body: Region) -> _Candidate | None:
        """`iv >= bound`, alone or behind a condition that the loop does not change."""
        inside = {value.name: op for op in body.ops for value in op.results}
        induction = body.arguments[0].name
        compare, condition = inside.get(branch.inputs[0]), None
        if compare is not None and compare.kind == OpKind.AND:
            condition, last = compare.inputs
            compare = inside.get(last)
        if compare is None or compare.kind != OpKind.GE or compare.inputs[0] != induction:
            return None
        made = {value.name for op in walk(body) for value in op.results}
        made |= {value.name for value in body.arguments}
        if compare.inputs[1] in made:
            return None
        if condition is not None and not _invariant(condition, inside, made):
            return None
        return _Candidate(branch, compare.inputs[1], condition)

    # -- rewriting

    def _split(self, loop: Op, found: _Candidate) -> list[Op]:
        iterable = self.producers[loop.inputs[0]]
        high = str(iterable.operand("high"))
        low = iterable.operand("low")
        ops: list[Op] = []
        if low is None:
            ops.append(self._op(OpKind.CONST, (), loop, (("value", 0),)))
            low = ops[-1].result
        (body,) = loop.regions
        condition = guard = None
        if found.condition is not None:
            # One copy for each use: held in a variable it would no longer be a compile-time one.
            copied, condition = self._outside(found.condition, body)
            ops += copied
            copied, guard = self._outside(found.condition, body)
        middle_ops, middle = self._middle(loop, found.bound, (low, high), condition)
        ops += middle_ops
        first, first_loop = self._loop(loop, iterable, (low, middle), loop.inputs[1:], found, False)
        ops += [*first, first_loop]
        carried = tuple(value.name for value in first_loop.results)
        second, second_loop = self._loop(loop, iterable, (middle, high), carried, found, True)
        if guard is None:
            return [*ops, *second, replace(second_loop, results=loop.results)]
        guarded = self._guarded(loop, guard, [*second, second_loop], carried)
        return [*ops, *copied, guarded]

    def _outside(self, condition: str, body: Region) -> tuple[list[Op], str]:
        """The steps that make a condition, copied before the loop."""
        inside = {value.name: op for op in body.ops for value in op.results}
        needed = set()
        pending = [condition]
        while pending:
            value = pending.pop()
            if value in inside and value not in needed:
                needed.add(value)
                pending += inside[value].inputs
        names: dict[str, str] = {}
        steps = [op for op in body.ops if op.results and op.results[0].name in needed]
        copied = self._copies(steps, names)
        return copied, names.get(condition, condition)

    def _middle(
        self, loop: Op, bound: str, ends: tuple[str, str], condition: str | None
    ) -> tuple[list[Op], str]:
        """The first iteration of the second loop: the bound, kept between the ends of the range."""
        low, high = ends
        above = self._op(OpKind.MAXIMUM, (("lhs", bound), ("rhs", low)), loop)
        hint = "" if condition else "split"
        clamped = self._op(OpKind.MINIMUM, (("lhs", above.result), ("rhs", high)), loop, hint=hint)
        if condition is None:
            return [above, clamped], clamped.result
        leave = Op(OpKind.YIELD, (("split", clamped.result),), span=loop.span)
        then = Region((), (above, clamped, leave))
        other = Region((), (Op(OpKind.YIELD, (("split", high),), span=loop.span),))
        result = self._fresh("split")
        choose = Op(OpKind.IF, (("condition", condition),), (), (result,), (then, other), loop.span)
        return [choose], result.name

    def _loop(
        self, loop: Op, iterable: Op, ends: tuple[str, str], carried: Iterable[str],
        found: _Candidate, masked: bool,
    ) -> tuple[list[Op], Op]:  # fmt: skip
        bounds = (("low", ends[0]), ("high", ends[1]))
        options = tuple(o for o in iterable.operands if o[0] not in ("low", "high"))
        over = self._op(OpKind.RANGE, bounds + options, iterable, iterable.attributes)
        (body,) = loop.regions
        names: dict[str, str] = {}
        arguments = tuple(self._renamed(value, names) for value in body.arguments)
        steps: list[Op] = []
        for op in body.ops:
            if op is found.branch:
                steps += self._taken(op, names, masked)
            else:
                steps += self._copies([op], names)
        operands = (("iterable", over.result), *(("init", value) for value in carried))
        results = tuple(self._fresh(value.hint) for value in loop.results)
        region = Region(arguments, tuple(steps))
        return [over], Op(OpKind.FOR, operands, loop.attributes, results, (region,), loop.span)

    def _taken(self, branch: Op, names: dict[str, str], masked: bool) -> list[Op]:
        """One side of the branch in place of the branch."""
        region = branch.regions[0 if masked else 1]
        steps = self._copies(region.ops[:-1], names)
        for result, value in zip(branch.results, region.ops[-1].inputs, strict=True):
            names[result.name] = names.get(value, value)
        return steps

    def _guarded(self, loop: Op, condition: str, steps: list[Op], before: tuple[str, ...]) -> Op:
        after = [value.name for value in steps[-1].results]
        hints = [value.hint or "carried" for value in loop.results]
        then = (*steps, Op(OpKind.YIELD, tuple(zip(hints, after, strict=True)), span=loop.span))
        other = Op(OpKind.YIELD, tuple(zip(hints, before, strict=True)), span=loop.span)
        regions = (Region((), then), Region((), (other,)))
        return Op(OpKind.IF, (("condition", condition),), (), loop.results, regions, loop.span)

    # -- copying

    def _fresh(self, hint: str) -> Value:
        self.count += 1
        return Value(f"{hint}.{self.count}")

    def _renamed(self, value: Value, names: dict[str, str]) -> Value:
        fresh = self._fresh(value.hint)
        names[value.name] = fresh.name
        return replace(fresh, type=value.type)

    def _copies(self, ops: Iterable[Op], names: dict[str, str]) -> list[Op]:
        copied = []
        for op in ops:
            operands = tuple((role, names.get(value, value)) for role, value in op.operands)
            regions = []
            for region in op.regions:
                arguments = tuple(self._renamed(value, names) for value in region.arguments)
                regions.append(Region(arguments, tuple(self._copies(region.ops, names))))
            results = tuple(self._renamed(value, names) for value in op.results)
            copied.append(replace(op, operands=operands, regions=tuple(regions), results=results))
        return copied

    def _op(
        self, kind: OpKind, operands: tuple[tuple[str, str], ...], like: Op,
        attributes: tuple[tuple[str, int | float | bool | str | None], ...] = (), hint: str = "",
    ) -> Op:  # fmt: skip
        return Op(kind, operands, attributes, (self._fresh(hint),), (), like.span)


def _invariant(value: str, inside: dict[str, Op], made: set[str]) -> bool:
    """True when a value of the loop body depends on nothing that the loop changes."""
    pending = [value]
    while pending:
        name = pending.pop()
        op = inside.get(name)
        if op is None:
            if name in made:
                return False
        elif op.regions or op.kind in (OpKind.LOAD, OpKind.CALL, OpKind.OPAQUE):
            return False
        else:
            pending += op.inputs
    return True

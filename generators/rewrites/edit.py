"""A function of a tile program opened for change: insert, move, remove and rewire operations, then
close it again.

A draft is a mutable copy. Values keep their names, so facts of the analysis and steps of a draft
meet by value name. Closing drops what the change left without a use; what was dead before stays, it
is none of a rewrite's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kb.errors import CannotEmit
from kb.ir import Function, Literal, Op, Region, Span, Value
from kb.ops import EFFECT, PROMISES, TERMINATORS, OpKind

Operands = Sequence[tuple[str, str]]
Attributes = Sequence[tuple[str, Literal]]


@dataclass(eq=False, slots=True)
class Step:
    """An operation in a draft; `block` is the list it stands in."""

    kind: str
    operands: list[tuple[str, str]]
    attributes: list[tuple[str, Literal]]
    results: list[Value]
    blocks: list[Block]
    span: Span
    block: Block

    @property
    def result(self) -> str:
        """Name of the first result, empty when there is none."""
        return self.results[0].name if self.results else ""

    @property
    def inputs(self) -> list[str]:
        """Operand values in order."""
        return [value for _, value in self.operands]

    @property
    def index(self) -> int:
        """Place in the block."""
        return next(i for i, step in enumerate(self.block.steps) if step is self)

    def operand(self, role: str) -> str | None:
        """The value that plays `role`."""
        return next((value for name, value in self.operands if name == role), None)

    def attribute(self, name: str) -> Literal:
        """The attribute called `name`, None when absent."""
        return next((value for key, value in self.attributes if key == name), None)

    def set_operand(self, role: str, value: str) -> None:
        """Give `role` another value, or add the role at the end."""
        if self.operand(role) is None:
            self.operands.append((role, value))
        self.operands = [(r, value if r == role else v) for r, v in self.operands]

    def drop_operand(self, role: str) -> None:
        """Take a role away."""
        self.operands = [(r, v) for r, v in self.operands if r != role]

    def rename_kind(self, kind: str) -> None:
        """Make this another operation on the same operands; the source spelling no longer fits and
        is dropped."""
        self.kind = str(kind)
        self.attributes = [(name, value) for name, value in self.attributes if name != "spelling"]


@dataclass(eq=False, slots=True)
class Block:
    """A region in a draft; `owner` is the step whose region it is, None for the body."""

    arguments: list[Value]
    steps: list[Step]
    owner: Step | None

    @property
    def last(self) -> Step | None:
        """The terminator."""
        return self.steps[-1] if self.steps else None


class Draft:
    """A function under change."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.body = _thaw(function.body, None)
        self._number = max((_number(name) for name in self._names()), default=0)
        self._dead = self._unused()

    # -- looking

    def steps(self) -> Iterator[Step]:
        """Every step in program order."""
        yield from _steps(self.body)

    def _names(self) -> Iterator[str]:
        yield from self.function.parameter_names
        for step in self.steps():
            yield from (value.name for value in step.results)
            for block in step.blocks:
                yield from (value.name for value in block.arguments)

    def producer(self, value: str | None) -> Step | None:
        """The step that makes a value; None for parameters, region arguments and values of other
        functions."""
        if value is None:
            return None
        return next((s for s in self.steps() if any(r.name == value for r in s.results)), None)

    def users(self, value: str) -> list[Step]:
        """Steps that read a value."""
        return [step for step in self.steps() if value in step.inputs]

    def holds(self, value: str) -> bool:
        """True when the value is one of this function."""
        return value in set(self._names())

    def scope(self, block: Block) -> Iterator[Block]:
        """The block and those around it, innermost first."""
        current: Block | None = block
        while current is not None:
            yield current
            current = current.owner.block if current.owner is not None else None

    def lifted(self, step: Step, block: Block) -> Step | None:
        """The step of `block` that is or holds `step`; None when it lies elsewhere."""
        current: Step | None = step
        while current is not None and current.block is not block:
            current = current.block.owner
        return current

    def start(self, step: Step) -> Step:
        """First step of the expression that `step` ends: unnamed steps before it that nothing else
        reads."""
        steps, end = step.block.steps, step.index
        first = end
        inside = {id(step)}
        while first > 0:
            before = steps[first - 1]
            readers = self.users(before.result) if before.results else []
            plain = len(before.results) == 1 and not before.blocks and not before.results[0].hint
            if (
                not plain
                or not readers
                or any(id(self.lifted(r, step.block)) not in inside for r in readers)
            ):
                break
            inside.add(id(before))
            first -= 1
        return steps[first]

    def statement(self, step: Step) -> Step:
        """First step of the statement that `step` is written in."""
        steps, place = step.block.steps, step.index
        while (
            not steps[place].blocks
            and len(steps[place].results) == 1
            and not steps[place].results[0].hint
        ):
            readers = [
                self.lifted(reader, step.block) for reader in self.users(steps[place].result)
            ]
            following = [reader.index for reader in readers if reader is not None]
            if not following or min(following) <= place:
                break
            place = min(following)
        return self.start(steps[place])

    # -- changing

    def fresh(self, hint: str = "") -> Value:
        """A value name that is not taken; the hint is how an emitter may spell it."""
        self._number += 1
        return Value(f"{hint}.{self._number}")

    def before(self, step: Step) -> Cursor:
        """Write in front of a step."""
        return Cursor(self, step.block, step.index, step.span)

    def after(self, step: Step) -> Cursor:
        """Write behind a step."""
        return Cursor(self, step.block, step.index + 1, step.span)

    def remove(self, step: Step) -> None:
        """Take a step out; its results must have no use left."""
        step.block.steps.remove(step)

    def move(self, step: Step, before: Step) -> None:
        """Put a step in front of another."""
        step.block.steps.remove(step)
        before.block.steps.insert(before.index, step)
        step.block = before.block

    def replace_uses(self, old: str, new: str, among: Sequence[Step] | None = None) -> None:
        """Let every reader of `old`, or those given, read `new`."""
        for step in list(self.steps()) if among is None else among:
            step.operands = [
                (role, new if value == old else value) for role, value in step.operands
            ]

    def take_over(self, old: str, new: str) -> None:
        """Let every reader of `old` read `new`, which is spelled like `old` when it had no
        spelling of its own."""
        self.replace_uses(old, new)
        step, hint = self.producer(new), old.rpartition(".")[0]
        if step is not None and hint and not step.results[0].hint:
            named = self.fresh(hint)
            step.results = [named]
            self.replace_uses(new, named.name)

    def splice(self, step: Step, block: Block) -> None:
        """Put the steps of one region of `step` in its place; its results become what the region
        hands over."""
        last = block.last
        if last is None or last.kind != OpKind.YIELD:
            raise CannotEmit("a region that leaves cannot stand in line.", where=str(step.span))
        place = step.index
        inner = block.steps[:-1]
        for moved in inner:
            moved.block = step.block
        step.block.steps[place : place + 1] = inner
        for result, value in zip(step.results, last.inputs, strict=True):
            self.replace_uses(result.name, value)

    # -- closing

    def finish(self) -> Function:
        """The changed function without what the change left unused."""
        while self._sweep(self.body, self._uses()):
            pass
        return replace(self.function, body=_freeze(self.body))

    def _uses(self) -> Counter[str]:
        return Counter(value for step in self.steps() for value in step.inputs)

    def _unused(self) -> frozenset[str]:
        """Values that nothing reads."""
        uses = self._uses()
        return frozenset(v.name for s in self.steps() for v in s.results if not uses[v.name])

    def _sweep(self, block: Block, uses: Counter[str]) -> bool:
        """Drop unused steps and unused results of branches; True when something went."""
        changed = False
        for step in reversed(list(block.steps)):
            for inner in step.blocks:
                changed |= self._sweep(inner, uses)
            if step.kind == OpKind.IF and self._prune(step, uses):
                changed = True
            if self._unneeded(step, uses):
                block.steps.remove(step)
                uses.subtract(step.inputs)
                changed = True
        return changed

    def _unneeded(self, step: Step, uses: Counter[str]) -> bool:
        """True for a step without effect whose results lost their last reader."""
        if step.kind == OpKind.IF and not step.results:
            return all(
                len(block.steps) == 1 and block.steps[0].kind == OpKind.YIELD
                for block in step.blocks
            )
        pure = EFFECT.get(step.kind) is None and step.kind not in TERMINATORS | PROMISES
        names = [value.name for value in step.results]
        return pure and bool(names) and not any(uses[n] or n in self._dead for n in names)

    def _prune(self, step: Step, uses: Counter[str]) -> bool:
        """Take the unused results of a branch away, with what its regions hand over for them."""
        names = [value.name for value in step.results]
        unused = [i for i, name in enumerate(names) if not uses[name] and name not in self._dead]
        if not unused:
            return False
        for block in step.blocks:
            end = block.last
            if end is not None and end.kind == OpKind.YIELD:
                uses.subtract(end.operands[i][1] for i in unused)
                end.operands = [pair for i, pair in enumerate(end.operands) if i not in unused]
        step.results = [value for i, value in enumerate(step.results) if i not in unused]
        return True


@dataclass(slots=True)
class Cursor:
    """Writes steps one after the other at a place of a draft."""

    draft: Draft
    block: Block
    index: int
    span: Span
    _last: Step | None = field(default=None)

    def add(
        self, kind: str, operands: Operands, attributes: Attributes = (), hint: str = ""
    ) -> str:
        """Insert an operation with one result; the name of the result."""
        value = self.draft.fresh(hint)
        self.put(
            Step(str(kind), list(operands), list(attributes), [value], [], self.span, self.block)
        )
        return value.name

    def put(self, step: Step) -> Step:
        """Insert a finished step."""
        step.block = self.block
        self.block.steps.insert(self.index, step)
        self.index += 1
        self._last = step
        return step

    def constant(self, value: Literal, name: str = "") -> str:
        """Insert a literal; `name` is how a module-level constant may be called."""
        attributes: list[tuple[str, Literal]] = [("value", value)]
        if name:
            attributes.append(("constant_name", name))
        return self.add(OpKind.CONST, (), attributes)

    def binary(self, kind: str, lhs: str, rhs: str, hint: str = "") -> str:
        """Insert an operation on two values."""
        return self.add(kind, (("lhs", lhs), ("rhs", rhs)), hint=hint)

    def branch(self, condition: str, handed: Sequence[tuple[str, str, str]]) -> Step:
        """Insert a branch of two empty regions; `handed` is (hint, value when true, value when
        false)."""
        results = [self.draft.fresh(hint) for hint, _, _ in handed]
        step = Step(OpKind.IF, [("condition", condition)], [], results, [], self.span, self.block)
        for side in (1, 2):
            block = Block([], [], step)
            ends = [("value", hand[side]) for hand in handed]
            block.steps.append(Step(OpKind.YIELD, ends, [], [], [], self.span, block))
            step.blocks.append(block)
        return self.put(step)


def _number(name: str) -> int:
    tail = name.rpartition(".")[2]
    digits = "".join(c for c in tail if c.isdigit())
    return int(digits) if digits else 0


def _steps(block: Block) -> Iterator[Step]:
    for step in block.steps:
        yield step
        for inner in step.blocks:
            yield from _steps(inner)


def _thaw(region: Region, owner: Step | None) -> Block:
    block = Block(list(region.arguments), [], owner)
    for op in region.ops:
        step = Step(
            op.kind, list(op.operands), list(op.attributes), list(op.results), [], op.span, block
        )
        step.blocks = [_thaw(inner, step) for inner in op.regions]
        block.steps.append(step)
    return block


def _freeze(block: Block) -> Region:
    return Region(tuple(block.arguments), tuple(_frozen(step) for step in block.steps))


def _frozen(step: Step) -> Op:
    return Op(
        step.kind, tuple(step.operands), tuple(step.attributes), tuple(step.results),
        tuple(_freeze(block) for block in step.blocks), step.span,
    )  # fmt: skip

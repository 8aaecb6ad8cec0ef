"""The machine that runs a tile program one program instance after the other, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from generators.reference.values import (
    DType,
    EvaluationError,
    Range,
    Tile,
    as_tile,
    from_constant,
    integer,
    is_constant,
)
from kb.ir import Function, Kernel, Op, Region
from kb.ops import OpKind

MAX_CALLS = 64
"""Depth of helper calls."""

MAX_STEPS = 4_000_000
"""Operations that one run may execute."""

MAX_BYTES = 1 << 32
"""Bytes of tiles that one program instance may make, freed or not, between two loop iterations."""


@dataclass(frozen=True, slots=True)
class Leave:
    """How a region ended: its terminator and the values that it hands over."""

    kind: str
    values: tuple[object, ...]


Frame = dict[str, object]
Handler = Callable[["Machine", Frame, Op], object]


@dataclass(slots=True)
class Machine:
    """Runs programs of one dialect; `block` is the index of the running instance in `grid`.

    `reached` holds the `id` of every operation that was run.
    """

    kernel: Kernel
    grid: tuple[int, ...]
    handlers: Mapping[str, Handler]
    truncating: bool = False
    poison: bool = False
    strict: bool = False
    max_steps: int = MAX_STEPS
    block: tuple[int, ...] = (0, 0, 0)
    steps: int = 0
    depth: int = 0
    helpers: dict[str, Function] = field(default_factory=dict)
    reached: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.helpers = {helper.name: helper for helper in self.kernel.helpers}

    # -- functions

    def instance(self, block: tuple[int, ...], arguments: Frame) -> None:
        """Run one program instance."""
        self.block = block
        self.region(self.kernel.entry.body, dict(arguments))

    def call(self, name: str, given: Mapping[str, object]) -> object:
        """Run a helper; the value that it returns, None when it returns nothing."""
        helper = self.helpers.get(name)
        if helper is None:
            raise EvaluationError(f"no helper is called {name}.", where=self.kernel.name)
        frame: Frame = dict(given)
        for parameter in helper.parameters:
            if parameter.name not in frame:
                if not parameter.has_default:
                    raise EvaluationError(f"{parameter.name} is not given.", where=str(helper.span))
                frame[parameter.name] = parameter.default
        if self.depth >= MAX_CALLS:
            raise EvaluationError(f"calls nest deeper than {MAX_CALLS}.", where=str(helper.span))
        self.depth += 1
        left = self.region(helper.body, frame)
        self.depth -= 1
        return left.values[0] if left.values else None

    def apply(self, name: str, values: tuple[object, ...]) -> tuple[object, ...]:
        """A helper on positional values; always a tuple of results."""
        helper = self.helpers.get(name)
        names = helper.parameter_names if helper else ()
        found = self.call(name, dict(zip(names, values, strict=False)))
        return found if isinstance(found, tuple) else (found,)

    # -- regions

    def region(self, region: Region, frame: Frame) -> Leave:
        """Run a region to its terminator."""
        for op in region.ops:
            self.steps += 1
            self.reached.add(id(op))
            if self.steps > self.max_steps:
                raise EvaluationError(
                    f"more than {self.max_steps} steps.", where=str(op.span),
                    hint="Use smaller shapes.",
                )  # fmt: skip
            left = self._step(op, frame)
            if left is not None:
                return left
        return Leave(OpKind.YIELD, ())

    def _step(self, op: Op, frame: Frame) -> Leave | None:
        if op.kind in (OpKind.YIELD, OpKind.RETURN, OpKind.BREAK, OpKind.CONTINUE):
            return Leave(op.kind, tuple(frame[value] for value in op.inputs))
        if op.kind in (OpKind.IF, OpKind.IF_EXPRESSION):
            return self._branch(op, frame)
        if op.kind == OpKind.FOR:
            return self._for(op, frame)
        if op.kind == OpKind.WHILE:
            return self._while(op, frame)
        handler = self.handlers.get(op.kind)
        if handler is None:
            raise EvaluationError(
                f"`{op.kind}` is not evaluated.", where=str(op.span),
                hint="Evaluate a program without it.",
            )  # fmt: skip
        try:
            found = handler(self, frame, op)
        except EvaluationError as error:
            if error.where:
                raise
            raise EvaluationError(error.message, where=str(op.span), hint=error.hint) from None
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise EvaluationError(
                f"`{op.kind}` cannot be computed: {error}.", where=str(op.span),
                hint="Check the shapes and the arguments.",
            ) from error  # fmt: skip
        self._define(op, found, frame)
        return None

    def _define(self, op: Op, found: object, frame: Frame) -> None:
        if len(op.results) == 1:
            frame[op.results[0].name] = found
        elif op.results:
            values = found if isinstance(found, tuple | list) else (found,)
            if len(values) != len(op.results):
                raise EvaluationError(
                    f"{len(values)} values for {len(op.results)} results.", where=str(op.span)
                )
            frame.update({v.name: value for v, value in zip(op.results, values, strict=True)})

    def _branch(self, op: Op, frame: Frame) -> Leave | None:
        chosen = op.regions[0 if self.truth(frame[op.inputs[0]], op) else 1]
        left = self.region(chosen, frame)
        if left.kind != OpKind.YIELD:
            return left
        self._hand_over(op, left.values, frame)
        return None

    def _hand_over(self, op: Op, values: tuple[object, ...], frame: Frame) -> None:
        if len(values) != len(op.results):
            raise EvaluationError("values handed over do not match.", where=str(op.span))
        frame.update({v.name: value for v, value in zip(op.results, values, strict=True)})

    def truth(self, value: object, op: Op) -> bool:
        """A condition as Python decides it; a tile must hold one element."""
        if isinstance(value, Tile):
            if value.data.size != 1:
                raise EvaluationError("a condition of several elements.", where=str(op.span))
            return bool(value.data.reshape(()))
        return bool(value)

    def _for(self, op: Op, frame: Frame) -> Leave | None:
        (body,) = op.regions
        carried = tuple(frame[value] for value in op.inputs[1:])
        for item in self._items(frame[op.inputs[0]], op):
            frame[body.arguments[0].name] = item
            for argument, value in zip(body.arguments[1:], carried, strict=True):
                frame[argument.name] = value
            left = self.region(body, frame)
            if left.kind == OpKind.RETURN:
                return left
            carried = left.values
            if left.kind == OpKind.BREAK:
                break
        self._hand_over(op, carried, frame)
        return None

    def _items(self, iterable: object, op: Op) -> list[object]:
        if isinstance(iterable, Range):
            if iterable.step == 0:
                raise EvaluationError("a range with step 0.", where=str(op.span))
            counted = range(iterable.low, iterable.high, iterable.step)
            if len(counted) > self.max_steps:
                raise EvaluationError("a loop of too many iterations.", where=str(op.span))
            if iterable.dtype is None:
                return list(counted)
            return [from_constant(value, iterable.dtype) for value in counted]
        if isinstance(iterable, tuple | list):
            return list(iterable)
        raise EvaluationError("a loop over what is no range.", where=str(op.span))

    def _while(self, op: Op, frame: Frame) -> Leave | None:
        test, body = op.regions
        carried = tuple(frame[value] for value in op.inputs)
        while True:
            for region in (test, body):
                names = (argument.name for argument in region.arguments)
                frame.update(dict(zip(names, carried, strict=True)))
                if region is test and not self.truth(self.region(test, frame).values[0], op):
                    self._hand_over(op, carried, frame)
                    return None
            left = self.region(body, frame)
            if left.kind == OpKind.RETURN:
                return left
            carried = left.values
            if left.kind == OpKind.BREAK:
                self._hand_over(op, carried, frame)
                return None

    # -- operands

    def value(self, frame: Frame, op: Op, role: str, default: object = None) -> object:
        """The value that plays a role, `default` when the operand is absent."""
        name = op.operand(role)
        return frame[name] if name is not None else default

    def flag(self, frame: Frame, op: Op, role: str, default: bool = False) -> bool:
        """A yes-or-no operand."""
        found = self.value(frame, op, role)
        return default if found is None else self.truth(found, op)

    def whole(self, frame: Frame, op: Op, role: str, default: int = 0) -> int:
        """An integer operand."""
        found = self.value(frame, op, role)
        return default if found is None else integer(found, op.span)

    def dtype(self, frame: Frame, op: Op, default: str = "f32", role: str = "dtype") -> str:
        """A dtype operand."""
        found = self.value(frame, op, role)
        if isinstance(found, DType):
            return found.name
        if found is None:
            return default
        raise EvaluationError(f"{role} is no dtype.", where=str(op.span))

    def many(self, frame: Frame, op: Op, role: str) -> tuple[object, ...]:
        """A tuple operand, a variadic one, or a lone value as a tuple of one."""
        found = [frame[value] for name, value in op.operands if name == role]
        if len(found) == 1 and isinstance(found[0], tuple | list):
            return tuple(found[0])
        return tuple(found)


def scalar_range(values: tuple[object, ...]) -> str | None:
    """Dtype of a loop variable: that of a runtime bound, none when every bound is a constant."""
    typed = [value for value in values if not is_constant(value)]
    return as_tile(typed[0]).dtype if typed else None

"""Write a tile program in Python: handles with operators, branches and loops that carry values.

The rules of kb.ir hold for what comes out; names that are given become variables of the emitted
source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kb.ir import Function, Kernel, Literal, Op, Parameter, ParameterKind, Region, Span, Value
from kb.ops import OpKind

Body = Callable[..., "tuple[Tile, ...]"]


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """A value of the program being written; arithmetic on it adds operations."""

    program: Program
    name: str

    def __add__(self, other: Tile | float) -> Tile:
        """Sum."""
        return self.program.binary(OpKind.ADD, self, other)

    def __sub__(self, other: Tile | float) -> Tile:
        """Difference."""
        return self.program.binary(OpKind.SUB, self, other)

    def __mul__(self, other: Tile | float) -> Tile:
        """Product."""
        return self.program.binary(OpKind.MUL, self, other)

    def __truediv__(self, other: Tile | float) -> Tile:
        """Quotient."""
        return self.program.binary(OpKind.DIV, self, other)

    def __lt__(self, other: Tile | float) -> Tile:
        """Elementwise comparison."""
        return self.program.binary(OpKind.LT, self, other)

    def __and__(self, other: Tile) -> Tile:
        """Both masks."""
        return self.program.binary(OpKind.BIT_AND, self, other)

    @property
    def as_column(self) -> Tile:
        """A vector as the first axis of a tile of two."""
        return self.program.op(OpKind.SUBSCRIPT, [("x", self)], [("pattern", ":,None")])

    @property
    def as_row(self) -> Tile:
        """A vector as the second axis of a tile of two."""
        return self.program.op(OpKind.SUBSCRIPT, [("x", self)], [("pattern", "None,:")])

    def to(self, dtype: str) -> Tile:
        """Cast to a dtype by its neutral name."""
        return self.program.cast(self, self.program.dtype(dtype))


class Program:
    """The regions being written and the parameters so far."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.parameters: list[Parameter] = []
        self._open: list[list[Op]] = [[]]
        self._count = 0

    # -- parameters

    def parameter(self, name: str) -> Tile:
        """A pointer or a runtime scalar."""
        self.parameters.append(Parameter(name, ParameterKind.UNTOLD))
        return Tile(self, name)

    def constexpr(self, name: str) -> Tile:
        """A compile-time parameter."""
        self.parameters.append(Parameter(name, ParameterKind.CONSTEXPR))
        return Tile(self, name)

    def kernel(self, name: str) -> Kernel:
        """The finished program; compile-time parameters go last."""
        self._open[0].append(Op(OpKind.RETURN))
        ordered = sorted(self.parameters, key=lambda p: p.kind is ParameterKind.CONSTEXPR)
        body = Region((), tuple(self._open[0]))
        return Kernel(Function(name, tuple(ordered), body, Span(0)), (), self.dialect)

    # -- operations

    def op(
        self,
        kind: OpKind,
        operands: Sequence[tuple[str, Tile | float]] = (),
        attributes: Sequence[tuple[str, Literal]] = (),
    ) -> Tile:
        """An operation with one result; numbers among its operands become constants."""
        given = tuple((role, self.value(value).name) for role, value in operands)
        result = self._fresh("")
        self._open[-1].append(Op(kind, given, tuple(attributes), (result,)))
        return Tile(self, result.name)

    def value(self, value: Tile | float | str) -> Tile:
        """A tile, or a number or word as a constant."""
        return value if isinstance(value, Tile) else self.op(OpKind.CONST, (), [("value", value)])

    def binary(self, kind: OpKind, lhs: Tile, rhs: Tile | float) -> Tile:
        """An operator with two operands."""
        return self.op(kind, [("lhs", lhs), ("rhs", rhs)])

    def dtype(self, name: str) -> Tile:
        """A dtype as a value."""
        return self.op(OpKind.DTYPE, (), [("name", name)])

    def cast(self, value: Tile, dtype: Tile) -> Tile:
        """Cast to the dtype that `dtype` holds."""
        return self.op(OpKind.CAST, [("x", value), ("dtype", dtype)])

    def element_type(self, pointer: Tile) -> Tile:
        """The dtype that a pointer points at."""
        dtype = self.op(OpKind.DTYPE_OF, [("x", pointer)])
        return self.op(OpKind.ATTRIBUTE, [("x", dtype)], [("name", "element_ty")])

    def select(self, condition: Tile, value: Tile, otherwise: Tile | float) -> Tile:
        """Elementwise choice."""
        return self.op(OpKind.SELECT, [("condition", condition), ("x", value), ("y", otherwise)])

    def lanes(self, size: Tile) -> Tile:
        """0, 1, … size - 1."""
        return self.op(OpKind.ARANGE, [("start", 0), ("size", size)])

    def zeros(self, shape: Sequence[Tile], dtype: str = "f32") -> Tile:
        """A tile of zeros."""
        extents = self.op(OpKind.TUPLE, [("item", extent) for extent in shape])
        return self.op(OpKind.ZEROS, [("shape", extents), ("dtype", self.dtype(dtype))])

    def load(self, pointer: Tile, mask: Tile | None, eviction: str = "") -> Tile:
        """Elements at `pointer`; lanes outside `mask` are zero."""
        operands: list[tuple[str, Tile | float]] = [("pointer", pointer)]
        if mask is not None:
            operands += [("mask", mask), ("padding", 0.0)]
        if eviction:
            operands.append(("eviction_policy", self.value(eviction)))
        return self.op(OpKind.LOAD, operands)

    def store(self, pointer: Tile, value: Tile, mask: Tile | None, cache: str = "") -> None:
        """Write the lanes inside `mask`."""
        operands: list[tuple[str, Tile | float]] = [("pointer", pointer), ("value", value)]
        if mask is not None:
            operands.append(("mask", mask))
        if cache:
            operands.append(("cache_modifier", self.value(cache)))
        self.op(OpKind.STORE, operands)

    def named(self, name: str, value: Tile) -> Tile:
        """The value under a variable name: the step that made it, else a copy of it."""
        ops = self._open[-1]
        last = ops[-1] if ops else None
        number = value.name.rpartition(".")[2]
        if last is not None and [v.name for v in last.results] == [value.name] == [f".{number}"]:
            renamed = f"{name}.{number}"
            ops[-1] = replace(last, results=(Value(renamed),))
            return Tile(self, renamed)
        copy = self._fresh(name)
        ops.append(Op(OpKind.COPY, (("x", value.name),), (), (copy,)))
        return Tile(self, copy.name)

    # -- control

    def either(
        self, condition: Tile, names: Sequence[str], then: Body, otherwise: Body
    ) -> tuple[Tile, ...]:
        """`if`: both bodies give one value per name."""
        regions = tuple(self._region(names, body, ()) for body in (then, otherwise))
        results = tuple(self._fresh(name) for name in names)
        operands = (("condition", condition.name),)
        self._open[-1].append(Op(OpKind.IF, operands, (), results, regions))
        return tuple(Tile(self, result.name) for result in results)

    def loop(
        self,
        variable: str,
        bounds: Sequence[tuple[str, Tile | float]],
        carried: Sequence[tuple[str, Tile]],
        body: Body,
    ) -> tuple[Tile, ...]:
        """`for`: the body gets the loop variable and the carried values, and gives their next ones.

        `bounds` are the operands of the range: low, high, step, num_stages.
        """
        iterable = self.op(OpKind.RANGE, bounds)
        arguments = tuple(self._fresh(name) for name in (variable, *(n for n, _ in carried)))
        region = self._region([name for name, _ in carried], body, arguments)
        results = tuple(self._fresh(name) for name, _ in carried)
        operands = (("iterable", iterable.name), *(("init", value.name) for _, value in carried))
        self._open[-1].append(Op(OpKind.FOR, operands, (), results, (region,)))
        return tuple(Tile(self, result.name) for result in results)

    def _region(self, names: Sequence[str], body: Body, arguments: tuple[Value, ...]) -> Region:
        self._open.append([])
        given = body(*(Tile(self, value.name) for value in arguments))
        operands = tuple((name, tile.name) for name, tile in zip(names, given, strict=True))
        self._open[-1].append(Op(OpKind.YIELD, operands))
        return Region(arguments, tuple(self._open.pop()))

    def _fresh(self, hint: str) -> Value:
        self._count += 1
        return Value(f"{hint}.{self._count}")

"""Tensors by their extents: views, shapes, what the host allocates."""

from __future__ import annotations

import ast

from extractors.host.events import RoundRecord
from extractors.host.expr import make
from extractors.host.launching import Launching
from extractors.host.machine import TensorFact
from extractors.host.values import (
    Choice,
    Expr,
    Ref,
    Unknown,
    Value,
)
from kb.evidence import Lines


class Tensors(Launching):
    """Tensors that the host passes on."""

    def dim(self, tensor: Value, index: Value) -> Value:
        """Extent of a tensor along an axis."""
        if isinstance(tensor, Choice):
            return self.machine.lift(lambda one: self.dim(one, index), tensor)
        fact = self.machine.tensors.get(tensor)
        if fact is not None and fact.dims is not None and isinstance(index, int):
            if -len(fact.dims) <= index < len(fact.dims):
                return self.resolve(fact.dims[index])
        if fact is not None and fact.like is not None:
            return self.dim(fact.like, index)
        if isinstance(index, int) and index < 0 and fact is not None and fact.rank is not None:
            index += fact.rank
        return make("dim", tensor, index)

    def rank(self, tensor: Value) -> Value:
        """Number of axes of a tensor."""
        fact = self.machine.tensors.get(tensor)
        if fact is not None and fact.dims is not None:
            return len(fact.dims)
        if fact is not None and fact.rank is not None:
            return fact.rank
        if fact is not None and fact.like is not None:
            return self.rank(fact.like)
        return make("rank", tensor)

    def view_of(self, tensor: Value) -> Value:
        """A tensor made from another by slicing: its extents are its own."""
        return self.new_tensor(TensorFact(base=tensor))

    def transposed(self, tensor: Expr, turned: Lines | None = None) -> Value:
        """`t.T` of a matrix."""
        return self.new_tensor(
            TensorFact(base=tensor, turned=turned, dims=(self.dim(tensor, 1), self.dim(tensor, 0)))
        )

    def new_tensor(self, fact: TensorFact) -> Value:
        """A tensor the host makes."""
        value = make("tensor", self.machine.fresh())
        self.machine.tensors[value] = fact
        return value

    def reshaped(self, tensor: Expr, dims: tuple[Value, ...]) -> Value:
        """`view` and `reshape`; an extent of -1 is the tensor's own."""
        if len(dims) == 1 and isinstance(dims[0], (tuple, Ref, Expr)):
            spread = (
                self.sequence(dims[0])
                if not (isinstance(dims[0], Expr) and dims[0].op != "shape")
                else dims
            )
            dims = spread if isinstance(spread, tuple) else ()
        value = self.new_tensor(TensorFact(base=tensor, reshaped=True))
        if not dims:
            return value
        known = tuple(make("dim", value, at) if one == -1 else one for at, one in enumerate(dims))
        self.machine.tensors[value].dims = known
        return value

    def made_tensor(self, shape: Value, fill: Value = None) -> Value:
        """A tensor of a given shape."""
        shape = self.resolve(shape)
        if isinstance(shape, Choice):
            return self.machine.lift(lambda one: self.made_tensor(one, fill), shape)
        fact = TensorFact(fill=fill)
        row = self.sequence(shape) if isinstance(shape, (tuple, Ref, Expr)) else shape
        if isinstance(row, tuple):
            fact.dims = row
        elif isinstance(shape, Expr) and shape.op == "shape":
            fact.like = shape.args[0]
        elif isinstance(shape, (int, Expr)):
            fact.dims = (shape,)
        return self.new_tensor(fact)

    def rounded(self, known: str, value: Value, node: ast.AST) -> Value:
        """An extent through a recognised helper."""
        if isinstance(value, int):
            return (
                1 << max(value - 1, 0).bit_length()
                if known == "npow2"
                else value > 0 and not value & (value - 1)
            )
        result = (
            make(known, value) if value is not None and not isinstance(value, Unknown) else value
        )
        if isinstance(result, Expr) and known == "npow2":
            self.machine.emit(
                RoundRecord(
                    result=result,
                    lines=self.where(node),
                    path=self.machine.path,
                    stack=self.machine.stack,
                )
            )
        return result

"""repaired(kernel, signature): the signature with what the program demands of it made true.

The profiles of generators/signatures.py fill every parameter by its own; what a program says of two
parameters together, or of a dtype through a value beside it, is put right here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from generators.compile_model import Argument, ArgumentKind, Scalar, Signature
from generators.signature_shapes import Shapes
from generators.usage import Usage
from kb.analysis.graph import Graph, Node
from kb.analysis.inline import inline
from kb.analysis.sort_model import Kind
from kb.analysis.sorts import Sorts
from kb.analysis.values import Values
from kb.ir import Kernel
from kb.ops import READS, OpKind

_FLOATS = frozenset(
    {OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.SQRT, OpKind.RSQRT, OpKind.SIN,
     OpKind.COS}
)  # fmt: skip
_THROUGH = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.NEG, OpKind.COPY})
_WHOLE = frozenset(
    {"index", "pointer", "mask", "low", "high", "step", "shape", "size", "start", "axis"}
)


@dataclass(slots=True)
class Repairs:
    """What one program demands, found once."""

    kernel: Kernel
    usage: Usage
    graph: Graph = field(init=False)
    values: Values = field(init=False)
    sorts: Sorts = field(init=False)
    shapes: Shapes = field(init=False)

    def __post_init__(self) -> None:
        inlined = inline(self.kernel)
        self.graph = Graph(inlined.entry)
        self.values = Values(self.graph)
        self.sorts = Sorts(inlined.entry, self.graph, self.values)
        self.shapes = Shapes(inlined, self.graph, self.values)

    def repaired(self, signature: Signature) -> Signature:
        """The signature with every demand met that it did not meet; the same when it met all."""
        arguments = {a.name: a for a in signature.arguments}
        dtypes, floats = {**self._padded(), **self._multiplied()}, self._floats()
        for name, argument in arguments.items():
            if argument.kind in (ArgumentKind.ARRAY, ArgumentKind.POINTER) and name in dtypes:
                arguments[name] = replace(argument, dtype=dtypes[name])
            elif name in floats:
                arguments[name] = _floating(argument)
        for name, value in self._sizes(_numbers(arguments)).items():
            arguments[name] = replace(arguments[name], value=value)
        for name, shape in self.shapes.blocks(arguments, _numbers(arguments)).items():
            if arguments[name].kind is ArgumentKind.DESCRIPTOR:
                arguments[name] = replace(arguments[name], shape=shape)
        return replace(signature, arguments=tuple(arguments.values()))

    # -- dtypes

    def _padded(self) -> dict[str, str]:
        """Arrays whose dtype the padding of their loads says."""
        found: dict[str, str] = {}
        for node in self.graph.of(*READS):
            dtype = self.sorts.of(node.op.operand("padding")).dtype
            array = node.op.operand("array")
            if dtype and array in self.kernel.entry.parameter_names:
                found[str(array)] = dtype
        return found

    def _multiplied(self) -> dict[str, str]:
        """Arrays that a matrix product takes together with integers of one written dtype."""
        found: dict[str, str] = {}
        for product in self.graph.of(OpKind.MMA):
            sides = [product.op.operand(role) or "" for role in ("lhs", "rhs")]
            for side, other in (sides, sides[::-1]):
                partner = self.sorts.of(other)
                made = self.graph.producer(self.graph.plain(side))
                if partner.kind is Kind.INT and partner.dtype and made is not None:
                    found |= dict.fromkeys(self._addressed(made), partner.dtype)
        return found

    def _addressed(self, load: Node) -> list[str]:
        """The parameters that a load reads through, by array or by pointer arithmetic."""
        entry = self.kernel.entry
        base = load.op.operand("array") or load.op.operand("pointer")
        if load.op.kind not in READS or base is None:
            return []
        root = self.usage.find(f"{entry.name}:{base}")
        names = entry.parameter_names
        return [name for name in names if self.usage.find(f"{entry.name}:{name}") == root]

    def _floats(self) -> frozenset[str]:
        """Parameters that reach a function of floats by sums and products, and nothing that takes
        whole numbers."""
        pending = [v for n in self.graph.of(*_FLOATS) for v in n.op.inputs[:1]]
        seen: set[str] = set(pending)
        for value in pending:
            node = self.graph.producer(value)
            if node is not None and node.op.kind in _THROUGH:
                pending += [v for v in node.op.inputs if v not in seen]
                seen.update(node.op.inputs)
        names = seen & set(self.kernel.entry.parameter_names)
        return frozenset(name for name in names if not self._counts(name))

    def _counts(self, name: str) -> bool:
        return any(role in _WHOLE for _, role in self.graph.uses.get(name, ()))

    # -- sizes

    def _sizes(self, known: dict[str, int]) -> dict[str, int]:
        """Constants that an assertion or the bounds of a range of lanes ask for."""
        found: dict[str, int] = {}
        for node in self.graph.of(OpKind.STATIC_ASSERT):
            found |= self._divisible(node, known | found)
        for node in self.graph.of(OpKind.ARANGE):
            start, end = (node.op.operand(role) for role in ("start", "size"))
            low, high = (self.shapes.number(value, known | found) for value in (start, end))
            if low and high and high <= low and start in known:
                found[str(start)] = high // 2
        return found | self.shapes.gathered(known | found)

    def _divisible(self, asserted: Node, known: Mapping[str, int]) -> dict[str, int]:
        """`K % d == 0` of a constant K: the product with d when d does not divide it."""
        equal = self.graph.producer(asserted.op.operand("condition"))
        if equal is None or equal.op.kind != OpKind.EQ:
            return {}
        rest = self.graph.producer(equal.op.inputs[0])
        if rest is None or rest.op.kind != OpKind.MOD:
            return {}
        name, divisor = rest.op.inputs[0], self.shapes.number(rest.op.inputs[1], known)
        if name not in known or not divisor or known[name] % divisor == 0:
            return {}
        return {name: known[name] * divisor}


def _floating(argument: Argument) -> Argument:
    if argument.kind is ArgumentKind.SCALAR:
        return replace(argument, dtype="f32")
    if argument.kind is ArgumentKind.CONSTEXPR and isinstance(argument.value, int | bool):
        value: Scalar = float(argument.value)
        return replace(argument, value=value)
    return argument


def _numbers(arguments: Mapping[str, Argument]) -> dict[str, int]:
    """Whole compile-time constants by name."""
    found: dict[str, int] = {}
    for name, argument in arguments.items():
        if isinstance(argument.value, int) and not isinstance(argument.value, bool):
            found[name] = argument.value
    return found

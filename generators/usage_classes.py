"""Classes of values that are one value by control flow or by a call, and the facts known of each
class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from generators.usage_tables import FLOATING, SAME_SORT
from kb.ir import Kernel, Literal, Op, Region, walk
from kb.ops import OpKind

MAX_ROUNDS = 24
"""Bound of every walk: rounds of the rules, copies followed, depth of an expression."""


class Role(StrEnum):
    """What a value is used as."""

    ARRAY = "array"
    MEMORY = "memory"
    DESCRIPTOR = "descriptor"
    LIST = "list"
    INDEX = "index"
    INTEGER = "integer"
    FLOATING = "floating"
    TRUTH = "truth"
    NEAR_FLOAT = "near float"
    EXTENT = "extent"
    UNROLL = "unroll"
    CONDITION = "condition"
    DTYPE = "dtype"
    HINT = "hint"
    SMALL = "small"
    WORD = "word"
    ATOMIC = "atomic"
    SEQUENCE = "sequence"


@dataclass(slots=True)
class Facts:
    """What is known of one class of values.

    `compared` are constants that it is tested against; of an element, `stored` are the sorts of the
    values written there and `exact` their dtypes where the program says them; `rank` counts axes,
    -1 when unknown; `flags` are the bits that conditions look at.
    """

    roles: set[Role] = field(default_factory=set)
    compared: list[Literal] = field(default_factory=list)
    rank: int = -1
    element: str = ""
    stored: set[str] = field(default_factory=set)
    exact: set[str] = field(default_factory=set)
    flags: int = 0


class Classes:
    """The values of one program in classes; a node is `function:value`, `node*` are the elements
    behind it.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._parent: dict[str, str] = {}
        self._facts: dict[str, Facts] = {}
        self.definitions: dict[str, Op] = {}
        self._actuals: dict[str, list[str]] = {}
        self._returns: dict[str, list[Op]] = {}
        self.ops = [(f.name, op) for f in kernel.functions for op in walk(f.body)]
        for function, op in self.ops:
            for value in op.results:
                self.definitions[f"{function}:{value.name}"] = op
            if op.kind == OpKind.RETURN:
                self._returns.setdefault(function, []).append(op)
        for function, op in self.ops:
            self._join(function, op)

    # -- asking

    def of(self, function: str, value: str) -> Facts:
        """Facts of a value."""
        return self.facts(f"{function}:{value}")

    def facts(self, node: str) -> Facts:
        """Facts of the class of a node."""
        return self._facts.setdefault(self.find(node), Facts())

    def element(self, node: str) -> Facts:
        """Facts of what lies behind an array or pointer."""
        return self.facts(self.element_node(node))

    def find(self, node: str) -> str:
        """Representative of a class."""
        root = node
        while (parent := self._parent.get(root, root)) != root:
            root = parent
        while (parent := self._parent.get(node, node)) != root:
            self._parent[node] = root
            node = parent
        return root

    def element_node(self, node: str) -> str:
        """The node that stands for the elements of an array or pointer."""
        facts = self.facts(node)
        if not facts.element:
            facts.element = f"{self.find(node)}*"
        return facts.element

    def items(self, function: str, value: str | None) -> tuple[str, ...] | None:
        """Nodes of the items of a tuple value, followed through copies and arguments; None for
        another value.
        """
        node = f"{function}:{value}" if value else ""
        for _ in range(MAX_ROUNDS):
            op = self.definitions.get(node)
            if op is None:
                actuals = self._actuals.get(node, [])
                if not actuals:
                    return None
                node = actuals[0]
                continue
            owner = node.partition(":")[0]
            if op.kind in (OpKind.TUPLE, OpKind.LIST):
                return tuple(f"{owner}:{item}" for item in op.inputs)
            if op.kind != OpKind.COPY:
                return None
            node = f"{owner}:{op.inputs[0]}"
        return None

    # -- one value, one class

    def union(self, first: str, second: str) -> None:
        a, b = self.find(first), self.find(second)
        if a == b:
            return
        kept, gone = self._facts.pop(a, Facts()), self._facts.pop(b, Facts())
        self._parent[b] = a
        kept.roles |= gone.roles
        kept.compared += [item for item in gone.compared if item not in kept.compared]
        kept.stored |= gone.stored
        kept.exact |= gone.exact
        kept.flags |= gone.flags
        kept.rank = max(kept.rank, gone.rank)
        elements = [item for item in (kept.element, gone.element) if item]
        kept.element = elements[0] if elements else ""
        self._facts[a] = kept
        if len(elements) == 2:
            self.union(elements[0], elements[1])

    def _join(self, function: str, op: Op) -> None:
        here = [f"{function}:{value.name}" for value in op.results]
        match op.kind:
            case OpKind.COPY:
                self.union(here[0], f"{function}:{op.inputs[0]}")
            case OpKind.CALL:
                self._join_call(function, op, here)
            case OpKind.FOR | OpKind.WHILE:
                self._join_loop(function, op, here)
            case OpKind.IF | OpKind.IF_EXPRESSION:
                for region in op.regions:
                    last = region.terminator
                    if last is not None and last.kind == OpKind.YIELD:
                        for result, value in zip(here, last.inputs, strict=False):
                            self.union(result, f"{function}:{value}")

    def _join_call(self, function: str, op: Op, here: list[str]) -> None:
        callee = str(op.attribute("callee"))
        for name, value in op.operands:
            self.union(f"{callee}:{name}", f"{function}:{value}")
            self._actuals.setdefault(f"{callee}:{name}", []).append(f"{function}:{value}")
        for back in self._returns.get(callee, []):
            if here and len(back.inputs) == 1:
                self.union(here[0], f"{callee}:{back.inputs[0]}")

    def _join_loop(self, function: str, op: Op, here: list[str]) -> None:
        inits = [f"{function}:{value}" for role, value in op.operands if role == "init"]
        for result, init in zip(here, inits, strict=False):
            self.union(result, init)
        for position, region in enumerate(op.regions):
            arguments = [f"{function}:{value.name}" for value in region.arguments]
            carried = arguments[1:] if op.kind == OpKind.FOR else arguments
            for result, argument in zip(here, carried, strict=False):
                self.union(result, argument)
            if op.kind == OpKind.WHILE and position == 0:
                continue
            for last in _exits(region):
                for result, value in zip(here, last.inputs, strict=False):
                    self.union(result, f"{function}:{value}")

    # -- looking back

    def constant(self, node: str) -> Literal:
        """Value of a constant node, None when it is not one."""
        op = self.definitions.get(node)
        return op.attribute("value") if op is not None and op.kind == OpKind.CONST else None

    def dtype(self, function: str, value: str | None) -> str:
        """Name of a dtype value that is written out, else empty."""
        op = self.definitions.get(f"{function}:{value}")
        return str(op.attribute("name")) if op is not None and op.kind == OpKind.DTYPE else ""

    def sources(self, function: str, value: str) -> list[tuple[str, ...]]:
        """Item nodes of every tuple that may stand behind a value: itself, or the returns of a
        call.
        """
        direct = self.items(function, value)
        if direct is not None:
            return [direct]
        op = self.definitions.get(f"{function}:{value}")
        if op is None or op.kind != OpKind.CALL:
            return []
        callee = str(op.attribute("callee"))
        found = [
            self.items(callee, back.inputs[0])
            for back in self._returns.get(callee, [])
            if back.inputs
        ]
        return [items for items in found if items is not None]

    def exact(self, node: str, depth: int = 0) -> str:
        """Name of the dtype that a value certainly has; empty when a parameter decides."""
        op = self.definitions.get(node)
        if op is None or depth > MAX_ROUNDS:
            return ""
        owner = node.partition(":")[0]
        if op.operand("dtype") is not None:
            return self.dtype(owner, op.operand("dtype"))
        sources = [value for role, value in op.operands if role in ("x", "lhs", "rhs", "y", "init")]
        if op.kind == OpKind.MMA:
            sources = [value for role, value in op.operands if role == "acc"]
        elif op.kind in (OpKind.FOR, OpKind.IF):
            position = [f"{owner}:{value.name}" for value in op.results].index(node)
            ends = [r.terminator for r in op.regions] if op.kind == OpKind.IF else []
            sources = (
                sources[position : position + 1]
                if op.kind == OpKind.FOR
                else [end.inputs[position] for end in ends if end and position < len(end.inputs)]
            )
        elif op.kind not in SAME_SORT | FLOATING | {OpKind.SELECT, OpKind.COPY}:
            return ""
        found = {self.exact(f"{owner}:{value}", depth + 1) for value in sources}
        return "f32" if "f32" in found else ""


def _exits(region: Region) -> list[Op]:
    """Where a loop body ends: its own terminator, and breaks and continues of this loop inside
    branches.
    """
    found: list[Op] = []
    pending = [region]
    while pending:
        current = pending.pop()
        for op in current.ops:
            if op.kind in (OpKind.BREAK, OpKind.CONTINUE) or (
                op.kind == OpKind.YIELD and current is region
            ):
                found.append(op)
            elif op.kind == OpKind.IF:
                pending += op.regions
    return found

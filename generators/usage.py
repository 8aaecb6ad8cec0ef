"""How a tile program uses its values: addresses, integers, floats, and what constants size.

Facts are gathered per class of values until nothing changes; nothing is read from names.
"""

from __future__ import annotations

from collections.abc import Iterable

from generators.usage_classes import MAX_ROUNDS, Classes, Facts, Role
from generators.usage_tables import (
    ARITHMETIC,
    BITS,
    DATA,
    EXTENT_ROLES,
    FLAG_ROLES,
    FLOATING,
    INDEX_ROLES,
    INTEGER,
    SAME_SORT,
    SHAPING,
    SMALL_ROLES,
    TESTS,
    TRUTH,
    VIEWS,
    WHOLE,
    WORD_ROLES,
)  # fmt: skip
from kb.ir import Kernel, Literal, Op
from kb.ops import ATOMICS, COMPARISONS, READS, WRITES, OpKind

__all__ = ["Facts", "Role", "Usage"]


class Usage(Classes):
    """Facts about every value of one program; ask with `of`, by function and value name."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._settle()

    # -- facts until nothing changes

    def _settle(self) -> None:
        for _ in range(MAX_ROUNDS):
            before = self._size()
            for function, op in self.ops:
                self._tuples(function, op)
                self._memory(function, op)
                self._integers(function, op)
                self._truths(function, op)
                self._uses(function, op)
            if self._size() == before:
                break
        self._floats()

    def _size(self) -> tuple[int, int]:
        total = sum(
            len(f.roles) + len(f.compared) + f.rank + len(f.stored | f.exact) + f.flags
            for f in self._facts.values()
        )
        return total, len(self._parent)

    def _add(self, node: str, *roles: Role) -> None:
        self.facts(node).roles.update(roles)

    def _has(self, node: str, role: Role) -> bool:
        return role in self.facts(node).roles

    def _tuples(self, function: str, op: Op) -> None:
        """Unpacking and constant subscripts of tuples that are in sight."""
        if op.kind == OpKind.UNPACK:
            for items in self.sources(function, op.inputs[0]):
                for result, item in zip(op.results, items, strict=False):
                    self.union(f"{function}:{result.name}", item)
        elif op.kind == OpKind.SUBSCRIPT and op.attribute("pattern") == "#":
            items_ = self.items(function, op.operand("x"))
            index = self.constant(f"{function}:{op.operand('index')}")
            if (
                items_ is not None
                and isinstance(index, int)
                and -len(items_) <= index < len(items_)
            ):
                self.union(f"{function}:{op.result}", items_[index])

    def _memory(self, function: str, op: Op) -> None:
        """What is an address, what lies behind it, and of what rank it is."""
        array, pointer = op.operand("array"), op.operand("pointer") or op.operand("base")
        target = array or pointer or op.operand("descriptor")
        if target is not None and (op.kind in READS | WRITES | ATOMICS or op.kind in VIEWS):
            node = f"{function}:{target}"
            known = Role.DESCRIPTOR if op.operand("descriptor") else Role.MEMORY
            self._add(node, Role.ARRAY if array else known)
            self._access(function, op, node)
        for value in op.results[:1]:
            self._address(function, op, f"{function}:{value.name}")
        found = self.of(function, op.result).roles if op.kind == OpKind.SUBSCRIPT else set()
        if op.attribute("pattern") == "#" and found & {Role.ARRAY, Role.MEMORY}:
            base = f"{function}:{op.operand('x')}"
            self._add(base, Role.LIST)
            self.union(self.element_node(base), f"{function}:{op.result}")

    def _access(self, function: str, op: Op, node: str) -> None:
        value = op.operand("value")
        result = f"{function}:{op.results[0].name}" if op.results else ""
        if op.kind in ATOMICS:
            self._add(self.element_node(node), Role.ATOMIC)
            if op.kind in (
                OpKind.ATOMIC_CAS,
                OpKind.ATOMIC_AND,
                OpKind.ATOMIC_OR,
                OpKind.ATOMIC_XOR,
            ):
                self._add(self.element_node(node), Role.INTEGER)
        if op.kind in READS | ATOMICS and result:
            self.union(result, self.element_node(node))
        elif op.kind in VIEWS and result:
            self.union(result, node)
        if value is not None:
            sort = self._sort(f"{function}:{value}")
            if sort is not None:
                self.facts(self.element_node(node)).stored.add(sort)
            exact = self.exact(f"{function}:{value}")
            if exact and op.kind not in ATOMICS:
                self.facts(self.element_node(node)).exact.add(exact)
        rank = self._rank(function, op)
        self.facts(node).rank = max(self.facts(node).rank, rank)

    def _rank(self, function: str, op: Op) -> int:
        for role in ("index", "shape", "block_shape", "offsets"):
            if op.operand(role) is None or (op.kind == OpKind.NUM_TILES and role == "index"):
                continue
            items = self.items(function, op.operand(role))
            # A tile of no axes is loaded from arrays of any rank; only its index tells which.
            if items or (items is not None and role == "index"):
                return len(items)
        return 1 if op.operand("array") is not None and op.kind != OpKind.ARRAY_SLICE else -1

    def _sort(self, node: str) -> str | None:
        for role in (Role.TRUTH, Role.INTEGER, Role.FLOATING):
            if self._has(node, role):
                return role
        return None

    def _address(self, function: str, op: Op, result: str) -> None:
        """An address stays one through arithmetic: the side that is not an integer is its base."""
        if op.kind in SHAPING and op.inputs and op.attribute("pattern") != "#":
            base = f"{function}:{op.inputs[0]}"
            if self._has(result, Role.MEMORY) or self._has(base, Role.MEMORY):
                self.union(result, base)
        elif op.kind in (OpKind.ADD, OpKind.SUB) and len(op.inputs) == 2:
            sides = [f"{function}:{value}" for value in op.inputs]
            known = [side for side in sides if self._has(side, Role.MEMORY)]
            if known:
                self.union(result, known[0])
            elif self._has(result, Role.MEMORY):
                self.union(result, self._base(sides))
            for side in sides if self._has(result, Role.MEMORY) else ():
                if not self._has(side, Role.MEMORY):
                    self._add(side, Role.INTEGER, Role.INDEX)
        elif op.kind == OpKind.SELECT and self._has(result, Role.MEMORY):
            for role in ("x", "y"):
                self.union(result, f"{function}:{op.operand(role)}")

    def _base(self, sides: list[str]) -> str:
        for side, other in ((sides[0], sides[1]), (sides[1], sides[0])):
            if self._has(other, Role.INTEGER) and not self._has(side, Role.INTEGER):
                return side
        return sides[0]

    def _integers(self, function: str, op: Op) -> None:
        """What must be an integer because of where it is used, or is one by how it is made."""
        here = [f"{function}:{value.name}" for value in op.results]
        data = [f"{function}:{value}" for role, value in op.operands if role in DATA]
        for role, value in op.operands:
            if role in INDEX_ROLES or role in EXTENT_ROLES:
                self._add_all(self.items(function, value) or (f"{function}:{value}",), Role.INTEGER)
        if op.kind in INTEGER:
            self._add(here[0], Role.INTEGER)
        elif op.kind in WHOLE:
            self._add_all((*data, *here), Role.INTEGER)
        elif op.kind == OpKind.CAST:
            self._cast(function, op, here[0])
        elif op.kind in (OpKind.FOR, OpKind.WHILE):
            self._counter(function, op)
        elif op.kind in COMPARISONS and any(self._has(node, Role.INTEGER) for node in data):
            self._add_all(data, Role.INTEGER)
        elif op.kind == OpKind.SHAPE:
            self._add(here[0], Role.SEQUENCE)
        if op.kind == OpKind.SUBSCRIPT and self._has(f"{function}:{op.inputs[0]}", Role.SEQUENCE):
            self._add(here[0], Role.INTEGER)
            self._shape_rank(function, op)
        elif here and (op.kind in SAME_SORT or op.kind == OpKind.SELECT):
            self._same_sort(here[0], data)

    def _same_sort(self, result: str, data: list[str]) -> None:
        """Integers go through arithmetic both ways; two constants alone decide nothing."""
        if self._has(result, Role.INTEGER):
            self._add_all(data, Role.INTEGER)
        elif data and all(self._whole(node) for node in data):
            if not all(self.constant(node) is not None for node in data):
                self._add(result, Role.INTEGER)

    def _counter(self, function: str, op: Op) -> None:
        """The loop variable of a counted loop, and carried values that start as a whole number."""
        for role, value in op.operands:
            start = self.constant(f"{function}:{value}")
            if role == "init" and isinstance(start, int) and not isinstance(start, bool):
                self._add(f"{function}:{value}", Role.INTEGER)
        if op.kind == OpKind.WHILE:
            return
        first = op.regions[0].arguments[:1]
        iterable = self.definitions.get(f"{function}:{op.operand('iterable')}")
        if first and iterable is not None and iterable.kind in (OpKind.RANGE, OpKind.STATIC_RANGE):
            self._add(f"{function}:{first[0].name}", Role.INTEGER)

    def _add_all(self, nodes: Iterable[str], *roles: Role) -> None:
        for node in nodes:
            self._add(node, *roles)

    def _whole(self, node: str) -> bool:
        value = self.constant(node)
        return self._has(node, Role.INTEGER) or isinstance(value, int)

    def _cast(self, function: str, op: Op, result: str) -> None:
        """A cast to an integer type makes one; a parameter or an element before it was one too."""
        kind = self.dtype(function, op.operand("dtype"))
        target = self.definitions.get(f"{function}:{op.operand('dtype')}")
        if target is not None and target.kind == OpKind.POINTER_TYPE:
            self._add(f"{function}:{op.operand('x')}", Role.INTEGER)
            self.facts(f"{function}:{op.operand('x')}").exact.add("i64")
        if kind[:1] in ("i", "u") and kind != "i1":
            self._add(result, Role.INTEGER)
            source = self.definitions.get(f"{function}:{op.operand('x')}")
            if source is None or source.kind in READS:
                self._add(f"{function}:{op.operand('x')}", Role.INTEGER)
        elif kind == "i1":
            self._add(result, Role.TRUTH)

    def _shape_rank(self, function: str, op: Op) -> None:
        shape = self.definitions.get(f"{function}:{op.operand('x')}")
        index = self.constant(f"{function}:{op.operand('index')}")
        if shape is not None and shape.kind == OpKind.SHAPE and isinstance(index, int):
            facts = self.facts(f"{function}:{shape.inputs[0]}")
            facts.rank = max(facts.rank, index + 1, -index)

    def _truths(self, function: str, op: Op) -> None:
        here = [f"{function}:{value.name}" for value in op.results]
        data = [f"{function}:{value}" for role, value in op.operands if role in DATA]
        if op.kind in TRUTH:
            self._add(here[0], Role.TRUTH)
        elif op.kind in BITS:
            if any(self._has(node, Role.TRUTH) for node in (*data, *here)):
                for node in (*data, *here):
                    self._add(node, Role.TRUTH)
            elif any(self._whole(node) for node in (*data, *here)):
                for node in (*data, *here):
                    self._add(node, Role.INTEGER)
        elif op.kind in (OpKind.FULL, OpKind.ZEROS, OpKind.ONES):
            kind = self.dtype(function, op.operand("dtype"))
            if kind == "i1":
                self._add(here[0], Role.TRUTH)
            elif kind[:1] in ("i", "u"):
                self._add(here[0], Role.INTEGER)
        elif op.kind in SHAPING and self._has(here[0], Role.TRUTH):
            self._add(f"{function}:{op.inputs[0]}", Role.TRUTH)

    def _uses(self, function: str, op: Op) -> None:
        """What constants are for: extents, unrolled bounds, conditions, words, hints."""
        for role, value in op.operands:
            node = f"{function}:{value}"
            if role in EXTENT_ROLES:
                for item in self.items(function, value) or (node,):
                    self._add(item, Role.EXTENT)
            elif role in ("condition", "mask"):
                self._add(node, Role.CONDITION)
            elif role in ("dtype", "out_dtype"):
                self._add(node, Role.DTYPE)
            elif role in WORD_ROLES:
                self._add(node, Role.WORD)
            elif role in SMALL_ROLES:
                self._add(node, Role.SMALL)
            elif role in FLAG_ROLES:
                self._add(node, Role.CONDITION)
        if op.kind in (OpKind.AND, OpKind.OR, OpKind.NOT):
            for value in op.inputs:
                self._add(f"{function}:{value}", Role.CONDITION)
        if op.kind == OpKind.BIT_AND and self._has(f"{function}:{op.result}", Role.CONDITION):
            self._flags(function, op)
        if op.kind in (OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT, OpKind.POW):
            self._add(f"{function}:{op.inputs[1]}", Role.SMALL)
        if op.kind == OpKind.STATIC_RANGE:
            for value in op.inputs:
                self._add(f"{function}:{value}", Role.UNROLL)
        if op.kind in ARITHMETIC and op.results:
            for role_ in (Role.EXTENT, Role.UNROLL):
                if self._has(f"{function}:{op.results[0].name}", role_):
                    parts = op.kind in (OpKind.FLOOR_DIV, OpKind.CEIL_DIV)
                    for value in op.inputs[:1] if parts else op.inputs:
                        self._add(f"{function}:{value}", role_)
                    for value in op.inputs[1:] if parts else ():
                        self._add(f"{function}:{value}", Role.SMALL)
        if op.kind in TESTS | {OpKind.IS, OpKind.IS_NOT}:
            self._compare(function, op)

    def _flags(self, function: str, op: Op) -> None:
        """The bits of a number that a condition looks at: `stage & 2`."""
        for value, other in zip(op.inputs, reversed(op.inputs), strict=True):
            mask = self.constant(f"{function}:{other}")
            if isinstance(mask, int):
                self.facts(f"{function}:{value}").flags |= mask

    def _compare(self, function: str, op: Op) -> None:
        sides = [f"{function}:{value}" for value in op.inputs]
        for side, other in zip(sides, reversed(sides), strict=True):
            known = self.definitions.get(other)
            values: list[Literal] = []
            if known is not None and known.kind == OpKind.CONST:
                values = [known.attribute("value")]
            elif known is not None and known.kind in (OpKind.TUPLE, OpKind.LIST):
                values = [self.constant(f"{function}:{item}") for item in known.inputs]
            elif known is not None and known.kind == OpKind.DTYPE:
                self._add(side, Role.DTYPE)
            facts = self.facts(side)
            facts.compared += [value for value in values if value not in facts.compared]

    def _floats(self) -> None:
        """Elements that need not be integers are floats; what meets a float may be one."""
        for node in [facts.element for facts in list(self._facts.values()) if facts.element]:
            facts = self.facts(node)
            if not facts.roles & {Role.INTEGER, Role.TRUTH, Role.MEMORY, Role.ARRAY}:
                if not facts.stored or Role.FLOATING in facts.stored:
                    facts.roles.add(Role.FLOATING)
        for _ in range(MAX_ROUNDS):
            before = self._size()
            for function, op in self.ops:
                self._float(function, op)
            if self._size() == before:
                return

    def _float(self, function: str, op: Op) -> None:
        here = [f"{function}:{value.name}" for value in op.results]
        data = [f"{function}:{value}" for role, value in op.operands if role in DATA]
        if op.kind in FLOATING or (
            op.kind == OpKind.CONST and isinstance(op.attribute("value"), float)
        ):
            self._add(here[0], Role.FLOATING)
        elif op.kind in (OpKind.CAST, OpKind.FULL, OpKind.ZEROS):
            if self.dtype(function, op.operand("dtype"))[:1] in ("f", "b", "t"):
                self._add(here[0], Role.FLOATING)
        if op.kind in SAME_SORT | COMPARISONS | {OpKind.SELECT} | FLOATING:
            if op.kind in FLOATING or any(self._has(node, Role.FLOATING) for node in data):
                for node in data:
                    self._add(node, Role.NEAR_FLOAT)
                if here and op.kind not in COMPARISONS:
                    self._add(here[0], Role.FLOATING)
        if op.kind in WRITES | ATOMICS and op.operand("value"):
            value = f"{function}:{op.operand('value')}"
            target = op.operand("array") or op.operand("pointer") or op.operand("descriptor")
            if self._has(self.element_node(f"{function}:{target}"), Role.FLOATING):
                self._add(value, Role.NEAR_FLOAT)

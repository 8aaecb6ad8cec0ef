"""How a tile program uses its values: what is an array or pointer, what must be an integer, what a constant sizes.

Values that are one value by control flow or by a call (loop-carried, branch results, arguments of a helper) share one
class. Facts are gathered per class until nothing changes; nothing is read from names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kb.ir import Kernel, Literal, Op, ParameterKind, Region, walk
from kb.ops import ATOMICS, COMPARISONS, READS, REDUCTIONS, WRITES, OpKind

MAX_ROUNDS = 24


class Role(StrEnum):
    """What a value is used as."""

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
    """What is known of one class of values. `compared` are constants that it is tested against."""

    roles: set[Role] = field(default_factory=set)
    compared: list[Literal] = field(default_factory=list)
    rank: int = 0
    element: str = ""
    stored: set[str] = field(default_factory=set)
    block: tuple[str, ...] = ()
    length: int = 0


_ARITHMETIC = frozenset({
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FLOOR_DIV, OpKind.MOD, OpKind.POW,
    OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.CEIL_DIV, OpKind.NEG, OpKind.FMA, OpKind.CLAMP,
})  # fmt: skip
_SAME_SORT = _ARITHMETIC | REDUCTIONS | frozenset({
    OpKind.RESHAPE, OpKind.PERMUTE, OpKind.TRANSPOSE, OpKind.EXPAND_DIMS, OpKind.BROADCAST_TO,
    OpKind.BROADCAST, OpKind.SUBSCRIPT, OpKind.ABS, OpKind.MULTIPLE_OF, OpKind.MAX_CONTIGUOUS,
    OpKind.MAX_CONSTANCY, OpKind.CUMSUM, OpKind.CUMPROD, OpKind.RAVEL, OpKind.FLIP, OpKind.SORT,
    OpKind.EXTRACT, OpKind.ITEM, OpKind.CAT, OpKind.ASSUME_DIVISIBLE, OpKind.POS, OpKind.BUILTIN,
    OpKind.TILE_GATHER, OpKind.JOIN, OpKind.INTERLEAVE,
}) - frozenset({OpKind.ARGMAX, OpKind.ARGMIN})  # fmt: skip
"""Operations whose result is of the sort (integer, float) of their data operands."""

_SHAPING = frozenset({
    OpKind.RESHAPE, OpKind.EXPAND_DIMS, OpKind.BROADCAST_TO, OpKind.BROADCAST, OpKind.MULTIPLE_OF,
    OpKind.MAX_CONTIGUOUS, OpKind.MAX_CONSTANCY, OpKind.ADVANCE, OpKind.TRANSPOSE, OpKind.PERMUTE,
    OpKind.SUBSCRIPT,
})  # fmt: skip
"""Operations through which an address stays an address."""

_INTEGER = frozenset({
    OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.NUM_TILES, OpKind.ARANGE, OpKind.ARGMAX, OpKind.ARGMIN,
    OpKind.UMULHI, OpKind.PHILOX, OpKind.RANDINT, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT, OpKind.HISTOGRAM,
})  # fmt: skip
_FLOATING = frozenset({
    OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.SQRT, OpKind.RSQRT, OpKind.SIN, OpKind.COS,
    OpKind.TAN, OpKind.SINH, OpKind.COSH, OpKind.TANH, OpKind.ERF, OpKind.SIGMOID, OpKind.SOFTMAX,
    OpKind.RAND, OpKind.RANDN, OpKind.UINT_TO_UNIFORM, OpKind.EXTERN_MATH, OpKind.FLOOR, OpKind.CEIL,
    OpKind.ISNAN, OpKind.ATAN2, OpKind.MMA, OpKind.DIV,
})  # fmt: skip
_TRUTH = COMPARISONS | {OpKind.NOT, OpKind.AND, OpKind.OR, OpKind.ISNAN, OpKind.IS, OpKind.IS_NOT}
_BITS = frozenset({OpKind.BIT_AND, OpKind.BIT_OR, OpKind.BIT_XOR, OpKind.BIT_NOT})
_DATA = frozenset({"x", "y", "z", "lhs", "rhs", "low", "high", "tiles", "acc", "value"})
_TESTS = frozenset({OpKind.EQ, OpKind.NE, OpKind.IN, OpKind.NOT_IN, OpKind.GT, OpKind.GE, OpKind.LT, OpKind.LE})
_EXTENT_ROLES = {"shape", "block_shape", "size", "tile_shape"}
_INDEX_ROLES = {
    "index", "offsets", "strides", "axis", "stop", "start", "low", "high", "step", "x_offsets",
    "y_offset", "length", "axes", "order", "dim", "divisor", "values", "num_bins",
}  # fmt: skip
_WORD_ROLES = {
    "input_precision", "cache_modifier", "eviction_policy", "sem", "scope", "padding_option",
    "rounding", "lhs_format", "rhs_format", "memory_order", "memory_scope",
}  # fmt: skip
_SMALL_ROLES = {"latency", "num_stages", "loop_unroll_factor", "pack"}
_FLAG_ROLES = {
    "check_bounds", "allow_tma", "ftz", "keepdims", "warp_specialize", "flatten", "allow_tf32",
    "disallow_acc_multi_buffer", "propagate_nan", "reverse", "is_pure", "fast_math", "fast_acc",
    "volatile", "tie_break_left", "bitcast", "disable_licm", "approx",
}  # fmt: skip


_VIEWS = frozenset({OpKind.BLOCK_POINTER, OpKind.DESCRIPTOR, OpKind.TILED_VIEW, OpKind.ARRAY_SLICE})
"""Operations that make another way to look at an array."""


class Usage:
    """Facts about every value of one program; ask with `of`, by function and value name."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._parent: dict[str, str] = {}
        self._facts: dict[str, Facts] = {}
        self.definitions: dict[str, Op] = {}
        self._actuals: dict[str, list[str]] = {}
        self._ops = [(f.name, op) for f in kernel.functions for op in walk(f.body)]
        self._returns: dict[str, list[Op]] = {}
        for function, op in self._ops:
            for value in op.results:
                self.definitions[f"{function}:{value.name}"] = op
            if op.kind == OpKind.RETURN:
                self._returns.setdefault(function, []).append(op)
        for function, op in self._ops:
            self._join(function, op)
        self._settle()

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
        """Nodes of the items of a tuple value, followed through copies and arguments; None for another value."""
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

    def _union(self, first: str, second: str) -> None:
        a, b = self.find(first), self.find(second)
        if a == b:
            return
        kept, gone = self._facts.pop(a, Facts()), self._facts.pop(b, Facts())
        self._parent[b] = a
        kept.roles |= gone.roles
        kept.compared += [item for item in gone.compared if item not in kept.compared]
        kept.stored |= gone.stored
        kept.rank, kept.length = max(kept.rank, gone.rank), max(kept.length, gone.length)
        kept.block = kept.block or gone.block
        elements = [item for item in (kept.element, gone.element) if item]
        kept.element = elements[0] if elements else ""
        self._facts[a] = kept
        if len(elements) == 2:
            self._union(elements[0], elements[1])

    def _join(self, function: str, op: Op) -> None:
        here = [f"{function}:{value.name}" for value in op.results]
        match op.kind:
            case OpKind.COPY:
                self._union(here[0], f"{function}:{op.inputs[0]}")
            case OpKind.CALL:
                self._join_call(function, op, here)
            case OpKind.FOR | OpKind.WHILE:
                self._join_loop(function, op, here)
            case OpKind.IF | OpKind.IF_EXPRESSION:
                for region in op.regions:
                    last = region.terminator
                    if last is not None and last.kind == OpKind.YIELD:
                        for result, value in zip(here, last.inputs, strict=False):
                            self._union(result, f"{function}:{value}")

    def _join_call(self, function: str, op: Op, here: list[str]) -> None:
        callee = str(op.attribute("callee"))
        for name, value in op.operands:
            self._union(f"{callee}:{name}", f"{function}:{value}")
            self._actuals.setdefault(f"{callee}:{name}", []).append(f"{function}:{value}")
        for back in self._returns.get(callee, []):
            if here and len(back.inputs) == 1:
                self._union(here[0], f"{callee}:{back.inputs[0]}")

    def _join_loop(self, function: str, op: Op, here: list[str]) -> None:
        inits = [f"{function}:{value}" for role, value in op.operands if role == "init"]
        for result, init in zip(here, inits, strict=False):
            self._union(result, init)
        for position, region in enumerate(op.regions):
            arguments = [f"{function}:{value.name}" for value in region.arguments]
            carried = arguments[1:] if op.kind == OpKind.FOR else arguments
            for result, argument in zip(here, carried, strict=False):
                self._union(result, argument)
            if op.kind == OpKind.WHILE and position == 0:
                continue
            for last in _exits(region):
                for result, value in zip(here, last.inputs, strict=False):
                    self._union(result, f"{function}:{value}")

    # -- facts until nothing changes

    def _settle(self) -> None:
        for _ in range(MAX_ROUNDS):
            before = self._size()
            for function, op in self._ops:
                self._tuples(function, op)
                self._memory(function, op)
                self._integers(function, op)
                self._truths(function, op)
                self._uses(function, op)
            if self._size() == before:
                break
        self._floats()

    def _size(self) -> tuple[int, int]:
        total = sum(len(f.roles) + len(f.compared) + f.rank + len(f.stored) for f in self._facts.values())
        return total, len(self._parent)

    def _add(self, node: str, *roles: Role) -> None:
        self.facts(node).roles.update(roles)

    def _has(self, node: str, role: Role) -> bool:
        return role in self.facts(node).roles

    def _tuples(self, function: str, op: Op) -> None:
        """Unpacking and constant subscripts of tuples that are in sight."""
        if op.kind == OpKind.UNPACK:
            for items in self._sources(function, op.inputs[0]):
                for result, item in zip(op.results, items, strict=False):
                    self._union(f"{function}:{result.name}", item)
        elif op.kind == OpKind.SUBSCRIPT and op.attribute("pattern") == "#":
            items_ = self.items(function, op.operand("x"))
            index = self.constant(f"{function}:{op.operand('index')}")
            if items_ is not None and isinstance(index, int) and -len(items_) <= index < len(items_):
                self._union(f"{function}:{op.result}", items_[index])

    def _sources(self, function: str, value: str) -> list[tuple[str, ...]]:
        """Item nodes of every tuple that may stand behind a value: itself, or the returns of a call."""
        direct = self.items(function, value)
        if direct is not None:
            return [direct]
        op = self.definitions.get(f"{function}:{value}")
        if op is None or op.kind != OpKind.CALL:
            return []
        callee = str(op.attribute("callee"))
        found = [self.items(callee, back.inputs[0]) for back in self._returns.get(callee, []) if back.inputs]
        return [items for items in found if items is not None]

    def constant(self, node: str) -> Literal:
        """Value of a constant node, None when it is not one."""
        op = self.definitions.get(node)
        return op.attribute("value") if op is not None and op.kind == OpKind.CONST else None

    def _memory(self, function: str, op: Op) -> None:
        """What is an address, what lies behind it, and of what rank it is."""
        array, pointer = op.operand("array"), op.operand("pointer") or op.operand("base")
        target = array or pointer or op.operand("descriptor")
        if target is not None and (op.kind in READS | WRITES | ATOMICS or op.kind in _VIEWS):
            node = f"{function}:{target}"
            self._add(node, Role.DESCRIPTOR if op.operand("descriptor") else Role.MEMORY)
            self._access(function, op, node)
        for value in op.results[:1]:
            self._address(function, op, f"{function}:{value.name}")
        if op.kind == OpKind.SUBSCRIPT and self._has(f"{function}:{op.results[0].name}", Role.MEMORY):
            base = f"{function}:{op.operand('x')}"
            if op.attribute("pattern") == "#" and self.kernel.dialect == "cutile":
                self._add(base, Role.LIST)
                self._union(self.element_node(base), f"{function}:{op.result}")

    def _access(self, function: str, op: Op, node: str) -> None:
        value = op.operand("value")
        result = f"{function}:{op.results[0].name}" if op.results else ""
        if op.kind in ATOMICS:
            self._add(self.element_node(node), Role.ATOMIC)
            if op.kind in (OpKind.ATOMIC_CAS, OpKind.ATOMIC_AND, OpKind.ATOMIC_OR, OpKind.ATOMIC_XOR):
                self._add(self.element_node(node), Role.INTEGER)
        if op.kind in READS and result:
            self._union(result, self.element_node(node))
        elif op.kind in _VIEWS and result:
            self._union(result, node)
        if value is not None:
            sort = self._sort(f"{function}:{value}")
            if sort is not None:
                self.facts(self.element_node(node)).stored.add(sort)
        rank = self._rank(function, op)
        self.facts(node).rank = max(self.facts(node).rank, rank)

    def _rank(self, function: str, op: Op) -> int:
        for role in ("index", "shape", "block_shape", "offsets"):
            if op.operand(role) is None or op.kind == OpKind.NUM_TILES and role == "index":
                continue
            items = self.items(function, op.operand(role))
            if items is not None:
                return len(items)
        return 1 if op.operand("array") is not None and op.kind != OpKind.ARRAY_SLICE else 0

    def _sort(self, node: str) -> str | None:
        for role in (Role.TRUTH, Role.INTEGER, Role.FLOATING):
            if self._has(node, role):
                return role
        return None

    def _address(self, function: str, op: Op, result: str) -> None:
        """An address stays one through arithmetic: the side that is not an integer is its base."""
        if op.kind in _SHAPING and op.inputs and self.kernel.dialect == "triton":
            base = f"{function}:{op.inputs[0]}"
            if self._has(result, Role.MEMORY) or self._has(base, Role.MEMORY):
                self._union(result, base)
        elif op.kind in (OpKind.ADD, OpKind.SUB) and len(op.inputs) == 2:
            sides = [f"{function}:{value}" for value in op.inputs]
            known = [side for side in sides if self._has(side, Role.MEMORY)]
            if known:
                self._union(result, known[0])
            elif self._has(result, Role.MEMORY):
                self._union(result, self._base(sides))
            for side in sides if self._has(result, Role.MEMORY) else ():
                if not self._has(side, Role.MEMORY):
                    self._add(side, Role.INTEGER, Role.INDEX)
        elif op.kind == OpKind.SELECT and self._has(result, Role.MEMORY):
            for role in ("x", "y"):
                self._union(result, f"{function}:{op.operand(role)}")

    def _base(self, sides: list[str]) -> str:
        for side, other in ((sides[0], sides[1]), (sides[1], sides[0])):
            if self._has(other, Role.INTEGER) and not self._has(side, Role.INTEGER):
                return side
        return sides[0]

    def _integers(self, function: str, op: Op) -> None:
        """What must be an integer because of where it is used, and what is one by how it is made."""
        here = [f"{function}:{value.name}" for value in op.results]
        data = [f"{function}:{value}" for role, value in op.operands if role in _DATA]
        for role, value in op.operands:
            if role in _INDEX_ROLES or role in _EXTENT_ROLES:
                for node in (self.items(function, value) or (f"{function}:{value}",)):
                    self._add(node, Role.INTEGER)
        if op.kind in _INTEGER:
            self._add(here[0], Role.INTEGER)
        elif op.kind == OpKind.SHAPE:
            self._add(here[0], Role.SEQUENCE)
        elif op.kind == OpKind.SUBSCRIPT and self._has(f"{function}:{op.operand('x')}", Role.SEQUENCE):
            self._add(here[0], Role.INTEGER)
            self._shape_rank(function, op)
        elif op.kind == OpKind.CAST:
            self._cast(function, op, here[0])
        elif op.kind == OpKind.FOR:
            first = op.regions[0].arguments[:1]
            iterable = self.definitions.get(f"{function}:{op.operand('iterable')}")
            if first and iterable is not None and iterable.kind in (OpKind.RANGE, OpKind.STATIC_RANGE):
                self._add(f"{function}:{first[0].name}", Role.INTEGER)
        elif op.kind in (OpKind.FLOOR_DIV, OpKind.MOD, OpKind.CEIL_DIV, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT):
            for node in (*data, *here):
                self._add(node, Role.INTEGER)
        elif op.kind in _SAME_SORT | {OpKind.SELECT} and here:
            if self._has(here[0], Role.INTEGER):
                for node in data:
                    self._add(node, Role.INTEGER)
            elif data and all(self._whole(node) for node in data):
                if not all(self.constant(node) is not None for node in data):
                    self._add(here[0], Role.INTEGER)
        elif op.kind in COMPARISONS and any(self._has(node, Role.INTEGER) for node in data):
            for node in data:
                self._add(node, Role.INTEGER)

    def _whole(self, node: str) -> bool:
        value = self.constant(node)
        return self._has(node, Role.INTEGER) or isinstance(value, int)

    def _cast(self, function: str, op: Op, result: str) -> None:
        """A cast to an integer type makes one; before it stood an integer, unless something says otherwise."""
        kind = self.dtype(function, op.operand("dtype"))
        if kind[:1] in ("i", "u") and kind != "i1":
            self._add(result, Role.INTEGER)
            source = self.definitions.get(f"{function}:{op.operand('x')}")
            if source is None or source.kind in READS:
                self._add(f"{function}:{op.operand('x')}", Role.INTEGER)
        elif kind == "i1":
            self._add(result, Role.TRUTH)

    def dtype(self, function: str, value: str | None) -> str:
        """Name of a dtype value that is written out, else empty."""
        op = self.definitions.get(f"{function}:{value}")
        return str(op.attribute("name")) if op is not None and op.kind == OpKind.DTYPE else ""

    def _shape_rank(self, function: str, op: Op) -> None:
        shape = self.definitions.get(f"{function}:{op.operand('x')}")
        index = self.constant(f"{function}:{op.operand('index')}")
        if shape is not None and shape.kind == OpKind.SHAPE and isinstance(index, int):
            facts = self.facts(f"{function}:{shape.inputs[0]}")
            facts.rank = max(facts.rank, index + 1, -index)

    def _truths(self, function: str, op: Op) -> None:
        here = [f"{function}:{value.name}" for value in op.results]
        data = [f"{function}:{value}" for role, value in op.operands if role in _DATA]
        if op.kind in _TRUTH:
            self._add(here[0], Role.TRUTH)
        elif op.kind in _BITS:
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
        elif op.kind in _SHAPING and self._has(here[0], Role.TRUTH):
            self._add(f"{function}:{op.inputs[0]}", Role.TRUTH)

    def _uses(self, function: str, op: Op) -> None:
        """What constants are for: extents, unrolled bounds, conditions, words, hints."""
        for role, value in op.operands:
            node = f"{function}:{value}"
            if role in _EXTENT_ROLES:
                for item in self.items(function, value) or (node,):
                    self._add(item, Role.EXTENT)
            elif role in ("condition", "mask"):
                self._add(node, Role.CONDITION)
            elif role in ("dtype", "out_dtype"):
                self._add(node, Role.DTYPE)
            elif role in _WORD_ROLES:
                self._add(node, Role.WORD)
            elif role in _SMALL_ROLES:
                self._add(node, Role.SMALL)
            elif role in _FLAG_ROLES:
                self._add(node, Role.CONDITION)
        if op.kind in (OpKind.AND, OpKind.OR, OpKind.NOT):
            for value in op.inputs:
                self._add(f"{function}:{value}", Role.CONDITION)
        if op.kind in (OpKind.STATIC_RANGE,):
            for value in op.inputs:
                self._add(f"{function}:{value}", Role.UNROLL)
        if op.kind in _ARITHMETIC and op.results:
            for role_ in (Role.EXTENT, Role.UNROLL):
                if self._has(f"{function}:{op.results[0].name}", role_):
                    for value in op.inputs:
                        self._add(f"{function}:{value}", role_)
        if op.kind in _TESTS | {OpKind.IS, OpKind.IS_NOT}:
            self._compare(function, op)

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
            if not facts.roles & {Role.INTEGER, Role.TRUTH} and Role.MEMORY not in facts.roles:
                if not facts.stored or Role.FLOATING in facts.stored:
                    facts.roles.add(Role.FLOATING)
        for _ in range(MAX_ROUNDS):
            before = self._size()
            for function, op in self._ops:
                self._float(function, op)
            if self._size() == before:
                return

    def _float(self, function: str, op: Op) -> None:
        here = [f"{function}:{value.name}" for value in op.results]
        data = [f"{function}:{value}" for role, value in op.operands if role in _DATA]
        if op.kind in _FLOATING:
            self._add(here[0], Role.FLOATING)
        elif op.kind == OpKind.CONST and isinstance(op.attribute("value"), float):
            self._add(here[0], Role.FLOATING)
        elif op.kind in (OpKind.CAST, OpKind.FULL, OpKind.ZEROS):
            if self.dtype(function, op.operand("dtype"))[:1] in ("f", "b", "t"):
                self._add(here[0], Role.FLOATING)
        if op.kind in _SAME_SORT | COMPARISONS | {OpKind.SELECT} | _FLOATING:
            if op.kind in _FLOATING or any(self._has(node, Role.FLOATING) for node in data):
                for node in data:
                    self._add(node, Role.NEAR_FLOAT)
                if here and op.kind not in COMPARISONS:
                    self._add(here[0], Role.FLOATING)
        if op.kind in WRITES | ATOMICS and op.operand("value"):
            value = f"{function}:{op.operand('value')}"
            target = op.operand("array") or op.operand("pointer") or op.operand("descriptor")
            if self._has(self.element_node(f"{function}:{target}"), Role.FLOATING):
                self._add(value, Role.NEAR_FLOAT)


def _exits(region: Region) -> list[Op]:
    """Where a loop body ends: its own terminator, and breaks and continues of this loop inside branches."""
    found: list[Op] = []
    pending = [region]
    while pending:
        current = pending.pop()
        for op in current.ops:
            if op.kind in (OpKind.BREAK, OpKind.CONTINUE) or op.kind == OpKind.YIELD and current is region:
                found.append(op)
            elif op.kind == OpKind.IF:
                pending += op.regions
    return found


def constant_parameters(kernel: Kernel) -> tuple[str, ...]:
    """Names of the entry parameters that are fixed at compile time."""
    return tuple(p.name for p in kernel.entry.parameters if p.kind is ParameterKind.CONSTEXPR)

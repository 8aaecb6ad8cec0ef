"""Inline PTX: one instruction of the table becomes its operation, other texts stay as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.effects import EffectReader
from extractors.cuda.instructions import Instruction, condition_of, instructions_of
from extractors.cuda.render import shown
from extractors.cuda.values import UNKNOWN, Kind, Slot, Val
from kb.dialects.cuda import APPROXIMATE, BARRIER_SCOPES, INSTRUCTIONS, REGISTERS
from kb.ir import Literal
from kb.ops import OpKind

MAX_SHOWN = 200

_VOID = frozenset(
    {
        OpKind.GRID_WAIT, OpKind.GRID_LAUNCH, OpKind.ASYNC_COMMIT, OpKind.ASYNC_WAIT,
        OpKind.BULK_COPY, OpKind.ASYNC_COPY, OpKind.BARRIER_INIT, OpKind.MATRIX_STORE,
        OpKind.FENCE, OpKind.PREFETCH, OpKind.STORE, OpKind.SLEEP, OpKind.TRAP,
        OpKind.REGISTER_BUDGET, OpKind.BARRIER,
    }
)  # fmt: skip
_ROLES: dict[OpKind, tuple[str, ...]] = {
    OpKind.ASYNC_COPY: ("target", "pointer", "bytes", "bytes"), OpKind.LOAD: ("pointer",),
    OpKind.MATRIX_LOAD: ("pointer",), OpKind.PREFETCH: ("pointer",),
    OpKind.FMA: ("x", "y", "z"), OpKind.ASYNC_WAIT: ("pending",),
    OpKind.ATOMIC_ADD: ("pointer", "value"),
    **dict.fromkeys((OpKind.EXP2, OpKind.LOG2, OpKind.RSQRT, OpKind.SQRT, OpKind.TANH, OpKind.SIN,
                     OpKind.COS, OpKind.SHARED_ADDRESS, OpKind.CAST), ("x",)),
    **dict.fromkeys((OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.MAXIMUM,
                     OpKind.MINIMUM), ("lhs", "rhs")),
}  # fmt: skip
_COMPUTING = frozenset(_ROLES) - {
    OpKind.ASYNC_COPY, OpKind.LOAD, OpKind.MATRIX_LOAD, OpKind.PREFETCH, OpKind.ASYNC_WAIT,
    OpKind.ATOMIC_ADD,
}  # fmt: skip
"""Operations that need every operand; an instruction with constants inside stays as it is."""

_OF_SOMETHING = frozenset(_ROLES) - {OpKind.ASYNC_WAIT} | {
    OpKind.SHUFFLE, OpKind.REDUCE, OpKind.STORE, OpKind.MATRIX_STORE,
}  # fmt: skip
"""Operations that are none without any operand."""

_DTYPE = re.compile(r"\.(f32|f16|bf16|f64|u32|s32|b32|u64|s64|b64|u16|s16|b16|f16x2|bf16x2)")
_CACHE = re.compile(r"\.(ca|cg|cs|lu|cv|wb|wt|nc|L1::\w+|L2::\w+)\b")


_BRACKETS = re.compile(r"\[\s*%(\d+)\s*\]")
_ADDRESSED = (OpKind.LOAD, OpKind.STORE, OpKind.ATOMIC_ADD)

_LANES = re.compile(r"\.v([248])\b")
"""Registers that one load or store moves. Source: PTX ISA, vectors as operands."""


class AssemblyReader(EffectReader):
    """Reads inline assembly."""

    def assembly(self, node: n.Assembly) -> Val:
        """The operation of the first instruction; its outputs become values."""
        instructions = instructions_of(node.text)
        opcodes = [one.opcode for one in instructions]
        first = opcodes[0] if opcodes else ""
        done = self._special(node, first) or self._copied(node, instructions)
        done = done or self._guarded_load(node, instructions)
        if done or self._whole_store(node, instructions):
            return Val("")
        kind = self._kind(first) if len(set(map(self._kind, opcodes))) == 1 else None
        kind = kind or (self._kind(first) if self._leading(opcodes) else None)
        if kind is None:
            kind = OpKind.INLINE_ASM
        inputs = [self.read(value) for _, value in node.inputs]
        before = [
            self.read(value) for constraint, value in node.outputs if constraint.startswith("+")
        ]
        if kind is OpKind.DIV and opcodes[0].startswith("rcp.") and len(inputs) == 1:
            inputs.insert(0, self.constant(1.0, node.at, inputs[0].kind))
        wanted = len(_ROLES.get(kind, ()))
        if kind in _COMPUTING and (len(before) + len(inputs) != wanted or len(node.outputs) != 1):
            kind = OpKind.INLINE_ASM
        if kind in _OF_SOMETHING and not (before or inputs):
            kind = OpKind.INLINE_ASM
        if kind in _ADDRESSED and not before:
            inputs = _address_first(node, instructions, inputs)
            inputs = inputs[: max(1, len(inputs) - _policies(instructions))]
        self._emit(node, kind, opcodes, [*before, *inputs])
        return Val("")

    def _kind(self, opcode: str) -> OpKind | None:
        return next((k for start, k in INSTRUCTIONS if opcode.startswith(start)), None)

    def _leading(self, opcodes: list[str]) -> bool:
        """Predicates and branches around one instruction do not change what it does."""
        rest = [o for o in opcodes if self._kind(o) is not None]
        others = [o for o in opcodes if self._kind(o) is None]
        return len(set(map(self._kind, rest))) == 1 and all(
            o.startswith(("setp", "bra", "selp", "mov", "@", "LAB", "DONE")) for o in others
        )

    def _copied(self, node: n.Assembly, instructions: list[Instruction]) -> bool:
        """An asynchronous copy: what its text names, its bytes when they are written there, and
        what a predicate in front of it asks. False when the text does anything else."""
        known = [one for one in instructions if self._kind(one.opcode) is not None]
        if [self._kind(one.opcode) for one in known] != [OpKind.ASYNC_COPY] or node.outputs:
            return False
        copy, condition = known[0], condition_of(known[0], instructions)
        numbers = copy.references[: len(copy.references) - _policies([copy])]
        rest = len(instructions) - 1
        if bool(copy.guard) != (condition is not None) or rest != bool(copy.guard):
            return False
        if len(numbers) < 2 or max((*numbers, condition or 0)) >= len(node.inputs):
            return False
        inputs = [self.read(value) for _, value in node.inputs]
        roles = _ROLES[OpKind.ASYNC_COPY]
        operands = [(role, inputs[i].name) for role, i in zip(roles, numbers, strict=False)]
        written = copy.operands.split(",")[2:3]
        if len(numbers) == 2 and written and written[0].strip().isdigit():
            operands.append(("bytes", self.constant(int(written[0]), node.at).name))
        if condition is not None:
            operands.append(("mask", inputs[condition].name))
        attributes: list[tuple[str, Literal]] = [("opcode", copy.opcode[:MAX_SHOWN])]
        attributes += _cached(copy.opcode)
        self.writer.emit(OpKind.ASYNC_COPY, operands, node.at, (), attributes)
        return True

    def _guarded_load(self, node: n.Assembly, instructions: list[Instruction]) -> bool:
        """A load that a predicate lets run, of registers that are zero where it does not. False
        when the text does anything else."""
        known = [one for one in instructions if self._kind(one.opcode) is not None]
        if [self._kind(one.opcode) for one in known] != [OpKind.LOAD] or not known[0].guard:
            return False
        condition, count = condition_of(known[0], instructions), len(node.outputs)
        zeroed = {number for one in instructions for number in one.zeroes}
        address = _BRACKETS.search(known[0].operands)
        lanes, dtype = _LANES.search(known[0].opcode), _DTYPE.search(known[0].opcode)
        if condition is None or address is None or dtype is None or known[0].guard[0] == "!":
            return False
        if int(lanes[1] if lanes else 1) != count or zeroed != set(range(count)):
            return False
        if len(instructions) != 2 + count:
            return False
        pointer, asked = (
            self.read(node.inputs[i - count][1]) for i in (int(address[1]), condition)
        )
        none = self.constant(0, node.at, asked.kind)
        operands = [("lhs", asked.name), ("rhs", none.name)]
        mask = self.one(OpKind.NE, operands, node.at, Kind("i1"))
        element = Kind(_ptx(dtype.group(1)))
        whole = replace(element, shape=(str(count),)) if lanes else element
        other = self.constant(0, node.at, element)
        where = [("pointer", pointer.name), ("mask", mask.name), ("other", other.name)]
        attributes: list[tuple[str, Literal]] = [("opcode", known[0].opcode[:MAX_SHOWN])]
        attributes += _cached(known[0].opcode)
        made = self.writer.emit(OpKind.LOAD, where, node.at, [("", whole)], attributes)
        self._loaded(node, made[0], whole)
        return True

    def _loaded(self, node: n.Assembly, name: str, whole: Kind) -> None:
        """What was loaded where the outputs lie: as it is where they are one vector, else each of
        its elements."""
        vector = self._together([target for _, target in node.outputs], whole)
        if vector is not None:
            self.store(vector, Val(name, vector.kind), node.at)
        elif whole.shape:
            rows = [("", whole.element)] * int(whole.shape[0])
            names = self.writer.emit(OpKind.UNPACK, [("x", name)], node.at, rows)
            self._hand_out(node, names, whole.element)
        else:
            self._hand_out(node, [name], whole)

    def _hand_out(self, node: n.Assembly, names: Sequence[str], element: Kind) -> None:
        """Values where the outputs lie."""
        for (_, target), name in zip(node.outputs, names, strict=True):
            to = self.place(target)
            if to is not None:
                self.store(to, Val(name, replace_unknown(to.kind, element)), node.at)

    def _emit(self, node: n.Assembly, kind: OpKind, opcodes: list[str], inputs: list[Val]) -> None:
        shown = next((o for o in opcodes if self._kind(o) is kind), opcodes[0] if opcodes else "")
        attributes: list[tuple[str, Literal]] = [("opcode", shown[:MAX_SHOWN])]
        if kind is OpKind.INLINE_ASM:
            attributes = [("asm", " ".join(node.text.split())[:MAX_SHOWN])]
        if kind in (OpKind.LOAD, OpKind.STORE):
            attributes += _cached(shown)
        if scope := next((s for start, s in BARRIER_SCOPES.items() if shown.startswith(start)), ""):
            attributes.append(("scope", scope))
        if kind is OpKind.MMA:
            self._product(node, shown, inputs, attributes)
            return
        if len(opcodes) == 1 and self._vector(node, kind, shown, inputs, attributes):
            return
        roles = _ROLES.get(kind, ())
        if kind in _ROLES and len(inputs) > len(roles):
            inputs = inputs[-len(roles) :] if kind is OpKind.FMA else inputs
        operands = [
            (roles[min(i, len(roles) - 1)] if roles else "read", value.name)
            for i, value in enumerate(inputs) if value.name
        ]  # fmt: skip
        if kind is OpKind.STORE and operands:
            operands = [("pointer", operands[0][1])] + [("value", o[1]) for o in operands[1:2]]
        if shown in APPROXIMATE or ".approx" in shown:
            operands.append(("rounding", self._approximate(node.at)))
        dtype = _DTYPE.search(shown)
        kind_ = UNKNOWN if dtype is None else Kind(_ptx(dtype.group(1)))
        results = [
            ("", self._output_kind(value, kind_)) for _, value in node.outputs
        ]  # fmt: skip
        made = self.writer.emit(kind, operands, node.at, results, attributes)
        for (_, target), name, (_, of) in zip(node.outputs, made, results, strict=True):
            where = self.place(target)
            if where is not None:
                self.store(where, Val(name, of), node.at)

    def _vector(
        self, node: n.Assembly, kind: OpKind, opcode: str, inputs: list[Val],
        attributes: list[tuple[str, Literal]],
    ) -> bool:  # fmt: skip
        """A load or store of several registers at one address is one access of a vector. False for
        anything else."""
        lanes = _LANES.search(opcode)
        dtype = _DTYPE.search(opcode)
        if lanes is None or dtype is None or kind not in (OpKind.LOAD, OpKind.STORE):
            return False
        count, loads = int(lanes[1]), kind is OpKind.LOAD
        moved = len(node.outputs) if loads else len(inputs) - 1
        if moved != count or (len(inputs) != 1 if loads else bool(node.outputs)):
            return False
        element = Kind(_ptx(dtype.group(1)))
        whole = replace(element, shape=(str(count),))
        where = ("pointer", inputs[0].name)
        if not loads:
            items = [("item", one.name) for one in inputs[1:]]
            value = self.one(OpKind.VECTOR, items, node.at, whole)
            operands = [where, ("value", value.name)]
            self.writer.emit(kind, operands, node.at, (), attributes)
            return True
        made = self.writer.emit(kind, [where], node.at, [("", whole)], attributes)
        self._loaded(node, made[0], whole)
        return True

    def _together(self, targets: Sequence[n.Expr], whole: Kind) -> Slot | None:
        """The vector in registers whose elements, all and in order, some expressions are."""
        steps = [one.name if isinstance(one, n.Field) else "" for one in targets]
        if "".join(steps) != "xyzw"[: len(targets)] or whole.shape != (str(len(targets)),):
            return None
        operands = [one.operand for one in targets if isinstance(one, n.Field)]
        if len({shown(one) for one in operands}) != 1:
            return None
        where = self.place(operands[0])
        if not isinstance(where, Slot) or where.kind.shape != whole.shape:
            return None
        return where if where.kind.bits == whole.bits else None

    def _whole_store(self, node: n.Assembly, instructions: list[Instruction]) -> bool:
        """A store of a vector in registers whose elements the text names. False for others."""
        only = instructions[0] if len(instructions) == 1 else None
        if only is None or only.guard or node.outputs or self._kind(only.opcode) != OpKind.STORE:
            return False
        lanes, dtype = _LANES.search(only.opcode), _DTYPE.search(only.opcode)
        address = _BRACKETS.search(only.operands)
        if lanes is None or dtype is None or address is None:
            return False
        order = [i for i in only.references if i != int(address[1])]
        if sorted((int(address[1]), *order)) != list(range(len(node.inputs))):
            return False
        order = order[: len(order) - _policies(instructions)]
        whole = replace(Kind(_ptx(dtype.group(1))), shape=(lanes[1],))
        vector = self._together([node.inputs[i][1] for i in order], whole)
        if vector is None:
            return False
        pointer = self.read(node.inputs[int(address[1])][1])
        operands = [("pointer", pointer.name), ("value", self.load(vector, node.at).name)]
        attributes: list[tuple[str, Literal]] = [("opcode", only.opcode[:MAX_SHOWN])]
        attributes += _cached(only.opcode)
        self.writer.emit(OpKind.STORE, operands, node.at, (), attributes)
        return True

    def _output_kind(self, target: n.Expr, kind: Kind) -> Kind:
        where = self.place(target)
        return where.kind if where is not None and where.kind != UNKNOWN else kind

    def _approximate(self, at: n.Place) -> str:
        attributes: list[tuple[str, Literal]] = [("name", "rounding.approx")]
        return self.one(OpKind.ENUM, (), at, UNKNOWN, attributes=attributes).name

    def _product(
        self, node: n.Assembly, opcode: str, inputs: list[Val],
        attributes: list[tuple[str, Literal]],
    ) -> None:  # fmt: skip
        """A matrix product of registers: outputs in one value, unpacked to where they go."""
        count = len(node.outputs)
        types = [t for t in opcode.split(".") if t in _MMA_DTYPES]
        acc = Kind(_MMA_DTYPES[types[0]] if types else "?", (str(count),))
        attributes.append(("scope", "warpgroup" if opcode.startswith("wgmma") else "warp"))
        shape = next((p for p in opcode.split(".") if re.fullmatch(r"m\d+n\d+k\d+", p)), "")
        if shape:
            attributes.append(("shape", shape))
        operands: list[tuple[str, str]] = []
        before = sum(1 for constraint, _ in node.outputs if constraint.startswith("+"))
        rest = inputs[before:]
        if before:
            groups = [("acc", inputs[:before])]
            half = _split(len(rest), opcode)
            groups = [("lhs", rest[:half]), ("rhs", rest[half:]), *groups]
        else:
            carried = rest[-count:] if count and len(rest) > count else []
            operand = rest[: len(rest) - len(carried)]
            half = (len(operand) + 1) * 2 // 3 if len(operand) > 2 else len(operand) // 2
            groups = [("lhs", operand[:half]), ("rhs", operand[half:]), ("acc", carried)]
        for role, values in groups:
            items = [("item", v.name) for v in values if v.name]
            if items:
                operands.append((role, self.one(OpKind.VECTOR, items, node.at, UNKNOWN).name))
        made = self.writer.emit(OpKind.MMA, operands, node.at, (("", acc),), attributes)
        if not count:
            return
        element = Kind(acc.dtype)
        names = self.writer.emit(OpKind.UNPACK, [("x", made[0])], node.at, [("", element)] * count)
        self._hand_out(node, names, element)

    def _special(self, node: n.Assembly, opcode: str) -> bool:
        """`mov.u32 %0, %laneid;` reads a special register, `mov.b32 %0, %1;` bits."""
        if not opcode.startswith("mov") or len(node.outputs) != 1:
            return False
        if node.inputs:
            return len(node.inputs) == 1 and self._bits(node)
        name = node.text.replace("%%", "%").rstrip().rstrip(";").rpartition(",")[2].strip()
        if name not in REGISTERS:
            return False
        kind, axis = REGISTERS[name]
        at = node.at
        of = Kind("u32")
        value = self.axis(kind, axis, at) if axis is not None else self.one(kind, (), at, of)
        where = self.place(node.outputs[0][1])
        if where is not None:
            self.store(where, value, at)
        return True

    def _bits(self, node: n.Assembly) -> bool:
        """One register moved to another one. False when the text does anything else."""
        only = instructions_of(node.text)
        where = self.place(node.outputs[0][1])
        if len(only) != 1 or only[0].operands.replace(" ", "") != "%0,%1" or where is None:
            return False
        value = self.read(node.inputs[0][1])
        made = value
        if value.kind.dtype != where.kind.dtype:
            made = self.one(OpKind.BITCAST, [("x", value.name)], node.at, where.kind)
        self.store(where, made, node.at)
        return True


def _address_first(
    node: n.Assembly, instructions: list[Instruction], inputs: list[Val]
) -> list[Val]:
    """The inputs in the order of an instruction whose operands are an address in brackets and what
    goes there; as they are when its text says anything else."""
    only = instructions[0] if len(instructions) == 1 else None
    found = _BRACKETS.search(only.operands) if only is not None else None
    if only is None or found is None:
        return inputs
    rest = [i for i in only.references if i >= len(node.outputs) and i != int(found[1])]
    order = [i - len(node.outputs) for i in (int(found[1]), *rest)]
    return [inputs[i] for i in order] if sorted(order) == list(range(len(inputs))) else inputs


def _policies(instructions: Sequence[Instruction]) -> int:
    """How many operands, behind all others, say what the second cache should keep and nothing about
    what moves."""
    return int(len(instructions) == 1 and "L2::cache_hint" in instructions[0].opcode.split("."))


def _cached(opcode: str) -> list[tuple[str, Literal]]:
    """What an instruction tells the caches."""
    found = _CACHE.findall(opcode)
    return [("cache", ".".join(found))] if found else []


_MMA_DTYPES = {"f32": "f32", "f16": "f16", "s32": "i32", "f64": "f64"}


def _ptx(name: str) -> str:
    plain = name.replace("s", "i").replace("b", "u") if not name.startswith("bf") else name
    return plain.replace("x2", "")


def _split(count: int, opcode: str) -> int:
    """How many of the operand registers belong to the left one."""
    if opcode.startswith("wgmma"):
        return 4 if count > 6 else 1
    return (count + 1) * 2 // 3 if count > 2 else count // 2


def replace_unknown(kind: Kind, other: Kind) -> Kind:
    """The other kind where this one is not known."""
    return other if kind == UNKNOWN else kind

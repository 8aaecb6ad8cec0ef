"""Which variables a piece of code may write: what loops carry and branches hand over."""

from __future__ import annotations

from extractors.cuda import nodes as n
from extractors.cuda.block_moves import is_move
from extractors.cuda.operators import OperatorReader
from extractors.cuda.packs import takes
from extractors.cuda.values import UNKNOWN, Closure, Frame, Kind, Named, Pointing, Slot, Val
from kb.dialects.cuda import CUDA
from kb.dialects.cuda_libraries import BY_VALUE
from kb.dialects.cute import READ_ONLY, RETILED, SEEN_ANEW, written_by

MAX_VISITS = 60_000

_LEAVES = (n.Name, n.Constant)
"""What most of a tree is made of, and writes nothing by itself."""


class EffectReader(OperatorReader):
    """Answers `assigned` by walking syntax in the frame that is open."""

    _pointed: dict[str, frozenset[str]]

    def assigned(self, node: object) -> set[str]:
        """Keys of variables made before `node` that it may write, through references too."""
        found: set[str] = set()
        self._pointed = {}
        self._walk(node, frozenset(), found, [0], self.frame)
        split = tuple(f"{key}." for key in found if key in self.divided)
        return {k for k in self.kinds if k in found or (split and k.startswith(split))}

    def _walk(
        self, node: object, hidden: frozenset[str], found: set[str], visits: list[int],
        frame: Frame,
    ) -> frozenset[str]:  # fmt: skip
        """Names declared by `node` are added to those hidden from what follows in its block."""
        visits[0] += 1
        if visits[0] > MAX_VISITS:
            found.update(self.names)
            return hidden
        if isinstance(node, _LEAVES):
            return hidden
        match node:
            case tuple():
                for item in node:
                    hidden = self._walk(item, hidden, found, visits, frame)
                return hidden
            case n.Block(body=body):
                self._walk(body, hidden, found, visits, frame)
                return hidden
            case n.Variable(name=name):
                self._walk((node.value, node.arguments), hidden, found, visits, frame)
                if node.type.reference and node.value is not None:
                    self._root(node.value, hidden, found, frame)
                self._pointed[name] = self._behind_pointer(node, hidden, frame)
                return hidden | {name}
            case n.Unpack(names=names, value=value):
                self._walk(value, hidden, found, visits, frame)
                return hidden | set(names)
            case n.For() | n.If():
                parts = (
                    (node.before, node.condition, node.after, node.body)
                    if isinstance(node, n.For)
                    else (node.before, node.condition, node.then, node.other)
                )
                self._walk(parts, hidden, found, visits, frame)
                return hidden
            case n.Switch(value=value, cases=cases):
                self._walk(value, hidden, found, visits, frame)
                for _, body in cases:
                    self._walk(body, hidden, found, visits, frame)
                return hidden
            case n.Assign(target=target, value=value):
                self._root(target, hidden, found, frame)
                self._walk((target, value), hidden, found, visits, frame)
            case n.Assembly(outputs=outputs, inputs=inputs):
                for _, target in outputs:
                    self._root(target, hidden, found, frame)
                self._walk(tuple(v for _, v in (*outputs, *inputs)), hidden, found, visits, frame)
            case n.Call():
                self._called(node, hidden, found, visits, frame)
            case n.Unread() | n.Skipped():
                for one in n.inside(node.inner):
                    if isinstance(one, n.Name):
                        self._root(one, hidden, found, frame)
            case n.Lambda():
                return hidden
            case n.Expr() | n.Stmt():
                for name in type(node).__dataclass_fields__:
                    if name not in ("at", "type"):
                        part = getattr(node, name)
                        if isinstance(part, tuple | n.Expr | n.Stmt):
                            self._walk(part, hidden, found, visits, frame)
        return hidden

    def _called(
        self, node: n.Call, hidden: frozenset[str], found: set[str], visits: list[int],
        frame: Frame,
    ) -> None:  # fmt: skip
        """A call may write what is handed to it by reference, or by the address of a variable."""
        function = node.function
        self._walk(node.arguments, hidden, found, visits, frame)
        named = function
        if isinstance(function, n.Field):
            asks = function.name in READ_ONLY and self.library.tensor_method(function.name)
            if not asks and not self._asks(function, frame):
                self._root(function.operand, hidden, found, frame)
            self._walk(function.operand, hidden, found, visits, frame)
            if function.name in READ_ONLY and self.library.tensor_method(function.name):
                return
            named = function.operand if function.name == "operator()" else function
        if isinstance(named, n.Name):
            bound = None if named.text in hidden else frame.find(named.text)
            if isinstance(bound, Closure) and visits[0] < MAX_VISITS:
                names = frozenset(p.name for p in bound.function.parameters)
                self._walk(bound.function.body, names, found, visits, bound.frame)
            if self._harmless(named.text) or self._casts(bound):
                return
        written = self._filled_by(named, len(node.arguments), frame)
        for index, argument in enumerate(node.arguments):
            if written is not None:
                if index in written:
                    self._root(argument, hidden, found, frame)
            elif self._handed(node, index, argument, frame):
                self._root(argument, hidden, found, frame)

    def _asks(self, function: n.Field, frame: Frame) -> bool:
        """Whether a method sets no field: it says so, or asks for a value that may be missing."""
        held = self._type_of_place(function.operand, frame)
        record = held.record if held is not None else ""
        if record.rpartition("::")[2] == "optional":
            return function.name in ("has_value", "value", "value_or")
        known = [m for r in self.library.records(record) for m in r.methods] if record else []
        known = [m for m in known if m.name == function.name]
        return bool(known) and all(n.CONST_THIS in m.words for m in known)

    def _handed(self, call: n.Call, index: int, argument: n.Expr, frame: Frame) -> bool:
        """True when a call may write through an argument: by reference, or behind a pointer."""
        function, count = call.function, len(call.arguments)
        if isinstance(function, n.Field) and self._moves_block(function, frame):
            return (function.name, index) == ("Load", 1)
        if isinstance(argument, n.Unary) and argument.operator == "&":
            return True
        if isinstance(argument, n.Call):
            return isinstance(argument.function, n.Name | n.Field)
        if not isinstance(argument, n.Name | n.Field | n.Index | n.Cast | n.Binary):
            return False
        argument = _seen_otherwise(argument)
        field = isinstance(argument, n.Field) and self._in_given(argument, frame)
        if isinstance(function, n.Name) and frame.find(function.text) is None:
            known = self.library.functions(function.text)
            last = function.text.rpartition("::")[2] if "::" in function.text else ""
            known = known or (self.library.methods(last) if last else [])
            known = [one for one in known if takes(one, count)] or known
            if (field and not known) or (known and all(_by_value(o, index, field) for o in known)):
                return False
        if isinstance(function, n.Field):
            methods = self.library.methods(function.name)
            methods = [one for one in methods if takes(one, count)] or methods
            if methods and all(_by_value(one, index, field) for one in methods):
                return False
        if isinstance(argument, n.Name):
            bound = frame.find(argument.text)
            kind = bound.kind if isinstance(bound, Slot) else None
            return kind is None or kind.to is None or bool(kind.shape)
        return not isinstance(argument, n.Binary) or self._led_by(argument, frame) is not None

    def _moves_block(self, function: n.Field, frame: Frame) -> bool:
        """Whether a method of what is made on the spot moves the elements of a block."""
        made = function.operand.function if isinstance(function.operand, n.Call) else None
        if not isinstance(made, n.Name):
            return False
        return is_move(self.kind(n.CType(made.text, made.arguments), frame), function.name)

    def _in_given(self, node: n.Expr, frame: Frame) -> bool:
        """Whether a field is one of a struct that the kernel is given: what is behind a pointer in
        it may be written, the struct is not."""
        first = _first(node)
        bound = frame.find(first.text) if first is not None else None
        return isinstance(bound, Slot) and bound.key in self.given

    def _harmless(self, name: str) -> bool:
        """True for a function, of the language or known, that writes none of its arguments."""
        if "mma_sync" in name:
            return False
        if self.library.of_cute(name) in READ_ONLY:
            return True
        return name in CUDA.by_path or name in CUDA.dtypes or name in BY_VALUE

    def _casts(self, bound: object) -> bool:
        """True for the name of a type that is no struct, as a call converts to it."""
        if isinstance(bound, Named):
            bound = self.kind(bound.type, bound.frame)
        if isinstance(bound, Val):
            return bound.kind.record == "typename"
        return isinstance(bound, Kind) and not self.library.records(bound.record)

    def _root(self, node: n.Expr, hidden: frozenset[str], found: set[str], frame: Frame) -> None:
        """The variable that a place is part of; what lies behind a pointer is no part of it."""
        behind = 0
        for _ in range(64):
            match node:
                case n.Index(operand=operand) | n.Unary(operator="*", operand=operand):
                    node, behind = operand, behind + 1
                case n.Field() if behind and self._is_pointer(node, hidden, frame):
                    return
                case n.Field(operand=operand) | n.Cast(operand=operand):
                    node = operand
                case n.Unary(operator="&", operand=operand):
                    node = operand
                case n.Binary(operator="+" | "-", left=left, right=right):
                    moved = self._led_by(left, frame) is None and self._led_by(right, frame)
                    node = right if moved or (behind and _is_number(left, frame)) else left
                case n.Call(function=n.Name(text="std::move" | "std::forward"), arguments=(one,)):
                    node = one
                case n.Call(function=n.Name(text=text) as called) if self._of_registers(
                    called, frame
                ):
                    node = called
                case n.Call(function=n.Field(operand=operand, name="data"), arguments=()):
                    node = operand
                case n.Call(arguments=(first, *_)) if self._seen_anew(node):
                    node = first
                case n.Name(text=text):
                    if text in hidden:
                        found.update(self._pointed.get(text, ()))
                        return
                    bound = frame.find(text)
                    if isinstance(bound, Slot):
                        if bound.kind.to is None or behind <= len(bound.kind.shape):
                            found.add(bound.key)
                    elif isinstance(bound, Pointing):
                        found.add(bound.where.key)
                    return
                case _:
                    return

    def _behind_pointer(
        self, node: n.Variable, hidden: frozenset[str], frame: Frame
    ) -> frozenset[str]:
        """The array in registers that a pointer declared in the code leads to, if it may write."""
        if (
            isinstance(node.value, n.Call)
            and not node.type.pointers
            and self._seen_anew(node.value)
        ):
            found: set[str] = set()
            self._root(node.value, hidden, found, frame)
            return frozenset(found)
        value = node.value if node.type.pointers and not node.type.const else None
        return self._array(value, hidden, frame)

    def _array(self, value: object, hidden: frozenset[str], frame: Frame) -> frozenset[str]:
        if isinstance(value, n.Binary):
            left = self._array(value.left, hidden, frame)
            return left or self._array(value.right, hidden, frame)
        if isinstance(value, n.Cast):
            return self._array(value.operand, hidden, frame)
        if not isinstance(value, n.Name):
            return frozenset()
        if value.text in hidden:
            return self._pointed.get(value.text, frozenset())
        bound = frame.find(value.text)
        bound = bound.where if isinstance(bound, Pointing) else bound
        array = isinstance(bound, Slot) and bound.kind.shape and bound.kind.to is None
        return frozenset({bound.key}) if isinstance(bound, Slot) and array else frozenset()

    def _filled_by(self, called: n.Expr, count: int, frame: Frame) -> frozenset[int] | None:
        """Which arguments an algorithm over tensors writes; None for any other function."""
        if not isinstance(called, n.Name) or frame.find(called.text) is not None:
            return None
        return written_by(self.library.of_cute(called.text, count), count)

    def _of_registers(self, called: n.Name, frame: Frame) -> bool:
        """Whether what is called is a tensor in registers: its elements are asked for."""
        bound = frame.find(called.text)
        return called.text in self._pointed or (
            isinstance(bound, Slot) and bool(bound.kind.shape) and bound.kind.to is None
        )

    def _seen_anew(self, node: n.Expr) -> bool:
        """Whether a call shows a tensor under another layout."""
        function = node.function if isinstance(node, n.Call) else None
        if isinstance(function, n.Field):
            return function.name in RETILED and self.library.tensor_method(function.name)
        return isinstance(function, n.Name) and self.library.of_cute(function.text) in SEEN_ANEW

    def _is_pointer(self, node: n.Expr, hidden: frozenset[str], frame: Frame) -> bool:
        """Whether a field of a variable is a pointer: what it leads to is no part of the
        variable."""
        first = _first(node)
        bound = frame.find(first.text) if first is not None and first.text not in hidden else None
        if not isinstance(bound, Slot) or bound.kind.to is not None:
            return False
        kind = self._type_of_place(node, frame) or UNKNOWN
        if kind == UNKNOWN and bound.key in self.given:
            return True  # A kernel gets its structs as constants: what it writes lies behind them.
        return kind.to is not None and not kind.shape

    def _type_of_place(self, node: n.Expr, frame: Frame) -> Kind | None:
        """The type of a variable, or of a field of one, or of a field of that; None for other
        expressions."""
        names = []
        while isinstance(node, n.Field):
            names.append(node.name)
            node = node.operand
        bound = frame.find(node.text) if isinstance(node, n.Name) else None
        if not isinstance(bound, Slot):
            return None
        kind = bound.kind
        for name in reversed(names):
            kind = self.field(kind, name)
        return kind

    def _led_by(self, node: n.Expr, frame: Frame) -> n.Name | None:
        """The array in registers, or the pointer to one, that a sum moves along; a number is
        none."""
        while isinstance(node, n.Field | n.Index | n.Cast):
            node = node.operand
        if isinstance(node, n.Binary):
            return self._led_by(node.left, frame) or self._led_by(node.right, frame)
        if not isinstance(node, n.Name):
            return None
        found = frame.find(node.text)
        array = isinstance(found, Slot) and bool(found.kind.shape)
        led = array or isinstance(found, Pointing) or self._pointed.get(node.text)
        return node if led else None


def _seen_otherwise(argument: n.Expr) -> n.Expr:
    """The pointer that is handed over as one to another type; any other argument as it is."""
    node = argument
    while isinstance(node, n.Cast) and not node.type.reference:
        node = node.operand
    return node if isinstance(node, n.Name | n.Field) else argument


def _first(node: n.Expr) -> n.Name | None:
    """The variable that a field, or a field of a field, is of; None for anything else."""
    while isinstance(node, n.Field):
        node = node.operand
    return node if isinstance(node, n.Name) else None


def _is_number(node: n.Expr, frame: Frame) -> bool:
    """Whether a name stands for a single number in registers, which leads nowhere."""
    found = frame.find(node.text) if isinstance(node, n.Name) else None
    kind = found.kind if isinstance(found, Slot) else UNKNOWN
    return kind != UNKNOWN and kind.to is None and not kind.shape and not kind.record


def _by_value(function: n.Definition, index: int, behind: bool = False) -> bool:
    """Whether a parameter cannot change its argument; `behind` allows what a pointer leads to."""
    if index >= len(function.parameters):
        return False
    written = function.parameters[index].type
    changing = written.reference or (not behind and (written.pointers or written.extents))
    return written.const or not changing

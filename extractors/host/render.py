"""Expressions as text, in the names of one kernel: `Q.shape[2]`, `cdiv(a, b)`, `a if c else b`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from extractors.host.assume import Path
from extractors.host.expr import atoms, negate
from extractors.host.machine import Machine
from extractors.host.values import Choice, Expr, External, KernelValue, Ref, Unknown, Value
from kb.space import Point, Scalar

UNKNOWN = "unknown"
STRENGTH = {
    "or": 2,
    "and": 3,
    "not": 4,
    "in": 5,
    "not in": 5,
    "==": 5,
    "!=": 5,
    "<": 5,
    "<=": 5,
    ">": 5,
    ">=": 5,
    "|": 6,
    "^": 7,
    "&": 8,
    "<<": 9,
    ">>": 9,
    "+": 10,
    "-": 10,
    "*": 11,
    "/": 11,
    "//": 11,
    "%": 11,
    "neg": 12,
    "**": 13,
}
FUNCTIONS = {"npow2": "next_power_of_two", "ispow2": "is_power_of_two"}
CALLS = frozenset({"min", "max", "cdiv", "ceil", "npow2", "ispow2", "abs", "int", "float"})
ATOM = 20
WHOLE = {"shape": "shape", "rank": "ndim", "strides": "stride"}


@dataclass(slots=True)
class Names:
    """How tensors and extents are called in one kernel: by the parameter they are bound to."""

    machine: Machine
    tensors: dict[Value, str] = field(default_factory=dict)
    extents: dict[Value, str] = field(default_factory=dict)

    def bind(self, rows: Iterable[tuple[str, Value]]) -> Names:
        """Take the tensors among launch arguments, first parameter first."""
        for name, value in rows:
            for leaf in leaves(value):
                if isinstance(leaf, Expr) and leaf.op in ("sym", "tensor", "index", "attr"):
                    self.tensors.setdefault(leaf, name)
                    self._take_extents(name, leaf)
        return self

    def _take_extents(self, name: str, tensor: Expr) -> None:
        fact = self.machine.tensors.get(tensor)
        for place, extent in enumerate(fact.dims or () if fact else ()):
            if isinstance(extent, Expr) and extent.op == "dim":
                self.extents.setdefault(extent, f"{name}.shape[{place}]")

    def text(self, value: Value, strength: int = 0) -> str:
        """The value as text; parentheses where the context binds tighter than `strength`."""
        if isinstance(value, Choice):
            then, other = self.text(value.then, 2), self.text(value.other, 1)
            body = f"{then} if {self.text(value.cond, 2)} else {other}"
            return f"({body})" if strength > 1 else body
        if isinstance(value, Expr):
            body, own = self._expression(value)
            return f"({body})" if own < strength else body
        return self._plain(value)

    def _plain(self, value: Value) -> str:
        if isinstance(value, tuple):
            inner = ", ".join(self.text(item) for item in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if isinstance(value, (str, bytes)):
            return repr(value)
        if isinstance(value, (int, float)) or value is None:
            return repr(value)
        if isinstance(value, External):
            return value.path
        if isinstance(value, KernelValue):
            return value.name
        return UNKNOWN

    def _expression(self, value: Expr) -> tuple[str, int]:
        op, args = value.op, value.args
        if op in (
            "sym",
            "tensor",
            "dim",
            "shape",
            "rank",
            "stride",
            "strides",
            "axis",
            "memo",
            "attr",
            "index",
            "call",
        ):
            return self._atom(value), ATOM
        if op in CALLS:
            inner = ", ".join(self.text(arg) for arg in args)
            return f"{FUNCTIONS.get(op, op)}({inner})", ATOM
        if op == "none":
            return f"{self.text(args[0], 6)} == None", 5
        if op == "not":
            inner_value = args[0]
            if isinstance(inner_value, Expr) and inner_value.op == "none":
                return f"{self.text(inner_value.args[0], 6)} != None", 5
            return f"not {self.text(inner_value, 4)}", 4
        if op == "neg":
            return f"-{self.text(args[0], 12)}", 12
        own = STRENGTH.get(op, 1)
        if op in ("in", "not in") and isinstance(args[1], tuple):
            members = ", ".join(self.text(item) for item in args[1])
            return f"{self.text(args[0], own + 1)} {op} [{members}]", own
        left = self.text(args[0], own + (op == "**"))
        right = self.text(args[1], own + (op not in ("and", "or", "**")))
        return f"{left} {op} {right}", own

    def _atom(self, value: Expr) -> str:
        op, args = value.op, value.args
        if value in self.extents:
            return self.extents[value]
        if op == "sym":
            return str(args[0])
        if op in ("index", "attr") and value in self.machine.aliases:
            return self.machine.aliases[value]
        if op == "tensor":
            fact = self.machine.tensors.get(value)
            return (fact.name if fact else None) or "tensor"
        if op in ("dim", "stride"):
            word = "shape" if op == "dim" else "stride"
            return f"{self.owner(args[0])}.{word}[{self.text(args[1])}]"
        if op in ("shape", "rank", "strides"):
            return f"{self.owner(args[0])}.{WHOLE[op]}"
        if op == "axis":
            return str(args[1])
        if op == "attr":
            return f"{self.owner(args[0])}.{args[1]}"
        if op == "index":
            return f"{self.owner(args[0])}[{self.text(args[1])}]"
        if op == "memo":
            return "memo"
        asked = args[0]
        if len(args) == 1 and isinstance(asked, Expr) and asked.op == "attr":
            return self._atom(asked)  # a question to a tensor, in the words of a property
        target = args[0] if isinstance(args[0], str) else self.text(args[0], ATOM)
        return f"{target}({', '.join(self.text(arg) for arg in args[1:])})"

    def owner(self, value: Value) -> str:
        """The name of a tensor: the kernel parameter it is bound to, else the host's."""
        return self.tensors.get(value) or self.text(value, ATOM)

    def scalar(self, value: Value) -> Scalar:
        """A value of a point: itself when plain, else its text."""
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value
        return self.text(value)

    def point(self, rows: Iterable[tuple[str, Value]]) -> Point:
        """Named values as a point."""
        return tuple((name, self.scalar(value)) for name, value in rows)

    def path(self, path: Path) -> str:
        """The conditions of a path; `always` when there are none to speak of."""
        parts: list[Value] = []
        for guard in path.guards:
            if not guard.shown or mentions_memo(guard.cond):
                continue
            cond = guard.cond if guard.holds else negate(guard.cond)
            if cond not in parts:
                parts.append(cond)
        strength = 4 if len(parts) > 1 else 0
        return " and ".join(self.text(part, strength) for part in parts) if parts else "always"


MAX_LEAVES = 64


def leaves(value: Value) -> list[Value]:
    """The alternatives of a choice; what choices share is looked at once."""
    if not isinstance(value, Choice):
        return [value]
    found: list[Value] = []
    seen: set[int] = set()
    pending: list[Value] = [value]
    while pending and len(found) < MAX_LEAVES:
        item = pending.pop()
        if not isinstance(item, Choice):
            if item not in found:
                found.append(item)
        elif id(item) not in seen:
            seen.add(id(item))
            pending += [item.other, item.then]
    return found


def mentions_memo(value: Value) -> bool:
    """Whether a condition only asks a memo table."""
    return any(atom.op == "memo" for atom in atoms(value))


def unknown_reason(value: Value) -> str | None:
    """Why a value has no text."""
    for leaf in leaves(value):
        if isinstance(leaf, Unknown):
            return leaf.reason
        if isinstance(leaf, Ref):
            return f"a {leaf.kind} built by the host"
    return None

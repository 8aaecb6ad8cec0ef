"""What is known on the current path: conditions with their truth, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from extractors.host.expr import OPPOSITE, choose, is_known, make, negate
from extractors.host.values import Choice, Expr, Unknown, Value


@dataclass(slots=True, unsafe_hash=True)
class Guard:
    """One condition of a path; `shown` is False for conditions that only say that a check has
    passed. Never changed; not frozen, as an expression."""

    cond: Expr
    holds: bool
    shown: bool = True


_UNASKED: Any = object()

Known = dict[int, tuple[str, tuple[Value, ...], bool]]
"""Truth of an operation on operands, by the hash of both."""


@dataclass(slots=True)
class Facts:
    """What the guards of a path say, found by what may be asked.

    `literals`: truth by operation and operands. `subjects`: the equations `(op, value)`, op `==` or
    `none`, that hold of an operand, the latest last. `answers`: what was asked already.
    """

    literals: Known = field(default_factory=dict)
    subjects: dict[Value, tuple[tuple[str, Value], ...]] = field(default_factory=dict)
    answers: dict[Expr, bool | None] = field(default_factory=dict)

    def with_guard(self, guard: Guard) -> Facts:
        """These facts and those of one more condition."""
        more = Facts(self.literals.copy(), self.subjects.copy())
        more._add(guard.cond, guard.holds, 16)
        return more

    def _add(self, fact: Expr, holds: bool, budget: int) -> None:
        op, args = fact.op, fact.args
        if budget and ((op == "and" and holds) or (op == "or" and not holds)):
            for part in reversed(args):
                if isinstance(part, Expr):
                    self._add(part, holds, budget - 1)
        subject = args[0] if args else None
        if holds and op in ("==", "none"):
            value = args[1] if op == "==" else None
            self.subjects[subject] = (*self.subjects.get(subject, ()), (op, value))
            if isinstance(subject, Expr) and isinstance(value, bool):
                self.literals[subject.digest] = subject.op, subject.args, value
        if op == "not" and isinstance(subject, Expr):
            self.literals[subject.digest] = subject.op, subject.args, not holds
        elif op in OPPOSITE:
            opposite = OPPOSITE[op]
            self.literals[hash((opposite, args))] = opposite, args, not holds
        self.literals[fact.digest] = op, args, holds

    def verdict(self, asked: Expr) -> bool | None:
        """What follows without taking `asked` apart."""
        known = self.literals.get(asked.digest)
        if known is not None and known[0] == asked.op and known[1] == asked.args:
            return known[2]
        if not asked.args or not self.subjects:
            return None
        for op, value in reversed(self.subjects.get(asked.args[0], ())):
            follows = _equals(value, asked) if op == "==" else _is_none(asked)
            if follows is not None:
                return follows
        return None

    def decide(self, cond: Value, budget: int) -> bool | None:
        """The truth of a condition, taken apart at most `budget` deep; None when nothing says."""
        if isinstance(cond, bool):
            return cond
        if not isinstance(cond, Expr) or budget <= 0:
            return None
        verdict = self.verdict(cond)
        if verdict is not None:
            return verdict
        if cond.op in ("and", "or"):
            stop = cond.op == "or"
            told: bool | None = not stop
            for arg in cond.args:
                part = self.decide(arg, budget - 1)
                if part is stop:
                    return stop
                told = None if part is None else told
            return told
        if cond.op == "not":
            inner = self.decide(cond.args[0], budget - 1)
            return None if inner is None else not inner
        return None


@dataclass(slots=True, unsafe_hash=True)
class Path:
    """The conditions under which the code at hand runs, outermost first; `facts` follow from
    them. Not frozen, as an expression."""

    guards: tuple[Guard, ...] = ()
    outer: Path | None = field(default=None, compare=False, repr=False)
    known: Facts | None = field(default=None, compare=False, repr=False)

    @property
    def facts(self) -> Facts:
        """What the guards say: told when it is first asked for."""
        if self.known is not None:
            return self.known
        untold: list[Path] = []
        path: Path | None = self
        while path is not None and path.known is None:
            untold.append(path)
            path = path.outer
        told = path.known if path is not None else None
        for path in reversed(untold):
            told = told.with_guard(path.guards[-1]) if told is not None else Facts()
            path.known, path.outer = told, None
        assert told is not None
        return told

    def under(self, cond: Expr, holds: bool, shown: bool = True) -> Path:
        """This path with one more condition."""
        return Path((*self.guards, Guard(cond, holds, shown)), self)

    def without(self, cond: Expr) -> Path:
        """This path without the guards on one condition."""
        path = Path()
        for guard in self.guards:
            if guard.cond is not cond:
                path = path.under(guard.cond, guard.holds, guard.shown)
        return path

    def decide(self, cond: Value) -> bool | None:
        """The truth of a condition on this path, or None when the path does not say."""
        if isinstance(cond, bool):
            return cond
        if not isinstance(cond, Expr):
            return None
        facts = self.known or self.facts
        known: bool | None = facts.answers.get(cond, _UNASKED)
        if known is _UNASKED:
            known = facts.answers[cond] = facts.decide(cond, 24)
        return known


def _equals(value: Value, asked: Expr) -> bool | None:
    """What `operand == value` says about a condition on the same operand."""
    if asked.op in ("==", "!=") and is_known(value) and is_known(asked.args[1]):
        return (value == asked.args[1]) is (asked.op == "==")
    if asked.op == "none" and is_known(value):
        return value is None
    return _ordered(asked, value)


def _is_none(asked: Expr) -> bool | None:
    """What `operand is None` says about a condition on the same operand."""
    if asked.op not in ("==", "!=") or not is_known(asked.args[1]) or asked.args[1] is None:
        return None
    return asked.op == "!="


def _ordered(asked: Expr, value: Value) -> bool | None:
    """`value OP bound` when both are numbers."""
    bound = asked.args[1] if len(asked.args) > 1 else None
    if not isinstance(value, (int, float)) or not isinstance(bound, (int, float)):
        return None
    table = {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}
    return table.get(asked.op)


def resolve(value: Value, path: Path) -> Value:
    """The branch of a choice that this path takes, as far as the path says."""
    while isinstance(value, Choice):
        verdict = path.decide(value.cond)
        if verdict is None:
            return value
        value = value.then if verdict else value.other
    return value


def settle(value: Value, path: Path) -> Value:
    """A value with every choice inside it taken as this path takes it."""
    value = resolve(value, path)
    if isinstance(value, tuple):
        return tuple(settle(item, path) for item in value)
    if isinstance(value, Expr) and value.op not in ("sym", "tensor", "axis") and value.size > 1:
        args = tuple(settle(arg, path) for arg in value.args)
        return value if args == value.args else make(value.op, *args)
    return value


def truth(value: Value, budget: int = 40) -> bool | Expr | Unknown:
    """`bool(value)`: known, a condition, or Unknown."""
    if value is None or isinstance(value, (int, float, str, bytes, tuple)):
        return bool(value)
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Choice):
        if budget <= 0:
            return Unknown("a condition made of too many cases")
        merged = choose(value.cond, truth(value.then, budget - 1), truth(value.other, budget - 1))
        return _as_condition(merged)
    return value if isinstance(value, Expr) else True


def _as_condition(value: Value) -> bool | Expr | Unknown:
    if isinstance(value, (bool, Expr, Unknown)):
        return value
    if not isinstance(value, Choice):
        return Unknown("a condition that is not an expression")
    then, other = _as_condition(value.then), _as_condition(value.other)
    for side in (then, other):
        if isinstance(side, Unknown):
            return side
    if then is True and other is False:
        return value.cond
    if then is False and other is True:
        return _narrow(negate(value.cond))
    first = _both("and", value.cond, then)
    second = _both("and", _narrow(negate(value.cond)), other)
    return _both("or", first, second)


def _narrow(value: Value) -> bool | Expr | Unknown:
    return value if isinstance(value, (bool, Expr, Unknown)) else Unknown("not a condition")


def _both(
    op: str, left: bool | Expr | Unknown, right: bool | Expr | Unknown
) -> bool | Expr | Unknown:
    for side, rest in ((left, right), (right, left)):
        if isinstance(side, bool):
            return rest if side == (op == "and") else side
    for side in (left, right):
        if isinstance(side, Unknown):
            return side
    size = 1 + sum(side.size for side in (left, right) if isinstance(side, Expr))
    depth = 1 + max(side.depth for side in (left, right) if isinstance(side, Expr))
    if depth > 50 or size > 500:
        return Unknown("a condition made of too many cases")
    return Expr(op, (left, right), size, depth)

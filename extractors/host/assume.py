"""What is known on the current path: conditions with their truth, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from extractors.host.expr import OPPOSITE, choose, is_known, is_memo, is_number, make, negate
from extractors.host.values import Choice, Expr, Unknown, Value


@dataclass(frozen=True, slots=True)
class Guard:
    """One condition of a path; `shown` is False for conditions that only say that a check has
    passed."""

    cond: Expr
    holds: bool
    shown: bool = True


@dataclass(frozen=True, slots=True)
class Path:
    """The conditions under which the code at hand runs, outermost first."""

    guards: tuple[Guard, ...] = ()

    def under(self, cond: Expr, holds: bool, shown: bool = True) -> Path:
        """This path with one more condition."""
        return Path((*self.guards, Guard(cond, holds, shown)))

    def decide(self, cond: Value, budget: int = 24) -> bool | None:
        """The truth of a condition on this path, or None when the path does not say."""
        if isinstance(cond, bool):
            return cond
        if not isinstance(cond, Expr) or budget <= 0:
            return None
        for guard in reversed(self.guards):
            verdict = _follows(guard.cond, guard.holds, cond)
            if verdict is not None:
                return verdict
        if cond.op in ("and", "or"):
            parts = [self.decide(arg, budget - 1) for arg in cond.args]
            stop = cond.op == "or"
            if stop in parts:
                return stop
            return None if None in parts else not stop
        if cond.op == "not":
            inner = self.decide(cond.args[0], budget - 1)
            return None if inner is None else not inner
        return None


def _follows(fact: Expr, holds: bool, asked: Expr, budget: int = 16) -> bool | None:
    """What `fact` being `holds` says about `asked`."""
    if fact == asked:
        return holds
    if _opposite(fact, asked):
        return not holds
    if budget and ((fact.op == "and" and holds) or (fact.op == "or" and not holds)):
        for part in fact.args:
            if isinstance(part, Expr):
                verdict = _follows(part, holds, asked, budget - 1)
                if verdict is not None:
                    return verdict
    if fact.op == "==" and holds and fact.args[0] == asked and isinstance(fact.args[1], bool):
        return fact.args[1]
    if fact.op == "==" and holds and asked.args and fact.args[0] == asked.args[0]:
        value = fact.args[1]
        if asked.op == "==" and is_known(value) and is_known(asked.args[1]):
            return value == asked.args[1]
        if asked.op == "!=" and is_known(value) and is_known(asked.args[1]):
            return value != asked.args[1]
        if asked.op == "none" and is_known(value):
            return value is None
        return _ordered(asked, value)
    if fact.op == "none" and holds and asked.op in ("==", "!=") and fact.args[0] == asked.args[0]:
        return asked.op == "!=" if is_known(asked.args[1]) and asked.args[1] is not None else None
    return None


def _opposite(fact: Expr, asked: Expr) -> bool:
    """Whether `asked` is the negation of `fact`, without making it."""
    if fact.op == "not":
        return bool(fact.args[0] == asked)
    if fact.op in OPPOSITE:
        return asked.op == OPPOSITE[fact.op] and asked.args == fact.args
    return asked.op == "not" and asked.args[0] == fact


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
    if value is None or isinstance(value, (bool, str, bytes, tuple)) or is_number(value):
        return bool(value)
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Choice):
        if budget <= 0:
            return Unknown("a condition made of too many cases")
        merged = choose(value.cond, truth(value.then, budget - 1), truth(value.other, budget - 1))
        return _as_condition(merged)
    if isinstance(value, Expr):
        if is_memo(value) and value.op != "memo":
            return value
        return value
    return True


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

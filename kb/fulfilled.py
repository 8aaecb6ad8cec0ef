"""Which constraints hold by what the host passes, launch by launch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from kb.errors import InputError
from kb.implications import follows
from kb.planner.expressions import evaluate, names, parse, to_text
from kb.planner.nodes import (
    Attribute,
    Binary,
    BinaryOperator,
    Boolean,
    BooleanOperator,
    Call,
    Compare,
    Comparison,
    Conditional,
    Expr,
    Literal,
    Name,
)
from kb.space import GuardedPoints, Launch, Point, Scalar

MAX_LAUNCHES = 32
MAX_POINTS = 256
"""Launches, and different configurations, that a constraint is asked of; of more it is unknown."""

_TURNED = {Comparison.GREATER_EQUAL: Comparison.LESS_EQUAL, Comparison.GREATER: Comparison.LESS}


def fulfilled(
    expression: str,
    launches: Sequence[Launch],
    spaces: Sequence[GuardedPoints],
    checked: Collection[str],
) -> bool:
    """True when every launch passes arguments for which each part of a constraint holds, in every
    configuration that is searched: by what the host checks, by the condition of the launch, or by
    how the arguments are computed.
    """
    if not 0 < len(launches) <= MAX_LAUNCHES:
        return False
    parts = [_parsed(part) for part in expression.split(" and ")]
    searched = [p for space in spaces for p in space.points]
    open_axes = {name for s in spaces if not s.complete for p in s.points for name, _ in p}
    for launch in launches:
        passed = {
            b.parameter: _parsed(b.expression)
            for b in launch.bindings
            if b.expression not in ("unknown", b.parameter)
        }
        known = {*checked, *map(_normal, _conjuncts(launch.when))}
        for part in parts:
            asked = _substituted(part, passed)
            if names(asked) & open_axes:
                return False
            configured = list(_configured(asked, searched))
            if len(configured) > MAX_POINTS or not all(_holds(one, known) for one in configured):
                return False
    return True


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Expr:
    try:
        return parse(text)
    except InputError:
        return Literal(text)


def _conjuncts(text: str) -> Iterator[str]:
    tree = _parsed(text)
    if isinstance(tree, Boolean) and tree.operator is BooleanOperator.AND:
        yield from map(to_text, tree.operands)
    else:
        yield text


def _normal(text: str) -> str:
    return to_text(_turned(_parsed(text)))


def _turned(tree: Expr) -> Expr:
    """A comparison with the smaller side first."""
    match tree:
        case Compare(first=first, links=((link, second),)) if link in _TURNED:
            return Compare(second, ((_TURNED[link], first),))
    return tree


def _substituted(tree: Expr, values: Mapping[str, Expr]) -> Expr:
    """The tree with numbers of the kernel as the host passes them; arrays keep their names."""
    match tree:
        case Name(name=name):
            return values.get(name, tree)
        case Attribute() | Literal():
            return tree
        case Binary(left=left, right=right):
            return replace(tree, left=_substituted(left, values), right=_substituted(right, values))
        case Compare(first=first, links=links):
            told = tuple((link, _substituted(one, values)) for link, one in links)
            return Compare(_substituted(first, values), told)
        case Conditional(then=then, condition=condition, otherwise=otherwise):
            return Conditional(
                _substituted(then, values),
                _substituted(condition, values),
                _substituted(otherwise, values),
            )
        case Call(function=function, arguments=arguments):
            return Call(function, tuple(_substituted(one, values) for one in arguments))
    return tree


def _configured(tree: Expr, points: Sequence[Point]) -> Iterator[Expr]:
    """The tree with the values of each configuration, none twice."""
    asked = names(tree)
    seen: set[tuple[tuple[str, Scalar], ...]] = set()
    for point in points:
        told = tuple((name, value) for name, value in point if name in asked)
        if told not in seen:
            seen.add(told)
            yield _substituted(tree, {name: Literal(value) for name, value in told})
    if not seen:
        yield tree


def _holds(tree: Expr, known: Collection[str]) -> bool:
    tree = _turned(tree)
    if not names(tree):
        return _true(tree)
    if follows(to_text(tree), known):
        return True
    match tree:
        case Call(function="is_power_of_two", arguments=(size,)):
            return _power_of_two(size)
        case Compare(first=less, links=((Comparison.LESS_EQUAL, more),)):
            return _at_least(more, less)
        case Compare(
            first=Binary(operator=BinaryOperator.MODULO, left=size, right=tile),
            links=((Comparison.EQUAL, Literal(value=0)),),
        ):
            return _multiple(size, tile)
    return False


def _true(tree: Expr) -> bool:
    try:
        return bool(evaluate(tree, {}))
    except InputError:
        return False


def _power_of_two(size: Expr) -> bool:
    match size:
        case Literal():
            return _true(Call("is_power_of_two", (size,)))
        case Call(function="next_power_of_two"):
            return True
        case Call(function="min" | "max", arguments=some):
            return all(map(_power_of_two, some))
        case Conditional(then=then, otherwise=otherwise):
            return _power_of_two(then) and _power_of_two(otherwise)
        case Binary(operator=BinaryOperator.MULTIPLY, left=left, right=right):
            return _power_of_two(left) and _power_of_two(right)
    return False


def _at_least(more: Expr, less: Expr) -> bool:
    if more == less or (isinstance(less, Literal) and isinstance(more, Literal)):
        return _true(Compare(less, ((Comparison.LESS_EQUAL, more),))) or more == less
    match more:
        case Call(function="next_power_of_two", arguments=(size,)):
            return _at_least(size, less)
        case Call(function="max", arguments=some):
            return any(_at_least(one, less) for one in some)
        case Call(function="min", arguments=some):
            return all(_at_least(one, less) for one in some)
        case Conditional(then=then, otherwise=otherwise):
            return _at_least(then, less) and _at_least(otherwise, less)
    match less:
        case Call(function="min", arguments=some):
            return any(_at_least(more, one) for one in some)
    return False


def _multiple(size: Expr, tile: Expr) -> bool:
    if size == tile:
        return True
    match size:
        case Literal() if isinstance(tile, Literal):
            modulo = Binary(BinaryOperator.MODULO, size, tile)
            return _true(Compare(modulo, ((Comparison.EQUAL, Literal(0)),)))
        case Binary(operator=BinaryOperator.MULTIPLY, left=left, right=right):
            return _multiple(left, tile) or _multiple(right, tile)
        case Conditional(then=then, otherwise=otherwise):
            return _multiple(then, tile) and _multiple(otherwise, tile)
    return False

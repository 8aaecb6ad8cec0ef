"""Assignments whose value nothing reads: no way through the function comes from one to a reading of
the name before the name means something else."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from extractors.syntax.nodes import children, each, walk

Names = frozenset[str]
_NONE: Names = frozenset()
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_ALL_NAMES = frozenset({"locals", "vars", "eval", "exec", "globals"})


@dataclass(frozen=True, slots=True)
class DeadStores:
    """Assignments of one function that nothing reads, and its parameters that get another value
    before anything reads them, with where they get it."""

    assignments: tuple[ast.Assign, ...]
    overwritten: tuple[str, ...]


@lru_cache(maxsize=2048)
def dead_stores(function: ast.FunctionDef) -> DeadStores:
    """Those of a function; none where it hands all of its names on."""
    called = (call.func for call in each(function, ast.Call))
    if any(isinstance(func, ast.Name) and func.id in _ALL_NAMES for func in called):
        return DeadStores((), ())
    reader = _Reader(_held(function))
    before = reader.block(function.body, _NONE)
    given = function.args
    rows = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    written = {name.id for name in each(function, ast.Name) if isinstance(name.ctx, ast.Store)}
    over = (a.arg for a in rows if a.arg in written and a.arg not in before | reader.held)
    dead = sorted(reader.dead.values(), key=lambda one: one.lineno)
    return DeadStores(tuple(dead), tuple(over))


def _held(function: ast.FunctionDef) -> Names:
    """Names that other functions may read at any time."""
    found: set[str] = set()
    for node in walk(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            found.update(node.names)
        elif isinstance(node, _INNER) and node is not function:
            found.update(_reads(node))
    return frozenset(found)


def _reads(*nodes: ast.AST | None) -> Names:
    return frozenset(
        name.id
        for node in nodes
        if node is not None
        for name in each(node, ast.Name)
        if isinstance(name.ctx, ast.Load)
    )


@dataclass(slots=True)
class _Reader:
    """What matters before statements, by what matters after them; `exits` are what matters where a
    loop is left and where its next round begins."""

    held: Names
    dead: dict[int, ast.Assign] = field(default_factory=dict)
    exits: list[tuple[Names, Names]] = field(default_factory=list)
    caught: Names = _NONE

    def block(self, statements: Sequence[ast.stmt], after: Names) -> Names:
        for statement in reversed(statements):
            after = self._before(statement, after) | self.caught
        return after

    def _before(self, statement: ast.stmt, after: Names) -> Names:
        match statement:
            case ast.Assign():
                return self._assigned(statement, after)
            case ast.If(test=test, body=body, orelse=orelse):
                return _reads(test) | self.block(body, after) | self.block(orelse, after)
            case ast.For(target=target, iter=rows, body=body, orelse=orelse):
                left = self.block(orelse, after) | _reads(target)
                return self._loop(body, after, left, _targets(target)) | _reads(rows)
            case ast.While(test=test, body=body, orelse=orelse):
                left = self.block(orelse, after) | _reads(test)
                return self._loop(body, after, left, _NONE)
            case ast.With(items=items, body=body):
                return _reads(*items) | self.block(body, after)
            case ast.Try():
                return self._try(statement, after)
            case ast.Return(value=value):
                return _reads(value)
            case ast.Raise():
                return _reads(statement)
            case ast.Break():
                return self.exits[-1][0] if self.exits else after
            case ast.Continue():
                return self.exits[-1][1] if self.exits else after
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                return after | _reads(value) | {name}
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                return (after - {name}) | _reads(value)
            case ast.Delete(targets=targets):
                return (after - {t.id for t in targets if isinstance(t, ast.Name)}) | _reads(
                    *targets
                )
        return after | _reads(statement)

    def _assigned(self, statement: ast.Assign, after: Names) -> Names:
        names = _names(statement.targets)
        if names is None:
            return after | _reads(statement)
        if names & (after | self.held):
            self.dead.pop(id(statement), None)
        elif id(statement) not in self.dead:
            self.dead[id(statement)] = statement
        return (after - names) | _reads(statement.value)

    def _loop(self, body: Sequence[ast.stmt], after: Names, left: Names, made: Names) -> Names:
        """A loop reads what its next round does: rounds are gone through until nothing is new."""
        around = left
        while True:
            self.exits.append((after, around))
            known = dict(self.dead)
            before = self.block(body, around) - made
            self.exits.pop()
            if before <= around:
                return around
            self.dead = known
            around |= before

    def _try(self, statement: ast.Try, after: Names) -> Names:
        """A step of the body may lead to each of the handlers."""
        ending = self.block(statement.finalbody, after)
        after = ending | (after if statement.finalbody else _NONE)
        handled = [self.block(handler.body, after) for handler in statement.handlers]
        outer = self.caught
        self.caught = outer.union(ending if statement.finalbody else _NONE, *handled)
        before = self.block(statement.body, self.block(statement.orelse, after))
        self.caught = outer
        return before.union(*handled)


def _targets(target: ast.AST) -> Names:
    return frozenset(n.id for n in each(target, ast.Name) if isinstance(n.ctx, ast.Store))


def _names(targets: Iterable[ast.expr]) -> Names | None:
    """The names that an assignment sets; None where it sets anything else."""
    found: set[str] = set()
    for target in targets:
        if isinstance(target, ast.Name):
            found.add(target.id)
        elif isinstance(target, ast.Tuple) and all(isinstance(t, ast.Name) for t in target.elts):
            found.update(_targets(target))
        else:
            return None
    return frozenset(found)


def computes(value: ast.expr) -> bool:
    """Whether a value is more than a number, a text, a name or a row of them."""
    return any(not isinstance(one, _PLAIN) for one in (value, *children(value)))


_PLAIN = (ast.Constant, ast.Name, ast.Tuple, ast.List, ast.UnaryOp, ast.USub, ast.Dict)

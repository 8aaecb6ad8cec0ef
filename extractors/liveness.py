"""Which names a statement reads before writing, and which it surely writes. The basis of carried
values."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from extractors.syntax.nodes import children, each

Names = frozenset[str]
NONE: Names = frozenset()
_NAMES_OF_THEIR_OWN = (
    ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp,
)  # fmt: skip


@dataclass(slots=True)
class Liveness:
    """Facts about statements, each computed once; keyed by node identity, so keep the tree
    alive."""

    _exposed: dict[int, Names] = field(default_factory=dict)
    _definite: dict[int, Names] = field(default_factory=dict)
    _assigned: dict[int, Names] = field(default_factory=dict)

    def exposed(self, statements: Sequence[ast.stmt]) -> Names:
        """Names that may be read before these statements write them."""
        found: set[str] = set()
        written: set[str] = set()
        for statement in statements:
            found |= self._exposed_by(statement) - written
            written |= self._definite_by(statement)
        return frozenset(found)

    def definite(self, statements: Sequence[ast.stmt]) -> Names:
        """Names that these statements write on every path that reaches their end."""
        found: set[str] = set()
        for statement in statements:
            found |= self._definite_by(statement)
        return frozenset(found)

    def assigned(self, statements: Sequence[ast.stmt]) -> Names:
        """Names that these statements may write."""
        found: set[str] = set()
        for statement in statements:
            key = id(statement)
            if key not in self._assigned:
                self._assigned[key] = frozenset(_assigned(statement))
            found |= self._assigned[key]
        return frozenset(found)

    def live_after(self, rest: Sequence[ast.stmt], live_out: Names) -> Names:
        """Names whose value still matters before `rest`, when `live_out` matters at its end."""
        return self.exposed(rest) | (live_out - self.definite(rest))

    def _exposed_by(self, statement: ast.stmt) -> Names:
        key = id(statement)
        if key not in self._exposed:
            self._exposed[key] = self._compute_exposed(statement)
        return self._exposed[key]

    def _compute_exposed(self, statement: ast.stmt) -> Names:
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                return _reads(test) | self.exposed(body) | self.exposed(orelse)
            case ast.For(target=target, iter=iterable, body=body, orelse=orelse):
                inner = self.exposed(body) - _targets(target)
                return _reads(iterable) | inner | self.exposed(orelse)
            case ast.While(test=test, body=body, orelse=orelse):
                return _reads(test) | self.exposed(body) | self.exposed(orelse)
            case ast.With(items=items, body=body):
                heads = frozenset().union(*(_reads(item.context_expr) for item in items))
                return heads | self.exposed(body)
            case ast.AugAssign(target=target, value=value):
                return _reads(value) | _targets(target) | _reads(target)
        return _reads(statement)

    def _definite_by(self, statement: ast.stmt) -> Names:
        key = id(statement)
        if key not in self._definite:
            self._definite[key] = self._compute_definite(statement)
        return self._definite[key]

    def _compute_definite(self, statement: ast.stmt) -> Names:
        match statement:
            case ast.If(body=body, orelse=orelse):
                if _leaves(body):
                    return self.definite(orelse)
                if orelse and _leaves(orelse):
                    return self.definite(body)
                return self.definite(body) & self.definite(orelse)
            case ast.For() | ast.While():
                return NONE
        return frozenset(_assigned(statement))


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Break | ast.Continue | ast.Raise)


def _reads(node: ast.AST) -> Names:
    return frozenset(inner.id for inner in each(node, ast.Name) if isinstance(inner.ctx, ast.Load))


def _targets(node: ast.AST) -> Names:
    return frozenset(inner.id for inner in each(node, ast.Name) if isinstance(inner.ctx, ast.Store))


def _assigned(statement: ast.stmt) -> set[str]:
    found: set[str] = set()
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                found.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif not isinstance(node, _NAMES_OF_THEIR_OWN):
            pending += children(node)
    return found

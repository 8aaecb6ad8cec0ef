"""libcst `match` patterns as `ast` patterns."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import libcst as cst

from extractors.syntax.expressions import ExpressionReader, identifier


class PatternReader(ExpressionReader):
    """Converts the pattern of one `case`."""

    def pattern(self, node: cst.CSTNode) -> ast.pattern:
        """The `ast` form of any libcst pattern."""
        convert = _PATTERNS.get(type(node))
        if convert is None:
            hint = "Remove it, or read the file with a newer tilelore."
            raise self.places.problem(node, f"Pattern `{type(node).__name__}` is not read.", hint)
        return convert(self, node)

    def _value(self, node: cst.MatchValue) -> ast.pattern:
        new = ast.MatchValue(value=self.expression(node.value))
        return self.places.put(new, self.places.of(node.value))

    def _singleton(self, node: cst.MatchSingleton) -> ast.pattern:
        constant = self.expression(node.value)
        assert isinstance(constant, ast.Constant)
        new = ast.MatchSingleton(value=constant.value)
        return self.places.put(new, self.places.of(node.value))

    def _list(self, node: cst.MatchList) -> ast.pattern:
        new = ast.MatchSequence(patterns=[self.pattern(one) for one in node.patterns])
        return self.places.put(new, self.places.of(node))

    def _tuple(self, node: cst.MatchTuple) -> ast.pattern:
        new = ast.MatchSequence(patterns=[self.pattern(one) for one in node.patterns])
        return self.places.put(new, self.places.inner(node))

    def _element(self, node: cst.MatchSequenceElement) -> ast.pattern:
        return self.pattern(node.value)

    def _star(self, node: cst.MatchStar) -> ast.pattern:
        name = None if node.name is None else identifier(node.name)
        return self.places.put(ast.MatchStar(name=name), self.places.of(node))

    def _mapping(self, node: cst.MatchMapping) -> ast.pattern:
        new = ast.MatchMapping(
            keys=[self.expression(one.key) for one in node.elements],
            patterns=[self.pattern(one.pattern) for one in node.elements],
            rest=None if node.rest is None else identifier(node.rest),
        )
        return self.places.put(new, self.places.of(node))

    def _class(self, node: cst.MatchClass) -> ast.pattern:
        new = ast.MatchClass(
            cls=self.expression(node.cls),
            patterns=[self.pattern(one) for one in node.patterns],
            kwd_attrs=[identifier(one.key) for one in node.kwds],
            kwd_patterns=[self.pattern(one.pattern) for one in node.kwds],
        )
        return self.places.put(new, self.places.of(node))

    def _as(self, node: cst.MatchAs) -> ast.pattern:
        inner = None if node.pattern is None else self.pattern(node.pattern)
        new = ast.MatchAs(pattern=inner, name=None if node.name is None else identifier(node.name))
        return self.places.put(new, self.places.of(node))

    def _or(self, node: cst.MatchOr) -> ast.pattern:
        new = ast.MatchOr(patterns=[self.pattern(one.pattern) for one in node.patterns])
        return self.places.put(new, self.places.of(node))


_PATTERNS: dict[type[cst.CSTNode], Callable[[PatternReader, Any], ast.pattern]] = {
    cst.MatchValue: PatternReader._value,
    cst.MatchSingleton: PatternReader._singleton,
    cst.MatchList: PatternReader._list,
    cst.MatchTuple: PatternReader._tuple,
    cst.MatchSequenceElement: PatternReader._element,
    cst.MatchStar: PatternReader._star,
    cst.MatchMapping: PatternReader._mapping,
    cst.MatchClass: PatternReader._class,
    cst.MatchAs: PatternReader._as,
    cst.MatchOr: PatternReader._or,
}

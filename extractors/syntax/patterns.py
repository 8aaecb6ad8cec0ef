"""libcst `match` patterns as `ast` patterns."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import libcst as cst

from extractors.syntax.expressions import ExpressionReader, identifier
from extractors.syntax.places import joined


class PatternReader(ExpressionReader):
    """Converts the pattern of one `case`."""

    def pattern(self, node: cst.CSTNode) -> ast.pattern:
        """The `ast` form of any libcst pattern."""
        convert = _PATTERNS.get(type(node))
        if convert is None:
            hint = "Remove it, or read the file with a newer tilelore."
            raise self.places.problem(node, f"Pattern `{type(node).__name__}` is not read.", hint)
        return convert(self, node)

    def _match_value(self, node: cst.MatchValue) -> ast.pattern:
        new = ast.MatchValue(value=self.expression(node.value))
        return self.places.put(new, self.places.of(node.value))

    def _match_singleton(self, node: cst.MatchSingleton) -> ast.pattern:
        constant: Any = self.expression(node.value)
        new = ast.MatchSingleton(value=constant.value)
        return self.places.put(new, self.places.of(node.value))

    def _match_list(self, node: cst.MatchList) -> ast.pattern:
        new = ast.MatchSequence(patterns=[self.pattern(one) for one in node.patterns])
        return self.places.put(new, self.places.of(node))

    def _match_tuple(self, node: cst.MatchTuple) -> ast.pattern:
        new = ast.MatchSequence(patterns=[self.pattern(one) for one in node.patterns])
        return self.places.put(new, self.places.inner(node))

    def _match_element(self, node: cst.MatchSequenceElement) -> ast.pattern:
        return self.pattern(node.value)

    def _match_star(self, node: cst.MatchStar) -> ast.pattern:
        place = self.places.of(node)
        if node.name is not None:
            named = joined(place, self.places.of(node.name))
            return self.places.put(ast.MatchStar(name=identifier(node.name)), named)
        line, column = self.places.of(node.whitespace_before_name)[2:]
        return self.places.put(ast.MatchStar(name=None), (*place[:2], line, column + 1))

    def _match_mapping(self, node: cst.MatchMapping) -> ast.pattern:
        new = ast.MatchMapping(
            keys=[self.expression(one.key) for one in node.elements],
            patterns=[self.pattern(one.pattern) for one in node.elements],
            rest=None if node.rest is None else identifier(node.rest),
        )
        return self.places.put(new, self.places.of(node))

    def _match_class(self, node: cst.MatchClass) -> ast.pattern:
        new = ast.MatchClass(
            cls=self.expression(node.cls),
            patterns=[self.pattern(one) for one in node.patterns],
            kwd_attrs=[identifier(one.key) for one in node.kwds],
            kwd_patterns=[self.pattern(one.pattern) for one in node.kwds],
        )
        return self.places.put(new, self.places.of(node))

    def _match_as(self, node: cst.MatchAs) -> ast.pattern:
        inner = None if node.pattern is None else self.pattern(node.pattern)
        new = ast.MatchAs(pattern=inner, name=None if node.name is None else identifier(node.name))
        return self.places.put(new, self.places.of(node))

    def _match_or(self, node: cst.MatchOr) -> ast.pattern:
        new = ast.MatchOr(patterns=[self.pattern(one.pattern) for one in node.patterns])
        return self.places.put(new, self.places.of(node))


_PATTERNS: dict[type[cst.CSTNode], Callable[[PatternReader, Any], ast.pattern]] = {
    cst.MatchValue: PatternReader._match_value,
    cst.MatchSingleton: PatternReader._match_singleton,
    cst.MatchList: PatternReader._match_list,
    cst.MatchTuple: PatternReader._match_tuple,
    cst.MatchSequenceElement: PatternReader._match_element,
    cst.MatchStar: PatternReader._match_star,
    cst.MatchMapping: PatternReader._match_mapping,
    cst.MatchClass: PatternReader._match_class,
    cst.MatchAs: PatternReader._match_as,
    cst.MatchOr: PatternReader._match_or,
}

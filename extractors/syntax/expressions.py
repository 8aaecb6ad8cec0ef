"""libcst expressions as `ast` expressions."""

from __future__ import annotations

import ast
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import libcst as cst

from extractors.syntax.literals import float_value, imaginary_value, integer_value
from extractors.syntax.operators import BINARY, BOOLEAN, COMPARISON, UNARY
from extractors.syntax.places import Extent, joined
from extractors.syntax.strings import StringReader

_LOAD = ast.Load()
_STORE = ast.Store()
_DEL = ast.Del()
_NAMED_CONSTANTS = {"None": None, "True": True, "False": False}


def identifier(name: cst.Name) -> str:
    """The name as Python binds it: normalised to NFKC."""
    text = name.value
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


class ExpressionReader(StringReader):
    """Converts one expression at a time; recursion is bounded by `bounds.check_depth`."""

    def expression(self, node: cst.CSTNode) -> ast.expr:
        """The `ast` form of any libcst expression, in load context."""
        convert = _EXPRESSIONS.get(type(node))
        if convert is None:
            hint = "Remove it, or read the file with a newer tilelore."
            raise self.places.problem(node, f"`{type(node).__name__}` is not read.", hint)
        return convert(self, node)

    def optional(self, node: cst.CSTNode | None) -> ast.expr | None:
        """The `ast` form, or None for nothing."""
        return None if node is None else self.expression(node)

    def target(self, node: cst.CSTNode) -> ast.expr:
        """An expression that is assigned to."""
        return _in_context(self.expression(node), _STORE)

    def deleted(self, node: cst.CSTNode) -> ast.expr:
        """An expression that is deleted."""
        return _in_context(self.expression(node), _DEL)

    # -- names, literals, access -------------------------------------------------------------

    def _name(self, node: cst.Name) -> ast.expr:
        place = self.places.of(node)
        if node.value in _NAMED_CONSTANTS:
            return self._constant(_NAMED_CONSTANTS[node.value], place)
        return self.places.put(ast.Name(id=identifier(node), ctx=_LOAD), place)

    def _ellipsis(self, node: cst.Ellipsis) -> ast.expr:
        return self._constant(..., self.places.of(node))

    def _number(self, node: cst.BaseNumber) -> ast.expr:
        text = str(getattr(node, "value", ""))
        try:
            value: Any
            if isinstance(node, cst.Integer):
                value = integer_value(text)
            else:
                value = (float_value if isinstance(node, cst.Float) else imaginary_value)(text)
        except ValueError as error:
            raise self.places.problem(
                node, f"{error}.", "Write a number Python can read."
            ) from None
        return self._constant(value, self.places.of(node))

    def _constant(self, value: Any, place: Extent) -> ast.expr:
        return self.places.put(ast.Constant(value=value, kind=None), place)

    def _attribute(self, node: cst.Attribute) -> ast.expr:
        new = ast.Attribute(
            value=self.expression(node.value), attr=identifier(node.attr), ctx=_LOAD
        )
        return self.places.put(new, self.places.of(node))

    def _subscript(self, node: cst.Subscript) -> ast.expr:
        new = ast.Subscript(value=self.expression(node.value), slice=self._slices(node), ctx=_LOAD)
        return self.places.put(new, self.places.of(node))

    def _slices(self, node: cst.Subscript) -> ast.expr:
        parts = [self._slice(element.slice) for element in node.slice]
        last = node.slice[-1].comma
        has_comma = isinstance(last, cst.Comma)
        if len(parts) == 1 and not has_comma and not isinstance(parts[0], ast.Starred):
            return parts[0]
        first = self.places.of(node.slice[0])
        end = self.places.of(last) if isinstance(last, cst.Comma) else _extent(parts[-1])
        if isinstance(node.slice[-1].slice, cst.Index) and not has_comma:
            end = self.places.outer(node.slice[-1].slice.value)
        return self.places.put(ast.Tuple(elts=parts, ctx=_LOAD), joined(first, end))

    def _slice(self, node: cst.BaseSlice) -> ast.expr:
        if isinstance(node, cst.Slice):
            lower, upper = self.optional(node.lower), self.optional(node.upper)
            new = ast.Slice(lower=lower, upper=upper, step=self.optional(node.step))
            return self.places.put(new, self._slice_place(node))
        assert isinstance(node, cst.Index)
        value = self.expression(node.value)
        if node.star:
            return self.places.put(ast.Starred(value=value, ctx=_LOAD), self.places.of(node))
        return value

    def _slice_place(self, node: cst.Slice) -> Extent:
        """A slice without the blanks that libcst counts around its colons."""
        line, column, end_line, end_column = self.places.of(node)
        if node.lower is None:
            line, column = self.places.of(node.first_colon)[:2]
        if node.step is None and node.upper is None:
            second = node.second_colon
            last = second if isinstance(second, cst.Colon) else node.first_colon
            end_line, end_column = self.places.of(last)[2:]
        elif node.step is None and isinstance(node.second_colon, cst.Colon):
            end_line, end_column = self.places.of(node.second_colon)[2:]
        return (line, column, end_line, end_column)

    # -- calls and functions -----------------------------------------------------------------

    def _call(self, node: cst.Call) -> ast.expr:
        function = self.expression(node.func)
        positional, keywords = self.arguments(node.args)
        place = self.places.of(node)
        only = positional[0] if len(node.args) == 1 and positional else None
        if isinstance(only, ast.GeneratorExp) and not getattr(node.args[0].value, "lpar", ()):
            # The parentheses of the call are also those of the generator.
            line, column = self.places.of(node.whitespace_before_args)[:2]
            self.places.put(only, (line, column - 1, *place[2:]))
        return self.places.put(ast.Call(func=function, args=positional, keywords=keywords), place)

    def arguments(self, args: Sequence[cst.Arg]) -> tuple[list[ast.expr], list[ast.keyword]]:
        """Positional and keyword arguments of a call or of a class statement."""
        positional: list[ast.expr] = []
        keywords: list[ast.keyword] = []
        for arg in args:
            value, place = self.expression(arg.value), self.places.of(arg)
            if arg.star == "*":
                starred = ast.Starred(value=value, ctx=_LOAD)
                positional.append(self.places.put(starred, place))
            elif arg.star == "**" or arg.keyword is not None:
                name = None if arg.keyword is None else identifier(arg.keyword)
                keywords.append(self.places.put(ast.keyword(arg=name, value=value), place))
            else:
                positional.append(value)
        return positional, keywords

    def _lambda(self, node: cst.Lambda) -> ast.expr:
        new = ast.Lambda(args=self.parameters(node.params), body=self.expression(node.body))
        return self.places.put(new, self.places.of(node))

    def parameters(self, node: cst.Parameters) -> ast.arguments:
        """The parameters of a function or a lambda."""
        positional = (*node.posonly_params, *node.params)
        star, double = node.star_arg, node.star_kwarg
        return ast.arguments(
            posonlyargs=[self._parameter(one) for one in node.posonly_params],
            args=[self._parameter(one) for one in node.params],
            vararg=self._parameter(star) if isinstance(star, cst.Param) else None,
            kwonlyargs=[self._parameter(one) for one in node.kwonly_params],
            kw_defaults=[self.optional(one.default) for one in node.kwonly_params],
            kwarg=None if double is None else self._parameter(double),
            defaults=[self.expression(one.default) for one in positional if one.default],
        )

    def _parameter(self, node: cst.Param) -> ast.arg:
        annotation = None if node.annotation is None else node.annotation.annotation
        place = self.places.of(node.name)
        if annotation is not None:
            place = joined(place, self.places.outer(annotation))
        note = self.optional(annotation)
        new = ast.arg(arg=identifier(node.name), annotation=note, type_comment=None)
        return self.places.put(new, place)

    # -- operators ---------------------------------------------------------------------------

    def _unary(self, node: cst.UnaryOperation) -> ast.expr:
        operator = UNARY[type(node.operator)]()
        new = ast.UnaryOp(op=operator, operand=self.expression(node.expression))
        return self.places.put(new, self.places.of(node))

    def _binary(self, node: cst.BinaryOperation) -> ast.expr:
        left, operator = self.expression(node.left), BINARY[type(node.operator)]()
        new = ast.BinOp(left=left, op=operator, right=self.expression(node.right))
        return self.places.put(new, self.places.of(node))

    def _boolean(self, node: cst.BooleanOperation) -> ast.expr:
        operator = type(node.operator)
        waiting: list[cst.BaseExpression] = [node.right, node.left]
        values: list[ast.expr] = []
        while waiting:
            one = waiting.pop()
            if isinstance(one, cst.BooleanOperation) and not one.lpar:
                if type(one.operator) is operator:
                    waiting += [one.right, one.left]
                    continue
            values.append(self.expression(one))
        new = ast.BoolOp(op=BOOLEAN[operator](), values=values)
        return self.places.put(new, self.places.of(node))

    def _comparison(self, node: cst.Comparison) -> ast.expr:
        operators = [COMPARISON[type(one.operator)]() for one in node.comparisons]
        others = [self.expression(one.comparator) for one in node.comparisons]
        new = ast.Compare(left=self.expression(node.left), ops=operators, comparators=others)
        return self.places.put(new, self.places.of(node))

    def _conditional(self, node: cst.IfExp) -> ast.expr:
        test, body = self.expression(node.test), self.expression(node.body)
        new = ast.IfExp(test=test, body=body, orelse=self.expression(node.orelse))
        return self.places.put(new, self.places.of(node))

    def _named(self, node: cst.NamedExpr) -> ast.expr:
        new = ast.NamedExpr(target=self.target(node.target), value=self.expression(node.value))  # type: ignore[arg-type]
        return self.places.put(new, self.places.of(node))

    def _await(self, node: cst.Await) -> ast.expr:
        new = ast.Await(value=self.expression(node.expression))
        return self.places.put(new, self.places.of(node))

    def _yield(self, node: cst.Yield) -> ast.expr:
        place = self.places.of(node)
        if isinstance(node.value, cst.From):
            return self.places.put(ast.YieldFrom(value=self.expression(node.value.item)), place)
        return self.places.put(ast.Yield(value=self.optional(node.value)), place)

    # -- collections and comprehensions ------------------------------------------------------

    def _tuple(self, node: cst.Tuple) -> ast.expr:
        new = ast.Tuple(elts=[self.expression(one) for one in node.elements], ctx=_LOAD)
        return self.places.put(new, self.places.inner(node))

    def _list(self, node: cst.List) -> ast.expr:
        new = ast.List(elts=[self.expression(one) for one in node.elements], ctx=_LOAD)
        return self.places.put(new, self.places.of(node))

    def _set(self, node: cst.Set) -> ast.expr:
        new = ast.Set(elts=[self.expression(one) for one in node.elements])
        return self.places.put(new, self.places.of(node))

    def _element(self, node: cst.Element) -> ast.expr:
        return self.expression(node.value)

    def _starred(self, node: cst.StarredElement) -> ast.expr:
        new = ast.Starred(value=self.expression(node.value), ctx=_LOAD)
        line, column = self.places.of(node)[:2]
        return self.places.put(new, (line, column, *self.places.outer(node.value)[2:]))

    def _dict(self, node: cst.Dict) -> ast.expr:
        keys = [
            self.expression(one.key) if isinstance(one, cst.DictElement) else None
            for one in node.elements
        ]
        values = [self.expression(one.value) for one in node.elements]
        return self.places.put(ast.Dict(keys=keys, values=values), self.places.of(node))

    def _generator(self, node: cst.GeneratorExp) -> ast.expr:
        element, clauses = self.expression(node.elt), self._clauses(node.for_in)
        new = ast.GeneratorExp(elt=element, generators=clauses)
        return self.places.put(new, self.places.inner(node))

    def _list_comprehension(self, node: cst.ListComp) -> ast.expr:
        element, clauses = self.expression(node.elt), self._clauses(node.for_in)
        new = ast.ListComp(elt=element, generators=clauses)
        return self.places.put(new, self.places.of(node))

    def _set_comprehension(self, node: cst.SetComp) -> ast.expr:
        element, clauses = self.expression(node.elt), self._clauses(node.for_in)
        return self.places.put(ast.SetComp(elt=element, generators=clauses), self.places.of(node))

    def _dict_comprehension(self, node: cst.DictComp) -> ast.expr:
        key, value = self.expression(node.key), self.expression(node.value)
        new = ast.DictComp(key=key, value=value, generators=self._clauses(node.for_in))
        return self.places.put(new, self.places.of(node))

    def _clauses(self, node: cst.CompFor) -> list[ast.comprehension]:
        clauses: list[ast.comprehension] = []
        following: cst.CompFor | None = node
        while following is not None:
            clause = ast.comprehension(
                target=self.target(following.target),
                iter=self.expression(following.iter),
                ifs=[self.expression(one.test) for one in following.ifs],
                is_async=int(following.asynchronous is not None),
            )
            clauses.append(clause)
            following = following.inner_for_in
        return clauses


def _extent(node: ast.expr) -> Extent:
    end_line, end_column = node.end_lineno, node.end_col_offset
    assert end_line is not None
    assert end_column is not None
    return (node.lineno, node.col_offset, end_line, end_column)


def _in_context(root: ast.expr, context: ast.expr_context) -> ast.expr:
    """The same expression with what is assigned in a context; what an access reads stays loaded."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            node.ctx = context
        elif isinstance(node, (ast.Tuple, ast.List)):
            node.ctx = context
            waiting += node.elts
        elif isinstance(node, ast.Starred):
            node.ctx = context
            waiting.append(node.value)
    return root


_Convert = Callable[[ExpressionReader, Any], ast.expr]
_EXPRESSIONS: dict[type[cst.CSTNode], _Convert] = {
    cst.Name: ExpressionReader._name,
    cst.Ellipsis: ExpressionReader._ellipsis,
    cst.Integer: ExpressionReader._number,
    cst.Float: ExpressionReader._number,
    cst.Imaginary: ExpressionReader._number,
    cst.SimpleString: ExpressionReader.string,
    cst.FormattedString: ExpressionReader.string,
    cst.TemplatedString: ExpressionReader.string,
    cst.ConcatenatedString: ExpressionReader.string,
    cst.Attribute: ExpressionReader._attribute,
    cst.Subscript: ExpressionReader._subscript,
    cst.Call: ExpressionReader._call,
    cst.Lambda: ExpressionReader._lambda,
    cst.UnaryOperation: ExpressionReader._unary,
    cst.BinaryOperation: ExpressionReader._binary,
    cst.BooleanOperation: ExpressionReader._boolean,
    cst.Comparison: ExpressionReader._comparison,
    cst.IfExp: ExpressionReader._conditional,
    cst.NamedExpr: ExpressionReader._named,
    cst.Await: ExpressionReader._await,
    cst.Yield: ExpressionReader._yield,
    cst.Tuple: ExpressionReader._tuple,
    cst.List: ExpressionReader._list,
    cst.Set: ExpressionReader._set,
    cst.Dict: ExpressionReader._dict,
    cst.Element: ExpressionReader._element,
    cst.StarredElement: ExpressionReader._starred,
    cst.GeneratorExp: ExpressionReader._generator,
    cst.ListComp: ExpressionReader._list_comprehension,
    cst.SetComp: ExpressionReader._set_comprehension,
    cst.DictComp: ExpressionReader._dict_comprehension,
}

"""libcst statements as `ast` statements."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import libcst as cst

from extractors.syntax.expressions import identifier
from extractors.syntax.operators import AUGMENTED
from extractors.syntax.patterns import PatternReader
from extractors.syntax.places import Extent


class StatementReader(PatternReader):
    """Converts the statements of one file."""

    def block(self, body: Iterable[cst.CSTNode]) -> list[ast.stmt]:
        """Statements one after another; those that share a line count one by one."""
        found: list[ast.stmt] = []
        for node in body:
            if isinstance(node, cst.SimpleStatementLine):
                found += [self._statement(small) for small in node.body]
            else:
                found.append(self._statement(node))
        return found

    def suite(self, node: cst.BaseSuite) -> list[ast.stmt]:
        """The body of a compound statement."""
        return self.block(node.body)

    def _statement(self, node: cst.CSTNode) -> ast.stmt:
        convert = _STATEMENTS.get(type(node))
        if convert is None:
            hint = "Remove it, or read the file with a newer tilelore."
            raise self.places.problem(node, f"Statement `{type(node).__name__}` is not read.", hint)
        return convert(self, node)

    def _small(self, new: ast.stmt, node: cst.CSTNode) -> ast.stmt:
        return self.places.put(new, self.places.of(node))

    def _compound(self, new: ast.stmt, node: cst.CSTNode, last: Sequence[ast.AST]) -> ast.stmt:
        """Place a statement that ends where its last part ends."""
        return self.places.put(new, self._until(node, last))

    def _until(self, node: cst.CSTNode, last: Sequence[ast.AST]) -> Extent:
        line, column = self.places.of(node)[:2]
        final: Any = last[-1]
        return (line, column, final.end_lineno, final.end_col_offset)

    # -- simple statements -------------------------------------------------------------------

    def _on_expr(self, node: cst.Expr) -> ast.stmt:
        return self._small(ast.Expr(value=self.expression(node.value)), node)

    def _on_pass(self, node: cst.Pass) -> ast.stmt:
        return self._small(ast.Pass(), node)

    def _on_break(self, node: cst.Break) -> ast.stmt:
        return self._small(ast.Break(), node)

    def _on_continue(self, node: cst.Continue) -> ast.stmt:
        return self._small(ast.Continue(), node)

    def _on_return(self, node: cst.Return) -> ast.stmt:
        return self._small(ast.Return(value=self.optional(node.value)), node)

    def _on_raise(self, node: cst.Raise) -> ast.stmt:
        cause = None if node.cause is None else node.cause.item
        new = ast.Raise(exc=self.optional(node.exc), cause=self.optional(cause))
        return self._small(new, node)

    def _on_assert(self, node: cst.Assert) -> ast.stmt:
        new = ast.Assert(test=self.expression(node.test), msg=self.optional(node.msg))
        return self._small(new, node)

    def _on_delete(self, node: cst.Del) -> ast.stmt:
        target = node.target
        if isinstance(target, cst.Tuple) and not target.lpar:
            targets = [self.deleted(one) for one in target.elements]
        else:
            targets = [self.deleted(target)]
        return self._small(ast.Delete(targets=targets), node)

    def _on_global(self, node: cst.Global) -> ast.stmt:
        return self._small(ast.Global(names=[identifier(one.name) for one in node.names]), node)

    def _on_nonlocal(self, node: cst.Nonlocal) -> ast.stmt:
        return self._small(ast.Nonlocal(names=[identifier(one.name) for one in node.names]), node)

    def _on_assign(self, node: cst.Assign) -> ast.stmt:
        targets = [self.target(one.target) for one in node.targets]
        value = self.expression(node.value)
        return self._small(ast.Assign(targets=targets, value=value, type_comment=None), node)

    def _on_annotated(self, node: cst.AnnAssign) -> ast.stmt:
        target: Any = self.target(node.target)
        simple = int(isinstance(node.target, cst.Name) and not node.target.lpar)
        note = self.expression(node.annotation.annotation)
        value = self.optional(node.value)
        new = ast.AnnAssign(target=target, annotation=note, value=value, simple=simple)
        return self._small(new, node)

    def _on_augmented(self, node: cst.AugAssign) -> ast.stmt:
        target: Any = self.target(node.target)
        operator = AUGMENTED[type(node.operator)]()
        new = ast.AugAssign(target=target, op=operator, value=self.expression(node.value))
        return self._small(new, node)

    def _on_type_alias(self, node: cst.TypeAlias) -> ast.stmt:
        """`type X = T` binds X, so it reads as an assignment; its type parameters are left out."""
        target, value = self.target(node.name), self.expression(node.value)
        return self._small(ast.Assign(targets=[target], value=value, type_comment=None), node)

    # -- imports -----------------------------------------------------------------------------

    def _on_import(self, node: cst.Import | cst.LazyImport) -> ast.stmt:
        return self._small(ast.Import(names=[self._alias(one) for one in node.names]), node)

    def _on_import_from(self, node: cst.ImportFrom | cst.LazyImportFrom) -> ast.stmt:
        if isinstance(node.names, cst.ImportStar):
            names = [self.places.put(ast.alias(name="*", asname=None), self.places.of(node.names))]
        else:
            names = [self._alias(one) for one in node.names]
        module = None if node.module is None else _dotted(node.module)
        new = ast.ImportFrom(module=module, names=names, level=len(node.relative))
        return self._small(new, node)

    def _alias(self, node: cst.ImportAlias) -> ast.alias:
        place = self.places.of(node.name)
        asname: str | None = None
        if node.asname is not None:
            assert isinstance(node.asname.name, cst.Name)
            asname = identifier(node.asname.name)
            place = (*place[:2], *self.places.of(node.asname.name)[2:])
        return self.places.put(ast.alias(name=_dotted(node.name), asname=asname), place)

    # -- definitions -------------------------------------------------------------------------

    def _on_function(self, node: cst.FunctionDef) -> ast.stmt:
        make: Any = ast.FunctionDef if node.asynchronous is None else ast.AsyncFunctionDef
        body = self.suite(node.body)
        new = make(
            name=identifier(node.name),
            args=self.parameters(node.params),
            body=body,
            decorator_list=[self.expression(one.decorator) for one in node.decorators],
            returns=self.optional(None if node.returns is None else node.returns.annotation),
            type_comment=None,
        )
        return self._compound(_without_type_parameters(new), node, body)

    def _on_class(self, node: cst.ClassDef) -> ast.stmt:
        body = self.suite(node.body)
        bases, keywords = self.arguments((*node.bases, *node.keywords))
        decorators = [self.expression(one.decorator) for one in node.decorators]
        new = ast.ClassDef(
            name=identifier(node.name),
            bases=bases,
            keywords=keywords,
            body=body,
            decorator_list=decorators,
        )
        return self._compound(_without_type_parameters(new), node, body)

    # -- control flow ------------------------------------------------------------------------

    def _on_if(self, node: cst.If) -> ast.stmt:
        """An `if` with its `elif` branches, from the last to the first."""
        chain = [node]
        while isinstance(chain[-1].orelse, cst.If):
            chain.append(chain[-1].orelse)
        rest = self._else(chain[-1].orelse)
        for branch in reversed(chain):
            body = self.suite(branch.body)
            new = ast.If(test=self.expression(branch.test), body=body, orelse=rest)
            rest = [self._compound(new, branch, rest or body)]
        return rest[0]

    def _else(self, node: cst.CSTNode | None) -> list[ast.stmt]:
        return self.suite(node.body) if isinstance(node, (cst.Else, cst.Finally)) else []

    def _on_for(self, node: cst.For) -> ast.stmt:
        make: Any = ast.For if node.asynchronous is None else ast.AsyncFor
        body, orelse = self.suite(node.body), self._else(node.orelse)
        target, source = self.target(node.target), self.expression(node.iter)
        new = make(target=target, iter=source, body=body, orelse=orelse, type_comment=None)
        return self._compound(new, node, orelse or body)

    def _on_while(self, node: cst.While) -> ast.stmt:
        body, orelse = self.suite(node.body), self._else(node.orelse)
        new = ast.While(test=self.expression(node.test), body=body, orelse=orelse)
        return self._compound(new, node, orelse or body)

    def _on_with(self, node: cst.With) -> ast.stmt:
        make: Any = ast.With if node.asynchronous is None else ast.AsyncWith
        items = [
            ast.withitem(
                context_expr=self.expression(one.item),
                optional_vars=None if one.asname is None else self.target(one.asname.name),
            )
            for one in node.items
        ]
        body = self.suite(node.body)
        return self._compound(make(items=items, body=body, type_comment=None), node, body)

    def _on_try(self, node: cst.Try | cst.TryStar) -> ast.stmt:
        make: Any = ast.Try if isinstance(node, cst.Try) else ast.TryStar
        body, handlers = self.suite(node.body), [self._handler(one) for one in node.handlers]
        orelse, final = self._else(node.orelse), self._else(node.finalbody)
        new = make(body=body, handlers=handlers, orelse=orelse, finalbody=final)
        return self._compound(new, node, final or orelse or handlers)

    def _handler(self, node: cst.ExceptHandler | cst.ExceptStarHandler) -> ast.excepthandler:
        name = None if node.name is None else node.name.name
        body = self.suite(node.body)
        new = ast.ExceptHandler(
            type=self.optional(node.type),
            name=identifier(name) if isinstance(name, cst.Name) else None,
            body=body,
        )
        return self.places.put(new, self._until(node, body))

    def _on_match(self, node: cst.Match) -> ast.stmt:
        cases = [
            ast.match_case(
                pattern=self.pattern(one.pattern),
                guard=self.optional(one.guard),
                body=self.suite(one.body),
            )
            for one in node.cases
        ]
        new = ast.Match(subject=self.expression(node.subject), cases=cases)
        return self._compound(new, node, cases[-1].body)


def _without_type_parameters(new: Any) -> ast.stmt:
    """`def f[T](): ...` reads as `def f(): ...`; the field stays empty."""
    if sys.version_info >= (3, 12):
        new.type_params = []
    made: ast.stmt = new
    return made


def _dotted(node: cst.BaseExpression) -> str:
    """`a.b.c` as text."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(identifier(node.attr))
        node = node.value
    assert isinstance(node, cst.Name)
    return ".".join([identifier(node), *reversed(parts)])


_STATEMENTS: dict[type[cst.CSTNode], Callable[[StatementReader, Any], ast.stmt]] = {
    cst.Expr: StatementReader._on_expr,
    cst.Pass: StatementReader._on_pass,
    cst.Break: StatementReader._on_break,
    cst.Continue: StatementReader._on_continue,
    cst.Return: StatementReader._on_return,
    cst.Raise: StatementReader._on_raise,
    cst.Assert: StatementReader._on_assert,
    cst.Del: StatementReader._on_delete,
    cst.Global: StatementReader._on_global,
    cst.Nonlocal: StatementReader._on_nonlocal,
    cst.Assign: StatementReader._on_assign,
    cst.AnnAssign: StatementReader._on_annotated,
    cst.AugAssign: StatementReader._on_augmented,
    cst.TypeAlias: StatementReader._on_type_alias,
    cst.Import: StatementReader._on_import,
    cst.LazyImport: StatementReader._on_import,
    cst.ImportFrom: StatementReader._on_import_from,
    cst.LazyImportFrom: StatementReader._on_import_from,
    cst.FunctionDef: StatementReader._on_function,
    cst.ClassDef: StatementReader._on_class,
    cst.If: StatementReader._on_if,
    cst.For: StatementReader._on_for,
    cst.While: StatementReader._on_while,
    cst.With: StatementReader._on_with,
    cst.Try: StatementReader._on_try,
    cst.TryStar: StatementReader._on_try,
    cst.Match: StatementReader._on_match,
}

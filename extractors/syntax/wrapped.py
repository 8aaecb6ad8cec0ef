"""Functions that a later statement wraps, written as functions under decorators.

`f = wrap(f, option=1)` after `def f` means what `@wrap(option=1)` above it means; with
`f = outer(wrap(f))` there are two. Later rooms then see one form. The Python Language Reference
defines the second form by the first.
"""

from __future__ import annotations

import ast


def decorated(tree: ast.Module) -> ast.Module:
    """The module with every such statement of its top level as a decorator, innermost last.

    A decorator keeps the place of the call that it was. The module itself when nothing is wrapped;
    it is not changed.
    """
    body: list[ast.stmt] = []
    defined: dict[str, int] = {}
    changed = False
    for statement in tree.body:
        name, marks = _wrapping(statement)
        if marks and name in defined:
            body[defined[name]] = _under(body[defined[name]], marks)
            changed = True
            continue
        for bound in _binds(statement):
            defined.pop(bound, None)
        if isinstance(statement, ast.FunctionDef):
            defined[statement.name] = len(body)
        body.append(statement)
    return ast.Module(body=body, type_ignores=tree.type_ignores) if changed else tree


def _wrapping(statement: ast.stmt) -> tuple[str, list[ast.expr]]:
    """The name that a statement sets to calls around itself, with these calls as decorators, the
    outermost first."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return "", []
    target, value = statement.targets[0], statement.value
    marks: list[ast.expr] = []
    while isinstance(value, ast.Call) and len(value.args) == 1:
        marks.append(_mark(value))
        value = value.args[0]
    same = isinstance(target, ast.Name) and isinstance(value, ast.Name) and target.id == value.id
    return (target.id, marks) if isinstance(target, ast.Name) and same else ("", [])


def _mark(call: ast.Call) -> ast.expr:
    """What is called, with the other arguments of the call."""
    if not call.keywords:
        return call.func
    return ast.copy_location(ast.Call(func=call.func, args=[], keywords=call.keywords), call)


def _under(function: ast.stmt, marks: list[ast.expr]) -> ast.stmt:
    """A function with more decorators above those that it has."""
    assert isinstance(function, ast.FunctionDef)
    fields = {name: getattr(function, name) for name in function._fields}
    new = ast.FunctionDef(**fields | {"decorator_list": [*marks, *function.decorator_list]})
    return ast.copy_location(new, function)


def _binds(statement: ast.stmt) -> list[str]:
    """Names of the top level that a statement may bind, in its own branches, too."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    return [
        node.id if isinstance(node, ast.Name) else node.name
        for node in ast.walk(statement)
        if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]

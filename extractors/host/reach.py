"""Which definitions of a module may lead to a launch, told by names before anything is evaluated.

A name leads on to every name in its definition. Where that cannot be told it leads to more than it
may: what stands in a statement of the module leads to all of it, a decorator to what it decorates,
a table that functions fill to each function that names it. What other packages give leads nowhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.values import Frame, Func
from extractors.syntax.nodes import children, each, walk

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_AROUND = (ast.mod, ast.If, ast.Try, ast.With, ast.excepthandler)
"""What statements of a module stand in."""

_NAMING = {
    ast.Name: "id", ast.Attribute: "attr", ast.Constant: "value",
    **dict.fromkeys(_DEFINITIONS, "name"),
}  # fmt: skip
"""Fields that name something; a constant that is no text is no name, and leads nowhere."""


def leads(func: Func, leading: set[str]) -> bool:
    """Whether a function, or one of the functions and classes that it stands in, is among the
    leading names; a lambda may be meant anywhere."""
    frame: Frame | None = func.frame
    found = isinstance(func.node, ast.Lambda) or func.name in leading
    while frame is not None and not found:
        found, frame = frame.function in leading, frame.parent
    return found


def leading_to(
    module: ast.Module, kernels: Iterable[str], *, package: str, tables: frozenset[str]
) -> set[str]:
    """Names that may lead to one of the kernels.

    `package` is the top package of the module; `tables` are names whose contents functions change.
    """
    statements = list(_statements(module))
    plain = [node for node in statements if not isinstance(node, _DEFINITIONS)]
    tables &= {one.id for node in plain for one in each(node, ast.Name)}
    behind: dict[str, set[str]] = {}
    for name, inside in _links(statements, tables):
        for one in inside:
            behind.setdefault(one, set()).add(name)
    ends = {name for node in statements for name in _of_libraries(node, package)}
    found: set[str] = set()
    pending = list(kernels)
    while pending:
        name = pending.pop()
        if name not in found and name not in ends:
            found.add(name)
            pending.extend(behind.get(name, ()))
    return found


def _statements(module: ast.Module) -> Iterator[ast.AST]:
    pending: list[ast.AST] = [module]
    while pending:
        node = pending.pop()
        if isinstance(node, _AROUND):
            pending.extend(children(node))
        else:
            yield node


def _of_libraries(node: ast.AST, package: str) -> Iterator[str]:
    """Names that an import takes from another package."""
    if isinstance(node, ast.Import):
        rows = [(alias.asname or alias.name.partition(".")[0], alias.name) for alias in node.names]
        yield from (name for name, path in rows if path.partition(".")[0] != package)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        if (node.module or "").partition(".")[0] != package:
            yield from (alias.asname or alias.name for alias in node.names)


def _links(statements: Iterable[ast.AST], tables: frozenset[str]) -> Iterator[tuple[str, set[str]]]:
    """Names, each with names that it leads to."""
    for node in statements:
        nodes = walk(node)
        inside = _names(nodes)
        if isinstance(node, _DEFINITIONS):
            yield node.name, inside
            above = {*map(_base, node.decorator_list), *(tables & inside)}
            yield from ((name, {node.name}) for name in above)
        else:
            yield from ((one.id, inside) for one in each(node, ast.Name))


def _base(decorator: ast.expr) -> str:
    """The name that a decorator begins with."""
    while isinstance(decorator, ast.Call | ast.Attribute | ast.Subscript):
        decorator = decorator.func if isinstance(decorator, ast.Call) else decorator.value
    return decorator.id if isinstance(decorator, ast.Name) else ""


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    """Names, attributes, definitions, and texts that may be names."""
    return {getattr(node, field) for node in nodes if (field := _NAMING.get(type(node)))}

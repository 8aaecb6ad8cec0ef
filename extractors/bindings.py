"""Names that the body of a module binds, in its order; nothing is run and nothing is loaded."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from extractors.constants import environment_default
from extractors.modules import ModuleText, absolute_import

Binding = ast.FunctionDef | ast.ClassDef | ast.expr | tuple[str, str | None]
"""A definition, a value, or an import: the module and its member, None for the module itself."""

Known = Callable[[ast.expr], bool | None]
"""What else is known about a test; None when nothing is."""

STAR = "*"
"""The name under which `from module import *` is told."""


def bindings(
    body: Iterable[ast.stmt], module: ModuleText, known: Known, main: bool = True
) -> Iterator[tuple[str, Binding, bool]]:
    """Names bound at module level; the last part says whether it is the one that a plain NVIDIA
    machine sees, or an alternative to it.
    """
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.ClassDef():
                yield statement.name, statement, main
            case ast.Import():
                for alias in statement.names:
                    top = alias.name.partition(".")[0]
                    target = (alias.name, None) if alias.asname else (top, None)
                    yield alias.asname or top, target, main
            case ast.ImportFrom():
                base = absolute_import(statement, module)
                for alias in statement.names:
                    yield alias.asname or alias.name, (base, alias.name), main
            case ast.Assign(value=value):
                for target_ in statement.targets:
                    if isinstance(target_, ast.Name):
                        yield target_.id, value, main
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value, main
            case ast.If(body=then, orelse=orelse):
                taken = truth(statement.test, known)
                first, second = (then, orelse) if taken or not orelse else (orelse, then)
                seen = main and not (taken is False and first is then)
                yield from bindings(first, module, known, seen)
                if taken is None:
                    yield from bindings(second, module, known, False)
            case ast.Try(body=tried, handlers=handlers):
                yield from bindings(tried, module, known, main)
                for handler in handlers:
                    yield from bindings(handler.body, module, known, False)
            case ast.With(body=inner):
                yield from bindings(inner, module, known, main)


def truth(test: ast.expr, known: Known) -> bool | None:
    """Whether a test holds; None when that is not known."""
    match test:
        case ast.Constant():
            return bool(test.value)
        case ast.UnaryOp(op=ast.Not()):
            inner = truth(test.operand, known)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            sides = [truth(value, known) for value in values]
            decides = isinstance(op, ast.Or)
            if decides in sides:
                return decides
            return None if None in sides else not decides
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            first, second = environment_default(left), environment_default(right)
            if first is not None and second is not None:
                return first == second
    return known(test)


def exported(tree: ast.Module, names: Iterable[str]) -> frozenset[str]:
    """What `from module import *` gives, of all names that a module binds: those that `__all__`
    lists as text, else those without a leading underscore."""
    listed: list[ast.expr] = []
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                listed = [value]
            case ast.AugAssign(target=ast.Name(id="__all__"), op=ast.Add(), value=value):
                listed.append(value)
    texts = [_texts(value) for value in listed]
    if texts and None not in texts:
        return frozenset(name for some in texts for name in some or ())
    return frozenset(name for name in names if not name.startswith("_"))


def _texts(value: ast.expr) -> list[str] | None:
    """The strings of a list or tuple of strings; None when it is something else."""
    match value:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _texts(left), _texts(right)
            return None if first is None or second is None else [*first, *second]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            found = [i.value for i in items if isinstance(i, ast.Constant)]
            texts = [text for text in found if isinstance(text, str)]
            return texts if len(texts) == len(items) else None
    return None

"""read(source) -> kernels: every kernel of a module as a tile program. The source is data and never
runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from extractors.expressions import ExpressionReader, Helpers
from extractors.modules import ModuleLoader, ModuleText, NoModules
from extractors.natives import normal_path
from extractors.opaque import opaque_notes
from extractors.scope import Expression, Local, Modules, Native, Scope
from extractors.statements import StatementReader
from extractors.syntax.nodes import each
from extractors.writer import RegionWriter
from kb.dialects.model import Dialect
from kb.dialects.registry import DIALECTS
from kb.errors import InputError, SyntaxProblem
from kb.evidence import Diagnostic, Severity
from kb.ir import Function, Kernel, Literal, Parameter, ParameterKind, Span

MAX_HELPERS = 200
_PYTHON_TYPES = {"int", "float", "bool", "str"}


@dataclass(frozen=True, slots=True)
class ReadModule:
    """What one file holds: its kernels, its syntax tree for the host reader, and what was not
    understood."""

    module: ModuleText
    tree: ast.Module
    scope: Scope
    kernels: tuple[Kernel, ...]
    diagnostics: tuple[Diagnostic, ...]


def read(module: ModuleText, loader: ModuleLoader | None = None) -> ReadModule:
    """Every kernel of a module.

    Raises SyntaxProblem when the text is not Python, InputError when it exceeds a bound.
    """
    modules = Modules(loader or NoModules())
    try:
        scope = modules.open(module)
        kernels = tuple(_kernels(scope))
    except RecursionError:
        raise SyntaxProblem(
            "expressions nest too deeply.", where=module.path, hint="Split the expression."
        ) from None
    notes = tuple(
        note for kernel in kernels for note in opaque_notes(kernel, DIALECTS[kernel.dialect].file)
    )
    if not kernels:
        known = ", ".join(sorted(DIALECTS))
        note = Diagnostic(
            severity=Severity.NOTE,
            message=f"no kernel of a known dialect ({known}) is defined here.",
            hint="A kernel is a function under a kernel decorator such as ct.kernel or triton.jit.",
        )
        notes = (note, *notes)
    notes = (*_assumptions(scope), *notes)
    return ReadModule(module, scope.tree, scope, kernels, notes)


def _assumptions(scope: Scope) -> Iterator[Diagnostic]:
    """One note for each name that was taken for a library's because its module is not here."""
    for name, library in sorted(scope.assumed.items()):
        yield Diagnostic(
            severity=Severity.NOTE,
            message=f"`{name}` is taken for `{library}`: its module is not beside this file.",
            hint="Read the package's folder to have it looked up.",
        )


def _kernels(scope: Scope) -> Iterator[Kernel]:
    marked = [
        found for node in each(scope.tree, ast.FunctionDef) if (found := _marked(node, scope))
    ]
    called = set().union(*(_called(node, scope) for node, _ in marked)) if marked else set()
    for node, dialect in marked:
        helper = node in called or _returns_value(node)
        if not (dialect.marks_helpers and helper):
            yield ProgramReader(dialect).kernel(scope, node)


def _marked(node: ast.FunctionDef, scope: Scope) -> tuple[ast.FunctionDef, Dialect] | None:
    """The function with its dialect when one of its decorators marks a kernel."""
    for decorator in node.decorator_list:
        path = _path(decorator.func if isinstance(decorator, ast.Call) else decorator, scope)
        for dialect in DIALECTS.values():
            if path in dialect.kernel_decorators:
                return node, dialect
    return None


def _path(node: ast.expr, scope: Scope) -> str:
    meaning = scope.resolve(node)
    return normal_path(meaning.path) if isinstance(meaning, Native) else ""


def _called(node: ast.FunctionDef, scope: Scope) -> set[ast.FunctionDef]:
    """Functions of the module that the body of `node` calls or hands on."""
    found: set[ast.FunctionDef] = set()
    for inner in each(node, ast.Name):
        if isinstance(inner.ctx, ast.Load):
            meaning = scope.lookup(inner.id)
            if isinstance(meaning, Local) and meaning.node is not node:
                found.add(meaning.node)
    return found


def _returns_value(node: ast.FunctionDef) -> bool:
    return any(inner.value is not None for inner in each(node, ast.Return))


@dataclass(eq=False)
class ProgramReader(Helpers):
    """Reads one kernel with the helpers that it reaches."""

    dialect: Dialect
    functions: dict[str, Function] = field(default_factory=dict)
    _names: dict[ast.FunctionDef, str] = field(default_factory=dict)

    def kernel(self, scope: Scope, node: ast.FunctionDef) -> Kernel:
        """The program whose entry is `node`."""
        entry = self._function(scope, node, node.name)
        return Kernel(entry, tuple(self.functions.values()), self.dialect.name)

    def request(self, function: Local) -> str:
        """Name of a helper, read on first request."""
        node = function.node
        if node in self._names:
            return self._names[node]
        if len(self._names) >= MAX_HELPERS:
            raise InputError(
                f"a kernel reaches more than {MAX_HELPERS} helpers.",
                where=f"{function.scope.module.path}:{node.lineno}",
                hint="Read a smaller program.",
            )
        name = node.name
        while name in self._names.values():
            name += "_"
        self._names[node] = name
        self.functions[name] = self._function(function.scope, node, name)
        return name

    def parameters(self, name: str) -> tuple[str, ...] | None:
        """Parameter names of a helper that has been read."""
        found = self.functions.get(name)
        return found.parameter_names if found else None

    def _function(self, scope: Scope, node: ast.FunctionDef, name: str) -> Function:
        writer = RegionWriter(scope.module.path)
        reader = ExpressionReader(writer, scope, self.dialect, self)
        parameters = tuple(self._parameters(scope, node))
        reader.names.update({p.name: p.name for p in parameters})
        reader.kinds.update({p.name: p.kind for p in parameters})
        body = StatementReader(reader).function_body(node.body, node)
        options, decorated = self._options(scope, node)
        return Function(name, parameters, body, writer.span(node), options, decorated)

    def _parameters(self, scope: Scope, node: ast.FunctionDef) -> Iterator[Parameter]:
        positional = [*node.args.posonlyargs, *node.args.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(node.args.defaults))
        pairs = list(zip(positional, [*defaults, *node.args.defaults], strict=True))
        pairs += list(zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True))
        for argument, default in pairs:
            kind, annotation = self._annotation(scope, argument.annotation)
            value = scope.evaluate(default) if default is not None else None
            plain: Literal = value if isinstance(value, int | float | str | bool) else None
            line, end = argument.lineno, argument.end_lineno or argument.lineno
            span = Span(line, argument.col_offset, end, scope.module.path)
            yield Parameter(argument.arg, kind, annotation, plain, default is not None, span)

    def _annotation(self, scope: Scope, node: ast.expr | None) -> tuple[ParameterKind, str]:
        """Kind of a parameter, and the scalar type that its annotation names."""
        if node is None:
            return ParameterKind.UNTOLD, ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self._written(node.value)
        base, inner = (node.value, node.slice) if isinstance(node, ast.Subscript) else (node, None)
        builtin = isinstance(base, ast.Name) and base.id in _PYTHON_TYPES
        if isinstance(base, ast.Name) and builtin and not scope.binds(base.id):
            return ParameterKind.SCALAR, base.id
        meaning = scope.resolve(base)
        if isinstance(meaning, Expression):
            return self._annotation(meaning.scope, meaning.node)
        if isinstance(meaning, Native):
            path = normal_path(meaning.path)
            if path in self.dialect.constexpr_annotations:
                name = inner.id if isinstance(inner, ast.Name) else ""
                return ParameterKind.CONSTEXPR, name
            if path in self.dialect.dtypes:
                return ParameterKind.UNTOLD, self.dialect.dtypes[path]
            if path.endswith(".IndexedWithInt64"):
                return ParameterKind.ARRAY, "indexed_i64"
        return ParameterKind.UNTOLD, ""

    def _written(self, text: str) -> tuple[ParameterKind, str]:
        """An annotation in quotes names a type of the dialect by its own short word."""
        if text in {"constexpr", "tl.constexpr"}:
            return ParameterKind.CONSTEXPR, ""
        return ParameterKind.UNTOLD, ""

    def _options(
        self, scope: Scope, node: ast.FunctionDef
    ) -> tuple[tuple[tuple[str, Literal], ...], bool]:
        """Arguments of the decorator that makes this a kernel or a helper."""
        marks = self.dialect.kernel_decorators | self.dialect.helper_decorators
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            if _path(call.func if call else decorator, scope) in marks:
                return tuple(_option(scope, k) for k in (call.keywords if call else ())), True
        for decorator in node.decorator_list:
            path = _path(decorator, scope)
            if path.startswith(self.dialect.module.partition(".")[0]):
                return (("decorator", path),), False
        return (), False


def _option(scope: Scope, keyword: ast.keyword) -> tuple[str, Literal]:
    """A decorator argument; one that is not a constant keeps its expression in normal form."""
    node = scope.chosen(keyword.value)
    value = scope.evaluate(node)
    if isinstance(value, int | float | bool | str):
        return str(keyword.arg), value
    if isinstance(node, ast.Call):
        pairs = (f"{k.arg}={scope.evaluate(k.value)}" for k in node.keywords)
        return str(keyword.arg), f"by_target({', '.join(pairs)})"
    if isinstance(node, ast.List | ast.Tuple):
        names = [str(scope.evaluate(item)) for item in node.elts]
        return str(keyword.arg), f"names({', '.join(names)})"
    return str(keyword.arg), None

"""Lift one kernel out of its module: the function, its helpers, literal constants and native
imports, nothing else.

The lifted text is what `verify` compiles as the original. No host code, no docstring, no comment,
no torch.
Names are looked up exactly as the reader looks them up, so both sides see the same helpers and
constants.
"""

from __future__ import annotations

import ast
import builtins
import copy
import math
from dataclasses import dataclass, field

from extractors.natives import normal_path
from extractors.read import ReadModule
from extractors.scope import Constant, Expression, Local, Meaning, Native, Scope
from extractors.syntax.builtin_parser import python_expression
from kb.dialects.model import Dialect
from kb.dialects.registry import dialect as dialect_named
from kb.errors import InputError
from kb.ir import Kernel

MAX_FUNCTIONS = 400
_SHORT = {
    "cuda.tile": ("ct", "import cuda.tile as ct"),
    "triton.language": ("tl", "import triton.language as tl"),
    "triton": ("triton", "import triton"),
    "math": ("math", "import math"),
}
"""Modules that keep their usual alias; a member of any other module is imported by its own name."""

_ATTRIBUTES = frozenset({"math", "core", "standard"})
"""Inner modules whose members are written as attributes: Triton refuses some of them as names."""

_ROOTS = frozenset({"cuda", "triton", "math"})
"""First parts of the native modules that lifted text may import."""

_PYTHON_TYPES = frozenset({"int", "float", "bool", "str", "tuple"})
_NODES = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Call,
    ast.BinOp, ast.UnaryOp, ast.keyword, ast.expr_context, ast.operator, ast.unaryop,
)  # fmt: skip
"""What a module-level expression may be made of to be lifted."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """A self-contained module with one kernel; `missing` are names that nothing literal stands
    behind.
    """

    text: str
    kernel: str
    missing: tuple[str, ...] = ()


def lift(module: ReadModule, kernel: Kernel) -> Lifted:
    """The source of `kernel` with all that it reaches.

    Raises InputError when the module does not define the kernel, or when it reaches too many
    functions.
    """
    node = _definition(module, kernel)
    lifter = _Lifter(dialect_named(kernel.dialect))
    name = lifter.function(module.scope, node)
    return Lifted(lifter.text(), name, tuple(sorted(lifter.missing)))


def _definition(module: ReadModule, kernel: Kernel) -> ast.FunctionDef:
    line = kernel.entry.span.line
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef) and node.name == kernel.name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= line <= (node.end_lineno or node.lineno):
                return node
    raise InputError(
        f"no function {kernel.name!r} is defined at line {line}.",
        where=module.module.path,
        hint="Read the module again.",
    )


@dataclass(eq=False)
class _Lifter:
    """Collects the parts of one lifted module, each under one module-level name."""

    dialect: Dialect
    missing: set[str] = field(default_factory=set)
    _imports: dict[str, str] = field(default_factory=dict)
    _values: dict[str, str] = field(default_factory=dict)
    _functions: dict[str, str] = field(default_factory=dict)
    _names: dict[object, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def text(self) -> str:
        """The module: imports, constants, helpers in order of completion, the kernel last."""
        heads = sorted(set(self._imports.values()))
        values = [f"{name} = {value}" for name, value in self._values.items()]
        return "\n".join([*heads, "", *values, "", "\n\n\n".join(self._functions.values()), ""])

    def function(self, scope: Scope, node: ast.FunctionDef) -> str:
        """Module-level name of a function, lifted on first request."""
        if node in self._names:
            return self._names[node]
        if len(self._functions) >= MAX_FUNCTIONS:
            raise InputError(
                f"a kernel reaches more than {MAX_FUNCTIONS} functions.",
                where=f"{scope.module.path}:{node.lineno}",
                hint="Verify a smaller program.",
            )
        name = self._claim(node, node.name, frozenset())
        lifted = copy.deepcopy(node)
        lifted.name = name
        lifted.returns = None
        lifted.decorator_list = self._decorators(scope, node)
        rename = _Rename(self, scope, _local_names(node))
        rename.signature(lifted)
        lifted.body = [rename.visit(statement) for statement in _without_docstring(lifted.body)]
        self._functions[name] = ast.unparse(ast.fix_missing_locations(lifted))
        return name

    def name(
        self, node: ast.expr, meaning: Meaning | None, locals_: frozenset[str]
    ) -> ast.expr | None:
        """What to write in the lifted module for an outer name; None when it cannot be lifted."""
        match meaning:
            case Native(path):
                return self._native(normal_path(path), locals_)
            case Constant(value):
                return self._constant(node, value, locals_)
            case Local(scope, function):
                return ast.Name(self.function(scope, function), ast.Load())
            case Expression(scope, value):
                return self._expression(node, scope, value, locals_)
        return None

    def _claim(self, key: object, wanted: str, locals_: frozenset[str]) -> str:
        name = wanted
        while name in self._taken or name in locals_ or hasattr(builtins, name):
            name += "_"
        self._taken.add(name)
        self._names[key] = name
        return name

    def _native(self, path: str, locals_: frozenset[str]) -> ast.expr | None:
        path = self.dialect.dtype_paths.get(self.dialect.dtypes.get(path, ""), path)
        if path.partition(".")[0] not in _ROOTS:
            return None
        module, members = path, ""
        while module and module not in _SHORT:
            module, _, member = module.rpartition(".")
            members = f"{member}.{members}".strip(".")
        deep = members.split(".")
        if module and (
            len(deep) <= 1
            or not deep[0].islower()
            or (path in self.dialect.by_path and deep[0] in _ATTRIBUTES)
        ):
            alias, statement = _SHORT[module]
            base = self._import(module, alias, statement, locals_)
            return python_expression(".".join(filter(None, (base, members))))
        parts = path.split(".")
        stop = next((i for i, part in enumerate(parts) if not part.islower()), len(parts) - 1)
        stop = max(1, min(stop, len(parts) - 1))
        statement = f"from {'.'.join(parts[:stop])} import {parts[stop]}"
        name = self._import(".".join(parts[: stop + 1]), parts[stop], statement, locals_)
        return python_expression(".".join([name, *parts[stop + 1 :]]))

    def _import(self, key: str, alias: str, statement: str, locals_: frozenset[str]) -> str:
        known = self._names.get(key)
        if known is None:
            known = self._claim(key, alias, locals_)
            plain = (
                statement
                if known == alias
                else f"{statement.removesuffix(f' as {alias}')} as {known}"
            )
            self._imports[key] = plain
        return known

    def _constant(self, node: ast.expr, value: object, locals_: frozenset[str]) -> ast.expr | None:
        text = _literal(value)
        if text is None:
            return ast.Constant(None) if value is None else None
        written = ast.unparse(node).rpartition(".")[2]
        wanted = written if written.isidentifier() else "CONSTANT"
        key = ("constant", wanted, text)
        if key not in self._names:
            name = self._claim(key, wanted, locals_)
            self._values[name] = self._wrapped(text, locals_)
        return ast.Name(self._names[key], ast.Load())

    def _wrapped(self, text: str, locals_: frozenset[str]) -> str:
        """Triton reads a module-level value only when it is a constexpr."""
        annotation = f"{self.dialect.module}.constexpr"
        if annotation not in self.dialect.constexpr_annotations:
            return text
        wrapper = self._native(annotation, locals_)
        return f"{ast.unparse(wrapper)}({text})" if wrapper else text

    def _expression(
        self, node: ast.expr, scope: Scope, value: ast.expr, locals_: frozenset[str]
    ) -> ast.expr | None:
        """A module-level expression, None unless it only names and calls things of the dialect."""
        if not self._harmless(scope, value):
            return None
        before = set(self.missing)
        lifted = _Rename(self, scope, frozenset()).visit(copy.deepcopy(value))
        if self.missing - before or not isinstance(lifted, ast.expr):
            self.missing = before
            return None
        return lifted

    def _harmless(self, scope: Scope, value: ast.expr) -> bool:
        """True when evaluating runs nothing: literals, names that resolve, calls of the dialect.

        Defaults, annotations and decorator arguments run when a function is defined, so nothing of
        the original's own choosing may be called in them.
        """
        pending: list[ast.AST] = [value]
        while pending:
            node = pending.pop()
            if not isinstance(node, _NODES):
                return False
            if isinstance(node, ast.Name | ast.Attribute):
                builtin = isinstance(node, ast.Name) and node.id in _PYTHON_TYPES
                if not builtin and scope.resolve(node) is None:
                    return False
                continue
            if isinstance(node, ast.Call):
                meaning = scope.resolve(node.func)
                path = normal_path(meaning.path) if isinstance(meaning, Native) else ""
                head, _, last = path.rpartition(".")
                if head != self.dialect.module or last.startswith("_"):
                    return False
                pending += [*node.args, *node.keywords]
                continue
            pending += ast.iter_child_nodes(node)
        return True

    def annotation(self, scope: Scope, node: ast.expr | None) -> ast.expr | None:
        """An annotation that names a type of the dialect; any other one goes."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = _parsed(node.value)
            if isinstance(node, ast.Name) and node.id == "constexpr":
                return self._native(f"{self.dialect.module}.constexpr", frozenset())
        return self._expression(node, scope, node, frozenset()) if node is not None else None

    def default(self, scope: Scope, node: ast.expr) -> ast.expr:
        """A default value: a literal, an expression of the dialect, or None."""
        text = _literal(scope.evaluate(node))
        if text is not None:
            return python_expression(text)
        return self._expression(node, scope, node, frozenset()) or ast.Constant(None)

    def _decorators(self, scope: Scope, node: ast.FunctionDef) -> list[ast.expr]:
        """Decorators of the dialect only, with the arguments that can be lifted."""
        kept: list[ast.expr] = []
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            meaning = scope.resolve(call.func if call else decorator)
            if not isinstance(meaning, Native) or not self._marks(normal_path(meaning.path)):
                continue
            written = self._native(normal_path(meaning.path), frozenset())
            if written is None:
                continue
            keywords = [
                k for item in (call.keywords if call else ()) if (k := self._keyword(scope, item))
            ]
            kept.append(ast.Call(written, [], keywords) if keywords else written)
        return kept

    def _marks(self, path: str) -> bool:
        marks = self.dialect.kernel_decorators | self.dialect.helper_decorators
        run_at_compile_time = path in self.dialect.constexpr_annotations
        return path in marks or run_at_compile_time or path.endswith(".constexpr_function")

    def _keyword(self, scope: Scope, keyword: ast.keyword) -> ast.keyword | None:
        plain = scope.evaluate(keyword.value)
        text = _literal(plain) if plain is not None else None
        if text is not None:
            return ast.keyword(keyword.arg, python_expression(text))
        value = self._expression(keyword.value, scope, keyword.value, frozenset())
        return ast.keyword(keyword.arg, value) if value is not None else None


class _Rename(ast.NodeTransformer):
    """Writes every outer name of one function as its name in the lifted module."""

    def __init__(self, lifter: _Lifter, scope: Scope, locals_: frozenset[str]) -> None:
        self.lifter = lifter
        self.scope = scope
        self.locals = locals_

    def signature(self, node: ast.FunctionDef) -> None:
        """Annotations and defaults as the lifted module may have them."""
        arguments, lifter = node.args, self.lifter
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in (*every, arguments.vararg, arguments.kwarg):
            if argument is not None:
                argument.annotation = lifter.annotation(self.scope, argument.annotation)
        arguments.defaults = [lifter.default(self.scope, item) for item in arguments.defaults]
        arguments.kw_defaults = [
            item and lifter.default(self.scope, item) for item in arguments.kw_defaults
        ]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name of the module."""
        if not isinstance(node.ctx, ast.Load) or node.id in self.locals:
            return node
        return self._outer(node) or node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """A dotted path of the module is replaced whole; an attribute of a value keeps its base."""
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id not in self.locals and self.scope.binds(root.id):
            found = self._outer(node)
            if found is not None:
                return found
        node.value = self.visit(node.value)
        return node

    def _outer(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        meaning = self.scope.resolve(node)
        found = self.lifter.name(node, meaning, self.locals)
        if found is None and isinstance(node, ast.Name) and not hasattr(builtins, node.id):
            self.lifter.missing.add(node.id)
        return found


def _local_names(node: ast.FunctionDef) -> frozenset[str]:
    """Names bound inside a function, its inner functions and comprehensions included."""
    found: set[str] = set()
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) if inner is not node:
                found.add(name)
    return frozenset(found)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest] if rest:
            return rest
    return body


def _parsed(text: str) -> ast.expr | None:
    """An annotation in quotes as an expression, None when it is not one."""
    try:
        return python_expression(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _literal(value: object) -> str | None:
    """Python text of a plain value; None for anything else."""
    if isinstance(value, float) and (math.isinf(value) or math.isnan(value)):
        return f'float("{value}")'
    if isinstance(value, int | float | bool | str):
        return repr(value)
    if isinstance(value, tuple):
        items = [_literal(item) for item in value]
        known = [item for item in items if item is not None]
        return (
            f"({', '.join(known)}{',' if len(known) == 1 else ''})"
            if len(known) == len(items)
            else None
        )
    return None

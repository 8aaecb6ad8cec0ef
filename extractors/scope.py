"""What a name in a module stands for: a native function, a function of the package, a constant.
Nothing is run."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache

from extractors.constants import converted, environment_default, is_docstring
from extractors.modules import ModuleLoader, ModuleText, absolute_import
from extractors.syntax.python import parse_module
from kb.dialects.registry import DIALECTS
from kb.errors import TileloreError

MAX_HOPS = 24
"""Longest chain of imports and aliases that is followed."""

MAX_INTEGER_BITS = 256


@dataclass(frozen=True, slots=True)
class Native:
    """Something of a library that is not read: its dotted path."""

    path: str


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """A function of the corpus, with the scope that it sees."""

    scope: Scope
    node: ast.FunctionDef


@dataclass(frozen=True, slots=True)
class Constant:
    """A value known without running anything."""

    value: object


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A module-level value that is not a plain constant."""

    scope: Scope
    node: ast.expr


Meaning = Native | Local | Constant | Expression
Binding = ast.FunctionDef | ast.ClassDef | ast.expr | tuple[str, str | None]

_BINARY: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}
_MATH: dict[str, Callable[[float], float]] = {
    name: getattr(math, name)
    for name in ("log", "log2", "log10", "sqrt", "exp", "sin", "cos", "tanh", "floor", "ceil")
}
_MATH_CONSTANTS = {"math.inf": math.inf, "math.pi": math.pi, "math.e": math.e, "math.nan": math.nan}
_MATH_CONSTANTS |= {"torch.inf": math.inf, "numpy.inf": math.inf, "torch.pi": math.pi}
_LIMITS: dict[tuple[str, str], float | int] = {
    ("float32", "max"): 3.4028234663852886e38, ("float32", "min"): -3.4028234663852886e38,
    ("float32", "eps"): 1.1920928955078125e-07, ("float16", "max"): 65504.0,
    ("float16", "min"): -65504.0, ("bfloat16", "max"): 3.3895313892515355e38,
    ("bfloat16", "min"): -3.3895313892515355e38,
} | {
    (f"int{bits}", end): value
    for bits in (8, 16, 32, 64)
    for end, value in (("max", 2 ** (bits - 1) - 1), ("min", -(2 ** (bits - 1))))
}  # fmt: skip
"""Largest and smallest numbers of the IEEE and integer formats."""


class Modules:
    """Parsed modules of one reading, each parsed once."""

    def __init__(self, loader: ModuleLoader) -> None:
        self._loader = loader
        self._scopes: dict[str, Scope | None] = {}

    def scope(self, dotted: str) -> Scope | None:
        """Scope of an importable module; None when it is not part of the corpus or does not
        parse."""
        if dotted not in self._scopes:
            self._scopes[dotted] = None
            found = self._loader.load(dotted)
            if found is not None:
                try:
                    self._scopes[dotted] = self.open(found, _sibling(found.text, found.path))
                except TileloreError:
                    self._scopes[dotted] = None
        return self._scopes[dotted]

    def open(self, module: ModuleText, tree: ast.Module | None = None) -> Scope:
        """Scope of a module whose text is at hand."""
        parsed = parse_module(module.text, module.path) if tree is None else tree
        scope = Scope(self, module, parsed)
        if module.dotted:
            self._scopes[module.dotted] = scope
        return scope


@lru_cache(maxsize=128)
def _sibling(text: str, path: str) -> ast.Module:
    """The tree of a module that others import: kept, because the next file imports it, too. Nobody
    changes a tree."""
    return parse_module(text, path)


@dataclass(eq=False)
class Scope:
    """The names of one module."""

    modules: Modules
    module: ModuleText
    tree: ast.Module
    bindings: dict[str, Binding] = field(default_factory=dict)
    fallbacks: dict[str, list[Binding]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, binding, main in _bindings(self.tree.body, self):
            if main or name not in self.bindings:
                self.bindings[name] = binding
            else:
                self.fallbacks.setdefault(name, []).append(binding)

    def resolve(self, node: ast.expr, hops: int = 0) -> Meaning | None:
        """What an expression made of names and dots stands for; None when nothing is known."""
        if hops > MAX_HOPS:
            return None
        if isinstance(node, ast.Name):
            return self.lookup(node.id, hops + 1)
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Call) and (limit := self._limit(node, hops)) is not None:
                return Constant(limit)
            base = self.resolve(node.value, hops + 1)
            if isinstance(base, Native):
                return self._member(f"{base.path}.{node.attr}", hops + 1)
            if isinstance(base, Constant) and node.attr == "value":
                return base
            return None
        if isinstance(node, ast.IfExp):
            return self.resolve(self.chosen(node), hops + 1)
        value = self.evaluate(node, hops + 1)
        if value is None and isinstance(node, ast.Call):
            return self._returned(node, hops + 1)
        return Constant(value) if value is not None else None

    def chosen(self, node: ast.expr) -> ast.expr:
        """The side of a conditional expression that a plain NVIDIA machine takes; else the node."""
        if not isinstance(node, ast.IfExp):
            return node
        return node.body if _truth(node.test, self) else node.orelse

    def _returned(self, node: ast.Call, hops: int) -> Meaning | None:
        """What a function of the corpus without arguments and with one statement returns, or what
        it finds by name in a library."""
        function = self.resolve(node.func, hops + 1)
        if not isinstance(function, Local) or node.keywords:
            return None
        if node.args:
            return _looked_up(function.node, node.args)
        body = [s for s in function.node.body if not is_docstring(s)]
        if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
            return None
        return function.scope.resolve(body[0].value, hops + 1)

    def lookup(self, name: str, hops: int = 0) -> Meaning | None:
        """What a module-level name stands for: of alternatives, the first that means something."""
        if hops > MAX_HOPS or name not in self.bindings:
            return None
        found = self._bound(self.bindings[name], hops)
        for other in self.fallbacks.get(name, ()):
            if _weight(found) == _KNOWN:
                break
            alternative = self._bound(other, hops)
            if _weight(alternative) > _weight(found):
                found = alternative
        return found

    def _bound(self, binding: Binding, hops: int) -> Meaning | None:
        if isinstance(binding, tuple):
            return self._imported(binding, hops + 1)
        if isinstance(binding, ast.FunctionDef):
            return Local(self, binding)
        if isinstance(binding, ast.ClassDef):
            return None
        meaning = self.resolve(binding, hops + 1)
        return meaning if meaning is not None else Expression(self, binding)

    def _imported(self, target: tuple[str, str | None], hops: int) -> Meaning | None:
        module, member = target
        if member is None:
            return Native(module)
        inner = self.modules.scope(module)
        if inner is not None and inner is not self:
            found = inner.lookup(member, hops + 1)
            if found is not None:
                return found
        return self._member(f"{module}.{member}", hops + 1)

    def _member(self, path: str, hops: int) -> Meaning | None:
        """A dotted path: into a module of the corpus when there is one, else native."""
        head, _, last = path.rpartition(".")
        inner = self.modules.scope(head) if head and hops < MAX_HOPS else None
        if inner is not None and inner is not self and last in inner.bindings:
            return inner.lookup(last, hops + 1)
        if path in _MATH_CONSTANTS:
            return Constant(_MATH_CONSTANTS[path])
        return Native(path)

    def evaluate(self, node: ast.expr, hops: int = 0) -> object:
        """Value of a constant expression, None when it is not one."""
        if hops > MAX_HOPS:
            return None
        match node:
            case ast.Constant():
                return node.value
            case ast.Name() | ast.Attribute():
                meaning = self.resolve(node, hops + 1)
                return meaning.value if isinstance(meaning, Constant) else None
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self.evaluate(operand, hops + 1)
                return -value if isinstance(value, int | float) else None
            case ast.BinOp():
                return self._binary(node, hops)
            case ast.Call():
                return self._call(node, hops)
            case ast.IfExp():
                return self.evaluate(self.chosen(node), hops + 1)
            case ast.Tuple():
                items = tuple(self.evaluate(item, hops + 1) for item in node.elts)
                return None if None in items else items
        return None

    def _limit(self, node: ast.Attribute, hops: int) -> float | int | None:
        """`finfo(dtype).max` and its kin."""
        call = node.value
        if not isinstance(call, ast.Call) or len(call.args) != 1:
            return None
        function, dtype = (self.resolve(part, hops + 1) for part in (call.func, call.args[0]))
        if not isinstance(function, Native) or not isinstance(dtype, Native):
            return None
        name = function.path.rpartition(".")[2]
        key = (dtype.path.rpartition(".")[2], node.attr)
        return _LIMITS.get(key) if name in ("finfo", "iinfo") else None

    def _binary(self, node: ast.BinOp, hops: int) -> object:
        left = self.evaluate(node.left, hops + 1)
        right = self.evaluate(node.right, hops + 1)
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            return None
        if isinstance(node.op, ast.Pow | ast.LShift) and abs(right) > MAX_INTEGER_BITS:
            return None
        function = _BINARY.get(type(node.op))
        try:
            return function(left, right) if function else None
        except (ArithmeticError, TypeError, ValueError):
            return None

    def _call(self, node: ast.Call, hops: int) -> object:
        """math.log(2), float("inf"), and single-argument wrappers such as a constexpr
        constructor."""
        if len(node.args) != 1 or node.keywords:
            return None
        value = self.evaluate(node.args[0], hops + 1)
        if isinstance(node.func, ast.Name) and node.func.id not in self.bindings:
            return converted(node.func.id, value)
        meaning = self.resolve(node.func, hops + 1)
        if not isinstance(meaning, Native) or value is None:
            return None
        head, _, name = meaning.path.rpartition(".")
        if head in ("math", "numpy") and name in _MATH and isinstance(value, int | float):
            try:
                return _MATH[name](value)
            except ValueError:
                return None
        return value if name == "constexpr" else None


def _looked_up(function: ast.FunctionDef, given: list[ast.expr]) -> Native | None:
    """The member that `function(name)` returns, when all it returns is `getattr(module, name)`: of
    the modules that it lists as text, the first in which a dialect knows the name."""
    wanted = [a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    parameters = [a.arg for a in function.args.args]
    returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
    if not len(wanted) == len(given) == len(parameters) == 1 or not returned:
        return None
    for value in returned:
        match value:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Name(id=name)]):
                if name != parameters[0]:
                    return None
            case _:
                return None
    listed = [
        f"{n.value}.{wanted[0]}"
        for statement in function.body
        if not is_docstring(statement)
        for n in ast.walk(statement)
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]
    return next((Native(path) for path in listed if path in _native_names()), None)


def _bindings(
    body: list[ast.stmt], scope: Scope, main: bool = True
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
                base = absolute_import(statement, scope.module)
                for alias in statement.names:
                    yield alias.asname or alias.name, (base, alias.name), main
            case ast.Assign(value=value):
                for target_ in statement.targets:
                    if isinstance(target_, ast.Name):
                        yield target_.id, value, main
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value, main
            case ast.If(body=then, orelse=orelse):
                taken = _truth(statement.test, scope)
                first, second = (then, orelse) if taken or not orelse else (orelse, then)
                yield from _bindings(first, scope, main and not (taken is False and first is then))
                if taken is None:
                    yield from _bindings(second, scope, False)
            case ast.Try(body=tried, handlers=handlers):
                yield from _bindings(tried, scope, main)
                for handler in handlers:
                    yield from _bindings(handler.body, scope, False)
            case ast.With(body=inner):
                yield from _bindings(inner, scope, main)


_KNOWN = 2


def _weight(meaning: Meaning | None) -> int:
    """How much an alternative tells: a name of a table, a function or a constant; some library
    name; an expression that is not evaluated.
    """
    if isinstance(meaning, Local | Constant):
        return _KNOWN
    if isinstance(meaning, Native):
        return _KNOWN if meaning.path in _native_names() else 1
    return 0


@cache
def _native_names() -> frozenset[str]:
    """Every name of a dialect table, and the modules that they live in."""
    found: set[str] = set()
    for dialect in DIALECTS.values():
        for path in (*dialect.by_path, *dialect.dtypes, *dialect.enums):
            parts = path.split(".")
            found.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return frozenset(found)


def _truth(test: ast.expr, scope: Scope) -> bool | None:
    match test:
        case ast.Constant():
            return bool(test.value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(operand, scope)
            return None if inner is None else not inner
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            first, second = environment_default(left), environment_default(right)
            return first == second if first is not None and second is not None else None
        case ast.Call(func=ast.Name(id="hasattr"), args=[base, ast.Constant(value=str(member))]):
            return not member.startswith("_") if isinstance(scope.resolve(base), Native) else None
    return None

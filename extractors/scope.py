"""What a name in a module stands for: a native function, a function of the package, a constant.
Nothing is run."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from extractors.bindings import STAR, Binding, bindings, exported, truth
from extractors.constants import (
    LIBRARY_CONSTANTS,
    computed,
    converted,
    is_docstring,
    limit,
    of_library,
)
from extractors.modules import ModuleLoader, ModuleText, handed_on
from extractors.natives import looked_up, native_names, only_raises
from extractors.syntax.python import parse_module
from extractors.syntax.wrapped import decorated
from kb.errors import TileloreError

MAX_HOPS = 24
"""Longest chain of imports and aliases that is followed."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """A class of the corpus: the names that its body binds."""

    scope: Scope
    node: ast.ClassDef


Meaning = Native | Local | Constant | Expression | Members


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
        parsed = decorated(parse_module(module.text, module.path)) if tree is None else tree
        scope = Scope(self, module, parsed)
        if module.dotted:
            self._scopes[module.dotted] = scope
        return scope


@lru_cache(maxsize=128)
def _sibling(text: str, path: str) -> ast.Module:
    """The tree of a module that others import: kept, because the next file imports it, too. Nobody
    changes a tree."""
    return decorated(parse_module(text, path))


@dataclass(eq=False)
class Scope:
    """The names of one module.

    `bindings` holds what a plain NVIDIA machine sees, `fallbacks` the alternatives to it, `stars`
    the modules of which it imports all names, `since` how many of them a name comes after, and
    `assumed` what a name of a module that is not here was taken for: `pkg.tl` -> `triton.language`.
    """

    modules: Modules
    module: ModuleText
    tree: ast.Module
    bindings: dict[str, Binding] = field(default_factory=dict)
    fallbacks: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    since: dict[str, int] = field(default_factory=dict)
    assumed: dict[str, str] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name, binding, main in bindings(self.tree.body, self.module, self._has):
            if name == STAR and isinstance(binding, tuple):
                self.stars.append(binding[0])
            elif main or name not in self.bindings:
                self.bindings[name] = binding
                self.since[name] = len(self.stars)
            else:
                self.fallbacks.setdefault(name, []).append(binding)

    @cached_property
    def exported(self) -> frozenset[str]:
        """What `from this import *` gives; modules that import each other so give their own."""
        self.__dict__["exported"] = exported(self.tree, self.bindings)
        others = [inner.exported for star in self.stars if (inner := self.modules.scope(star))]
        return exported(self.tree, {*self.bindings, *(name for some in others for name in some)})

    def binds(self, name: str) -> bool:
        """Whether the module gives a name a meaning of its own."""
        return name in self.bindings or self._star(name) is not None

    def _star(self, name: str) -> str | None:
        """The last module whose names are all imported that gives a name this module does not bind
        after it."""
        for star in reversed(self.stars[self.since.get(name, 0) :]):
            inner = self.modules.scope(star)
            known = inner.exported if inner is not None and inner is not self else ()
            if name in known or f"{star}.{name}" in native_names():
                return star
        return None

    def resolve(self, node: ast.expr, hops: int = 0) -> Meaning | None:
        """What an expression made of names and dots stands for; None when nothing is known."""
        if hops > MAX_HOPS:
            return None
        if isinstance(node, ast.Name):
            return self.lookup(node.id, hops + 1)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, hops)
        if isinstance(node, ast.IfExp):
            return self.resolve(self.chosen(node), hops + 1)
        value = self.evaluate(node, hops + 1)
        if value is None and isinstance(node, ast.Call):
            return self._returned(node, hops + 1)
        return Constant(value) if value is not None else None

    def _attribute(self, node: ast.Attribute, hops: int) -> Meaning | None:
        if isinstance(node.value, ast.Call) and (found := self._limit(node, hops)) is not None:
            return Constant(found)
        base = self.resolve(node.value, hops + 1)
        if isinstance(base, Native):
            return self._member(f"{base.path}.{node.attr}", hops + 1)
        if isinstance(base, Members):
            return base.scope.member_of_class(base.node, node.attr, hops + 1)
        return base if isinstance(base, Constant) and node.attr == "value" else None

    def member_of_class(self, node: ast.ClassDef, name: str, hops: int) -> Meaning | None:
        """A constant that the body of a class binds: a member of an enumeration, a setting."""
        for bound, value, main in bindings(node.body, self.module, self._has):
            if bound == name and main and isinstance(value, ast.expr):
                found = self.evaluate(value, hops + 1)
                return Constant(found) if found is not None else None
        return None

    def chosen(self, node: ast.expr) -> ast.expr:
        """The side of a conditional expression that a plain NVIDIA machine takes; else the node."""
        if not isinstance(node, ast.IfExp):
            return node
        return node.body if self.truth(node.test) else node.orelse

    def _has(self, test: ast.expr) -> bool | None:
        """Tests of a library: what it has, what it is None for; told while names are bound."""
        match test:
            case ast.Call(func=ast.Name(id="hasattr"), args=[base, ast.Constant(value=str(name))]):
                return not name.startswith("_") if isinstance(self.resolve(base), Native) else None
            case ast.Attribute():
                meaning = self.resolve(test)
                return bool(meaning.value) if isinstance(meaning, Constant) else None
            case ast.Compare(
                left=ast.Attribute() as left,
                ops=[(ast.Is() | ast.IsNot()) as op],
                comparators=[ast.Constant(value=None)],
            ):
                meaning = self.resolve(left)
                if isinstance(meaning, Constant):
                    return (meaning.value is None) is isinstance(op, ast.Is)
        return None

    def truth(self, test: ast.expr, hops: int = 0) -> bool | None:
        """Whether a test holds on a plain NVIDIA machine; None when that is not known."""

        def known(part: ast.expr) -> bool | None:
            match part:
                case ast.Name(id=name):
                    meaning = self.lookup(name, hops + 1)
                    return bool(meaning.value) if isinstance(meaning, Constant) else None
                case ast.Call(func=ast.Name(id="bool"), args=[inner], keywords=[]):
                    return self.truth(inner, hops + 1)
                case ast.Call(args=[], keywords=[]):
                    found = self._body_of(part, hops + 1)
                    return found[0].truth(found[1], hops + 1) if found else None
            return self._has(part)

        return truth(test, known) if hops < MAX_HOPS else None

    def _returned(self, node: ast.Call, hops: int) -> Meaning | None:
        """What a function of the corpus without arguments and with one statement returns, or what
        it finds by name in a library."""
        function = self.resolve(node.func, hops + 1)
        if isinstance(function, Local) and node.args and not node.keywords:
            path = looked_up(function.node, node.args)
            return Native(path) if path else None
        found = self._body_of(node, hops)
        return found[0].resolve(found[1], hops + 1) if found else None

    def _body_of(self, node: ast.Call, hops: int) -> tuple[Scope, ast.expr] | None:
        """The one expression that a call without arguments of a function of the corpus returns."""
        given = node.args or node.keywords
        function = None if given else self.resolve(node.func, hops + 1)
        if not isinstance(function, Local):
            return None
        match [s for s in function.node.body if not is_docstring(s)]:
            case [ast.Return(value=ast.expr() as value)]:
                return function.scope, value
        return None

    def lookup(self, name: str, hops: int = 0) -> Meaning | None:
        """What a module-level name stands for: of alternatives, the first that means something."""
        if hops > MAX_HOPS:
            return None
        found = self._from_star(name, hops)
        if found is not None or name not in self.bindings:
            return found
        found = self._bound(self.bindings[name], hops)
        for other in self.fallbacks.get(name, ()):
            if _weight(found) == _KNOWN:
                break
            alternative = self._bound(other, hops)
            if _weight(alternative) > _weight(found):
                found = alternative
        return found

    def _from_star(self, name: str, hops: int) -> Meaning | None:
        """What a name stands for in the module of which all names are imported; None while that
        module asks for it here."""
        star = self._star(name) if name not in self._asked else None
        if star is None:
            return None
        self._asked.add(name)
        try:
            return self._imported((star, name), hops)
        finally:
            self._asked.remove(name)

    def _bound(self, binding: Binding, hops: int) -> Meaning | None:
        match binding:
            case tuple():
                return self._imported(binding, hops + 1)
            case ast.FunctionDef():
                return Local(self, binding)
            case ast.ClassDef():
                return Members(self, binding)
            case ast.Constant(value=None):
                return Constant(None)
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
        library = self._handed_on(module, member) if inner is None else None
        return self._member(library or f"{module}.{member}", hops + 1)

    def _handed_on(self, module: str, member: str) -> str | None:
        """The library behind a name of a module that is not here."""
        taken = [b for b in self.bindings.values() if isinstance(b, tuple) and b[0] == module]
        library = handed_on(member, [str(name) for _, name in taken])
        if library is not None and library != f"{module}.{member}":
            self.assumed[f"{module}.{member}"] = library
        return library

    def _member(self, path: str, hops: int) -> Meaning | None:
        """A dotted path: into a module of the corpus when there is one, else native."""
        head, _, last = path.rpartition(".")
        inner = self.modules.scope(head) if head and hops < MAX_HOPS else None
        if inner is not None and inner is not self and inner.binds(last):
            return inner.lookup(last, hops + 1)
        return Constant(LIBRARY_CONSTANTS[path]) if path in LIBRARY_CONSTANTS else Native(path)

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
            case ast.BinOp(left=left, op=op, right=right):
                sides = [self.evaluate(side, hops + 1) for side in (left, right)]
                return computed(op, *sides)
            case ast.Call():
                return self._call(node, hops)
            case ast.IfExp():
                return self.evaluate(self.chosen(node), hops + 1)
            case ast.Tuple():
                items = tuple(self.evaluate(item, hops + 1) for item in node.elts)
                return None if None in items else items
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return self.truth(node, hops + 1)
        return None

    def _limit(self, node: ast.Attribute, hops: int) -> float | int | None:
        """`finfo(dtype).max` and its kin."""
        call = node.value
        if not isinstance(call, ast.Call) or len(call.args) != 1:
            return None
        function, dtype = (self.resolve(part, hops + 1) for part in (call.func, call.args[0]))
        if not isinstance(function, Native) or not isinstance(dtype, Native):
            return None
        return limit(function.path, dtype.path, node.attr)

    def _call(self, node: ast.Call, hops: int) -> object:
        """math.log(2), float("inf"), single-argument wrappers such as a constexpr constructor, and
        functions of the corpus that return one expression."""
        found = self._body_of(node, hops)
        if found is not None:
            return found[0].evaluate(found[1], hops + 1)
        if len(node.args) != 1 or node.keywords:
            return None
        value = self.evaluate(node.args[0], hops + 1)
        if isinstance(node.func, ast.Name) and not self.binds(node.func.id):
            if node.func.id == "bool":
                return self.truth(node.args[0], hops + 1)
            return converted(node.func.id, value)
        meaning = self.resolve(node.func, hops + 1)
        if not isinstance(meaning, Native) or value is None:
            return None
        return of_library(meaning.path, value)


_KNOWN = 2


def _weight(meaning: Meaning | None) -> int:
    """How much an alternative tells: a name of a table, a function or a constant; some library
    name; an expression that is not evaluated.
    """
    if isinstance(meaning, Local):
        return 1 if only_raises(meaning.node) else _KNOWN
    if isinstance(meaning, Constant):
        return _KNOWN if meaning.value is not None else 0
    if isinstance(meaning, Members):
        return 1
    if isinstance(meaning, Native):
        return _KNOWN if meaning.path in native_names() else 1
    return 0

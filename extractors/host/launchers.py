"""Modules that take a kernel from the module that defines it, to launch it: found by what they
import, read beside it.

The lines of each stand beyond those of the others, so that places of several files are told apart
wherever lines are compared; `extractors.by_file` tells them in their files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from extractors.by_file import BEYOND
from extractors.host.modules import ModuleLoader, absolute, parse_quietly
from extractors.syntax.builtin_parser import python_module
from extractors.syntax.nodes import each

MAX_FILES = 8
"""Modules that launch one kernel."""

MAX_LOOKED_AT = 64
"""Modules that may take one kernel whose texts are looked at."""

MAX_STEPS = 3
"""Modules that pass a name on."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """A module that may launch kernels of another one, its lines beyond those of others; `names`
    is what it calls them."""

    module: str
    path: str
    tree: ast.Module
    names: frozenset[str]


def launchers(loader: ModuleLoader, module: str, kernel: str) -> list[tuple[str, frozenset[str]]]:
    """Dotted names of the modules that take a kernel of a module for more than to call it, in
    order, with what they call it."""
    found: list[tuple[str, frozenset[str]]] = []
    for other in loader.takers(module, kernel)[:MAX_LOOKED_AT]:
        text = loader.source(other)
        tree = parse_quietly(text[1]) if text is not None and kernel in text[1] else None
        if text is None or tree is None:
            continue
        names = frozenset(_launched(loader, tree, package_of(other, text[0]), module, kernel))
        if names:
            found.append((other, names))
    return found[:MAX_FILES]


def beside(loader: ModuleLoader, module: str, names: frozenset[str], place: int) -> Launcher | None:
    """A module to be read beside another, the `place`-th of them, counted from one."""
    text = loader.source(module)
    tree = _beyond(text[1], package_of(module, text[0]), place) if text is not None else None
    return Launcher(module, text[0], tree, names) if text is not None and tree else None


@lru_cache(maxsize=64)
def _beyond(text: str, package: str, place: int) -> ast.Module | None:
    """A syntax tree of its own for a text, with lines beyond those of other files, and absolute
    names in its imports."""
    try:
        tree = python_module(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    ast.increment_lineno(tree, place * BEYOND)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            node.module, node.level = absolute(package, node), 0
    return tree


def together(tree: ast.Module, others: Sequence[Launcher]) -> ast.Module:
    """One tree with the statements of all."""
    body = [*tree.body, *(statement for one in others for statement in one.tree.body)]
    return ast.Module(body=body, type_ignores=[])


def package_of(module: str, path: str) -> str:
    """The name of a module as relative imports count from it: a package's own ends in a dot."""
    return f"{module}." if path.endswith("__init__.py") else module


def _launched(
    loader: ModuleLoader, tree: ast.Module, here: str, module: str, kernel: str
) -> Iterator[str]:
    """What a module calls a kernel that it takes from another one and does more with than call it:
    kernels call each other as functions, a launch needs the kernel itself."""
    called = {id(call.func) for call in each(tree, ast.Call)}
    held, modules = taken(loader, tree, here, module, kernel)
    for name in each(tree, ast.Name):
        if name.id in held and id(name) not in called and isinstance(name.ctx, ast.Load):
            yield name.id
    for part in each(tree, ast.Attribute) if modules else ():
        owner = part.value.id if isinstance(part.value, ast.Name) else ""
        if part.attr == kernel and owner in modules and id(part) not in called:
            yield kernel


def taken(
    loader: ModuleLoader, tree: ast.Module, here: str, module: str, kernel: str
) -> tuple[set[str], set[str]]:
    """Names under which a module holds a kernel of another one, and that module itself."""
    held: set[str] = set()
    modules: set[str] = set()
    for node in each(tree, ast.ImportFrom):
        base = absolute(here, node)
        for one in node.names:
            if one.name == "*" and base == module:
                held.add(kernel)
            elif f"{base}.{one.name}" == module:
                modules.add(one.asname or one.name)
            elif one.name == kernel and _leads(loader, base, kernel, module, MAX_STEPS):
                held.add(one.asname or kernel)
    for plain in each(tree, ast.Import):
        modules |= {one.asname for one in plain.names if one.asname and one.name == module}
    return held, modules


def _leads(loader: ModuleLoader, base: str, kernel: str, module: str, steps: int) -> bool:
    """Whether a name of a module is the kernel of another one, which it may pass on."""
    if base == module:
        return True
    text = loader.source(base) if steps else None
    tree = parse_quietly(text[1]) if text is not None and kernel in text[1] else None
    if text is None or tree is None:
        return False
    here = package_of(base, text[0])
    return any(
        (one.asname or one.name) in (kernel, "*")
        and _leads(loader, absolute(here, node), one.name if one.name != "*" else kernel, module,
                   steps - 1)
        for node in each(tree, ast.ImportFrom)
        for one in node.names
    )  # fmt: skip

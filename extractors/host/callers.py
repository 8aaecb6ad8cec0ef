"""The functions of a module that lead to a launch, and the classes that they are called from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, function_at, functions_of
from extractors.host.origins import Origins, lines_of
from extractors.syntax.nodes import each
from kb.evidence import Lines

MAX_CALLERS = 8
"""Calls between functions of a module that are followed upwards."""

MAX_STEPS = 8
"""Names and views that a tensor is followed through."""

VIEWS = frozenset({"view", "reshape", "flatten", "squeeze", "unsqueeze", "detach", "view_as"})
"""Methods that give the same memory whenever they can."""

_MARKERS = ("staticmethod", "classmethod")


def leading(material: Material, launch: LaunchRecord) -> list[ast.FunctionDef]:
    """The functions on the way to a launch, outermost first, as far as the module holds them and
    one definition alone can be meant."""
    found: list[ast.FunctionDef] = []
    for position, name in enumerate(launch.stack):
        after = launch.stack[position + 1] if position + 1 < len(launch.stack) else None
        meant = [
            node
            for node in functions_of(material.tree)
            if node.name == name and _leads(node, launch, after)
        ]
        found += meant if len(meant) == 1 else []
    return found


def _leads(node: ast.FunctionDef, launch: LaunchRecord, after: str | None) -> bool:
    if after is None:
        return node.lineno <= launch.lines[0] <= (node.end_lineno or node.lineno)
    return after in called(node) or (after == "forward" and "apply" in called(node))


@lru_cache(maxsize=4096)
def called(node: ast.AST) -> frozenset[str]:
    """Names of the functions and methods that a piece of code calls."""
    functions = [item.func for item in each(node, ast.Call)]
    return frozenset(
        func.id if isinstance(func, ast.Name) else func.attr
        for func in functions
        if isinstance(func, (ast.Name, ast.Attribute))
    )


@lru_cache(maxsize=4096)
def calls(function: ast.FunctionDef) -> frozenset[str]:
    """Names that a function calls as they stand: no methods, nor functions of another module."""
    functions = [item.func for item in each(function, ast.Call)]
    return frozenset(func.id for func in functions if isinstance(func, ast.Name))


def behind(material: Material) -> list[ast.FunctionDef]:
    """The functions on the way to the launches of a kernel, and those of the module that they or
    the decorators of the kernel name, directly or through others; no kernels."""
    sites = material.sites()
    found = dict.fromkeys(node for launch in sites for node in leading(material, launch))
    own = {node.name: node for node in material.tree.body if isinstance(node, ast.FunctionDef)}
    head = function_at(material.tree, material.signature.name, material.signature.lines)
    pending: list[ast.AST] = [*found, *(head.decorator_list if head is not None else ())]
    for node in pending:
        names = {name.id for name in each(node, ast.Name)} & own.keys() - material.kernels
        fresh = [own[name] for name in sorted(names) if own[name] not in found]
        found.update(dict.fromkeys(fresh))
        pending += fresh
    return [node for node in found if node.name not in material.kernels]


@lru_cache(maxsize=128)
def _of_pass(tree: ast.Module, name: str) -> frozenset[str]:
    """Names that passes of autograd functions of the module call, directly or through its
    functions."""
    rows = [node for node in functions_of(tree) if node.name == name]
    found = frozenset({name}).union(*map(called, rows)) if rows else frozenset[str]()
    for _ in range(MAX_CALLERS):
        more = {
            name for node in functions_of(tree) if node.name in found for name in called(node)
        } - found
        if not more:
            break
        found |= more
    return found


def in_backward(material: Material, launch: LaunchRecord) -> bool:
    """Whether a backward pass of the module leads to a launch: autograd gives it arrays of the
    shapes that the forward pass gave and took."""
    return bool(_of_pass(material.tree, "backward") & set(launch.stack))


def in_forward(material: Material, launch: LaunchRecord) -> bool:
    """Whether a forward pass of the module leads to a launch."""
    return bool(_of_pass(material.tree, "forward") & set(launch.stack))


@lru_cache(maxsize=64)
def _classes(tree: ast.Module) -> tuple[ast.ClassDef, ...]:
    return tuple(node for node in each(tree, ast.ClassDef))


def classes(material: Material, launch: LaunchRecord) -> Iterator[ast.ClassDef]:
    """Classes of the module with a method that is on the way to a launch, or that calls a function
    that is."""
    on_the_way = leading(material, launch)
    names = {node.name for node in on_the_way}
    for node in _classes(material.tree):
        methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
        if any(method in on_the_way or names & called(method) for method in methods):
            yield node


def wrapped(material: Material, launch: LaunchRecord) -> bool:
    """Whether a function of the module on the way to a launch, or one that calls such a function,
    carries a decorator that may change its arguments: one that is no marker of a method and no
    registration under a name."""
    functions = functions_of(material.tree)
    names, calls = set(launch.stack), {node: called(node) for node in functions}
    for _ in range(MAX_CALLERS):
        more = {node.name for node in functions if calls[node] & names} - names
        if not more:
            break
        names |= more
    return any(
        _changes(one) for node in functions if node.name in names for one in node.decorator_list
    )


def _changes(decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Call):
        first = decorator.args[0] if decorator.args else None
        return not (isinstance(first, ast.Constant) and isinstance(first.value, str))
    return not (isinstance(decorator, ast.Name) and decorator.id in _MARKERS)


def member(node: ast.AST, keywords: str) -> str | None:
    """The key under which a piece of code takes a member of the keywords that a function
    accepts."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        held, key = node.func.value, node.args[0]
        asked = node.func.attr in ("get", "pop")
    elif isinstance(node, ast.Subscript):
        held, key, asked = node.value, node.slice, True
    else:
        return None
    named = asked and isinstance(held, ast.Name) and held.id == keywords
    text = key.value if isinstance(key, ast.Constant) else None
    return text if named and isinstance(text, str) else None


def handed(material: Material, launch: LaunchRecord, name: str) -> ast.expr | None:
    """What a launch hands over for a parameter as it is written; None where a row of arguments
    comes from elsewhere."""
    origins = material.origins
    call = origins.call_at(launch.lines) if origins is not None else None
    names = [param for param, _ in material.signature.params]
    if call is None or origins is None or name not in names:
        return None
    position = names.index(name)
    if isinstance(call.func, ast.Subscript):
        return origins.argument(call, name, position)
    last: ast.expr | None = call.args[-1] if call.args else None
    if isinstance(last, ast.Name):
        made = origins.sources(last)[0]
        last = made[0] if len(made) == 1 else None
    if not isinstance(last, ast.Tuple) or any(isinstance(one, ast.Starred) for one in last.elts):
        return None
    return last.elts[position] if position < len(last.elts) else None


def made_of_zeros(material: Material, launch: LaunchRecord, name: str) -> Lines | None:
    """Where the only array that a parameter is given is made of zeros."""
    given = handed(material, launch, name)
    if material.origins is None or not isinstance(given, ast.Name):
        return None
    made = material.origins.sources(given)[0]
    if len(made) != 1 or not isinstance(made[0], ast.Call):
        return None
    function = made[0].func
    called_ = function.attr if isinstance(function, ast.Attribute) else ""
    return lines_of(made[0]) if called_ in ("zeros", "zeros_like", "new_zeros") else None


def saved(material: Material, launch: LaunchRecord, name: str) -> bool:
    """Whether the array that a launch hands over for a parameter is a saved tensor."""
    if material.origins is None:
        return False
    value = handed(material, launch, name)
    return value is not None and _from_saved(material.origins, value, MAX_STEPS)


def _from_saved(origins: Origins, value: ast.expr, steps: int) -> bool:
    if steps == 0:
        return False
    if isinstance(value, ast.Attribute):
        return value.attr == "saved_tensors"
    if isinstance(value, ast.Subscript):
        return _from_saved(origins, value.value, steps - 1)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.attr in VIEWS and _from_saved(origins, value.func.value, steps - 1)
    if isinstance(value, ast.Name):
        assigned, passed = origins.sources(value)
        kept = [made for made in assigned if not _itself(made, value)]
        if assigned:
            through = all(_is_view(made) for made in assigned if made not in kept)
            return bool(kept) and through and all(_from_saved(origins, m, steps - 1) for m in kept)
        return any(_from_saved(origins, made, steps - 1) for made in passed)
    return False


def _itself(made: ast.expr, name: ast.Name) -> bool:
    """`x = x.view(...)`: the name stands for its own earlier value."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        made = made.func.value
    return isinstance(made, ast.Name) and made.id == name.id


def _is_view(made: ast.expr) -> bool:
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        if made.func.attr not in VIEWS:
            return False
        made = made.func.value
    return isinstance(made, ast.Name)

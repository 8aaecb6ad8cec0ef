"""Tables of rules in modules that stand beside a package's configuration tables: a dictionary of
dictionaries, from a name to a rule (a function of the launch's arguments) for each parameter.

Known by their shape, not by the function that loads them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.core import Core
from extractors.host.values import Module, Ref, Value


def rules_beside(core: Core, given: Value, node: ast.AST) -> Value:
    """What a search for rules was given, or the rules that a module beside the configuration tables
    keeps under the one text that the unread call in its place asks for.

    Among modules for several vendors, the one for NVIDIA is meant: all our targets are theirs.
    """
    key = _asked(node)
    if key is None or core.loader is None or (isinstance(given, Ref) and given.kind == "dict"):
        return given
    names = core.loader.beside_tables()
    near = [name for name in names if "nvidia" in name.lower()]
    for name in sorted(near or names, key=lambda one: (one.count("."), one)):
        found = core.loader.source(name)
        module = core.module_value(name, "") if found and f'"{key}"' in found[1] else None
        if not isinstance(module, Module):
            continue
        for table in _kept_under(module.tree, key):
            rules = core.resolve(core.attribute(module, table, node))
            kept = core.machine.mapping(rules.oid).get(key) if isinstance(rules, Ref) else None
            if isinstance(kept, Ref) and kept.kind == "dict":
                return kept
    return given


def _asked(node: ast.AST) -> str | None:
    """The only argument of the call that gives a decorator its rules."""
    call = node if isinstance(node, ast.Call) else None
    given = [*call.args, *(one.value for one in call.keywords)] if call else []
    return sole_text(given[0]) if len(given) == 1 else None


def sole_text(node: ast.AST | None) -> str | None:
    """The text that is the only argument of a call."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return None
    key = node.args[0]
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _kept_under(tree: ast.Module, key: str) -> Iterator[str]:
    """Names of the module's tables that hold a table under a key."""
    for one in tree.body:
        if not isinstance(one, ast.Assign) or not isinstance(one.value, ast.Dict):
            continue
        rows = zip(one.value.keys, one.value.values, strict=True)
        held = [row for at, row in rows if isinstance(at, ast.Constant) and at.value == key]
        if any(isinstance(row, ast.Dict) for row in held):
            yield from (target.id for target in one.targets if isinstance(target, ast.Name))

"""Versions of one function, each with a kernel of its own, and the name that stands for one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.sides import routes_of
from extractors.host.tree import parameter_names
from extractors.syntax.nodes import each, nodes_of
from kb.evidence import AxisKind, Decision

NAMED = "one-of-several-versions-named"
BESIDE = "kept beside the version that the common name stands for"
MIN_ALIKE = 3
"""Parameters and results that two functions have in common, for them to do the same."""


def versions(material: Material) -> Iterator[Decision]:
    """Where the module binds a name of its own to one of its functions that launch kernels, and
    others that take and give the same launch theirs, and nothing of the module calls them."""
    kernel, tree = material.signature.name, material.tree
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    routes = routes_of(tree, material.kernels)
    leads = {name: routes.of(node.body) for name, node in functions.items()}
    own = {name for name, node in functions.items() if _named(node) & material.kernels}
    called = {node.id for node in nodes_of(tree) if isinstance(node, ast.Name)}
    for bound in tree.body if material.launches else ():
        if not isinstance(bound, ast.Assign) or not isinstance(bound.value, ast.Name):
            continue
        chosen = functions.get(bound.value.id)
        if chosen is None or chosen.name not in own:
            continue
        others = [
            node
            for name, node in functions.items()
            if name not in called and name in own and not leads[name] & leads[chosen.name]
            and _alike(node, chosen)
        ]  # fmt: skip
        for one in (node for node in others if kernel in leads[node.name]):
            yield Decision(
                axis="algorithm_selection",
                value=BESIDE,
                pattern=NAMED,
                lines=tuple(sorted({lines_of(bound), (one.lineno, one.lineno)})),
                kind=AxisKind.HOST,
            )


def _named(function: ast.FunctionDef) -> set[str]:
    return {node.id for node in each(function, ast.Name)}


def _alike(one: ast.FunctionDef, other: ast.FunctionDef) -> bool:
    """Whether two functions take parameters of the same names and give as many results."""
    given, results = parameter_names(one), _results(one)
    same = given == parameter_names(other) and results == _results(other)
    return same and len(given) + max(results, default=0) >= MIN_ALIKE


def _results(function: ast.FunctionDef) -> set[int]:
    ends = [node.value for node in each(function, ast.Return) if node.value is not None]
    return {len(end.elts) if isinstance(end, ast.Tuple) else 1 for end in ends}

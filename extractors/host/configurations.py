"""Where the configurations of a search are written down, and where some are left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.events import SearchRecord
from extractors.host.facts import Material, function_at
from extractors.host.origins import Origins, lines_of
from extractors.syntax.nodes import children, each, walk
from kb.evidence import AxisKind, Decision, Lines

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp)
_HOOK = "pre_hook"
"""What a configuration runs before each launch; source: Triton documentation, triton.Config."""

_PRUNE = "prune_configs_by"


def config_lines(material: Material, search: SearchRecord) -> tuple[Lines, ...]:
    """Lines of the function that makes the configurations, and of the lists of those that it makes
    one by one; else of the assignments behind what the search is given, and of what it says in
    place. With the functions that those call for configurations."""
    called = tuple(map(lines_of, _makers(material, _roots(material, material.origins, search))))
    given = configurations(material.origins, search)
    given = _table(material.origins, search) if given is None else given
    made = material.origins.of(given) if material.origins is not None else ()
    if search.generator is not None:
        called = tuple(line for line in called if line != search.generator[1])
        listed = made if isinstance(given, ast.Name) else ()
        return (search.generator[1], *called, *listed)
    in_place = (lines_of(given),) if isinstance(given, (*_COMPREHENSIONS, ast.List)) else ()
    return (*made, *called, *in_place) if made or called else (search.lines,)


def searched_at(material: Material | None, search: SearchRecord) -> list[Lines]:
    """Where a search is made, and where its configurations are written down."""
    made = [search.generator[1]] if search.generator else []
    written = config_lines(material, search) if material is not None else ()
    return list(dict.fromkeys((*made, search.lines, *written)))


def configurations(origins: Origins | None, search: SearchRecord) -> ast.expr | None:
    """What a search is given as configurations, as it is written."""
    return _given(origins, search, "configs", search.place)


def making(material: Material, search: SearchRecord) -> list[ast.AST]:
    """Code that the configurations of a search come from."""
    roots = _roots(material, material.origins, search)
    return [*roots, *_makers(material, roots)]


def _makers(material: Material, roots: list[ast.AST]) -> list[ast.FunctionDef]:
    """Functions of the module that the code calls, directly or through others of them, and that
    make configurations."""
    defined = {n.name: n for n in material.tree.body if isinstance(n, ast.FunctionDef)}
    found: dict[str, ast.FunctionDef] = {}
    pending = list(roots)
    while pending:
        calls = [n for n in walk(pending.pop()) if isinstance(n, ast.Call)]
        for name in (call.func.id for call in calls if isinstance(call.func, ast.Name)):
            if name in defined and name not in found:
                found[name] = defined[name]
                pending.append(defined[name])
    return [node for node in found.values() if _configures(node)]


def _configures(function: ast.FunctionDef) -> bool:
    """True for a function that calls Triton's class of configurations."""
    calls = [n.func for n in each(function, ast.Call)]
    names = (f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls)
    return "Config" in names


def pruned(material: Material, search: SearchRecord) -> Iterator[Decision]:
    """Configurations left out by a test of their values, or by a function that prunes."""
    found = _pruning(material, search)
    if found or search.prune is not None:
        yield Decision(
            axis="search_pruning",
            value="predicate",
            pattern="config-pruning-predicate",
            lines=tuple(dict.fromkeys((search.lines, *found))),
            kind=AxisKind.HOST,
        )


def search_lines(material: Material, search: SearchRecord) -> tuple[Lines, ...]:
    """All that makes up a search: where it is attached or called, its configurations, what leaves
    some out, and what they run before each launch."""
    parts = (config_lines(material, search), _pruning(material, search), _hooks(material, search))
    return tuple(dict.fromkeys((search.lines, *(line for part in parts for line in part))))


def _pruning(material: Material, search: SearchRecord) -> list[Lines]:
    origins = material.origins
    if origins is None:
        return []
    found: list[Lines] = []
    rule = _given(origins, search, _PRUNE)
    if rule is not None:
        found += [lines_of(rule), *origins.functions(rule)]
    for root in _roots(material, origins, search):
        for test in _tests(root):
            found += [lines_of(test), *origins.functions(test)]
    return found


def _hooks(material: Material, search: SearchRecord) -> list[Lines]:
    """Functions that configurations run before each launch."""
    origins = material.origins
    found: list[Lines] = []
    for root in _roots(material, origins, search) if origins is not None else ():
        given = _defaults(root)
        for call in each(root, ast.Call):
            for hook in (word.value for word in call.keywords if word.arg == _HOOK):
                name = hook.id if isinstance(hook, ast.Name) else ""
                found += origins.functions(given.get(name, hook)) if origins is not None else ()
    return found


def _defaults(root: ast.AST) -> dict[str, ast.expr]:
    """Parameters of a function with the values that they have when nothing is passed."""
    if not isinstance(root, ast.FunctionDef):
        return {}
    places = [*root.args.posonlyargs, *root.args.args]
    last = places[len(places) - len(root.args.defaults) :]
    rows = [*zip(last, root.args.defaults, strict=True)]
    named = zip(root.args.kwonlyargs, root.args.kw_defaults, strict=True)
    rows += [(place, value) for place, value in named if value is not None]
    return {place.arg: value for place, value in rows}


def _given(
    origins: Origins | None, search: SearchRecord, name: str, place: int = -1
) -> ast.expr | None:
    """An argument of the decorator that attaches the search."""
    call = origins.call_at(search.lines) if origins is not None else None
    if origins is None or call is None or search.kind == "exhaustive_search":
        return None
    call = call.func if isinstance(call.func, ast.Call) else call  # what it makes takes a kernel
    by_name = next((word.value for word in call.keywords if word.arg == name), None)
    in_place = call.args[place] if 0 <= place < len(call.args) else None
    return by_name if by_name is not None else in_place


def _table(origins: Origins | None, search: SearchRecord) -> ast.Name | None:
    """The variable whose configurations an exhaustive search goes through."""
    call = origins.call_at(search.lines) if origins is not None else None
    first = call.args[0] if call is not None and call.args else None
    exhaustive = search.kind == "exhaustive_search"
    return first if exhaustive and isinstance(first, ast.Name) else None


def _roots(material: Material, origins: Origins | None, search: SearchRecord) -> list[ast.AST]:
    """Code that makes the configurations: a function, an expression, the assignments behind it."""
    roots: list[ast.AST] = []
    if origins is None:
        return roots
    if search.generator is not None:
        made = function_at(material.tree, *search.generator[:2])
        roots += [made] if made is not None else []
    given = _given(origins, search, "configs", search.place)
    if given is not None:
        roots += [given, *origins.statements(given)]
    call = origins.call_at(search.lines)
    if call is not None and search.place:
        roots.append(call)
    if call is not None and call.args and search.kind == "exhaustive_search":
        handed: list[ast.AST] = [call.args[0], *origins.statements(call.args[0])]
        roots += [node for node in (*handed, *_called(material, handed)) if node not in roots]
    return roots


def _called(material: Material, handed: list[ast.AST]) -> Iterator[ast.FunctionDef]:
    """Functions of the module that are called for what a search is handed, directly or one through
    another."""
    defined = {n.name: n for n in material.tree.body if isinstance(n, ast.FunctionDef)}
    pending, seen = list(handed), set[str]()
    while pending:
        for node in walk(pending.pop()):
            name = _name_called(node)
            if name in defined and name not in seen:
                seen.add(name)
                pending.append(defined[name])
                yield defined[name]


def _name_called(node: ast.AST) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id
    return ""


def _tests(root: ast.AST) -> Iterator[ast.expr]:
    """Tests of values that a loop around them runs through, which leave a turn out."""
    pending: list[tuple[ast.AST, frozenset[str]]] = [(root, frozenset())]
    while pending:
        node, bound = pending.pop()
        if isinstance(node, _COMPREHENSIONS):
            bound |= {name for one in node.generators for name in _bound(one.target)}
            yield from (t for one in node.generators for t in one.ifs if _reads(t, bound))
        elif isinstance(node, ast.For):
            bound |= _bound(node.target)
            for made in (one for one in node.body if isinstance(one, ast.Assign)):
                bound |= {n for t in made.targets for n in _bound(t) if _reads(made.value, bound)}
        elif isinstance(node, ast.If) and _skips(node) and _reads(node.test, bound):
            yield node.test
        elif isinstance(node, ast.Call) and len(node.args) == 2 and _is_filter(node):
            yield node.args[0]
        pending += [(child, bound) for child in children(node)]


def _skips(branch: ast.If) -> bool:
    """A branch that goes on to the next turn, or that alone keeps this one."""
    if any(isinstance(node, ast.Continue) for node in branch.body):
        return True
    return not branch.orelse and any(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Yield)
        for node in branch.body
    )


def _is_filter(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "filter"


def _bound(target: ast.expr) -> frozenset[str]:
    return frozenset(n.id for n in each(target, ast.Name))


def _reads(test: ast.expr, names: frozenset[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in names for n in walk(test))

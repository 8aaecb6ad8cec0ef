"""Host decisions that rest on where the values of a launch were made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

from extractors.host.configurations import config_lines
from extractors.host.events import LaunchRecord, SearchRecord
from extractors.host.expr import atoms, is_sms
from extractors.host.facts import Material, function_at, read_names
from extractors.host.origins import Origins, lines_of
from extractors.host.render import leaves
from extractors.host.tree import handed_over, parameter_names
from extractors.host.tuning import computed, first_picks
from extractors.host.values import Choice, Expr, Func, Unknown, Value
from extractors.syntax.nodes import each
from kb.evidence import AxisKind, Decision, Lines

SEARCH_CONFIGS, SEARCH_GRID, SEARCH_HINTS = 0, 2, 5
"""Places of the arguments of `exhaustive_search`; source: cuTile documentation."""

_COUNTED = frozenset({"*", "/", "//", "%", "**", "<<", ">>", "cdiv", "npow2", "min", "max"})
"""Operations whose results are counted from other numbers."""

_ASKS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in", "none", "not", "and", "or"})
"""Operations whose results are true or false."""

_NOT_SPECIALISED = frozenset({"do_not_specialize", "do_not_specialize_on_alignment"})
"""Options of `triton.jit`: arguments by whose values no variant is compiled."""

_FLATTENED = "flattened view on host"
_RETYPED = "seen as another type on host"
_NORMALISED = "host-contiguity-alignment-normalisation"
_FLATTENS = frozenset({"view", "reshape", "flatten", "ravel"})
"""Methods of torch tensors that give the same elements another shape."""


def grid_lines(material: Material) -> tuple[Lines, ...]:
    """Lines where the grids of the launches and of the searches are written and computed."""
    origins = material.origins
    if origins is None:
        return ()
    found: set[Lines] = set()
    for launch in material.launches:
        call = origins.call_at(launch.lines)
        grid = _grid(call) if call is not None else None
        if grid is not None:
            found |= {lines_of(grid), *origins.of(grid, callers=False)}
            found |= {line for line in origins.functions(grid) if isinstance(grid, ast.Name)}
            found |= _handed(origins, grid, launch.sites)
    for search in material.searches:
        grid = _searched(origins, search, SEARCH_GRID)
        if grid is not None:
            found.add(lines_of(grid))
    return tuple(sorted(found))


def _handed(origins: Origins, value: ast.expr, sites: tuple[Lines, ...]) -> set[Lines]:
    """Lines of what the calls on the way to a launch hand over for a value, innermost first."""
    found: set[Lines] = set()
    for site in reversed(sites):
        owner = origins.owner(value)
        if not isinstance(value, ast.Name) or not isinstance(owner, ast.FunctionDef):
            break
        names = parameter_names(owner)
        calls = [c for c in origins.calls_in(site) if _calls(c, owner.name)]
        if value.id not in names or not calls:
            break
        given = handed_over(calls[0], value.id, names.index(value.id), calls[0].args)
        if given is None:
            break
        value = given
        found |= {lines_of(value), *origins.of(value, callers=False)}
    return found


def _calls(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == name


def _grid(call: ast.Call) -> ast.expr | None:
    """The grid of `kernel[grid](...)` or of `launch(stream, grid, kernel, ...)`."""
    if isinstance(call.func, ast.Subscript):
        return call.func.slice
    return call.args[1] if len(call.args) > 2 else None


def _searched(origins: Origins, search: SearchRecord, place: int) -> ast.expr | None:
    if search.kind != "exhaustive_search":
        return None
    for call in (origins.call_at(search.lines), *origins.calls_in(search.lines)):
        if call is not None and len(call.args) > SEARCH_GRID:
            return call.args[place] if len(call.args) > place else None
    return None


def hint_lines(material: Material, search: SearchRecord) -> tuple[Lines, ...]:
    """Where the hints of a search come from: the table of configurations and the function that
    makes hints of one."""
    origins = material.origins
    found: set[Lines] = {*config_lines(material, search)} - {search.lines}
    if origins is not None:
        for place in (SEARCH_CONFIGS, SEARCH_HINTS):
            value = _searched(origins, search, place)
            if value is not None:
                found |= {*origins.of(value), *origins.functions(value)}
    return tuple(sorted(found))


def closed_form(material: Material) -> Iterator[Decision]:
    """Where nothing is searched: sizes and warps that a rule computes from the problem; else those
    that are written at the launch, or handed through by a caller, when all of them are, and no
    other module launches the kernel."""
    if material.searches:
        return
    found: set[Lines] = set()
    numbers: set[Lines] = set()
    ruled, fixed = False, True
    constexprs = {name for name, flag in material.signature.params if flag}
    for launch in material.launches:
        rows = [*((n, v) for n, v in launch.args if n in constexprs), *launch.kernel.hints]
        for name, given in rows:
            value = kept(material, given)
            if by_rule(value) or _shared_out(value) or by_attached_rule(launch, name, value):
                ruled = True
                found |= {*material.made(launch, name), *rule_lines(material, launch, name)}
            elif isinstance(value, int) and not isinstance(value, bool):
                numbers |= {*material.made(launch, name)}
            elif isinstance(value, Expr) and value.op == "sym":
                numbers |= {*material.preset(launch, name)}
            fixed = fixed and _as_it_is(value)
    launched = {line for launch in material.launches for line in _launching(material, launch)}
    marks = set() if ruled or not launched else {lines_of(one) for one in marks_of(material)}
    own = bool(launched) and not first_picks(material)
    if found or (own and (ruled or (fixed and material.launched_here_only()))):
        yield Decision(
            axis="autotuning",
            value="closed-form rule" if ruled else "fixed",
            pattern=f"launch-values-{'by-a-closed-form-rule' if ruled else 'written-by-hand'}",
            lines=tuple(sorted(found | numbers | launched | marks)),
            kind=AxisKind.HOST,
        )


def _shared_out(value: Value) -> bool:
    """A number that is counted from how many multiprocessors there are: work for each of them."""
    counted = isinstance(value, Expr) and value.op in _COUNTED
    return counted and any(is_sms(atom) for atom in atoms(value))


def kept(material: Material, value: Value) -> Value:
    """What the one function that sets an attribute gave it, where a value is the attribute of an
    object handed in; the first of several that one rule gave for several tensors."""
    if isinstance(value, Expr) and value.op == "int":
        value = value.args[0]
    given = material.machine.kept.get(str(value.args[1]), []) if is_attribute(value) else []
    rules = {one.op if isinstance(one, Expr) and by_rule(one) else "" for one in given}
    return given[0] if len(given) == 1 or (len(rules) == 1 and "" not in rules) else value


def is_attribute(value: Value) -> TypeGuard[Expr]:
    """Whether a value is an attribute of an object that is handed in."""
    if not isinstance(value, Expr) or value.op != "attr":
        return False
    return isinstance(value.args[0], Expr) and value.args[0].op == "sym"


def default_warps(material: Material) -> Iterator[Decision]:
    """Launches that name no number of warps, of a kernel that neither a search nor a rule gives
    one."""
    origins = material.origins
    if material.searches or origins is None:
        return
    for launch in material.launches:
        call = origins.call_at(launch.lines)
        named = {name for name, _ in (*launch.kernel.hints, *launch.kernel.heuristics)}
        indexed = call is not None and isinstance(call.func, ast.Subscript)
        spread = call is not None and any(one.arg is None for one in call.keywords)
        if not indexed or spread or "num_warps" in named:
            return
        if not launch.kernel.heuristics and _asks_rules(material):
            return
    if launched := {launch.lines for launch in material.launches}:
        yield Decision(
            axis="num_warps",
            value="auto",
            pattern="warps-left-to-the-default",
            lines=tuple(sorted(launched)),
            kind=AxisKind.TUNING,
        )


def marks_of(material: Material) -> list[ast.expr]:
    """Decorators of the kernel: where a search would be attached."""
    kernel = function_at(material.tree, material.signature.name, material.signature.lines)
    return kernel.decorator_list if kernel is not None else []


def _asks_rules(material: Material) -> bool:
    """Whether the kernel is given rules for its values, known or not."""
    called = (one.func for one in marks_of(material) if isinstance(one, ast.Call))
    return any(isinstance(one, ast.Attribute) and one.attr == "heuristics" for one in called)


def _launching(material: Material, launch: LaunchRecord) -> Iterator[Lines]:
    """The call that launches, and the calls that hand the kernel to a function that does."""
    yield launch.lines
    if material.origins is None:
        return
    for site in launch.sites:
        calls = material.origins.calls_in(site)
        given = (arg for call in calls for arg in call.args if isinstance(arg, ast.Name))
        if any(arg.id == material.signature.name for arg in given):
            yield site


def _as_it_is(value: Value) -> bool:
    """A number or text as it is written, what a caller gives, an extent or a sum of such, a flag,
    or a stride of one of several arrays; no product or quotient, nothing else that differs between
    ways to the launch or is unknown."""
    if isinstance(value, Choice):
        return all(
            leaf is None
            or isinstance(leaf, bool)
            or (isinstance(leaf, Expr) and leaf.op in _ASKS | {"stride"})
            for leaf in leaves(value)
        )
    return not isinstance(value, Unknown) and not (isinstance(value, Expr) and value.op in _COUNTED)


def rule_lines(material: Material, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
    """Lines of the rule that an attached table of heuristics holds for a parameter: its entry, and
    its function where the module defines it."""
    rule = dict(launch.kernel.heuristics).get(name)
    kernel = function_at(material.tree, material.signature.name, material.signature.lines)
    if rule is None or kernel is None:
        return ()
    rows = [
        (key, value)
        for mark in kernel.decorator_list
        for node in each(mark, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
    ]
    found = {
        (key.lineno, lines_of(value)[1])
        for key, value in rows
        if isinstance(key, ast.Constant) and key.value == name
    }
    marks = [one for one in kernel.decorator_list[:-1] if isinstance(one, ast.Call)]
    found |= set() if found else {lines_of(one) for one in marks if one.args or one.keywords}
    if isinstance(rule, Func) and rule.frame.module == launch.kernel.module:
        found.add(lines_of(rule.node))
    return tuple(sorted(found))


def by_rule(value: Value) -> bool:
    """A number that depends on the problem by cases, by rounding or by counting."""
    if isinstance(value, Unknown):
        return value.counted
    if isinstance(value, Choice):
        return computed(value) and not any(isinstance(leaf, bool) for leaf in leaves(value))
    return isinstance(value, Expr) and value.op in ("min", "max", "npow2")


def by_attached_rule(launch: LaunchRecord, name: str, value: Value) -> bool:
    """A number that a rule of an attached table chooses by cases, one of which at least is told."""
    if name not in dict(launch.kernel.heuristics) or not isinstance(value, Choice):
        return False
    found = leaves(value)
    told = [one for one in found if isinstance(one, int) or by_rule(one)]
    return bool(told) and not any(isinstance(one, bool) for one in found)


def compiled_in(material: Material) -> Iterator[Decision]:
    """Module constants that the kernel reads as compile-time values; and the arguments whose values
    its decorator keeps out of what is compiled."""
    node = function_at(material.tree, material.signature.name, material.signature.lines)
    if node is None:
        return
    read = read_names(node)
    fixed = {
        lines_of(made)
        for made in material.tree.body
        for target, value in _module_constants(made)
        if target in read and _compile_time(value)
    }
    kept_out = {
        lines_of(option.value)
        for mark in node.decorator_list
        if isinstance(mark, ast.Call)
        for option in mark.keywords
        if option.arg in _NOT_SPECIALISED
    }
    for value, lines in (("constexpr", fixed), ("runtime scalar", kept_out)):
        if lines:
            yield Decision(
                axis="specialization",
                value=value,
                pattern="problem-extents-as-compile-time-constants",
                lines=tuple(sorted(lines)),
                kind=AxisKind.HOST,
            )


def _module_constants(made: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(made, ast.Assign):
        yield from ((t.id, made.value) for t in made.targets if isinstance(t, ast.Name))
    elif isinstance(made, ast.AnnAssign) and isinstance(made.target, ast.Name):
        yield made.target.id, made.annotation


def _compile_time(value: ast.expr) -> bool:
    """`tl.constexpr(…)`, or that name as an annotation."""
    named = value.func if isinstance(value, ast.Call) else value
    return isinstance(named, ast.Attribute) and named.attr == "constexpr"


def flattened(material: Material, launch: LaunchRecord) -> Iterator[Decision]:
    """Arguments whose tensor is given another shape, or is seen as one of another type, where it is
    handed over, or on the way there, not after it."""
    origins = material.origins
    call = origins.call_at(launch.lines) if origins is not None else None
    if origins is None or call is None:
        return
    found: dict[str, dict[Lines, str]] = {}
    for position, (name, constant) in enumerate(material.signature.params):
        value = None if constant else origins.argument(call, name, position, material.row(launch))
        for made in origins.statements(value) if isinstance(value, ast.Name) else []:
            beside = origins.owner(made) is origins.owner(call)
            after = beside and getattr(made, "lineno", 0) > launch.lines[1]
            if isinstance(made, ast.Assign) and (seen := _seen_as(made.value)) and not after:
                found.setdefault(seen, {}).setdefault(lines_of(made), name)
        if value is not None and (seen := _seen_as(value)):
            found.setdefault(seen, {}).setdefault(lines_of(value), name)
    for seen, lines in found.items():
        yield Decision(
            axis="layout_contract",
            value=seen,
            pattern=_NORMALISED,
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
            subject=", ".join(dict.fromkeys(lines.values())),
        )


def with_views(rows: list[Decision]) -> list[Decision]:
    """Arrays given another shape on the way are no decision beside one that makes, or finds, them
    contiguous: that one has the lines of both."""
    layouts = [row for row in rows if row.pattern == _NORMALISED]
    views = [row for row in layouts if row.value in (_FLATTENED, _RETYPED)]
    first = next((row for row in layouts if row not in views), None)
    if first is None or not views:
        return rows
    lines = (line for one in (first, *views) for line in one.lines)
    both = replace(first, lines=tuple(dict.fromkeys(lines)))
    return [both if row is first else row for row in rows if row not in views]


def _seen_as(value: ast.expr) -> str:
    """What a method of a tensor sees it as; empty for another one."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return ""
    if value.func.attr not in _FLATTENS:
        return ""
    return _RETYPED if any(_of_torch(one) for one in value.args) else _FLATTENED


def _of_torch(value: ast.expr) -> bool:
    """Something of the module of torch, as its types are."""
    named = value.value if isinstance(value, ast.Attribute) else None
    return isinstance(named, ast.Name) and named.id == "torch"

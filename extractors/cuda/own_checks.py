"""What holds wherever a kernel is compiled: what it asserts, what functions of the device that it
calls assert of their template arguments, and what a struct asserts that it takes its numbers from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from extractors.cuda import nodes as n
from extractors.cuda.checks import Check, checked, denied, in_words
from extractors.cuda.launch_site import ALIAS, LaunchSite, own_names
from extractors.cuda.library import Library
from extractors.cuda.render import shown

MAX_CALLS = 3
"""Functions, one calling the other, that lead to an assertion."""

MAX_CONDITIONS = 2
"""Conditions known at compile time around an assertion; below more it is not told."""

MAX_ASKED = 40
"""Functions and names that are looked at for one kernel."""

OF_LAUNCH = {
    **{f"blockDim.{axis}": f"block_{axis}" for axis in "xyz"},
    **{f"gridDim.{axis}": f"grid[{number}]" for number, axis in enumerate("xyz")},
}
"""What a kernel reads of its launch, in the words of constraints."""

_TYPES = frozenset({"typename", "template", "class"})


def of_the_kernel(definition: n.Definition, library: Library) -> Iterator[Check]:
    """Assertions of a kernel and of the functions that it calls. Those that constants of the file
    settle say nothing of the kernel, and are left out."""
    given = {name: name for name in own_names(definition)}
    yield from _asserted(_Body(definition, given, library), {})


def words_inside(definition: n.Definition) -> dict[str, str]:
    """What a kernel calls by a name of its own: parameters, constants, types, the launch."""
    local = (
        one.name
        for one in n.inside(definition.body)
        if isinstance(one, n.Variable | n.Alias) and _constant(one)
    )
    names = (*own_names(definition), *local)
    return {name: name for name in names} | OF_LAUNCH


def compiled_for(
    checks: Sequence[Check], definition: n.Definition, library: Library
) -> dict[str, str]:  # fmt: skip
    """Names of assertions that neither the kernel nor its file says anything of: what the file is
    compiled with sets them."""
    declared = {one.name for one in n.inside(definition.body) if isinstance(one, n.Variable)}
    called = {
        id(one.function)
        for check in checks
        for one in n.inside(check.condition)
        if isinstance(one, n.Call)
    }
    return {
        one.text: one.text
        for check in checks
        if check.given is None
        for one in n.inside(check.condition)
        if isinstance(one, n.Name) and one.text.isidentifier() and id(one) not in called
        and one.text not in declared and not _known(one.text, library.unit, {})
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Body:
    """A function and what its names are in the words of the kernel."""

    function: n.Definition
    given: Mapping[str, str]
    library: Library
    depth: int = 0


def _asserted(body: _Body, seen: dict[int, None]) -> Iterator[Check]:
    seen[id(body.function)] = None
    known = _constants(body.function)
    words = _told(body, known)
    given = tuple(words.items()) if body.depth else None
    for node, conditions in _with_conditions(body.function.body, ()):
        calls = isinstance(node, n.Call) and not body.depth
        if isinstance(node, n.Assert) or calls:
            for check in checked(node):
                condition = check.condition
                if isinstance(node, n.Assert) and not _open(condition, body, known):
                    continue
                for one in conditions:
                    condition = n.Binary(one.at, "||", denied(one), condition)
                yield Check(condition, check.at, given)
        if isinstance(node, n.Call) and isinstance(node.function, n.Name):
            callee = _called(node.function, body.library)
            if callee is not None and id(callee) not in seen and len(seen) < MAX_ASKED:
                if body.depth < MAX_CALLS and not conditions:
                    handed = _handed(callee, node.function, words)
                    inner = _Body(callee, handed, body.library, body.depth + 1)
                    yield from _asserted(inner, seen)


def _called(name: n.Name, library: Library) -> n.Definition | None:
    """The function of the file that a call means, when it is one."""
    found = library.unit.functions.get(name.text.rpartition("::")[2], ())
    return found[0] if len(found) == 1 and "__global__" not in found[0].words else None


def _handed(callee: n.Definition, name: n.Name, words: Mapping[str, str]) -> dict[str, str]:
    """Template arguments of a call by the names of the function, in the words of the kernel."""
    found: dict[str, str] = {}
    for parameter, given in zip(callee.template, name.arguments, strict=False):
        text = shown(given)
        told = text if text.isdigit() else in_words(text, words, whole=True)
        if told and parameter.name and not parameter.pack:
            found[parameter.name] = told if told.isidentifier() else f"({told})"
    return found


def _told(body: _Body, known: Mapping[str, n.Expr]) -> dict[str, str]:
    """Names of a function in the words of the kernel; its constants by what they are made of."""
    words = dict(body.given)
    for name, value in known.items():
        if not body.depth:
            words[name] = name
            continue
        text = shown(value)
        told = text if text.isdigit() else in_words(text, words, whole=True)
        if told:
            words[name] = told if told.isalnum() else f"({told})"
    for one in n.inside(body.function.body) if body.depth else ():
        made = in_words(shown(one.type), words) if isinstance(one, n.Alias) else None
        if isinstance(one, n.Alias) and made:
            words.setdefault(one.name, made)
    return words


def _constants(function: n.Definition) -> dict[str, n.Expr]:
    """Numbers of a function that are known when it is compiled, in their order."""
    return {
        one.name: one.value
        for one in n.inside(function.body)
        if isinstance(one, n.Variable) and _constant(one) and one.value is not None
    }


def _constant(node: object) -> bool:
    return isinstance(node, n.Alias) or (
        isinstance(node, n.Variable) and "constexpr" in node.storage and node.value is not None
    )


def _with_conditions(
    node: object, around: tuple[n.Expr, ...]
) -> Iterator[tuple[n.Expr | n.Stmt, tuple[n.Expr, ...]]]:
    """Everything in a body with the conditions, known at compile time, that it stands under."""
    pending: list[tuple[object, tuple[n.Expr, ...]]] = [(node, around)]
    while pending:
        current, inside = pending.pop()
        if isinstance(current, n.If) and current.static:
            if len(inside) < MAX_CONDITIONS:
                pending.append((current.other, (*inside, denied(current.condition))))
                pending.append((current.then, (*inside, current.condition)))
            continue
        if isinstance(current, n.Expr | n.Stmt):
            yield current, inside
            pending += [(one, inside) for one in n.parts(current)]
        elif isinstance(current, tuple):
            pending += [(one, inside) for one in reversed(current)]


def _open(condition: n.Expr, body: _Body, known: Mapping[str, n.Expr]) -> bool:
    """Whether an assertion depends on what a kernel is compiled for."""
    unit = body.library.unit
    shared = unit.constants
    called = {id(x.function) for x in n.inside(condition) if isinstance(x, n.Call)}
    pending: list[object] = [condition]
    seen: set[str] = set()
    for made in pending:
        for node in n.inside(made):
            if isinstance(node, n.SizeOf) and node.type is not None:
                pending.append(n.Name(node.at, node.type.name, node.type.arguments))
            if not isinstance(node, n.Name) or len(seen) > MAX_ASKED:
                continue
            named = [node.text, node.text.partition("::")[0], *_types(node)]
            if any(name in body.given for name in named):
                return True
            plain = not node.arguments and node.scope is None and id(node) not in called
            if plain and not _known(named[1], unit, known):
                return True
            for name in named:
                value = known.get(name) or (shared[name].value if name in shared else None)
                if value is not None and name not in seen:
                    seen.add(name)
                    pending.append(value)
    return False


def _known(name: str, unit: n.Unit, known: Mapping[str, n.Expr]) -> bool:
    """Whether a file or a body says what a name is."""
    held = (unit.constants, unit.records, unit.aliases, unit.functions, known)
    return name == "std" or any(name in one for one in held)


def _types(node: n.Name) -> Iterator[str]:
    """Types that a name holds as template arguments."""
    for one in (*node.arguments, *(node.scope.arguments if node.scope is not None else ())):
        if isinstance(one, n.CType):
            yield one.name
            yield from (inner.name for inner in one.arguments if isinstance(inner, n.CType))
        elif isinstance(one, n.Name):
            yield one.text


def of_traits(
    found: Sequence[LaunchSite], definition: n.Definition, library: Library
) -> Iterator[Check]:
    """What a struct asserts that every launch gives for one template parameter: its own names are
    told as the kernel reads them."""
    for place, parameter in enumerate(definition.template):
        records = {id(r): r for one in found if (r := _struct(one, place, library)) is not None}
        if parameter.dtype not in _TYPES or len(records) != 1:
            continue
        record = next(iter(records.values()))
        if all(_struct(one, place, library) is record for one in found):
            words = _members(record, parameter.name)
            for node in record.asserts:
                for check in checked(node):
                    yield Check(check.condition, check.at, tuple(words.items()))


def _struct(site: LaunchSite, place: int, library: Library) -> n.Record | None:
    """The struct of the file that a launch gives for a template parameter."""
    given: object = site.kernel.arguments[place] if place < len(site.kernel.arguments) else None
    name = given.name if isinstance(given, n.CType) else getattr(given, "text", "")
    made = site.names.get(f"{ALIAS}{name}")
    name = made.text if isinstance(made, n.Name) else name
    records = library.unit.records.get(name.rpartition("::")[2], ())
    return records[0] if len(records) == 1 else None


def _members(record: n.Record, parameter: str) -> dict[str, str]:
    """Names of a struct as the kernel says them; its template arguments by the member that holds
    them."""
    names = [*(one.name for one in record.fields), *(one.name for one in record.aliases)]
    words = {name: f"{parameter}.{name}" for name in names}
    for field in record.fields:
        if isinstance(field.value, n.Name):
            words.setdefault(field.value.text, f"{parameter}.{field.name}")
    for alias in record.aliases:
        words.setdefault(alias.type.name, f"{parameter}.{alias.name}")
    return words

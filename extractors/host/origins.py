"""Lines where the values of a launch were made: assignments followed backwards through names.

Plain lexical resolution: a name stands for what its function, the functions around it, or the
module assign to it; a parameter stands for what the callers in the module pass.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from extractors.host.entries import entry
from extractors.host.gathered import gathered
from extractors.host.row_hints import NO_HINT, Entries, RowHint
from extractors.host.tree import (
    Function,
    applies,
    bound_pairs,
    default_of,
    handed_over,
    loaded_names,
    parameter_names,
    renames,
)  # fmt: skip
from extractors.syntax.nodes import children, each
from kb.evidence import Lines

MAX_STEPS = 24
"""Assignments that one value is followed through."""

MAX_DEPTH = 3
"""Names behind names that are followed."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LEAVES = (ast.Name, ast.Constant)
"""Nodes without any inside."""


@dataclass(slots=True)
class Origins:
    """Definitions of a module by scope; built once per module."""

    tree: ast.Module
    _owner: dict[ast.AST, Function | None] = field(default_factory=dict)
    _assigned: dict[tuple[Function | None, str], list[tuple[ast.stmt, ast.expr]]] = field(
        default_factory=dict
    )
    _applied: dict[ast.AST, str] = field(default_factory=dict)
    _calls: list[ast.Call] = field(default_factory=list)
    _calls_of: dict[str, list[ast.Call]] = field(default_factory=dict)
    _calls_at: dict[Lines, list[ast.Call]] = field(default_factory=dict)
    _inner: dict[tuple[Function | None, str], list[ast.FunctionDef]] = field(default_factory=dict)
    _told: dict[tuple[ast.expr, bool], list[ast.AST]] = field(default_factory=dict)
    _handed: dict[tuple[Function, str], list[ast.expr]] = field(default_factory=dict)
    _with: dict[str, set[ast.expr]] = field(default_factory=dict)
    _spread: dict[tuple[ast.Call, RowHint], Entries] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pending: list[tuple[ast.AST, Function | None]] = [(self.tree, None)]
        of_classes: set[ast.AST] = set()
        while pending:
            node, owner = pending.pop()
            self._owner[node] = owner
            if isinstance(node, _LEAVES):
                continue
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    for part, value in bound_pairs(target, node.value):
                        self._bind(owner, node, part, value)
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None:
                self._bind(owner, node, node.target, node.value)
            elif isinstance(node, ast.Call):
                self._calls.append(node)
                self._calls_at.setdefault(lines_of(node), []).append(node)
                if isinstance(node.func, ast.Name):
                    self._calls_of.setdefault(node.func.id, []).append(node)
            elif isinstance(node, ast.ClassDef):
                methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
                self._applied |= {m: node.name for m in methods if m.name == "forward"}
                of_classes.update(methods)
            elif isinstance(node, ast.FunctionDef) and node not in of_classes:
                self._inner.setdefault((owner, node.name), []).append(node)
            inner = node if isinstance(node, _FUNCTIONS) else owner
            pending += [(child, inner) for child in children(node)]

    def _bind(
        self, owner: Function | None, place: ast.stmt, target: ast.expr, value: ast.expr
    ) -> None:
        """One assignment, under every name in its target."""
        names = {node.id for node in each(target, ast.Name)}
        for name in names:
            self._assigned.setdefault((owner, name), []).append((place, value))

    def call_at(self, lines: Lines) -> ast.Call | None:
        """The outermost call that covers exactly these lines."""
        found = self._calls_at.get(lines, [])
        return max(found, key=lambda c: (c.end_col_offset or 0) - c.col_offset, default=None)

    def managed(self, lines: Lines) -> tuple[Lines, ...]:
        """The heads of the `with` statements of one function around some lines, innermost only."""
        around = [
            node
            for node in each(self.tree, ast.With)
            if node.lineno < lines[0] <= lines_of(node)[1]
        ]
        last = max(around, key=lambda node: node.lineno, default=None)
        return ((last.lineno, last.lineno),) if last is not None else ()

    def calls_in(self, lines: Lines) -> list[ast.Call]:
        """Calls inside a range of lines, the longest first."""
        inside = [c for c in self._calls if lines[0] <= c.lineno and lines_of(c)[1] <= lines[1]]
        return sorted(inside, key=lambda c: lines_of(c)[0] - lines_of(c)[1])

    def calls_of(self, name: str) -> list[ast.Call]:
        """Calls of what stands under a name."""
        return self._calls_of.get(name, [])

    def functions(self, value: ast.expr) -> tuple[Lines, ...]:
        """Lines of the functions that a value calls or names, or in which it is written as one."""
        named = {one for name in loaded_names(value) for one in self._defined(name)}
        found = {*map(lines_of, named)}
        return tuple(sorted(found | {lines_of(one) for one in each(value, ast.Lambda)}))

    def _defined(self, name: ast.Name) -> list[ast.FunctionDef]:
        """The functions that stand under a name where it is read: of the nearest scope with any."""
        scope = self._owner.get(name)
        while scope is not None and (scope, name.id) not in self._inner:
            scope = self._owner.get(scope)
        return self._inner.get((scope, name.id), [])

    def returned(self, value: ast.expr) -> tuple[Lines, ...]:
        """Lines of what the functions of the module that a value calls give back."""
        return tuple(lines_of(item) for item in self._returns(value))

    def _returns(self, value: ast.AST) -> list[ast.Return]:
        """What the functions of the module that a value calls give back."""
        named = {node.func.id for node in each(value, ast.Call) if isinstance(node.func, ast.Name)}
        bound = [node for node in self.tree.body if isinstance(node, ast.Assign)]
        named |= {
            node.value.id
            for node in bound
            if isinstance(node.value, ast.Name)
            and any(isinstance(one, ast.Name) and one.id in named for one in node.targets)
        }
        return [
            item
            for node in self.tree.body
            if isinstance(node, ast.FunctionDef) and node.name in named
            for item in each(node, ast.Return)
        ]

    def worked_out(self, value: ast.AST, depth: int = MAX_DEPTH) -> set[Lines]:
        """Lines of the functions of the module where a value is worked out: what they give back,
        and the calls and choices that they bind to the names of it."""
        found: set[Lines] = set()
        for item in self._returns(value):
            made = (
                [item]
                if item.value is None
                else [item, *self.statements(item.value, callers=False)]
            )
            found |= {lines_of(one) for one in made}
            if depth:
                found |= {line for one in made for line in self.worked_out(one, depth - 1)}
        return found

    def argument(
        self, call: ast.Call, name: str, position: int, row: RowHint = NO_HINT
    ) -> ast.expr | None:
        """What a launch passes for a parameter: by keyword, by position where the kernel itself is
        called, else in the last tuple."""
        last = call.args[-1] if call.args else None
        plain = isinstance(call.func, ast.Subscript)
        if plain:
            alone = isinstance(last, ast.Starred) and len(call.args) == 1
            last = last.value if alone and isinstance(last, ast.Starred) else None
        held = None if last is None else self._row(last, row, MAX_DEPTH)
        given = call.args if plain else []
        found = handed_over(call, name, position, given if held is None else held.elts, row.size)
        spread = () if found is not None else self.spread(call, row)
        found = next((value for key, value, _ in spread if key == name), found)
        return found or entry(self.tree, name, row.stack, row.kernel)

    def spread(self, call: ast.Call, row: RowHint = NO_HINT) -> Entries:
        """Names, values and first lines of the entries of dictionaries spread into a call."""
        if (call, row) not in self._spread:
            self._spread[call, row] = tuple(self._entries(call, row))
        return self._spread[call, row]

    def _entries(self, call: ast.Call, row: RowHint) -> Iterator[tuple[str, ast.expr, int]]:
        for keyword in (key for key in call.keywords if key.arg is None):
            for table in self._tables(keyword.value, row, MAX_DEPTH + 1):
                if isinstance(table, ast.Call):
                    yield from ((k.arg, k.value, k.value.lineno) for k in table.keywords if k.arg)
                    continue
                for key, value in zip(table.keys, table.values, strict=True):
                    if isinstance(key, ast.Constant):
                        yield str(key.value), value, key.lineno

    def _tables(self, value: ast.expr, hint: RowHint, depth: int) -> Iterator[ast.Dict | ast.Call]:
        """The dictionaries that a name stands for: bound to it, handed in by a caller, given back
        by a function of the module, or found in a table of them."""
        given = self._returns(value) if isinstance(value, ast.Call) and depth else []
        if isinstance(value, ast.Dict) or (isinstance(value, ast.Call) and not given):
            yield value
        elif isinstance(value, ast.Subscript):
            yield from self._tables(value.value, hint, depth)
        elif isinstance(value, ast.Name) and depth:
            yield from gathered(self._owner.get(value), value.id, self.calls_of, hint.kernel)
            for made in self._sources(value, hint):
                yield from self._tables(made, hint, depth - 1)
        for item in given:
            if item.value is not None:
                yield from self._tables(item.value, hint, depth - 1)

    def _sources(self, name: ast.Name, hint: RowHint) -> list[ast.expr]:
        """What is assigned to a name, or what callers on the way to a launch pass for it."""
        assigned, passed = self.sources(name)
        if len(passed) > 1:
            passed = [one for one in passed if self._function(one) in hint.stack]
        beside = self._beside(hint.kernel) if len(passed) > 1 and hint.kernel else set()
        return assigned or [one for one in passed if one in beside] or passed

    def _beside(self, kernel: str) -> set[ast.expr]:
        """What is handed over by calls that name a kernel."""
        if kernel not in self._with:
            named = [c for c in self._calls if any(getattr(a, "id", "") == kernel for a in c.args)]
            given = ((*call.args, *(key.value for key in call.keywords)) for call in named)
            self._with[kernel] = {value for row in given for value in row}
        return self._with[kernel]

    def _row(self, value: ast.expr, hint: RowHint, depth: int) -> ast.Tuple | None:
        """The one tuple that a row of arguments is: written out, bound to a name, given back by a
        function, or handed in by a caller."""
        if isinstance(value, ast.Tuple) or not depth:
            return value if isinstance(value, ast.Tuple) else None
        if isinstance(value, ast.Name):
            made = self._sources(value, hint)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            made = self._given_back(value.func)
        else:
            return None
        rows = [self._row(one, hint, depth - 1) for one in made]
        if len(rows) > 1:
            rows = [row for row in rows if row is None or len(row.elts) == hint.size]
        return rows[0] if len(rows) == 1 else None

    def _function(self, value: ast.expr) -> str:
        """Name of the function around a value, empty outside of any."""
        owner = self._owner.get(value)
        return "" if owner is None or isinstance(owner, ast.Lambda) else owner.name

    def _given_back(self, name: ast.Name) -> list[ast.expr]:
        """What a function that stands under a name returns: a lambda, or one inside the function
        around the name."""
        bound = [one for one in self._before(name) if isinstance(one, ast.Lambda)]
        returns = [
            item.value
            for node in self._inner.get((self._owner.get(name), name.id), ())
            for item in each(node, ast.Return)
            if item.value is not None
        ]
        return [one.body for one in bound] + returns

    def of(self, value: ast.expr | None, *, callers: bool = True) -> tuple[Lines, ...]:
        """Lines of the assignments that a value was made by, sorted."""
        if value is None:
            return ()
        return tuple(sorted(set(map(lines_of, self.statements(value, callers=callers)))))

    def assigned(self, name: ast.Name) -> tuple[Lines, ...]:
        """Lines of every assignment to a name in the nearest scope that has any."""
        return tuple(sorted({lines_of(place) for place, _ in self._made(name, callers=False)}))

    def statements(self, value: ast.expr, *, callers: bool = True) -> list[ast.AST]:
        """Assignments that a value was made by, nearest first; with `callers`, what callers pass
        where the value is a parameter itself."""
        key = value, callers
        if key not in self._told:
            self._told[key] = self._statements(value, callers)
        return self._told[key]

    def _statements(self, value: ast.expr, callers: bool) -> list[ast.AST]:
        found: list[ast.AST] = []
        pending = [(name, 0) for name in loaded_names(value)]
        seen: set[tuple[str, Function | None]] = set()
        while pending and len(found) < MAX_STEPS:
            name, depth = pending.pop(0)
            key = (name.id, self._owner.get(name))
            if key in seen:
                continue
            seen.add(key)
            for place, made in self._made(name, callers and not depth):
                if renames(place, made):
                    if isinstance(made, ast.Constant):
                        found.append(place)
                    continue
                found.append(place)
                if depth < MAX_DEPTH:
                    inside = [*loaded_names(made), *self._unpacked(place, made, name.id)]
                    pending += [(inner, depth + 1) for inner in inside]
        return found

    def _unpacked(self, place: ast.AST, made: ast.expr, name: str) -> list[ast.Name]:
        """Of names that take apart what a function of the module gives back: those that it gives
        back in the place of one."""
        call = isinstance(made, ast.Call) and isinstance(made.func, ast.Name)
        if not call or not isinstance(place, ast.Assign):
            return []
        rows = [t.elts for t in place.targets if isinstance(t, ast.Tuple | ast.List)]
        at = [(len(row), i) for row in rows for i, one in enumerate(row)
              if isinstance(one, ast.Name) and one.id == name]  # fmt: skip
        given = [one.value for one in self._returns(made) if isinstance(one.value, ast.Tuple)]
        items = [row.elts[i] for row in given for count, i in at if len(row.elts) == count]
        return [item for item in items if isinstance(item, ast.Name)]

    def sources(self, name: ast.Name) -> tuple[list[ast.expr], list[ast.expr]]:
        """What the function around a name assigns to it on earlier lines, and, where there is no
        such line and the name is a parameter, what the callers in the module pass for it."""
        scope, assigned = self._owner.get(name), self._before(name)
        if assigned or scope is None or name.id not in parameter_names(scope):
            return assigned, []
        return [], self._passed(scope, name.id)

    def owner(self, node: ast.AST) -> ast.AST | None:
        """The function around a node, None at the top of the module."""
        return self._owner.get(node)

    def bindings(self, name: ast.Name) -> list[tuple[ast.AST, ast.expr]]:
        """Statements on earlier lines, of the function around a name or of one around that, or
        arguments of callers, that give the name its value, with that value."""
        scope = self._owner.get(name)
        rows = self._assigned.get((scope, name.id), [])
        own = [row for row in rows if row[1].lineno < name.lineno]
        if own or scope is None:
            return list(own)
        if name.id in parameter_names(scope):
            given = default_of(scope, name.id)
            passed = [*self._passed(scope, name.id), *([given] if given else ())]
            return [(value, value) for value in passed]
        return [] if rows else list(self._made(name, callers=True))

    def _before(self, name: ast.Name) -> list[ast.expr]:
        """What the function around a name assigns to it on earlier lines."""
        rows = self._assigned.get((self._owner.get(name), name.id), [])
        return [value for _, value in rows if value.lineno < name.lineno]

    def values(self, name: ast.Name) -> list[ast.expr]:
        """What the nearest scope that has the name assigns to it, or what callers in the module
        pass for it."""
        return [value for _, value in self._made(name, callers=True)]

    def _made(self, name: ast.Name, callers: bool) -> Iterator[tuple[ast.AST, ast.expr]]:
        """Assignments to a name in the nearest scope that has any, or what callers pass."""
        scope = self._owner.get(name)
        while True:
            rows = self._assigned.get((scope, name.id))
            if rows:
                yield from rows
                return
            if scope is None:
                return
            if name.id in parameter_names(scope):
                passed = self._passed(scope, name.id) if callers else []
                yield from ((value, value) for value in passed)
                return
            scope = self._owner.get(scope)

    def _passed(self, function: Function, name: str) -> list[ast.expr]:
        """What the calls of a function in the module hand over for a parameter."""
        key = function, name
        if key not in self._handed:
            self._handed[key] = list(self._given(function, name))
        return self._handed[key]

    def _given(self, function: Function, name: str) -> Iterator[ast.expr]:
        if isinstance(function, ast.Lambda):
            return
        position = parameter_names(function).index(name)
        applied = self._applied.get(function)
        for call in self._calls:
            if isinstance(call.func, ast.Name) and call.func.id == function.name:
                if self._owner.get(function) and function not in self._defined(call.func):
                    continue
                value = handed_over(call, name, position, call.args)
            elif applied is not None and position and applies(call.func, applied):
                value = handed_over(call, name, position - 1, call.args)
            else:
                continue
            if value is not None:
                yield value


def lines_of(node: ast.AST) -> Lines:
    """First and last line of a node."""
    line = getattr(node, "lineno", 0)
    return (line, getattr(node, "end_lineno", line) or line)

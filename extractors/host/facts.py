"""The facts of one kernel on the host side, and the material they are made from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from extractors.host.assume import Guard
from extractors.host.events import (
    CheckRecord,
    HintRecord,
    KernelSignature,
    LaunchRecord,
    NormaliseRecord,
    PickRecord,
    RoundRecord,
    SearchRecord,
    SentinelRecord,
)
from extractors.host.expr import atoms, distinct_atoms
from extractors.host.file_facts import EmptyGrid, Habits, Hollow, LargeBlock, Unread
from extractors.host.machine import Machine
from extractors.host.modules import ModuleLoader
from extractors.host.origins import Origins, lines_of
from extractors.host.presets import presets
from extractors.host.render import Names, mentions_memo
from extractors.host.row_hints import RowHint
from extractors.host.tree import spread_at
from extractors.host.values import Choice, Expr, Value
from extractors.syntax.nodes import each
from kb.evidence import Decision, Diagnostic, Lines
from kb.space import Constraint, Launch, Tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSize:
    """The most threads of the blocks of a launch where that is known, and whether the run alone
    tells how many there are."""

    most: int | None
    computed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What host code says about one kernel; `unasked`: launches whose error nothing asks for,
    `counted`: what the axes of the grid of every launch count where that is a size as it stands,
    `as_many`: axes of that grid, each with a parameter that says how many blocks it has,
    `left_out`: conditions of branches that launch, where no branch is for the rest, `asserted`:
    checks that release builds leave out, `files`: others that launch the kernel, whose lines stand
    beyond those of its own (`extractors.by_file`)."""

    tuning: Tuning = field(default_factory=Tuning)
    launches: tuple[Launch, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    decisions: tuple[Decision, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    grid_lines: tuple[Lines, ...] = ()
    arguments: tuple[str, ...] = ()
    block_sizes: tuple[BlockSize, ...] = ()
    unasked: tuple[tuple[Lines, ...], ...] = ()
    empty_grids: tuple[EmptyGrid, ...] = ()
    large_blocks: tuple[LargeBlock, ...] = ()
    unread: tuple[Unread, ...] = ()
    hollow: Hollow | None = None
    left_out: tuple[tuple[Lines, ...], ...] = ()
    files: tuple[str, ...] = ()
    asserted: tuple[Lines, ...] = ()
    counted: tuple[str, ...] = ()
    as_many: frozenset[tuple[int, str]] = frozenset()
    habits: Habits = field(default_factory=Habits)
    material: Material | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Material:
    """Events of one kernel: its searches, its launches, and what happened on the way to them;
    `kernels` names all that the file holds, `module` the file among others of the package,
    `entered` the definition that each list of events is of; `launched_elsewhere`: others do, which
    have much else to do."""

    machine: Machine
    tree: ast.Module
    signature: KernelSignature
    kernels: frozenset[str] = frozenset()
    module: str = ""
    searches: list[SearchRecord] = field(default_factory=list)
    launches: list[LaunchRecord] = field(default_factory=list)
    roots: dict[int, int] = field(default_factory=dict)
    entered: Mapping[int, int] = field(default_factory=dict)
    events: Mapping[int, list[object]] = field(default_factory=dict)
    origins: Origins | None = None
    loader: ModuleLoader | None = None
    launched_elsewhere: bool = False
    _numbers: dict[tuple[Expr, bool], int] = field(default_factory=dict)
    _others: dict[int, list[tuple[int, object]]] = field(default_factory=dict)
    _demands: dict[int, list[frozenset[int]]] = field(default_factory=dict)
    _before: dict[int, list[object]] = field(default_factory=dict)
    _lines: dict[tuple[str, Lines, str], tuple[Lines, ...]] = field(default_factory=dict)
    _rounds: frozenset[Lines] | None = None
    picks: dict[int, list[PickRecord]] = field(default_factory=dict)

    def launched_here_only(self) -> bool:
        """Whether no other module of the package takes the kernel to launch it, too."""
        return self.loader is None or not self.loader.imported(self.signature.name)

    def made(self, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
        """Lines where the argument of a launch for a parameter was made."""
        return self.told("made", self._made, launch, name)

    def told(
        self,
        what: str,
        tell: Callable[[LaunchRecord, str], tuple[Lines, ...]],
        launch: LaunchRecord,
        name: str,
    ) -> tuple[Lines, ...]:
        """Lines that hang on the place of a launch alone: a thousand launches may share it."""
        key = what, launch.lines, name
        if key not in self._lines:
            self._lines[key] = tell(launch, name)
        return self._lines[key]

    def _made(self, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
        value = self.argument(launch, name)
        if value is None or self.origins is None:
            return ()
        own = any(param == name for param, _ in self.signature.params)
        return tuple(self._rule(value)) if own else self.origins.of(value)

    def preset(self, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
        """Where functions say what number an argument of a launch is when they are not given
        one."""
        value = self.argument(launch, name)
        return tuple(sorted(presets(self.origins, value))) if value and self.origins else ()

    def argument(self, launch: LaunchRecord, name: str) -> ast.expr | None:
        """What a launch is given for a parameter or an option, as it is written."""
        call = self.origins.call_at(launch.lines) if self.origins else None
        names = [param for param, _ in self.signature.params]
        if call is None or self.origins is None:
            return None
        if name not in names:
            return next((k.value for k in call.keywords if k.arg == name), None)
        return self.origins.argument(call, name, names.index(name), self.row(launch))

    def row(self, launch: LaunchRecord) -> RowHint:
        """What tells the row of arguments of a launch from those of others."""
        return RowHint(len(self.signature.params), launch.stack, self.signature.name)

    def bound(self, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
        """Lines that assign to the variable handed over for a parameter."""
        return self.told("bound", self._bound, launch, name)

    def _bound(self, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
        call = self.origins.call_at(launch.lines) if self.origins else None
        names = [param for param, _ in self.signature.params]
        if call is None or self.origins is None or name not in names:
            return ()
        value = self.origins.argument(call, name, names.index(name), self.row(launch))
        return self.origins.assigned(value) if isinstance(value, ast.Name) else ()

    def given(self, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
        """Lines of what a launch hands over for a parameter, and of what assigns to it when it is a
        variable."""
        return self.told("given", self._given, launch, name)

    def _given(self, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
        call = self.origins.call_at(launch.lines) if self.origins else None
        names = [param for param, _ in self.signature.params]
        if call is None or self.origins is None or name not in names:
            return ()
        place = names.index(name)
        value = self.origins.argument(call, name, place, self.row(launch))
        if value is None:
            handed = [param for param, constant in self.signature.params if not constant]
            value = spread_at(call, name, handed)
        return (lines_of(value), *self._bound(launch, name)) if value is not None else ()

    def handed(self, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
        """Lines of the keyword that hands a launch a hint, and where its value was made."""
        return self.told("handed", self._handed, launch, name)

    def _handed(self, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
        call = self.origins.call_at(launch.lines) if self.origins else None
        if call is None or self.origins is None:
            return ()
        spread = self.origins.spread(call, self.row(launch))
        named = [key.value for key in call.keywords if key.arg == name]
        named += [value for key, value, _ in spread if key == name]
        made = [line for value in named for line in self._rule(value)]
        return tuple(dict.fromkeys((*map(lines_of, named), *made)))

    def _rule(self, value: ast.expr) -> list[Lines]:
        """Lines that a value was made by, and those of functions that work it out."""
        if self.origins is None:
            return []
        made = [one for one in self.origins.statements(value) if isinstance(one, ast.Assign)]
        given = {line for one in made for line in self.origins.worked_out(one.value)}
        return sorted({*self.origins.of(value), *given, *presets(self.origins, value)})

    def names(self, launch: LaunchRecord | None) -> Names:
        """Names as this kernel calls them."""
        names = Names(self.machine)
        return names.bind(launch.args) if launch else names

    def search_names(self, search: SearchRecord) -> Names:
        """Names for the expressions of a search."""
        names = Names(self.machine)
        row = search.args if isinstance(search.args, tuple) else ()
        return names.bind(zip((name for name, _ in self.signature.params), row, strict=False))

    def sites(self) -> list[LaunchRecord]:
        """One launch for each place in the source and way of calls to it; conditions of the problem
        may make a thousand of one."""
        found: dict[tuple[Lines, tuple[str, ...]], LaunchRecord] = {}
        for launch in self.launches:
            found.setdefault((launch.lines, launch.stack), launch)
        return list(found.values())

    def rounds(self) -> frozenset[Lines]:
        """Lines where any extent is rounded up to a power of two."""
        if self._rounds is None:
            rows = (event for events in self.events.values() for event in events)
            self._rounds = frozenset(one.lines for one in rows if isinstance(one, RoundRecord))
        return self._rounds

    def of_root(self, launch: LaunchRecord) -> list[object]:
        """Events of the entry function that led to a launch."""
        return self.events.get(self.roots.get(id(launch), -1), [])

    def beside(self, launch: LaunchRecord) -> list[object]:
        """Those of them that are no launches."""
        return [event for _, event in self._beside(self.roots.get(id(launch), -1))]

    def _beside(self, root: int) -> list[tuple[int, object]]:
        """Events of an entry function that are no launches, with their places among all events."""
        if root not in self._others:
            rows = enumerate(self.events.get(root, ()))
            self._others[root] = [row for row in rows if not isinstance(row[1], LaunchRecord)]
        return self._others[root]

    def before(self, launch: LaunchRecord) -> list[object]:
        """Events other than launches before a launch, on conditions the launch shares."""
        if id(launch) not in self._before:
            self._before[id(launch)] = self._passed(launch)
        return self._before[id(launch)]

    def asked_beside(self, launch: LaunchRecord) -> list[tuple[CheckRecord, tuple[Guard, ...]]]:
        """Checks before a launch that are made on further conditions, which the launch does not
        rule out, with those conditions."""
        held = {(guard.cond, guard.holds) for guard in launch.path.guards}
        root = self.roots.get(id(launch), -1)
        passed = {id(event) for event in self.before(launch)}
        found = []
        for at, event in self._beside(root):
            if not isinstance(event, CheckRecord) or at >= launch.order or id(event) in passed:
                continue
            further = tuple(
                guard
                for guard in event.path.guards
                if guard.shown
                and (guard.cond, guard.holds) not in held
                and not mentions_memo(guard.cond)
            )
            if further and not any((guard.cond, not guard.holds) in held for guard in further):
                found.append((event, further))
        return found

    def _passed(self, launch: LaunchRecord) -> list[object]:
        root = self.roots.get(id(launch), -1)
        demands = self._demanded(root)
        held = {self._numbers.get((guard.cond, guard.holds)) for guard in launch.path.guards}
        rows = zip(self._beside(root), demands, strict=True)
        return [event for (at, event), demand in rows if at < launch.order and demand <= held]

    def _demanded(self, root: int) -> list[frozenset[int]]:
        """For each event beside the launches of an entry function the numbers of the conditions
        that a launch after it must share: not those that only say that a check has passed. Made
        once: a file may have a thousand launches."""
        if root not in self._demands:
            self._demands[root] = [
                frozenset(
                    self._numbers.setdefault((guard.cond, guard.holds), len(self._numbers))
                    for guard in (path.guards if path is not None else ())
                    if guard.shown
                    and not _self_check(event, guard.cond)
                    and not mentions_memo(guard.cond)
                )
                for _, event in self._beside(root)
                for path in (getattr(event, "path", None),)
            ]
        return self._demands[root]

    def unread(self) -> frozenset[str]:
        """Parameters of the kernel that its body never reads."""
        node = function_at(self.tree, self.signature.name, self.signature.lines)
        if node is None:
            return frozenset()
        return frozenset(name for name, _ in self.signature.params) - read_names(node)

    def tied(self, search: SearchRecord) -> list[LaunchRecord]:
        """Launches that take the winner of a search."""
        return [
            one
            for one in self.launches
            if one.kernel.tuner == search.id or uses_axis(one, search.id)
        ]


def _self_check(event: object, cond: Expr) -> bool:
    """`x = x.contiguous() if not x.is_contiguous() else x` happens on every path that matters."""
    return isinstance(event, NormaliseRecord) and any(
        atom == event.tensor for atom in distinct_atoms(cond)
    )


def axis_atoms(value: Value, search: int) -> set[str]:
    """Names of the axes of a search that a value depends on."""
    return {
        str(atom.args[1])
        for atom in distinct_atoms(value)
        if atom.op == "axis" and atom.args[0] == search
    }


def uses_axis(launch: LaunchRecord, search: int) -> bool:
    """Whether anything about a launch depends on the winner of a search."""
    values: tuple[Value, ...] = (
        launch.grid,
        *(value for _, value in launch.args),
        *(v for _, v in launch.kernel.hints),
    )
    return any(axis_atoms(value, search) for value in values)


def function_at(tree: ast.Module, name: str, lines: Lines) -> ast.FunctionDef | None:
    """The definition of a function, by name and place."""
    found = [node for node in functions_of(tree) if node.name == name]
    exact = [
        node
        for node in found
        if lines[0] <= node.lineno <= lines[1] or node.lineno <= lines[0] <= (node.end_lineno or 0)
    ]
    return next(iter(exact or found), None)


@lru_cache(maxsize=64)
def functions_of(tree: ast.Module) -> tuple[ast.FunctionDef, ...]:
    """Every function definition of a module."""
    return tuple(node for node in each(tree, ast.FunctionDef))


@lru_cache(maxsize=1024)
def read_names(node: ast.FunctionDef) -> frozenset[str]:
    """Names that a function body reads."""
    return frozenset(
        item.id
        for statement in node.body
        for item in each(statement, ast.Name)
        if isinstance(item.ctx, ast.Load)
    )


def is_extent(value: Value) -> bool:
    """An expression over extents of tensors alone: no tuning axis, no rounding, no cases."""
    found = list(atoms(value))
    return (
        bool(found)
        and all(atom.op == "dim" for atom in found)
        and _plain(value)
        and not isinstance(value, Choice)
    )


def _plain(value: Value) -> bool:
    if isinstance(value, Expr) and value.op not in ("dim", "sym"):
        return value.op in ("+", "-", "*", "//", "%", "cdiv") and all(
            _plain(arg) for arg in value.args
        )
    return True


__all__ = [
    "CheckRecord",
    "HintRecord",
    "HostFacts",
    "Material",
    "PickRecord",
    "RoundRecord",
    "SentinelRecord",
    "axis_atoms",
    "function_at",
    "functions_of",
    "is_extent",
    "read_names",
    "uses_axis",
]

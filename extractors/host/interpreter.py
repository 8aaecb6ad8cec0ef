"""The whole interpreter: modules, imports, tuning axes, and the entry functions of a module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from extractors.host.assume import Path
from extractors.host.builtin_calls import BuiltinCalls
from extractors.host.core import lines_of
from extractors.host.expr import make, sym
from extractors.host.heap import Heap
from extractors.host.limits import OutOfBounds
from extractors.host.modules import parse_quietly
from extractors.host.reach import leads
from extractors.host.sharing import given_again, keeping
from extractors.host.statements import assigned_names
from extractors.host.values import (
    ABSENT,
    Choice,
    Expr,
    External,
    Frame,
    Func,
    Lazy,
    Meta,
    Module,
    Ref,
    Tuned,
    Unknown,
    Value,
)
from extractors.modules import handed_on
from extractors.syntax.nodes import children, each

MAX_REEXPORTS = 8


class Interpreter(BuiltinCalls):
    """Reads a module and its entry functions; everything observed is in the machine's events."""

    def load_main(self, tree: ast.Module, name: str, path: str) -> Frame:
        """Evaluate the module under analysis."""
        self.main = name
        return self.load_beside(tree, name, path)

    def load_beside(self, tree: ast.Module, name: str, path: str) -> Frame:
        """Evaluate a module that launches kernels of the main one as if it were a part of it."""
        package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        self.analysed.add(name)
        return self._evaluate(Module(name, path, tree, package))

    def _evaluate(self, module: Module) -> Frame:
        """Run a module body once; its objects stay for all entry functions."""
        machine = self.machine
        frame = machine.new_frame(None, module.name, "<module>")
        machine.heap.drop(frame.oid)
        self.modules[module.name] = Module(
            module.name, module.path, module.tree, module.package, frame
        )
        saved = (machine.heap, machine.path, machine.steps, machine.stack, machine.depth)
        calls, self.calls = self.calls, []
        sibling = module.name not in self.analysed
        head_start = machine.limits.steps - machine.limits.sibling_steps if sibling else 0
        machine.heap, machine.path = Heap(), Path()
        machine.heap[frame.oid] = {}
        machine.steps, machine.depth = head_start, 0
        machine.foreign += sibling
        machine.muted += sibling
        try:
            self.run_body(module.tree.body, frame)
        except OutOfBounds as stop:
            self.note(f"the module body is not read to its end: {stop.reason}")
        finally:
            machine.foreign -= sibling
            machine.muted -= sibling
            self._open_tables(module, frame)
            self._open_flags(module, frame)
            machine.base.update(machine.heap.all())
            machine.heap, machine.path, machine.steps, machine.stack, machine.depth = saved
            self.calls = calls
        return frame

    def _open_tables(self, module: Module, frame: Frame) -> None:
        """Module-level tables that functions write to: what earlier calls stored is not known."""
        table = dict(self.machine.mapping(frame.oid))
        held = {
            name: value
            for name, value in table.items()
            if isinstance(value, Ref) and value.kind in ("dict", "list", "set")
        }
        written = written_in_functions(module.tree) if held else frozenset()
        for name, value in held.items():
            if name in written:
                table[name] = Ref(value.oid, value.kind, True)
        self.machine.heap[frame.oid] = table

    def _open_flags(self, module: Module, frame: Frame) -> None:
        """Module-level truth values that functions set: which of the two holds is not known."""
        table = dict(self.machine.mapping(frame.oid))
        held = {name for name, value in table.items() if isinstance(value, bool)}
        for name in held & set_in_functions(module.tree) if held else ():
            table[name] = sym(str(name))
        self.machine.heap[frame.oid] = table

    def module_value(self, name: str, package: str) -> Value:
        """A module: of the package when the loader has it, else a library."""
        return self.modules.get(name) or self._load(name) or External(name)

    def _load(self, name: str) -> Module | None:
        if self.loader is None or len(self.modules) >= self.machine.limits.modules:
            return None
        found = self.loader.source(name)
        tree = parse_quietly(found[1]) if found else None
        if found is None or tree is None:
            return None
        if not given_again(self, name):
            package = name if found[0].endswith("__init__.py") else name.rpartition(".")[0]
            with keeping(self, name):
                self._evaluate(Module(name, found[0], tree, package))
        return self.modules[name]

    def imported(self, base: str, name: str) -> Value:
        """`from base import name`."""
        inner = self.modules.get(f"{base}.{name}") or self._load(f"{base}.{name}")
        if inner is not None:
            return inner
        module = self.modules.get(base) or self._load(base)
        if module is None:
            return self.external(handed_on(name, ()) or f"{base}.{name}")
        if module.frame is not None:
            value = self.machine.mapping(module.frame.oid).get(name, ABSENT)
            if value is not ABSENT:
                return self.loaded(value)
            made = self._made_late(module.frame, name)
            if not isinstance(made, Unknown):
                return made
        return Unknown(f"`{name}` is not defined in {base}")

    def _made_late(self, frame: Frame, name: str) -> Value:
        """What the module's `__getattr__` gives for a name that its body does not define."""
        late = self.machine.mapping(frame.oid).get("__getattr__", ABSENT)
        if not isinstance(late, Func) or name.startswith("__"):
            return Unknown("no such name")
        key = (frame.module, name)
        if key in self.late:
            return self.late[key]
        self.late[key] = Unknown("it is being made")
        made = self.call_function(late, (name,), {}, late.node)
        if isinstance(made, Expr):
            made = make("attr", sym(frame.module.rpartition(".")[2]), name)
        if isinstance(made, (Ref, Choice)):  # objects are those of a branch of the run
            del self.late[key]
        else:
            self.late[key] = made
        return made

    def loaded(self, value: Value) -> Value:
        """An imported name from its module, through at most eight re-exports."""
        if not isinstance(value, Lazy):
            return value
        machine = self.machine
        if machine.imports >= MAX_REEXPORTS:
            return Unknown(f"`{value.name}` is passed on by too many modules")
        machine.imports += 1
        try:
            if not value.name:
                return self.module_value(value.base, "")
            return self.imported(value.base, value.name)
        finally:
            machine.imports -= 1

    def star(self, base: str, frame: Frame) -> None:
        """`from base import *`."""
        module = self.modules.get(base) or self._load(base)
        if module is None or module.frame is None:
            return
        for name, value in self.machine.mapping(module.frame.oid).items():
            if isinstance(name, str) and not name.startswith("_"):
                self.bind(name, value, frame)

    def axis(self, owner: Tuned, name: Value) -> Value:
        """A tuning axis of a search as a symbol; None when every configuration has None there."""
        record = self.searches[owner.search]
        if not isinstance(name, str):
            return Unknown("an axis with an unknown name")
        if name == "kwargs":
            return owner
        values = self._axis_values(owner.search, name)
        if name not in record.seen_axes and values != {None}:
            record.seen_axes.append(name)
        if values == {None}:
            return None
        return make("axis", owner.search, name)

    def _axis_values(self, search: int, name: str) -> set[Value]:
        return set(self.searches[search].values().get(name, ()))

    def axis_names(self, search: int) -> tuple[str, ...]:
        """Names of the axes of a search, in source order."""
        return tuple(self.searches[search].values())

    def meta(self, owner: Meta, key: Value) -> Value:
        """What a grid function reads from its dictionary."""
        if not isinstance(key, str):
            return Unknown("a launch argument with an unknown name")
        found = dict(owner.values).get(key, ABSENT)
        if found is not ABSENT:
            return found
        if owner.search is not None:
            return self.axis(Tuned(owner.search), key)
        return sym(key)

    def enter(self, func: Func) -> None:
        """Read one entry function with its parameters as symbols: the beginning of one that leads
        to no kernel, where it tells of what it is given."""
        machine = self.machine
        leading = leads(func, self.leading)
        head_start = 0 if leading else machine.limits.steps - machine.limits.idle_steps
        machine.heap, machine.path, machine.steps, machine.depth = Heap(), Path(), head_start, 0
        machine.muted, machine.budgets, machine.stack, self.calls = 0, (), (func.name,), []
        frame = machine.new_frame(func.frame, func.frame.module, func.name)
        table: dict[Value, Value] = {}
        spec = func.node.args
        for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            table[arg.arg] = sym(arg.arg)
        if spec.vararg:
            table[spec.vararg.arg] = sym(spec.vararg.arg)
        if spec.kwarg:
            options = self.machine.alloc("dict", {}, open_=True)
            machine.options.add(options.oid)
            table[spec.kwarg.arg] = options
        machine.heap[frame.oid] = table
        self.calls.append((func.name, lines_of(func.node), tuple(str(name) for name in table)))
        try:
            self._run_function(func, frame)
        except OutOfBounds as stop:
            if leading:
                self.note(f"`{func.name}` is not read to its end: {stop.reason}", func.node)
        finally:
            self.calls.clear()
            machine.depth = 0


@lru_cache(maxsize=128)
def written_in_functions(tree: ast.Module) -> frozenset[str]:
    """Module-level names whose contents a function changes."""
    names: set[str] = set()
    for function in _outermost_functions(tree):
        for item in each(function, ast.Subscript):
            if isinstance(item.ctx, (ast.Store, ast.Del)) and isinstance(item.value, ast.Name):
                names.add(item.value.id)
        for call in each(function, ast.Call):
            if isinstance(call.func, ast.Attribute):
                owner = call.func.value
                if isinstance(owner, ast.Name) and call.func.attr in (
                    "append",
                    "update",
                    "setdefault",
                    "pop",
                    "add",
                ):
                    names.add(owner.id)
    return frozenset(names)


def set_in_functions(tree: ast.Module) -> frozenset[str]:
    """Module-level names that a function declares as such and assigns to."""
    names: set[str] = set()
    for function in _outermost_functions(tree):
        declared = {name for one in each(function, ast.Global) for name in one.names}
        names |= declared & set(assigned_names(function)) if declared else set()
    return frozenset(names)


def _outermost_functions(tree: ast.Module) -> Iterator[ast.AST]:
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        elif isinstance(node, (ast.mod, ast.stmt, ast.excepthandler, ast.match_case)):
            pending.extend(children(node))

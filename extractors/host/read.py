"""Host code to facts: `read_host` evaluates a module and its entry functions, bounded, and never
runs them."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from extractors.by_file import BEYOND
from extractors.host.contiguity import made_contiguous, side_by_side
from extractors.host.contracts import host_contracts
from extractors.host.decisions import decisions_of
from extractors.host.derived import grid_lines
from extractors.host.events import KernelSignature, LaunchRecord, SearchRecord, TargetProfile
from extractors.host.facts import HostFacts, Material
from extractors.host.interpreter import Interpreter, written_in_functions
from extractors.host.launch_contracts import launch_contracts
from extractors.host.launchers import Launcher, beside, launchers, together
from extractors.host.limits import Limits
from extractors.host.machine import Machine
from extractors.host.modules import ModuleLoader
from extractors.host.origins import Origins
from extractors.host.reach import leading_to, leads
from extractors.host.render import leaves, unknown_reason
from extractors.host.stated import constraints_of
from extractors.host.trials import tries, without
from extractors.host.tuning import launches_of, tuning_of
from extractors.host.values import ClassValue, Expr, Frame, Func, KernelValue, Value
from extractors.syntax.nodes import each
from kb.evidence import Diagnostic, Severity

MAX_ENTRIES = 200

BESIDE = Limits(steps=50_000)
MAX_BESIDE = 150_000
"""Steps of one entry function of a module that launches kernels of another one, and of all: no
others that lead there are read any more."""


def read_host(
    module: ast.Module,
    *,
    path: str,
    kernels: Mapping[str, KernelSignature],
    loader: ModuleLoader | None = None,
    profile: TargetProfile | None = None,
) -> Mapping[str, HostFacts]:
    """The host facts of each kernel of a module, by kernel name.

    `loader` gives sibling modules as text; without it, what they define is unknown. `profile` fixes
    the target, so that capability branches fold; without it they stay as conditions.
    """
    reader, events = _read(module, path, kernels, loader, profile)
    origins = Origins(module)
    found = {
        kernel: _facts(reader, module, signature, events, origins)
        for kernel, signature in kernels.items()
    }
    alone = {name: kernels[name] for name, facts in found.items() if not facts.launches}
    if loader is None or not alone:
        return found
    return {**found, **_launched_elsewhere(module, path, alone, loader, profile)}


def _launched_elsewhere(
    module: ast.Module,
    path: str,
    kernels: Mapping[str, KernelSignature],
    loader: ModuleLoader,
    profile: TargetProfile | None,
) -> Mapping[str, HostFacts]:
    """The facts of kernels that other modules of the package launch, read beside their own: those
    of the same launchers together."""
    name = loader.name_of(path)
    groups: dict[tuple[tuple[str, frozenset[str]], ...], dict[str, KernelSignature]] = {}
    for kernel, signature in kernels.items() if name else ():
        if taken := tuple(launchers(loader, name, kernel)):
            groups.setdefault(taken, {})[kernel] = signature
    found: dict[str, HostFacts] = {}
    for taken, some in groups.items():
        made = (beside(loader, other, names, at + 1) for at, (other, names) in enumerate(taken))
        others = [one for one in made if one is not None]
        whole = together(module, others)
        reader, events = _read(module, path, some, loader, profile, others)
        files, origins = tuple(one.path for one in others), Origins(whole)
        for kernel, signature in some.items():
            facts = _facts(reader, whole, signature, events, origins)
            if facts.launches:
                found[kernel] = replace(facts, files=files)
    return found


def read_searches(
    module: ast.Module,
    *,
    path: str,
    kernels: Mapping[str, KernelSignature],
    loader: ModuleLoader | None = None,
    profile: TargetProfile | None = None,
) -> tuple[SearchRecord, ...]:
    """Every search that the module attaches to a kernel of its own or calls, by line.

    Arguments as for `read_host`. A search of a sibling module is left out.
    """
    reader, _ = _read(module, path, kernels, loader, profile)
    own = [one for one in reader.searches.values() if one.module in ("", reader.main)]
    return tuple(sorted(own, key=lambda one: one.lines))


def _read(
    module: ast.Module,
    path: str,
    kernels: Mapping[str, KernelSignature],
    loader: ModuleLoader | None,
    profile: TargetProfile | None,
    others: Sequence[Launcher] = (),
) -> tuple[Interpreter, dict[int, list[object]]]:
    """The module evaluated and its entry functions read, or those of `others` that launch its
    kernels: the reader, and the events of each."""
    machine = Machine(limits=BESIDE) if others else Machine()
    reader = Interpreter(machine, kernels, loader, profile)
    name = (loader.name_of(path) if loader else "") or "main"
    frame = reader.load_main(module, name, path)
    frames = [reader.load_beside(one.tree, one.module, one.path) for one in others]
    events = {-1: list(reader.machine.events)}
    whole = together(module, others) if others else module
    package, tables = name.partition(".")[0], written_in_functions(whole)
    called = {*kernels, *(name for one in others for name in one.names)}
    reader.leading = leading_to(whole, called, package=package, tables=tables)
    functions = [func for one in frames or [frame] for func in _functions(reader, one)]
    functions = [func for func in functions if not others or leads(func, reader.leading)]
    entries = entry_functions(functions, whole)
    reader.roots = {id(func.node) for func in entries}
    _enter_all(reader, entries, events)
    _enter_all(reader, [func for func in functions if id(func.node) not in reader.called], events)
    return reader, _enter_tried(reader, events)


def _enter_tried(reader: Interpreter, events: dict[int, list[object]]) -> dict[int, list[object]]:
    """Read by itself what tests and benchmarks hand random arrays to, outer functions first: what
    it accepts, and not what a trial passed, counts."""
    trials = frozenset(events)
    tried = {key: func for key, func in reader.tried.items() if key not in reader.roots}
    reader.called -= tried.keys()
    launching = []
    for key, func in tried.items():
        if key not in reader.called:
            _enter_all(reader, [func], events)
            launching += [func.name] if key in reader.roots else []
    return without(events, trials, frozenset(launching))


def _enter_all(reader: Interpreter, functions: list[Func], events: dict[int, list[object]]) -> None:
    """Read entry functions one by one, each with its own list of events."""
    left = MAX_BESIDE if reader.machine.limits is BESIDE else math.inf
    for func in functions[: MAX_ENTRIES - len(events)]:
        if left <= 0:
            break
        if id(func.node) in reader.called and id(func.node) not in reader.roots:
            continue
        reader.machine.events = []
        reader.machine.forget_ranks()
        reader.trial = tries(func)
        reader.enter(func)
        left -= reader.machine.steps
        if any(isinstance(event, LaunchRecord) for event in reader.machine.events):
            reader.roots.add(id(func.node))
        reader.called.add(id(func.node))
        reader.entered[len(events)] = id(func.node)
        events[len(events)] = reader.machine.events


def entry_functions(functions: list[Func], module: ast.Module) -> list[Func]:
    """Functions that nothing in the module names, and those that a decorator hands out."""
    named = _mentions(module)
    return [func for func in functions if _is_entry(func, named)]


def _functions(reader: Interpreter, frame: Frame) -> list[Func]:
    found: list[Func] = []
    for value in reader.machine.mapping(frame.oid).values():
        pending: list[Value] = leaves(value)
        while pending:
            item = pending.pop(0)
            if isinstance(item, ClassValue):
                pending.extend(entry for _, entry in item.attributes)
            elif isinstance(item, Func) and item.frame.module == frame.module and item not in found:
                found.append(item)
    return found


def _mentions(module: ast.Module) -> dict[str, int]:
    """How often each name is read, as a name or as an attribute, outside its own definition."""
    counts: dict[str, int] = {}
    for name in each(module, ast.Name):
        if isinstance(name.ctx, ast.Load):
            counts[name.id] = counts.get(name.id, 0) + 1
    for part in each(module, ast.Attribute):
        if isinstance(part.ctx, ast.Load):
            counts[part.attr] = counts.get(part.attr, 0) + 1
    return counts


def _is_entry(func: Func, named: dict[str, int]) -> bool:
    if isinstance(func.node, ast.Lambda):
        return False
    handed_out = [item for item in func.node.decorator_list if isinstance(item, ast.Call)]
    if handed_out:
        return True
    inside = sum(1 for node in each(func.node, ast.Name) if node.id == func.name)
    return named.get(func.name, 0) <= inside and func.frame.function == "<module>"


def _facts(
    reader: Interpreter,
    module: ast.Module,
    signature: KernelSignature,
    events: Mapping[int, list[object]],
    origins: Origins,
) -> HostFacts:
    """The facts of one kernel out of everything that was observed."""
    material = Material(
        reader.machine, module, signature, frozenset(reader.kernels), reader.main,
        events=events, entered=reader.entered, origins=origins, loader=reader.loader,
        launched_elsewhere=len(reader.analysed) > 1,
    )  # fmt: skip
    for number, rows in events.items():
        for event in rows:
            if isinstance(event, LaunchRecord) and event.kernel.name == signature.name:
                material.launches.append(event)
                material.roots[id(event)] = number
            elif isinstance(event, SearchRecord) and signature.name in _searched(reader, event):
                material.searches.append(event)
    attached = {launch.kernel.tuner for launch in material.launches}
    for search in reader.searches.values():
        ours = search.kind != "exhaustive_search" and signature.name in _searched(reader, search)
        if ours and search not in material.searches and (search.id in attached or not search.stack):
            material.searches.append(search)
    material.searches = _distinct(material.searches)
    return HostFacts(
        tuning=tuning_of(material),
        launches=launches_of(material),
        constraints=(
            *constraints_of(material),
            *made_contiguous(material),
            *host_contracts(material),
            *launch_contracts(material),
        ),
        decisions=decisions_of(material),
        diagnostics=_diagnostics(reader, material),
        grid_lines=grid_lines(material),
        arguments=side_by_side(material),
        material=material,
    )


def _searched(reader: Interpreter, search: SearchRecord) -> set[str]:
    """Names of the kernels of the module that a search may time: one of several, where the host
    chooses."""
    found = (leaf for leaf in leaves(search.kernel) if isinstance(leaf, KernelValue))
    return {leaf.name for leaf in found if leaf.module == reader.main}


def _distinct(searches: list[SearchRecord]) -> list[SearchRecord]:
    """Each search site once, although several entry functions may reach it, and several branches
    before it: the one that tries most."""
    seen: dict[tuple[int, int], SearchRecord] = {}
    for search in searches:
        known = seen.setdefault(search.lines, search)
        if _tried(search) > _tried(known):
            seen[search.lines] = search
    return list(seen.values())


def _tried(search: SearchRecord) -> int:
    return len({point for case in search.cases for point in case.points})


def _diagnostics(reader: Interpreter, material: Material) -> tuple[Diagnostic, ...]:
    rows: list[Diagnostic] = []
    for search in material.searches:
        for case in search.cases:
            if case.reason:
                rows.append(
                    Diagnostic(
                        severity=Severity.WARNING,
                        lines=search.lines,
                        message=f"not all configurations of `{material.signature.name}` are known: "
                        f"{case.reason}",
                    )
                )
    for launch in material.launches:
        for name, value in launch.args:
            reason = unknown_reason(value)
            if reason and not isinstance(value, Expr):
                rows.append(
                    Diagnostic(
                        severity=Severity.NOTE,
                        lines=launch.lines,
                        message=f"argument `{name}` of `{material.signature.name}` is not known: "
                        f"{reason}",
                    )
                )
    rows += [
        Diagnostic(severity=Severity.NOTE, message=message, lines=lines)
        for message, lines in reader.notes[:20]
        if lines is None or lines[0] < BEYOND  # of a module that launches it, other things are said
    ]
    return tuple(dict.fromkeys(rows))

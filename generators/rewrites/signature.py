"""Parameters of a program added or taken away, in the function that uses them and in every caller
up to the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kb.ir import Function, Kernel, Op, Parameter, Region, walk
from kb.ops import OpKind

Operands = list[tuple[str, str]]
Change = Callable[[Operands], Operands]


@dataclass(frozen=True, slots=True)
class NewParameter:
    """A parameter to add next to the one called `beside`: behind it, or in front of it."""

    parameter: Parameter
    beside: str
    behind: bool


def with_parameters(kernel: Kernel, function: str, new: Sequence[NewParameter]) -> Kernel:
    """Add parameters to a function; every caller gets them too and hands them on."""
    pending = [(function, tuple(new))]
    while pending:
        name, wanted = pending.pop()
        kernel = _replaced(kernel, name, partial(_added, new=wanted))
        for caller in kernel.functions:
            calls = [op for op in walk(caller.body) if _calls(op, name)]
            if not calls:
                continue
            outer = tuple(_beside(one, calls[0], caller) for one in wanted)
            passing = _passing(caller.body, name, wanted)
            kernel = _replaced(kernel, caller.name, partial(_with_body, body=passing))
            pending.append((caller.name, outer))
    return kernel


def without_parameters(kernel: Kernel, used_before: dict[str, frozenset[str]]) -> Kernel:
    """Drop parameters that a function no longer reads but did before, and what callers handed over
    for them."""
    for _ in kernel.functions:
        for function in kernel.functions:
            reads = reads_of(function)
            lost = used_before.get(function.name, frozenset()) - reads
            lost &= set(function.parameter_names)
            if lost:
                kernel = _dropped(kernel, function, frozenset(lost))
    return kernel


def reads_of(function: Function) -> frozenset[str]:
    """Every value that an operation of the function reads."""
    return frozenset(value for op in walk(function.body) for value in op.inputs)


def free_name(kernel: Kernel, wanted: str) -> str:
    """`wanted`, or `wanted_2` and so on, whichever no parameter or variable has."""
    taken = {name for f in kernel.functions for name in f.parameter_names}
    for function in kernel.functions:
        for op in walk(function.body):
            taken.update(value.hint for value in op.results)
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name


def _dropped(kernel: Kernel, function: Function, lost: frozenset[str]) -> Kernel:
    kept = tuple(p for p in function.parameters if p.name not in lost)
    kernel = _replaced(kernel, function.name, lambda f: replace(f, parameters=kept))
    for caller in kernel.functions:
        body = _mapped(
            caller.body, function.name, lambda pairs: [p for p in pairs if p[0] not in lost]
        )
        kernel = _replaced(kernel, caller.name, partial(_with_body, body=body))
    return kernel


def _added(function: Function, new: Sequence[NewParameter]) -> Function:
    parameters = list(function.parameters)
    for one in new:
        names = [p.name for p in parameters]
        place = names.index(one.beside) + one.behind if one.beside in names else len(names)
        parameters.insert(place, one.parameter)
    return replace(function, parameters=tuple(parameters))


def _beside(one: NewParameter, call: Op, caller: Function) -> NewParameter:
    """The same parameter for a caller, beside what it hands over for the neighbour."""
    actual = call.operand(one.beside) or ""
    return replace(one, beside=actual if actual in caller.parameter_names else "")


def _passing(body: Region, callee: str, new: Sequence[NewParameter]) -> Region:
    def change(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
        for one in new:
            roles = [role for role, _ in pairs]
            place = roles.index(one.beside) + one.behind if one.beside in roles else len(roles)
            pairs.insert(place, (one.parameter.name, one.parameter.name))
        return pairs

    return _mapped(body, callee, change)


def _calls(op: Op, name: str) -> bool:
    return op.kind == OpKind.CALL and op.attribute("callee") == name and not op.attribute("native")


def _mapped(region: Region, callee: str, change: Change) -> Region:
    ops = []
    for op in region.ops:
        regions = tuple(_mapped(inner, callee, change) for inner in op.regions)
        op = replace(op, regions=regions)
        if _calls(op, callee):
            op = replace(op, operands=tuple(change(list(op.operands))))
        ops.append(op)
    return Region(region.arguments, tuple(ops))


def _with_body(function: Function, body: Region) -> Function:
    return replace(function, body=body)


def _replaced(kernel: Kernel, name: str, change: Callable[[Function], Function]) -> Kernel:
    functions = [change(f) if f.name == name else f for f in kernel.functions]
    return replace(kernel, entry=functions[0], helpers=tuple(functions[1:]))

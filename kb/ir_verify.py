"""verify(kernel): what is structurally wrong with a tile program; nothing when well formed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kb.ir import Function, Kernel, Op, Region, Span, Value, walk
from kb.ops import TERMINATORS, OpKind

_KINDS = frozenset(OpKind)
_LOOPS = frozenset({OpKind.FOR, OpKind.WHILE})
_BRANCHES = frozenset({OpKind.IF, OpKind.IF_EXPRESSION})
_REGIONS = {OpKind.FOR: 1, OpKind.WHILE: 2, OpKind.IF: 2, OpKind.IF_EXPRESSION: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong: the function, the place in its source and what to put right."""

    function: str
    span: Span
    message: str

    def __str__(self) -> str:
        return f"{self.span}: {self.function}: {self.message}"


@dataclass(frozen=True, slots=True)
class _Frame:
    """A region with its operation, its place there, and the loop that it is in."""

    region: Region
    op: Op | None
    index: int
    loop: Op | None


def verify(kernel: Kernel) -> tuple[Problem, ...]:
    """Every problem: definitions, uses, terminators, carried values, kinds, callees."""
    found: list[Problem] = []
    names = [function.name for function in kernel.functions]
    for function in kernel.functions:
        if names.count(function.name) > 1:
            message = f"two functions are called {function.name}."
            found.append(_problem(function, function.span, message))
        found.extend(_definitions(function))
        found.extend(_uses(function))
        found.extend(_regions(function))
        found.extend(_operations(function, kernel))
    return tuple(found)


def _problem(function: Function, span: Span, message: str) -> Problem:
    return Problem(function=function.name, span=span, message=message)


# -- definitions and uses


def _definitions(function: Function) -> Iterator[Problem]:
    """Every name is defined once in a function."""
    seen: set[str] = set()
    if function.body.arguments:
        yield _problem(function, function.span, "the body of a function takes no arguments.")
    for parameter in function.parameters:
        if parameter.name in seen:
            yield _problem(function, function.span, f"parameter {parameter.name} stands twice.")
        if parameter.default is not None and not parameter.has_default:
            yield _problem(function, function.span, f"parameter {parameter.name}: set has_default.")
        seen.add(parameter.name)
    for op in walk(function.body):
        inner = (value for region in op.regions for value in region.arguments)
        for value in (*op.results, *inner):
            if value.name in seen:
                yield _problem(function, op.span, f"{op.kind} defines %{value.name} again.")
            seen.add(value.name)


def _uses(function: Function) -> Iterator[Problem]:
    """Every operand is defined before, in the same region or in one around it."""
    known: set[str] = set(function.parameter_names)
    stack: list[tuple[Iterator[Op], list[str]]] = [(iter(function.body.ops), [])]
    waiting: list[tuple[Op, int]] = []
    while stack:
        ops, mine = stack[-1]
        op = next(ops, None)
        if op is None:
            stack.pop()
            known.difference_update(mine)
            if not stack:
                return
            op, index = waiting.pop()
        else:
            index = 0
            for role, value in op.operands:
                if value not in known:
                    message = f"{op.kind} reads %{value} as {role}, which is not defined here."
                    yield _problem(function, op.span, message)
        if index < len(op.regions):
            region = op.regions[index]
            arguments = _define(region.arguments, known)
            waiting.append((op, index + 1))
            stack.append((iter(region.ops), arguments))
        else:
            stack[-1][1].extend(_define(op.results, known))


def _define(values: tuple[Value, ...], known: set[str]) -> list[str]:
    """Names new to `known`, which now holds them; a second definition is told elsewhere."""
    new = [value.name for value in values if value.name not in known]
    known.update(new)
    return new


# -- regions


def _regions(function: Function) -> Iterator[Problem]:
    """Terminators in place, and as many values handed over as the operation around takes."""
    leaving = _leaving(function)
    pending = [_Frame(function.body, None, 0, None)]
    while pending:
        frame = pending.pop()
        yield from _region(function, frame, leaving)
        inner: list[_Frame] = []
        for op in frame.region.ops:
            loop = op if op.kind in _LOOPS else frame.loop
            inner += [_Frame(r, op, i, loop) for i, r in enumerate(op.regions)]
        pending += reversed(inner)


def _leaving(function: Function) -> frozenset[int]:
    """Identities of the branches both of whose sides return, break or continue."""
    found: set[int] = set()
    for op in reversed(list(walk(function.body))):
        if (
            op.kind == OpKind.IF
            and op.regions
            and all(
                region.terminator is not None
                and (
                    region.terminator.kind in (OpKind.RETURN, OpKind.BREAK, OpKind.CONTINUE)
                    or id(region.terminator) in found
                )
                for region in op.regions
            )
        ):
            found.add(id(op))
    return frozenset(found)


def _region(function: Function, frame: _Frame, leaving: frozenset[int]) -> Iterator[Problem]:
    around = frame.op.kind if frame.op else "function"
    span = frame.op.span if frame.op else function.span
    for op in frame.region.ops[:-1]:
        if op.kind in TERMINATORS or id(op) in leaving:
            yield _problem(function, op.span, f"{op.kind} leaves the region, operations follow it.")
    last = frame.region.terminator
    if last is None or (last.kind not in TERMINATORS and id(last) not in leaving):
        yield _problem(function, span, f"a region of {around} ends without a terminator.")
        return
    if last.kind in TERMINATORS:
        yield from _terminator(function, frame, last)


def _terminator(function: Function, frame: _Frame, last: Op) -> Iterator[Problem]:
    """A terminator hands over as many values as the place it goes to takes."""
    if last.kind == OpKind.RETURN:
        return
    if last.kind == OpKind.YIELD:
        if frame.op is None:
            yield _problem(function, last.span, "yield in the body of a function; write return.")
            return
        is_test = frame.op.kind == OpKind.WHILE and frame.index == 0
        wanted = 1 if is_test else len(frame.op.results)
    elif frame.loop is None:
        yield _problem(function, last.span, f"{last.kind} outside a loop.")
        return
    else:
        wanted = len(frame.loop.results)
    if len(last.operands) != wanted:
        message = f"{last.kind} hands over {len(last.operands)} values, {wanted} are taken."
        yield _problem(function, last.span, message)


# -- operations


def _operations(function: Function, kernel: Kernel) -> Iterator[Problem]:
    for op in walk(function.body):
        if op.kind not in _KINDS:
            yield _problem(function, op.span, f"there is no operation {op.kind}.")
            continue
        yield from (_problem(function, op.span, text) for text in _shape(op))
        if op.kind in (OpKind.CALL, OpKind.FUNCTION) and op.attribute("native") is None:
            yield from (_problem(function, op.span, text) for text in _call(op, kernel))


def _shape(op: Op) -> Iterator[str]:
    """What is wrong with the number of regions, arguments and results."""
    wanted = _REGIONS.get(OpKind(op.kind))
    if wanted is not None and len(op.regions) != wanted:
        yield f"{op.kind} has {len(op.regions)} regions, {wanted} are wanted."
        return
    if op.kind in TERMINATORS and op.results:
        yield f"{op.kind} has results."
    if op.kind in _LOOPS:
        carried = sum(1 for role, _ in op.operands if role == "init")
        if len(op.results) != carried:
            yield f"{op.kind} takes {carried} initial values and has {len(op.results)} results."
        extra = 1 if op.kind == OpKind.FOR else 0
        for region in op.regions:
            if len(region.arguments) != carried + extra:
                count = len(region.arguments)
                yield f"a region of {op.kind} has {count} arguments, {carried + extra} are wanted."
    head = {OpKind.FOR: "iterable", OpKind.IF: "condition", OpKind.IF_EXPRESSION: "condition"}
    role = head.get(OpKind(op.kind))
    if role is not None and op.operand(role) is None:
        yield f"{op.kind} has no {role}."
    if op.kind in _BRANCHES and any(region.arguments for region in op.regions):
        yield f"a region of {op.kind} has arguments."


def _call(op: Op, kernel: Kernel) -> Iterator[str]:
    """What is wrong with the function that is named."""
    callee = str(op.attribute("callee"))
    helper = kernel.helper(callee)
    if helper is None:
        yield f"{op.kind} names {callee}, which is no helper of the program."
        return
    if op.kind == OpKind.FUNCTION:
        return
    given = [role for role, _ in op.operands]
    for name in sorted({name for name in given if given.count(name) > 1}):
        yield f"{callee} is given {name} twice."
    for name in sorted(set(given) - set(helper.parameter_names)):
        yield f"{callee} has no parameter {name}."
    for parameter in helper.parameters:
        if not parameter.has_default and parameter.name not in given:
            yield f"{callee} is not given {parameter.name}."

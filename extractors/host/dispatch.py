"""Decisions of host code between kernels and between buffers: which kernel runs, and what it
overwrites."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations

from extractors.host.backends import asks
from extractors.host.backwards import back, same_array
from extractors.host.callers import leading
from extractors.host.conditions import parts
from extractors.host.events import CheckRecord, LaunchRecord
from extractors.host.facts import Material
from extractors.host.gates import joined
from extractors.host.origins import lines_of
from extractors.host.render import leaves
from extractors.host.sides import FRAMEWORK, forks
from extractors.host.tables import DEVICE_NAMES
from extractors.host.values import Choice, Expr, Value
from kb.evidence import AxisKind, Decision, Lines

_ANSWERS = frozenset({"and", "or", "not", "==", "!=", "<", "<=", ">", ">=", "in", "not in"})
"""What gives back yes or no."""

_CONTIGUOUS = "contiguous tensors demanded"
_COLUMNS = "column-major operand demanded"
_TURNED = "column-major-operand-demanded"

ONE_TENSOR = "one-tensor-for-input-and-output"
"""The pattern of launches that give two parameters one tensor."""

MAX_PARTS = 256
"""Parts of a condition that are looked at."""


def on_device(material: Material, cond: Expr) -> bool:
    """True for a condition with a part that is about the device alone."""
    return any(_of_device(material, term) for term in _terms(cond))


def _terms(cond: Expr) -> list[Expr]:
    """What a condition joins by `and`, `or` and `not`."""
    found: list[Expr] = []
    pending = [cond]
    while pending and len(found) < MAX_PARTS:
        one = pending.pop()
        if one.op in ("and", "or", "not"):
            pending.extend(arg for arg in one.args if isinstance(arg, Expr))
        else:
            found.append(one)
    return found


def _of_device(material: Material, term: Expr) -> bool:
    """A test of what the target is or can do, told by itself or by a function that asks the device;
    not of how much work there is for it."""
    inside = list(parts(term))
    named = {str(part.args[0]) for part in inside if part.op == "call"}
    symbols = [str(part.args[0]) for part in inside if part.op == "sym"]
    about = any(
        name == "capability" or name.startswith(("capability[", "target.")) for name in symbols
    )
    sized = any(part.op in ("dim", "shape") for part in inside)
    asking = material.machine.device_functions | DEVICE_NAMES
    return (about or bool(named & asking)) and not sized


def device_branches(material: Material) -> Iterator[Decision]:
    """Compile-time arguments and hints that depend on what the target is, and searches whose
    configurations do."""
    constexprs = {name for name, flag in material.signature.params if flag}
    conds: dict[Expr, None] = {}
    answers: set[Lines] = set()
    for launch in material.launches:
        rows = [value for name, value in launch.args if name in constexprs]
        for name, value in launch.args:
            if name in constexprs and isinstance(value, Expr) and value.op in _ANSWERS:
                answers.update(material.made(launch, name) if on_device(material, value) else ())
        for value in (*rows, *(value for _, value in launch.kernel.hints)):
            conds |= dict.fromkeys(_asked_of(value))
    for search in material.searches:
        conds |= dict.fromkeys(cond for case in search.cases for cond, _ in case.conds)
        for _, value in search.hints if isinstance(search.hints, tuple) else ():
            conds |= dict.fromkeys(_asked_of(value))
    terms = {term for cond in conds for term in (cond, *_terms(cond)) if on_device(material, term)}
    lines = answers | {lines_of(test) for term in terms for test in _on_the_way(material, term)}
    if lines:
        yield Decision(
            axis="arch_dispatch",
            value="if capability",
            pattern="architecture-dispatched-tuning-space",
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
        )


def _on_the_way(material: Material, term: Expr) -> list[ast.expr]:
    """Where a question is asked: on the way to a launch of this kernel if it is asked there, else
    wherever it is."""
    around = [node for launch in material.launches for node in leading(material, launch)]
    tests = list(material.machine.asked.get(term, ()))
    ours = [
        test
        for test in tests
        if any(n.lineno <= test.lineno <= (n.end_lineno or n.lineno) for n in around)
    ]
    return ours or tests


def _asked_of(value: Value) -> Iterator[Expr]:
    """Conditions of the cases of a value, or of what it is computed from."""
    pending = [value]
    for _ in range(MAX_PARTS):
        if not pending:
            return
        one = pending.pop()
        if isinstance(one, Choice):
            yield one.cond
            pending += [one.then, one.other]
        elif isinstance(one, Expr):
            pending += one.args


def chosen_kernel(material: Material) -> Iterator[Decision]:
    """Branches that run this kernel on one side, and another kernel or a computation of the
    framework on another; with what the tests were made of."""
    found: dict[bool, set[Lines]] = {}
    name = material.signature.name
    rows = [(one.at, one.instead(name), False) for one in forks(material.tree, material.kernels)]
    rows += [(test, frozenset({name}), asked) for test, asked in _evaluated(material)]
    others: set[str] = set()
    for test, instead, asked in rows:
        terms = joined(material, test) if instead else []
        answers = {term: asks(material, term) for term in terms}
        for device in {asked} - {False} | {*answers.values()}:
            lines = {lines_of(term) for term in terms if answers[term] is device}
            found.setdefault(device, set()).update(_behind(material, test) | lines)
            others |= set() if device else instead
    for device, lines in found.items():
        pattern = "framework-instead-of-the-kernel"
        pattern = "kernel-chosen-by-the-host" if others - {FRAMEWORK} else pattern
        if material.launched_elsewhere and not device and not others - {FRAMEWORK}:
            continue  # what a side computes without a kernel there need not be the work of this one
        yield Decision(
            axis="arch_dispatch" if device else "algorithm_selection",
            value="if capability" if device else "heuristic dispatch by shape/arch",
            pattern="kernel-chosen-by-the-target" if device else pattern,
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
        )


def _evaluated(material: Material) -> Iterator[tuple[ast.expr, bool]]:
    """Tests that every launch of this kernel is under and whose opposite a launch of another is
    under, as where kernels are handed to the function that launches them; and whether what they
    come to asks for the target."""
    for number in sorted({material.roots[id(launch)] for launch in material.launches}):
        launches = [e for e in material.events.get(number, []) if isinstance(e, LaunchRecord)]
        ours = [e for e in launches if e.kernel.name == material.signature.name]
        others = [e for e in launches if e.kernel.name != material.signature.name]
        for cond, holds in _always(ours):
            asked = material.machine.asked.get(cond)
            if asked and any((cond, not holds) in _guards(e) for e in others):
                first = min(e.lines[0] for e in ours)
                above = [test for test in asked if test.lineno <= first]
                yield max(above or asked, key=lambda test: test.lineno), on_device(material, cond)


def _guards(launch: LaunchRecord) -> set[tuple[Expr, bool]]:
    return {(guard.cond, guard.holds) for guard in launch.path.guards}


def _always(launches: list[LaunchRecord]) -> set[tuple[Expr, bool]]:
    """Conditions that every one of the launches is under."""
    each = [_guards(launch) for launch in launches]
    return set.intersection(*each) if each else set()


def _behind(material: Material, test: ast.expr) -> set[Lines]:
    """The lines of a condition, and of what the names in it were set to."""
    origins = material.origins
    if origins is None:
        return {lines_of(test)}
    return {lines_of(test), *origins.of(test, callers=False), *origins.returned(test)}


def shared_buffers(material: Material) -> Iterator[Decision]:
    """Pairs of tensor parameters that a launch may give one tensor; the program knows which of
    them it writes."""
    constexprs = {name for name, flag in material.signature.params if flag}
    for launch in material.launches:
        given = [(n, v, _tensors(material, v)) for n, v in launch.args if n not in constexprs]
        for (one, first, left), (other, second, right) in combinations(given, 2):
            either = isinstance(first, Choice) or isinstance(second, Choice)
            if any(not either or _given(material, tensor) for tensor in left & right):
                lines = {*material.bound(launch, one), *material.bound(launch, other)}
                made = {n: made_of(material, launch, n) for n in (one, other)}
                copied = any(_copied(part) for row in made.values() for part in row)
                if first != second and copied:
                    continue
                for name, value in ((one, first), (other, second)):
                    lines.update(map(lines_of, made[name]) if isinstance(value, Choice) else ())
                if not lines:
                    continue
                lines.update(material.given(launch, one), material.given(launch, other))
                yield Decision(
                    axis="aliasing",
                    value="in place (same array loaded and stored)",
                    pattern=ONE_TENSOR,
                    lines=tuple(sorted(lines)),
                    kind=AxisKind.DESIGN,
                    subject=f"{one}, {other}",
                )


def _given(material: Material, tensor: Value) -> bool:
    """False for an array that the host makes: one that two parameters may get is a stand-in."""
    fact = material.machine.tensors.get(tensor)
    made = isinstance(tensor, Expr) and tensor.op == "tensor"
    return fact is None or fact.base is not None or not made


def made_of(
    material: Material, launch: LaunchRecord, name: str, *, callers: bool = False
) -> list[ast.expr]:
    """What a launch hands over, as the launching function makes it, with all that it may be; with
    `callers`, what they make where that function makes nothing or lays out alone what they give."""
    made, own = _made(material, launch, name)
    laid = all(_laid(one) for one in own if isinstance(one, ast.Call))
    return made if callers and laid else own


def _laid(call: ast.Call) -> bool:
    """A method that gives the array itself where it is contiguous."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "contiguous"


def _made(
    material: Material, launch: LaunchRecord, name: str
) -> tuple[list[ast.expr], list[ast.expr]]:
    """All that what a launch hands over may be, and what of it the launching function makes."""
    call = material.origins.call_at(launch.lines) if material.origins else None
    if call is None or material.origins is None:
        return [], []
    position = [param for param, _ in material.signature.params].index(name)
    given = material.origins.argument(call, name, position, material.row(launch))
    made = [*back(material, given, same_array)][1:] if given is not None else []
    owner = material.origins.owner(call)
    return made, [one for one in made if material.origins.owner(one) is owner]


def _copied(made: ast.expr) -> bool:
    """A method that gives an array of its own."""
    return (
        isinstance(made, ast.Call)
        and isinstance(made.func, ast.Attribute)
        and made.func.attr in ("clone", "float", "half", "bfloat16", "double")
    )


def _meant(value: Value) -> Iterator[Value]:
    """What a value may be; of a choice by whether something is None, what is not stood in for."""
    asked = value.cond if isinstance(value, Choice) else None
    turned = isinstance(asked, Expr) and asked.op == "not"
    test = asked.args[0] if isinstance(asked, Expr) and turned else asked
    if isinstance(value, Choice) and isinstance(test, Expr) and test.op == "none":
        yield from _meant(value.then if turned else value.other)
    elif isinstance(value, Choice):
        yield from (*_meant(value.then), *_meant(value.other))
    else:
        yield from leaves(value)


_HELD = ("sym", "tensor", "index", "attr")
"""Operators of values that may be tensors: a name, a tensor that is made, what is saved."""


def _tensors(material: Material, value: Value) -> set[Value]:
    """The tensors that a value may be, in whatever shape."""
    known = material.machine.tensors
    return {
        leaf
        for leaf in map(material.machine.unshaped, _meant(value))
        if isinstance(leaf, Expr) and (leaf in known or leaf.op in _HELD)
    }


def demanded_layout(material: Material) -> Iterator[Decision]:
    """Checks that refuse tensors which are not contiguous, whose elements do not follow each
    other, or whose strides are not what the kernel needs."""
    found: dict[str, dict[Lines, set[str]]] = {}
    for launch in material.launches:
        bound = {one: name for name, given in launch.args for one in _handed(material, given)}
        for event in material.before(launch):
            if isinstance(event, CheckRecord) and (value := _demand(event.cond, {*bound})):
                names = {bound[one] for one in _asked(event.cond) if one in bound}
                found.setdefault(value, {}).setdefault(event.lines, set()).update(names)
    for at, name in _asked_before(material):
        found.setdefault(_CONTIGUOUS, {}).setdefault(at, set()).add(name)
    for value, lines in found.items():
        names = {name for some in lines.values() for name in some}
        turned = value == _COLUMNS
        yield Decision(
            axis="operand_layout" if turned else "layout_contract",
            value=value,
            pattern=_TURNED if turned else "host-contiguity-alignment-normalisation",
            lines=tuple(sorted(lines)),
            kind=AxisKind.DESIGN if turned else AxisKind.HOST,
            subject=", ".join(sorted(names)) or None,
        )


def _asked_before(material: Material) -> Iterator[tuple[Lines, str]]:
    """Tests of whether an array that is handed over is contiguous, without which no launch is
    reached, with the parameter that gets it."""
    for cond, _ in _always(material.launches):
        about = {one.args[0] for one in parts(cond)
                 if one.op == "attr" and one.args[1:] == ("is_contiguous",)}  # fmt: skip
        names = {name for launch in material.launches if about for name, given in launch.args
                 if about & {*_handed(material, given)}}  # fmt: skip
        for test in material.machine.asked.get(cond, ()) if names else ():
            yield from ((lines_of(test), name) for name in names)


def _asked(cond: Value) -> Iterator[Value]:
    """The tensors whose layout a check asks for."""
    for value in parts(cond):
        if value.op == "stride" or (value.op == "attr" and value.args[1:] == ("is_contiguous",)):
            yield value.args[0]


def _handed(material: Material, value: Value) -> Iterator[Value]:
    """What an argument may be, and the arrays that it is a view or a descriptor of."""
    for leaf in leaves(value):
        described = isinstance(leaf, Expr) and leaf.op == "call" and len(leaf.args) > 1
        of = leaf.args[1] if described and isinstance(leaf, Expr) else leaf
        yield from (leaf, of, material.machine.unshaped(of))


def _demand(cond: Value, bound: set[Value]) -> str:
    """What a check wants of the layout of tensors that are handed over; empty when nothing."""
    found = list(parts(cond))
    for value in found:
        if value.op == "attr" and value.args[1:] == ("is_contiguous",) and value.args[0] in bound:
            return _CONTIGUOUS
    compared = [v for v in found if v.op in ("==", "%")]
    strides = [arg for v in compared for arg in v.args if _is_stride(arg)]
    if any(v.op == "==" and 1 in v.args for v in compared) and strides:
        last = {one.args[1] for one in strides if isinstance(one, Expr)}
        return _COLUMNS if last == {-2} else _CONTIGUOUS
    ours = any(isinstance(one, Expr) and one.args[0] in bound for one in strides)
    return "strides demanded" if ours else ""


def _is_stride(value: Value) -> bool:
    return isinstance(value, Expr) and value.op == "stride"

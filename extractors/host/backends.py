"""Branches of host code on what the target is, where a kernel is launched or its configurations are
made."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.callers import leading
from extractors.host.configurations import making
from extractors.host.device import QUESTIONS
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, functions_of
from extractors.host.modules import imported_from
from extractors.host.origins import lines_of
from extractors.host.sides import routes_of
from extractors.syntax.nodes import each, walk
from kb.evidence import AxisKind, Decision, Lines

_PLATFORM = frozenset({
    "is_rocm", "is_cuda", "is_cuda_alike", "is_xpu", "is_hip", "is_npu", "has_device_capability",
    "is_device_capability", "is_device_capability_family", "is_arch_support_pdl", "is_amd",
})  # fmt: skip
"""What the platform objects and functions of vLLM and SGLang are asked."""
_ANSWERS = QUESTIONS | _PLATFORM
REGISTERED = "registered for some targets alone"
MAX_STEPS = 3
"""Modules that hand a class on."""
_COUNTS = frozenset({"multi_processor_count", "multiprocessor_count"})
"""Properties of PyTorch and Triton that are numbers of multiprocessors."""


def by_backend(material: Material) -> Iterator[Decision]:
    """Tests of the target, by a function that asks for it or by what it gave, in the functions
    around launches and in those that make configurations; and around the kernel itself."""
    roots: list[ast.AST] = [one for search in material.searches for one in making(material, search)]
    for launch in material.sites():
        first = launch.lines[0]
        around = [
            node
            for node in functions_of(material.tree)
            if node.lineno <= first <= (node.end_lineno or node.lineno)
        ]
        roots += around[-1:]
    reached = [line for launch in material.sites() for line in _making(material, launch)]
    tests = [
        node.test
        for root in roots
        for node in walk(root)
        if isinstance(node, ast.If | ast.IfExp | ast.Assert)
        if _asks(material, node.test)
        or (asks(material, node.test) and (_refuses(node) or holds(node, reached)))
    ]
    tests += [test for test in _above(material) if asks(material, test)]
    ways = {(launch.stack, launch.lines): launch for launch in material.launches}
    tests += dict.fromkeys(t for launch in ways.values() for t in _on_the_way(material, launch))
    lines = {lines_of(test) for test in tests}
    lines |= {line for t in tests if material.origins for line in material.origins.returned(t)}
    lines |= {lines_of(made) for test in tests for made in _given(material, test)}
    lines |= {lines_of(call) for test in tests for call in asked_inside(material, test)}
    lines |= {line for launch in material.sites() for line in _handed(material, launch)}
    if lines:
        yield Decision(
            axis="arch_dispatch",
            value="if capability",
            pattern="architecture-dispatched-tuning-space",
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
        )
    if gates := {*_registered(material)}:
        yield Decision(
            axis="arch_dispatch",
            value=REGISTERED,
            pattern="architecture-dispatched-tuning-space",
            lines=tuple(sorted(gates)),
            kind=AxisKind.HOST,
        )


def _on_the_way(material: Material, launch: LaunchRecord) -> Iterator[ast.expr]:
    """Tests of the target around the calls that lead to a launch; and those that end in an error,
    in functions that are called beside for nothing but such checks."""
    functions = {node.name: node for node in functions_of(material.tree)}
    way = leading(material, launch)
    for node, after in zip(way, [*(one.name for one in way[1:]), ""], strict=True):
        calls = [lines_of(c) for c in each(node, ast.Call) if after and _called(c) == after]
        for branch in each(node, ast.If) if calls else ():
            if holds(branch, calls) and asks(material, branch.test):
                yield branch.test
        for statement in each(node, ast.Expr):
            made = statement.value
            checking = functions.get(_called(made)) if isinstance(made, ast.Call) else None
            for check in each(checking, ast.If) if checking is not None else ():
                if _refuses(check) and _asks(material, check.test):
                    yield check.test


def _registered(material: Material) -> Iterator[Lines]:
    """What a decorator is handed of a function that leads to the kernel, where a class makes it
    that asks for the target: the function is for some devices alone."""
    marked = [(node, made) for node in functions_of(material.tree) if (made := _marks(node))]
    routes = routes_of(material.tree, material.kernels) if marked else None
    for node, made in marked if routes is not None else ():
        if routes is not None and material.signature.name in routes.leads(node.name):
            for one in made:
                name = _called(one)
                if _asking_class(material, material.tree, material.module, name, MAX_STEPS):
                    yield lines_of(one)


def _marks(function: ast.FunctionDef) -> list[ast.Call]:
    """What is made, with keywords, for the decorators of a function."""
    marks = [mark for mark in function.decorator_list if isinstance(mark, ast.Call)]
    given = [one for mark in marks for one in (*mark.args, *(k.value for k in mark.keywords))]
    return [one for one in given if isinstance(one, ast.Call) and one.keywords]


def _asking_class(material: Material, tree: ast.Module, module: str, name: str, steps: int) -> bool:
    """Whether a name is a class of the package with a method that asks for the target."""
    for node in each(tree, ast.ClassDef):
        if node.name == name:
            return any(_called(call) in QUESTIONS for call in each(node, ast.Call))
    return bool(steps) and any(
        _asking_class(material, home.tree, home.module, home.name, steps - 1)
        for home in imported_from(material.loader, tree, module, name)
    )


def _handed(material: Material, launch: LaunchRecord) -> Iterator[Lines]:
    """Arguments of a launch that are what the platform answers, with where it is asked and the
    branches of the kernel on them."""
    origins = material.origins
    call = origins.call_at(launch.lines) if origins is not None else None
    if origins is None or call is None:
        return
    for position, (name, _) in enumerate(material.signature.params):
        given = origins.argument(call, name, position, material.row(launch))
        made = list(_answering(material, given)) if given is not None else []
        if given is not None and made:
            yield from (lines_of(one) for one in (given, *made))
            yield from _on(material, name)


def _on(material: Material, name: str) -> Iterator[Lines]:
    """Tests of the kernel that look at one parameter alone."""
    for node in each(material.tree, ast.FunctionDef):
        if node.name == material.signature.name:
            tests = [one.test for one in walk(node) if isinstance(one, ast.If | ast.IfExp)]
            yield from (lines_of(t) for t in tests if isinstance(t, ast.Name) and t.id == name)


def _answering(material: Material, given: ast.expr) -> Iterator[ast.AST]:
    """Where the platform is asked for a value: there, where its name is bound, or in a function of
    the module that gives the answer back."""
    if isinstance(given, ast.Name) and material.origins is not None:
        bound = material.origins.statements(given, callers=False)[:1]
        made = getattr(bound[0], "value", None) if bound else None
        if isinstance(made, ast.Call):
            yield from _answering(material, made)
    elif isinstance(given, ast.Call) and _called(given) in _PLATFORM:
        yield given
    elif isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and not given.args:
        for node in functions_of(material.tree):
            ends = [n for n in each(node, ast.Return) if node.name == given.func.id]
            asked = [c for n in ends for c in each(n, ast.Call) if _called(c) in _PLATFORM]
            yield from (given, *asked) if asked else ()


def _making(material: Material, launch: LaunchRecord) -> Iterator[Lines]:
    """The lines of a launch, and of the assignments that its arguments are made by."""
    yield launch.lines
    call = material.origins.call_at(launch.lines) if material.origins else None
    if call is not None and material.origins is not None:
        yield from material.origins.of(call, callers=False)


def _refuses(node: ast.If | ast.IfExp | ast.Assert) -> bool:
    """True for a test that ends in an error on one side."""
    return isinstance(node, ast.Assert) or any(isinstance(one, ast.Raise) for one in walk(node))


def holds(node: ast.If | ast.IfExp | ast.Assert, places: Iterable[Lines]) -> bool:
    """True for a branch with one of the places in it, or around it in one statement."""
    first, last = lines_of(node)
    return any(first <= place[1] and place[0] <= last for place in places)


def _above(material: Material) -> Iterator[ast.expr]:
    """Tests of the module under which the kernel is defined."""
    first = material.signature.lines[0]
    for node in material.tree.body:
        if isinstance(node, ast.If) and node.lineno < first <= (node.end_lineno or node.lineno):
            yield node.test


def asks(material: Material, test: ast.expr) -> bool:
    """True for a test of the target: it calls what asks for it, or looks only at names that are
    bound to what such a call gives."""
    if _asks(material, test):
        return True
    names = list(each(test, ast.Name))
    return bool(names) and all(_answered(material, name) for name in names)


def _given(material: Material, test: ast.expr) -> Iterator[ast.AST]:
    """Where names of a test got what such a call gave."""
    if material.origins is not None and not _asks(material, test):
        for name in each(test, ast.Name):
            yield from material.origins.statements(name, callers=False)[:1]


def _answered(material: Material, name: ast.Name) -> bool:
    bound = material.origins.statements(name, callers=False)[:1] if material.origins else []
    made = [*bound, *(one for one in material.tree.body if not bound and _sets(one, name.id))]
    value = made[0].value if made and isinstance(made[0], ast.Assign) else None
    given = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.args
    return value is not None and not given and _asks(material, value) and not _counts(value)


def _sets(statement: ast.stmt, name: str) -> bool:
    """Whether a statement sets a name."""
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in statement.targets
    )


def gives_answer(material: Material, value: ast.expr) -> bool:
    """True for what a function of a library tells of the target: asked there, by a function of the
    module that hands it on, or before; as a whole or a part of it."""
    while isinstance(value, ast.Subscript):
        value = value.value
    if isinstance(value, ast.Tuple):
        return any(gives_answer(material, one) for one in value.elts)
    if isinstance(value, ast.Name):
        made = material.origins.statements(value, callers=False)[:1] if material.origins else []
        return isinstance(made[0], ast.Assign) and _told(material, made[0].value) if made else False
    return _told(material, value)


def _told(material: Material, value: ast.expr) -> bool:
    """True for a call that asks for the target, as it is or made a tuple."""
    if not isinstance(value, ast.Call):
        return False
    called = value.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if name == "tuple" and value.args:
        return _told(material, value.args[0])
    return name in QUESTIONS or any(
        item.value is not None and _told_there(item.value)
        for node in functions_of(material.tree)
        if node.name == name
        for item in each(node, ast.Return)
    )


def _told_there(value: ast.expr) -> bool:
    function = value.func if isinstance(value, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in QUESTIONS


def _counts(value: ast.expr) -> bool:
    """True for a number of multiprocessors: how much work there is for the target."""
    return any(node.attr in _COUNTS for node in each(value, ast.Attribute))


def _asks(material: Material, test: ast.expr) -> bool:
    """True for a test that calls what asks for the target, and that measures nothing."""
    calls = list(each(test, ast.Call))
    placed = {id(getattr(call.func, "value", None)) for call in calls if _of_array(call)}
    asked = [call.func for call in calls if id(call) not in placed]
    names = {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in asked}
    sized = any(one.attr in ("shape", "numel") for one in each(test, ast.Attribute))
    return bool(names & (_ANSWERS | material.machine.device_functions)) and not sized


def asked_inside(material: Material, test: ast.expr) -> Iterator[ast.Call]:
    """Where the functions that a test calls ask for the target, they or functions that they
    call."""
    known = material.machine.device_functions
    pending = [name for call in each(test, ast.Call) if (name := _called(call)) in known]
    functions = {f.name: f for f in functions_of(material.tree)}
    for at, name in enumerate(pending):
        if name not in functions:
            continue
        counted = [n.value for n in each(functions[name], ast.Attribute) if n.attr in _COUNTS]
        for call in each(functions[name], ast.Call):
            if _called(call) in _ANSWERS and call not in counted:
                yield call
            elif _called(call) not in pending[: at + 1]:
                pending.append(_called(call))


def _called(call: ast.Call) -> str:
    """The last name of what is called."""
    called = call.func
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _of_array(call: ast.Call) -> bool:
    """True for what a device is asked about something named, as whether an array lies there."""
    receiver = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call)
    return receiver and any(isinstance(arg, ast.Name) for arg in call.args)

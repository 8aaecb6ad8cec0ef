"""What functions of the framework compute of the arrays of a launch, before it and after it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.callers import VIEWS, leading
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.syntax.nodes import each, walk
from kb.evidence import AxisKind, Decision, Lines

PREPARED = "array-computed-by-the-framework-before"
FINISHED = "array-taken-on-by-the-framework-after"

_ORDERS = frozenset({
    "sort", "argsort", "topk", "cumsum", "bincount", "unique", "nonzero", "histc", "searchsorted",
})  # fmt: skip
"""Functions of PyTorch that order, count or number elements."""

_WORK = _ORDERS | {
    "mm", "bmm", "matmul", "addmm", "baddbmm", "einsum", "linear", "softmax", "log_softmax",
    "logsumexp", "exp", "log", "sum", "mean", "amax", "norm", "gather", "index_select", "clamp",
    "clip", "sigmoid", "softplus", "all_reduce", "all_gather_into_tensor", "normalize", "cat",
}  # fmt: skip
"""Functions of PyTorch that compute. Source: PyTorch documentation, torch."""

_NUMBERS = frozenset({"item", "tolist", "size", "numel", "dim", "stride", "int", "float", "len"})
"""What gives a number to the host, or tells how an array lies."""

_STEPS = 3
"""Names that an array is followed through."""


def around_launches(material: Material) -> Iterator[Decision]:
    """Arrays that the framework computes before a launch, and those that it computes with after
    it."""
    yield from _told(PREPARED, "computed by the framework before", _before(material))
    yield from _told(FINISHED, "finished by the framework after", _after(material))


def _told(pattern: str, value: str, found: Iterator[tuple[str, Lines]]) -> Iterator[Decision]:
    lines: dict[str, set[Lines]] = {}
    for name, one in found:
        lines.setdefault(name, set()).add(one)
    for name, places in lines.items():
        yield Decision(
            axis="kernel_boundaries", value=value, pattern=pattern, lines=tuple(sorted(places)),
            kind=AxisKind.DESIGN, subject=name,
        )  # fmt: skip


def _given(material: Material) -> Iterator[tuple[LaunchRecord, str, ast.expr]]:
    """Every launch with its parameters that are no compile-time ones and what stands for them."""
    origins = material.origins
    for launch in material.sites() if origins is not None else ():
        call = origins.call_at(launch.lines) if origins is not None else None
        for position, (name, constant) in enumerate(material.signature.params):
            if call is None or constant or origins is None:
                continue
            given = origins.argument(call, name, position, material.row(launch))
            if given is not None:
                yield launch, name, given


def _before(material: Material) -> Iterator[tuple[str, Lines]]:
    for launch, name, given in _given(material):
        for made in _makers(material, given, _STEPS):
            yield name, lines_of(made)
            yield name, launch.lines


def _makers(material: Material, value: ast.expr, steps: int) -> Iterator[ast.AST]:
    """The work that gave a value, seen through names, views and arithmetic."""
    for node in _inside(value):
        if isinstance(node, ast.Name) and steps and material.origins is not None:
            assigned, passed = material.origins.sources(node)
            for one in assigned or passed:
                if one is not value and (one in passed or not _is_name(one, node.id)):
                    yield from _makers(material, one, steps - 1)
        elif _works(node, _WORK) or (isinstance(node, ast.BinOp) and _of_array(material, node)):
            yield node


def _of_array(material: Material, made: ast.BinOp) -> bool:
    """Arithmetic on what is surely an array: a statement above asks for another view of it, or for
    its elements side by side."""
    for name in (node for node in (made.left, made.right) if isinstance(node, ast.Name)):
        assigned = material.origins.sources(name)[0] if material.origins is not None else []
        for call in (one for one in assigned if isinstance(one, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr in VIEWS | {"contiguous"}:
                return True
    return False


def _is_name(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Name) and value.id == name


def _inside(value: ast.expr) -> Iterator[ast.AST]:
    """The parts of an expression that give it elements: not those of calls that are unknown, nor
    of numbers that the host reads."""
    pending: list[ast.AST] = [value]
    for node in pending:
        yield node
        if isinstance(node, ast.Call):
            name = _called(node)
            if name in _NUMBERS or _works(node, _WORK):
                continue
            if isinstance(node.func, ast.Attribute):
                pending.append(node.func.value)
        elif isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            pending += [node.left, node.right]
        elif isinstance(node, ast.UnaryOp):
            pending.append(node.operand)
        elif isinstance(node, ast.Subscript) or (
            isinstance(node, ast.Attribute) and node.attr in ("values", "indices", "T", "mT")
        ):
            pending.append(node.value)


def _works(node: ast.AST, work: frozenset[str]) -> bool:
    """A product of matrices, or a call of a function or method that computes."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return isinstance(node, ast.Call) and _called(node) in work


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) and function.id in _NUMBERS else ""


def _after(material: Material) -> Iterator[tuple[str, Lines]]:
    for launch, name, given in _given(material):
        if not isinstance(given, ast.Name):
            continue
        for function in leading(material, launch)[-1:]:
            for node in _taking(function, given.id, launch.lines[1]):
                yield name, lines_of(node)
                yield name, launch.lines


def _taking(function: ast.FunctionDef, name: str, after: int) -> Iterator[ast.AST]:
    """Statements below a line that compute with an array, or with what is a view of it."""
    names = {name}
    for node in (one for statement in function.body for one in walk(statement)):
        if getattr(node, "lineno", 0) <= after:
            continue
        if isinstance(node, ast.Assign) and _view_of(node.value, names):
            names |= {one.id for target in node.targets for one in each(target, ast.Name)}
        value = getattr(node, "value", None) if isinstance(node, ast.Assign | ast.Return) else None
        if value is not None and any(_computes(one, names) for one in walk(value)):
            yield node


def _view_of(value: ast.expr, names: set[str]) -> bool:
    """Whether a value is, or on one way of a choice is, a view of an array."""
    if isinstance(value, ast.IfExp):
        return _view_of(value.body, names) or _view_of(value.orelse, names)
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in VIEWS | {"to", "contiguous"}:
            return False
        value = value.func.value
    return isinstance(value, ast.Name) and value.id in names


def _computes(node: ast.AST, names: set[str]) -> bool:
    """Arithmetic on an array, or elements that it chooses."""
    given: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        given = [node.left, node.right]
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
        given = [node.slice]
    return any(_view_of(one, names) for one in given)

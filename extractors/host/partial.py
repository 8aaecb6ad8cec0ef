"""Partial results that a kernel leaves for another one, or for the framework, to add up."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from extractors.host.callers import called, classes, leading
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, functions_of
from extractors.host.origins import Origins, lines_of
from extractors.host.render import leaves
from extractors.host.shared_arrays import Held, others_of, shared_by, tensors
from extractors.host.values import Choice, Expr, External, Value
from extractors.syntax.nodes import each
from kb.evidence import AxisKind, Decision, Lines

_SUMS = frozenset({"sum", "mean"})
"""Methods and functions of torch that add elements up."""
_CHOICES = frozenset({"max", "min", "amax", "amin", "argmax", "argmin"})
"""Methods and functions of torch that look for the largest or smallest element."""

_VIEWS = frozenset({"view", "reshape", "unflatten", "flatten", "to", "float", "contiguous"})
"""Methods of torch that give the same elements in other axes or another type."""
_TOGETHER = re.compile(r"\(([^)]*)\)")
"""Axes that einops takes together."""
ADDED = "partial-results-summed-by-the-host"
BUFFER = "buffer-of-partials-summed-by-the-host"
WHOLE = "results-of-all-programs-summed-by-the-host"
GRADIENT = "gradient-summed-by-the-host"
MERGED = "partial-results-merged-by-a-second-kernel"

STAGES = "reduction-in-two-kernels"
"""What the launches of the two stages of a reduction tell."""

_DONE = {True: "compared", False: "summed"}


def summed(material: Material) -> Iterator[Decision]:
    """Arrays made for a launch that the function around it adds up afterwards."""
    whole: dict[str, set[Lines]] = {}
    for launch in material.sites():
        added: list[str] = []
        for name, made, call in _sums(material, launch):
            lines = tuple(sorted({*made, lines_of(call)}))
            if _over_group(call, _laid_before(material, launch, call)):
                yield Decision(
                    axis="grouped_gradient_accumulation",
                    value="expand + host sum",
                    pattern="heads-of-a-group-summed-by-the-host",
                    lines=lines,
                    kind=AxisKind.DESIGN,
                    subject=name,
                )
                continue
            chosen = isinstance(call.func, ast.Attribute) and call.func.attr in _CHOICES
            yield Decision(
                axis="reduction_split",
                value="split, compared by the host" if chosen else "split with host torch.sum",
                pattern=ADDED,
                lines=lines,
                kind=AxisKind.DESIGN,
                subject=name,
            )
            added.append(name)
            if _along_an_axis(call):
                yield Decision(
                    axis="cross_cta_reduction",
                    value=f"buffer of partial results, {_DONE[chosen]} by the host",
                    pattern=BUFFER,
                    lines=lines,
                    kind=AxisKind.DESIGN,
                    subject=name,
                )
            elif not chosen:
                whole.setdefault(name, set()).update(lines)
            if _backward(material, launch) and not chosen:
                yield Decision(
                    axis="parameter_gradient",
                    value="per-CTA partials then reduce",
                    pattern=GRADIENT,
                    lines=lines,
                    kind=AxisKind.DESIGN,
                    subject=name,
                )
        yield from _kept_as(material, launch, added)
    if whole:
        yield Decision(
            axis="cross_cta_reduction",
            value="results of the programs, summed by the host",
            pattern=WHOLE,
            lines=tuple(sorted({line for lines in whole.values() for line in lines})),
            kind=AxisKind.DESIGN,
            subject=", ".join(whole),
        )


def _kept_as(material: Material, launch: LaunchRecord, names: list[str]) -> Iterator[Decision]:
    """In which type the host makes arrays of partial results that are not kept in 32 bits."""
    kept: dict[str, dict[str, tuple[Lines, ...]]] = {}
    for name, value in launch.args:
        facts = [material.machine.tensors.get(leaf) for leaf in leaves(value)]
        told = {_type(fact.dtype) for fact in facts if fact is not None and fact.dims is not None}
        lines = material.bound(launch, name) if name in names and len(told) == 1 else ()
        if lines and "32 bits" not in told:
            kept.setdefault(told.pop(), {})[name] = lines
    for type_, arrays in kept.items():
        yield Decision(
            axis="intermediate_dtype",
            value=f"partial results in {type_}",
            pattern="type-of-the-buffer-of-partials",
            lines=tuple(sorted({line for lines in arrays.values() for line in lines})),
            kind=AxisKind.DESIGN,
            subject=", ".join(arrays),
        )


def _type(dtype: Value) -> str:
    """A type that the host gives an array, in words."""
    if isinstance(dtype, Choice):
        return "a type that depends on the input"
    if isinstance(dtype, Expr) and dtype.op == "attr":
        return "the type of an argument"
    name = str(dtype.path).rpartition(".")[2] if isinstance(dtype, External) else "float32"
    return "32 bits" if name in ("float", "float32") else name


def _backward(material: Material, launch: LaunchRecord) -> bool:
    """True for a launch on the way of a `backward` of torch.autograd."""
    names = {node.name for node in leading(material, launch)}
    return any(
        isinstance(method, ast.FunctionDef)
        and method.name == "backward"
        and bool(({method.name} | called(method)) & names)
        for node in classes(material, launch)
        for method in node.body
    )


def _sums(
    material: Material, launch: LaunchRecord
) -> Iterator[tuple[str, tuple[Lines, ...], ast.Call]]:
    """Parameters with what makes the array handed over for them, whole or a slice of it, and the
    call that adds it up."""
    origins = material.origins
    call = origins.call_at(launch.lines) if origins is not None else None
    if origins is None or call is None:
        return
    at = launch.lines[0]
    around = [n for n in functions_of(material.tree) if n.lineno <= at <= (n.end_lineno or at)]
    body = max(around, key=lambda node: node.lineno, default=None)
    inside = {None, *(ast.walk(body) if body else ())}
    for position, (name, constant) in enumerate(material.signature.params if body else ()):
        value = None if constant else origins.argument(call, name, position, material.row(launch))
        for array in _arrays(origins, value):
            made, held = origins.assigned(array), origins.owner(array)
            own = material.bound(launch, name) if made else ()
            holder, lines = (body, launch.lines) if held in inside else (held, lines_of(array))
            after = _after(holder, lines)
            yield from ((name, (*own, *made), c) for c in after if made and _adds_up(c, array.id))


def _after(body: ast.AST | None, lines: Lines) -> list[ast.Call]:
    """Calls of a function after some lines of it, but for those on the other side of a branch."""
    items = [item for item in each(body, ast.Call) if item.lineno > lines[1]] if body else []
    branches = [node for node in each(body, ast.If) if node.orelse] if body and items else []
    return [item for item in items if not _instead(branches, lines[0], item.lineno)]


def _arrays(origins: Origins, value: ast.expr | None) -> list[ast.Name]:
    """A variable, and the one that it, or what is handed over, is a slice of."""
    found = [value] if isinstance(value, ast.Name) else []
    bound = [one for _, one in origins.bindings(found[0])] if found else [value]
    for one in bound:
        if isinstance(one, ast.Subscript) and isinstance(one.value, ast.Name):
            if isinstance(one.slice, ast.Slice):
                found.append(one.value)
    return found


def _instead(branches: list[ast.If], launched: int, added: int) -> bool:
    """Whether two lines stand on the two sides of one branch."""
    return any(
        node.lineno <= launched < node.orelse[0].lineno <= added
        and added <= (node.end_lineno or added)
        for node in branches
    )


def _adds_up(call: ast.Call, name: str) -> bool:
    """`name.sum(...)`, `name.view(...).sum(...)`, `torch.sum(name, ...)`; or the sum that einops
    makes."""
    held: list[ast.expr] = list(call.args[:1])
    if isinstance(call.func, ast.Attribute) and call.func.attr in (_SUMS | _CHOICES):
        held.append(_below(call.func.value))
    elif not _named_axes(call):
        return False
    return any(isinstance(one, ast.Name) and one.id == name for one in held)


def _below(value: ast.expr) -> ast.expr:
    """An array below methods that give it other axes or another type."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in _VIEWS:
            break
        value = value.func.value
    return value


def _named_axes(call: ast.Call) -> str:
    """The axes that einops is told for a sum: `reduce(x, "a (b c) -> a b", "sum")`."""
    words = [*call.args[1:], *(k.value for k in call.keywords if k.arg in ("pattern", "reduction"))]
    texts = [w.value for w in words if isinstance(w, ast.Constant) and isinstance(w.value, str)]
    return next((t for t in texts if "->" in t), "") if _SUMS & {*texts} else ""


def _laid_before(material: Material, launch: LaunchRecord, call: ast.Call) -> ast.expr | None:
    """What an array was bound to anew between its launch and its sum."""
    held = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not isinstance(held, ast.Name):
        return held
    between = range(launch.lines[0], call.lineno)
    bound = [
        item.value
        for item in each(material.tree, ast.Assign)
        if item.lineno in between
        and any(isinstance(one, ast.Name) and one.id == held.id for one in item.targets)
    ]
    return bound[-1] if bound else held


def _over_group(call: ast.Call, laid: ast.expr | None) -> bool:
    """Whether a sum is over a part of an axis: heads that share one, beside batch and time; or
    over the number that the axis before was divided by."""
    before, _, after = _named_axes(call).partition("->")
    if after:
        kept = set(after.split())
        parts = [{*part.split()} for part in _TOGETHER.findall(before)]
        return any(part & kept and part - kept for part in parts)
    if not isinstance(laid, ast.Call) or not isinstance(laid.func, ast.Attribute):
        return False
    axes = sum(2 if isinstance(one, ast.Starred) else 1 for one in laid.args)
    along = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "dim")]
    places = [n % axes for n in map(_whole, along) if n is not None and axes]
    inner = any(2 < place < max(4, axes - 1) or _divided(laid, place) for place in places)
    return laid.func.attr in ("view", "reshape") and inner


def _divided(laid: ast.Call, place: int) -> bool:
    """True for an axis as long as what the extent of the axis before it was divided by."""
    before = laid.args[place - 1] if 0 < place < len(laid.args) else None
    if not isinstance(before, ast.BinOp) or not isinstance(before.op, ast.FloorDiv):
        return False
    return ast.dump(before.right) == ast.dump(laid.args[place])


def _whole(node: ast.expr) -> int | None:
    """A number that is written out."""
    below = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    if not isinstance(number, ast.Constant) or not isinstance(number.value, int):
        return None
    return -number.value if below else number.value


def _along_an_axis(call: ast.Call) -> bool:
    """Whether one axis alone is added up: `parts.sum(0)`, `torch.sum(parts, dim=0)`."""
    on = call.func.value if isinstance(call.func, ast.Attribute) else None
    given = [one for one in (on, *call.args) if isinstance(one, ast.Name | ast.Constant)]
    numbers = [one for one in given if isinstance(one, ast.Constant)]
    return bool(numbers) or any(word.arg in ("dim", "axis") for word in call.keywords)


def stages(material: Material) -> Iterator[Decision]:
    """Arrays with one element, or some, for each block of another kernel, which this one, on fewer
    blocks, is launched after; or with an axis more, the first or the last, than what this one makes
    of them."""
    found: set[Lines] = set()
    gradient = False
    first: set[Lines] = set()
    merged: list[str] = []
    held: Held = {}
    for launch in material.sites():
        others = others_of(material, launch, held)
        for other in others:
            if not tensors(material, launch, held) & tensors(material, other, held):
                continue
            before, after = sorted((other, launch), key=lambda one: one.order)
            ahead = [one for one in (launch, *others) if one.order < after.order]
            shared = shared_by(material, ahead, before, after)
            if shared:
                kept = found if after is launch else first
                gradient |= after is launch and _backward(material, launch)
                merged += shared if after is launch else []
                kept |= {
                    launch.lines,
                    *(line for n in shared for line in material.bound(launch, n)),
                }
                if before is launch:
                    yield from _kept_as(material, launch, shared)
    if found:
        yield Decision(
            axis="cross_cta_reduction",
            value="second kernel",
            pattern=MERGED,
            lines=tuple(sorted(found)),
            kind=AxisKind.DESIGN,
            subject=", ".join(dict.fromkeys(merged)),
        )
    if gradient:
        yield Decision(
            axis="parameter_gradient",
            value="second kernel",
            pattern="gradient-summed-by-a-second-kernel",
            lines=tuple(sorted(found)),
            kind=AxisKind.DESIGN,
        )
    if found or first:
        yield Decision(
            axis="reduction_split",
            value="partials merged by a second kernel",
            pattern=STAGES,
            lines=tuple(sorted(found | first)),
            kind=AxisKind.DESIGN,
            subject=", ".join(dict.fromkeys(merged)) or None,
        )

"""What the host chooses for a kernel beside its tiles: the variant, the number of splits, and what
stands for an operand that is not given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from extractors.host.derived import rule_lines
from extractors.host.events import LaunchRecord, SearchRecord
from extractors.host.expr import atoms, is_sms
from extractors.host.facts import Material, axis_atoms, function_at
from extractors.host.render import leaves
from extractors.host.stand_ins import DUMMY, STAND_IN
from extractors.host.tuning import axis_names
from extractors.host.values import Choice, Expr, Func, KernelValue, Value
from extractors.syntax.nodes import each, walk
from kb.evidence import AxisKind, Decision, Lines


def variants(material: Material, search: SearchRecord) -> Iterator[Decision]:
    """A searched axis that chooses between kernels, or between loop nests of one kernel."""
    chosen = _kernel_axes(search) | _branch_axes(material, search)
    if chosen:
        yield Decision(
            axis="algorithm_selection",
            value="exhaustive over variants",
            pattern="algorithm-variant-as-a-tuning-axis",
            lines=(search.lines,),
            kind=AxisKind.HOST,
            subject=", ".join(sorted(chosen)),
        )


def _kernel_axes(search: SearchRecord) -> set[str]:
    """Axes on which it depends which kernel object is timed."""
    kernel = search.kernel
    found: set[str] = set()
    while isinstance(kernel, Choice):
        if len({leaf.name for leaf in leaves(kernel) if isinstance(leaf, KernelValue)}) > 1:
            found |= axis_atoms(kernel.cond, search.id)
        kernel = kernel.then
    return found


def _branch_axes(material: Material, search: SearchRecord) -> set[str]:
    """Two-valued axes that reach a parameter whose test chooses between loops of the kernel."""
    node = function_at(material.tree, material.signature.name, material.signature.lines)
    if node is None:
        return set()
    tested = {name for branch in walk(node) for name in _loop_flags(branch)}
    found = set()
    for name in axis_names(search):
        values = set(search.values()[name]) if name in search.values() else set()
        few = len(values) > 1 and all(isinstance(v, (bool, str)) for v in values)
        if few and tested & _reached(material, search, name):
            found.add(name)
    return found


def _loop_flags(branch: ast.AST) -> set[str]:
    """Names tested by a branch with a loop on either side."""
    if not isinstance(branch, ast.If):
        return set()
    inside = [node for part in (*branch.body, *branch.orelse) for node in walk(part)]
    if not any(isinstance(node, (ast.For, ast.While)) for node in inside):
        return set()
    return {node.id for node in each(branch.test, ast.Name)}


def _reached(material: Material, search: SearchRecord, axis: str) -> set[str]:
    """Parameters of the kernel that an axis is passed to."""
    names = [name for name, _ in material.signature.params]
    if search.kind != "exhaustive_search":
        return {axis} & set(names)
    row = search.args if isinstance(search.args, tuple) else ()
    rows = zip(names, row, strict=False)
    return {name for name, value in rows if axis in axis_atoms(value, search.id)}


def split_counts(material: Material, launch: LaunchRecord) -> Iterator[Decision]:
    """An argument computed from the number of multiprocessors divided by other work; what is left
    for each part is told only where the number of parts itself is not handed over."""
    lengths = {
        name: _shared_out(value.args[1])
        for name, value in launch.args
        if isinstance(value, Expr) and value.op in ("cdiv", "//", "/")
    }
    counts = [
        name for name, value in launch.args if any(_shared_out(leaf) for leaf in leaves(value))
    ]
    for name in [one for one in counts if not lengths.get(one)] or counts:
        yield Decision(
            axis="split_count",
            value="NUM_SMS//(B*H) then pow2 length",
            pattern="sm-count-driven-split-count",
            lines=_lines(material, launch, name),
            kind=AxisKind.TUNING,
            subject=name,
        )


def _shared_out(value: Value) -> bool:
    """Whether multiprocessors are shared out somewhere in a value."""
    return isinstance(value, Expr | Choice) and _shares_inside(value)


@lru_cache(maxsize=4096)
def _shares_inside(value: Expr | Choice) -> bool:
    return any(_shares_out(inner) for inner in _nodes(value))


def _shares_out(node: Expr) -> bool:
    """Multiprocessors over a number of blocks that the problem gives."""
    if node.op not in ("//", "/", "cdiv") or not isinstance(node.args[0], Expr):
        return False
    over, under = node.args[0], node.args[1]
    counted = any(map(is_sms, atoms(over)))
    return counted and any(a.op in ("dim", "sym", "shape") for a in atoms(under))


def _nodes(value: Value) -> Iterator[Expr]:
    """Every operation inside an expression, within bounds."""
    pending = [value]
    for _ in range(400):
        if not pending:
            return
        item = pending.pop()
        if isinstance(item, Expr):
            yield item
            pending.extend(item.args)
        elif isinstance(item, Choice):
            pending += [item.cond, item.then, item.other]


def even_flags(material: Material, launch: LaunchRecord) -> Iterator[Decision]:
    """A compile-time flag computed from what is left when a tile divides an extent."""
    constexprs = {name for name, flag in material.signature.params if flag}
    for name, value in launch.args if constexprs else ():
        if name not in constexprs:
            continue
        rests = [node for leaf in leaves(value) for node in _tests(leaf) if _no_rest(node)]
        if rests:
            yield Decision(
                axis="tail_handling",
                value="constexpr EVEN flag removes mask",
                pattern="divisibility-specialisation",
                lines=tuple(
                    sorted(
                        {
                            *_lines(material, launch, name),
                            *(rule_lines(material, launch, name) or _given(launch, name)),
                        }
                    )
                ),
                kind=AxisKind.DESIGN,
                subject=name,
            )


def _given(launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
    """Where a launch gives a parameter."""
    return (dict(launch.arg_lines).get(name, launch.lines),)


def _tests(value: Value) -> Iterator[Expr]:
    """What a truth value is put together from; a number that a test chose is none."""
    if isinstance(value, Expr):
        yield value
        if value.op in ("and", "or", "not", "bool"):
            for part in value.args:
                yield from _tests(part)


def _no_rest(node: Expr) -> bool:
    """`extent % tile == 0`, or its opposite."""
    left = node.args[0] if node.args else None
    rest = isinstance(left, Expr) and left.op == "%"
    return node.op in ("==", "!=") and rest and node.args[1] == 0


NUMBER = "a number in its place + constexpr flag"
"""What is said of an operand that is a number, where another stands for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalOperand(Decision):
    """An operand that may be missing, and the flag that says so."""

    operand: str
    flag: str

    @property
    def stands_in(self) -> bool:
        """Whether another tensor is handed in its place."""
        return self.value.startswith("dummy")


def optional(material: Material) -> Iterator[OptionalOperand]:
    """A flag that says whether an operand is given, beside that operand or what stands for it."""
    constexprs = {name for name, flag in material.signature.params if flag}
    found: dict[tuple[str, str, str], set[Lines]] = {}
    for launch in material.launches:
        for flag, value in launch.args:
            if flag not in constexprs or _of_sizes(launch, flag):
                continue
            for tensor in _asked(value, launch):
                for name, stands in _stand_ins(launch, tensor, flag):
                    both = _lines(material, launch, name) + _lines(material, launch, flag)
                    both += rule_lines(material, launch, flag)
                    found.setdefault((stands, name, flag), set()).update(both)
    for (value, name, flag), lines in found.items():
        yield OptionalOperand(
            axis="optional_inputs",
            value=value,
            pattern=STAND_IN,
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
            subject=f"{name} by {flag}",
            operand=name,
            flag=flag,
        )


def _of_sizes(launch: LaunchRecord, flag: str) -> bool:
    """Whether an attached rule gives a flag that asks for no presence."""
    rule = dict(launch.kernel.heuristics).get(flag)
    if not isinstance(rule, Func):
        return False
    tests = [op for one in walk(rule.node) if isinstance(one, ast.Compare) for op in one.ops]
    return not any(isinstance(op, ast.Is | ast.IsNot) for op in tests)


def _asked(value: Value, launch: LaunchRecord) -> list[Value]:
    """Operands whose presence a flag tells: by its expression, or by the path that fixed it."""
    if isinstance(value, bool):
        guards = [guard.cond for guard in launch.path.guards]
    elif isinstance(value, (Expr, Choice)):
        guards = [value.cond] if isinstance(value, Choice) else [value]
    else:
        return []
    nodes = [node for guard in guards for node in _nodes(guard)]
    return [node.args[0] for node in nodes if node.op == "none"]


def _stand_ins(launch: LaunchRecord, tensor: Value, flag: str) -> Iterator[tuple[str, str]]:
    """Parameters that get the operand, None, or a tensor made in its place."""
    missing = any(
        guard.cond.op == "none" and guard.cond.args[0] == tensor and guard.holds
        for guard in launch.path.guards
    )
    for name, value in launch.args:
        if name == flag:
            continue
        if isinstance(value, Choice) and _asks(value.cond, tensor):
            others = [leaf for leaf in leaves(value) if not _holds(leaf, tensor)]
            if len(others) < len(leaves(value)):
                yield name, _instead(others)
        elif _holds(value, tensor) and not missing:
            yield name, "None argument" if value == tensor else NUMBER


def _holds(leaf: Value, given: Value) -> bool:
    """Whether a value is what was given, or that as a number of another type."""
    turned = isinstance(leaf, Expr) and leaf.op in ("float", "int") and given in leaf.args
    return leaf == given or turned


def _instead(others: list[Value]) -> str:
    """What is handed in where an operand is not given."""
    if others and all(isinstance(one, int | float) for one in others):
        return NUMBER
    return DUMMY if any(one is not None for one in others) else "None argument"


def _asks(cond: Expr, tensor: Value) -> bool:
    return any(asked == tensor for asked in _asked_for(cond))


@lru_cache(maxsize=4096)
def _asked_for(cond: Expr) -> tuple[Value, ...]:
    """What a condition asks whether it is there."""
    return tuple(node.args[0] for node in _nodes(cond) if node.op == "none")


def _lines(material: Material, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
    """Where an argument is made, else where it is passed."""
    return material.made(launch, name) or (dict(launch.arg_lines).get(name, launch.lines),)

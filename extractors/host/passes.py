"""What one kernel does of a pipeline: passes of a differentiable function, arrays handed on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from extractors.host.callers import MAX_CALLERS, called, leading
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, functions_of
from extractors.host.framework import around_launches
from extractors.host.origins import lines_of
from extractors.host.render import leaves
from extractors.host.sides import routes_of
from extractors.host.values import Expr, Value
from extractors.syntax.nodes import each
from kb.evidence import AxisKind, Decision, Lines

PASSES = "passes-of-a-differentiable-function"
HANDED_ON = "array-handed-from-kernel-to-kernel"
BESIDE = "several-kernels-of-one-call"
AHEAD = "gradient-fused-into-the-forward-pass"

SHARED = "backward by the same kernel"
APART = "separate backward kernel"
LATER = "gradient by a kernel of its own"
TAKEN = "takes what an earlier kernel made"
LEFT = "leaves its result to a later kernel"


def boundaries(material: Material) -> Iterator[Decision]:
    """Where the work of one function is cut into kernels."""
    yield from _passes(material) or _later(material)
    yield from _handed_on(material)
    yield from around_launches(material)


def _passes(material: Material) -> list[Decision]:
    """Kernels that a `backward` of torch.autograd leads to: their own, or those that the `forward`
    of the same class leads to, too."""
    shared: set[Lines] = set()
    apart: set[Lines] = set()
    told: dict[str, None] = {}
    for forward, backward in differentiable(material.tree) if material.launches else ():
        ahead, back = ways(material, forward), ways(material, backward)
        if back and ahead:
            again = not any(_flows_back(material, backward, c) for c in _calls_at(backward, back))
            names = [] if again else _told_apart(material, ahead, back)
            shared |= set() if again else ahead | back
            shared |= {
                line for x in material.sites() for n in names for line in material.given(x, n)
            }
            told |= dict.fromkeys(names)
        elif back:
            apart |= {*back, *_saved(forward)}
    if shared:
        return [_pass(SHARED, shared, ", ".join(told) or None)]
    return [_pass(APART, {_head(material), *apart})] if apart else []


def _told_apart(material: Material, ahead: set[Lines], back: set[Lines]) -> list[str]:
    """Parameters that launches on the two ways are given different numbers or flags for."""
    ways = [[x for x in material.sites() if x.lines in lines] for lines in (ahead, back)]
    given = [{(name, value) for x in way for name, value in x.args} for way in ways]
    one, other = ({(n, v) for n, v in some if isinstance(v, int | float)} for some in given)
    changed = {n for n, v in one - other} & {n for n, v in other - one}
    return [name for name, _ in material.signature.params if name in changed]


def _pass(value: str, lines: set[Lines], subject: str | None = None) -> Decision:
    return Decision(
        axis="kernel_boundaries",
        value=value,
        pattern=PASSES,
        lines=tuple(sorted(lines)),
        kind=AxisKind.DESIGN,
        subject=subject,
    )


def _later(material: Material) -> Iterator[Decision]:
    """For a kernel that only the `forward` of such a class leads to: other kernels of the module
    that its `backward` leads to, with their heads and launches."""
    found: set[Lines] = set()
    routes = routes_of(material.tree, material.kernels)
    for forward, backward in differentiable(material.tree) if material.launches else ():
        back = routes.of([backward]) - routes.of([forward])
        ahead = ways(material, forward) if back and not routes.of([backward]) - back else set()
        if ahead:
            found |= {_head(material), *ahead, *_heads(material.tree, back), *_saved(forward)}
            found |= set(_launched(material.tree, back))
    if found:
        yield _pass(LATER, found)


def _saved(forward: ast.FunctionDef) -> Iterator[Lines]:
    """Where a forward pass keeps what the backward pass starts from."""
    for node in each(forward, ast.Call):
        if _named(node) == "save_for_backward":
            yield lines_of(node)


def _heads(tree: ast.Module, kernels: frozenset[str]) -> Iterator[Lines]:
    for node in functions_of(tree):
        if node.name in kernels and node.decorator_list:
            yield (node.lineno, node.lineno)


def _launched(tree: ast.Module, kernels: frozenset[str]) -> Iterator[Lines]:
    """Calls that are made of kernels, or that are handed one."""
    for node in each(tree, ast.Call):
        made = node.func.value if isinstance(node.func, ast.Subscript) else None
        if any(getattr(one, "id", "") in kernels for one in (made, *node.args)):
            yield lines_of(node)


def _head(material: Material) -> Lines:
    first = material.signature.lines[0]
    return (first, first)


@lru_cache(maxsize=64)
def differentiable(tree: ast.Module) -> tuple[tuple[ast.FunctionDef, ast.FunctionDef], ...]:
    """The `forward` and `backward` of every class that has both."""
    found = []
    for node in each(tree, ast.ClassDef):
        methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        if "forward" in methods and "backward" in methods:
            found.append((methods["forward"], methods["backward"]))
    return tuple(found)


def ways(material: Material, method: ast.FunctionDef) -> set[Lines]:
    """The launches that a method leads to, and its calls on the way to them."""
    found: set[Lines] = set()
    for launch in material.sites():
        on_the_way = leading(material, launch)
        if method in on_the_way:
            later = {node.name for node in on_the_way[on_the_way.index(method) + 1 :]}
        else:
            later = _callers(material.tree, method, launch.stack[0]) if launch.stack else set()
        calls = [c for c in each(method, ast.Call) if _named(c) in later]
        named = [c for c in calls if _takes(c, material.signature.name)]
        if calls or _holds(method, launch.lines):
            found |= {launch.lines, *(lines_of(call) for call in named or calls)}
    return found


def _calls_at(method: ast.FunctionDef, lines: set[Lines]) -> list[ast.Call]:
    return [n for n in each(method, ast.Call) if lines_of(n) in lines]


def _flows_back(
    material: Material,
    method: ast.FunctionDef,
    call: ast.Call,
    given: frozenset[str] = frozenset(),
    steps: int = MAX_CALLERS,
) -> bool:
    """True for a call that hands what flows back, or what is made of it, to the kernel, directly or
    through functions of the module; not where the kernel only takes what was saved, as where the
    forward pass is computed again."""
    flows = {*given} or {one.arg for one in (*method.args.args[1:], method.args.vararg) if one}
    for made in each(method, ast.Assign):
        if made.lineno < call.lineno and flows & _names(made.value):
            flows |= {name for target in made.targets for name in _names(target)}
    if not flows & _names(call):
        return False
    entered = [n for n in functions_of(material.tree) if n.name == _named(call)]
    if len(entered) != 1 or not steps:
        return True
    inner = _handed_in(entered[0], call, flows)
    further = [c for c in each(entered[0], ast.Call) if inner and _leads(material, c)]
    return not further or any(
        _flows_back(material, entered[0], c, inner, steps - 1) for c in further
    )


def _handed_in(function: ast.FunctionDef, call: ast.Call, flows: set[str]) -> frozenset[str]:
    """Parameters of a function that a call hands some of the names to; none where it is not
    written which."""
    keys = [(key.arg, key.value) for key in call.keywords]
    if any(name is None for name, _ in keys) or any(isinstance(a, ast.Starred) for a in call.args):
        return frozenset()
    places = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    given = [*zip(places, call.args, strict=False), *keys]
    return frozenset(name for name, value in given if name and flows & _names(value))


def _leads(material: Material, call: ast.Call) -> bool:
    """Whether a call launches the kernel, or is of a function that does."""
    if lines_of(call) in {launch.lines for launch in material.sites()}:
        return True
    if isinstance(call.func, ast.Subscript) and material.signature.name in _names(call.func.value):
        return True
    if _takes(call, material.signature.name):
        return True
    routes = routes_of(material.tree, material.kernels)
    return material.signature.name in routes.leads(_named(call))


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in each(node, ast.Name)}


def _callers(tree: ast.Module, method: ast.FunctionDef, first: str) -> set[str]:
    """A function and those that call it, by name, without the methods of passes."""
    found = {first} - {"forward", "backward"}
    for _ in range(MAX_CALLERS if found else 0):
        more = {n.name for n in functions_of(tree) if called(n) & found and n is not method}
        more -= {"forward", "backward"}
        if more <= found:
            break
        found |= more
    return found


def _takes(call: ast.Call, name: str) -> bool:
    """True for a call that a kernel is handed to."""
    given = [*call.args, *(key.value for key in call.keywords)]
    return any(isinstance(one, ast.Name) and one.id == name for one in given)


def _named(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def _holds(node: ast.FunctionDef, site: Lines) -> bool:
    return node.lineno <= site[0] <= (node.end_lineno or node.lineno)


def _handed_on(material: Material) -> Iterator[Decision]:
    """Arrays that the host makes and hands to one kernel after the other: for each of this
    kernel's parameters, before or after it."""
    found: dict[tuple[str, str], set[Lines]] = {}
    for launch in material.sites():
        mine = {n: _made(material, value) for n, value in launch.args}
        for other in _others(material, launch):
            theirs = {one for _, value in other.args for one in _made(material, value)}
            value = TAKEN if other.order < launch.order else LEFT
            for name in (n for n, made in mine.items() if made & theirs):
                both = found.setdefault((value, name), set())
                both |= {launch.lines, other.lines, *_parting(material, launch, other)}
                both |= set(_heads(material.tree, frozenset({other.kernel.name})))
    for (value, name), lines in found.items():
        yield Decision(
            axis="kernel_boundaries",
            value=value,
            pattern=HANDED_ON,
            lines=tuple(sorted(lines)),
            kind=AxisKind.DESIGN,
            subject=name,
        )


def _parting(material: Material, launch: LaunchRecord, other: LaunchRecord) -> Iterator[Lines]:
    """The calls that lead to two launches, in the last function on the way to both."""
    shared = [a for a, b in zip(launch.stack, other.stack, strict=False) if a == b]
    depth = len(shared)
    if not depth or launch.stack[:depth] != other.stack[:depth]:
        return
    apart = {*launch.stack[depth : depth + 1], *other.stack[depth : depth + 1]}
    for function in leading(material, launch) if apart else ():
        if function.name == shared[-1]:
            calls = each(function, ast.Call)
            yield from (lines_of(call) for call in calls if _named(call) in apart)


def _others(material: Material, launch: LaunchRecord) -> list[LaunchRecord]:
    """Launches of other kernels that may run beside one, one for each place."""
    held = {(guard.cond, not guard.holds) for guard in launch.path.guards}
    found: dict[Lines, LaunchRecord] = {}
    for event in material.of_root(launch):
        if isinstance(event, LaunchRecord) and event.kernel.name != launch.kernel.name:
            if not any((guard.cond, guard.holds) in held for guard in event.path.guards):
                found.setdefault(event.lines, event)
    return list(found.values())


def _made(material: Material, value: Value) -> frozenset[Expr]:
    """The tensors without a content that the host made and that a value may be, seen through
    views."""
    found = set()
    for leaf in leaves(value):
        for _ in range(MAX_CALLERS):
            fact = material.machine.tensors.get(leaf) if isinstance(leaf, Expr) else None
            if fact is None or fact.base is None:
                break
            leaf = fact.base
        if isinstance(leaf, Expr) and fact is not None and not fact.drawn:
            found.add(leaf)
    return frozenset(found)

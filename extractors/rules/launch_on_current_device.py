"""A launch runs on the current device, whatever the device of the arguments is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.callers import in_backward, leading, wrapped
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, functions_of
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.array_on_current_device import chosen, from_caller
from extractors.rules.base import Case, NearMiss, Rule, Subject
from extractors.syntax.nodes import each
from kb.evidence import Finding, Lines, Severity

_TWICE = (
    POINTER
    + """
import torch
@triton.jit
def twice(x, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)

def run(x):
    out = torch.empty_like(x)
    n = x.numel()
    twice[(triton.cdiv(n, 1024),)](x, out, n, 1024)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def twice(x, out, T: Int):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)) * 2.0)

def run(x):
    out = torch.empty_like(x)
    ct.launch(torch.cuda.current_stream(), (math.ceil(x.shape[0] / 64),), twice, (x, out, 64))
    return out
"""
)
_CALLER = """
def outer(x):
    with torch.cuda.device(x.device):
        return run(x)
"""
_ASKED = "    assert x.device.index == torch.cuda.current_device()\n"
_PASS = """
class Twice(torch.autograd.Function):
    @staticmethod
    def backward(ctx, grad):
        return run(grad)
"""


class LaunchOnCurrentDevice(Rule):
    """A kernel is launched with arrays of the caller, and no function on the way makes their device
    the current one, which is where a launch runs."""

    name = "launch-on-current-device"
    matches = (Case(_TWICE, "`x`"), Case(_TILES, "`x`"))
    near_misses = (
        NearMiss(
            vary(_TWICE, ("    twice[", "    with torch.cuda.device(x.device):\n        twice[")),
            why="the caller's device is the current one",
        ),
        NearMiss(
            vary(_TWICE, ("    n = x", "    torch.cuda.set_device(x.device)\n    n = x")),
            why="made the current one",
        ),
        NearMiss(
            vary(_TWICE, ("def run", "@guarded\ndef run")), why="a decorator may choose the device"
        ),
        NearMiss(
            vary(_TWICE, ("def run", "@guarded('x')\ndef run")),
            why="whatever the decorator is given",
        ),
        NearMiss(
            vary(_TWICE, ("    twice[", "    with on(x):\n        twice[")),
            why="what is entered may choose the device",
        ),
        NearMiss(_TWICE + _CALLER, why="the caller chooses it"),
        NearMiss(vary(_TWICE, ("    n = x", _ASKED + "    n = x")), why="the host asks for it"),
        NearMiss(_TWICE + _PASS, why="a backward pass runs on the device of its arrays"),
        NearMiss(
            vary(_TWICE, ("def run(x):\n", 'def run(n):\n    x = torch.ones(n, device="cuda")\n')),
            why="the caller brings no array",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterator[Finding]:
        material = subject.host.material
        arrays = {access.array for access in subject.facts.accesses}
        found: dict[Lines, None] = {}
        brought: dict[str, None] = {}
        for launch in material.sites() if material is not None else ():
            if material is None or not _plain(material, launch):
                return
            given = [n for n, v in launch.args if n in arrays and from_caller(material, v)]
            if given:
                found[launch.lines] = None
                brought[given[0]] = None
        if found:
            yield self.finding(
                subject,
                "the launch runs on the current device, and no device guard makes that the device "
                f"of {', '.join(f'`{one}`' for one in brought)}: with arguments on another GPU the "
                "kernel runs on the wrong device",
                "launch under the device of the arguments",
                found,
                Severity.NOTE,
            )


def _plain(material: Material, launch: LaunchRecord) -> bool:
    """Whether nothing on the way to a launch may choose the device: no decorator, no context that
    is entered, no module that takes one of the functions and may do so."""
    if chosen(material, launch) or wrapped(material, launch) or in_backward(material, launch):
        return False
    functions = leading(material, launch)
    if len(functions) < len(launch.stack) or not functions:
        return False
    names = {function.name for function in functions}
    names |= _also_called(material.tree, names)
    around = [f for f in functions_of(material.tree) if names & _called(f)] + functions
    if any(_enters(one) or not all(map(_marks, one.decorator_list)) for one in around):
        return False
    return not any(_taken(material, one) for one in names | {one.name for one in around})


def _also_called(tree: ast.Module, names: set[str]) -> set[str]:
    """Further names that a module gives functions of its own."""
    return {
        to.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        and node.value.id in names
        for to in node.targets
        if isinstance(to, ast.Name)
    }  # fmt: skip


def _marks(decorator: ast.expr) -> bool:
    """Whether a decorator says what kind of method a function is, or registers it with PyTorch."""
    text = ast.unparse(decorator)
    return text in ("staticmethod", "classmethod") or text.startswith("torch.library.")


def _called(function: ast.FunctionDef) -> set[str]:
    """Names that a function speaks of."""
    return {one.id for one in each(function, ast.Name)}


def _enters(function: ast.FunctionDef) -> bool:
    """Whether a function enters a context, or asks which device is the current one."""
    return bool(each(function, ast.With)) or any(
        one.attr in ("current_device", "device_index", "index")
        for one in each(function, ast.Attribute)
    )


def _taken(material: Material, name: str) -> bool:
    """Whether a module of the package takes a function from its own for more than to hand it on."""
    loader = material.loader
    if loader is None:
        return False
    for module in loader.takers(material.module, name):
        source = loader.source(module)
        if source is None or not source[0].endswith("__init__.py"):
            return True
    return False

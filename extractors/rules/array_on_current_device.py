"""An array of the host stands on the current device, whatever the device of the arguments is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.backwards import back, same_array
from extractors.host.callers import leading, wrapped
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.syntax.nodes import each
from kb.evidence import Finding, Lines

_MAKES = frozenset({"empty", "zeros", "ones", "full", "arange", "tensor", "rand", "randn"})
"""Functions of torch that make an array of a device that they are told."""

_SUMS = (
    POINTER
    + """
import torch
@triton.jit
def total(x, out, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    tl.store(out + row, tl.sum(tl.load(x + row * n + at, mask=at < n, other=0.0), axis=0))

def run(x):
    rows, n = x.shape
    out = torch.empty((rows,), dtype=torch.float32, device="cuda")
    total[(rows,)](x, out, n, 1024)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def total(x, out, T: Int):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.sum(ct.load(x, index=(i, 0), shape=(1, T)), axis=1))

def run(x):
    part = torch.zeros(x.shape[0], device=torch.device("cuda"))
    ct.launch(None, (x.shape[0], 1, 1), total, (x.contiguous(), part.view(-1), 1024))
    return part
"""
)


class ArrayOnCurrentDevice(Rule):
    """A kernel is handed an array that the host makes on "cuda", without a number, beside arrays
    that its caller brings, and nothing makes the device of those the current one."""

    name = "array-on-current-device"
    matches = (Case(_SUMS, "`out`"), Case(_TILES, "`part`"))
    near_misses = (
        NearMiss(vary(_SUMS, ('device="cuda"', "device=x.device")), why="on the caller's device"),
        NearMiss(vary(_SUMS, ('"cuda"', '"cuda:1"')), why="a device that is named"),
        NearMiss(
            vary(_SUMS, ("    total[", "    with torch.cuda.device(x.device):\n        total[")),
            why="the caller's device is the current one",
        ),
        NearMiss(
            vary(
                _TILES,
                ("def run(x):\n", 'def run(n):\n    x = torch.ones((n, 1024), device="cuda")\n'),
            ),
            why="the caller brings no array",
        ),
        NearMiss(
            vary(_SUMS, ("def run", "@guarded\ndef run")), why="a decorator may choose the device"
        ),
    )  # fmt: skip
    seen = (
        Seen("tilegym", "tilegym/ops/cutile/layer_norm_legacy.py", "_layer_norm_fwd_kernel", 211),
    )

    def find(self, subject: Subject) -> Iterator[Finding]:
        material = subject.host.material
        arrays = {access.array for access in subject.facts.accesses}
        found: dict[str, Lines] = {}
        brought: dict[str, None] = {}
        for launch in material.sites() if material is not None else ():
            if material is None or chosen(material, launch) or wrapped(material, launch):
                continue
            handed = [(name, value) for name, value in launch.args if name in arrays]
            given = [name for name, value in handed if from_caller(material, value)]
            made = _made(material, launch) if given else {}
            found.update(made)
            brought.update(dict.fromkeys(given[:1] if made else ()))
        if found:
            names = ", ".join(f"`{name}`" for name in found)
            several = len(found) > 1
            yield self.finding(
                subject,
                f'{names} {"are" if several else "is"} made on "cuda", which is the current '
                f"device and need not be that of {', '.join(f'`{one}`' for one in brought)}: with "
                "arguments on another GPU the kernel is handed arrays of two devices",
                "make it on the device of the arguments",
                found.values(),
            )


def _made(material: Material, launch: LaunchRecord) -> dict[str, Lines]:
    """Arrays of the current device that a launch hands over, under the names that the host has for
    them."""
    call = material.origins.call_at(launch.lines) if material.origins is not None else None
    inside = leading(material, launch)
    found: dict[str, Lines] = {}
    for position, (name, constant) in enumerate(material.signature.params):
        if call is None or constant or material.origins is None:
            continue
        given = material.origins.argument(call, name, position, material.row(launch))
        shown = name
        for one in back(material, given, same_array) if given is not None else ():
            shown = one.id if isinstance(one, ast.Name) else shown
            if _current(one) and material.origins.owner(one) in inside:
                found[shown] = lines_of(one)
    return found


def _current(value: ast.expr) -> bool:
    """A call that makes an array on the current GPU."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    device = next((one.value for one in value.keywords if one.arg == "device"), None)
    if isinstance(device, ast.Call) and ast.unparse(device.func) == "torch.device":
        device = device.args[0] if len(device.args) == 1 else None
    named = isinstance(device, ast.Constant) and device.value == "cuda"
    return named and value.func.attr in _MAKES


def chosen(material: Material, launch: LaunchRecord) -> bool:
    """Whether a function on the way to a launch says which device is the current one."""
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr in ("device", "set_device")
        for function in leading(material, launch)
        for call in each(function, ast.Call)
        if ast.unparse(call.func) != "torch.device"
    )


def from_caller(material: Material, value: Value) -> bool:
    """Whether an array is one that the host function is given, or made of such."""
    known = material.machine.tensors
    for one in leaves(value):
        while (fact := known.get(one)) is not None and fact.base is not None:
            one = fact.base
        if isinstance(one, Expr) and one.op == "sym":
            return True
    return False

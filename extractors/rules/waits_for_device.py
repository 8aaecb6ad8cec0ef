"""The host reads a number that the device computed, and waits for it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.callers import MAX_STEPS, called, handed, leading
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, functions_of
from extractors.host.origins import lines_of
from extractors.patterns.cases import TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import ROWS_POINTER
from extractors.syntax.nodes import each
from kb.evidence import Finding, Lines, Severity

_ROWS = (
    ROWS_POINTER
    + """
def run(x, labels):
    kept = (labels != -100).sum().item()
    out = torch.empty_like(x)
    rows[(x.shape[0],)](x, out, x.shape[1], 1024)
    return out / kept
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def move(x, out, T: Int):
    ct.store(out, index=(ct.bid(0), 0), tile=ct.load(x, index=(ct.bid(0), 0), shape=(1, T)))

def run(x, grad):
    if torch.equal(grad, torch.tensor(1.0, device=grad.device)):
        return x
    out = torch.empty_like(x)
    ct.launch(None, (x.shape[0], 1, 1), move, (x, out, 64))
    return out
"""
)
_COUNTED = vary(
    _ROWS,
    ("    kept = (labels != -100).sum().item()\n", "    mask = labels != -100\n"
     "    total = mask.sum()\n    kept = total.item()\n"),
)  # fmt: skip


_WRITTEN = vary(
    _ROWS,
    ("    kept = (labels != -100).sum().item()\n", ""),
    ("return out / kept", "return out.item()"),
)


_GRADIENT = (
    ROWS_POINTER
    + """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        scale = grad.item()
        return run(x) * scale

def run(x):
    out = torch.empty_like(x)
    rows[(x.shape[0],)](x, out, x.shape[1], 1024)
    return out
"""
)


class WaitsForDevice(Rule):
    """A function on the way to a launch brings to the host what is computed from the elements of
    tensors: a sum, a largest element, whether two are equal, what the kernel wrote, a gradient that
    the backward pass is given, what was made for a device; or a condition of it rests on such. The
    host stops there until the device has done all that was asked of it."""

    name = "waits-for-device"
    matches = (
        Case(_ROWS, "`(labels != -100).sum().item()`"),
        Case(_COUNTED, "`total.item()`"),
        Case(vary(_ROWS, (".sum().item()", ".sum(0).tolist()")), "tolist"),
        Case(_TILES, "torch.equal"),
        Case(
            vary(
                _ROWS,
                (
                    "(labels != -100).sum().item()",
                    "(labels != -100).sum()\n    if kept == 0:\n        return x",
                ),
            ),
            "kept == 0",
        ),
        Case(_WRITTEN, "`out.item()`"),
        Case(_GRADIENT, "`grad.item()`"),
        Case(
            vary(
                _GRADIENT, ("grad.item()", "1.0\n        if grad != 1.0:\n            scale = 2.0")
            ),
            "grad != 1.0",
        ),
        Case(
            vary(
                _TILES,
                (
                    "torch.equal(grad, torch.tensor(1.0, device=grad.device))",
                    "torch.ne(grad, torch.tensor(1.0, device=grad.device))",
                ),
            ),
            "torch.ne",
        ),
        Case(
            vary(
                _ROWS, ("(labels != -100).sum().item()", "torch.zeros(1, device=x.device).item()")
            ),
            "item()",
        ),
    )
    near_misses = (
        NearMiss(vary(_ROWS, (".sum().item()", ".sum()")), why="the sum stays on the device"),
        NearMiss(
            vary(_ROWS, ("(labels != -100)", "(labels.cpu() != -100)")),
            why="what is summed is on the host already",
        ),
        NearMiss(
            vary(_ROWS, ("(labels != -100)", "torch.tensor(x.shape)")),
            why="a tensor of numbers, which is made on the host",
        ),
        NearMiss(vary(_ROWS, ("(labels != -100).sum()", "labels")), why="perhaps of the host"),
        NearMiss(
            vary(_ROWS, ("(labels != -100).sum().item()", "max(x.shape)\n"
                         "    if kept == 0:\n        return x")),
            why="extents are on the host",
        ),
        NearMiss(vary(_WRITTEN, ("out.item()", "x.item()")), why="perhaps of the host"),
        NearMiss(
            vary(_GRADIENT, ("grad.item()", "1.0\n        if grad is None:\n            return x")),
            why="whether there is a gradient is known on the host",
        ),
        NearMiss(
            vary(_GRADIENT, ("    @staticmethod\n    def backward", "    def backward")),
            why="no pass of PyTorch",
        ),
        NearMiss(
            vary(_ROWS, ("(labels != -100).sum()", 'torch.zeros(1, device="cpu")')),
            why="a tensor of the host",
        ),
        NearMiss(
            vary(_ROWS, ("def run", "def other(x):\n    return x.sum().item()\n\ndef run"),
                 ("(labels != -100).sum().item()", "2")),
            why="a function that does not lead to the launch",
        ),
        NearMiss(
            vary(_TILES, ("torch.equal(grad, torch.tensor(1.0, device=grad.device))",
                          "x.equal == grad.equal")),
            why="nothing is compared element by element",
        ),
    )  # fmt: skip
    seen = (Seen("liger-kernel", "liger_kernel/ops/tvd.py", "_tv_distance_kernel", 126),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        found: dict[Lines, str] = {}
        for launch in material.sites() if material is not None else ():
            for function in _leading(material, launch) if material is not None else ():
                written = _written(subject, material, launch) if material is not None else set()
                for call in _waits(material, function, written) if material is not None else ():
                    found.setdefault(lines_of(call), ast.unparse(call))
        if found:
            shown = ", ".join(f"`{text[:60]}`" for text in dict.fromkeys(found.values()))
            yield self.finding(
                subject,
                f"{shown} brings a number back from the device: the host waits there until "
                "everything before it is done, and queues no further work meanwhile",
                "leave the number on the device, and let a kernel read it there",
                found,
                Severity.NOTE,
            )


def _leading(material: Material, launch: LaunchRecord) -> list[ast.FunctionDef]:
    """The functions on the way to a launch, and the pass of PyTorch that calls the first."""
    found = leading(material, launch)
    if not found or any(_pass(one) for one in found):
        return found
    passes = [one for one in functions_of(material.tree) if _pass(one)]
    return [*(one for one in passes if found[0].name in called(one)), *found]


def _pass(function: ast.FunctionDef) -> bool:
    static = any(isinstance(one, ast.Name) and one.id == "staticmethod"
                 for one in function.decorator_list)  # fmt: skip
    return static and function.name in ("forward", "backward")


def _written(subject: Subject, material: Material, launch: LaunchRecord) -> set[str]:
    """Names of the arrays that a launch hands over and that the kernel writes."""
    stored = dict.fromkeys(a.array for a in subject.facts.stores if a.array is not None)
    given = [handed(material, launch, name) for name in stored]
    return {one.id for one in given if isinstance(one, ast.Name)}


def _waits(material: Material, function: ast.FunctionDef, written: set[str]) -> Iterator[ast.expr]:
    """What brings to the host what was computed from the elements of tensors, or what a kernel has
    written: calls, and conditions of the host that rest on such."""
    tests = [one.test for one in each(function, ast.If)]
    given = _gradients(function)
    for test in (*tests, *(one.test for one in each(function, ast.While))):
        for asked in _asked(test):
            if isinstance(asked, ast.Name | ast.Call) and (
                _folded(material, asked, MAX_STEPS) or _compares(material, asked, given)
            ):
                yield test
    for call in each(function, ast.Call):
        asked = call.func
        if not isinstance(asked, ast.Attribute):
            continue
        compared = ast.unparse(asked) == "torch.equal" and len(call.args) == 2
        brought = asked.attr in ("item", "tolist") and not call.args
        if (compared and not any(map(_of_host, call.args))) or (
            brought
            and (
                _folded(material, asked.value, MAX_STEPS)
                or (isinstance(asked.value, ast.Name) and asked.value.id in written)
                or _on_device(material, asked.value, given)
            )
        ):
            yield call


def _gradients(function: ast.FunctionDef) -> set[str]:
    """The gradients that a backward pass of PyTorch is given: tensors of the device that the
    forward pass ran on."""
    named = [one.arg for one in function.args.args[1:]]
    return set(named) if _pass(function) and function.name == "backward" else set()


def _compares(material: Material, asked: ast.expr, given: set[str]) -> bool:
    """Whether a condition is a tensor of the device, or what PyTorch's own comparison makes of
    one."""
    function = asked.func if isinstance(asked, ast.Call) else None
    if isinstance(asked, ast.Call) and function is not None:
        compared = ast.unparse(function).removeprefix("torch.") in _COMPARED
        return compared and any(_on_device(material, one, given) for one in asked.args)
    return _on_device(material, asked, given)


def _on_device(material: Material, value: ast.expr, given: set[str]) -> bool:
    """Whether a value is a gradient of those given, or a tensor that is made for a device."""
    if isinstance(value, ast.Name) and material.origins is not None:
        made, passed = material.origins.sources(value)
        if value.id in given and not made:
            return True
        return bool(made) and not passed and all(_made_for(one) for one in made)
    return _made_for(value)


def _made_for(value: ast.expr) -> bool:
    """Whether a call makes a tensor and says for which device, one that is not the host."""
    if not isinstance(value, ast.Call) or _of_host(value):
        return False
    name = ast.unparse(value.func)
    return name in _MAKERS and any(word.arg == "device" for word in value.keywords)


_MAKERS = frozenset(f"torch.{name}" for name in ("zeros", "empty", "ones", "full", "tensor"))
_COMPARED = frozenset({"ne", "eq", "gt", "ge", "lt", "le"})


def _asked(test: ast.expr) -> Iterator[ast.expr]:
    """What a condition wants to be true, or compares with a number."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _asked(test.operand)
    elif isinstance(test, ast.BoolOp):
        for one in test.values:
            yield from _asked(one)
    elif isinstance(test, ast.Compare):
        if not isinstance(test.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
            yield test.left
    else:
        yield test


def _folded(material: Material, value: ast.expr, steps: int) -> bool:
    """Whether a value is a reduction over a tensor that is not known to be on the host."""
    if steps and isinstance(value, ast.Name) and material.origins is not None:
        made = material.origins.sources(value)[0]
        return bool(made) and all(_folded(material, one, steps - 1) for one in made)
    function = value.func if isinstance(value, ast.Call) else None
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _REDUCTIONS
        and not _of_host(value)
        and not any(_made_on_host(material, name) for name in each(value, ast.Name))
    )


def _made_on_host(material: Material, name: ast.Name) -> bool:
    """Whether a name stands for what was brought to the host before."""
    made = material.origins.sources(name)[0] if material.origins is not None else []
    return any(map(_of_host, made))


def _of_host(value: ast.expr) -> bool:
    """Whether something in an expression is on the host: copied there, or made there."""
    return any(
        (isinstance(one, ast.Attribute) and one.attr in ("cpu", "numpy"))
        or (isinstance(one, ast.Constant) and one.value == "cpu")
        or (isinstance(one, ast.Name) and one.id in ("np", "numpy", "math"))
        or (isinstance(one, ast.Call) and _plain(one))
        for one in ast.walk(value)
    )


def _plain(call: ast.Call) -> bool:
    """Whether a call makes a tensor of numbers and says no device."""
    made = ast.unparse(call.func) in ("torch.tensor", "torch.as_tensor", "torch.Tensor")
    return made and not any(word.arg == "device" for word in call.keywords)


_REDUCTIONS = frozenset({"sum", "max", "min", "amax", "amin", "any", "all", "mean", "prod", "norm",
                         "count_nonzero"})  # fmt: skip
"""Functions of PyTorch that make one number of many."""

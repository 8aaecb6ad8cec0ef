"""The kernel writes into a contiguous copy, and the caller keeps the array it was made from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.callers import VIEWS, handed, leading, wrapped
from extractors.host.events import LaunchRecord, NormaliseRecord
from extractors.host.facts import Material
from extractors.host.origins import Origins, lines_of
from extractors.host.values import Expr
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.syntax.nodes import each
from kb.evidence import Finding, Lines

_COPIES = frozenset({"contiguous", "reshape", "flatten"})
"""Methods that give a copy where the layout asks for one."""

_ALIKES = frozenset({"torch.empty_like", "torch.zeros_like", "torch.ones_like"})
"""Functions that give an array the strides of another one."""

_HELPER = (
    POINTER
    + """
import torch
@triton.jit
def twice(x, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0) * 2.0, mask=at < n)

def fill(x, out):
    x = x.contiguous()
    out = out.contiguous()
    n = x.numel()
    twice[(triton.cdiv(n, 128),)](x, out, n, 128)

def run(x):
    out = torch.empty_like(x)
    fill(x, out)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def copy(x, out, T: Int):
    ct.store(out, index=(ct.bid(0), 0), tile=ct.load(x, index=(ct.bid(0), 0), shape=(1, T)))

def fill(x, y):
    y = y.contiguous()
    ct.launch(None, (x.shape[0], 1, 1), copy, (x, y, 128))

def run(x):
    out = torch.empty_like(x)
    fill(x, out)
    return out
"""
)


_ALIKE = vary(
    _TILES,
    ("def fill(x, y):\n    y = y.contiguous()\n", "def run(x):\n    y = torch.empty_like(x)\n"
     "    flat = y.reshape(-1, 128)\n"),
    ("(x, y, 128))\n\ndef run(x):\n    out = torch.empty_like(x)\n    fill(x, out)\n    return out",
     "(x, flat, 128))\n    return y"),
)  # fmt: skip


class CopyWritten(Rule):
    """A host function lets the kernel write into the contiguous or reshaped form of a parameter, or
    of an array made like one, and gives back nothing, or the array itself: where the caller's array
    is not contiguous, the results are in a copy that nobody holds."""

    name = "copy-written"
    matches = (
        Case(_HELPER, "`out`"),
        Case(_TILES, "`y`"),
        Case(_ALIKE, "`y`"),
        Case(
            vary(
                _ALIKE,
                ("    flat = y.reshape(-1, 128)\n", ""),
                ("flat, 128", "y.reshape(-1, 128), 128"),
            ),
            "`y`",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_HELPER, ("    out = out.contiguous()\n", "")), why="the caller's array is written"
        ),
        NearMiss(
            vary(_HELPER, ("(x, out, n, 128)\n", "(x, out, n, 128)\n    return out\n")),
            why="what was written is given back",
        ),
        NearMiss(
            vary(_HELPER, ("    out = out", "    kept = out\n    out = out"),
                 ("(x, out, n, 128)\n", "(x, out, n, 128)\n    kept.copy_(out)\n")),
            why="the copy is copied back",
        ),
        NearMiss(vary(_ALIKE, (".reshape(", ".view(")), why="a view, or an error"),
        NearMiss(
            vary(_ALIKE, ("empty_like(x)", "empty(x.shape)")), why="a new array is contiguous"
        ),
        NearMiss(
            vary(_ALIKE, ("return y\n", "return flat\n")), why="what was written is given back"
        ),
        NearMiss(
            vary(_ALIKE, ("    y = torch", "    assert x.is_contiguous()\n    y = torch")),
            why="arrays that are not contiguous are refused",
        ),
        NearMiss(
            vary(_ALIKE, ("    y = torch", "    x = x.contiguous()\n    y = torch")),
            why="made like a contiguous array",
        ),
    )  # fmt: skip
    seen = (Seen("tilegym", "tilegym/ops/cutile/softmax.py", "_softmax_kernel", 212),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        written = {access.array for access in subject.facts.stores}
        found: dict[str, ast.expr] = {}
        where: list[Lines] = []
        for launch in material.sites() if material is not None else ():
            for name, made in _copies(material, launch, written) if material is not None else ():
                if name not in found:
                    found[name] = made
                    where += [lines_of(made), launch.lines]
        if found:
            names = ", ".join(f"`{name}`" for name in found)
            forms = ", ".join(f"`{ast.unparse(made)}`" for made in found.values())
            yield self.finding(
                subject,
                f"what is written is {forms}, and nothing gives that back: where the caller's "
                f"array is not contiguous the results go into a copy, and the caller has {names} "
                "without them",
                "return the array that was written, copy it back, or refuse arrays that are not "
                "contiguous",
                where,
            )


def _copies(
    material: Material, launch: LaunchRecord, written: set[str | None]
) -> Iterator[tuple[str, ast.expr]]:
    """Arrays of the launching function of which a contiguous form is written, with that form."""
    inner = leading(material, launch)[-1:]
    origins = material.origins
    call = origins.call_at(launch.lines) if origins is not None else None
    if not inner or origins is None or call is None or inner[0].name != launch.stack[-1]:
        return
    function = inner[0]
    given = {arg.arg for arg in function.args.args}
    for param, _ in material.signature.params:
        value = handed(material, launch, param)
        if param not in written or value is None:
            continue
        named = value.id if isinstance(value, ast.Name) else ""
        if named in given:
            made = _rebound(function, named)
            if made is not None and not _elsewhere(function, named, made, call):
                yield named, made.value
        elif (form := _form(origins, value)) is not None and not wrapped(material, launch):
            base = form[1]
            like = base if base.id in given else _like(origins, base)
            if like is None or like.id not in given or _settled(material, launch, function, like):
                continue
            if _kept(function, named, base.id, call, of_caller=like is base):
                yield base.id, form[0]


def _form(origins: Origins, value: ast.expr) -> tuple[ast.expr, ast.Name] | None:
    """What is handed over, or the one thing that its name stands for, where that is a form of an
    array which may be a copy, with the array."""
    made = origins.sources(value)[0] if isinstance(value, ast.Name) else [value]
    form = below = made[0] if len(made) == 1 else None
    copied = False
    while isinstance(below, ast.Call) and isinstance(below.func, ast.Attribute):
        copied |= below.func.attr in _COPIES
        if below.func.attr not in _COPIES | VIEWS:
            return None
        below = below.func.value
    return (form, below) if copied and form is not None and isinstance(below, ast.Name) else None


def _like(origins: Origins, name: ast.Name) -> ast.Name | None:
    """The array that the one array which a name stands for has its strides from."""
    made = origins.sources(name)[0]
    alike = made[0] if len(made) == 1 else None
    if not isinstance(alike, ast.Call) or ast.unparse(alike.func) not in _ALIKES:
        return None
    return alike.args[0] if alike.args and isinstance(alike.args[0], ast.Name) else None


def _settled(
    material: Material, launch: LaunchRecord, function: ast.FunctionDef, array: ast.Name
) -> bool:
    """Whether an array is known to be contiguous, or asked whether it is, or is another one by
    then."""
    if any(isinstance(one, NormaliseRecord) and _is(one, array) for one in material.before(launch)):
        return True
    asked = any(node.attr in ("is_contiguous", "stride") for node in each(function, ast.Attribute))
    return asked or any(
        node.id == array.id and isinstance(node.ctx, ast.Store) for node in each(function, ast.Name)
    )


def _is(record: NormaliseRecord, array: ast.Name) -> bool:
    return isinstance(record.tensor, Expr) and record.tensor.args[:1] == (array.id,)


def _kept(
    function: ast.FunctionDef, form: str, base: str, call: ast.Call, *, of_caller: bool
) -> bool:
    """Whether after a launch the array itself is what goes on, and not the form that was
    written."""
    after = call.end_lineno or call.lineno
    read = {
        one.id
        for one in each(function, ast.Name)
        if isinstance(one.ctx, ast.Load) and one.lineno > after
    }
    copies = any(one.attr == "copy_" for one in each(function, ast.Attribute))
    return form not in read and not copies and (of_caller or base in read)


def _rebound(function: ast.FunctionDef, name: str) -> ast.Assign | None:
    """The statement `name = name.contiguous()` of a function."""
    for node in each(function, ast.Assign):
        if (
            isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == name
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.func.attr == "contiguous"
            and isinstance(node.value.func.value, ast.Name)
            and node.value.func.value.id == name
        ):
            return node
    return None


def _elsewhere(function: ast.FunctionDef, name: str, made: ast.Assign, call: ast.Call) -> bool:
    """Whether anything after the launch may hand the copy on, or something keeps the original."""
    after = call.end_lineno or call.lineno
    return any(
        isinstance(one.ctx, ast.Load) and (one.lineno > after or one.lineno < made.lineno)
        for one in each(function, ast.Name)
        if one.id == name
    )

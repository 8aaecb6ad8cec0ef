"""The host goes over a whole array before or after the launch for what the kernel could do."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.callers import handed
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.origins import Origins, lines_of
from extractors.host.tree import parameter_names
from extractors.patterns.cases import TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import ROWS_POINTER
from extractors.syntax.nodes import each
from kb.analysis.facts import Facts
from kb.analysis.symbolic import AtomKind
from kb.evidence import Finding, Lines, Severity
from kb.ops import OpKind

_ROWS = (
    ROWS_POINTER
    + """
def run(x):
    x = x.float()
    out = torch.empty_like(x)
    rows[(x.shape[0],)](x, out, x.shape[1], 1024)
    return out
"""
)
_AFTER = vary(
    _ROWS,
    ("    x = x.float()\n    out = torch.empty_like(x)", "    out = torch.empty(x.shape)"),
    ("return out", "return out.to(x.dtype)"),
)
_TILES = (
    TILE
    + """
import torch
import torch.nn.functional as F
@ct.kernel
def move(x, out, T: Int):
    ct.store(out, index=(ct.bid(0), 0), tile=ct.load(x, index=(ct.bid(0), 0), shape=(1, T)))

def run(x, out):
    x = F.pad(x, (0, 64 - x.shape[1]))
    ct.launch(None, (x.shape[0], 1, 1), move, (x, out, 64))
"""
)
_CASTS = frozenset({"float", "half", "bfloat16", "double"})
_FLOATS = frozenset({"float32", "float16", "bfloat16", "float64", "float", "half"})
_TURNS = frozenset({"permute", "transpose", "t", "movedim", "expand", "swapaxes"})
_PLAIN = frozenset({"contiguous", "reshape", "view", "flatten", "detach", "clone", "unsqueeze"})
_MADE = frozenset({"empty", "empty_like", "zeros", "zeros_like", "new_empty", "new_zeros"})
_PRODUCTS = (OpKind.MMA, OpKind.MMA_SCALED)
MAX_CHAIN = 8
"""Methods that one expression calls one after the other."""


class PassOnHost(Rule):
    """An array of the caller is converted to another type of floats, padded, or copied with its
    axes in another order, and handed to the kernel; or what the kernel has written is converted
    after the launch. Kernels with matrix products, which want a type of their own and read it
    again and again, are asked for copies in another order alone."""

    name = "pass-on-host"
    matches = (
        Case(_ROWS, "`x.float()`"),
        Case(_AFTER, "`out.to(x.dtype)`"),
        Case(_TILES, "`F.pad("),
        Case(vary(_ROWS, ("x.float()", "x.transpose(0, 1).contiguous()")), "order"),
        Case(vary(_ROWS, ("x.float()", "x.contiguous().to(torch.float32)")), "converts"),
    )
    near_misses = (
        NearMiss(vary(_ROWS, ("    x = x.float()\n", "")), why="the kernel takes what it is given"),
        NearMiss(vary(_ROWS, ("x.float()", "x.contiguous()")), why="a copy only where need be"),
        NearMiss(
            vary(_ROWS, ("x.float()", "x.to(torch.int32)")), why="other numbers than they were"
        ),
        NearMiss(
            vary(_ROWS, ("x = x.float()", "y = x.float()")), why="another array is handed over"
        ),
        NearMiss(
            vary(_AFTER, ("out.to(x.dtype)", "out.sum(0).to(x.dtype)")),
            why="what is converted is small",
        ),
        NearMiss(vary(_AFTER, ("out.to(x.dtype)", "x.to(out.dtype)")), why="another array"),
        NearMiss(
            vary(_AFTER, ("tl.store(out", "tl.atomic_add(out")),
            why="sums of several blocks, which want their digits",
        ),
        NearMiss(
            vary(_ROWS, ("tl.load(x + at", "tl.load(x + tl.arange(0, T)")),
            why="one row for all blocks, which is small",
        ),
        NearMiss(
            vary(_AFTER, ("tl.load(x + at", "tl.load(out + at")),
            why="the kernel reads it again, in the type that it is kept in",
        ),
        NearMiss(
            vary(_AFTER, ("    return out", "    finish(out, x)\n    return out")),
            why="something else works on it in its own type before",
        ),
        NearMiss(
            vary(_ROWS, ("x.float()", "x.to(x.device)")), why="nothing is known of the device"
        ),
    )
    seen = (Seen("flag-gems", "flag_gems/ops/_safe_softmax.py", "_safe_softmax_kernel", 58),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        told: set[tuple[str, Lines]] = set()
        for launch in material.sites() if material is not None else ():
            for what, shown, lines in _passes(material, launch, facts) if material else ():
                if (what, lines) not in told:
                    told.add((what, lines))
                    yield self.finding(
                        subject,
                        f"`{shown}`: {what}: a pass over memory of its own",
                        "leave it to the loads and stores of the kernel: casts, masks, strides",
                        [lines],
                        Severity.NOTE,
                    )


def _passes(
    material: Material, launch: LaunchRecord, facts: Facts
) -> Iterator[tuple[str, str, Lines]]:
    """What the host does to arrays around a launch, as it is written, and where."""
    products = bool(facts.graph.of(*_PRODUCTS))
    wide = [a for a in facts.accesses if a.array is not None and _wide(facts, a.value)]
    apart = [a for a in wide if not a.is_store and any(i.has(AtomKind.BLOCK) for i in a.index)]
    for name in dict.fromkeys(a.array for a in apart if a.array is not None):
        given = handed(material, launch, name)
        for made in _sources(material, given) if given is not None else ():
            found = _before(material, made)
            if found and not (products and found[0] != _TURNED):
                yield found[0], _short(found[1]), lines_of(found[1])
    kept = {a.array for a in facts.accesses if a.is_atomic or not a.is_store}
    for name in dict.fromkeys(a.array for a in wide if a.is_store and a.array is not None):
        given = handed(material, launch, name) if name not in kept else None
        if isinstance(given, ast.Name) and not products:
            for call in _after(material, launch, given):
                yield _STORED, _short(call), lines_of(call)


_CONVERTED = "the host converts the whole array before the launch"
_PADDED = "the host copies the whole array to pad it before the launch"
_TURNED = (
    "the host copies the whole array, its axes in another order or spread out, before the launch"
)
_STORED = "the host converts the whole array after the launch, which the store could do"


def _short(node: ast.expr) -> str:
    return ast.unparse(node)[:80]


def _wide(facts: Facts, value: str) -> bool:
    shape = facts.types.shape(value)
    return bool(shape) and any(extent != "1" for extent in shape)


def _sources(material: Material, given: ast.expr) -> list[ast.expr]:
    """What is handed over, and what its name was set to before, last first."""
    if isinstance(given, ast.Name) and material.origins is not None:
        return material.origins.sources(given)[0][::-1]
    return [given]


def _before(material: Material, made: ast.expr) -> tuple[str, ast.expr] | None:
    """What an expression does to an array of the caller."""
    one: ast.expr = made
    copied, found = False, ""
    for _ in range(MAX_CHAIN):
        if isinstance(one, ast.Name):
            return (found, made) if found and _of_caller(material.origins, one) else None
        if not isinstance(one, ast.Call) or not isinstance(one.func, ast.Attribute):
            return None
        method, base = one.func.attr, one.func.value
        if method == "pad" and one.args:
            found, base = _PADDED, one.args[0]
        elif method in _CASTS or (method == "to" and _floats(one)):
            found = found or _CONVERTED
        elif method in _TURNS:
            found = found or (_TURNED if copied else "")
        elif method not in _PLAIN:
            return None
        copied |= method in ("contiguous", "clone")
        one = base
    return None


def _floats(call: ast.Call) -> bool:
    """Whether a conversion is to a type of floats that is named, or that another array has."""
    given = [*call.args, *(key.value for key in call.keywords if key.arg == "dtype")]
    return any(
        isinstance(one, ast.Attribute) and (one.attr in _FLOATS or one.attr == "dtype")
        for one in given
    )


def _of_caller(origins: Origins | None, name: ast.Name, steps: int = 4) -> bool:
    """Whether a name is a parameter of its function, or made of one by methods alone."""
    scope = origins.owner(name) if origins is not None else None
    if origins is None or not isinstance(scope, ast.FunctionDef):
        return False
    made = [_root(one) for one in origins.sources(name)[0]]
    roots = [one for one in made if one is not None]
    if not made or len(roots) < len(made) or steps == 0:
        return not made and name.id in parameter_names(scope)
    return all(one.id == name.id or _of_caller(origins, one, steps - 1) for one in roots) and any(
        one.id != name.id or name.id in parameter_names(scope) for one in roots
    )


def _root(made: ast.expr) -> ast.Name | None:
    """The array that methods which keep its elements are called on."""
    for _ in range(MAX_CHAIN):
        if isinstance(made, ast.Name):
            return made
        func = made.func if isinstance(made, ast.Call) else None
        if not isinstance(func, ast.Attribute) or func.attr not in _PLAIN | _TURNS:
            return None
        made = func.value
    return None


def _after(material: Material, launch: LaunchRecord, given: ast.Name) -> Iterator[ast.Call]:
    """Conversions of an array that the function around a launch makes, after the launch."""
    origins = material.origins
    scope = origins.owner(given) if origins is not None else None
    if origins is None or not isinstance(scope, ast.FunctionDef):
        return
    made = origins.sources(given)[0]
    if not made or not all(_is_made(one) for one in made):
        return
    for call in each(scope, ast.Call):
        func = call.func
        if not isinstance(func, ast.Attribute) or call.lineno <= launch.lines[1]:
            continue
        if isinstance(func.value, ast.Name) and func.value.id == given.id:
            if func.attr in _CASTS or (func.attr == "to" and _floats(call)):
                if not _handed_between(scope, launch, call, given.id):
                    yield call


def _handed_between(
    scope: ast.FunctionDef, launch: LaunchRecord, call: ast.Call, name: str
) -> bool:
    """Whether another call is handed an array between a launch and what converts the array."""
    between = [c for c in each(scope, ast.Call) if launch.lines[1] < c.lineno < call.lineno]
    given = [one for c in between for one in (*c.args, *(key.value for key in c.keywords))]
    return any(isinstance(one, ast.Name) and one.id == name for one in given)


def _is_made(made: ast.expr) -> bool:
    func = made.func if isinstance(made, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr in _MADE

"""A number that the caller gives is a compile-time parameter although the kernel only computes with
it."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.compiled_per_size import needed
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, VIEWS, Node
from kb.evidence import Finding, Severity
from kb.ops import COMPARISONS, OpKind

_COMPUTES = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.MAXIMUM,
                       OpKind.MINIMUM, OpKind.CLAMP, OpKind.POW}) | COMPARISONS  # fmt: skip
_RANDOM = frozenset({OpKind.RAND, OpKind.RANDN, OpKind.RANDINT, OpKind.RANDINT4, OpKind.PHILOX,
                     OpKind.RAND4})  # fmt: skip
_HANDED = VIEWS | CASTS | COPIES | _COMPUTES | {OpKind.FULL, OpKind.SELECT}
_ARITHMETIC = ("+", "-", "*", "/", "%", "&", "|", "^", "float", "int", "max", "min")
MAX_USERS = 64
"""Values that one parameter is followed to."""

_SCALED = (
    POINTER
    + """
import torch
@triton.jit
def scale(x, out, n, factor: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, v * factor, mask=at < n)

def run(x, factor):
    n = x.numel()
    out = torch.empty_like(x)
    scale[(triton.cdiv(n, 128),)](x, out, n, factor, 128)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
Float = ct.Constant[float]
@ct.kernel
def scale(x, out, factor: Float, T: Int):
    i = ct.bid(0)
    v = ct.load(x, index=(i,), shape=(T,))
    ct.store(out, index=(i,), tile=ct.astype(v / (1.0 - factor), out.dtype))

def run(x, p):
    out = torch.empty_like(x)
    ct.launch(None, (ct.cdiv(x.shape[0], 128), 1, 1), scale, (x, out, p, 128))
    return out
"""
)


class NumberCompiledIn(Rule):
    """A compile-time parameter is given a number that the host function was given, or that is read
    back from the device, and the kernel only computes with it and what it loads."""

    name = "number-compiled-in"
    matches = (
        Case(_SCALED, "`factor`"),
        Case(_TILES, "`factor`"),
        Case(vary(_SCALED, ("n, factor, 128", "n, 1.0 / x.sum().item(), 128")), "`factor`"),
        Case(
            vary(
                _SCALED,
                ("n, factor, 128", "n, 1.0 / x.sum().item() if factor else 1.0 / x.shape[0], 128"),
            ),
            "`factor`",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_SCALED, ("factor: tl.constexpr", "factor")), why="it is no compile-time parameter"
        ),
        NearMiss(vary(_SCALED, ("n, factor, 128", "n, 0.5, 128")), why="there is one value"),
        NearMiss(
            vary(
                _SCALED, ("    tl.store", "    if factor != 1.0:\n        v = v + 1\n    tl.store")
            ),
            why="a branch is compiled by it",
        ),
        NearMiss(
            vary(_SCALED, ("v * factor, mask=at < n", "v, mask=at * factor < n")),
            why="it takes part in a place, which the compiler can use",
        ),
        NearMiss(
            vary(_SCALED, ("factor, 128)\n", "x.shape[1], 128)\n")), why="it is a size of an array"
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/dropout.py", "_dropout_kernel", 18),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        if material is None or not material.launches or not facts.constexprs:
            return
        named: dict[str, Value] = {}
        for name in facts.kernel.entry.parameter_names:
            given = _given(material, name) if name in facts.constexprs else None
            if given is not None and _computed_with(facts, name) and not needed(facts, name):
                named[name] = given
        if named:
            names = ", ".join(f"`{name}`" for name in named)
            several = len(named) > 1
            yield self.finding(
                subject,
                f"{names} {'are compile-time parameters' if several else 'is a compile-time'}"
                f"{'' if several else ' parameter'} although the kernel only computes with "
                f"{'them' if several else 'it'}: every value that a caller gives is compiled anew",
                f"make {names} run-time parameters",
                facts.declared(*named),
                Severity.NOTE,
            )


def _given(material: Material, name: str) -> Value:
    """What launches give for a parameter when it is a number of the caller, or one that is read
    back; None otherwise."""
    for launch in material.launches:
        value = dict(launch.args).get(name)
        found = leaves(value)
        asked = [one for one in found if not isinstance(one, (int, float))]
        numbers = [one for one in asked if isinstance(one, Expr) and _number(one)]
        if numbers and all(one in numbers or _number(one, sizes=True) for one in asked):
            return value
    return None


def _number(value: Value, *, sizes: bool = False) -> bool:
    """Arithmetic on arguments of the host function and on what `item` gives, and where `sizes` says
    so on extents of arrays."""
    pending: list[Value] = [value]
    asked = False
    for item in pending:
        if isinstance(item, (int, float)):
            continue
        if not isinstance(item, Expr) or len(pending) > MAX_USERS:
            return False
        if item.op == "sym":
            asked |= not str(item.args[0]).startswith(("target.", "capability"))
        elif (item.op == "call" and _item(item)) or (sizes and item.op in ("dim", "shape")):
            asked = True
        elif item.op in _ARITHMETIC:
            pending.extend(item.args)
        else:
            return False
    return asked


def _item(value: Expr) -> bool:
    target = value.args[0] if value.args else None
    return isinstance(target, Expr) and target.op == "attr" and target.args[1:] == ("item",)


def _computed_with(facts: Facts, name: str) -> bool:
    """Whether a parameter only enters arithmetic on what is loaded, or seeds random numbers: no
    extent, no place, no bound."""
    graph = facts.graph
    pending, used = [name], False
    for value in pending:
        for user in graph.users(value):
            kind = user.op.kind
            if _places(facts, user):
                return False
            others = user.op.inputs if kind in _COMPUTES else ()
            if kind in _RANDOM or any(_at_run_time(facts, v) for v in others if v != value):
                used = True
            elif kind in _HANDED and len(pending) < MAX_USERS:
                pending += [r.name for r in user.op.results if r.name not in pending]
            else:
                return False
    return used


def _at_run_time(facts: Facts, value: str) -> bool:
    """Whether a value is computed from what is loaded, or from lanes and blocks."""
    return any(facts.graph.rests_on(value, load.node) for load in facts.loads) or bool(
        facts.graph.roots(value, OpKind.ARANGE, OpKind.BLOCK_ID)
    )


def _places(facts: Facts, node: Node) -> bool:
    """Whether an address or a mask rests on what a node computes."""
    return any(
        facts.graph.rests_on(value, node)
        for access in facts.accesses
        for value in (*access.address, access.mask)
    )

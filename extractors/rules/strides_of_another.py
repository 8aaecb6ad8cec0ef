"""An array that the host makes is addressed with the strides of an argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.callers import saved, wrapped
from extractors.host.conditions import parts
from extractors.host.events import CheckRecord, LaunchRecord, NormaliseRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from extractors.patterns.cases import TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases_overflow import SCALE
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Finding

_POINTER = vary(SCALE, ("tl.program_id(0)", "tl.program_id(0).to(tl.int64)"))
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def double(x, out, sx: int, T: Int):
    at = ct.bid(0) * sx + ct.arange(T, dtype=ct.int32)
    ct.scatter(out, at, ct.gather(x, at) * 2.0)

def run(x):
    m, n = x.shape
    out = torch.empty((m, n))
    ct.launch(None, (m, 1, 1), double, (x, out, x.stride(0), 1024))
    return out
"""
)


class StridesOfAnother(Rule):
    """The kernel goes through an array that the host has just allocated by strides that it is
    handed of an argument. The new array is dense; the argument may be a part of a larger one, and
    nothing makes it contiguous or asks."""

    name = "strides-of-another"
    matches = (
        Case(_POINTER, "`out`"),
        Case(_TILES, "`out`"),
        Case(vary(_POINTER, ("torch.empty_like(x)", "torch.empty((m, n))")), "`out`"),
    )
    near_misses = (
        NearMiss(
            vary(_POINTER, ("    m, n", "    x = x.contiguous()\n    m, n")),
            why="the argument is made contiguous",
        ),
        NearMiss(
            vary(_POINTER, ("    m, n", "    assert x.is_contiguous()\n    m, n")),
            why="the host refuses another layout",
        ),
        NearMiss(
            vary(_POINTER, ("    scale[", "    assert out.stride() == x.stride()\n    scale[")),
            why="the host asks whether both lie alike",
        ),
        NearMiss(
            vary(_POINTER, ("x, out, sx, n", "x, out, sx, so, n"),
                 ("(out + row * sx", "(out + row * so"),
                 ("x.stride(0), n", "x.stride(0), out.stride(0), n")),
            why="each array has its own",
        ),
        NearMiss(vary(_POINTER, ("x.stride(0), n", "out.stride(0), n")), why="those of the array"),
        NearMiss(
            vary(_POINTER, ("torch.empty_like(x)", "x")), why="the argument itself is written"
        ),
    )  # fmt: skip
    seen = (
        Seen("flag-gems", "flag_gems/ops/scaled_softmax.py", "scaled_softmax_forward_kernel", 98),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        told: set[str] = set()
        for launch in material.sites() if material is not None else ():
            if material is None or wrapped(material, launch):
                continue
            for access, stride, owner in _borrowed(material, launch, facts):
                if access.array in told or access.array is None:
                    continue
                told.add(access.array)
                yield self.finding(
                    subject,
                    f"`{access.array}` is allocated by the host and addressed with `{stride}`, a "
                    f"stride of `{owner}`: where `{owner}` is a part of a larger array the places "
                    "are other ones, and lie outside of it",
                    f"hand over the strides of `{access.array}` too, or make `{owner}` contiguous",
                    [access, *_multiplied(facts, access, stride), launch.lines],
                )


def _borrowed(
    material: Material, launch: LaunchRecord, facts: Facts
) -> Iterator[tuple[Access, str, str]]:
    """Accesses to new arrays with a parameter that is handed a stride of an argument, and the
    argument."""
    given = dict(launch.args)
    cared = _cared(material, launch)
    names = {value: name for name, value in given.items() if isinstance(value, Expr)}
    for access in facts.accesses:
        made = leaves(given.get(access.array)) if access.array is not None else []
        if not made or not all(_new(material, one) for one in made):
            continue
        for stride in sorted(access.strides):
            for leaf in leaves(given.get(stride)):
                owner = leaf.args[0] if isinstance(leaf, Expr) and leaf.op == "stride" else None
                name = names.get(owner) if isinstance(owner, Expr) else None
                if name is None or owner in cared or owner in made or not _argument(owner):
                    continue
                if not saved(material, launch, name):
                    yield access, stride, name


def _multiplied(facts: Facts, access: Access, stride: str) -> list[Node]:
    """Where a stride is multiplied for an access."""
    return [
        node
        for node in facts.graph.users(stride)
        if any(facts.graph.rests_on(value, node) for value in access.address)
    ]


def _argument(value: Value) -> bool:
    return isinstance(value, Expr) and value.op == "sym"


def _new(material: Material, value: Value) -> bool:
    """Whether an array is one that the host allocates, no view of another."""
    fact = material.machine.tensors.get(value)
    return fact is not None and fact.base is None


def _cared(material: Material, launch: LaunchRecord) -> set[Value]:
    """Tensors that are made contiguous on the way to a launch, or whose layout is asked for."""
    before = material.of_root(launch)
    cared = {event.tensor for event in before if isinstance(event, NormaliseRecord)}
    conds = [event.cond for event in before if isinstance(event, CheckRecord)]
    conds += [guard.cond for guard in launch.path.guards]
    return cared | {
        part.args[0]
        for cond in conds
        for part in parts(cond)
        if part.op in ("stride", "strides")
        or (part.op == "attr" and part.args[1] in ("is_contiguous", "stride"))
    }

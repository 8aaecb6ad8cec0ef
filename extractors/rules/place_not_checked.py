"""An array is read or written where another one says, and nothing asks whether that is a place."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.loaded_places import unasked_places
from kb.evidence import Finding, Severity

_POINTER = (
    POINTER
    + """
@triton.jit
def rows(table, ids, out, n, count, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    i = tl.load(ids + row).to(tl.int64)
    v = tl.load(table + i * n + at, mask=at < n, other=0.0)
    tl.store(out + row.to(tl.int64) * n + at, v, mask=at < n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def rows(table, ids, out, T: Int):
    row = ct.bid(0)
    i = ct.gather(ids, (row,))
    v = ct.gather(table, (i, ct.arange(T, dtype=ct.int32)))
    ct.store(out, index=(row, 0), tile=ct.reshape(v, (1, T)))
"""
)


_OWN = """
import torch
def run(x):
    ids = torch.zeros(x.shape[0], dtype=torch.int32, device=x.device)
    out = torch.empty_like(x)
    rows[(x.shape[0],)](x, ids, out, x.shape[1], x.shape[0], 64)
    return out
"""


class PlaceNotChecked(Rule):
    """A whole number that is loaded from an array of the caller says which row or element of
    another array an access goes to, and no comparison with it decides about the access."""

    name = "place-not-checked"
    matches = (Case(_POINTER, "`ids`"), Case(_TILES, "`ids`"))
    near_misses = (
        NearMiss(
            vary(_POINTER, ("mask=at < n, other", "mask=(at < n) & (i < count), other")),
            why="the mask asks for it",
        ),
        NearMiss(
            _POINTER + _OWN, why="the host makes the array of places itself"),
        NearMiss(
            vary(_POINTER, ("    v = tl.load", "    if i >= count:\n        return\n"
                            "    v = tl.load")),
            why="the block ends before",
        ),
        NearMiss(
            vary(_POINTER, ("i * n + at", "row.to(tl.int64) * n + at"),
                 ("at, v, mask", "at, v + i, mask")),
            why="the number is added, and goes nowhere",
        ),
        NearMiss(
            vary(_POINTER, ("i * n + at", "i + at"), ("at < n, other", "i + at < last, other"),
                 ("    v = tl.load", "    last = tl.load(ids + row + 1)\n    v = tl.load")),
            why="where parts begin and end",
        ),
    )  # fmt: skip
    seen = (
        Seen("liger-kernel", "liger_kernel/ops/experimental/embedding.py",
             "embedding_forward_kernel", 25),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        found = [] if facts.of_threads else list(unasked_places(facts))
        own = _made(subject.host.material)
        found = [one for one in found if not own.issuperset(one.sources)]
        if not found:
            return
        arrays = ", ".join(dict.fromkeys(f"`{one.access.array}`" for one in found))
        rows = [row for one in found for row in one.sources.items() if row[0] not in own]
        sources = {name: load for name, (load, _) in rows}
        names = ", ".join(f"`{name}`" for name in sources)
        yield self.finding(
            subject,
            f"the places in {arrays} are taken from {names}, and nothing checks them against the "
            "extents: an index out of range goes past the end in silence",
            "mask indices that are out of range, or check them before the launch",
            [*sources.values(), *(one.access for one in found)],
            Severity.NOTE,
        )


def _made(material: Material | None) -> frozenset[str]:
    """Parameters that every launch gives an array that the host makes itself."""
    found: set[str] | None = None
    for launch in material.sites() if material is not None else ():
        names = {name for name, value in launch.args if _new(material, value)}
        found = names if found is None else found & names
    return frozenset(found or ())


def _new(material: Material | None, value: Value) -> bool:
    if material is None:
        return False
    for one in leaves(value):
        fact = material.machine.tensors.get(one)
        while fact is not None and fact.base is not None:
            one = fact.base
            fact = material.machine.tensors.get(one)
        if fact is None or (isinstance(one, Expr) and one.op == "sym"):
            return False
    return True

"""The host fills an array with zeros that the kernel then overwrites whole."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.callers import handed
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.machine import TensorFact
from extractors.host.origins import lines_of
from extractors.host.values import Expr, Value
from extractors.patterns.cases import TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.symbolic import Atom, AtomKind
from kb.analysis.symbolic import Expr as Index
from kb.evidence import Finding, Lines, Severity

_TILED = (
    TILE
    + """
import torch
@ct.kernel
def twice(x, out, T: Int):
    i = ct.bid(0)
    j = ct.bid(1)
    ct.store(out, index=(i, j), tile=ct.load(x, index=(i, j), shape=(1, T)) * 2.0)

def run(x):
    m, n = x.shape
    out = torch.zeros((m, n), device=x.device)
    ct.launch(None, (m, ct.cdiv(n, 128), 1), twice, (x, out, 128))
    return out
"""
)


class NeedlessZeros(Rule):
    """Every tile of the array is stored by one block, whatever happens, and nothing reads or adds
    to it in the kernel: the zeros are written for nothing."""

    name = "needless-zeros"
    dialects = ("cutile",)
    matches = (
        Case(_TILED, "`out`"),
        Case(vary(_TILED, ("torch.zeros((m, n), device=x.device)", "torch.zeros(m, n)"))),
    )
    near_misses = (
        NearMiss(
            vary(_TILED, ("torch.zeros((m, n)", "torch.empty((m, n)")), why="it is not filled"
        ),
        NearMiss(
            vary(_TILED, ("    ct.store(", "    if i > 0:\n        ct.store(")),
            why="a block may leave its tile as it is",
        ),
        NearMiss(
            vary(_TILED, ("(m, ct.cdiv(n, 128), 1)", "(m, n // 128, 1)")),
            why="the last part of a row may be left as it is",
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        if material is None or len(material.sites()) != 1:
            return
        launch = material.sites()[0]
        for name, fact, lines in _zeroed(material, launch):
            stores = [a for a in subject.facts.accesses if a.array == name]
            if len(stores) == 1 and _covers(subject.facts, launch, stores[0], fact.dims or ()):
                yield self.finding(
                    subject,
                    f"`{name}` is filled with zeros, and then every block stores its own tile of "
                    "it and leaves none out: the zeros are written for nothing",
                    "allocate it without filling it (`torch.empty`)",
                    [lines, stores[0]],
                    Severity.NOTE,
                )


def _zeroed(material: Material, launch: LaunchRecord) -> Iterator[tuple[str, TensorFact, Lines]]:
    """Parameters that are given an array which is made of zeros, wherever it is made."""
    for name, value in launch.args:
        fact = material.machine.tensors.get(value) if isinstance(value, Expr) else None
        given = handed(material, launch, name)
        if fact is None or fact.dims is None or material.origins is None:
            continue
        made = material.origins.sources(given)[0] if isinstance(given, ast.Name) else []
        if len(made) == 1 and isinstance(made[0], ast.Call) and _zeros(made[0]):
            yield name, fact, lines_of(made[0])


def _zeros(call: ast.Call) -> bool:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("zeros", "zeros_like", "new_zeros")


def _covers(facts: Facts, launch: LaunchRecord, store: Access, dims: tuple[Value, ...]) -> bool:
    """Whether the tiles of a store cover the array: each axis is a block id with as many blocks as
    there are tiles, or one tile at index 0 that is as long as the axis."""
    shape = store.shape or facts.types.shape(store.value)
    if store.mode is not Mode.TILE or not store.is_store or store.is_atomic:
        return False
    if facts.guards(store.node) or store.loop is not None or len(shape) != len(store.index):
        return False
    if len(dims) != len(shape):
        return False
    grid = launch.grid if isinstance(launch.grid, tuple) else (launch.grid,)
    given = dict(launch.args)
    return all(
        _axis(index, _extent(extent, given), dim, grid)
        for index, extent, dim in zip(store.index, shape, dims, strict=True)
    )


def _extent(extent: str, given: dict[str, Value]) -> Value:
    return int(extent) if extent.isdigit() else given.get(extent)


def _axis(index: Index, tile: Value, dim: Value, grid: tuple[Value, ...]) -> bool:
    atom: Atom | None = index.atom
    if atom is not None and atom.kind is AtomKind.BLOCK:
        axis = int(atom.text[6:-1])
        blocks = grid[axis] if axis < len(grid) else None
        if tile == 1:
            return blocks == dim
        return isinstance(blocks, Expr) and blocks.op == "cdiv" and blocks.args == (dim, tile)
    return index.constant == 0 and tile == dim

"""The last tile is masked where it is stored, and read without a mask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.conditions import parts
from extractors.host.events import CheckRecord, LaunchRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.spaces import tried
from extractors.host.values import Expr as HostExpr
from extractors.host.values import Value
from extractors.patterns.cases import POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis import symbolic
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Finding
from kb.ops import OpKind

_POINTER = (
    POINTER
    + """
import torch
@triton.jit
def scaled(x, s, out, m, n, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    at = tl.arange(0, 64)
    place = rows[:, None].to(tl.int64) * n + at[None, :]
    inside = (rows[:, None] < m) & (at[None, :] < n)
    v = tl.load(x + place, mask=inside, other=0.0)
    f = tl.load(s + rows)
    tl.store(out + place, v * f[:, None], mask=inside)

def run(x, s):
    m, n = x.shape
    out = torch.empty_like(x)
    scaled[(triton.cdiv(m, 32),)](x, s, out, m, n, 32)
    return out
"""
)
_BRANCH = vary(
    _POINTER,
    ("n, T: tl", "n, S: tl.constexpr, T: tl"),
    ("    f = tl.load(s + rows)\n", "    f = tl.zeros((T,), dtype=tl.float32)\n"
     "    if S:\n        f = tl.load(s + rows)\n"),
    ("m, n, 32)", "m, n, s is not None, 32)"),
)  # fmt: skip


class TailReadUnmasked(Rule):
    """Tiles of an axis are held below its extent where they are stored, and the grid is rounded up,
    so that the last tile may go past it. Another array is read at the same places without asking:
    past its end for the last tile."""

    name = "tail-read-unmasked"
    dialects = ("triton",)
    matches = (Case(_POINTER, "`s`"), Case(_BRANCH, "`s`"))
    near_misses = (
        NearMiss(vary(_POINTER, ("s + rows)", "s + rows, mask=rows < m)")), why="it is masked"),
        NearMiss(
            vary(_POINTER, ("(m, 32)", "(m, 1)"), ("m, n, 32)", "m, n, 1)")),
            why="tiles of one row fill the axis",
        ),
        NearMiss(
            vary(_BRANCH, ("        f = tl.load(s + rows)\n", "        f = tl.load(s + rows)\n"
                           "    else:\n        f = tl.load(s + rows, mask=rows < m)\n")),
            why="the same with a mask, on a condition",
        ),
        NearMiss(
            vary(_BRANCH, ("if S:", "if T == 1:"), ("s is not None", "True")),
            why="the branch is for tiles of one row",
        ),
        NearMiss(vary(_POINTER, ("s + rows)", "s + rows % m)")), why="it begins anew past the end"),
        NearMiss(
            vary(_POINTER, ("    m, n", "    assert x.shape[0] % 32 == 0\n    m, n")),
            why="the host refuses sizes that tiles do not fill",
        ),
        NearMiss(
            vary(_POINTER, ("triton.cdiv(m, 32)", "m // 32")), why="the grid has whole tiles only"
        ),
        NearMiss(
            vary(_POINTER, ("    m, n", "    s = torch.ones(4096)\n    m, n")),
            why="an array of the host, which may be longer",
        ),
        NearMiss(
            vary(_POINTER, ("s + rows)", "s + tl.program_id(0))")), why="one number for a tile"
        ),
    )  # fmt: skip
    seen = (
        Seen(
            "fla-core", "fla/ops/deltaformer/parallel.py", "parallel_deltaformer_bwd_kernel_qk", 363
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        if material is None or not material.launches or facts.graph.of(OpKind.STATIC_ASSERT):
            return
        found: dict[str, list[Access | Node]] = {}
        bounds: dict[str, None] = {}
        for lane, step, bound, test in _tails(facts, material):
            for load in facts.loads:
                if _open(facts, load, lane, step) and _always(facts, load, material):
                    found.setdefault(str(load.array), []).extend((load, test))
                    bounds[f"`{bound}`"] = None
        if found:
            names = ", ".join(f"`{name}`" for name in found)
            yield self.finding(
                subject,
                f"{names} is read for whole tiles, while what is stored is held below "
                f"{', '.join(bounds)}: the last tile of the grid, which is rounded up, reads past "
                "the end",
                "mask the load as the store is masked",
                [place for places in found.values() for place in places],
            )


def _tails(facts: Facts, material: Material) -> Iterator[tuple[Atom, Expr, str, Node]]:
    """Places along an axis that masks of stores hold below its extent: the lanes, where the tile of
    a block begins, and the extent."""
    told: set[tuple[str, str]] = set()
    for store in facts.stores:
        for test in comparisons(facts, store.mask):
            place, bound = sides(facts, test)
            lanes = [a for a in place.top() if a.kind is AtomKind.LANE]
            size = bound.atom
            if test.op.kind != OpKind.LT or len(lanes) != 1 or size is None:
                continue
            begin = symbolic.sub(place, symbolic.of(lanes[0]))
            key = (lanes[0].text.split("[")[0], size.value)
            if key not in told and _cut(facts, material, begin, size):
                told.add(key)
                yield lanes[0], begin, size.value, test


def _cut(facts: Facts, material: Material, begin: Expr, size: Atom) -> bool:
    """Whether a place is the number of a tile times its extent, and every launch has as many tiles
    as the size rounded up gives, and never asks whether they fit."""
    if len(begin.terms) != 1 or not begin.has(AtomKind.BLOCK):
        return False
    tiles = [a for a in begin.terms[0][0] if a.value in facts.tile_extents]
    if size.kind is not AtomKind.PARAMETER or len(tiles) != 1 or begin.terms[0][1] != 1:
        return False
    return all(_ragged(material, launch, size.value, tiles[0].value) for launch in material.sites())


def _ragged(material: Material, launch: LaunchRecord, size: str, tile: str) -> bool:
    """Whether a launch rounds the number of tiles up, and does not ask whether they fit."""
    given = dict(launch.args)
    sizes = leaves(given.get(size))
    counted = any(
        part.op == "cdiv" and part.args[0] in sizes and part.args[1] == given.get(tile)
        for part in parts(launch.grid)
    )
    if all(_one(material, leaf) for leaf in leaves(given.get(tile))):
        return False
    return counted and not _asked(material, launch, sizes)


def _one(material: Material, extent: Value) -> bool:
    """Whether a tile has one row, in every configuration: it fills any axis."""
    if isinstance(extent, HostExpr) and extent.op == "axis":
        searches = [search for search in material.searches if search.id == extent.args[0]]
        return all(tried(search, str(extent.args[1])) == [1] for search in searches)
    return extent == 1


def _asked(material: Material, launch: LaunchRecord, sizes: list[Value]) -> bool:
    """Whether the host takes a remainder of a size anywhere on the way to a launch."""
    conds = [e.cond for e in material.of_root(launch) if isinstance(e, CheckRecord)]
    conds += [guard.cond for guard in launch.path.guards]
    conds += [value for _, value in launch.args]
    return any(
        part.op == "%" and any(one in sizes for one in parts(part.args[0]))
        for cond in conds
        for part in parts(cond)
    )


def _open(facts: Facts, load: Access, lane: Atom, step: Expr) -> bool:
    """Whether a load is at the places of an axis, and its mask does not look at them."""
    if load.mode is not Mode.POINTER or load.array is None or len(load.index) != 1:
        return False
    index = load.index[0]
    own = [atom for atom in index.top() if _same(atom, lane)]
    moved = symbolic.mul(step, index.coefficient(own[0])) if len(own) == 1 else None
    if moved is None or not set(moved.terms) <= set(index.terms):
        return False
    tiles = {atom.value for atom in step.atoms()} & facts.tile_extents
    around = [place for place in load.node.around() if place.op.kind == OpKind.IF]
    asked = (value for place in around for value in place.op.inputs)
    tests = [test for value in (load.mask, *asked) for test in comparisons(facts, value)]
    return not any(
        _same(atom, lane) or atom.value in tiles
        for test in tests
        for side in sides(facts, test)
        for atom in side.atoms()
    )


def _same(atom: Atom, lane: Atom) -> bool:
    """Whether two atoms are the same lanes, along whatever axis a view puts them."""
    return atom.kind is AtomKind.LANE and atom.text.split("[")[0] == lane.text.split("[")[0]


def _always(facts: Facts, load: Access, material: Material) -> bool:
    """Whether a load is of an array that every launch has from its caller, and no other branch
    loads the same places with a mask: its condition may be that tiles fill the axis."""
    if any(
        other.array == load.array and other.index == load.index and load.node.excludes(other.node)
        for other in facts.loads
    ):
        return False
    values = [dict(launch.args).get(str(load.array)) for launch in material.launches]
    return all(
        isinstance(one, HostExpr) and one.op == "sym" for value in values for one in leaves(value)
    )

"""Tiles of a loop move along an axis, and the mask of its end stays at the first of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.conditions import parts
from extractors.host.events import CheckRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis import symbolic
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Finding
from kb.ops import OpKind

_POINTER = (
    POINTER
    + """
@triton.jit
def product(a, b, out, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    m = tl.program_id(0).to(tl.int64) * TM + tl.arange(0, TM)
    n = tl.program_id(1).to(tl.int64) * TN + tl.arange(0, TN)
    at = tl.arange(0, TK)
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for t in range(0, tl.cdiv(K, TK)):
        k = t * TK + at
        x = tl.load(a + m[:, None] * K + k[None, :], mask=at[None, :] < K, other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=k[:, None] < K, other=0.0)
        acc += tl.dot(x, y)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
"""
)
_LAUNCHED = (
    _POINTER
    + """
def run(a, b, out):
    M, K = a.shape
    N = b.shape[1]
    product[(M // 32, N // 32)](a, b, out, M, N, K, 32, 32, 32)
"""
)
_CARRIED = vary(
    _POINTER,
    ("    for t in", "    pa = a + m[:, None] * K + at[None, :]\n    for t in"),
    ("tl.load(a + m[:, None] * K + k[None, :], mask", "tl.load(pa, mask"),
    ("        acc += tl.dot(x, y)", "        acc += tl.dot(x, y)\n        pa += TK"),
)
_GATHERED = (
    TILE
    + """
@ct.kernel
def total(x, out, n: int, T: Int):
    at = ct.arange(T, dtype=ct.int32)
    acc = ct.zeros((T,), dtype=ct.float32)
    for t in range(ct.cdiv(n, T)):
        acc += ct.gather(x, t * T + at, mask=at < n, padding_value=0.0)
    ct.scatter(out, ct.bid(0), ct.sum(acc, axis=0))
"""
)


class MaskStaysBehind(Rule):
    """Each round of a loop loads the next tile along an axis, and the mask compares the lanes of
    the first tile with the end of that axis: the last tile is read past the end."""

    name = "mask-stays-behind"
    matches = (
        Case(_POINTER, "`a`"),
        Case(_LAUNCHED, "`a`"),
        Case(_CARRIED, "`a`"),
        Case(_GATHERED, "`x`"),
    )
    near_misses = (
        NearMiss(vary(_POINTER, ("mask=at[None, :]", "mask=k[None, :]")), why="it moves along"),
        NearMiss(
            vary(_POINTER, ("at[None, :] < K", "at[None, :] < K - t * TK")),
            why="the bound moves the other way",
        ),
        NearMiss(
            vary(_POINTER, ("mask=at[None, :] < K", "mask=m[:, None] < M")),
            why="the axis that does not move has the mask",
        ),
        NearMiss(
            vary(_POINTER, ("    acc = tl", "    tl.static_assert(K % TK == 0)\n    acc = tl"),
                 ("N, K, TM", "N, K: tl.constexpr, TM")),
            why="tiles are asserted to fill the axis",
        ),
        NearMiss(
            vary(_POINTER, ("tl.cdiv(K, TK)", "tl.program_id(0)")), why="the loop may end earlier"
        ),
        NearMiss(
            vary(_LAUNCHED, ("    product[", "    assert a.shape[1] % 32 == 0\n    product[")),
            why="the host refuses sizes that tiles do not fill",
        ),
        NearMiss(vary(_GATHERED, ("t * T + at", "t * n + at")), why="each round takes a row"),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if facts.graph.of(OpKind.STATIC_ASSERT):
            return  # what is asserted may well be that tiles fill the axis
        found: dict[str, list[Access | Node]] = {}
        bounds: dict[str, None] = {}
        for access in facts.accesses:
            for test, bound in _behind(facts, access):
                if _asked(subject.host.material, bound):
                    continue
                found.setdefault(str(access.array), []).extend((access, test))
                bounds[f"`{bound}`"] = None
        if found:
            names = ", ".join(f"`{name}`" for name in found)
            yield self.finding(
                subject,
                f"each round of the loop takes the next tile of {names}, but the mask compares the "
                f"lanes of the first with {', '.join(bounds)}: the last tile is read past the end",
                "compare the place that is read, or what is left of the axis",
                [place for places in found.values() for place in places],
            )


def _behind(facts: Facts, access: Access) -> Iterator[tuple[Node, Expr]]:
    """Comparisons of a mask, with their bounds, that leave out how far a loop has come along the
    axis of their lanes."""
    tests = comparisons(facts, access.mask) if len(access.index) == 1 else ()
    if any(side.has(*_ROUNDS) for test in tests for side in sides(facts, test)):
        return
    for test in tests:
        lanes, bound = sides(facts, test)
        lane = _lane(lanes)
        if test.op.kind != OpKind.LT or lane is None or bound.atom is None:
            continue
        given = bound.atom.kind is AtomKind.PARAMETER
        if given and bound.atom.value not in facts.tile_extents and _moves(facts, access, test):
            if any(_ends(facts, place, bound.atom) for place in access.node.loops):
                yield test, bound


def _ends(facts: Facts, place: Node, bound: Atom) -> bool:
    """Whether a loop goes on as far as a bound says."""
    loop = facts.loop(place)
    return (
        loop is not None and loop.high is not None and bound in facts.values.expr(loop.high).atoms()
    )


def _asked(material: Material | None, bound: Expr) -> bool:
    """Whether the host divides what it hands over for a bound: it may refuse what tiles do not
    fill."""
    if material is None or bound.atom is None:
        return False
    for launch in material.sites():
        sizes = leaves(dict(launch.args).get(bound.atom.value))
        checks = [e.cond for e in material.of_root(launch) if isinstance(e, CheckRecord)]
        checks += [guard.cond for guard in launch.path.guards]
        if any(
            part.op == "%" and any(one in sizes for one in parts(part.args[0]))
            for cond in checks
            for part in parts(cond)
        ):
            return True
    return False


def _moves(facts: Facts, access: Access, test: Node) -> bool:
    """Whether each round of a loop goes on by as many places as a comparison has lanes."""
    index = access.index[0]
    lane, extent = _lane(sides(facts, test)[0]), _extent(facts, test.op.inputs[0])
    if lane is None or extent is None:
        return False
    step = symbolic.mul(index.coefficient(lane), extent)
    rounds = [atom for atom in index.top() if atom.kind in _ROUNDS]
    return any(index.coefficient(atom) == step for atom in rounds)


def _lane(expr: Expr) -> Atom | None:
    """The lanes of a place that is nothing else."""
    atom = expr.atom
    return atom if atom is not None and atom.kind is AtomKind.LANE else None


_ROUNDS = (AtomKind.INDUCTION, AtomKind.COUNT)


def _extent(facts: Facts, value: str) -> Expr | None:
    """How many lanes there are."""
    made = facts.graph.producer(facts.graph.core(value))
    if made is None or made.op.kind != OpKind.ARANGE:
        return None
    size = made.op.operand("size") or made.op.operand("end")
    return facts.values.expr(size) if size else None

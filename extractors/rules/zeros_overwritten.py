"""An array is filled with zeros of which the kernel leaves none."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.callers import handed
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.render import leaves
from extractors.host.values import Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.places import places, tests
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import ROWS_POINTER
from extractors.whole_stores import written_whole
from kb.analysis.facts import Facts
from kb.analysis.symbolic import AtomKind
from kb.evidence import Finding, Lines, Severity
from kb.ops import OpKind

ZEROS = ("zeros", "zeros_like", "new_zeros")
"""Functions of PyTorch that make an array of zeros."""

_LEAVES = (OpKind.RETURN, OpKind.BREAK, OpKind.CONTINUE)
"""Ways out of a branch or a loop."""

_UNKNOWN = (AtomKind.LOADED, AtomKind.OPAQUE, AtomKind.CHOICE)
_ROWS = (
    ROWS_POINTER
    + """
def run(x):
    out = torch.zeros_like(x)
    rows[(x.shape[0],)](x, out, x.shape[1], 1024)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def move(x, out, T: Int):
    ct.store(out, index=(ct.bid(0), 0), tile=ct.load(x, index=(ct.bid(0), 0), shape=(1, T)))

def run(x):
    out = torch.zeros(x.shape)
    ct.launch(None, (x.shape[0], 1, 1), move, (x, out, 64))
    return out
"""
)


_SUMS = (
    TILE
    + """
import torch
@ct.kernel
def total(x, sums, T: Int):
    row = ct.bid(0)
    v = ct.load(x, index=(row, 0), shape=(1, T))
    ct.scatter(sums, row, ct.sum(v))

def run(x):
    sums = torch.zeros(x.shape[0])
    ct.launch(None, (x.shape[0], 1, 1), total, (x, sums, 64))
    return sums
"""
)
_GAINED = (
    POINTER
    + """
import torch
@triton.jit
def repeat(x, out, m, k, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    v = tl.load(x + row)
    for first in range(0, k, T):
        at = first + tl.arange(0, T)
        tl.store(out + row * k + at, v, mask=at < k)

def run(x, k):
    m = x.shape[0]
    out = torch.zeros(m, k)
    repeat[(m,)](x, out, m, k, 1024)
    return out
"""
)


_TILED = (
    TILE
    + """
import torch
@ct.kernel
def fill(x, out, HEADS: Int, T: Int, D: Int):
    at = (ct.bid(0) // HEADS, ct.bid(0) % HEADS, ct.bid(1), 0)
    ct.store(out, index=at, tile=ct.load(x, index=(0, 0), shape=(1, 1, T, D)))

def run(q, x):
    b, h, s, d = q.shape
    out = torch.zeros_like(q)
    ct.launch(None, (b * h, ct.cdiv(s, 64), 1), fill, (x, out, h, 64, d))
    return out
"""
)


class ZerosOverwritten(Rule):
    """The host makes an array of zeros, and the kernel stores to all of it: to each place that it
    reads of another in whose shape it was made, or through each of its extents, in blocks, loops,
    lanes that it holds below the extent or tiles as large; it neither reads the zeros nor adds to
    them."""

    name = "zeros-overwritten"
    matches = (
        Case(_ROWS, "`out`"),
        Case(_TILES, "`out`"),
        Case(_SUMS, "`sums`"),
        Case(_GAINED, "`out`"),
        Case(_TILED, "`out`"),
        Case(
            vary(
                _GAINED,
                ("zeros(m, k)", "zeros(m, m)"),
                ("def run(x, k):", "def run(x):"),
                ("m, k, 1024)", "m, m, 1024)"),
            ),
            "`out`",
        ),
        Case(
            vary(
                _ROWS,
                ("def run(x)", "def run(x, own)"),
                ("out = torch.zeros_like(x)", "out = x if own else torch.zeros_like(x)"),
            ),
            "`out`",
        ),
        Case(vary(_GAINED, ("zeros(m, k)", "zeros(m, 2 * k)"), ("m, k, 1024)", "m, 2 * k, 1024)"))),
    )
    near_misses = (
        NearMiss(
            vary(
                _GAINED,
                ("zeros(m, k)", "zeros(m, m)"),
                ("def run(x, k):", "def run(x):"),
                ("m, k, 1024)", "m, m, 1024)"),
                ("out + row * k + at", "out + row * k + row"),
            ),
            why="the diagonal of a matrix alone",
        ),
        NearMiss(
            vary(_TILED, ("(x, out, h, 64, d)", "(x, out, h, 64, 32)")),
            why="the tile need not be as wide as a row",
        ),
        NearMiss(vary(_SUMS, ("x.shape[0], 1, 1", "x.shape[0] - 1, 1, 1")), why="one row is left"),
        NearMiss(
            vary(_GAINED, ("zeros(m, k)", "zeros(m, k + 1)")), why="the rows end before the array"
        ),
        NearMiss(
            vary(_GAINED, ("torch.zeros(m, k)", "x.new_zeros(m, k + 1)")),
            why="the rows end before the array, whose extents stand apart",
        ),
        NearMiss(
            vary(_GAINED, ("range(0, k, T)", "range(0, tl.program_id(0) * T, T)")),
            why="blocks go to places of their own only",
        ),
        NearMiss(
            vary(
                _GAINED,
                (
                    "tl.store(out + row * k + at, v, mask=at < k)",
                    "tl.store(out + row * k + at, v, mask=(at < k) & (v > 0))",
                ),
            ),
            why="what was loaded says which elements are written",
        ),
        NearMiss(
            vary(_ROWS, ("zeros_like", "empty_like")), why="the memory is left as it is found"
        ),
        NearMiss(
            vary(_ROWS, ("tl.store(out", "tl.atomic_add(out")), why="the kernel adds to the zeros"
        ),
        NearMiss(
            vary(_ROWS, ("    tl.store", "    if tl.load(x + at) > 0:\n        tl.store")),
            why="a branch may leave a row out",
        ),
        NearMiss(
            vary(_ROWS, ("mask=tl.arange(0, T) < n)\n\n", "mask=at % n < 8)\n\n")),
            why="fewer places are written than are read",
        ),
        NearMiss(
            vary(_ROWS, ("zeros_like(x)", "zeros(x.shape[0], 2 * x.shape[1])")),
            why="the array is larger than what is read",
        ),
        NearMiss(
            vary(_ROWS, ("rows[(x.shape[0],)](x, out", "out[0] = 1\n    rows[(3,)](x, out[2:]")),
            why="a part of the array is handed over",
        ),
    )
    seen = (Seen("liger-kernel", "liger_kernel/ops/rms_norm.py", "_rms_norm_backward_kernel", 558),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        if material is None or not material.launches:
            return
        if any(node.parent is not None for node in facts.graph.of(*_LEAVES)):
            return
        for name in sorted({a.array for a in facts.stores if a.array is not None}):
            sites = [site for site in material.sites() if _zeroed(material, site, name)]
            shown = _read_alike(facts, name) if sites else []
            made: set[Lines] = set()
            for site in sites:
                given = dict(site.args)
                own = leaves(given.get(name))
                shapes = {_shape(material, leaf) for leaf in own}
                if shapes & {given.get(other) for other in shown} or (
                    _zeros_alone(material, site, name)
                    and all(written_whole(material, site, facts, name, leaf) for leaf in own)
                ):
                    made |= _zeroed(material, site, name)
            if made:
                yield self.finding(
                    subject,
                    f"`{name}` is filled with zeros, and the kernel writes all of it: the memory "
                    "is written twice",
                    "allocate it empty",
                    sorted(made),
                    Severity.NOTE,
                )


def _read_alike(facts: Facts, name: str) -> list[str]:
    """Arrays that are read at the places where one is stored to, which is done once and not asked
    for; none when the array is also read or added to."""
    accesses = [access for access in facts.accesses if access.array == name]
    first = accesses[0]
    if len(accesses) > 1 or not first.is_store or first.is_atomic or facts.guards(first.node):
        return []
    if any(index.has(*_UNKNOWN) for index in first.index):
        return []
    return [
        load.array
        for load in facts.loads
        if load.array is not None
        and load.mode is first.mode
        and load.node.loops == first.node.loops
        and not facts.guards(load.node)
        and places(facts, load) == places(facts, first)
        and tests(facts, load) == tests(facts, first)
    ]


def _shape(material: Material, value: Value) -> Value:
    """The tensor that one was made in the shape of."""
    fact = material.machine.tensors.get(value)
    return fact.like if fact is not None else None


def _zeros_alone(material: Material, launch: LaunchRecord, name: str) -> bool:
    """Whether zeros are all that the array of a launch is made of, wherever it is made."""
    given = handed(material, launch, name)
    if material.origins is None or not isinstance(given, ast.Name):
        return False
    made = [one for value in material.origins.sources(given)[0] for one in _sides(value)]
    return all(_is_zeros(one) or _is_none(one) for one in made)


def _zeroed(material: Material, launch: LaunchRecord, name: str) -> set[Lines]:
    """Where the array that a launch hands over for a parameter may be made of zeros."""
    given = handed(material, launch, name)
    if material.origins is None or not isinstance(given, ast.Name):
        return set()
    made = material.origins.sources(given)[0]
    return {lines_of(one) for value in made for one in _sides(value) if _is_zeros(one)}


def _sides(made: ast.expr) -> Iterator[ast.expr]:
    """What a value is, whatever the conditions in it say."""
    if isinstance(made, ast.IfExp):
        yield from _sides(made.body)
        yield from _sides(made.orelse)
    else:
        yield made


def _is_none(made: ast.expr) -> bool:
    return isinstance(made, ast.Constant) and made.value is None


def _is_zeros(made: ast.expr) -> bool:
    function = made.func if isinstance(made, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in ZEROS

"""The kernel relies on something that the host neither checks nor brings about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache, partial

from extractors.host.callers import saved, wrapped
from extractors.host.conditions import looked_at, parts, touched
from extractors.host.events import CheckRecord, LaunchRecord, NormaliseRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.assumptions import (
    covered_grid,
    powers_of_two,
    steps,
    unit_strides,
    whole_steps,
)
from kb.analysis.facts import Facts
from kb.evidence import Finding

_Asked = Callable[[], set[Expr]]
"""What the host looks at before a launch, told when it is first asked for."""

_ROWS = (
    POINTER
    + """
import torch
@triton.jit
def rows(x, y, out, sx, n, W: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, W)
    v = tl.load(x + row * sx + at, mask=at < n, other=0.0)
    w = tl.load(y + row * sx + at, mask=at < n, other=0.0)
    tl.store(out + row * sx + at, v + w, mask=at < n)

def run(x, y):
    x = x.contiguous()
    y = y.contiguous()
    m, n = x.shape
    out = torch.empty_like(x)
    rows[(m,)](x, y, out, x.stride(0), n, triton.next_power_of_2(n))
    return out
"""
)
_BARE = (
    POINTER
    + """
import torch
@triton.jit
def twice(x, out, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at) * 2.0)

def run(x):
    x = x.contiguous()
    n = x.numel()
    assert n % 128 == 0
    out = torch.empty_like(x)
    twice[(triton.cdiv(n, 128),)](x, out, 128)
    return out
"""
)
_STEPS = (
    POINTER
    + """
import torch
@triton.jit
def total(x, out, n, T: tl.constexpr):
    acc = tl.zeros((T,), dtype=tl.float32)
    for first in range(0, n, T):
        acc += tl.load(x + tl.program_id(0).to(tl.int64) * n + first + tl.arange(0, T))
    tl.store(out + tl.program_id(0), tl.sum(acc, axis=0))

def run(x):
    x = x.contiguous()
    m, n = x.shape
    if n % 64 != 0:
        raise ValueError(n)
    out = torch.empty(m)
    total[(m,)](x, out, n, 64)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def move(x, out, W: Int):
    i = ct.bid(0)
    ct.store(out, index=(i, 0), tile=ct.load(x, index=(i, 0), shape=(1, W)))

def run(x):
    out = torch.empty_like(x)
    w = x.shape[1]
    assert w & (w - 1) == 0
    ct.launch(None, (x.shape[0], 1, 1), move, (x, out, w))
    return out
"""
)


class UncheckedConstraint(Rule):
    """Extents of tiles that must be powers of two, sizes that whole tiles must fill because nothing
    is masked, rows that must be contiguous: passed as the caller gives them and never looked at."""

    name = "unchecked-constraint"
    matches = (
        Case(vary(_ROWS, ("triton.next_power_of_2(n))", "n)")), "power of two"),
        Case(vary(_TILES, ("    assert w & (w - 1) == 0\n", "")), "power of two"),
        Case(
            vary(_TILES, ("    assert w & (w - 1) == 0\n", "    w = min(4096, w)\n")),
            "power of two",
        ),
        Case(vary(_BARE, ("    assert n % 128 == 0\n", "")), "multiple"),
        Case(vary(_STEPS, ("    if n % 64 != 0:\n        raise ValueError(n)\n", "")), "multiple"),
        Case(vary(_ROWS, ("    y = y.contiguous()\n", "")), "contiguous"),
    )
    near_misses = (
        NearMiss(
            vary(
                _ROWS,
                ("    y = y.contiguous()\n", ""),
                ("def run", "@prepared\ndef run"),
                ("import torch\n", "import torch\nfrom host import prepared\n"),
            ),
            why="a decorator may make every argument contiguous",
        ),
        NearMiss(_ROWS, why="the host rounds the extent up and makes both arrays contiguous"),
        NearMiss(_TILES, why="the host checks the extent"),
        NearMiss(_BARE, why="the host checks that tiles fill the array"),
        NearMiss(_STEPS, why="the host refuses sizes that are no multiple"),
    )

    seen = (
        Seen("tilegym", "tilegym/ops/cutile/experimental/swa_attention.py", "_swa_fwd_kernel", 272),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        if material is None:
            return ()
        found: dict[str, Finding] = {}
        divisors = cache(partial(_divisors, material))
        for launch in material.launches:
            if len(launch.args) <= len(material.signature.params):
                asked = cache(partial(looked_at, material, launch))
                for key, finding in (
                    *self._powers(subject, material, launch, asked, divisors),
                    *self._multiples(subject, material, launch, asked),
                    *self._contiguous(subject, material, launch),
                ):
                    found.setdefault(key, finding)
        return found.values()

    def _powers(
        self,
        subject: Subject,
        material: Material,
        launch: LaunchRecord,
        asked: _Asked,
        divisors: Callable[[], set[Value] | None],
    ) -> Iterator[tuple[str, Finding]]:
        given = dict(launch.args)
        for name in sorted(_powers_of_two(subject.facts) & given.keys()):
            for leaf in leaves(given[name]):
                passed, leaf = leaf, _cut(leaf)
                if not isinstance(leaf, Expr) or leaf.op != "dim" or not _given(material, leaf):
                    continue
                made = material.made(launch, name) if passed is not leaf else ()
                # The grid divides by tile sizes that somebody chose, not by extents.
                others = divisors() if leaf not in asked() else None
                if others is not None and leaf not in others:
                    text = material.names(launch).text(passed)
                    yield (
                        name,
                        self.finding(
                            subject,
                            f"`{name}` is the extent of a tile and must be a power of two; the "
                            f"host passes {text} and never checks it",
                            f"pass the next power of two and mask the rest, or check {text}",
                            [launch.lines, *made],
                        ),
                    )

    def _multiples(
        self, subject: Subject, material: Material, launch: LaunchRecord, asked: _Asked
    ) -> Iterator[tuple[str, Finding]]:
        given = dict(launch.args)
        grid = launch.grid if isinstance(launch.grid, tuple) else (launch.grid,)
        for access, axis, tile in covered_grid(subject.facts):
            part = grid[axis] if axis < len(grid) else None
            if not (isinstance(part, Expr) and part.op == "cdiv" and tile in given):
                continue
            if part.args[1] == given[tile]:
                size = part.args[0]
                if _open(size) and not touched(size, asked()):
                    what = (size, tile, access.node.lines)
                    yield f"% {tile}", self._multiple(subject, material, launch, what)
        for access, size_name, tile in whole_steps(subject.facts):
            size = given.get(size_name)
            if _open(size) and not touched(size, asked()) and tile in given:
                what = (size, tile, access.node.lines)
                yield f"% {tile}", self._multiple(subject, material, launch, what)

    def _multiple(
        self,
        subject: Subject,
        material: Material,
        launch: LaunchRecord,
        what: tuple[Value, str, tuple[int, int]],
    ) -> Finding:
        size, tile, lines = what
        text = material.names(launch).text(size)
        return self.finding(
            subject,
            f"tiles of `{tile}` are read or written without a mask, so that {text} must be a "
            "multiple of it; the host never checks that",
            f"mask the access, or check {text} % {tile} == 0 before the launch",
            [launch.lines, lines],
        )

    def _contiguous(
        self, subject: Subject, material: Material, launch: LaunchRecord
    ) -> Iterator[tuple[str, Finding]]:
        """Only where the host takes care of another array of the same launch."""
        before = material.of_root(launch)
        cared = {event.tensor for event in before if isinstance(event, NormaliseRecord)}
        if not cared or wrapped(material, launch):
            return
        cared |= {
            atom.args[0]
            for event in before
            if isinstance(event, CheckRecord)
            for atom in _stride_atoms(event.cond)
        }
        given = dict(launch.args)
        needed = unit_strides(subject.facts)
        if not any(leaf in cared for name in needed for leaf in leaves(given.get(name))):
            return
        for name, lines in needed.items():
            for leaf in leaves(given.get(name)):
                plain = isinstance(leaf, Expr) and leaf.op == "sym" and leaf not in cared
                if plain and not saved(material, launch, name):
                    yield (
                        f"{name}[-1]",
                        self.finding(
                            subject,
                            f"the kernel reads `{name}` as if its last axis were contiguous; the "
                            "host makes other arrays of this launch contiguous, not this one",
                            "call `.contiguous()` on it too, check its stride, or pass its stride",
                            [launch.lines, lines],
                        ),
                    )


@lru_cache(maxsize=1)
def _powers_of_two(facts: Facts) -> frozenset[str]:
    """Extents of tiles; the same for all launches of a kernel."""
    return frozenset(powers_of_two(facts) - steps(facts))


def _cut(value: Value) -> Value:
    """The extent that is passed where it is less than a number: `min(4096, n)` is `n` for every
    small `n`."""
    if isinstance(value, Expr) and value.op == "min" and len(value.args) == 2:
        numbers = [one for one in value.args if isinstance(one, int)]
        others = [one for one in value.args if not isinstance(one, int)]
        return others[0] if numbers and len(others) == 1 else value
    return value


def _open(value: Value) -> bool:
    """A size as the caller gives it: an extent or a number of the host function, nothing computed
    from it."""
    return isinstance(value, Expr) and value.op in ("dim", "sym", "call")


def _given(material: Material, extent: Expr) -> bool:
    """Whether an extent is one of an argument of the entry function, perhaps seen through views.

    What a backward pass saved came through the checks of its forward pass.
    """
    tensor = extent.args[0]
    for _ in range(16):
        if isinstance(tensor, Expr) and tensor.op == "sym":
            return True
        fact = material.machine.tensors.get(tensor)
        tensor = (fact.base or fact.like) if fact is not None else None
    return False


def _divisors(material: Material) -> set[Value] | None:
    """What the grids of the launches divide by; None where the module checks powers of two."""
    if _checks_powers(material):
        return None
    return {
        part.args[1]
        for launch in material.launches
        for part in parts(launch.grid)
        if part.op in ("cdiv", "//")
    }


def _checks_powers(material: Material) -> bool:
    """Whether some entry of the module checks that an extent is a power of two: a backward pass
    relies on what the forward pass checked."""
    return any(
        part.op in ("ispow2", "npow2", "&")
        for events in material.events.values()
        for event in events
        if isinstance(event, CheckRecord)
        for part in parts(event.cond)
    )


def _stride_atoms(cond: Value) -> Iterator[Expr]:
    for part in parts(cond):
        if part.op in ("stride", "strides"):
            yield part
        if part.op == "attr" and part.args[0] is not None:
            yield part

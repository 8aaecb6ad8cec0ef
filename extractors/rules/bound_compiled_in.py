"""An extent that only bounds positions is a compile-time parameter."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.compiled_per_size import (
    ROLES,
    ends_work,
    innermost,
    needed,
    shares_work,
)
from kb.analysis.facts import Facts
from kb.analysis.parameters import parameters_of
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_ROWS = (
    POINTER
    + """
import torch
@triton.jit
def move(x, out, sx, n: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + row * sx + at, mask=at < n, other=0.0)
    tl.store(out + row * sx + at, v / n, mask=at < n)

def run(x):
    rows, n = x.shape
    out = torch.empty_like(x)
    move[(rows,)](x, out, x.stride(0), n, triton.next_power_of_2(n))
    return out
"""
)
_KEYS = (
    TILE
    + """
import torch
@ct.kernel
def total(x, out, KEYS: Int, T: Int):
    row = ct.bid(0)
    acc = ct.zeros((1, T), dtype=ct.float32)
    for j in range(ct.cdiv(KEYS, T)):
        acc = acc + ct.load(x, index=(row, j), shape=(1, T))
    ct.store(out, index=(row, 0), tile=acc)

def run(x):
    out = torch.empty((x.shape[0], 64))
    ct.launch(None, (x.shape[0], 1, 1), total, (x, out, x.shape[1], 64))
    return out
"""
)


_CHUNKS = (
    POINTER
    + """
import torch
@triton.jit
def states(x, h, t, NT: tl.constexpr, K: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, K)
    state = tl.zeros([K], dtype=tl.float32)
    for j in range(NT):
        tl.store(h + (i * NT + j) * K + at, state)
        state += tl.load(x + (i * t + j * 64) * K + at)

def run(x):
    b, t, k = x.shape
    h = torch.empty((b, triton.cdiv(t, 64), k))
    states[(b,)](x, h, t, triton.cdiv(t, 64), 64)
    return h
"""
)


class BoundCompiledIn(Rule):
    """A compile-time parameter is given an extent of an array, and the kernel only ends loops and
    masks with it, or computes with it: no tile, no index, no branch needs it. A number of tiles
    along a length, such as of chunks of a sequence, may scale indices, too."""

    name = "bound-compiled-in"
    matches = (
        Case(_ROWS, "`n`"),
        Case(_KEYS, "`KEYS`"),
        Case(
            vary(
                _KEYS,
                (
                    "        acc = acc + ct.load",
                    "        if j * T >= KEYS // T * T:\n            acc = acc * 0.5\n"
                    "        acc = acc + ct.load",
                ),
            ),
            "`KEYS`",
        ),
        Case(vary(_ROWS, ("rows, n = x.shape", "rows, n = x.shape[0], x.numel()")), "`n`"),
        Case(_CHUNKS, "`NT`"),
        Case(vary(_ROWS, ("rows, n = x.shape", "rows, n = x.shape[0], x.shape[1] // 2")), "`n`"),
        Case(
            vary(
                _ROWS,
                ("def run(x):", "def run(x, groups):"),
                ("rows, n = x.shape", "rows, n = x.shape[0], x.shape[1] // groups"),
            ),
            "`n`",
        ),
        Case(
            vary(
                _ROWS,
                ("row = tl.program_id(0)", "row = (tl.program_id(0) % tl.cdiv(n, T))"),
                ("v / n, mask=at < n", "v, mask=at < sx"),
                ("at < n, other", "at < sx, other"),
            ),
            "`n`",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_CHUNKS, ("triton.cdiv(t, 64)", "triton.cdiv(x.shape[2], 64)")),
            why="tiles of the last axis, a size of the model, which the compiler can use",
        ),
        NearMiss(vary(_ROWS, ("n: tl.constexpr", "n")), why="it is no compile-time parameter"),
        NearMiss(
            vary(_ROWS, ("out + row * sx", "out + row * n")),
            why="it is a stride, which the compiler can use",
        ),
        NearMiss(
            vary(_ROWS, ("tl.arange(0, T)", "tl.arange(0, n)")), why="it is the extent of a tile"
        ),
        NearMiss(
            vary(_ROWS, ("    at = tl", "    if n > 64:\n        tl.debug_barrier()\n    at = tl")),
            why="a branch is compiled by it",
        ),
        NearMiss(
            vary(_ROWS, ("x.stride(0), n,", "x.stride(0), 128,")), why="the host passes a constant"
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention_sink.py", "_attention_sink_kernel", 55),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        if material is None:
            return
        free = [
            fact.name
            for fact in parameters_of(facts)
            if fact.kind == "constexpr"
            and fact.role in ROLES
            and not facts.tile_extents & {fact.name}
            and _held_below(facts, fact.name)
            and not needed(facts, fact.name)
        ]
        for name in free:
            scales = _scales(facts, name)
            for launch in material.launches:
                value = dict(launch.args).get(name)
                sizes = leaves(value)
                if (
                    not sizes
                    or not all(map(_extent, sizes))
                    or (scales and not all(_tiles(material, one) for one in sizes))
                    or (ends_work(facts, name) and shares_work(material, launch, value))
                ):
                    continue
                yield self.finding(
                    subject,
                    f"`{name}` is a compile-time parameter that is given "
                    f"{material.names(launch).text(value)[:80]}: every value of it is compiled "
                    "anew, and the kernel only ends loops and masks with it, or computes with it",
                    f"make `{name}` a run-time parameter",
                    facts.declared(name),
                    Severity.NOTE,
                )
                break


def _extent(value: Value) -> bool:
    """An extent of an array, its number of elements, or what is computed from those."""
    if not isinstance(value, Expr):
        return False
    if value.op in ("//", "cdiv"):
        return _extent(value.args[0])  # whatever number it is shared out by
    if value.op in ("+", "-", "*"):
        sizes = [arg for arg in value.args if not isinstance(arg, int)]
        return bool(sizes) and all(map(_extent, sizes))
    asked = value.args[0] if value.op == "call" and len(value.args) == 1 else None
    counted = isinstance(asked, Expr) and asked.op == "attr" and asked.args[1] == "numel"
    return value.op == "dim" or counted


def _tiles(material: Material, value: Value) -> bool:
    """The number of tiles along an axis that is not the last one: it follows the length of what is
    worked on, not the model."""
    if not isinstance(value, Expr) or value.op != "cdiv" or not isinstance(value.args[1], int):
        return False
    length = value.args[0]
    counted = isinstance(length, Expr) and length.op == "dim" and length.args[1] != -1
    return counted and not innermost(material, length)


def _held_below(facts: Facts, name: str) -> bool:
    """Whether positions are compared with a parameter, or loops end at it or its tiles, or its
    tiles are counted."""
    asked = [
        value
        for node in facts.graph.of(OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
        for value in node.op.inputs[:2]
    ]
    ends = [loop.high for loop in facts.loops if loop.high is not None]
    tiles = [node.op.inputs[0] for node in facts.graph.of(OpKind.CEIL_DIV, OpKind.FLOOR_DIV)]
    return any(_is(facts, value, name) for value in tiles) or any(
        atom.value == name for value in (*asked, *ends) for atom in facts.values.expr(value).atoms()
    )


def _scales(facts: Facts, name: str) -> bool:
    """Whether a parameter multiplies a place in an array: a stride that is known to the compiler is
    worth having."""
    graph = facts.graph
    products = [
        node
        for node in graph.of(OpKind.MUL)
        if any(_is(facts, value, name) for value in node.op.inputs[:2])
    ]
    addresses = [
        value
        for access in facts.accesses
        for role, value in access.node.op.operands
        if role in ("pointer", "index")
    ]
    return any(graph.rests_on(value, node) for node in products for value in addresses)


def _is(facts: Facts, value: str, name: str) -> bool:
    atom = facts.values.expr(value).atom
    return atom is not None and atom.value == name

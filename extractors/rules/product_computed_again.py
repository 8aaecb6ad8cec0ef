"""Every block along an axis of the grid computes the same matrix product."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.events import LaunchRecord
from extractors.host.expr import atoms
from extractors.host.values import Expr, Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.settled_by_rounding import rounded_up
from kb.analysis.facts import Facts
from kb.analysis.graph import Node, NodeSet
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_POINTER = (
    POINTER
    + """
import torch
@triton.jit
def attend(q, k, v, out, n, d, T: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    rows = tl.program_id(1).to(tl.int64) * T + tl.arange(0, T)
    at, w = tl.arange(0, K), tl.program_id(0) * V + tl.arange(0, V)
    x = tl.load(q + rows[:, None] * K + at[None, :], mask=rows[:, None] < n, other=0.0)
    acc = tl.zeros((T, V), dtype=tl.float32)
    for j in range(0, n, T):
        cols = j + tl.arange(0, T)
        y = tl.load(k + cols[None, :] * K + at[:, None], mask=cols[None, :] < n, other=0.0)
        z = tl.load(v + cols[:, None] * d + w[None, :], mask=cols[:, None] < n, other=0.0)
        s = tl.dot(x, y)
        acc += tl.dot(s.to(z.dtype), z)
    tl.store(out + rows[:, None] * d + w[None, :], acc, mask=rows[:, None] < n)

def run(q, k, v):
    n, d = v.shape
    out = torch.empty_like(v)
    attend[(triton.cdiv(d, 64), triton.cdiv(n, 64))](q, k, v, out, n, d, 64, q.shape[1], 64)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def weigh(q, k, v, out, T: Int, K: Int, V: Int):
    i, j = ct.bid(0), ct.bid(1)
    x = ct.load(q, index=(j, 0), shape=(T, K))
    y = ct.load(k, index=(j, 0), shape=(T, K))
    s = ct.mma(x, ct.transpose(y), ct.full((T, T), 0.0, dtype=ct.float32))
    z = ct.load(v, index=(j, i), shape=(T, V))
    ct.store(out, index=(j, i), tile=ct.mma(s, z, ct.full((T, V), 0.0, dtype=ct.float32)))

def run(q, k, v):
    n, d = v.shape
    out = torch.empty_like(v)
    ct.launch(None, (ct.cdiv(d, 64), ct.cdiv(n, 64), 1), weigh, (q, k, v, out, 64, 64, 64))
    return out
"""
)


class ProductComputedAgain(Rule):
    """A matrix product is made of nothing that an axis of the grid moves, and what is stored is:
    every block along that axis computes the product anew."""

    name = "product-computed-again"
    matches = (Case(_POINTER, "axis 0"), Case(_TILES, "axis 0"))
    near_misses = (
        NearMiss(
            vary(_POINTER, ("tl.dot(x, y)", "tl.dot(x, y) * tl.program_id(0)"),
                 ("q + rows[:, None] * K", "q + tl.program_id(0) * n * K + rows[:, None] * K")),
            why="the queries are other ones for each block",
        ),
        NearMiss(
            vary(_POINTER, ("(triton.cdiv(d, 64), tri", "(1, tri")), why="the axis has one block"
        ),
        NearMiss(
            vary(_POINTER, ("(triton.cdiv(d, 64), tri",
                            "(triton.cdiv(d, triton.next_power_of_2(d)), tri")),
            why="the axis has one block, as its tile is rounded up",
        ),
        NearMiss(
            vary(_TILES, ("x = ct.load(q, index=(j, 0)", "x = ct.load(q, index=(j, i)")),
            why="the axis cuts what is summed over",
        ),
    )  # fmt: skip
    seen = (Seen("flag-gems", "flag_gems/fused/FLA/chunk_o.py", "chunk_fwd_kernel_o", 60),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        sites = material.sites() if material is not None else []
        if not sites or len(facts.contractions) < 2:
            return
        for axis in range(3):
            again = list(_again(facts, axis)) if _several(sites, axis) else []
            if again:
                yield self.finding(
                    subject,
                    f"a matrix product does not depend on axis {axis} of the grid, along which "
                    "what is stored is cut: each block along it computes the product again",
                    "let one block take more of that axis, or compute the product once in a "
                    "kernel of its own",
                    [*again, *_asked(facts, axis)],
                    Severity.NOTE,
                )


def _asked(facts: Facts, axis: int) -> list[Node]:
    """Where the kernel asks which block it is along an axis."""
    blocks = facts.graph.of(OpKind.BLOCK_ID)
    return [node for node in blocks if (facts.number(node.op.operand("axis") or "") or 0) == axis]


def _again(facts: Facts, axis: int) -> Iterator[Node]:
    """Products that rest on no block index of an axis, and that the product of one that does goes
    on from to what is stored at places of that axis."""
    graph = facts.graph
    blocks = graph.node_set(_asked(facts, axis))
    moved = [
        store
        for store in facts.stores
        if any(graph.rests_on_any(value, blocks) for value in store.address)
    ]
    others = [node for node in facts.contractions if graph.rests_on_any(node.result, blocks)]
    for node in facts.contractions if moved else ():
        if graph.rests_on_any(node.result, blocks) or _decided(facts, node, blocks):
            continue
        meets = any(graph.rests_on(v, node) for other in others for v in other.op.inputs)
        if meets and any(graph.rests_on(store.value, node) for store in moved):
            yield node


def _decided(facts: Facts, node: Node, blocks: NodeSet) -> bool:
    """Whether an axis of the grid decides about a branch or a loop around a product."""
    return any(
        facts.graph.rests_on_any(value, blocks)
        for place in node.around()
        for value in place.op.inputs
    )


def _several(sites: list[LaunchRecord], axis: int) -> bool:
    """Whether an axis of a grid has blocks by the size of the problem."""
    for site in sites:
        grid = site.grid if isinstance(site.grid, tuple) else (site.grid,)
        if axis < len(grid) and _of_problem(grid[axis]):
            return True
    return False


def _of_problem(value: Value) -> bool:
    if isinstance(value, Expr) and value.op == "cdiv" and rounded_up(value.args[0], value.args[1]):
        return False  # one block, whatever the size is
    return isinstance(value, Expr) and any(atom.op in ("dim", "sym") for atom in atoms(value))

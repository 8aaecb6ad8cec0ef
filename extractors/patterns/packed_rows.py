"""Arrays that must be compact: the kernel computes their strides from the sizes of their axes."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.strides import (
    blocks_of_pointers,
    free_strides,
    row_strides,
    strides_and_sizes,
)
from kb.evidence import Decision
from kb.ops import OpKind

_HEADS = (
    POINTER
    + """
@triton.jit
def copy(x, out, L, H: tl.constexpr, D: tl.constexpr, T: tl.constexpr):
    head = tl.program_id(0)
    row = tl.program_id(1)
    at = tl.arange(0, T)
    x += row * H * D + head * D
    out += row * H * D + head * D
    tl.store(out + at, tl.load(x + at, mask=at < D), mask=at < D)
"""
)
_BLOCKS = (
    POINTER
    + """
@triton.jit
def move(x, out, L, H, D: tl.constexpr, T: tl.constexpr):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    at = tl.make_block_ptr(x + head * D, (L, D), (H * D, 1), (tile * T, 0), (T, T), (1, 0))
    to = tl.make_block_ptr(out + head * D, (L, D), (H * D, 1), (tile * T, 0), (T, T), (1, 0))
    tl.store(to, tl.load(at, boundary_check=(0, 1)), boundary_check=(0, 1))
"""
)


class PackedRows(Pattern):
    """The stride of an outer axis is the product of two or more sizes; no stride is handed in."""

    name = "compact-strides-computed-from-the-sizes"
    axis = "layout_contract"
    source = "PyTorch documentation, tensor views: contiguous tensors and their strides"
    matches = (
        Case(_HEADS, "compact strides computed from the sizes"),
        Case(_BLOCKS, "compact strides computed from the sizes"),
    )
    near_misses = (
        NearMiss(
            vary(_HEADS, ("L, H", "L, far, H"), ("row * H * D", "row * far")),
            why="the distance of rows is handed in",
        ),
        NearMiss(
            vary(_HEADS, ("row * H * D", "row * D")), why="rows of one axis lie one after the other"
        ),
        NearMiss(
            vary(_BLOCKS, ("L, H, D", "L, far, H, D"), ("(H * D, 1)", "(far, 1)")),
            why="the distance of rows is handed in",
        ),
        NearMiss(PRODUCT_POINTER, why="strides are handed in"),
        NearMiss(ADD_POINTER, why="a flat array has no strides"),
        NearMiss(PRODUCT, why="views know their strides"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        _, sizes = strides_and_sizes(facts)
        if len(sizes) < 2 or row_strides(facts) or free_strides(facts):
            return
        where = [*_placed(facts, sizes), *_blocks(facts, sizes)]
        if where:
            yield self.decide(facts, "compact strides computed from the sizes", where)


def _placed(facts: Facts, sizes: set[str]) -> list[Node]:
    """Sums on the way to an address in which a position is multiplied with several sizes."""
    addresses = [v for access in facts.accesses for v in access.address]
    return [
        node
        for node in facts.graph.of(OpKind.ADD)
        if any(1 < count < length for count, length in _counts(facts, node.result, sizes))
        and any(facts.graph.rests_on(v, node) for v in addresses)
    ]


def _blocks(facts: Facts, sizes: set[str]) -> list[Node]:
    """Blocks of pointers with a stride that is a product of sizes."""
    return [
        node
        for node in blocks_of_pointers(facts)
        for value in facts.values.items(node.op.operand("strides"))
        if any(count > 1 for count, _ in _counts(facts, value, sizes))
    ]


def _counts(facts: Facts, value: str, sizes: set[str]) -> list[tuple[int, int]]:
    """For each product in a value: how many of its factors are sizes, and how many there are."""
    terms = facts.values.expr(value).terms
    return [(sum(a.value in sizes for a in factors), len(factors)) for factors, _ in terms]

"""What a kernel holds at least, as a function of its compile-time parameters: operands in flight,
accumulators, extents that must be powers of two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from kb.analysis.assumptions import powers_of_two
from kb.analysis.facts import Facts
from kb.analysis.loops import Role
from kb.errors import TileloreError
from kb.ops import OpKind
from kb.planner.expressions import evaluate, parse

ELEMENT_BYTES = 1
"""Of an operand whose element type only the launch knows: no product takes less."""

_BYTES = {"f64": 8, "i64": 8, "f32": 4, "tf32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2,
          "f8e4m3": 1, "f8e5m2": 1, "i8": 1, "u8": 1}  # fmt: skip


_COMPUTES = (OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.EXP, OpKind.EXP2, OpKind.SELECT,
             OpKind.CAST)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Footprint:
    """Tiles by their extents as text: `streams` are operands of one product, loaded in its loop;
    `accumulators` are carried sums of products, `tiles` are what is computed in floats of 32 bits.
    `powers` are extents by parameter name."""

    streams: tuple[tuple[tuple[tuple[str, ...], int], ...], ...]
    accumulators: tuple[tuple[str, ...], ...]
    powers: tuple[str, ...]
    element_bytes: int = ELEMENT_BYTES
    tiles: tuple[tuple[str, ...], ...] = ()

    def shared_bytes(self, row: Mapping[str, object], stages: int | None) -> int | None:
        """Bytes of the operands in flight: one buffer less than stages, as on targets that copy
        asynchronously into shared memory. Operands of unknown extent are left out; None when no
        extent is known."""
        if not self.streams or stages is None or stages < 2:
            return None
        found = [
            sum((_elements(shape, row) or 0) * width for shape, width in operands)
            for operands in self.streams
        ]
        return max(found) * (stages - 1) or None

    def accumulator_words(self, row: Mapping[str, object]) -> int | None:
        """32-bit words of the accumulators of one loop; None when an extent is not known."""
        sizes = [_elements(shape, row) for shape in self.accumulators]
        known = [size for size in sizes if size is not None]
        return max(known) if known else None

    def tile_words(self, row: Mapping[str, object]) -> int | None:
        """32-bit words of the largest tile; None when no extent is known."""
        sizes = [_elements(shape, row) for shape in self.tiles]
        known = [size for size in sizes if size is not None]
        return max(known) if known else None


def footprint(facts: Facts) -> Footprint:
    """What the matrix products of a kernel hold."""
    streams = []
    for product in facts.contractions:
        loads = [
            (facts.types.shape(product.op.operand(role)), access)
            for role in ("lhs", "rhs")
            for access in facts.held_loads(product.op.operand(role))
        ]
        inside = [
            (shape, _BYTES.get(facts.types.dtype(access.value), ELEMENT_BYTES))
            for shape, access in loads
            if product.loop is not None and access.node.loop is product.loop and len(shape) >= 2
        ]
        if len(inside) == 2:
            streams.append(tuple(inside))
    carried = [c for loop in facts.loops for c in loop.of(Role.ACCUMULATOR)]
    shapes = [facts.types.shape(c.argument) for c in carried]
    wide = [
        shape
        for shape, c in zip(shapes, carried, strict=True)
        if len(shape) >= 2 and facts.types.dtype(c.argument) == "f32"
    ]
    computed = {
        facts.types.shape(node.result)
        for node in facts.graph.of(*_COMPUTES)
        if facts.types.dtype(node.result) == "f32"
    }
    return Footprint(
        tuple(streams), tuple(wide), tuple(sorted(powers_of_two(facts))),
        tiles=tuple(sorted(shape for shape in computed if shape)),
    )  # fmt: skip


def _elements(shape: tuple[str, ...], row: Mapping[str, object]) -> int | None:
    """Number of elements of a tile, None when an extent is not known."""
    sizes = []
    for extent in shape:
        try:
            size = evaluate(parse(extent), dict(row))  # type: ignore[arg-type]
        except TileloreError:
            return None
        if not isinstance(size, int) or isinstance(size, bool):
            return None
        sizes.append(size)
    return prod(sizes)

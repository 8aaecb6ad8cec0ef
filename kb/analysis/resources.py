"""What the tiles of a kernel take of a multiprocessor: registers and shared memory, as
constraints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kb.analysis.facts import Facts
from kb.analysis.graph import Lines
from kb.analysis.loops import Role
from kb.dialects.registry import staged_launch
from kb.space import Constraint, implied


def resources(facts: Facts) -> Iterator[Constraint]:
    """What must fit; nothing where the extents of a tile are not compile-time parameters."""
    if facts.of_threads:
        return  # threads say themselves what they keep where
    yield from _accumulators(facts)
    yield from _operands(facts)
    yield from _rows(facts)


def _accumulators(facts: Facts) -> Iterator[Constraint]:
    """Sums of matrix products that are carried around a loop, 32 bits each."""
    for loop in facts.loops:
        carried = loop.of(Role.ACCUMULATOR)
        tiles = [_elements(facts, one.argument) for one in carried]
        if tiles and all(tiles):
            yield implied(
                f'target.arch == "sm_100" or {_sum(tiles)} <= target.registers_per_block',
                "accumulators of 32 bits are carried around the loop in registers; Blackwell has "
                "tensor memory for them",
                "take a smaller tile, or more warps and fewer blocks per multiprocessor",
                loop.node.lines,
            )
            return


def _operands(facts: Facts) -> Iterator[Constraint]:
    """Operand tiles of the products of a loop stand in shared memory, once per stage."""
    staged: dict[str, str] = {}
    lines: Lines | None = None
    for product in facts.contractions:
        if product.loop is None:
            continue
        for role in ("lhs", "rhs"):
            for access in facts.held_loads(product.op.operand(role)):
                tile = _elements(facts, access.value)
                if access.loop is product.loop and access.array and tile:
                    staged.setdefault(access.array, tile)
                    lines = lines or product.lines
    if staged:
        stages = "num_stages * " if staged_launch(facts.kernel.dialect) else ""
        yield implied(
            f"element_bytes * {stages}({_sum(staged.values())}) <= target.shared_bytes_per_block",
            f"tiles of {', '.join(staged)} are loaded in the loop for a matrix product and wait in "
            "shared memory",
            "take fewer stages or smaller tiles",
            lines,
        )


def _rows(facts: Facts) -> Iterator[Constraint]:
    """A row that is reduced in one tile is held in registers."""
    if facts.contractions:
        return
    for access in facts.loads:
        shape = [one for one in facts.types.shape(access.value) if one != "1"]
        held = access.loop is None or not any(r.inside(access.loop) for r in facts.reductions)
        reduced = any(facts.graph.rests_on(n.op.inputs[0], access.node) for n in facts.reductions)
        if reduced and held and shape and all(one in facts.constexprs for one in shape):
            yield implied(
                f"{' * '.join(shape)} <= target.registers_per_block",
                "the tile is reduced whole and kept in registers of 32 bits",
                "go through long rows in chunks",
                access.node.lines,
            )
            return


def _elements(facts: Facts, value: str) -> str:
    """Elements of a tile as a product; empty when an extent is no compile-time parameter."""
    shape = [one for one in facts.types.shape(value) if one != "1"]
    known = shape and all(one.isdigit() or one in facts.constexprs for one in shape)
    return " * ".join(shape) if known and not all(one.isdigit() for one in shape) else ""


def _sum(tiles: Iterable[str]) -> str:
    return " + ".join(tiles)

"""What a kernel takes for granted: constraints that follow from its program, in the grammar of
expressions."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import BULK, Access, Mode
from kb.analysis.agreement import agreements
from kb.analysis.alignment import aligned_arrays, vector_ends, whole_vectors
from kb.analysis.contents import contents
from kb.analysis.contracts import contracts
from kb.analysis.covered_parts import covered_parts
from kb.analysis.devices import devices
from kb.analysis.facts import Facts
from kb.analysis.few_numbers import divides_by_loaded, few_numbers
from kb.analysis.fixed_arrays import enough_threads, fixed_arrays
from kb.analysis.fixed_block import fixed_block
from kb.analysis.flags import unless
from kb.analysis.graph import Node
from kb.analysis.idioms import between_lanes, masks
from kb.analysis.latencies import latencies
from kb.analysis.layouts import warps_of_layouts
from kb.analysis.loaded_places import loaded_places
from kb.analysis.numbered_tiles import numbered_tiles
from kb.analysis.one_or_all import one_or_all
from kb.analysis.own_memory import own_memory
from kb.analysis.parameters import tile_extents
from kb.analysis.resources import resources
from kb.analysis.same_types import same_types
from kb.analysis.symbolic import AtomKind
from kb.analysis.waiting import waiting
from kb.analysis.whole_parts import (
    asserted,
    divided_by,
    shared_heads,
    sizes_of_arrays,
)
from kb.analysis.whole_quotients import quotients
from kb.dialects.registry import contracted_bytes
from kb.evidence import Lines
from kb.ir import ParameterKind
from kb.ops import OpKind
from kb.planner.evaluation import DTYPE_BYTES
from kb.space import Constraint, implied


def constraints_of(facts: Facts) -> tuple[Constraint, ...]:
    """Implied constraints, each expression once, in the order of the rules."""
    found: dict[str, Constraint] = {}
    for rule in (
        _powers,
        _contracted,
        _whole_axis,
        _whole_row,
        _whole_lanes,
        latencies,
        _groups,
        _positive_scale,
        _aligned,
        _padded,
        _vectors,
        _vector_ends,
        waiting,
        fixed_block,
        fixed_arrays,
        enough_threads,
        contracts,
        agreements,
        contents,
        loaded_places,
        one_or_all,
        warps_of_layouts,
        own_memory,
        asserted,
        quotients,
        shared_heads,
        divided_by,
        divides_by_loaded,
        covered_parts,
        numbered_tiles,
        few_numbers,
        same_types,
        sizes_of_arrays,
        resources,
        devices,
    ):
        for constraint in rule(facts):
            found.setdefault(constraint.expression, constraint)
    return tuple(found.values())


def _first(facts: Facts, name: str) -> Lines | None:
    """Where a tile of that extent is first made."""
    for node in facts.graph.nodes:
        for role, value in node.op.operands:
            if role in ("shape", "size", "block_shape"):
                items = facts.values.items(value)
                if any(a.value == name for i in items for a in facts.values.expr(i).top()):
                    return node.lines
    return None


def _ordered(facts: Facts) -> list[str]:
    tiles = tile_extents(facts)
    return [p.name for p in facts.kernel.entry.parameters if p.name in tiles]


def _powers(facts: Facts) -> Iterator[Constraint]:
    """Extents of tiles, those of operands of matrix products among them."""
    products = _operand_extents(facts)
    if facts.of_threads:
        return  # what one thread holds may have any extent
    for name in dict.fromkeys((*_ordered(facts), *products)):
        yield implied(
            f"is_power_of_two({name})",
            f"{name} is the extent of a tile, and extents of tiles are powers of two",
            "round it up and mask or pad the rest",
            _first(facts, name) or products.get(name),
        )


def _contracted(facts: Facts) -> Iterator[Constraint]:
    """Compile-time extents along which a product contracts, where the dialect has a minimum."""
    least = contracted_bytes(facts.kernel.dialect)
    for product in facts.contractions if least else ():
        left, right = product.op.operand("lhs"), product.op.operand("rhs")
        ends = (facts.types.shape(left)[-1:], facts.types.shape(right)[-2:-1])
        sizes = [DTYPE_BYTES[d] for d in map(facts.types.dtype, (left, right)) if d in DTYPE_BYTES]
        count = int(least / sizes[0]) if sizes else 0
        for name in sorted({one for end in ends for one in end} & facts.constexprs):
            yield implied(
                f"{name} >= {count}" if count else f"element_bytes * {name} >= {least}",
                f"the matrix product contracts over {name}, and needs {least} bytes along it",
                "raise it",
                product.lines,
            )


def _operand_extents(facts: Facts) -> dict[str, Lines]:
    """Compile-time extents of operands of matrix products, with the lines of the product."""
    found: dict[str, Lines] = {}
    for product in facts.contractions:
        for role in ("lhs", "rhs"):
            for extent in facts.types.shape(product.op.operand(role))[-2:]:
                if extent in facts.constexprs:
                    found.setdefault(extent, product.lines)
    return found


def _whole_axis(facts: Facts) -> Iterator[Constraint]:
    """A tile that is only ever loaded at index 0 of an axis covers that axis: told of the first
    array."""
    found: dict[str, list[tuple[str, int, Lines]]] = {}
    for access in facts.accesses:
        shape = access.shape or facts.types.shape(access.value)
        if access.mode is not Mode.TILE or len(shape) != len(access.index) or access.array is None:
            continue
        for axis, (extent, index) in enumerate(zip(shape, access.index, strict=True)):
            if (
                index.constant == 0
                and extent in facts.constexprs
                and not _walked(facts, access, axis)
            ):
                found.setdefault(extent, []).append((access.array, axis, access.node.lines))
    relation = "==" if facts.contractions else ">="
    for extent, places in found.items():
        array, axis, lines = places[0]
        others = dict.fromkeys(f"{a} (axis {n})" for a, n, _ in places if a != array)
        also = f"; so are {', '.join(others)}" if others else ""
        yield implied(
            f"{extent} {relation} {array}.shape[{axis}]",
            f"axis {axis} of {array} is read or written as one tile{also}",
            "pass the extent itself, or its next power of two with padding",
            lines,
        )


def _walked(facts: Facts, access: Access, axis: int) -> bool:
    """True when another access moves along the same axis of the same array."""
    return any(
        a.array == access.array and len(a.index) > axis and a.index[axis].constant is None
        for a in facts.accesses
    )


def _whole_row(facts: Facts) -> Iterator[Constraint]:
    """Lanes that never move cover the row they are compared with, or that bounds are elided for."""
    for node in facts.graph.of(OpKind.LT, OpKind.NE, OpKind.EQ):
        left, right = (facts.values.expr(v) for v in node.op.inputs[:2])
        lane, extent = left.atom, right.atom
        if lane is None or extent is None or extent.kind is not AtomKind.PARAMETER:
            continue
        if node.op.kind == OpKind.LT and lane.kind is AtomKind.LANE:
            size = str(lane.args[0])
            if size in facts.constexprs and size != extent.text and facts.reductions:
                without = "".join(f"{one} or " for one in unless(facts, node))
                yield implied(
                    f"{without}{size} >= {extent.text}",
                    "the row is reduced in one tile",
                    "use the next power of two of the row length",
                    node.lines,
                )


def _whole_lanes(facts: Facts) -> Iterator[Constraint]:
    """Lanes that never move cover the axis that they pick elements of, where they are reduced."""
    for access in facts.loads:
        reduced = any(facts.graph.rests_on(n.op.inputs[0], access.node) for n in facts.reductions)
        if access.mode is not Mode.ELEMENT or access.array is None or not reduced:
            continue
        for axis, index in enumerate(access.index):
            lane = index.atom
            size = str(lane.args[0]) if lane is not None and lane.kind is AtomKind.LANE else ""
            if size in facts.constexprs and not _other_places(facts, access, axis):
                yield implied(
                    f"{size} >= {access.array}.shape[{axis}]",
                    f"axis {axis} of {access.array} is reduced in one tile",
                    "use the next power of two of the extent, or go through the axis in chunks",
                    access.node.lines,
                )


def _other_places(facts: Facts, access: Access, axis: int) -> bool:
    """True when another access picks other elements of the same axis."""
    return any(
        one.array == access.array
        and (len(one.index) <= axis or one.index[axis] != access.index[axis])
        for one in facts.accesses
    )


def _groups(facts: Facts) -> Iterator[Constraint]:
    """heads % group == 0 when a head index is divided by a group size."""
    if not facts.contractions:
        return
    for node in facts.graph.of(OpKind.FLOOR_DIV):
        left, right = (facts.values.expr(v) for v in node.op.inputs[:2])
        head, group = left.atom, right.atom
        if (
            head is None
            or group is None
            or head.kind is not AtomKind.MOD
            or group.kind is not AtomKind.PARAMETER
        ):
            continue
        heads = head.args[1].atom
        if heads is not None and heads.kind is AtomKind.PARAMETER:
            yield implied(
                f"{heads.text} % {group.text} == 0",
                "query heads are divided into whole groups",
                "pass a group size that divides the number of heads",
                node.lines,
            )


def _positive_scale(facts: Facts) -> Iterator[Constraint]:
    """max(s) * c == max(s * c), and a masked s * c falls below all others, only for c > 0."""
    if not facts.score_products:
        return
    for maximum in facts.graph.of(OpKind.REDUCE_MAX):
        yield from _scaled(
            facts, maximum,
            "the scale follows the row maximum; a negative factor makes it a minimum",
            "scale the scores before the maximum when the factor may be negative",
        )  # fmt: skip
    for mask in masks(facts):
        below = facts.graph.resting(mask.node.result)
        if mask.fill < 0 and any(below >> p.index & 1 for p in facts.score_products):
            yield from _scaled(
                facts, mask.node,
                "the scale follows the mask; a negative factor lifts masked scores over the others",
                "scale the scores before they are masked when the factor may be negative",
            )  # fmt: skip


def _scaled(facts: Facts, node: Node, reason: str, fix: str) -> Iterator[Constraint]:
    """Scalars that a value is multiplied by, which must not be negative."""
    for user in facts.graph.users(node.result):
        if user.op.kind == OpKind.MUL:
            other = next((v for v in user.op.inputs[:2] if v != node.result), None)
            single = other is not None and not facts.types.shape(other)
            for name in _scalars(facts, other) if single else ():
                yield implied(f"{name} > 0", reason, fix, user.lines)


def _scalars(facts: Facts, value: str | None) -> list[str]:
    if value is None:
        return []
    pending, seen = [value], {value}
    for current in pending:
        for feed in facts.graph.feeds(current):
            if feed not in seen:
                seen.add(feed)
                pending.append(feed)
    names = {p.name for p in facts.kernel.entry.parameters if p.kind is not ParameterKind.ARRAY}
    return sorted(seen & names)


def _aligned(facts: Facts) -> Iterator[Constraint]:
    """An offset added to query positions of a causal mask must leave every row a key."""
    scalars = {p.name for p in facts.kernel.entry.parameters if p.kind is ParameterKind.SCALAR}
    for mask in masks(facts):
        for test in mask.comparisons:
            if not between_lanes(facts, test):
                continue
            for value in test.op.inputs[:2]:
                for factors, number in facts.values.expr(value).terms:
                    if len(factors) == 1 and number == 1 and factors[0].value in scalars:
                        yield implied(
                            f"{factors[0].value} >= 0",
                            "it shifts query positions; below zero the first rows see no key",
                            "pass key length minus query length, and check that it is not negative",
                            test.lines,
                        )


def _padded(facts: Facts) -> Iterator[Constraint]:
    """A flat buffer written tile by tile without a mask holds a whole number of tiles per row."""
    for access in facts.accesses:
        if access.mode in BULK or access.mask is not None or len(access.index) != 1:
            continue
        index = access.index[0]
        tiles = [
            f
            for f, _ in index.terms
            if len(f) == 2 and any(a.value in tile_extents(facts) for a in f)
        ]
        for factors in tiles:
            tile = next(a for a in factors if a.value in tile_extents(facts))
            for extent in _rows(facts, access.node, index.terms, tile.value):
                yield implied(
                    f"{extent} % {tile.value} == 0",
                    "tiles of a flat buffer would otherwise run into the next row",
                    "pad the buffer on the host",
                    access.node.lines,
                )


def _vectors(facts: Facts) -> Iterator[Constraint]:
    """Rows that are read in vectors begin at whole vectors."""
    for found in whole_vectors(facts):
        yield implied(
            f"{found.size} % {found.elements} == 0",
            f"{found.elements} elements move at once, and an address is a multiple of their size",
            "check the size on the host, and take another kernel for the rest",
            found.lines,
        )


def _vector_ends(facts: Facts) -> Iterator[Constraint]:
    """A size that only the first element of a vector is compared with is whole vectors; arrays that
    are read so begin at a multiple of their size."""
    for found in vector_ends(facts):
        yield implied(
            f"{found.size} % {found.elements} == 0",
            f"{found.elements} elements move at once, and only the place of the first is compared",
            "check the size on the host, or take the rest one by one",
            found.lines,
        )
    arrays = aligned_arrays(facts)
    if arrays:
        yield implied(
            " and ".join(
                f"{name}.address % {f'({size})' if '*' in size else size} == 0"
                for name, (size, _) in arrays.items()
            ),
            "vectors are read or written there, and an address is a multiple of their size",
            "check it where a part of an array may be passed",
            min(lines for _, lines in arrays.values()),
        )


def _rows(facts: Facts, node: Node, terms: object, tile: str) -> list[str]:
    """Compile-time extents that scale outer axes of the index."""
    found: list[str] = []
    if not isinstance(terms, tuple):
        return found
    shared: set[str] | None = None
    for factors, _ in terms:
        names = {
            a.value for a in factors if a.kind is AtomKind.PARAMETER and a.value in facts.constexprs
        }
        outer = len(factors) > 1 and tile not in {a.value for a in factors}
        if outer:
            shared = names if shared is None else shared & names
    return sorted(shared or ())

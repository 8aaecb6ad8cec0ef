"""How many bits an integer is computed in: 32 unless something made it 64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, VIEWS, Node
from kb.analysis.record_fields import field_of
from kb.analysis.symbolic import Atom, AtomKind, Expr, of
from kb.ir import Parameter, ParameterKind
from kb.ops import OpKind

_ARITHMETIC = VIEWS | {
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.FLOOR_DIV, OpKind.MOD, OpKind.MINIMUM,
    OpKind.MAXIMUM, OpKind.SELECT, OpKind.NEG, OpKind.CEIL_DIV, OpKind.SHIFT_LEFT, OpKind.POS,
    OpKind.TRANSPOSE, OpKind.PERMUTE,
}  # fmt: skip
_INDEX = frozenset({
    OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.ARANGE, OpKind.NUM_TILES, OpKind.THREAD_ID,
    OpKind.BLOCK_THREADS, OpKind.LANE_ID,
})  # fmt: skip
_WIDE = frozenset({"i64", "u64"})
_SHORT = frozenset({"i1", "i8", "u8", "i16", "u16", "i32", "u32"})
_SUMS = COPIES | VIEWS | {OpKind.ADD, OpKind.SUB, OpKind.ADVANCE}
WIDEST_VECTOR = 16
"""Elements of the widest access of one thread: 16 bytes of one byte each (CUDA C++ Programming
Guide, device memory accesses)."""

MAX_DEPTH = 150
"""Operations that one offset is followed through; past that its width is not known."""


@dataclass(eq=False)
class Widths:
    """Answers `width(value)` for one kernel: 32, 64, or None when it is not known."""

    facts: Facts
    _known: dict[str, int | None] = field(default_factory=dict)
    _depth: int = 0

    def width(self, value: str) -> int | None:
        """Bits that a value is computed in; a compile-time number takes those of its partner."""
        if value not in self._known:
            self._known[value] = 32
            self._depth += 1
            found = self._compute(value) if self._depth < MAX_DEPTH else None
            self._depth -= 1
            self._known[value] = found
        return self._known[value]

    def _compute(self, value: str) -> int | None:
        facts = self.facts
        if facts.values.literal(value) is not None:
            return 32
        node = facts.graph.producer(value)
        if node is None:
            return self._named(value)
        kind = node.op.kind
        if kind in _INDEX:
            return 32
        if kind == OpKind.CAST:
            dtype = facts.types.dtype(value)
            return 64 if dtype in _WIDE else 32 if dtype in _SHORT else None
        if kind == OpKind.SELECT:
            return self._joined((node.op.operand("x") or "", node.op.operand("y") or ""))
        if kind in (OpKind.UNPACK, OpKind.SHAPE, OpKind.SUBSCRIPT) and self._extent(value):
            return 32
        if kind == OpKind.ATTRIBUTE and field_of(facts.graph, value) is not None:
            dtype = facts.types.dtype(value)
            return 64 if dtype in _WIDE else 32 if dtype in _SHORT else None
        if kind in _ARITHMETIC:
            count = 1 if kind in VIEWS else 2
            return self._joined(node.op.inputs[:count])
        return self._joined(facts.graph.feeds(value)) if node.op.regions else None

    def _extent(self, value: str) -> bool:
        atom = self.facts.values.expr(value).atom
        return atom is not None and atom.kind is AtomKind.EXTENT

    def _named(self, value: str) -> int | None:
        for parameter in self.facts.graph.function.parameters:
            if parameter.name == value:
                return _declared(parameter)
        held = self.facts.graph.arguments.get(value)
        if held is None:
            return None
        if held[0].op.kind == OpKind.FOR and held[2] == 0:
            bounds = self.facts.loop(held[0])
            given = [b for b in (bounds.low, bounds.high) if b is not None] if bounds else []
            return self._joined(tuple(given)) if given else None
        return self._joined(self.facts.graph.feeds(value))

    def _joined(self, values: tuple[str, ...]) -> int | None:
        found = [self.width(value) for value in values]
        if 64 in found:
            return 64
        return None if None in found or not found else 32


def _declared(parameter: Parameter) -> int | None:
    if parameter.kind is ParameterKind.ARRAY:
        return None
    return 64 if "64" in parameter.annotation else 32


def short_products(
    facts: Facts, widths: Widths, access: Access, sizes: frozenset[str] = frozenset()
) -> Iterator[Node]:
    """Products in the offset of an access that are computed in 32 bits although they grow with the
    grid and with a size that the host passes. `sizes` are compile-time parameters that hold extents
    or strides of the array."""
    yield from _short(facts, widths, access, partial(_grows, sizes=sizes))


def short_counts(facts: Facts, widths: Widths, access: Access) -> Iterator[Node]:
    """Products of a block index with the size of a tile in the offset of an access, in 32 bits:
    they count the elements of an array that is gone through as one row."""
    yield from _short(facts, widths, access, _of_tile)


def _of_tile(facts: Facts, product: Node, moved: bool) -> bool:
    """A product of a block index and numbers that are known before the launch."""
    left, right = (facts.values.expr(v) for v in product.op.inputs[:2])
    return any(
        _blocks(facts, one) and facts.values.compile_time(by)
        for one, by in ((left, right), (right, left))
    )


def _blocks(facts: Facts, expr: Expr) -> bool:
    """Whether a number is a block index, perhaps times numbers that are known before the launch."""
    factors = expr.terms[0][0] if len(expr.terms) == 1 else ()
    others = [atom for atom in factors if atom.kind is not AtomKind.BLOCK]
    return len(factors) - len(others) == 1 and all(
        facts.values.compile_time(of(one)) for one in others
    )


def _short(
    facts: Facts, widths: Widths, access: Access, asked: Callable[[Facts, Node, bool], bool]
) -> Iterator[Node]:
    """Products in the offset of an access that are computed in 32 bits and that are asked for."""
    if any(len(f) > 1 and access.array in {a.value for a in f} for e in access.index
           for f, _ in e.terms):  # fmt: skip
        return  # what looks like the array is a factor: the base of the offset is not known
    address = access.node.op.operand("pointer") or access.node.op.operand("index") or ""
    starts = facts.values.items(address)
    pending, seen = [(value, _one_axis(facts, access)) for value in starts], set(starts)
    found: list[Node] = []
    for value, moved in pending:
        node = facts.graph.producer(value)
        if node is None or len(seen) > 400:
            continue
        if widths.width(value) == 64:
            return  # the outer part of the offset was widened, the rest stays within it
        if node.op.kind == OpKind.MUL:
            if widths.width(node.result) == 32 and asked(facts, node, moved):
                found.append(node)
        elif node.op.kind in _SUMS:
            for feed in node.op.inputs:
                if feed not in seen:
                    seen.add(feed)
                    pending.append((feed, moved or _moves(facts, feed, value)))
    yield from found


def _one_axis(facts: Facts, access: Access) -> bool:
    """Whether the lanes of an access lie along one axis and one axis of the grid moves them: what
    is multiplied are rows, of each of which there is one element."""
    blocks = {one for expr in access.index for one in expr.atoms() if one.kind is AtomKind.BLOCK}
    steps = any(
        one.kind is AtomKind.INDUCTION and len(factors) > 1
        for expr in access.index
        for factors, _ in expr.terms
        for one in factors
    )  # a loop goes along the row: of a table of scales, which is far smaller than what it scales
    return (
        not facts.of_threads
        and not steps
        and len(facts.types.shape(access.value)) == 1 == len(blocks)
    )


def _places(expr: Expr) -> set[str]:
    """The axes that the lanes of an expression lie along, counted from the last."""
    return {atom.value for atom in expr.atoms() if atom.kind is AtomKind.LANE}


def along(expr: Expr) -> set[str]:
    """The axes of the lanes of an expression that are not divided."""
    found: set[str] = set()
    for atom in expr.top():
        if atom.kind is AtomKind.LANE:
            found.add(atom.value)
        elif atom.kind is not AtomKind.FLOOR_DIV:
            found.update(*map(along, atom.args))
    return found


def _moves(facts: Facts, value: str, view: str) -> bool:
    """Whether a view puts the lanes of the last axis along another one."""
    return _places(facts.values.expr(value)) == {"-1"} and "-1" not in _places(
        facts.values.expr(view)
    )


def _grows(facts: Facts, product: Node, moved: bool, *, sizes: frozenset[str]) -> bool:
    """One side counts blocks, the other is a size or stride that is known at the launch only.

    Lanes of the last axis alone are columns: their offset is less than a row; what they are divided
    by tells rows. Lanes of threads may have a row each. `moved` says that a view puts lanes along
    another axis before they are added to the address, or that the access has one axis.
    """
    left, right = (facts.values.expr(v) for v in product.op.inputs[:2])
    columns = not facts.of_threads and (along(left) | along(right)) == {"-1"}
    return any(
        (_counts(one) if columns else placed(facts, one))
        and (_runtime(facts, other) or (_whole(one) and any(a.value in sizes for a in other.top())))
        for one, other in ((left, right), (right, left))
        if (moved or not columns) and not _undone(one, other)
    ) or any(
        _rows_of_blocks(facts, one) and facts.values.compile_time(other)
        for one, other in ((left, right), (right, left))
    )


def _rows_of_blocks(facts: Facts, expr: Expr) -> bool:
    """Whether a place counts rows: a block index times a size that is known at the launch only."""
    return any(
        any(atom.kind is AtomKind.BLOCK for atom in factors)
        and any(_runtime(facts, of(atom)) for atom in factors if atom.kind is not AtomKind.BLOCK)
        for factors, _ in expr.terms
        if len(factors) > 1
    )


def _whole(expr: Expr) -> bool:
    """Whether a block index counts itself, or its quotient with a size: not by its remainder, which
    is less than a row of heads, nor by a quotient alone, which may number few heads."""
    for factors, _ in expr.terms:
        kinds = {atom.kind for atom in factors if of(atom).has(AtomKind.BLOCK)}
        if AtomKind.BLOCK in kinds or (AtomKind.FLOOR_DIV in kinds and len(factors) > 1):
            return True
    return False


def placed(facts: Facts, expr: Expr) -> bool:
    """Whether an expression holds a block index, or the number of a row or tile that a loop of the
    block takes, up to as many as the host passes."""
    return expr.has(AtomKind.BLOCK) or bool(items(facts, expr))


def items(facts: Facts, expr: Expr) -> list[Atom]:
    """The numbers of rows or tiles in an expression that a block takes one after the other."""
    taken = {
        loop.induction
        for loop in facts.item_loops
        if loop.high is not None
        and loop.low is not None
        and facts.values.expr(loop.low).has(AtomKind.BLOCK)
        and _follows(facts, facts.values.expr(loop.high))
    }
    return [a for a in expr.atoms() if a.kind is AtomKind.INDUCTION and a.value in taken]


def _follows(facts: Facts, high: Expr) -> bool:
    """Whether the end of a loop is a size that is known at the launch only, or counts its tiles."""
    return _runtime(facts, high) or any(
        atom.kind is AtomKind.CEIL_DIV and _runtime(facts, atom.args[0]) for atom in high.top()
    )


def _undone(quotient: Expr, factor: Expr) -> bool:
    """Whether a quotient is multiplied with what it was divided by: no more than before."""
    atom = quotient.atom
    return atom is not None and atom.kind is AtomKind.FLOOR_DIV and atom.args[1] == factor


def _counts(expr: Expr) -> bool:
    """Whether an expression grows with a block index, outside of remainders."""
    return any(
        atom.kind is AtomKind.BLOCK
        or (atom.kind is not AtomKind.MOD and any(_counts(inner) for inner in atom.args))
        for atom in expr.top()
    )


def _share(facts: Facts, value: str) -> bool:
    """Whether a value is a size that is passed, divided by something that is not read."""
    node = facts.graph.producer(facts.graph.core(value))
    if node is None or node.op.kind not in (OpKind.FLOOR_DIV, OpKind.DIV):
        return False
    atom = facts.values.expr(node.op.inputs[0]).atom
    return atom is not None and atom.kind is AtomKind.PARAMETER and _runtime(facts, of(atom))


def _of_type(atom: Atom, kinds: Mapping[str, ParameterKind]) -> bool:
    """Whether a name is a member of a type, which is known when the kernel is compiled."""
    owner, _, member = atom.value.partition(".")
    known = kinds.get(owner, ParameterKind.CONSTEXPR) is ParameterKind.CONSTEXPR
    return atom.kind is AtomKind.PARAMETER and bool(member) and known


def _packed(facts: Facts, size: Expr, by: Expr) -> bool:
    """Whether a quotient counts vectors of a size that is passed: of a few elements, or of as many
    as a type says."""
    few = by.constant is not None and 0 < by.constant <= WIDEST_VECTOR
    kinds = {p.name: p.kind for p in facts.kernel.entry.parameters}
    typed = not _runtime(facts, by) and any(
        atom.kind is AtomKind.OPAQUE or _of_type(atom, kinds) for atom in by.atoms()
    )
    atom = size.atom
    passed = atom is not None and atom.kind is AtomKind.PARAMETER and _runtime(facts, size)
    return passed and (few or typed)


def _runtime(facts: Facts, expr: Expr) -> bool:
    kinds = {p.name: p.kind for p in facts.kernel.entry.parameters}
    return any(
        (atom.kind is AtomKind.EXTENT and "[" in atom.text)
        or (atom.kind is AtomKind.OPAQUE and _share(facts, atom.value))
        or (atom.kind is AtomKind.FLOOR_DIV and _packed(facts, *atom.args[:2]))
        or (
            atom.kind is AtomKind.PARAMETER
            and kinds.get(atom.value) is not ParameterKind.CONSTEXPR
            and not _of_type(atom, kinds)
        )
        for atom in expr.top()
    )


def known_at_launch(facts: Facts, expr: Expr) -> bool:
    """Whether a number holds a size that is known at the launch only."""
    return _runtime(facts, expr)


def below_short(facts: Facts, widths: Widths, value: str) -> bool:
    """Whether a position of a thread is compared with a number of 32 bits that the launch gives."""
    if not facts.of_threads:
        return False
    place = facts.values.expr(value)
    for test in facts.graph.of(OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE):
        for side, bound in (test.op.inputs[:2], test.op.inputs[1::-1]):
            given = facts.values.expr(bound).has(AtomKind.PARAMETER)
            if facts.values.expr(side) == place and given and widths.width(bound) == 32:
                return True
    return False


def multiplied(facts: Facts, node: Node) -> bool:
    """Whether a widened place is multiplied, perhaps after it was reshaped or divided by the lanes
    of a warp."""
    pending = [node.result]
    for value in pending:
        for user in facts.graph.users(value):
            if user.op.kind == OpKind.MUL:
                return True
            lanes = (
                user.op.kind == OpKind.FLOOR_DIV and facts.values.expr(user.op.inputs[1]).constant
            )
            if user.op.kind in VIEWS or lanes:
                pending.append(user.result)
    return False


def beside_rows(facts: Facts, widths: Widths, node: Node) -> bool:
    """Whether a widened place is added to a product of 64 bits: a column, beside its row."""
    graph, pending = facts.graph, [node.result]
    for value in pending:
        for user in graph.users(value):
            if user.op.kind == OpKind.ADD:
                others = [graph.through(v, VIEWS) for v in user.op.inputs[:2] if v != value]
                if any(
                    v and graph.kind_of(v) == OpKind.MUL and widths.width(v) == 64 for v in others
                ):
                    return True
            if user.op.kind in VIEWS | {OpKind.ADD} and user.result not in pending:
                pending.append(user.result)
    return False

"""Every memory access in one form, whatever the dialect: array, index per storage axis, mask,
padding, hints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from kb.analysis import symbolic as s
from kb.analysis.bases import bases
from kb.analysis.graph import COPIES, LOOPS, Graph, Node, is_view
from kb.analysis.record_fields import field_of
from kb.analysis.registers import set_or_none, unset
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.analysis.values import Values
from kb.ir import ParameterKind, TypeKind
from kb.ops import ATOMICS, READS, WRITES, OpKind

T = TypeVar("T")


class Mode(StrEnum):
    """How an access addresses memory."""

    TILE = "tile"
    ELEMENT = "element"
    POINTER = "pointer"
    DESCRIPTOR = "descriptor"
    BLOCK_POINTER = "block pointer"
    ADVANCED = "advanced"


BULK = frozenset({Mode.TILE, Mode.DESCRIPTOR, Mode.BLOCK_POINTER})
"""Modes that move whole tiles of a view, so that a copy engine may be used."""

_MODES: dict[str, Mode] = {
    OpKind.LOAD_TILE: Mode.TILE, OpKind.STORE_TILE: Mode.TILE, OpKind.GATHER: Mode.ELEMENT,
    OpKind.VIEW_LOAD: Mode.TILE, OpKind.VIEW_STORE: Mode.TILE, OpKind.VIEW_ATOMIC_ADD: Mode.TILE,
    OpKind.SCATTER: Mode.ELEMENT, OpKind.LOAD_ADVANCED: Mode.ADVANCED,
    OpKind.STORE_ADVANCED: Mode.ADVANCED, OpKind.LOAD: Mode.POINTER, OpKind.STORE: Mode.POINTER,
    OpKind.DESCRIPTOR_LOAD: Mode.DESCRIPTOR, OpKind.DESCRIPTOR_STORE: Mode.DESCRIPTOR,
    OpKind.DESCRIPTOR_GATHER: Mode.DESCRIPTOR, OpKind.DESCRIPTOR_SCATTER: Mode.DESCRIPTOR,
    OpKind.DESCRIPTOR_ATOMIC_ADD: Mode.DESCRIPTOR,
}  # fmt: skip
_PADDING = {"padding.zero": "zero", "padding.neg_zero": "zero", "padding.neg_inf": "neg_inf",
            "padding.pos_inf": "pos_inf", "padding.nan": "nan",
            "padding.undetermined": "undetermined", "zero": "zero", "nan": "nan"}  # fmt: skip
_HANDED_ON = COPIES | {OpKind.ADVANCE, OpKind.IF, OpKind.FOR, OpKind.WHILE, OpKind.CONST}
_MERGES = COPIES | LOOPS | {OpKind.ADD, OpKind.IF, OpKind.IF_EXPRESSION}
MAX_MERGED = 64
"""Values that a pointer is followed through to its base."""

_ADDED = COPIES | {OpKind.ADD}
_VIEWS_OF_ARRAYS = COPIES | {OpKind.ARRAY_SLICE, OpKind.TILED_VIEW, OpKind.SUBSCRIPT}


_ADDRESS = frozenset({"pointer", "index", "offsets"})


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One load, store or atomic.

    `index` is per storage axis (element units for pointers: one offset). `padding` is zero,
    neg_inf, pos_inf, nan, undetermined, `value` for another number, or empty when nothing can lie
    outside. `value` is what was loaded or is stored. Hints are the values given, None when absent.
    `made` is what made the block pointer, the descriptor or the view into tiles.
    """

    node: Node
    array: str | None
    mode: Mode
    index: tuple[Expr, ...]
    shape: tuple[str, ...]
    order: tuple[int, ...] | None
    mask: str | None
    padding: str
    value: str
    is_store: bool
    is_atomic: bool
    latency: str | None
    allow_tma: str | None
    check_bounds: str | None
    base: str | None
    made: Node | None = None

    @property
    def loop(self) -> Node | None:
        """The innermost loop around the access."""
        return self.node.loop

    @property
    def starts(self) -> tuple[Expr, ...]:
        """`index` in elements: of a tile, the number of the tile times its extent, where the extent
        is one number or one parameter."""
        if self.mode is not Mode.TILE or len(self.shape) != len(self.index):
            return self.index
        extents = [
            s.number(int(e)) if e.isdigit() else s.of(Atom(e, AtomKind.PARAMETER, value=e))
            for e in self.shape
        ]
        return tuple(s.mul(i, e) or i for i, e in zip(self.index, extents, strict=True))

    @property
    def address(self) -> list[str]:
        """Operands that say where in the array the access is."""
        return [v for role, v in self.node.op.operands if role in _ADDRESS]

    @property
    def strides(self) -> frozenset[str]:
        """Parameters that are multiplied with a block id, a lane or what was made of them."""
        products = [f for index in self.index for f, _ in index.terms if len(f) > 1]
        named = ({a.value for a in f if a.kind is AtomKind.PARAMETER} for f in products)
        return frozenset(name for names in named if len(names) == 1 for name in names)

    @property
    def transposed(self) -> bool:
        """True when the view turns the last two axes."""
        return (
            self.order is not None
            and len(self.order) > 1
            and list(self.order) != sorted(self.order)
        )


@dataclass(eq=False)
class AccessReader:
    """Reads accesses off a program."""

    graph: Graph
    values: Values
    pointers: frozenset[str] = frozenset()

    def all(self) -> tuple[Access, ...]:
        """Every access in program order."""
        nodes = [n for n in self.graph.nodes if n.op.kind in READS | WRITES | ATOMICS]
        self.pointers = self._pointers(nodes)
        return tuple(self._access(node) for node in nodes)

    # -- which parameter

    def _pointers(self, nodes: list[Node]) -> frozenset[str]:
        """Parameters that arrays begin at, and addresses that are loaded."""
        rows = [self._candidates(self.values.expr(_address(node))) for node in nodes]
        told = [[atom.value for atom in row] for row in rows]
        return bases(told, list(self.graph.function.parameter_names))

    @cached_property
    def _numbers(self) -> frozenset[str]:
        """Fields of parameters that are numbers."""
        fields = [(field_of(self.graph, n.result), n.op.results[0].type)
                  for n in self.graph.of(OpKind.ATTRIBUTE)]  # fmt: skip
        return frozenset(
            name
            for name, kind in fields
            if name is not None and kind is not None and kind.kind is TypeKind.SCALAR
        )

    def _candidates(self, offset: Expr) -> list[Atom]:
        """Parameters that stand alone with factor one, so that the rest may be an offset from
        them."""
        kinds = {p.name: p.kind for p in self.graph.function.parameters}
        kinds |= dict.fromkeys(self._numbers, ParameterKind.SCALAR)
        alone = [f[0] for f, n in offset.terms if n == 1 and len(f) == 1]
        parameters = [
            atom
            for atom in alone
            if atom.kind is AtomKind.PARAMETER
            and kinds.get(atom.value) not in (ParameterKind.CONSTEXPR, ParameterKind.SCALAR)
        ]
        return parameters or [atom for atom in alone if atom.kind is AtomKind.LOADED]

    def _based(self, address: str) -> tuple[str | None, Expr]:
        """The array that an address points into and the offset from its start, in elements."""
        offset = self._moved(self.values.expr(address))
        candidates = self._candidates(offset)
        chosen = [a for a in candidates if a.value in self.pointers] or candidates
        if not chosen:
            return self._merged(address) or self._listed(address), offset
        rest = s.sub(offset, s.of(chosen[0]))
        name = chosen[0].value if chosen[0].kind is AtomKind.PARAMETER else None
        return name, rest

    def _merged(self, address: str) -> str | None:
        """The one parameter that every pointer which branches and loops may hand on begins at;
        what a position is multiplied with is none."""
        found: set[str] = set()
        numbers: set[str] = set()
        pending, seen = [address], {address}
        while pending and len(seen) < MAX_MERGED:
            current = pending.pop()
            offset = self.values.expr(current)
            bases = self._candidates(offset)
            if bases:
                found.update(a.value for a in bases if a.kind is AtomKind.PARAMETER)
                numbers.update(a.value for f, _ in offset.terms if len(f) > 1 for a in f)
                continue
            node = self.graph.producer(current)
            if node is None or node.op.kind in _MERGES:
                new = [feed for feed in self.graph.feeds(current) if feed not in seen]
                seen.update(new)
                pending += new
        found -= numbers
        return next(iter(found)) if len(found) == 1 else None

    def _moved(self, offset: Expr) -> Expr:
        """An address that a branch moves: the array that both sides start from, and the choice of
        the distances."""
        for factors, number in offset.terms:
            if number != 1 or len(factors) != 1 or factors[0].kind is not AtomKind.CHOICE:
                continue
            args = factors[0].args
            sides = [one for one in args if not one.atom or not unset(self.graph, one.atom.value)]
            bases = [self._candidates(self._moved(side)) for side in sides]
            if not bases or any(len(base) != 1 or base != bases[0] for base in bases):
                continue
            base = s.of(bases[0][0])
            rest = [s.sub(self._moved(side), base) for side in sides]
            text = f"choice({', '.join(map(str, rest))})"
            moved = s.of(s.bounded(text, AtomKind.CHOICE, tuple(rest), factors[0].value))
            chosen = rest[0] if all(one == rest[0] for one in rest) else moved
            return s.add(s.sub(offset, s.of(factors[0])), s.add(base, chosen))
        return offset

    def _listed(self, address: str) -> str | None:
        """The parameter that is a list of pointers, one of which an offset is added to."""
        picked = {
            node.op.inputs[0]
            for node in self.graph.upstream(address, lambda n: n.op.kind not in _ADDED)
            if node.op.kind == OpKind.SUBSCRIPT and not is_view(node.op)
        }
        named = [name for name in self.graph.function.parameter_names if name in picked]
        return named[0] if len(named) == 1 else None

    def _array(self, value: str | None) -> str | None:
        """The parameter below slices, views and elements of a list of arrays; of a branch, below
        every side that gives the name a value."""
        for _ in range(32):
            node = self.graph.producer(value)
            if node is not None and node.op.kind == OpKind.IF:
                sides = self.graph.feeds(value or "")
                below = {self._array(one) for one in sides if not unset(self.graph, one)}
                return below.pop() if len(below) == 1 else None
            if node is None or node.op.kind not in _VIEWS_OF_ARRAYS:
                break
            value = node.op.inputs[0]
        return value if value in self.graph.function.parameter_names else None

    # -- one access

    def _access(self, node: Node) -> Access:
        op = node.op
        mode = self._mode(node)
        array, index, shape, order = self._place(node, mode)
        stores = op.kind in WRITES or op.kind in ATOMICS
        return Access(
            node=node, array=array, mode=mode, index=index, shape=shape, order=order,
            mask=set_or_none(self.graph, op.operand("mask")),
            padding="" if stores else self._padding(node, mode),
            value=(op.operand("value") or "") if stores else node.result, is_store=stores,
            is_atomic=op.kind in ATOMICS, latency=op.operand("latency"),
            allow_tma=op.operand("allow_tma"), check_bounds=op.operand("check_bounds"),
            base=op.inputs[0] if op.inputs else None, made=self._made(node, mode),
        )  # fmt: skip

    def _made(self, node: Node, mode: Mode) -> Node | None:
        if mode in (Mode.DESCRIPTOR, Mode.BLOCK_POINTER):
            return self.block_pointer(_address(node))
        return view_of(self.graph, node)

    def _mode(self, node: Node) -> Mode:
        if node.op.kind in _MODES:
            mode = _MODES[node.op.kind]
        else:
            mode = Mode.POINTER if node.op.operand("pointer") else Mode.ELEMENT
        if mode is Mode.POINTER and self.block_pointer(_address(node)) is not None:
            return Mode.BLOCK_POINTER
        return mode

    def block_pointer(self, value: str | None) -> Node | None:
        """The operation that made the block pointer or descriptor behind a value; a branch without
        one may hand on None."""
        pending, seen = [value], {value}
        while pending:
            current = pending.pop(0)
            node = self.graph.producer(current)
            if node is not None and node.op.kind in (OpKind.BLOCK_POINTER, OpKind.DESCRIPTOR):
                return node
            if node is not None and node.op.kind not in _HANDED_ON:
                return None
            if node is not None and node.op.kind == OpKind.CONST:
                continue
            below = self.graph.feeds(current) if current is not None else ()
            one = node is not None and not node.op.regions
            for feed in below[:1] if one else below:
                if feed not in seen:
                    seen.add(feed)
                    pending.append(feed)
        return None

    def _place(
        self, node: Node, mode: Mode
    ) -> tuple[str | None, tuple[Expr, ...], tuple[str, ...], tuple[int, ...] | None]:
        op = node.op
        if mode in (Mode.DESCRIPTOR, Mode.BLOCK_POINTER):
            return self._described(node, mode)
        if mode is Mode.POINTER:
            array, offset = self._based(_address(node))
            return array, (offset,), (), None
        index = tuple(self.values.expr(i) for i in self.values.items(op.operand("index")))
        view = view_of(self.graph, node)
        given = (view or node).op.operand("shape")
        shape = tuple(str(self.values.expr(i)) for i in self.values.items(given))
        order = self._order(op.operand("order"))
        if order is not None and len(order) == len(index):
            index = _stored(index, order)
            shape = _stored(shape, order) if len(shape) == len(order) else shape
        return self._array(op.inputs[0]), index, shape, order

    def _order(self, value: str | None) -> tuple[int, ...] | None:
        if value is None:
            return None
        items = [self.values.literal(item) for item in self.values.items(value)]
        whole = [item for item in items if isinstance(item, int)]
        return (
            tuple(whole)
            if len(whole) == len(items) and sorted(whole) == list(range(len(whole)))
            else None
        )

    def _described(
        self, node: Node, mode: Mode
    ) -> tuple[str | None, tuple[Expr, ...], tuple[str, ...], tuple[int, ...] | None]:
        made = self._made(node, mode)
        offsets = self._offsets(node.op.operand("offsets"))
        if made is None:
            return self._array(node.op.inputs[0]), offsets, (), None
        array, _ = self._based(made.op.operand("base") or "")
        shape = tuple(
            str(self.values.expr(i)) for i in self.values.items(made.op.operand("block_shape"))
        )
        order = self._order(made.op.operand("order"))
        if not offsets:
            offsets = self._offsets(made.op.operand("offsets"))
        turned = order if order is not None and order == tuple(range(len(order))) else None
        flipped = (1, 0) if turned is not None and len(turned) == 2 else None
        return array, offsets, shape, flipped

    def _offsets(self, value: str | None) -> tuple[Expr, ...]:
        return tuple(self.values.expr(i) for i in self.values.items(value)) if value else ()

    def _padding(self, node: Node, mode: Mode) -> str:
        view = view_of(self.graph, node)
        roles = [node.op.operand("padding"), node.op.operand("padding_option")]
        roles += [view.op.operand("padding")] if view is not None else []
        given = next((v for v in roles if v is not None and not unset(self.graph, v)), None)
        if given is not None:
            made = self.graph.producer(self.graph.through(given, COPIES))
            name = str(made.op.attribute("name")) if made and made.op.kind == OpKind.ENUM else ""
            literal = self.values.literal(given)
            return _PADDING.get(name) or _number(literal)
        if mode is Mode.POINTER and set_or_none(self.graph, node.op.operand("mask")) is None:
            return ""
        if node.op.attribute("guarded"):
            return ""
        if mode is Mode.BLOCK_POINTER and node.op.operand("boundary_check") is None:
            return ""
        return "zero" if mode in (Mode.ELEMENT, Mode.DESCRIPTOR) else "undetermined"


def view_of(graph: Graph, node: Node) -> Node | None:
    """The division into tiles that an access takes one tile of."""
    made = graph.producer(graph.through(node.op.operand("view"), COPIES))
    return made if made is not None and made.op.kind == OpKind.TILED_VIEW else None


def _address(node: Node) -> str:
    return node.op.operand("pointer") or (node.op.inputs[0] if node.op.inputs else "")


def _stored(items: tuple[T, ...], order: tuple[int, ...]) -> tuple[T, ...]:
    """Items given in view order, put in storage order."""
    placed = dict(zip(order, items, strict=True))
    return tuple(placed[axis] for axis in range(len(order)))


def _number(literal: object) -> str:
    if isinstance(literal, str):
        return _PADDING.get(literal, "value") if literal else "undetermined"
    if isinstance(literal, int | float):
        if literal == 0:
            return "zero"
        if literal in (float("inf"), float("-inf")):
            return "neg_inf" if literal < 0 else "pos_inf"
    return "value"

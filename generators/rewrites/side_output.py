"""side_output: whether the log-sum-exp of every row is stored beside the output."""

from __future__ import annotations

from dataclasses import dataclass, replace

from generators.rewrites.base import NotApplicable, Rewrite, Site
from generators.rewrites.edit import Cursor
from generators.rewrites.equality import renamed, same_program
from generators.rewrites.signature import (
    NewParameter,
    free_name,
    reads_of,
    with_parameters,
    without_parameters,
)
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role
from kb.analysis.symbolic import AtomKind, Expr
from kb.ir import Function, Kernel, Parameter, ParameterKind
from kb.ops import OpKind

STORED = "log-sum-exp"
NONE = "none"
_ROWS = 2
"""Axis of the rows in an output of batch, head, row and column."""


class SideOutput(Rewrite):
    """maximum + log(sum) of a row in the base of the exponential, as one number per row.

    The array is flat, of batch * heads * rows numbers; `SEQ_LEN` is the number of rows of one head
    and a multiple of the row tile, so that a tile never reaches into the next head.
    Source: Dao, FlashAttention-2 (2023), section 3.1: only the log-sum-exp is kept for a backward
    pass.
    """

    axis = "side_output"
    values = (STORED, NONE)
    follows = frozenset(
        {
            "statistic_encoding",
            "recompute",
            "auxiliary_layout",
            "access_mode",
            "index_width",
            "prefetch_depth",
            "masked_store",
        }
    )

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Add or take away the store."""
        stored = [(site, store) for site in _sites(kernel) for store in _statistics(site)]
        if value == NONE:
            return self._dropped(kernel, stored) if stored else kernel
        if stored:
            return kernel
        for site in _sites(kernel):
            found = _softmax(site)
            if found is not None:
                return _with(kernel, site, found)
        raise NotApplicable(
            "no output of a softmax over a loop is stored by tiles.",
            where=f"{kernel.entry.span} {kernel.name}",
            hint="The axis speaks of attention that stores (batch, head, rows, columns) by tiles.",
        )

    def _dropped(self, kernel: Kernel, stored: list[tuple[Site, Access]]) -> Kernel:
        """Raises NotApplicable when the store is not the one that the way back would write."""
        changed = _without(kernel, stored)
        back = self.apply(changed, STORED)
        if not same_program(kernel, renamed(back, kernel)):
            raise NotApplicable(
                "the statistic is stored in another form than the one that is written here.",
                where=str(stored[0][1].node.op.span),
                hint="Store it flat, as batch * heads * rows numbers, without a condition.",
            )
        return changed


def _sites(kernel: Kernel) -> list[Site]:
    return [Site(kernel, function) for function in kernel.functions]


# -- to: none


def _statistics(site: Site) -> list[Access]:
    """Stores of a maximum plus the logarithm of a sum."""
    return [s for s in site.facts.stores if site.owns(s.node) and _is_lse(site.facts, s)]


def _is_lse(facts: Facts, store: Access) -> bool:
    made = facts.graph.producer(facts.graph.core(store.value))
    if made is None or made.op.kind != OpKind.ADD:
        return False
    below = [facts.graph.producer(facts.graph.core(v)) for v in made.op.inputs[:2]]
    logs = [n for n in below if n is not None and n.op.kind in (OpKind.LOG, OpKind.LOG2)]
    return any(facts.graph.roots(n.result, OpKind.REDUCE_SUM) for n in logs)


def _without(kernel: Kernel, stored: list[tuple[Site, Access]]) -> Kernel:
    used = {function.name: reads_of(function) for function in kernel.functions}
    functions = {function.name: function for function in kernel.functions}
    for site in {id(site): site for site, _ in stored}.values():
        for other, store in stored:
            step = site.draft.producer(store.node.result)
            if other is site and step is not None:
                site.draft.remove(step)
        functions[site.function.name] = site.draft.finish()
    entry = functions.pop(kernel.entry.name)
    changed = replace(kernel, entry=entry, helpers=tuple(functions.values()))
    return without_parameters(changed, used)


# -- to: stored


@dataclass(frozen=True, slots=True)
class _Softmax:
    """The loop of a softmax with its maximum and sum after it, and the store of the output."""

    loop: Loop
    maximum: str
    total: str
    output: Access
    power: Node


def _softmax(site: Site) -> _Softmax | None:
    facts = site.facts
    for loop in facts.loops:
        tops, sums = loop.of(Role.RUNNING_MAXIMUM), loop.of(Role.RUNNING_SUM)
        grown = loop.of(Role.ACCUMULATOR)
        powers = [e.node for e in facts.exponentials if e.node.inside(loop.node)]
        if len(tops) != 1 or len(sums) != 1 or not grown or not powers or not site.owns(loop.node):
            continue
        for store in facts.stores:
            whole = store.mode is Mode.TILE and len(store.index) == _ROWS + 2
            if whole and site.owns(store.node) and facts.graph.rests_on(store.value, loop.node):
                return _Softmax(loop, tops[0].result, sums[0].result, store, powers[0])
    return None


def _with(kernel: Kernel, site: Site, found: _Softmax) -> Kernel:
    writer = _Writer(site, found, free_name(kernel, "LSE"), free_name(kernel, "SEQ_LEN"))
    writer.write()
    rows = writer.tile
    new = (
        NewParameter(Parameter(writer.array, ParameterKind.UNTOLD), found.output.array or "", True),
        NewParameter(Parameter(writer.length, ParameterKind.CONSTEXPR, "int"), rows, behind=False),
    )
    functions = [_closed(site) if f is site.function else f for f in kernel.functions]
    changed = replace(kernel, entry=functions[0], helpers=tuple(functions[1:]))
    return with_parameters(changed, site.function.name, new)


def _closed(site: Site) -> Function:
    return site.draft.finish()


@dataclass(slots=True)
class _Writer:
    """Writes the statistic, its place in a flat array, and the store."""

    site: Site
    found: _Softmax
    array: str
    length: str

    @property
    def tile(self) -> str:
        """The parameter that is the number of rows of a tile."""
        shape = self.site.facts.types.shape(self.found.output.value)
        rows = shape[_ROWS] if len(shape) > _ROWS else ""
        if rows not in self.site.function.parameter_names:
            raise NotApplicable(
                "the rows of a tile are no parameter.", where=str(self.found.output.node.op.span),
                hint="Make the extent of the row tile a constexpr parameter.",
            )  # fmt: skip
        return rows

    def write(self) -> None:
        """Behind the store of the output."""
        store = self.site.draft.producer(self.found.output.node.result)
        if store is None:
            raise NotApplicable(
                "a helper stores the output.", where=str(self.found.output.node.op.span)
            )
        cursor = self.site.draft.after(store)
        value = self._statistic(cursor)
        where = self._index(cursor)
        operands = (("array", self.array), ("index", where), ("value", value))
        cursor.add(OpKind.SCATTER, operands)

    def _statistic(self, cursor: Cursor) -> str:
        base2 = self.found.power.op.kind == OpKind.EXP2
        log = cursor.add(OpKind.LOG2 if base2 else OpKind.LOG, (("x", self.found.total),))
        value = cursor.binary(OpKind.ADD, self.found.maximum, log, "lse")
        if len(self.site.facts.types.shape(self.found.maximum)) == 1:
            return value
        shape = cursor.add(OpKind.TUPLE, (("item", self.tile),))
        return cursor.add(OpKind.RESHAPE, (("x", value), ("shape", shape)), hint="lse")

    def _index(self, cursor: Cursor) -> str:
        """batch * (heads * rows) + head * rows + tile * rows of a tile + lane."""
        batch, head, tile, _ = self._items()
        dtype = cursor.add(OpKind.DTYPE, (), (("name", "i32"),))
        lanes = cursor.add(OpKind.ARANGE, (("size", self.tile), ("dtype", dtype)), hint="lse_lanes")
        plane = cursor.binary(OpKind.MUL, self._heads(cursor), self.length)
        start = cursor.binary(OpKind.MUL, batch, plane)
        start = cursor.binary(OpKind.ADD, start, cursor.binary(OpKind.MUL, head, self.length))
        start = cursor.binary(OpKind.ADD, start, cursor.binary(OpKind.MUL, tile, self.tile))
        return cursor.binary(OpKind.ADD, start, lanes, "lse_index")

    def _items(self) -> tuple[str, ...]:
        values = self.site.facts.values
        return values.items(self.found.output.node.op.operand("index"))

    def _heads(self, cursor: Cursor) -> str:
        """The number of heads: the divisor that splits the block id, else the extent of the
        output."""
        atom = self.found.output.index[1].atom
        if atom is not None and atom.kind is AtomKind.MOD:
            name = _parameter(atom.args[1])
            if name in self.site.function.parameter_names:
                return name
        shape = cursor.add(OpKind.SHAPE, (("x", self.found.output.base or ""),))
        index = cursor.constant(1)
        return cursor.add(OpKind.SUBSCRIPT, (("x", shape), ("index", index)), (("pattern", "#"),))


def _parameter(expr: Expr) -> str:
    atom = expr.atom
    return atom.value if atom is not None and atom.kind is AtomKind.PARAMETER else ""

"""From which iteration on a mask does anything: read off its comparisons, and written in front of
the loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generators.rewrites.base import NotApplicable, Site
from generators.rewrites.edit import Block, Cursor, Step
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import Mask
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind, Expr
from kb.ir import ParameterKind
from kb.ops import OpKind

_UPPER = {OpKind.LT: 0, OpKind.LE: 0, OpKind.GT: 1, OpKind.GE: 1}
"""Comparisons that keep columns below something, with the place of the columns."""

HINT = "mask_start"


@dataclass(frozen=True, slots=True)
class Limit:
    """Columns of a tile are kept below `first`, the least value of the other side; `extent` is
    that value if one is.

    `guard` is the flag under which the comparison is made, None when it always is.
    """

    comparison: Node
    first: Expr
    extent: str | None
    guard: str | None


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the columns of a mask in a loop whose tiles are `width` wide: tails and causal
    structure."""

    loop: Loop
    width: Expr
    tails: tuple[Limit, ...]
    causal: tuple[Limit, ...]


def limits_of(site: Site, loop: Loop, mask: Mask) -> Limits:
    """Limits of a mask. Raises NotApplicable when a comparison is no upper limit of the columns."""
    facts = site.facts
    step = facts.values.expr(loop.step).constant if loop.step is not None else 1
    if loop.induction is None or step != 1:
        raise NotApplicable(
            "the loop does not count tiles.", where=str(loop.node.op.span),
            hint="Count tiles from 0 in steps of 1 and multiply in the index.",
        )  # fmt: skip
    found = [_limit(facts, loop, mask, comparison) for comparison in mask.comparisons]
    widths = {width for width, _ in found}
    if len(widths) != 1:
        raise NotApplicable(
            "the mask compares tiles of several widths.", where=str(mask.node.op.span)
        )
    limits = [limit for _, limit in found]
    tails = tuple(limit for limit in limits if limit.extent is not None)
    return Limits(loop, widths.pop(), tails, tuple(x for x in limits if x.extent is None))


def _limit(facts: Facts, loop: Loop, mask: Mask, comparison: Node) -> tuple[Expr, Limit]:
    place = _UPPER.get(OpKind(comparison.op.kind))
    problem = NotApplicable(
        "a comparison of the mask is not an upper limit of the columns.",
        where=str(comparison.op.span), hint="Windows and segments bound the loop on both sides.",
    )  # fmt: skip
    if place is None or loop.induction is None:
        raise problem
    columns, other = comparison.op.inputs[place], comparison.op.inputs[1 - place]
    moving = facts.values.expr(loop.induction).atom
    expr, against = facts.values.expr(columns), facts.values.expr(other)
    if moving is None or against.has(AtomKind.INDUCTION):
        raise problem
    width = expr.coefficient(moving)
    rest = [f for f, _ in expr.terms if moving not in f]
    if (
        not width.terms
        or len(rest) != 1
        or len(rest[0]) != 1
        or rest[0][0].kind is not AtomKind.LANE
    ):
        raise problem
    first = _least(against)
    if first is None:
        raise problem
    extent = None if against.has(AtomKind.LANE) else other
    return width, Limit(comparison, first, extent, _guard(comparison, mask))


def _least(expr: Expr) -> Expr | None:
    """The value at lane 0; None when lanes are scaled or stand inside something."""
    kept = []
    for factors, count in expr.terms:
        if any(atom.kind is AtomKind.LANE for atom in factors):
            if len(factors) != 1 or count < 0:
                return None
            continue
        if any(arg.has(AtomKind.LANE) for atom in factors for arg in atom.args):
            return None
        kept.append((factors, count))
    return Expr(tuple(kept))


def _guard(comparison: Node, mask: Mask) -> str | None:
    """The condition of the branch, inside what makes the mask, that a comparison stands in."""
    holder = comparison.parent
    if holder is None or holder.op.kind != OpKind.IF or mask.node.inside(holder):
        return None
    return holder.op.inputs[0] if comparison.branch == 0 else None


# -- writing


@dataclass(slots=True)
class BoundWriter:
    """Writes the bound of a mask in front of its loop."""

    site: Site
    limits: Limits

    def write(self) -> str:
        """The value from which on the mask does anything."""
        loop = self.site.draft.producer(self.limits.loop.node.result)
        if loop is None:
            raise NotApplicable(
                "the loop hands nothing on.", where=str(self.limits.loop.node.op.span)
            )
        flags = {limit.guard for limit in self.limits.causal}
        flag = flags.pop() if len(flags) == 1 else None
        if flag is None or not self._outside(flag, loop):
            return self._all(self.site.draft.before(self.site.draft.start(loop)), HINT)
        branch = self._branch(flag, loop)
        if branch is None:
            cursor = self.site.draft.before(self.site.draft.start(loop))
            branch = cursor.branch(flag, ())
        return self._extend(branch)

    def _outside(self, value: str, loop: Step) -> bool:
        made = self.site.draft.producer(value)
        return self.site.draft.holds(value) and (made is None or made.block is loop.block)

    def _branch(self, flag: str, loop: Step) -> Step | None:
        """The branch on the same flag before the loop that stands behind everything that the bound
        needs."""
        steps = loop.block.steps[: loop.index]
        needed = [
            p for x in self.limits.tails if (p := self.site.draft.producer(x.extent)) is not None
        ]
        last = max((step.index for step in needed if step.block is loop.block), default=-1)
        branches = [s for s in steps if s.kind == OpKind.IF and s.operand("condition") == flag]
        return next((s for s in reversed(branches) if s.index > last), None)

    def _extend(self, branch: Step) -> str:
        """Compute the bound on both sides of a branch and hand it on."""
        draft = self.site.draft
        then, other = branch.blocks
        inner = self._all(Cursor(draft, then, 0, branch.span), HINT)
        end = other.steps[-1]
        outer = self._tail(Cursor(draft, other, end.index, branch.span))
        place = self._place(branch)
        result = draft.fresh(HINT)
        branch.results.insert(place, result)
        for block, value in ((then, inner), (other, outer)):
            block.steps[-1].operands.insert(place, ("value", value))
        return result.name

    def _place(self, branch: Step) -> int:
        """Behind the results that continue a variable from before the branch, as a reader orders
        them."""
        earlier = set(self.site.function.parameter_names)
        for step in branch.block.steps[: branch.index]:
            earlier.update(value.name.rpartition(".")[0] for value in step.results)
        hints = [value.name.rpartition(".")[0] for value in branch.results]
        return next((i for i, hint in enumerate(hints) if hint not in earlier), len(hints))

    def _all(self, cursor: Cursor, hint: str) -> str:
        """The least of all limits."""
        found = [self._tile(cursor, self._value(cursor, x), hint) for x in self.limits.causal]
        found += [self._tile(cursor, self._value(cursor, x), "") for x in self.limits.tails]
        least = found[0]
        for value in found[1:]:
            least = cursor.add(
                OpKind.MINIMUM, (("lhs", least), ("rhs", value)), (("spelling", "min"),), hint
            )
        return least

    def _tail(self, cursor: Cursor) -> str:
        if not self.limits.tails:
            return cursor.constant(0)
        found = [self._tile(cursor, self._value(cursor, x), HINT) for x in self.limits.tails]
        least = found[0]
        for value in found[1:]:
            least = cursor.add(
                OpKind.MINIMUM, (("lhs", least), ("rhs", value)), (("spelling", "min"),), HINT
            )
        return least

    def _value(self, cursor: Cursor, limit: Limit) -> str:
        return limit.extent if limit.extent is not None else self._sum(cursor, limit.first)

    def _tile(self, cursor: Cursor, position: str, hint: str) -> str:
        width = self._sum(cursor, self.limits.width)
        return cursor.binary(OpKind.FLOOR_DIV, position, width, hint)

    # -- expressions

    def _sum(self, cursor: Cursor, expr: Expr) -> str:
        """Operations that compute an expression: single terms first, then products."""
        known = self._known(cursor, expr)
        if known is not None:
            return known
        terms = sorted(expr.terms, key=lambda term: len(term[0]))
        values = [self._product(cursor, Expr((term,))) for term in terms]
        total = values[0] if values else cursor.constant(0)
        for value in values[1:]:
            total = cursor.binary(OpKind.ADD, total, value)
        return total

    def _product(self, cursor: Cursor, expr: Expr) -> str:
        known = self._known(cursor, expr)
        if known is not None:
            return known
        ((factors, count),) = expr.terms
        if not factors:
            return cursor.constant(count)
        names = [self._known(cursor, Expr((((atom,), 1),))) for atom in factors]
        if any(name is None for name in names):
            raise NotApplicable(
                f"{expr} is not known before the loop.", where=str(cursor.span),
                hint="Compute the position of the rows before the loop.",
            )  # fmt: skip
        ordered = sorted((name for name in names if name is not None), key=self._constexpr)
        total = ordered[0]
        for name in ordered[1:]:
            total = cursor.binary(OpKind.MUL, total, name)
        return total if count == 1 else cursor.binary(OpKind.MUL, total, cursor.constant(count))

    def _constexpr(self, name: str) -> bool:
        kinds = {p.name: p.kind for p in self.site.function.parameters}
        return kinds.get(name) is ParameterKind.CONSTEXPR

    def _known(self, cursor: Cursor, expr: Expr) -> str | None:
        """A single parameter, block id or extent that is at hand under a name."""
        atom = expr.atom
        if atom is None:
            return None
        if atom.kind is AtomKind.PARAMETER and atom.value in self.site.function.parameter_names:
            return atom.value
        values = self.site.facts.values.exprs
        return next((n for n in self._visible(cursor) if values.get(n) == expr), None)

    def _visible(self, cursor: Cursor) -> Iterator[str]:
        """Values made before the cursor in its block and those around it."""
        block: Block | None = cursor.block
        index = cursor.index
        while block is not None:
            for step in block.steps[:index]:
                yield from (value.name for value in step.results)
            owner = block.owner
            index = owner.index if owner is not None else 0
            block = owner.block if owner is not None else None

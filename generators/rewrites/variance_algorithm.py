"""variance_algorithm: the mean of squared differences from the mean, or the mean of squares less
the squared mean."""

from __future__ import annotations

from dataclasses import dataclass

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions, refuse_mixed
from generators.rewrites.edit import Step
from kb.ir import Kernel
from kb.ops import READS, OpKind

CENTRED = "two-pass centred"
ONE_PASS = "one-pass E[x^2]-E[x]^2"


class VarianceAlgorithm(Rewrite):
    """sum (x - m)^2 / n = sum x^2 / n - m^2 where m = sum x / n, but for rounding.

    Lanes outside the row have to be masked: a zero there is no difference from the mean.
    Source: Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance (1983).
    """

    axis = "variance_algorithm"
    values = (CENTRED, ONE_PASS)
    follows = frozenset({"reduction_scheme", "boundary_handling"})

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Exchange the formula of every variance of a resident row."""
        seen: set[str] = set()
        changed = change_functions(kernel, lambda site: _exchange(site, value, seen))
        if not seen:
            raise NotApplicable(
                "no variance is the sum of a square over the count of a row.",
                where=f"{kernel.entry.span} {kernel.name}",
                hint="Sums that a loop carries are not changed.",
            )
        if len(seen) > 1:
            refuse_mixed(kernel, value)
        return changed or kernel


@dataclass(slots=True)
class _Variance:
    """The steps of one variance: a tile that is squared, and masked before or after that, summed,
    and divided by the count; `less` takes the squared mean away.
    """

    square: Step
    masked: Step | None
    total: Step
    share: Step
    less: Step | None

    @property
    def inner(self) -> Step:
        """The step that reads the tile whose square is summed."""
        before = self.masked is not None and self.masked.result in self.square.inputs
        return self.masked if before and self.masked is not None else self.square


def _exchange(site: Site, value: str, seen: set[str]) -> bool:
    touched = False
    for node in site.facts.graph.of(OpKind.REDUCE_SUM):
        found = _variance(site, site.draft.producer(node.result))
        if found is None:
            continue
        tile = _tile(site, found)
        mean = _centred(site, tile) if found.less is None else _subtracted(site, found.less)
        if mean is None or not _is_mean(site, found, mean):
            continue
        has = CENTRED if found.less is None else ONE_PASS
        seen.add(has)
        if has != value:
            _refuse_open_lanes(site, found)
            change = _to_one_pass if value == ONE_PASS else _to_centred
            change(site, found, mean)
            touched = True
    return touched


# -- looking


def _variance(site: Site, total: Step | None) -> _Variance | None:
    """A sum of squares that is divided by something, and what is taken away from that."""
    draft = site.draft
    users = draft.users(total.result) if total is not None else []
    if total is None or len(users) != 1 or users[0].kind != OpKind.DIV:
        return None
    made = draft.producer(total.inputs[0])
    masked = made if made is not None and made.kind == OpKind.SELECT else None
    square = draft.producer(masked.operand("x")) if masked is not None else made
    if square is None or square.kind != OpKind.MUL or len(set(square.inputs)) != 1:
        return None
    if masked is None:
        made = draft.producer(square.inputs[0])
        masked = made if made is not None and made.kind == OpKind.SELECT else None
    readers = draft.users(users[0].result)
    alone = len(readers) == 1 and readers[0].kind == OpKind.SUB
    less = readers[0] if alone and readers[0].inputs[0] == users[0].result else None
    return _Variance(square, masked, total, users[0], less)


def _tile(site: Site, found: _Variance) -> str:
    """The tile whose square is summed, below the mask."""
    inner = found.inner
    return (inner.operand("x") or "") if inner is found.masked else inner.inputs[0]


def _centred(site: Site, tile: str) -> str | None:
    """The mean that was taken away from a tile."""
    made = site.draft.producer(tile)
    if made is None or made.kind != OpKind.SUB:
        return None
    return site.facts.graph.plain(made.inputs[1])


def _subtracted(site: Site, less: Step) -> str | None:
    """The mean whose square is taken away."""
    made = site.draft.producer(less.inputs[1])
    squared = made is not None and made.kind == OpKind.MUL and len(set(made.inputs)) == 1
    return site.facts.graph.plain(made.inputs[0]) if made is not None and squared else None


def _is_mean(site: Site, found: _Variance, mean: str) -> bool:
    """True for the sum of the same tile over the same count."""
    draft, values = site.draft, site.facts.values
    share = draft.producer(mean)
    total = draft.producer(share.inputs[0]) if share is not None and share.inputs else None
    if share is None or share.kind != OpKind.DIV or total is None:
        return False
    if total.kind != OpKind.REDUCE_SUM or total.operand("axis") != found.total.operand("axis"):
        axes = [values.literal(step.operand("axis")) for step in (total, found.total)]
        if total.kind != OpKind.REDUCE_SUM or axes[0] != axes[1]:
            return False
    summed = draft.producer(total.inputs[0])
    rows = {total.inputs[0]}
    if summed is not None and summed.kind == OpKind.SELECT:
        rows.add(summed.operand("x") or "")
    same = values.expr(share.inputs[1]) == values.expr(found.share.inputs[1])
    return same and _row(site, found) in rows


def _row(site: Site, found: _Variance) -> str:
    """The tile before its mean is taken away."""
    made = site.draft.producer(_tile(site, found)) if found.less is None else None
    return made.inputs[0] if made is not None else _tile(site, found)


def _refuse_open_lanes(site: Site, found: _Variance) -> None:
    """Raises NotApplicable when lanes outside the row may be summed, or a step has other uses."""
    loads = site.facts.graph.roots(_row(site, found), *READS)
    open_lanes = any(node.op.operand("mask") is not None for node in loads)
    if open_lanes and found.masked is None:
        raise NotApplicable(
            "lanes outside the row are not masked in the square.", where=str(found.square.span),
            hint="Put zero in their place before they are summed.",
        )  # fmt: skip
    chain = [found.square, *([found.masked] if found.masked is not None else [])]
    for step in chain:
        readers = site.draft.users(step.result)
        if len({id(reader) for reader in readers}) != 1:
            raise NotApplicable(
                "the squared tile has another use.", where=str(step.span),
                hint="Compute the square by itself.",
            )  # fmt: skip


# -- writing


def _put(found: _Variance, tile: str) -> None:
    """Let the square be taken of another tile."""
    if found.inner is found.masked:
        found.masked.set_operand("x", tile)
    else:
        found.square.operands = [(role, tile) for role, _ in found.square.operands]


def _to_one_pass(site: Site, found: _Variance, mean: str) -> None:
    draft = site.draft
    _put(found, _row(site, found))
    result, found.share.results = found.share.results[0], [draft.fresh("")]
    after = draft.after(found.share)
    squared = after.binary(OpKind.MUL, mean, mean)
    operands = [("lhs", found.share.result), ("rhs", squared)]
    after.put(Step(OpKind.SUB, operands, [], [result], [], found.share.span, found.share.block))


def _to_centred(site: Site, found: _Variance, mean: str) -> None:
    draft, less, row = site.draft, found.less, _row(site, found)
    if less is None:
        return
    _put(found, _difference(site, found, row, mean))
    found.share.results = [less.results[0]]
    draft.remove(less)


def _difference(site: Site, found: _Variance, row: str, mean: str) -> str:
    """The tile less its mean: as it stands already, else written before the square."""
    draft, facts = site.draft, site.facts
    inner = found.inner
    for step in draft.steps():
        if step is inner:
            break
        known = step.kind == OpKind.SUB and step.inputs[0] == row
        if known and step.block in draft.scope(inner.block) and _centred(site, step.result) == mean:
            return step.result
    cursor = draft.before(draft.start(inner))
    shape, kept = facts.types.shape(row), facts.types.shape(mean)
    below = mean
    if kept and len(kept) != len(shape):
        axis = facts.values.literal(found.total.operand("axis"))
        if not isinstance(axis, int):
            raise NotApplicable("the axis of the sum is unknown.", where=str(found.total.span))
        parts = ["None" if place == axis % len(shape) else ":" for place in range(len(shape))]
        below = cursor.add(OpKind.SUBSCRIPT, (("x", mean),), (("pattern", ",".join(parts)),))
    return cursor.binary(OpKind.SUB, row, below)

"""Lanes outside an array whose contents nobody determines are added up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.accesses import Access
from kb.analysis.graph import Node
from kb.analysis.padding import Lanes, PaddedLanes
from kb.analysis.sums import products_with_outside, reductions_with_outside
from kb.evidence import Finding

_COLUMNS = " + y * sh + cols[:, None] * sm + lane[None, :], mask=cols[:, None] < size"


class UndeterminedPadding(Rule):
    """A masked load without a padding reaches a sum or a matrix product, and no select replaces the
    lanes outside: the result rests on what the hardware happens to fill in."""

    name = "undetermined-padding"
    matches = (
        Case(ATTENTION, "matrix product"),
        Case(
            vary(
                ATTENTION_POINTER,
                (f"v = tl.load(c{_COLUMNS}, other=0.0)", f"v = tl.load(c{_COLUMNS})"),
            ),
            "matrix product",
        ),
        Case(
            vary(
                LAYER_NORM_POINTER,
                (
                    "at, mask=inside, other=0.0).to(tl.float32)\n    mean",
                    "at, mask=inside).to(tl.float32)\n    mean",
                ),
            ),
            "sum",
        ),
    )
    near_misses = (
        NearMiss(ATTENTION_POINTER, why="every load says what lanes outside hold"),
        NearMiss(
            vary(
                ATTENTION,
                ("latency=4)", "latency=4, padding_mode=ct.PaddingMode.ZERO)"),
            ),
            why="keys outside are masked out of the scores, and values outside are zero",
        ),
        NearMiss(
            vary(LAYER_NORM_POINTER, ("b + at, mask=inside, other=0.0", "b + at, mask=inside")),
            why="lanes outside are never summed, and the store leaves them out",
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_kernel", 148),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        for load, users in self._found(subject).items():
            name = f"`{load.array}`" if load.array else "a tile"
            what = (
                "a matrix product"
                if any(n in subject.facts.contractions for n in users)
                else ("a " + users[0].op.kind.replace("reduce_", ""))
            )
            yield self.finding(
                subject,
                f"lanes outside of {name} are read without a padding and added up by {what}: "
                "their contents are not determined, and 0 times a NaN is a NaN",
                "give the load a padding of zero, or select zero before the sum",
                [load, *users],
            )

    def _found(self, subject: Subject) -> dict[Access, list[Node]]:
        found: dict[Access, list[Node]] = {}
        lanes = PaddedLanes(subject.facts)
        for node, loads in self._reached(subject, lanes):
            for load in sorted(loads, key=lambda one: one.node.index):
                if load.padding == "undetermined":
                    found.setdefault(load, []).append(node)
        return found

    def _reached(
        self, subject: Subject, lanes: PaddedLanes
    ) -> Iterator[tuple[Node, frozenset[Access]]]:
        for folded in reductions_with_outside(subject.facts, lanes):
            if folded.outside.lanes is Lanes.UNDEFINED:
                yield folded.node, folded.outside.loads
        for node, *sides in products_with_outside(subject.facts, lanes):
            for side in sides:
                if side.lanes is Lanes.UNDEFINED:
                    yield node, side.loads

"""How a transposed operand is obtained: by the view of the load, or by turning the loaded tile."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import (
    ATTENTION,
    ATTENTION_POINTER,
    BACKWARD_KEYS,
    PRODUCT,
    PRODUCT_POINTER,
)
from extractors.patterns.cases_rows import COPY, TURN
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.evidence import Decision

_VIEWED = "transpose in the load view (order=)"
_NATURAL = "as stored"


class TransposedOperand(Pattern):
    """An operand of a product, or a stored tile, is a load seen through turned axes."""

    name = "transposed-operand-via-view-order-vs-in-register-permute"
    axis = "operand_layout"
    source = "NVIDIA, PTX ISA, ldmatrix .trans and wgmma descriptors: a transpose may cost nothing"
    matches = (
        Case(ATTENTION, "transpose in the load view (order=)"),
        Case(BACKWARD_KEYS, "permute/transpose the loaded tile"),
        Case(ATTENTION_POINTER, "permute/transpose the loaded tile"),
        Case(TURN, "permute/transpose the loaded tile"),
        Case(BACKWARD_KEYS_THREADS, "permute/transpose the loaded tile"),
    )
    near_misses = (
        NearMiss(
            PRODUCT,
            why="both operands are loaded as they lie",
            value="permute/transpose the loaded tile",
        ),
        NearMiss(COPY, why="the tile is stored as it was loaded"),
        NearMiss(
            PRODUCT_POINTER,
            why="both operands are loaded as they lie",
            value="permute/transpose the loaded tile",
        ),
        NearMiss(
            PRODUCT_THREADS,
            why="both operands are loaded as they lie",
            value="permute/transpose the loaded tile",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[tuple[str, str | None], list[Where]] = {}
        for product in facts.contractions:
            for role in ("lhs", "rhs"):
                self._operand(facts, product.op.operand(role), found)
        if not facts.contractions:
            self._stored(facts, found)
        natural = [w for (value, _), where in found.items() if value == _NATURAL for w in where]
        turned = {key: where for key, where in found.items() if key[0] != _NATURAL}
        for (value, subject), where in turned.items():
            yield self.decide(facts, value, where, subject)
        if natural and any(value == _VIEWED for value, _ in turned):
            yield self.decide(facts, _NATURAL, natural)

    def _operand(
        self, facts: Facts, value: str | None, found: dict[tuple[str, str | None], list[Where]]
    ) -> None:
        loads = facts.held_loads(value)
        if not loads:
            return
        turn = facts.turned(value)
        if turn is not None:
            key = ("permute/transpose the loaded tile", loads[0].array)
            found.setdefault(key, []).extend((turn, *loads))
            return
        viewed = [a for a in loads if a.transposed]
        key = (_VIEWED if viewed else _NATURAL, loads[0].array)
        found.setdefault(key, []).extend(viewed or loads)

    def _stored(self, facts: Facts, found: dict[tuple[str, str | None], list[Where]]) -> None:
        """A kernel that only moves data and turns it on the way."""
        for store in facts.stores:
            turn = facts.turned(store.value)
            loads: list[Access] = facts.held_loads(store.value)
            if turn is not None and loads:
                key = ("permute/transpose the loaded tile", loads[0].array)
                found.setdefault(key, []).extend((*loads, turn, store))

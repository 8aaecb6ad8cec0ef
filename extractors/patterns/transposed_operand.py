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
    TILE,
    vary,
)
from extractors.patterns.cases_kept import BOTH_LAYOUTS
from extractors.patterns.cases_pointer import FLASH_POINTER, FLASH_STAGED
from extractors.patterns.cases_rows import COPY, TURN
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, PRODUCT_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, LOOPS, TURNS, Node
from kb.analysis.specialise import branches
from kb.analysis.symbolic import Atom, AtomKind, Expr, nested
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, REDUCTIONS, OpKind

_STOPS = READS | CONTRACTIONS | REDUCTIONS | LOOPS
_POINTERS = COPIES | LOOPS | {OpKind.ADD, OpKind.IF, OpKind.IF_EXPRESSION}
_VIEWED = "transpose in the load view (order=)"
ADDRESSED = "transposed by the addresses of the load"
_PLACED = "transposed by the addresses of the store"
_LOADED = "permute/transpose the loaded tile"
_RESULT = "permute/transpose the computed tile"


_STRIDED = vary(
    FLASH_POINTER,
    ("tn, ob, oh, om,", "tn, td, ob, oh,"),
    ("cols[None, :] * tn + lane[:, None]", "cols[None, :] * tn + lane[:, None] * td"),
    ("at[:, None] * om + lane[None, :]", "at[:, None] * tn + lane[None, :] * td"),
)
_SQUARED = vary(TURN, ("ct.transpose(v)", "ct.transpose(v * v)"))


_GATHERED = (
    TILE
    + """
@ct.kernel
def product(a, b, out, TM: Int, TN: Int, TK: Int):
    m = ct.bid(0)
    x = ct.load(a, index=(m, 0), shape=(TM, TK))
    rows = ct.arange(TN, dtype=ct.int32)
    cols = ct.arange(TK, dtype=ct.int32)
    y = ct.gather(b, (rows[None, :], cols[:, None]))
    acc = ct.mma(x, y, ct.full((TM, TN), 0.0, dtype=ct.float32))
    ct.store(out, index=(m, 0), tile=ct.astype(acc, out.dtype))
"""
)
_DECAYED = vary(FLASH_POINTER, ("tl.dot(fixed, k)", "tl.dot(fixed, tl.exp(k) * 0.5)"))
_WEIGHED = (
    TILE
    + """
@ct.kernel
def weigh(a, b, out, T: Int):
    x = ct.load(a, index=(0, 0), shape=(T, T))
    w = ct.transpose(ct.exp(ct.load(b, index=(0, 0), shape=(T, T))))
    ct.store(out, index=(0,), tile=ct.sum(x * w, 0))
"""
)


_PAGED = vary(
    FLASH_POINTER,
    ("cols[None, :] * tn + lane[:, None]", "tl.load(table + cols)[None, :] * tn + lane[:, None]"),
    ("def attend(", "def attend(table, "),
)
_CHOSEN = vary(
    FLASH_POINTER,
    (
        "cols[None, :] * tn + lane[:, None]",
        "tl.where(ids >= 0, ids, 0)[None, :] * tn + lane[:, None] * tb",
    ),
    ("        k = tl.load(", "        ids = tl.load(table + cols)\n        k = tl.load("),
    ("def attend(", "def attend(table, "),
)


class TransposedOperand(Pattern):
    """An operand of a product, or a stored tile, is a load seen through turned axes."""

    name = "transposed-operand-via-view-order-vs-in-register-permute"
    axis = "operand_layout"
    source = "NVIDIA, PTX ISA, ldmatrix .trans and wgmma descriptors: a transpose may cost nothing"
    matches = (
        Case(ATTENTION, "transpose in the load view (order=)"),
        Case(ATTENTION_POINTER, "permute/transpose the loaded tile"),
        Case(TURN, "permute/transpose the loaded tile"),
        Case(FLASH_POINTER, ADDRESSED),
        Case(_STRIDED, ADDRESSED),
        Case(_PAGED, ADDRESSED),
        Case(_CHOSEN, ADDRESSED),
        Case(_SQUARED, _RESULT),
        Case(BOTH_LAYOUTS, _PLACED),
        Case(vary(PRODUCT_POINTER, ("tl.dot(x, y)", "tl.dot(tl.trans(x * 2), y)")), _RESULT),
        Case(FLASH_STAGED, ADDRESSED),
        Case(_GATHERED, ADDRESSED),
        Case(
            vary(_GATHERED, ("rows[None, :], cols", "ct.gather(b, (rows, 0))[None, :], cols")),
            ADDRESSED,
        ),
        Case(_WEIGHED, _RESULT),
        Case(_DECAYED, ADDRESSED),
        Case(vary(PRODUCT, ("mma(x, y", "mma(ct.transpose(x) * 2, y")), _LOADED),
        Case(vary(BACKWARD_KEYS_THREADS, ("tq[i][threadIdx.x]", "to[i][threadIdx.x]")), _LOADED),
    )
    near_misses = (
        NearMiss(
            vary(BOTH_LAYOUTS, ("[:, None] * sx + j[None, :]", "[:, None] + j[None, :] * sx")),
            why="loaded and stored column by column",
            value=_PLACED,
        ),
        NearMiss(
            vary(
                PRODUCT_THREADS,
                (
                    "ta[threadIdx.y][k] * tb[k][threadIdx.x]",
                    "tb[k][threadIdx.x] * ta[threadIdx.y][k]",
                ),
            ),
            why="either factor may stand first",
            value="permute/transpose the loaded tile",
        ),
        NearMiss(
            PRODUCT,
            why="both operands are loaded as they lie",
            value="permute/transpose the loaded tile",
        ),
        NearMiss(
            PRODUCT_POINTER, why="numbers of a row lie side by side in the tile", value=ADDRESSED
        ),
        NearMiss(
            vary(
                FLASH_POINTER,
                ("cols[None, :] * tn + lane[:, None]", "cols[None, :] * tn + lane[:, None] * tb"),
            ),
            why="neither axis is known to lie side by side",
            value=ADDRESSED,
        ),
        NearMiss(
            vary(
                _STRIDED,
                ("at[:, None] * tn + lane[None, :] * td", "at[:, None] * td + lane[None, :] * tn"),
            ),
            why="what is stored lies the same way",
            value=ADDRESSED,
        ),
        NearMiss(
            vary(_GATHERED, ("rows[None, :], cols[:, None]", "cols[:, None], rows[None, :]")),
            why="columns go along the last axis",
        ),
        NearMiss(vary(_WEIGHED, ("ct.transpose(ct.exp", "(ct.exp")), why="nothing is turned"),
        NearMiss(TURN, why="the tile is turned as it was loaded", value=_RESULT),
        NearMiss(vary(PRODUCT, ("mma(x, y", "mma(x * 2, y")), why="computed as it was loaded"),
        NearMiss(
            vary(_PAGED, ("[None, :] * tn + lane[:, None]", "[:, None] * tn + lane[None, :]")),
            why="elements of a row lie side by side in the tile",
            value=ADDRESSED,
        ),
        NearMiss(COPY, why="the tile is stored as it was loaded"),
        NearMiss(BACKWARD_KEYS, why="one tile for two uses: reuse, no layout"),
        NearMiss(BACKWARD_KEYS_THREADS, why="one tile for two uses: reuse, no layout"),
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
        for (value, subject), where in found.items():
            yield self.decide(facts, value, where, subject)

    def _operand(
        self, facts: Facts, value: str | None, found: dict[tuple[str, str | None], list[Where]]
    ) -> None:
        loads, turn = facts.held_loads(value), facts.turned(value)
        if not loads:
            if value is not None:
                self._computed(facts, value, found)
        elif self._addressed(facts, loads, found):
            return
        elif turn is not None:
            if not _both_ways(facts, turn):
                key = (_LOADED, loads[0].array)
                found.setdefault(key, []).extend((turn, *loads, *(a.made for a in loads)))
        elif viewed := [a for a in loads if a.transposed]:
            key = (_VIEWED, loads[0].array)
            found.setdefault(key, []).extend((*viewed, *(a.made for a in viewed)))

    def _addressed(
        self, facts: Facts, loads: list[Access], found: dict[tuple[str, str | None], list[Where]]
    ) -> bool:
        swapped = [
            a for a in loads if _swapped(facts, a) or _fetched(facts, a) or self._reversed(facts, a)
        ]
        if swapped:
            made = [n for a in swapped for n in joined(facts, a)]
            found.setdefault((ADDRESSED, swapped[0].array), []).extend((*swapped, *made))
        return bool(swapped)

    def _computed(
        self, facts: Facts, value: str, found: dict[tuple[str, str | None], list[Where]]
    ) -> None:
        """What an operand is computed from element by element."""
        above = {*facts.graph.upstream(value, lambda n: n.op.kind in _STOPS)}
        loads = [a for a in facts.loads if a.node in above]
        if self._addressed(facts, loads, found):
            return
        for turn in sorted((n for n in above if n.op.kind in TURNS), key=lambda n: n.index):
            held = facts.held_loads(turn.op.inputs[0])
            if not _both_ways(facts, turn) and not _by_flag(facts, turn):
                key = (_LOADED, held[0].array) if held else (_RESULT, None)
                found.setdefault(key, []).extend((turn, *held))

    def _reversed(self, facts: Facts, access: Access) -> bool:
        """True when rows and columns have the strides that columns and rows have in a store."""
        down, across = _steps(access)
        return None not in (down, across) and any(
            _steps(store) == (across, down) for store in facts.stores
        )

    def _stored(self, facts: Facts, found: dict[tuple[str, str | None], list[Where]]) -> None:
        """A kernel that only moves data and turns it on the way."""
        for store in facts.stores:
            loads = [a for a in facts.feeding(store.value) if len(facts.types.shape(a.value)) > 1]
            swapped = bool(loads) and not facts.of_threads and _swapped(facts, store)
            if swapped and not any(_swapped(facts, a) for a in loads):
                made = joined(facts, store)
                found.setdefault((_PLACED, store.array), []).extend((*loads, *made, store))
            turn = facts.turned(store.value)
            loads = facts.held_loads(store.value)
            if turn is not None and loads:
                key = (_LOADED, loads[0].array)
                found.setdefault(key, []).extend((*loads, turn, store))
            elif turn is not None:
                found.setdefault((_RESULT, store.array), []).extend((turn, store))
        turns = [] if found else [n for n in facts.graph.of(*TURNS) if n.result]
        if turns:
            found[_RESULT, None] = [*turns]


def _both_ways(facts: Facts, turn: Node) -> bool:
    """True for a tile that another product, which runs as well, takes as it is: one tile for two
    uses."""
    tile = facts.graph.core(turn.op.inputs[0])
    return any(
        facts.graph.core(product.op.operand(role)) == tile and not product.excludes(turn)
        for product in facts.contractions
        for role in ("lhs", "rhs")
    )


def _by_flag(facts: Facts, turn: Node) -> bool:
    """True on one side of a branch on compile-time parameters with a product on either side: the
    tile itself is the other way round."""
    flagged = [b.node for b in branches(facts)]
    return any(
        guard in flagged and {p.branch for p in facts.contractions if p.parent is guard} == {0, 1}
        for guard in facts.guards(turn)
    )


def joined(facts: Facts, access: Access) -> list[Node]:
    """Where rows and columns come together in the pointers of an access."""
    return [
        node
        for node in facts.graph.upstream(access.base or "", lambda n: n.op.kind not in _POINTERS)
        if node.op.kind == OpKind.ADD
        and _both(facts.values.expr(node.result))
        and not any(_both(facts.values.expr(v)) for v in node.op.inputs[:2])
    ]


def _swapped(facts: Facts, access: Access) -> bool:
    """True when neighbours in memory lie below each other in the tile: the row lane counts single
    elements, the column lane a stride; or the row lane is on the last axis."""
    if access.mode is Mode.ELEMENT and len(access.index) > 1:
        places = facts.values.items(access.node.op.operand("index"))
        alone = [tuple(e == "1" for e in facts.types.shape(v)) for v in places[-2:]]
        return alone == [(True, False), (False, True)]
    if access.mode is not Mode.POINTER:
        return False
    for expr in nested(access.index[0]):
        strides: dict[str, list[bool]] = {}
        for factors, number in expr.terms:
            for lane in (atom for atom in factors if atom.kind is AtomKind.LANE):
                strides.setdefault(lane.value, []).append(number == 1 and len(factors) == 1)
        if strides.get("-2") == [True] and strides.get("-1") == [False]:
            return True
    return False


def _fetched(facts: Facts, access: Access) -> bool:
    """True when the row lane counts elements of a row and each column is found by a loaded number,
    perhaps one that is put in the place of an invalid one."""
    if access.mode is not Mode.POINTER or len(facts.types.shape(access.value)) != 2:
        return False
    lanes = [(a.value, f) for f, _ in access.index[0].terms for a in f if a.kind is AtomKind.LANE]
    places = [
        a
        for factors, _ in access.index[0].terms
        for a in factors
        if (a.kind is AtomKind.LOADED or _replaced(a)) and len(factors) > 1
    ]
    return [at for at, _ in lanes] == ["-2"] and any(
        len(facts.types.shape(a.value)) == 1 for a in places
    )


def _replaced(place: Atom) -> bool:
    """A loaded number or, where it is invalid, a constant."""
    loaded = [any(a.kind is AtomKind.LOADED for a in e.top()) for e in place.args]
    plain = [e.constant is not None for e in place.args]
    both = any(loaded) and all(a or b for a, b in zip(loaded, plain, strict=True))
    return place.kind is AtomKind.CHOICE and both


def _steps(access: Access) -> tuple[Expr | None, Expr | None]:
    """What rows and columns of a tile are multiplied with in the address, None where no one
    parameter is."""
    found: dict[str, Expr] = {}
    for factors, number in access.index[0].terms if access.mode is Mode.POINTER else ():
        lanes = [a.value for a in factors if a.kind is AtomKind.LANE]
        rest = tuple(a for a in factors if a.kind is not AtomKind.LANE)
        if len(lanes) == 1 and rest and lanes[0] not in found:
            found[lanes[0]] = Expr(((rest, number),))
    return found.get("-2"), found.get("-1")


def _both(expr: Expr) -> bool:
    """True for positions that run over rows and columns."""
    return {"-1", "-2"} <= {a.value for a in expr.atoms() if a.kind is AtomKind.LANE}

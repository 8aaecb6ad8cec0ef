"""What lanes outside an array read as."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, SOFTMAX
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from extractors.patterns.thread_guard import leaving_blocks, told_ways
from extractors.patterns.unmasked_accesses import unmasked_beside
from kb.analysis.accesses import BULK, Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons
from kb.analysis.padded import clamped_places, padded, set_past_the_end, unchecked_elements
from kb.evidence import Decision

_NOT_GIVEN = "masked load, other not given"
_VALUES = {
    "zero": "ZERO",
    "neg_inf": "NEG_INF",
    "undetermined": "UNDETERMINED (hardware default)",
    "pos_inf": "explicit value",
    "nan": "explicit value",
    "value": "explicit value",
}


_COPIED = (
    TILE
    + """
@ct.kernel
def copy(x, out, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(out, at, ct.gather(x, at))
"""
)
_LABEL = (
    TILE
    + """
@ct.kernel
def label(names, out):
    at = ct.bid(0)
    ct.scatter(out, (at,), ct.gather(names, (at,), padding_value=-100))
"""
)


_BESIDE = vary(
    _COPIED,
    ("(x, out, T: Int)", "(x, bias, out, T: Int, SHIFT: Bool)"),
    (
        "    ct.scatter(out, at, ct.gather(x, at))\n",
        "    v = ct.gather(x, at, padding_value=-math.inf)\n"
        "    if SHIFT:\n"
        "        v = v + ct.gather(bias, at, padding_value=0)\n"
        "    ct.scatter(out, at, v)\n",
    ),
)


_ONE_BESIDE = vary(
    _COPIED,
    ("(x, out, T: Int)", "(x, by, out, T: Int)"),
    ("ct.gather(x, at)", "ct.gather(x, at) * ct.gather(by, ct.bid(0), check_bounds=False)"),
)
_TABLE = (
    POINTER
    + """
@triton.jit
def turn(x, table, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    by = tl.load(table + at)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(out + row * n + at, v * by, mask=at < n)
"""
)


_RUNNING = (
    POINTER
    + """
@triton.jit
def grow(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=-float("inf"))
    tl.store(out + tl.program_id(0) * n + at, tl.cumsum(tl.where(at < n, v, 0.0), 0), mask=at < n)
"""
)
_FLAT_ROWS = (
    TILE
    + """
@ct.kernel
def total(x, out, N: Int, T: Int):
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, ct.bid(0) * N + at)
    ct.scatter(out, (ct.bid(0),), ct.sum(ct.where(at < N, v, 0.0), axis=0))
"""
)
_ROWS_PAST = (
    POINTER
    + """
@triton.jit
def tops(x, tops, n, W: tl.constexpr, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    at = rows[:, None] * W + tl.arange(0, W)[None, :]
    top = tl.max(tl.load(x + at, mask=(rows < n)[:, None], other=0.0), axis=1)
    tl.store(tops + rows, top)
"""
)
_LARGEST = vary(_FLAT_ROWS, ("v, 0.0", "v, -1.0e30"), ("ct.sum(", "ct.max("))
_BOUNDED = vary(
    _RUNNING,
    ('other=-float("inf")', "other=0.0"),
    ("    tl.store", "    v = tl.minimum(v + 1.0, 8.0)\n    tl.store"),
)


class PaddingPolicy(Pattern):
    """The padding of a load, or the other value of a masked load; none given is undetermined.

    One decision: what the largest tiles read, with what others read elsewhere, loads beside them
    that nothing checks or whose places are clamped, lanes past the end that a choice sets, stores
    under a mask, stored tiles and scattered elements that are clipped as the loads are, and what
    else threads ask of their positions.
    """

    name = "out-of-bounds-padding-policy"
    axis = "boundary_handling"
    source = "cuTile documentation, PaddingMode; Triton documentation, load: other"
    matches = (
        Case(ATTENTION, "UNDETERMINED (hardware default) (elsewhere ZERO)"),
        Case(PRODUCT, "ZERO"),
        Case(SOFTMAX, "NEG_INF"),
        Case(_COPIED, "ZERO"),
        Case(_LABEL, "explicit value"),
        Case(ATTENTION_POINTER, "masked load other="),
        Case(ADD_POINTER, "masked load, other not given"),
        Case(
            vary(ADD_POINTER, ("mask=inside) +", "mask=inside, other=None) +")),
            "masked load, other not given",
        ),
        Case(FLASH_THREADS, "masked load other="),
        Case(_BESIDE, "NEG_INF (elsewhere ZERO)"),
        Case(_ONE_BESIDE, "ZERO (elsewhere not checked)"),
        Case(_TABLE, "masked load other= (elsewhere not checked)"),
        Case(_RUNNING, "masked load other=neg_inf (elsewhere set by a choice)"),
        Case(_BOUNDED, "masked load other= (elsewhere set by a choice)"),
        Case(_FLAT_ROWS, "ZERO (elsewhere set by a choice)"),
        Case(
            vary(_TABLE, ("table + at)", "table + tl.minimum(at, n - 1))")),
            "masked load other= (elsewhere clamped inside)",
        ),
        Case(_LARGEST, "ZERO (elsewhere set by a choice)"),
        Case(_ROWS_PAST, "masked load other= (elsewhere not checked)"),
        Case(
            vary(_FLAT_ROWS, ("ct.where(at < N, v, 0.0)", "v * ct.astype(at < N, ct.float32)")),
            "ZERO (elsewhere set by a choice)",
        ),
        Case(
            vary(_TABLE, ("table + at)", "table + at, mask=at < n, other=1.0)")),
            "masked load other= (elsewhere other=value)",
        ),
    )
    near_misses = (
        NearMiss(
            vary(SOFTMAX, ("check_bounds=True", "check_bounds=False")),
            why="nothing is checked, so nothing is padded",
        ),
        NearMiss(
            vary(ADD_POINTER, (", mask=inside) +", ") +"), ("y + at, mask=inside)", "y + at)")),
            why="nothing is masked, so nothing is padded",
        ),
        NearMiss(
            vary(ADD_POINTER, ("mask=inside", "mask=None")), why="None is no mask, handed on or not"
        ),
        NearMiss(
            vary(_COPIED, ("ct.gather(x, at)", "ct.gather(x, at, check_bounds=False)")),
            why="nothing is checked, so nothing is padded",
        ),
        NearMiss(
            vary(_LABEL, (", padding_value=-100", "")), why="one element, no padding is given"
        ),
        NearMiss(
            vary(
                _COPIED,
                (
                    "ct.gather(x, at)",
                    "ct.gather(x, at, padding_value=-1) + ct.gather(x, 0, padding_value=0)",
                ),
            ),
            why="one element beside the tile, which is inside",
            value="ZERO",
        ),
        NearMiss(
            _FLAT_ROWS.replace("ct.where(at < N, v, 0.0)", "ct.where(v > 0.0, v, 0.0)"),
            why="values are chosen, no places",
            value="ZERO (elsewhere set by a choice)",
        ),
        NearMiss(
            vary(_TABLE, ("table + at)", "table + at % n)")),
            why="places in the table are kept inside",
            value="masked load other= (elsewhere not checked)",
        ),
        NearMiss(
            vary(_ROWS_PAST, ("tops + rows, top)", "tops + rows, top, mask=rows < n)")),
            why="all rows are checked",
            value="masked load other= (elsewhere not checked)",
        ),
        NearMiss(ADD_THREADS, why="lanes outside do not load at all"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = policies(facts)
        if not found:
            return
        loads = [a for some in found.values() for a in some]
        modes = {a.mode for a in loads}
        masked = any(a.mask is not None for a in loads)
        stores = [
            a
            for a in facts.stores
            if not a.is_atomic
            and (
                (a.mask is not None and masked)
                or clips_elements(facts, a)
                or (a.mode in modes and clips_tiles(facts, a))
            )
        ]
        beside = _beside(facts)
        where: list[Where] = [*loads, *stores, *leaving_blocks(facts)]
        where += [place for places in beside.values() for place in places]
        where += [n for a in [*loads, *stores] for n in comparisons(facts, a.mask)]
        where += [facts.graph.producer(facts.graph.core(a.check_bounds)) for a in loads]
        where += [n for nodes in told_ways(facts).values() for n in nodes]
        yield self.decide(facts, _told(facts, found, *beside), where)


def _beside(facts: Facts) -> dict[str, list[Where]]:
    """What else becomes of lanes outside, beside what loads read there, in a program of tiles."""
    if facts.of_threads:
        return {}
    found: dict[str, list[Where]] = {
        "not checked": [*unmasked_beside(facts), *unchecked_elements(facts)],
        "set by a choice": [*set_past_the_end(facts)],
        "clamped inside": [*clamped_places(facts)],
    }
    return {way: places for way, places in found.items() if places}


def policies(facts: Facts) -> dict[str, list[Access]]:
    """Padded loads by what they read outside."""
    found: dict[str, list[Access]] = {}
    for access in padded(facts):
        found.setdefault(_value(access), []).append(access)
    return found


def _told(facts: Facts, found: dict[str, list[Access]], *more: str) -> str:
    """What the largest tiles read outside, those of the first product before those behind it; in
    brackets what others read, and what else becomes of lanes outside."""

    def weight(value: str) -> tuple[bool, int, int, str]:
        some = found[value]
        rank = max(sum(e != "1" for e in facts.types.shape(a.value)) for a in some)
        return (not any(_ahead(facts, a) for a in some), -rank, -len(some), value)

    first, *rest = sorted(found, key=weight)
    beside = [value.removeprefix("masked load").strip(", ") for value in rest]
    beside += more
    return f"{first} (elsewhere {', '.join(beside)})" if beside else first


def _ahead(facts: Facts, access: Access) -> bool:
    """True for a load that does not come behind the loop of a product: no vector of its
    epilogue."""
    first = min((loop.node for loop, _ in facts.accumulators()), key=_place, default=None)
    return first is None or access.node.inside(first) or access.node.index < first.index


def _place(node: Node) -> int:
    return node.index


def clips_tiles(facts: Facts, access: Access) -> bool:
    """True for a stored tile of which a view, a descriptor or a block pointer writes what is
    inside."""
    if access.mode not in BULK:
        return False
    if access.mode is Mode.BLOCK_POINTER:
        return access.node.op.operand("boundary_check") is not None
    several = any(extent != "1" for extent in facts.types.shape(access.value))
    return several or access.mode is Mode.DESCRIPTOR


def clips_elements(facts: Facts, access: Access) -> bool:
    """True for elements that are scattered where the array is, and nowhere else."""
    if access.mode is not Mode.ELEMENT or access.mask is not None or not facts.checked(access):
        return False
    return any(extent != "1" for extent in facts.types.shape(access.value))


def _value(access: Access) -> str:
    if access.mode is Mode.POINTER:
        if access.padding == "undetermined":
            return _NOT_GIVEN
        return (
            "masked load other="
            if access.padding == "zero"
            else f"masked load other={access.padding}"
        )
    return _VALUES[access.padding]

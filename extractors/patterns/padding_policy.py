"""What lanes outside an array read as."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, SOFTMAX
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from extractors.patterns.unmasked_accesses import unmasked_beside
from kb.analysis.accesses import BULK, Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons
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


class PaddingPolicy(Pattern):
    """The padding of a load, or the other value of a masked load; none given is undetermined.

    One decision: what the largest tiles read, with what others read elsewhere, loads beside them
    that nothing checks, stores under a mask, and stored tiles and scattered elements that are
    clipped as the loads are.
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
        Case(FLASH_THREADS, "masked load other="),
        Case(_BESIDE, "NEG_INF (elsewhere ZERO)"),
        Case(_ONE_BESIDE, "ZERO (elsewhere not checked)"),
        Case(_TABLE, "masked load other= (elsewhere not checked)"),
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
            vary(_TABLE, ("table + at)", "table + at % n)")),
            why="places in the table are kept inside",
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
        bare = [] if facts.of_threads else [*unmasked_beside(facts), *_unchecked_beside(facts)]
        tests = [n for a in [*loads, *stores] for n in comparisons(facts, a.mask)]
        yield self.decide(facts, _told(facts, found, bare), [*loads, *stores, *tests, *bare])


def policies(facts: Facts) -> dict[str, list[Access]]:
    """Padded loads by what they read outside."""
    found: dict[str, list[Access]] = {}
    for access in padded(facts):
        found.setdefault(_value(access), []).append(access)
    return found


def _told(facts: Facts, found: dict[str, list[Access]], bare: list[Access]) -> str:
    """What the largest tiles read outside, those of the first product before those behind it; in
    brackets what others read, and that some are not checked."""

    def weight(value: str) -> tuple[bool, int, int, str]:
        some = found[value]
        rank = max(sum(e != "1" for e in facts.types.shape(a.value)) for a in some)
        return (not any(_ahead(facts, a) for a in some), -rank, -len(some), value)

    first, *rest = sorted(found, key=weight)
    beside = [value.removeprefix("masked load").strip(", ") for value in rest]
    beside += ["not checked"] if bare else []
    return f"{first} (elsewhere {', '.join(beside)})" if beside else first


def _unchecked_beside(facts: Facts) -> list[Access]:
    """Single elements that are loaded without the check which others have."""
    return [
        a
        for a in facts.loads
        if _by_element(a) and a.mask is None and not _several(facts, a) and _off(facts, a)
    ]


def _off(facts: Facts, access: Access) -> bool:
    return facts.values.literal(access.check_bounds) is False


def padded(facts: Facts) -> list[Access]:
    """Loads whose lanes outside the array read as something; a single element only where the
    program says as what, and beside padded tiles only where that is not zero, else it is inside or
    the program is wrong."""
    read = [a for a in facts.loads if a.padding and not _unchecked(facts, a)]
    wide = any(_several(facts, a) for a in read)
    alone = [a for a in read if _given(facts, a) and not (wide and a.padding == "zero")]
    return [a for a in read if _several(facts, a) or a in alone]


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


def _several(facts: Facts, access: Access) -> bool:
    """More than one element; of a pointer or by elements, a tile of one, too."""
    shape = facts.types.shape(access.value)
    return any(extent != "1" for extent in shape) if access.mode is Mode.TILE else bool(shape)


def _given(facts: Facts, access: Access) -> bool:
    """A single element with a padding of its own, under a check that is made."""
    padding = access.node.op.operand("padding")
    if access.mode is Mode.TILE:
        return bool(facts.types.shape(access.value)) and access.padding != "undetermined"
    return _by_element(access) and padding is not None and facts.checked(access)


def clips_elements(facts: Facts, access: Access) -> bool:
    """True for elements that are scattered where the array is, and nowhere else."""
    if not _by_element(access) or access.mask is not None or not facts.checked(access):
        return False
    return any(extent != "1" for extent in facts.types.shape(access.value))


def _by_element(access: Access) -> bool:
    return access.mode is Mode.ELEMENT


def _unchecked(facts: Facts, access: Access) -> bool:
    """True when the check of bounds of an access is off, or may be compiled out where the access
    gives no padding."""
    if _off(facts, access):
        return access.mask is None
    if not _by_element(access) or access.node.op.operand("padding") is not None:
        return False
    return access.mask is None and not facts.checked(access)


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

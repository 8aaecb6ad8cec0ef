"""Arrays that may lie in any order: every axis has a stride that is handed in."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER
from extractors.patterns.stride_set_shared import compared_with, given_strides, shared_strides
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision

_GIVEN = vary(
    PRODUCT_POINTER,
    ("sa, sb, so,", "sa, ta, sb, tb, so, to,"),
    ("m[:, None] * sa + k[None, :]", "m[:, None] * sa + k[None, :] * ta"),
    ("k[:, None] * sb + n[None, :]", "k[:, None] * sb + n[None, :] * tb"),
)
_BLOCKS = (
    POINTER
    + """
@triton.jit
def move(x, out, rows, cols, down, across, T: tl.constexpr):
    at = tl.make_block_ptr(x, (rows, cols), (down, across), (tl.program_id(0) * T, 0), (T, T), (1, 0))
    to = tl.make_block_ptr(out, (rows, cols), (cols, 1), (tl.program_id(0) * T, 0), (T, T), (1, 0))
    tl.store(to, tl.load(at, boundary_check=(0, 1)), boundary_check=(0, 1))
"""  # noqa: E501
)
_TABLE = vary(
    PRODUCT_POINTER,
    ("(a, b, out, M, N, K, sa, sb, so,", "(a, b, out, M, N, K, table,"),
    ("    k = tl.arange(0, TK)\n",
     "    k = tl.arange(0, TK)\n    sa = tl.load(table)\n    sb = tl.load(table + 1)\n    so = tl.load(table + 2)\n"),  # noqa: E501
)  # fmt: skip


class ArgumentStrides(Pattern):
    """Every axis of an array has a parameter as its stride, or rows of lanes are as far apart as a
    number that is loaded says."""

    name = "strides-of-every-axis-handed-in"
    axis = "layout_contract"
    source = "PyTorch documentation, tensor views: stride; Triton tutorial, Group GEMM"
    matches = (
        Case(_GIVEN, "strides as arguments"),
        Case(_BLOCKS, "strides as arguments"),
        Case(_TABLE, "strides loaded from memory"),
    )
    near_misses = (
        NearMiss(PRODUCT_POINTER, why="the numbers of a row lie side by side"),
        NearMiss(LAYER_NORM_POINTER, why="one stride for rows, columns lie side by side"),
        NearMiss(vary(_BLOCKS, ("(down, across)", "(cols, 1)")), why="strides follow the extents"),
        NearMiss(vary(_TABLE, ("sa = tl.load(table)", "sa = K"), ("sb = tl.load(table + 1)", "sb = N"), ("so = tl.load(table + 2)", "so = N")),  # noqa: E501
                 why="strides follow the extents"),
        NearMiss(ADD_POINTER, why="a flat array has no strides"),
        NearMiss(PRODUCT, why="views know their strides"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.program is not facts.source:
            return
        names = free_strides(facts)
        if not names <= shared_strides(facts):
            where: list[Where] = [*facts.declared(*names)]
            yield self.decide(facts, "strides as arguments", where, ", ".join(sorted(names)))
        loaded = dict.fromkeys(v for access in facts.accesses for v in _strides(facts, access)[1])
        bounds = {a.value for expr in compared_with(facts) for a in expr.atoms()}
        made = [facts.graph.producer(name) for name in loaded if name not in bounds]
        if made:
            yield self.decide(facts, "strides loaded from memory", made)


def free_strides(facts: Facts) -> set[str]:
    """Parameters that are strides of arrays of which every axis has one."""
    given = given_strides(facts)
    found: dict[str, set[str]] = {}
    dense: set[str | None] = set()
    for access in facts.accesses:
        if access.array is not None:
            named, _ = _strides(facts, access)
            found.setdefault(access.array, set()).update(named & given)
            dense |= {access.array} if _side_by_side(facts, access) else set()
    tiles = {a.array for a in facts.accesses if facts.types.shape(a.value)} - dense
    free = [strides for array, strides in found.items() if array in tiles]
    return {name for strides in free if len(strides) > 1 for name in strides}


def _side_by_side(facts: Facts, access: Access) -> bool:
    """True when neighbours along an axis of a tile are neighbours in memory."""
    if access.mode is Mode.POINTER:
        alone = [f[0] for index in access.index for f, _ in index.terms if len(f) == 1]
        return any(a.kind is AtomKind.LANE for a in alone)
    given = access.made.op.operand("strides") if access.made is not None else None
    return any(facts.values.expr(v).constant == 1 for v in facts.values.items(given))


def _strides(facts: Facts, access: Access) -> tuple[set[str], list[str]]:
    """Parameters that are strides of an access, and loaded numbers that are."""
    given = access.made.op.operand("strides") if access.made is not None else None
    steps = [facts.values.expr(v).atom for v in facts.values.items(given)]
    if access.mode is Mode.POINTER:
        products = [f for index in access.index for f, _ in index.terms if len(f) == 2]
        lanes = [f for f in products if any(a.kind is AtomKind.LANE for a in f)]
        steps = [a for f in lanes for a in f if a.kind is not AtomKind.LANE]
    atoms = [a for a in steps if a is not None]
    named = {a.value for a in atoms if a.kind is AtomKind.PARAMETER}
    return named | set(access.strides), [a.value for a in atoms if a.kind is AtomKind.LOADED]

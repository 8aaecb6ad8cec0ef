"""Where configurations are written, what leaves some out, what they run before a launch."""

from __future__ import annotations

import pytest

from tests.extractors.host.conftest import Read

TEXT = """import triton
import triton.language as tl
def fits(c):
    return c.kwargs['B'] * c.num_warps <= 512
def limit(b, w):
    return b * w
def fresh(nargs):
    nargs['X'].zero_()
{space}
@triton.autotune(configs={given}, key=['n'])
@triton.jit
def k(X, n, B: tl.constexpr):
    tl.store(X + tl.arange(0, B), n)
def run(x):
    k[(1,)](x, x.shape[0])
"""
LIST = """SPACE = [
    triton.Config({'B': b}, num_warps=w)
    for b in (64, 128) for w in (4, 8)
]"""
TESTED = LIST.replace("w in (4, 8)", "w in (4, 8) if limit(b, w) <= 512")
LOOP = """def space():
    found = []
    for b in (64, 128):
        for w in (4, 8):
            if limit(b, w) > 512:
                continue
            found.append(triton.Config({'B': b}, num_warps=w))
    return found"""
CHOSEN = LOOP.replace(
    "limit(b, w) > 512:\n                continue", "b > 64:\n                w = 2"
)
HOOK = LIST.replace("num_warps=w", "num_warps=w, pre_hook=fresh")
BOUND = """def space(hook=fresh):
    return [triton.Config({'B': b}, pre_hook=hook) for b in (64, 128)]"""

FITS, LIMIT, FRESH = (3, 4), (5, 6), (7, 8)


def lines(read: Read, space: str, given: str, axis: str) -> set[tuple[int, int]]:
    facts = read(TEXT.format(space=space, given=given))
    return {line for row in facts.decisions if row.axis == axis for line in row.lines}


@pytest.mark.parametrize(
    ("space", "given", "places"),
    [
        pytest.param(LIST, "list(filter(fits, SPACE))", {FITS}, id="filter"),
        pytest.param(TESTED, "SPACE", {LIMIT, (11, 11)}, id="test of a comprehension"),
        pytest.param(LOOP, "space()", {LIMIT, (13, 13)}, id="turn left out"),
        pytest.param(LIST, "SPACE", set(), id="near miss: nothing is left out"),
        pytest.param(CHOSEN, "space()", set(), id="near miss: a value is chosen"),
    ],
)
def test_what_leaves_configurations_out(
    read: Read, space: str, given: str, places: set[tuple[int, int]]
) -> None:
    found = lines(read, space, given, "search_pruning")
    assert places <= found
    assert bool(found) == bool(places)


@pytest.mark.parametrize(
    ("space", "given", "runs"),
    [
        pytest.param(HOOK, "SPACE", True, id="named"),
        pytest.param(BOUND, "space()", True, id="default of a parameter"),
        pytest.param(LIST, "SPACE", False, id="near miss: none"),
    ],
)
def test_what_configurations_run_first_belongs_to_the_search(
    read: Read, space: str, given: str, runs: bool
) -> None:
    assert (FRESH in lines(read, space, given, "autotuning")) == runs


@pytest.mark.parametrize("axis", ["num_warps", "tile_selection", "autotuning"])
def test_values_come_from_where_the_configurations_are_written(read: Read, axis: str) -> None:
    assert (9, 12) in lines(read, LIST, "SPACE", axis)


CALLED = (
    LOOP.replace("def space", "def large")
    + """
def space():
    return large()"""
)
MADE = CALLED.replace("return large()", "return [c for c in large() if limit(1, 2)]")


@pytest.mark.parametrize(
    ("space", "given", "places"),
    [
        pytest.param(CALLED, "space()", {(9, 16), (17, 18)}, id="a function calls the next"),
        pytest.param(MADE + "\nMADE = space()", "MADE", {(9, 16), (17, 18)}, id="kept in a name"),
    ],
)
def test_where_configurations_are_made(
    read: Read, space: str, given: str, places: set[tuple[int, int]]
) -> None:
    found = lines(read, space, given, "tile_selection")
    assert places <= found
    assert LIMIT not in found


def test_lines_of_another_file_are_not_told(read: Read) -> None:
    other = "import triton\n" + LOOP.replace("limit(b, w)", "b * w")
    text = TEXT.format(space="from pkg.spaces import space", given="space()")
    facts = read(text, pkg__spaces=other)
    rows = [row for row in facts.decisions if row.axis in ("num_warps", "autotuning")]
    assert {line for row in rows for line in row.lines} == {(10, 10)}


WARPS = "WARPS = [4, 8]"
IN_PLACE = "[triton.Config({'B': b}, num_warps=w) for b in (64, 128) for w in WARPS]"


def test_configurations_in_place_are_shown_beside_the_lists_they_are_made_of(read: Read) -> None:
    found = lines(read, WARPS, IN_PLACE, "tile_selection")
    assert {(9, 9), (10, 10)} <= found


EXHAUSTIVE = """import cuda.tile as ct
from cuda.tile.tune import exhaustive_search
from types import SimpleNamespace
SPACE = [SimpleNamespace(occ=o) for o in (1, 2)]
@ct.kernel
def k(x, T: ct.Constant[int]):
    ct.store(x, index=(0,), tile=ct.zeros((T,), dtype=ct.float32))
def run(x, stream):
    found = exhaustive_search(
        SPACE, stream, lambda c: (1,), k, lambda c: (x, 64), lambda c: {"occupancy": c.occ}
    )
    ct.launch(stream, (1,), k.replace_hints(occupancy=found.best.config.occ), (x, 64))
"""


def test_a_search_is_shown_with_the_table_it_goes_through(read: Read) -> None:
    rows = [row for row in read(EXHAUSTIVE).decisions if row.axis == "autotuning"]
    assert (4, 4) in rows[0].lines


WRAPPED = """import triton
import triton.language as tl
@triton.jit
def k(X, n, B: tl.constexpr):
    tl.store(X + tl.arange(0, B), n)
def start(kernel, x):
    kernel[(1,)](x, x.shape[0], B=64)
def run(x):
    start(k, x)
"""


def test_a_launch_through_a_function_shows_who_hands_the_kernel_over(read: Read) -> None:
    rows = [row for row in read(WRAPPED).decisions if row.axis == "autotuning"]
    assert {(7, 7), (9, 9)} <= set(rows[0].lines)

"""Where the values of a launch were made: names followed to assignments, callers and tables."""

from __future__ import annotations

import ast

import pytest

from extractors.host.origins import Origins
from extractors.host.row_hints import RowHint

TEXT = """\
LIMIT = 4096
def launch(x, tile):
    rows, cols = x.shape
    warps = 4 if cols < 2048 else 8
    x = x.view(-1, cols)
    kernel[(rows,)](x, cols, TILE=tile, num_warps=warps)

def entry(x):
    size = min(LIMIT, round_up(x.shape[1]))
    launch(x, tile=size)

def other(x):
    warps = 1
    with budget(5):
        found = search(x)
"""


@pytest.fixture(scope="module")
def origins() -> Origins:
    return Origins(ast.parse(TEXT))


@pytest.mark.parametrize(
    ("name", "position", "lines"),
    [
        pytest.param("num_warps", 9, ((4, 4),), id="in the function; another of that name is not"),
        pytest.param("TILE", 2, ((1, 1), (9, 9), (10, 10)), id="through the caller to the module"),
        pytest.param("x", 0, ((5, 5), (10, 10)), id="a reshaped argument"),
        pytest.param("cols", 1, (), id="an extent is no choice"),
    ],
)
def test_assignments(
    origins: Origins, name: str, position: int, lines: tuple[tuple[int, int], ...]
) -> None:
    call = origins.call_at((6, 6))
    assert call is not None
    found = origins.of(origins.argument(call, name, position))
    assert set(found) <= set(lines) if name == "x" else found == lines


def test_head_of_the_with_around_a_search(origins: Origins) -> None:
    assert origins.managed((15, 15)) == ((14, 14),)
    assert origins.managed((9, 9)) == ()


def test_what_a_function_gives_back_in_the_place_of_a_name() -> None:
    text = """\
SIZES = (16, 32)
def rule(n):
    if n < 8:
        warps = 4
    else:
        warps = 8
    return SIZES, warps
def run(x, n):
    sizes, warps = rule(n)
    k[(1,)](x, warps)
"""
    found = Origins(ast.parse(text))
    call = found.call_at((10, 10))
    assert found.of(found.argument(call, "warps", 1)) == ((4, 4), (6, 6), (9, 9))


def test_a_name_that_stands_for_itself_ends() -> None:
    loop = Origins(ast.parse("def f(a):\n    a = a + 1\n    k[(1,)](a)\n"))
    call = loop.call_at((3, 3))
    assert call is not None
    assert loop.of(call.args[0]) == ((2, 2),)


def test_a_function_that_hands_its_last_parameter_to_itself_ends() -> None:
    text = "def f(x, size):\n    f(x, size)\n    k[(1,)](x, size)\n"
    origins = Origins(ast.parse(text))
    call = origins.call_at((3, 3))
    assert call is not None
    assert origins.of(origins.argument(call, "size", 1)) == ((2, 2),)


ROWS = """\
def launch(grid, kernel, args):
    with device():
        ct.launch(stream(), grid, kernel, args)

def forward(x):
    size = round_up(x.shape[1])
    launch((1,), FORWARD, (x, x.shape[0], size))
    launch((1,), OTHER, (x, 7))

def backward(x):
    launch((1,), BACKWARD, (x, x.shape[1], 512))

def tuned(x):
    def row(config):
        return x, config.tile
    best = search(x)
    ct.launch(stream(), (1,), kernel, row(best))

def started(x):
    begin((x, 5), dict(size=64))
    begin((x, 6), {"other": 1})

def begin(args, options):
    kernel[(1,)](*args, **options)

def spread(x):
    held = (x, 4096)
    kernel[(1,)](*held)
"""


@pytest.mark.parametrize(
    ("line", "position", "hint", "given"),
    [
        pytest.param(3, 2, RowHint(3, ("forward", "launch")), "size", id="handed to a helper"),
        pytest.param(3, 1, RowHint(2, ("forward", "launch")), "7", id="a row of another length"),
        pytest.param(3, 2, RowHint(3, ("backward", "launch")), "512", id="another caller"),
        pytest.param(
            3,
            2,
            RowHint(3, ("forward", "backward", "launch"), "BACKWARD"),
            "512",
            id="the kernel beside the row",
        ),
        pytest.param(3, 2, RowHint(), None, id="nothing tells the callers apart"),
        pytest.param(17, 1, RowHint(2), "config.tile", id="a function gives the row"),
        pytest.param(28, 1, RowHint(2), "4096", id="a row that is spread"),
        pytest.param(24, 2, RowHint(3, ("started", "begin")), "64", id="a table handed in"),
    ],
)
def test_rows_of_arguments(line: int, position: int, hint: RowHint, given: str | None) -> None:
    origins = Origins(ast.parse(ROWS))
    call = origins.call_at((line, line))
    assert call is not None
    found = origins.argument(call, "size", position, hint)
    assert (None if found is None else ast.unparse(found)) == given


def test_functions_that_work_a_value_out() -> None:
    text = """\
def rule(n):
    size = round_up(n)
    return size, 4

def cached(n):
    return rule(n)

def host(x):
    size, warps = cached(x.shape[0])
"""
    origins = Origins(ast.parse(text))
    call = origins.call_at((9, 9))
    assert call is not None
    assert origins.worked_out(call) == {(6, 6), (3, 3), (2, 2)}
    assert origins.worked_out(call, 0) == {(6, 6)}

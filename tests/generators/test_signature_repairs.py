"""What a program says of two parameters together is true of the signatures that come last."""

from __future__ import annotations

import pytest

from generators.compile_model import Argument
from generators.signature_repairs import Repairs
from generators.signatures import candidates
from generators.usage import Usage
from tests.generators.test_signatures import CUTILE_HEAD, TRITON_HEAD, kernel

RANGE = """def k(a, W: tl.constexpr, ALL: tl.constexpr):
    rest = tl.arange(W, ALL)
    tl.store(a + rest, tl.load(a + rest) + 1.0)
"""
ASSERTED = """def k(a, K: tl.constexpr, B: tl.constexpr):
    tl.static_assert(K % (4 * B) == 0, "K in steps of 4 B")
    at = tl.arange(0, B)
    for i in range(K // (4 * B)):
        tl.store(a + i * B + at, tl.load(a + i * B + at) + 1.0)
"""
POWERS = """def k(out, start, step, n, base: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.exp2(base * (start + at * step)), mask=at < n)
"""
BYTES = """def k(a, b, c, B: tl.constexpr):
    at = tl.arange(0, B)
    place = at[:, None] * B + at[None, :]
    one = tl.full((1,), 1, dtype=tl.int8)
    right = tl.load(b + place).to(tl.int8) - one
    tl.store(c + place, tl.dot(tl.load(a + place), right, out_dtype=tl.int32))
"""
PADDED = """@ct.kernel
def k(a, c, B: ct.Constant[int]):
    at = ct.arange(B, dtype=ct.int32)
    x = ct.gather(a, at, padding_value=ct.float8_e4m3fn(0.0))
    ct.scatter(c, at, ct.astype(x, ct.float32))
"""
BLOCKS = """def order(b, n, s, d, layout: tl.constexpr):
    if layout == "bnsd":
        return [b, n, s, d]
    elif layout == "nsbd":
        return [n, s, b, d]
    else:
        raise ValueError("no such layout")

@triton.jit
def k(x, y, M: tl.constexpr, D: tl.constexpr, layout: tl.constexpr):
    row = tl.program_id(0)
    tile = tl.reshape(x.load(order(0, row, 0, 0, layout)), (M, D)) * 2.0
    y.store([row, 0, 0], tl.reshape(tile, (M, 1, D)))
"""
PAGES = """@ct.kernel
def k(cache, table, c, PAGES: ct.Constant[int], ROWS: ct.Constant[int], N: ct.Constant[int]):
    ids = ct.gather(table, ct.arange(PAGES, dtype=ct.int32))
    rows = ct.load_advanced_indexing(cache, (ids, ct.Slice(0, ROWS), ct.Slice(0, 16)))
    ct.store(c, index=(0, 0), tile=ct.reshape(rows, (N, 16)))
"""
PLAIN = """def k(a, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(a + at, tl.exp(tl.load(a + at, mask=at < n)), mask=at < n)
"""


def repaired(text: str) -> dict[str, Argument]:
    """Arguments of the first candidate after its repair, by name."""
    program = kernel(text)
    signature = Repairs(program, Usage(program)).repaired(next(iter(candidates(program))))
    return {argument.name: argument for argument in signature.arguments}


def test_a_range_of_lanes_has_lanes() -> None:
    found = repaired(TRITON_HEAD + RANGE)
    assert found["W"].value == 32
    assert found["ALL"].value == 64


def test_an_assertion_of_divisibility_holds() -> None:
    found = repaired(TRITON_HEAD + ASSERTED)
    assert int(str(found["K"].value)) % (4 * int(str(found["B"].value))) == 0


def test_what_reaches_a_function_of_floats_is_a_float() -> None:
    found = repaired(TRITON_HEAD + POWERS)
    assert [found[name].dtype for name in ("start", "step", "n")] == ["f32", "f32", "i32"]
    assert isinstance(found["base"].value, float)
    assert found["B"].value == 64


@pytest.mark.parametrize(
    ("text", "name", "dtype"),
    [
        pytest.param(TRITON_HEAD + BYTES, "a", "i8", id="partner of a matrix product"),
        pytest.param(CUTILE_HEAD + PADDED, "a", "f8e4m3", id="padding of a gather"),
    ],
)
def test_a_dtype_is_told_by_what_stands_beside(text: str, name: str, dtype: str) -> None:
    assert repaired(text)[name].dtype == dtype


def test_the_block_of_a_descriptor_has_the_shape_that_the_kernel_gives_it() -> None:
    found = repaired(TRITON_HEAD + BLOCKS)
    assert found["x"].shape == (1, 1, 64, 64)
    assert found["y"].shape == (64, 1, 64)


def test_rows_that_are_gathered_fill_the_tile_that_they_become() -> None:
    found = repaired(CUTILE_HEAD + PAGES)
    sizes = [int(str(found[name].value)) for name in ("PAGES", "ROWS", "N")]
    assert sizes[0] * sizes[1] == sizes[2]


def test_nothing_is_repaired_that_holds() -> None:
    program = kernel(TRITON_HEAD + PLAIN)
    found = list(candidates(program))
    repairs = Repairs(program, Usage(program))
    assert [repairs.repaired(signature) for signature in found] == found


def test_repaired_signatures_come_after_all_others() -> None:
    program = kernel(TRITON_HEAD + RANGE)
    widths = [
        [a.value for a in signature.arguments if a.name in ("W", "ALL")]
        for signature in candidates(program)
    ]
    good = [low < high for low, high in widths]  # type: ignore[operator]
    assert sorted(good) == good
    assert good[0] is False
    assert good[-1] is True


def test_integers_and_doubles_are_tried_when_no_common_float_fits() -> None:
    program = kernel(TRITON_HEAD + PLAIN)
    dtypes = [a.dtype for signature in candidates(program) for a in signature.arguments[:1]]
    assert dtypes[0] == "f16"
    assert dtypes[-2:] == ["i32", "f64"]

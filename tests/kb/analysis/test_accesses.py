"""Accesses of both dialects in one form."""

from __future__ import annotations

import pytest

from extractors.patterns import cases_rows
from kb.analysis.accesses import Mode
from tests.kb.analysis.support import facts, pointer, tile


def test_view_order_is_undone() -> None:
    found = tile(
        "x, A: Int, B: Int",
        "v = ct.load(x, index=(1, ct.bid(0)), shape=(A, B), order=(1, 0))",
        "ct.store(x, index=(0, 0), tile=v)",
    )
    load = found.loads[0]
    assert load.transposed
    assert [str(e) for e in load.index] == ["block(0)", "1"]
    assert load.shape == ("B", "A")
    assert found.types.shape(load.value) == ("A", "B")


@pytest.mark.parametrize(
    ("load", "padding"),
    [
        ("ct.load(x, index=(0,), shape=(T,))", "undetermined"),
        ("ct.load(x, index=(0,), shape=(T,), padding_mode=ct.PaddingMode.ZERO)", "zero"),
        ("ct.load(x, index=(0,), shape=(T,), padding_mode=ct.PaddingMode.NEG_INF)", "neg_inf"),
        ("ct.gather(x, ct.arange(T, dtype=ct.int32))", "zero"),
        ("ct.gather(x, ct.arange(T, dtype=ct.int32), padding_value=-math.inf)", "neg_inf"),
        ("ct.gather(x, ct.arange(T, dtype=ct.int32), padding_value=1.5)", "value"),
    ],
)
def test_padding_of_tiles(load: str, padding: str) -> None:
    found = tile("x, T: Int", f"ct.store(x, index=(0,), tile={load})")
    assert found.loads[0].padding == padding


@pytest.mark.parametrize(
    ("load", "padding"),
    [
        ("tl.load(x + a)", ""),
        ("tl.load(x + a, mask=a < n)", "undetermined"),
        ("tl.load(x + a, mask=a < n, other=0.0)", "zero"),
        ("tl.load(x + a, mask=a < n, other=-float('inf'))", "neg_inf"),
    ],
)
def test_padding_of_pointers(load: str, padding: str) -> None:
    found = pointer("x, y, n, T: tl.constexpr", "a = tl.arange(0, T)", f"tl.store(y + a, {load})")
    assert found.loads[0].padding == padding
    assert (found.loads[0].array, found.stores[0].array) == ("x", "y")


def test_offsets_are_told_from_bases() -> None:
    found = facts(cases_rows.LAYER_NORM_POINTER)
    assert {a.array for a in found.loads} == {"x", "w", "b"}
    assert {a.array for a in found.stores} == {"y", "mean_out", "rstd_out"}


def test_block_pointers_are_tiles() -> None:
    found = pointer(
        "x, y, M, N, s, T: tl.constexpr",
        "p = tl.make_block_ptr(x, shape=(M, N), strides=(s, 1), offsets=(tl.program_id(0) * T, 0),"
        " block_shape=(T, T), order=(1, 0))",
        "acc = tl.zeros((T, T), tl.float32)",
        "for k in range(0, N, T):",
        "    acc += tl.load(p, boundary_check=(0, 1), padding_option='zero')",
        "    p = tl.advance(p, (0, T))",
        "tl.store(y + tl.arange(0, T)[:, None] * T + tl.arange(0, T)[None, :], acc)",
    )
    load = found.loads[0]
    assert (load.mode, load.array, load.shape, load.padding) == (
        Mode.BLOCK_POINTER,
        "x",
        ("T", "T"),
        "zero",
    )
    assert found.stores[0].mode is Mode.POINTER

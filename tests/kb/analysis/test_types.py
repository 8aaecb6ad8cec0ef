"""Types: promotion, reductions, contractions."""

from __future__ import annotations

import pytest

from kb.analysis.facts import Facts
from tests.kb.analysis.support import pointer, tile


def last(found: Facts) -> tuple[str, tuple[str, ...]]:
    kind = found.types.of(found.stores[-1].value)
    return kind.dtype, kind.shape


@pytest.mark.parametrize(
    ("expression", "dtype", "shape"),
    [
        ("v", "dtypeof(x)", ("A", "B")),
        ("v.astype(ct.float32)", "f32", ("A", "B")),
        ("v * f", "f32", ("A", "B")),
        ("ct.sum(f, axis=1, keepdims=True)", "f32", ("A", "1")),
        ("ct.sum(f, axis=-1, keepdims=False)", "f32", ("A",)),
        ("ct.max(v, axis=0)", "dtypeof(x)", ("B",)),
        ("ct.transpose(v)", "dtypeof(x)", ("B", "A")),
        ("ct.mma(v, ct.transpose(v), ct.full((A, A), 0.0, dtype=ct.float32))", "f32", ("A", "A")),
        ("v < f", "i1", ("A", "B")),
        ("ct.where(v < f, f, 0.0)", "f32", ("A", "B")),
        ("ct.sum(f, axis=1)[:, None]", "f32", ("A", "1")),
    ],
)
def test_tiles(expression: str, dtype: str, shape: tuple[str, ...]) -> None:
    found = tile(
        "x, A: Int, B: Int",
        "v = ct.load(x, index=(0, 0), shape=(A, B))",
        "f = ct.full((A, B), 0.0, dtype=ct.float32)",
        f"ct.store(x, index=(0, 0), tile={expression})",
    )
    assert last(found) == (dtype, shape)


def test_maximum_widens_where_the_dialect_does() -> None:
    lines = ("v = tl.load(x + tl.arange(0, T))", "tl.store(x, tl.max(v, 0))")
    assert last(pointer("x, T: tl.constexpr", *lines)) == ("f32", ())


def test_what_is_scanned_or_reduced_together_has_a_type_each() -> None:
    lines = (
        "at = tl.arange(0, T)",
        "v = tl.load(x + at)",
        "a, b = tl.associative_scan((v, at), 0, f)",
        "c, d = tl.reduce((v, at), 0, f)",
        "tl.store(x + b, a)",
        "tl.store(x + d, c)",
    )
    found = pointer("x, f: tl.constexpr, T: tl.constexpr", *lines)
    kinds = [found.types.of(s.value) for s in found.stores]
    assert [(k.dtype, k.shape) for k in kinds] == [("dtypeof(x)", ("T",)), ("dtypeof(x)", ())]


def test_a_descriptor_of_the_host_has_an_axis_per_offset() -> None:
    lines = ("v = x.load([0, tl.program_id(0)])", "x.store([0, 0], v * 2)")
    assert last(pointer("x, T: tl.constexpr", *lines)) == ("dtypeof(x)", ("?", "?"))


def test_a_product_of_tiles_without_a_shape_has_the_shape_of_its_sum() -> None:
    found = pointer(
        "x, y, T: tl.constexpr",
        "acc = tl.zeros([T, T], dtype=tl.float32)",
        "x.store([0, 0], tl.dot(x.load([0, 0]), y.load([0, 0]), acc))",
    )
    assert last(found) == ("f32", ("T", "T"))


@pytest.mark.parametrize(
    ("expression", "dtype", "shape"),
    [
        ("v.to(tl.float32) / n", "f32", ("T",)),
        ("n * v.to(tl.float32)", "f32", ("T",)),
        ("v.to(tl.float32) - n", "f32", ("T",)),
        ("tl.sum(v.to(tl.float32), 0) / n", "f32", ()),
        ("v * n", "dtypeof(x)", ("T",)),
    ],
)
def test_a_parameter_that_is_computed_with_is_a_number(
    expression: str, dtype: str, shape: tuple[str, ...]
) -> None:
    found = pointer(
        "x, n, T: tl.constexpr",
        "at = tl.arange(0, T)",
        "v = tl.load(x + at)",
        f"tl.store(x + at, {expression})",
    )
    assert last(found) == (dtype, shape)


def test_a_product_of_parameters_moves_the_pointer_that_it_is_added_to() -> None:
    found = pointer(
        "x, n, T: tl.constexpr",
        "at = tl.program_id(0) * n + x + tl.arange(0, T)",
        "tl.store(at, tl.load(at))",
    )
    assert last(found) == ("dtypeof(x)", ("T",))

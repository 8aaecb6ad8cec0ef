"""Signatures come from how values are used, never from names."""

from __future__ import annotations

import pytest

from extractors.modules import ModuleText
from extractors.read import read
from generators.compile_model import Argument, ArgumentKind
from generators.signatures import MAX_CANDIDATES, MAX_REPAIRED, candidates
from kb.ir import Kernel
from kb.space import GuardedPoints, Tuning

TRITON_HEAD = "import triton\nimport triton.language as tl\n\n@triton.jit\n"
CUTILE_HEAD = "import cuda.tile as ct\n\n"


def kernel(text: str) -> Kernel:
    """The last kernel of a text."""
    return read(ModuleText("", "k.py", text)).kernels[-1]


def first(text: str) -> dict[str, Argument]:
    """Arguments of the first candidate, by name."""
    signature = next(iter(candidates(kernel(text))))
    return {argument.name: argument for argument in signature.arguments}


ROWS = """def k(a, b, c, d, e, f: tl.constexpr, g: tl.constexpr):
    at = tl.program_id(0) * c + tl.arange(0, f)
    m = at < d
    x = tl.load(a + at, mask=m, other=0.0)
    if g:
        x = x * e
    tl.store(b + at, x, mask=m)
"""
GATHERED = """def k(a, b, c, n, W: tl.constexpr):
    at = tl.arange(0, W)
    row = tl.load(a + at, mask=at < n)
    tl.store(c + at, tl.load(b + row))
"""
CHOSEN = """def k(a, s: tl.constexpr, t: tl.constexpr, W: tl.constexpr):
    at = tl.arange(0, W)
    x = tl.load(a + at)
    if s == "mean":
        x = x * 0.5
    for i in tl.static_range(t):
        x = x + 1.0
    tl.store(a + at, x)
"""
STAGED = """def k(a, s: tl.constexpr, W: tl.constexpr):
    x = tl.load(a + tl.arange(0, W))
    if s & 1:
        x = x * 0.5
    if s & 2:
        x = x + 1.0
    tl.store(a + tl.arange(0, W), x)
"""
PARTED = """def k(a, b, c, d, W: tl.constexpr, P: tl.constexpr):
    at = tl.arange(0, W // P)
    slot = tl.atomic_add(c + at, 1)
    tl.store(b + slot, tl.load(a + at))
"""
COUNTED = """def k(a, b, n, W: tl.constexpr):
    total = 0
    for i in range(0, n, W):
        total += tl.sum(tl.load(a + i + tl.arange(0, W)))
    tl.store(b, total)
"""


@pytest.mark.parametrize(
    ("text", "name", "kind", "dtype"),
    [
        pytest.param(ROWS, "a", ArgumentKind.POINTER, "f16", id="loaded from"),
        pytest.param(ROWS, "b", ArgumentKind.POINTER, "f16", id="stored to"),
        pytest.param(ROWS, "c", ArgumentKind.SCALAR, "i32", id="part of an address"),
        pytest.param(ROWS, "d", ArgumentKind.SCALAR, "i32", id="compared with an offset"),
        pytest.param(ROWS, "e", ArgumentKind.SCALAR, "f32", id="multiplies a float"),
        pytest.param(GATHERED, "a", ArgumentKind.POINTER, "i32", id="loaded values are offsets"),
        pytest.param(GATHERED, "b", ArgumentKind.POINTER, "f16", id="gathered from"),
        pytest.param(PARTED, "c", ArgumentKind.POINTER, "i32", id="counts that are offsets"),
        pytest.param(COUNTED, "a", ArgumentKind.POINTER, "i32", id="summed into a whole number"),
    ],
)
def test_triton_arguments(text: str, name: str, kind: ArgumentKind, dtype: str) -> None:
    found = first(TRITON_HEAD + text)[name]
    assert (found.kind, found.dtype) == (kind, dtype)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        pytest.param(ROWS, "f", 64, id="extent"),
        pytest.param(ROWS, "g", True, id="condition"),
        pytest.param(CHOSEN, "s", "mean", id="word that it is compared with"),
        pytest.param(STAGED, "s", 3, id="bits that conditions look at"),
        pytest.param(PARTED, "W", 64, id="extent that is parted"),
        pytest.param(PARTED, "P", 2, id="number of parts"),
        pytest.param(CHOSEN, "t", 4, id="unrolled loop stays short"),
    ],
)
def test_constants(text: str, name: str, value: object) -> None:
    assert first(TRITON_HEAD + text)[name].value == value


LOADED = """def inner(p, q, i, j):
    return ct.load(p, index=(i, j), shape=(q, q))

@ct.kernel
def k(a, b, c, d, e, f, W: ct.Constant[int]):
    x = inner(a, W, ct.bid(0), ct.bid(1))
    acc = ct.mma(x, x, ct.full((W, W), 0.0, dtype=ct.float32))
    ct.store(b, index=(ct.bid(0), ct.bid(1)), tile=acc)
    ct.scatter(c, ct.arange(W, dtype=ct.int32), ct.sum(acc, axis=1).astype(c.dtype))
    ct.store(d, index=ct.bid(0), tile=ct.load(e, ct.bid(1), shape=()))
    ct.scatter(f, (), ct.bid(0))
"""


@pytest.mark.parametrize(
    ("name", "rank", "dtype"),
    [
        pytest.param("a", 2, "f16", id="rank through a helper"),
        pytest.param("b", 2, "f32", id="stored without a cast"),
        pytest.param("c", 1, "f16", id="stored with a cast to its own type"),
        pytest.param("e", 1, "f16", id="a tile of no axes"),
        pytest.param("f", 0, "i32", id="an index of no axes"),
    ],
)
def test_cutile_arrays(name: str, rank: int, dtype: str) -> None:
    found = first(CUTILE_HEAD + LOADED)[name]
    assert (found.kind, found.rank, found.dtype) == (ArgumentKind.ARRAY, rank, dtype)


def test_candidates_are_few_and_different() -> None:
    found = list(candidates(kernel(TRITON_HEAD + ROWS)))
    assert 1 < len(found) <= MAX_CANDIDATES + MAX_REPAIRED
    assert len(set(found)) == len(found)


def test_the_smallest_tuning_point_comes_first() -> None:
    points = ((("f", 256), ("num_warps", 8)), (("f", 32), ("num_warps", 2)))
    tuning = Tuning(spaces=(GuardedPoints(when="always", points=points),))
    signature = next(iter(candidates(kernel(TRITON_HEAD + ROWS), tuning)))
    assert {a.name: a.value for a in signature.arguments}["f"] == 32
    assert signature.options == (("num_warps", 2),)

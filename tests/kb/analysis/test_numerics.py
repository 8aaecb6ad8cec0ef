"""The numerics class of a tuned value: each rule with a case and its near miss, both dialects."""

from __future__ import annotations

import pytest

from kb.analysis.facts import Facts
from kb.analysis.numerics import AxisClass, hint_numerics, numerics_of
from kb.analysis.numerics_rules import parameter_numerics
from kb.evidence import Numerics
from kb.graph.axis_numerics import axis_classes
from kb.graph.vocabulary import axes
from kb.knowledge import ParameterFact, ParameterRole
from kb.space import Binding, GuardedPoints, Launch, Tuning
from tests.kb.analysis.support import pointer, tile

S, C, U = Numerics.STABLE, Numerics.CHANGES, Numerics.UNKNOWN

MAP = pointer(
    "x, y, n, T: tl.constexpr",
    "i = tl.program_id(0) * T + tl.arange(0, T)",
    "tl.store(y + i, tl.load(x + i, mask=i < n).to(tl.float32) * 2, mask=i < n)",
)
SUM = pointer(
    "x, y, n, T: tl.constexpr",
    "i = tl.arange(0, T)",
    "tl.store(y, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))",
)
MAXIMUM = pointer(
    "x, y, n, T: tl.constexpr",
    "i = tl.arange(0, T)",
    "tl.store(y, tl.max(tl.load(x + i, mask=i < n, other=0.0)))",
)
COUNT = pointer(
    "x, y, n, T: tl.constexpr",
    "i = tl.arange(0, T)",
    "tl.store(y, tl.sum((i < n).to(tl.int32)))",
)
ROWS = tile(
    "x, y, T: Int, W: Int",
    "t = ct.load(x, index=(ct.bid(0), 0), shape=(T, W))",
    "ct.store(y, index=(ct.bid(0),), tile=ct.sum(t, axis=1))",
)
LOOP = pointer(
    "x, y, n, T: tl.constexpr",
    "acc = tl.zeros((16,), tl.float32)",
    "for j in range(0, n, T):",
    "    acc += tl.load(x + j + tl.arange(0, 16))",
    "tl.store(y + tl.arange(0, 16), acc)",
)
STRIDING = pointer(
    "x, y, n, T: tl.constexpr",
    "for j in range(tl.program_id(0) * 16, n, T * 16):",
    "    i = j + tl.arange(0, 16)",
    "    tl.store(y + i, tl.load(x + i) * 2)",
)
SHARED = pointer(
    "x, y, n, T: tl.constexpr",
    "acc = tl.zeros((16,), tl.float32)",
    "p = tl.program_id(0)",
    "for j in range(p * T, min(p * T + T, n)):",
    "    acc += tl.load(x + j * 16 + tl.arange(0, 16))",
    "tl.store(y + p * 16 + tl.arange(0, 16), acc)",
)
LIMITED = pointer(
    "x, y, n, T: tl.constexpr",
    "acc = tl.zeros((T,), tl.float32)",
    "p = tl.program_id(0)",
    "row = p * T + tl.arange(0, T)",
    "for j in range(0, (p + 1) * T):",
    "    acc += tl.where(row >= j, tl.load(x + row * n + j), 0.0)",
    "tl.store(y + row, acc)",
)
SCALED = pointer(
    "x, s, y, n, T: tl.constexpr",
    "p = tl.program_id(0)",
    "i = p * T + tl.arange(0, T)",
    "tl.store(y + i, tl.load(x + i) * tl.load(s + p))",
)
ARITHMETIC = pointer(
    "x, y, n, T: tl.constexpr",
    "i = tl.arange(0, 16)",
    "tl.store(y + i, tl.load(x + i).to(tl.float32) / T)",
)
ADVANCED = pointer(
    "x, y, n, T: tl.constexpr",
    "p = x + tl.arange(0, 16)",
    "q = y + tl.arange(0, 16)",
    "for j in range(0, 4):",
    "    tl.store(q, tl.load(p).to(tl.float32) * 2)",
    "    p += T * n",
    "    q += T * n",
)
POSITION = pointer(
    "x, y, n, T: tl.constexpr",
    "i = tl.program_id(0) * T + tl.arange(0, T)",
    "tl.store(y + i, tl.load(x + i).to(tl.float32) * i)",
)
ATOMIC = pointer(
    "x, y, n, T: tl.constexpr",
    "i = tl.program_id(0) * T + tl.arange(0, T)",
    "tl.atomic_add(y + i % 8, tl.load(x + i).to(tl.float32))",
)
COUNTED = pointer(
    "x, y, n, T: tl.constexpr",
    "i = tl.program_id(0) * T + tl.arange(0, T)",
    "tl.store(x + i, tl.load(x + i).to(tl.float32))",
    "tl.atomic_add(y, 1)",
)
BRANCH = pointer(
    "x, y, n, T: tl.constexpr",
    "i = tl.arange(0, 16)",
    "v = tl.load(x + i).to(tl.float32)",
    "if T > 64:",
    "    v = tl.exp2(v * 1.5)",
    "else:",
    "    v = tl.exp(v)",
    "tl.store(y + i, v)",
)
MASKED = pointer(
    "x, y, n, T: tl.constexpr",
    "i = tl.arange(0, 16)",
    "v = tl.load(x + i).to(tl.float32)",
    "if n % T != 0:",
    "    v = tl.where(i < n, v, 0.0)",
    "tl.store(y + i, v)",
)
PRODUCT = tile(
    "a, b, c, M: Int, N: Int, K: Int",
    "acc = ct.full((M, N), 0, ct.float32)",
    "for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):",
    "    x = ct.load(a, index=(ct.bid(0), k), shape=(M, K))",
    "    acc = ct.mma(x, ct.load(b, index=(k, ct.bid(1)), shape=(K, N)), acc)",
    "ct.store(c, index=(ct.bid(0), ct.bid(1)), tile=acc)",
)
OPAQUE = pointer(
    "x, y, n, T: tl.constexpr",
    "i = tl.program_id(0) * T + tl.arange(0, T)",
    "tl.store(y + i, mystery(tl.load(x + i)))",
    helpers="from elsewhere import mystery\n",
)


@pytest.mark.parametrize(
    ("facts", "name", "numerics"),
    [
        pytest.param(MAP, "T", S, id="block of a map"),
        pytest.param(SUM, "T", C, id="extent of a sum"),
        pytest.param(MAXIMUM, "T", S, id="extent of a maximum"),
        pytest.param(COUNT, "T", S, id="extent of a sum of integers"),
        pytest.param(ROWS, "W", C, id="summed axis of a tile"),
        pytest.param(ROWS, "T", U, id="other axis of a summed tile: layout"),
        pytest.param(LOOP, "T", C, id="step of a loop that sums"),
        pytest.param(STRIDING, "T", S, id="step of a loop that maps"),
        pytest.param(SHARED, "T", C, id="blocks share out a sum"),
        pytest.param(LIMITED, "T", S, id="a limit that follows the rows of a block"),
        pytest.param(SCALED, "T", C, id="one scale per tile"),
        pytest.param(ARITHMETIC, "T", C, id="the value itself is divided by"),
        pytest.param(ADVANCED, "T", S, id="addresses move on by it"),
        pytest.param(POSITION, "T", S, id="a position is multiplied by"),
        pytest.param(ATOMIC, "T", C, id="atomic sum of floats"),
        pytest.param(COUNTED, "T", S, id="atomic count"),
        pytest.param(BRANCH, "T", U, id="a branch that rounds"),
        pytest.param(MASKED, "T", S, id="a branch that masks"),
        pytest.param(PRODUCT, "K", C, id="contracted extent"),
        pytest.param(PRODUCT, "M", S, id="rows of a product"),
        pytest.param(PRODUCT, "N", S, id="columns of a product"),
        pytest.param(OPAQUE, "T", U, id="an operation that is not understood"),
        pytest.param(MAP, "n", S, id="a bound of a mask"),
    ],
)
def test_class(facts: Facts, name: str, numerics: Numerics) -> None:
    found = parameter_numerics(facts, name)
    assert found.numerics is numerics, found.reason
    assert found.reason.endswith(".")
    assert bool(found.lines) is (numerics is not S)


def launched(grid: str, **bound: str) -> Launch:
    bindings = tuple(Binding(parameter=name, expression=text) for name, text in bound.items())
    return Launch(grid=(grid,), bindings=bindings, hints=(), lines=(1, 1))


PARTS = pointer(
    "x, y, n, parts: tl.constexpr, T: tl.constexpr",
    "acc = tl.zeros((16,), tl.float32)",
    "for j in range(0, n, parts):",
    "    acc += tl.load(x + j + tl.arange(0, 16))",
    "tl.store(y + tl.arange(0, 16), acc)",
)
SPREAD = pointer(
    "x, y, n, T: tl.constexpr",
    "acc = tl.zeros((16,), tl.float32)",
    "for j in range(tl.program_id(0), n, tl.num_programs(0)):",
    "    acc += tl.load(x + j * 16 + tl.arange(0, 16))",
    "tl.store(y + tl.program_id(0) * 16 + tl.arange(0, 16), acc)",
)


@pytest.mark.parametrize(
    ("facts", "launch", "numerics"),
    [
        pytest.param(PARTS, launched("1", parts="cdiv(n, T)"), C, id="the host hands it on"),
        pytest.param(PARTS, launched("1", parts="4"), S, id="the host does not"),
        pytest.param(SPREAD, launched("cdiv(n, T)"), C, id="it sets the grid that strides"),
        pytest.param(SPREAD, launched("64"), S, id="it does not"),
    ],
)
def test_class_with_host(facts: Facts, launch: Launch, numerics: Numerics) -> None:
    found = parameter_numerics(facts, "T", (launch,))
    assert found.numerics is numerics, found.reason


@pytest.mark.parametrize(
    ("facts", "hint", "numerics"),
    [
        pytest.param(SUM, "num_warps", C, id="warps share a sum"),
        pytest.param(MAP, "num_warps", S, id="warps share a map"),
        pytest.param(PRODUCT, "num_warps", U, id="warps share a matrix product"),
        pytest.param(SUM, "num_stages", S, id="stages"),
        pytest.param(SUM, "occupancy", S, id="occupancy"),
        pytest.param(ROWS, "num_ctas", C, id="blocks of a cluster share a sum"),
        pytest.param(MAP, "num_ctas", S, id="blocks of a cluster share a map"),
        pytest.param(ATOMIC, "occupancy", C, id="occupancy where atomics add"),
        pytest.param(COUNTED, "occupancy", S, id="occupancy where atomics count"),
    ],
)
def test_hint(facts: Facts, hint: str, numerics: Numerics) -> None:
    found = hint_numerics(facts, hint, axis_classes()[hint])
    assert found.numerics is numerics, found.reason


def test_every_tuned_name_has_a_class() -> None:
    tuning = Tuning(
        spaces=(GuardedPoints(when="always", points=((("T", 16), ("num_warps", 4)),)),),
        effective_axes=("T", "num_warps"),
        dead_axes=("num_stages",),
        launched_with=(("mystery", 1),),
    )
    sizes = (ParameterFact(name="T", kind="constexpr", role=ParameterRole.TILE_SIZE),)
    rows = numerics_of(SUM, tuning, sizes, (), axis_classes())
    assert [(row.name, row.numerics) for row in rows] == [
        ("T", C), ("num_warps", C), ("mystery", U), ("num_stages", S),
    ]  # fmt: skip


def test_every_axis_of_the_ontology_has_a_class() -> None:
    known = axis_classes()
    assert {axis.name for axis in axes().values()} <= set(known)
    assert {known[name].numerics for name in axes()} == {S, C, U}
    assert isinstance(known["num_warps"], AxisClass)

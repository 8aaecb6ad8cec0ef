"""`--bitwise-stable`: a space held to the axes that cannot change bits, and settings refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.extract import extract_file
from kb.dsl.bitwise import Bitwise
from kb.dsl.from_knowledge import knowledge_document
from kb.dsl.model import Document
from kb.dsl.reader import read
from kb.dsl.writer import write
from kb.errors import ConstraintViolated
from kb.evidence import Numerics
from kb.graph.axis_numerics import axis_classes
from kb.graph.terms import vocabulary

SOURCE = """
import triton
import triton.language as tl

@triton.autotune(
    configs=[triton.Config({"ROWS": r, "T": t}, num_stages=s) for r in (1, 2) for t in (32, 64)
             for s in (2, 3)],
    key=["n"],
)
@triton.jit
def total(x, y, n, ROWS: tl.constexpr, T: tl.constexpr):
    for r in range(ROWS):
        row = tl.program_id(0) * ROWS + r
        acc = tl.zeros((T,), tl.float32)
        for j in range(0, n, T):
            i = j + tl.arange(0, T)
            acc += tl.load(x + row * n + i, mask=i < n, other=0.0)
        tl.store(y + row, tl.sum(acc))

def host(x, y):
    grid = lambda meta: (triton.cdiv(x.shape[0], meta["ROWS"]),)
    total[grid](x, y, x.shape[1])
"""


@pytest.fixture
def document(tmp_path: Path) -> Document:
    path = tmp_path / "total.py"
    path.write_text(SOURCE)
    (kernel,) = extract_file(path).kernels
    return knowledge_document(kernel)


def test_a_space_keeps_the_axes_that_cannot_change_bits(document: Document) -> None:
    held = Bitwise(document, axis_classes()).restricted()
    assert held.axis("ROWS").values == (1, 2)
    assert held.axis("num_stages").values[:2] == (2, 3)
    assert held.axis("T").values == (32,)
    assert held.tuning is not None
    assert document.tuning is not None
    (before,), (after,) = document.tuning.spaces, held.tuning.spaces
    assert (len(before.points), len(after.points)) == (8, 4)
    assert {dict(point)["T"] for point in after.points} == {32}
    assert read(write(held), vocabulary(), where="held").document == held


@pytest.mark.parametrize(
    ("name", "numerics"),
    [
        pytest.param("ROWS", Numerics.STABLE, id="rows per block"),
        pytest.param("T", Numerics.CHANGES, id="extent of a sum"),
        pytest.param("num_stages", Numerics.STABLE, id="a hint"),
        pytest.param("num_warps", Numerics.CHANGES, id="a hint that shapes the sum"),
        pytest.param("rasterization", Numerics.STABLE, id="a design axis"),
        pytest.param("accum_dtype", Numerics.CHANGES, id="a design axis that rounds"),
        pytest.param("mystery", Numerics.UNKNOWN, id="no such name"),
    ],
)
def test_a_setting_is_taken_or_refused(document: Document, name: str, numerics: Numerics) -> None:
    bits = Bitwise(document, axis_classes())
    assert bits.of(name).numerics is numerics
    if numerics is Numerics.STABLE:
        bits.require([name])
        return
    with pytest.raises(ConstraintViolated) as refused:
        bits.require(["ROWS", name])
    assert numerics.value in refused.value.message
    assert refused.value.exit_code == 1

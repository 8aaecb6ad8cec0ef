"""What Triton cannot say is listed beside the kernel, with what becomes of it."""

from __future__ import annotations

import pytest

from api.generate import generate
from generators.lower.roads import Manner, Road
from generators.lower.triton import to_triton
from tests.api.design_documents import attention
from tests.generators.reference.sources import cutile

KERNEL = cutile("""
@ct.kernel(occupancy=2, num_ctas=1)
def k(X, Y, Out, n: int, N: ConstInt):
    acc = ct.full((N, 64), 0.0, dtype=ct.float32)
    for j in range(ct.num_tiles(X, axis=0, shape=(N, 64))):
        x = ct.load(X, index=(j, 0), shape=(N, 64), latency=4)
        y = ct.load(Y, index=(j, 0), shape=(N, 64), allow_tma=True,
                    padding_mode=ct.PaddingMode.ZERO)
        if j >= n:
            x = x * 2.0
        acc = acc + ct.exp2(x, flush_to_zero=True) + y
    acc = ct.truediv(acc, 3.0, rounding_mode=ct.RoundingMode.APPROX)
    ct.store(Out, index=(0, 0), tile=acc)
""")
NOTES = {
    "prefetch_depth: latency=4": "open again as num_stages",
    "boundary_handling: undetermined padding": "became zero",
    "copy_engine: allow_tma=True": "open again as access_mode",
    "denormal_mode: ftz=True": "dropped",
    "rounding_mode: rounding=rounding.approx": "dropped",
    "loop_structure: the loop that": "written as two",
    "occupancy: kernel hint 2": "open again as occupancy",
    "num_ctas: kernel hint 1": "open again as num_ctas",
}


@pytest.mark.parametrize(("start", "fate"), NOTES.items())
def test_what_becomes_of_it(start: str, fate: str) -> None:
    found = [note for note in to_triton(KERNEL).residuals if note.startswith(start)]
    assert found, to_triton(KERNEL).residuals
    assert all(fate in note for note in found)


def test_a_descriptor_answers_for_the_copy_engine() -> None:
    notes = to_triton(KERNEL, Manner(road=Road.DEVICE)).residuals
    assert not [note for note in notes if note.startswith("copy_engine")]
    assert [note for note in notes if note.startswith("boundary_handling")]


@pytest.mark.parametrize("site", ["host", "device"])
def test_the_generated_file_lists_them(site: str) -> None:
    text = generate(attention(), "triton", {"descriptor_site": site})
    listed = text[text.index("Left open") : text.index("import torch")]
    assert "operand_layout: `transpose in the load view (order=)` is" in listed

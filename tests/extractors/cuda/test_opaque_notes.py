"""What the CUDA reader does not understand is told, with the table that a row is missing in."""

from __future__ import annotations

from extractors.cuda.read import read_cuda
from extractors.opaque import MAX_NOTES
from kb.dialects.cuda import CUDA


def notes(calls: int) -> list[str]:
    lines = "\n".join(f"  o[{i}] = __unheard_of_{i}(o[{i}]);" for i in range(calls))
    found = read_cuda(f"__global__ void k(float* o) {{\n{lines}\n}}\n", "kernels.cu")
    return [note.hint or "" for note in found.diagnostics if "kept as opaque" in note.message]


def test_an_unknown_call_names_the_table() -> None:
    (hint,) = notes(1)
    assert CUDA.file in hint


def test_the_notes_of_one_kernel_are_bounded() -> None:
    assert len(notes(MAX_NOTES + 20)) == MAX_NOTES

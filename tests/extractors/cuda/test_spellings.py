"""Names, the order of operands, the sides of comparisons and branches, and steps with names change
no decision about CUDA C++."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.invariance.cuda_spellings import CHANGES
from extractors.cuda.read import read_cuda
from extractors.detect import detect
from extractors.patterns import cases_rows_threads, cases_threads

KERNELS = {
    "attention": cases_threads.FLASH_THREADS,
    "gradient of a norm": cases_rows_threads.NORM_BACKWARD_SHARED,
    "product": cases_threads.PRODUCT_THREADS,
    "persistent product": cases_threads.PRODUCT_PERSISTENT_THREADS,
    "row norm": cases_rows_threads.ROW_NORM_THREADS,
    "softmax": cases_rows_threads.SOFTMAX_THREADS,
}
SAME = ("renamed", "commuted", "mirrored", "other side", "named")


def decisions(text: str) -> list[Counter[tuple[str, str]]]:
    kernels = read_cuda(text, "k.cu").kernels
    return [Counter((d.axis, d.value) for d in detect(one).decisions) for one in kernels]


@pytest.mark.parametrize("change", SAME)
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_other_spellings_tell_the_same(kernel: str, change: str) -> None:
    text = KERNELS[kernel]
    assert decisions(CHANGES[change](text)) == decisions(text)

"""CUDA C++ in other spellings: no decision changes."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from benchmarks.invariance.run import LANGUAGES
from extractors.cuda.read import read_cuda
from extractors.detect import detect
from extractors.patterns import cases_norms_threads, cases_rows_threads, cases_threads

CHANGES = LANGUAGES["CUDA C++"]
STRUCTURE = "code_structure"
OTHER = {"return as a branch"}
"""What boundary_handling has values of its own for."""

TEXTS = {
    name: text
    for module in (cases_norms_threads, cases_rows_threads, cases_threads)
    for name, text in vars(module).items()
    if name.isupper() and not name.startswith("_") and isinstance(text, str)
}

Seen = list[tuple[Counter[tuple[str, str, str]], str | None]]


@cache
def seen(text: str) -> Seen:
    """Decisions and operation of each kernel of a text."""
    found = []
    for kernel in read_cuda(text, "k.cu").kernels:
        told = detect(kernel)
        rows = ((d.axis, d.value, d.pattern) for d in told.decisions if d.axis != STRUCTURE)
        found.append((Counter(rows), told.operation))
    return found


@pytest.mark.parametrize("change", sorted(CHANGES.keys() - OTHER))
@pytest.mark.parametrize("name", TEXTS)
def test_another_spelling_changes_no_decision(
    name: str, change: str, request: pytest.FixtureRequest
) -> None:
    if (name, change) == ("BACKWARD_KEYS_THREADS", "commuted"):
        why = "a product read the other way round is taken for a turned tile"
        request.applymarker(pytest.mark.xfail(reason=why, strict=True))
    assert seen(TEXTS[name])
    assert seen(CHANGES[change](TEXTS[name])) == seen(TEXTS[name])


@pytest.mark.parametrize("step", ["i = i + stride", "i = stride + i", "i += stride"])
def test_a_step_written_out_is_a_step(step: str) -> None:
    text = (
        "__global__ void copy(const float* x, float* out, int n) {\n"
        "  int stride = gridDim.x * blockDim.x;\n"
        f"  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; {step}) out[i] = x[i];\n"
        "}\n"
    )
    ((told, _),) = seen(text)
    assert ("work_decomposition", "persistent grid-stride", "persistent-grid-stride-loop") in told

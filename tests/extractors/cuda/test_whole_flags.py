"""What the host asks before it launches a kernel with a flag of whole extents."""

from __future__ import annotations

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.detect import detect
from extractors.patterns.divisibility_specialisation import EVEN
from extractors.told_tails import FLAGGED
from extractors.told_together import told_together
from kb.evidence import Decision

_FLAGGED = """template <bool EVEN>
__global__ void scale(const float* x, float* out, int n) {
    int first = blockIdx.x * 1024 + threadIdx.x;
    int own = (n - first + 255) / 256;
    for (int i = 0; i < 4; ++i)
        if (EVEN || i < own) out[first + i * 256] = 2.f * x[first + i * 256];
}
void run(const float* x, float* out, int n) {
    const bool whole = n % 1024 == 0;
    if (whole) {
        scale<true><<<n / 1024, 256>>>(x, out, n);
    } else {
        scale<false><<<(n + 1023) / 1024, 256>>>(x, out, n);
    }
}
"""


def _tails(text: str) -> list[Decision]:
    found = read_cuda(text, "k.cu")
    hosts = host_facts(found)
    (kernel,) = found.kernels
    told = told_together(detect(kernel, hosts[kernel.name]), hosts[kernel.name])
    return [d for d in told if d.axis == "tail_handling"]


def test_a_remainder_that_chooses_the_flag_belongs_to_it() -> None:
    (told,) = _tails(_FLAGGED)
    assert told.value == EVEN
    assert {(9, 9), (10, 10)} <= {*told.lines}


def test_another_question_does_not() -> None:
    (told,) = _tails(_FLAGGED.replace("n % 1024 == 0", "n > 1024"))
    assert told.value == EVEN
    assert not {(9, 9), (10, 10)} & {*told.lines}


def test_without_a_flag_that_spares_checks_nothing_is_told_of_it() -> None:
    told = _tails(_FLAGGED.replace("EVEN || i < own", "i < own"))
    assert FLAGGED not in {d.pattern for d in told}
    assert EVEN not in {d.value for d in told}

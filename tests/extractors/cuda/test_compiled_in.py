"""Template arguments that a launch gives are what is compiled in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from kb.evidence import Lines

_TEMPLATE = """template <typename T, bool NEGATE>
__global__ void move(const T* x, T* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = NEGATE ? -x[at] : x[at];
}
void run(const float* x, float* out, int n, bool negate) {
    if (negate)
        move<float, true><<<n / 256, 256>>>(x, out, n);
    else
        move<float, false><<<n / 256, 256>>>(x, out, n);
}
"""
_NAMED = _TEMPLATE[: _TEMPLATE.index("    if (negate)")] + (
    "    auto kernel = move<float, true>;\n    kernel<<<n / 256, 256>>>(x, out, n);\n}\n"
)
_PLAIN = """__global__ void move(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at];
}
void run(const float* x, float* out, int n) { move<<<n / 256, 256>>>(x, out, n); }
"""
_ELSEWHERE = _TEMPLATE[: _TEMPLATE.index("void run")]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(_TEMPLATE, [((8, 8), (10, 10))], id="two launches"),
        pytest.param(_NAMED, [((7, 7),)], id="named before it is launched"),
        pytest.param(_PLAIN, [], id="no template"),
        pytest.param(_ELSEWHERE, [], id="launched elsewhere"),
    ],
)
def test_launches_of_a_template_tell_what_is_compiled_in(
    text: str, lines: Sequence[tuple[Lines, ...]]
) -> None:
    found = host_facts(read_cuda(text, "k.cu"))["move"].decisions
    assert [d.lines for d in found if d.axis == "specialization"] == lines

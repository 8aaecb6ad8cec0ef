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
_BY_CALLER = (
    _TEMPLATE[: _TEMPLATE.index("void run")]
    + """template <typename T>
void launch(const void* x, void* out, int n) {
    move<T, true><<<n / 256, 256>>>((const T*)x, (T*)out, n);
}
void run(const void* x, void* out, int n) {
    if (n < 256) return;
    if (n % 16 == 0) {
        launch<double>(x, out, n);
    } else {
        launch<float>(x, out, n);
    }
}
"""
)
_BY_CASE = (
    _TEMPLATE[: _TEMPLATE.index("    if (negate)")]
    + """    switch (n % 2) {
        case 0:
            move<float, true><<<n / 256, 256>>>(x, out, n);
            break;
        case 1:
            move<float, false><<<n / 256, 256>>>(x, out, n);
            break;
    }
}
"""
)
_ASKED_FOR = _BY_CALLER[: _BY_CALLER.index("void run")] + (
    "template void launch<float>(const void* x, void* out, int n);\n"
    "template void other<float>(const void* x, void* out, int n);\n"
)
_BY_TYPE = (
    _TEMPLATE[: _TEMPLATE.index("void run")]
    + """void run(const Tensor x, Tensor out, int n) {
    AT_DISPATCH_ALL_TYPES(
        x.scalar_type(), "move", [&] {
            move<scalar_t, true><<<n / 256, 256>>>(
                x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), n);
        });
}
"""
)
_SAME = _TEMPLATE.replace("<float, false>", "<float, true>")
_ELSEWHERE = _TEMPLATE[: _TEMPLATE.index("void run")]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(_TEMPLATE, [((7, 7), (8, 8), (10, 10))], id="two launches, chosen by a test"),
        pytest.param(_SAME, [((8, 8), (10, 10))], id="two launches of one kernel"),
        pytest.param(
            _BY_CALLER, [((8, 8), (12, 12), (13, 13), (15, 15))], id="types that the caller chooses"
        ),
        pytest.param(_ASKED_FOR, [((8, 8), (10, 10))], id="what launches it is asked for"),
        pytest.param(_BY_CASE, [((8, 8), (9, 9), (11, 11), (12, 12))], id="cases"),
        pytest.param(_BY_TYPE, [((7, 7), (9, 9))], id="the type of a tensor"),
        pytest.param(
            _BY_TYPE.replace("AT_DISPATCH_ALL_TYPES", "WITH_ITS_TYPE"),
            [((9, 9),)],
            id="unknown call",
        ),
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

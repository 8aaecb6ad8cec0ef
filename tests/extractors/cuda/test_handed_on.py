"""Arrays that the host of a CUDA file hands to one kernel after the other."""

from __future__ import annotations

import pytest

from extractors.cuda.handed_on import BY_LIBRARY, PART, SET
from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.detect import detect
from extractors.host.passes import BESIDE, HANDED_ON, LEFT, TAKEN
from extractors.told_together import told_together
from kb.evidence import Decision

_KERNELS = """__global__ void first(const float* x, float* part) { part[threadIdx.x] = x[0]; }
__global__ void last(const float* part, float* out) { out[threadIdx.x] = part[0]; }
"""
_RUN = """void run(const float* x, float* part, float* out, bool some) {
  first<<<1, 32>>>(x, part);
  last<<<1, 32>>>(part, out);
}
"""
_APART = """void one(const float* x, float* held) { first<<<1, 32>>>(x, held); }
void two(const float* held, float* out) { last<<<1, 32>>>(held, out); }
void run(const float* x, float* part, float* out) {
  one(x, part);
  two(part, out);
}
"""
_EITHER = """void run(const float* x, float* part, float* out, bool some) {
  if (some) {
    first<<<1, 32>>>(x, part);
  } else {
    last<<<1, 32>>>(part, out);
  }
}
"""
_STRUCTS = """struct P { const float* x; float* part; float* out; };
__global__ void first(P p) { p.part[threadIdx.x] = p.x[0]; }
__global__ void last(P params) { params.out[threadIdx.x] = params.part[0]; }
void run(P all) {
  first<<<1, 32>>>(all);
  last<<<1, 32>>>(all);
}
"""
_WRAPPED = """template <bool SORTED>
int one(const float* x, float* held) { first<<<1, 32>>>(x, held); return 0; }
int two(float* held, float* out) { last<<<1, 32>>>(held, out); return 0; }
int last_two(float* held, float* out) { return two(held, out); }
template <bool SORTED>
void run(const float* x, float* part, float* out, bool some) {
  int left = one<SORTED>(x, part);
  if (left != 0) return;
  if (some) left = last_two(part, out);
}
void again(const float* x, float* part, float* out) {
  one<true>(x, part);
  last_two(part, out);
}
"""
_WRAPPED_EITHER = (
    _WRAPPED.replace("if (left != 0) return;", "")
    .replace(
        "  int left = one<SORTED>(x, part);\n", "  if (!some) { one<SORTED>(x, part); return; }\n"
    )
    .replace("left = last_two", "last_two")
    .replace("  one<true>(x, part);\n", "")
)
_TENSORS = """void run(Tensor x, Tensor part, Tensor out) {
  first<<<1, 32>>>(x.const_data_ptr<float>(), part.mutable_data_ptr<float>());
  last<<<1, 32>>>(part.const_data_ptr<float>(), (float*)out.data_ptr());
}
"""


def _decisions(text: str) -> dict[str, list[Decision]]:
    found = read_cuda(text, "k.cu")
    hosts = host_facts(found)
    told = {k.name: told_together(detect(k, hosts[k.name]), hosts[k.name]) for k in found.kernels}
    return {name: [d for d in ds if d.axis == "kernel_boundaries"] for name, ds in told.items()}


def _told(text: str) -> dict[str, set[tuple[str, str | None]]]:
    return {name: {(d.value, d.subject) for d in ds} for name, ds in _decisions(text).items()}


@pytest.mark.parametrize(
    "host",
    [_RUN, _APART, _WRAPPED, _TENSORS],
    ids=["one function", "through functions", "through many functions", "of a tensor"],
)
def test_an_array_is_handed_on(host: str) -> None:
    assert _told(_KERNELS + host) == {"first": {(LEFT, "part")}, "last": {(TAKEN, "part")}}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_KERNELS + _EITHER, id="one of two"),
        pytest.param(_KERNELS + _WRAPPED_EITHER, id="one of two, through functions"),
        pytest.param(
            _KERNELS + _EITHER.replace("} else {", "return;\n  }\n  {"), id="the first returns"
        ),
        pytest.param(_KERNELS + """void run(float* x, float* part, float* out, bool some) {
  if (out) {
    if (some) { last<<<1, 32>>>(x, out); return; }
    first<<<1, 32>>>(x, part);
  }
}
""", id="one leaves before the other"),
        pytest.param(_KERNELS + """void run(float* x, float* out, bool some) {
  auto kernel = first;
  if (some) { kernel = last; }
  kernel<<<1, 32>>>(x, out);
}
""", id="one of two, by a name"),
        pytest.param(_KERNELS + _RUN.replace("last<<<1, 32>>>(part", "last<<<1, 32>>>(y"),
                     id="nothing in common"),
    ],
)  # fmt: skip
def test_nothing_is_handed_on(text: str) -> None:
    assert _told(text) == {"first": set(), "last": set()}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_KERNELS.replace("part[threadIdx.x] = x[0];", "") + _RUN, id="not written"),
        pytest.param(_KERNELS + _RUN.replace("last<<<1, 32>>>(part", "last<<<1, 32>>>(x"),
                     id="an input of both"),
    ],
)  # fmt: skip
def test_kernels_of_one_call(text: str) -> None:
    assert _told(text) == {"first": {(PART, None)}, "last": {(PART, None)}}


def test_a_kernel_that_takes_nothing_does_a_part() -> None:
    text = _KERNELS.replace("= part[0];", "= 0.f;") + _RUN
    assert _told(text) == {"first": {(LEFT, "part")}, "last": {(PART, None)}}


@pytest.mark.parametrize(
    "body",
    ["part(x, held);", "if (x) part(x + 1, held);", "float* to = held; part(x, to);"],
)
def test_a_function_of_the_kernel_writes_what_is_handed_on(body: str) -> None:
    part = "__device__ void part(const float* own, float* to) { to[threadIdx.x] = own[0]; }\n"
    first = f"__global__ void first(const float* x, float* held) {{ {body} }}\n"
    text = part + first + _KERNELS.split("\n")[1] + "\n" + _RUN
    assert _told(text) == {"first": {(LEFT, "held")}, "last": {(TAKEN, "part")}}


def test_a_function_of_the_kernel_that_only_reads() -> None:
    part = "__device__ void part(const float* own, float* to) { if (to) own[0]; }\n"
    first = "__global__ void first(const float* x, float* held) { part(x, held); }\n"
    text = part + first + _KERNELS.split("\n")[1] + "\n" + _RUN
    assert _told(text) == {"first": {(PART, None)}, "last": {(PART, None)}}


@pytest.mark.parametrize(
    "write",
    [
        "p.part[threadIdx.x] = p.x[0];",
        "float* own = p.part + 4; own[threadIdx.x] = p.x[0];",
        "atomicAdd(&p.part[threadIdx.x], p.x[0]);",
        "atomicAdd(p.part + threadIdx.x, p.x[0]);",
    ],
)
def test_a_field_of_a_struct_is_handed_on(write: str) -> None:
    text = _STRUCTS.replace("p.part[threadIdx.x] = p.x[0];", write)
    assert _told(text) == {"first": {(LEFT, "p.part")}, "last": {(TAKEN, "params.part")}}


def test_a_struct_that_is_made_of_another_is_handed_on() -> None:
    """Two functions make the arguments of their kernels of what one function is given."""
    text = _STRUCTS[: _STRUCTS.index("void run")] + (
        "P made(const P& one);\n"
        "void one(const P& data) { auto p = made(data); first<<<1, 32>>>(p); }\n"
        "void two(const P& data) { auto p = made(data); last<<<1, 32>>>(p); }\n"
        "void run(P all) { one(all); two(all); }\n"
    )
    assert _told(text) == {"first": {(LEFT, "p.part")}, "last": {(TAKEN, "params.part")}}


@pytest.mark.parametrize(
    ("one", "other"), [("made(all)", "made(all)"), ("all.inner", "all.inner"), ("P(all)", "P(all)")]
)
def test_a_struct_that_is_made_where_it_is_handed_over(one: str, other: str) -> None:
    text = _STRUCTS.replace(">>>(all)", f">>>({one})", 1).replace(">>>(all)", f">>>({other})")
    assert _told(text) == {"first": {(LEFT, "p.part")}, "last": {(TAKEN, "params.part")}}


_METHODS = """struct V {{
  float v;
  __device__ void to({kind} at, int i) {{ {body} }}
}};
"""


@pytest.mark.parametrize(
    ("kind", "body", "handed"),
    [
        ("float*", "at[i] = v;", True),
        ("void*", "static_cast<float*>(at)[i] = v;", True),
        ("float*", "v = at[i];", False),
        ("const float*", "v = at[i];", False),
    ],
)
def test_a_field_that_a_method_is_given(kind: str, body: str, handed: bool) -> None:
    write = "V one; one.v = p.x[0]; one.to(p.part, threadIdx.x);"
    text = _METHODS.format(kind=kind, body=body) + _STRUCTS.replace(
        "p.part[threadIdx.x] = p.x[0];", write
    )
    first, last = ((LEFT, "p.part"), (TAKEN, "params.part")) if handed else ((PART, None),) * 2
    assert _told(text) == {"first": {first}, "last": {last}}


def test_a_struct_that_the_kernels_hand_to_functions() -> None:
    text = _STRUCTS.replace("__global__ void first(P p) {", "__device__ void one(P own) {")
    text = text.replace("p.part[threadIdx.x] = p.x[0];", "own.part[threadIdx.x] = own.x[0];")
    text = text.replace("__global__ void last(P params) {", "__device__ void two(const P& q) {")
    text = text.replace("params.out[threadIdx.x] = params.part", "q.out[threadIdx.x] = q.part")
    kernels = (
        "__global__ void first(P p) { one(p); }\n__global__ void last(P params) { two(params); }\n"
    )
    told = _told(text.replace("void run", kernels + "void run"))
    assert told == {"first": {(LEFT, "p.part")}, "last": {(TAKEN, "params.part")}}


def test_copies_that_macros_make_hide_no_later_kernel() -> None:
    many = " ".join(f"if (n == {i}) first<<<1, 32>>>(x, held);" for i in range(80))
    text = (
        _KERNELS
        + f"#define EACH {many}\nvoid one(const float* x, float* held, int n) {{ EACH }}\n"
        + "void run(const float* x, float* part, float* out, int n) {\n  one(x, part, n);\n"
        + "  last<<<1, 32>>>(part, out);\n}\n"
    )
    assert _told(text) == {"first": {(LEFT, "part")}, "last": {(TAKEN, "part")}}


def test_a_field_that_another_kernel_leaves_alone() -> None:
    apart = _STRUCTS.replace("params.part[0]", "params.x[0]")
    assert _told(apart) == {"first": {(PART, None)}, "last": {(PART, None)}}


def test_lines_of_the_calls_between() -> None:
    (told,) = _decisions(_KERNELS + _APART)["last"]
    assert {(6, 6), (7, 7)} <= {*told.lines}


def test_a_field_is_told_with_its_places() -> None:
    told = _decisions(_STRUCTS)
    lines = {name: [d.lines for d in ds if d.pattern == HANDED_ON] for name, ds in told.items()}
    assert [(2, 2) in one for one in lines["first"]] == [True]
    assert [(3, 3) in one for one in lines["last"]] == [True]


def test_one_call_that_a_macro_writes_several_times() -> None:
    """A call for each of several types leads to one of two kernels: no two calls."""
    text = (
        "#define FOR_TYPES(...) do { __VA_ARGS__(); __VA_ARGS__(); } while (0)\n"
        + _KERNELS
        + _EITHER
        + "void all(const float* x, float* part, float* out, bool some) {\n"
        "  FOR_TYPES([&] { run(x, part, out, some); });\n"
        "}\n"
    )
    assert _told(text) == {"first": set(), "last": set()}


@pytest.mark.parametrize(("kind", "apart"), [("bool", True), ("int", False)])
def test_a_call_whose_yes_ends_the_function(kind: str, apart: bool) -> None:
    text = (
        _KERNELS
        + f"{kind} one(const float* x, float* held) {{ first<<<1, 32>>>(x, held); return 1; }}\n"
        "void run(const float* x, float* part, float* out, int n) {\n"
        "  if (n > 4 && one(x, part)) { return; }\n  last<<<1, 32>>>(part, out);\n}\n"
    )
    assert (_told(text) == {"first": set(), "last": set()}) == apart


_SORT = "cub::DeviceRadixSort::SortKeys(held, bytes, part, out, n)"


@pytest.mark.parametrize(
    ("host", "found"),
    [
        pytest.param(
            "void run(float* part, float* out) {\n"
            f"  {_SORT};\n  last<<<1, 32>>>(part, out);\n}}\n",
            [(PART, ((5, 5), (6, 6)))],
            id="sorted before",
        ),
        pytest.param(
            f"struct Sorter {{ void run(float* part, float* out) {{ {_SORT}; }} }};\n"
            "void go(Sorter& by, float* part, float* out) {\n  by.run(part, out);\n"
            "  last<<<1, 32>>>(part, out);\n}\n",
            [(PART, ((6, 6), (7, 7)))],
            id="by a method",
        ),
        pytest.param(
            "void run(float* part, float* out) {\n  cudaMemsetAsync(out, 0, 4, s);\n"
            "  last<<<1, 32>>>(part, out);\n}\n",
            [(SET, ((5, 5), (6, 6)))],
            id="set before",
        ),
        pytest.param(
            "void run(float* part, float* out) {\n  cudaMemsetAsync(part, 0, 4, s);\n"
            "  last<<<1, 32>>>(part, out);\n}\n",
            [],
            id="what the kernel only reads",
        ),
        pytest.param(
            "void run(float* part, float* out, bool some) {\n"
            f"  if (some) {{ {_SORT}; }} else {{ last<<<1, 32>>>(part, out); }}\n}}\n",
            [],
            id="on the other side",
        ),
        pytest.param(
            "void run(float* part, float* out, float* other) {\n"
            f"  {_SORT.replace('part, out', 'other, other')};\n  last<<<1, 32>>>(part, out);\n}}\n",
            [],
            id="other arrays",
        ),
        pytest.param(
            "template <typename Gemm> void run(float* part, float* out) {\n"
            "  last<<<1, 32>>>(part, out);\n"
            "  typename Gemm::Arguments given{{4, out}, {nullptr}};\n  Gemm gemm;\n"
            "  gemm.initialize(given);\n  gemm.run(s);\n}\n",
            [(PART, ((5, 5), (9, 9)))],
            id="an object with its arguments",
        ),
        pytest.param(
            "template <typename Gemm> void run(float* part, float* out) {\n"
            "  last<<<1, 32>>>(part, out);\n"
            "  typename Gemm::Kernel::MainloopArguments inner{(float*)out};\n"
            "  typename Gemm::Kernel::Arguments given{4, inner};\n  Gemm gemm;\n"
            "  auto status = gemm.run(given, nullptr, s);\n}\n",
            [(PART, ((5, 5), (9, 9)))],
            id="an object that is given a struct of structs",
        ),
        pytest.param(
            "template <typename Gemm> void run(float* part, float* out, float* other) {\n"
            "  last<<<1, 32>>>(part, out);\n  typename Gemm::Arguments given{{4, other}};\n"
            "  Gemm gemm;\n  gemm.run(s);\n}\n",
            [],
            id="an object with other arrays",
        ),
    ],
)
def test_arrays_that_a_library_works_on(
    host: str, found: list[tuple[str, tuple[tuple[int, int], ...]]]
) -> None:
    decisions = host_facts(read_cuda(_KERNELS + "\n" + host, "k.cu"))["last"].decisions
    assert [(d.value, d.lines) for d in decisions if d.pattern == BY_LIBRARY] == found


def test_a_part_is_told_with_the_condition_that_it_alone_stands_under() -> None:
    host = _RUN.replace("  last<<<", "  if (some) last<<<").replace("(part, out)", "(x, out)")
    told = _decisions(_KERNELS + host)
    lines = {name: [d.lines for d in ds if d.pattern == BESIDE] for name, ds in told.items()}
    assert ((5, 5) in lines["last"][0]) is ((5, 5) in lines["first"][0])
    apart = host.replace("if (some) last", "if (some)\n    last")
    told = _decisions(_KERNELS + apart)
    lines = {name: [d.lines for d in ds if d.pattern == BESIDE] for name, ds in told.items()}
    assert [(5, 5) in lines[name][0] for name in ("first", "last")] == [False, True]


def test_a_function_that_launches_through_others_is_no_call_of_a_library() -> None:
    host = """void launch(const float* x, float* part) { first<<<1, 32>>>(x, part); }
void inner(const float* x, float* part) {
  cudaMemsetAsync(part, 0, 128);
  launch(x, part);
}
void run(const float* x, float* part, float* out) {
  inner(x, part);
  last<<<1, 32>>>(part, out);
}
"""
    (told,) = _decisions(_KERNELS + host)["last"]
    assert (told.value, told.subject) == (TAKEN, "part")

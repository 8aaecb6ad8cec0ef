"""Launches of CUDA kernels: grids, blocks, arguments, and the cases of a dispatch."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.host.facts import HostFacts
from tests.extractors.cuda.samples import DISPATCH, LAYER_NORM

KERNEL = "template <int N, bool B>\n__global__ void k(float* x, int n) { x[N] = n; }\n"


def facts(text: str) -> HostFacts:
    """What host code says of the only kernel of a text."""
    (found,) = host_facts(read_cuda(text, "k.cu")).values()
    return found


def test_angle_brackets() -> None:
    (launch,) = facts(LAYER_NORM).launches
    assert launch.grid == ("rows",)
    assert launch.hints == (("block_x", 256),)
    assert [(b.parameter, b.expression) for b in launch.bindings] == [
        ("T", "float"), ("x", "x"), ("w", "w"), ("y", "y"), ("n", "n"), ("eps", "1e-05"),
    ]  # fmt: skip
    assert (launch.lines, launch.host_function) == ((36, 36), "launch")


def test_dispatch_macro_enumerates_a_template_argument() -> None:
    found = facts(DISPATCH)
    assert found.tuning.mechanism == "dispatch"
    assert found.tuning.effective_axes == ("WIDTH",)
    assert [(s.when, s.points, s.complete, s.lines) for s in found.tuning.spaces] == [
        ("width == 4", ((("WIDTH", 4),),), True, (27, 27)),
        ("width == 8", ((("WIDTH", 8),),), True, (27, 27)),
    ]


def test_configuration_of_the_runtime() -> None:
    host = (
        "void go(float* x, int n, int b) {\n  cudaLaunchConfig_t c;\n"
        "  c.gridDim = dim3(n, b / 2);\n  c.blockDim = 64;\n"
        "  c.dynamicSmemBytes = n * sizeof(float);\n"
        "  auto f = k<3, true>;\n  CHECK(cudaLaunchKernelEx(&c, f, x, n));\n}\n"
    )
    (launch,) = facts(KERNEL + host).launches
    assert launch.grid == ("n", "b // 2")
    assert launch.hints == (("block_x", 64), ("shared_bytes", "n * sizeof(float)"))
    assert launch.bindings[0].expression == "3"
    assert launch.lines == (9, 9)


def test_a_launch_with_more_arguments_is_of_another_kernel() -> None:
    host = "void go(float* x, int n) {{ k<1, true><<<n, 32>>>(x, {}n); }}\n"
    assert facts(KERNEL + host.format("")).launches
    assert not facts(KERNEL + host.format("true, ")).launches


def test_what_is_not_known_says_so() -> None:
    host = (
        "template <int M> void go(float* x, int n) {\n  if (n) k<1, true><<<n, 32>>>(x, n);\n"
        "  else k<M, false><<<n, 32>>>(x, n);\n}\n"
    )
    tuning = facts(KERNEL + host).tuning
    assert tuning.effective_axes == ("B",)
    assert [s.complete for s in tuning.spaces] == [False, False]
    assert tuning.spaces[0].reason == "N: not known where it is launched"


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("void go() { other<1, true><<<1, 1>>>(x, n); }", id="another kernel"),
        pytest.param("void go() { cudaLaunchKernelEx(&c); }", id="no kernel"),
        pytest.param("void go() { pick(n)<<<1, 1>>>(x, n); }", id="computed kernel"),
    ],
)
def test_no_launch_of_this_kernel(host: str) -> None:
    assert facts(KERNEL + host).launches == ()


@pytest.mark.parametrize(
    ("block", "value"),
    [
        pytest.param("SIDE, 1, 1", "SIDE threads", id="axes of one thread are not told"),
        pytest.param("SIDE, 4", "SIDE * 4 threads", id="two axes"),
        pytest.param("32, 4", "4", id="known"),
    ],
)
def test_warps_of_a_block(block: str, value: str) -> None:
    host = f"void go(float* x, int n) {{ k<1, true><<<n, dim3({block})>>>(x, n); }}\n"
    (found,) = (d for d in facts(KERNEL + host).decisions if d.axis == "num_warps")
    assert found.value == value


@pytest.mark.parametrize(
    ("change", "value"),
    [
        pytest.param("", "1", id="as it was made"),
        pytest.param("while (t < n) t *= 2;", "t threads", id="made longer in a loop"),
        pytest.param("if (n > 64) { t = 256; }", "t threads", id="other in a branch"),
        pytest.param("t *= 2;", "2", id="counted on"),
    ],
)
def test_warps_of_a_block_that_is_set_again(change: str, value: str) -> None:
    host = f"void go(float* x, int n) {{ int t = 32; {change} k<1, true><<<n, t>>>(x, n); }}\n"
    (found,) = (d for d in facts(KERNEL + host).decisions if d.axis == "num_warps")
    assert found.value == value


def test_numbers_that_every_launch_gives() -> None:
    host = (
        "void go(float* x, int n) {\n  if (n) k<1, true><<<n, 64>>>(x, n);\n"
        "  else k<1, false><<<n, 64>>>(x, 1);\n}\n"
    )
    bounded = KERNEL.replace("void k", "void __launch_bounds__(64, 4) k")
    tuning = facts(bounded + host).tuning
    assert tuning.launched_with == (("N", 1), ("block_x", 64), ("occupancy", 4))
    assert tuning.effective_axes == ("B",)


@pytest.mark.parametrize(
    ("block", "mechanism"),
    [
        pytest.param("64", "fixed", id="a number"),
        pytest.param("n / 2", "host rule", id="computed from a size"),
    ],
)
def test_how_a_block_is_chosen(block: str, mechanism: str) -> None:
    host = f"void go(float* x, int n) {{ k<1, true><<<n, {block}>>>(x, n); }}\n"
    assert facts(KERNEL + host).tuning.mechanism == mechanism


def test_one_block_that_every_launch_asks_for() -> None:
    host = "void run(float* x, int n) { k<4, true><<<1, 64>>>(x, n); }\n"
    (grid,) = [d for d in facts(KERNEL + host).decisions if d.axis == "grid_mapping"]
    assert (grid.value, grid.lines) == ("one block", ((3, 3),))
    more = "void other(float* x, int n) { k<4, true><<<n, 64>>>(x, n); }\n"
    assert all(d.axis != "grid_mapping" for d in facts(KERNEL + host + more).decisions)


@pytest.mark.parametrize(
    ("asked", "found"), [("cudaDevAttrComputeCapabilityMajor", 1), ("cudaDevAttrWarpSize", 0)]
)
def test_a_launch_that_the_device_chooses(asked: str, found: int) -> None:
    host = f"""int ask() {{ int v; cudaDeviceGetAttribute(&v, {asked}, 0); return v; }}
void run(float* x, int n) {{
    auto version = ask();
    if (version >= 9) k<4, true><<<n, 64>>>(x, n);
    else k<2, true><<<n, 64>>>(x, n);
}}
"""
    told = [d for d in facts(KERNEL + host).decisions if d.axis == "arch_dispatch"]
    assert [d.lines for d in told] == [((5, 5), (6, 6))] * found


@pytest.mark.parametrize(
    ("asked", "found"),
    [("version >= 9", [((6, 6), (7, 7), (9, 9))]), ("n > 64", [])],
)
def test_a_dispatch_on_what_the_device_set(asked: str, found: list[object]) -> None:
    host = f"""int ask() {{ int v; cudaDeviceGetAttribute(&v, MAJOR, 0); return v; }}
void run(float* x, int n) {{
    int wide = 0;
    if ({asked}) {{
        wide = 4;
    }} else {{
        wide = 2;
    }}
    switch (wide) {{
        case 4: k<4, true><<<n, 64>>>(x, n); break;
        case 2: k<2, true><<<n, 64>>>(x, n); break;
    }}
}}
"""
    host = host.replace("int wide = 0;", "auto version = ask(); int wide = 0;")
    host = host.replace("MAJOR", "cudaDevAttrComputeCapabilityMajor")
    told = [d for d in facts(KERNEL + host).decisions if d.axis == "arch_dispatch"]
    assert [d.lines for d in told] == found


@pytest.mark.parametrize(
    ("attribute", "lines"),
    [
        ("cudaLaunchAttributeProgrammaticStreamSerialization", [((5, 5), (9, 9))]),
        ("cudaLaunchAttributeClusterDimension", []),
    ],
)
def test_a_launch_before_the_last_one_ends(attribute: str, lines: list[object]) -> None:
    host = f"""void run(float* x, int n) {{
    cudaLaunchConfig_t config = {{n, 64, 0}};
    cudaLaunchAttribute attribute[1];
    attribute[0].id = {attribute};
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, k<4, true>, x, n);
}}
"""
    told = facts(KERNEL.replace("\n", " ") + "\n" + host).decisions
    assert [d.lines for d in told if d.axis == "launch_overlap"] == lines


def test_a_launch_in_a_method() -> None:
    host = "struct Runner { void run(float* x, int n) { k<4, true><<<n, 64>>>(x, n); } };\n"
    (launch,) = facts(KERNEL + host).launches
    assert (launch.grid, launch.host_function) == (("n",), "run")


def test_a_grid_of_a_product_in_brackets_is_no_function() -> None:
    given = facts("""__global__ void k(float* x) { x[blockIdx.x] = 0.f; }
void run(float* x, int count) {
  int each = 4;
  dim3 grid(each * count);
  dim3 block(32);
  k<<<grid, block>>>(x);
}
""")
    assert [one.grid for one in given.launches] == [("each * count",)]
    assert given.grid_lines == ((3, 3), (4, 4), (6, 6))


def test_a_grid_that_the_launch_computes_stands_in_it() -> None:
    given = facts("""__global__ void k(float* x) { x[blockIdx.x] = 0.f; }
void run(float* x, int count) {
  int all = 4 * count;
  k<<<
    (all + 31) / 32, 32>>>(x);
}
""")
    assert given.grid_lines == ((3, 3), (4, 5))


@pytest.mark.parametrize("argument", ["()", "(float)", '""'])
def test_an_argument_without_text_is_unknown(argument: str) -> None:
    host = f"void run(float* x, int n) {{ k<4, true><<<n, 64>>>(x, {argument}); }}\n"
    (launch,) = facts(KERNEL + host).launches
    assert {b.parameter: b.expression for b in launch.bindings}["n"] == "?"


def test_what_a_pack_takes_has_no_name() -> None:
    (launch,) = facts(
        "template <typename T, typename... Rest>\n"
        "__global__ void k(T* x, int n, Rest... rest) { x[0] = n; }\n"
        "void go(float* x, int n, int more) { k<float, int><<<1, 32>>>(x, n, more); }\n"
    ).launches
    assert [b.parameter for b in launch.bindings if b.parameter not in ("T", "Rest")] == ["x", "n"]


_ASKS = (
    "int asked() {\n  int m;\n"
    "  cudaDeviceGetAttribute(&m, cudaDevAttrComputeCapabilityMajor, 0);\n  return m;\n}\n"
)


@pytest.mark.parametrize(
    ("host", "found"),
    [
        pytest.param(
            "  int sm = asked();\n  cudaLaunchConfig_t c;\n  c.gridDim = n;\n  c.blockDim = 32;\n"
            "  c.numAttrs = sm >= 9 ? 1 : 0;\n  cudaLaunchKernelEx(&c, k<1, true>, x, n);\n",
            [((9, 9), (13, 13))],
            id="attributes of the launch",
        ),
        pytest.param(
            "  int sm = asked();\n  k<1, true><<<n, sm >= 10 ? 256 : 128>>>(x, n);\n",
            [((9, 9), (10, 10))],
            id="threads of a block",
        ),
        pytest.param(
            "  int sm = asked();\n  k<1, true><<<n, 32>>>(x, sm);\n", [], id="handed on as it is"
        ),
    ],
)
def test_launches_that_are_made_by_the_capability(
    host: str, found: list[tuple[tuple[int, int], ...]]
) -> None:
    text = f"{KERNEL}{_ASKS}void go(float* x, int n) {{\n{host}}}\n"
    assert [d.lines for d in facts(text).decisions if d.axis == "arch_dispatch"] == found

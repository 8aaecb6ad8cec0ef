"""What the host decides around a launch: blocks that fit, another kernel; code by target."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from kb.evidence import Lines

KERNEL = "__global__ void k(float* x, int n) { x[blockIdx.x] = n; }\n"
OTHER = "__global__ void j(float* x, int n) { x[blockIdx.x] = n + 1; }\n"
ASK = "cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, k, 128, 0)"


def lines(text: str, axis: str, kernel: str = "k") -> list[tuple[Lines, ...]]:
    """Lines of the decisions on an axis that the host code of a text takes for a kernel."""
    facts = host_facts(read_cuda(text, "k.cu"))[kernel]
    return [d.lines for d in facts.decisions if d.axis == axis]


@pytest.mark.parametrize(
    ("host", "found"),
    [
        pytest.param(
            f"void go(float* x, int n) {{\n  int fit;\n  CHECK({ASK});\n"
            "  k<<<fit, 128>>>(x, n);\n}\n",
            [((4, 4),)],
            id="asked for the kernel",
        ),
        pytest.param(
            "int room(const void* f) {\n  int fit;\n"
            "  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, f, 128, 0);\n  return fit;\n}\n"
            "void go(float* x, int n) {\n  auto f = k;\n  int b = room((void*)f);\n"
            "  k<<<b, 128>>>(x, n);\n}\n",
            [((4, 4), (9, 9))],
            id="asked by a function that is given the kernel",
        ),
        pytest.param(
            "void go(float* x, int n) {\n  int sms;\n"
            "  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);\n"
            "  int b = 2 * sms;\n  k<<<b, 128>>>(x, n);\n}\n",
            [((4, 4),)],
            id="counted in multiprocessors",
        ),
        pytest.param(
            "void go(float* x, int n) {\n  int sms;\n"
            "  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);\n"
            "  k<<<n, 128>>>(x, sms);\n}\n",
            [],
            id="the number is an argument only",
        ),
        pytest.param(
            "void go(float* x, int n) {\n  int fit;\n  "
            + ASK.replace("k,", "j,")
            + ";\n  k<<<n, 128>>>(x, fit);\n}\n",
            [],
            id="asked for another kernel",
        ),
    ],
)
def test_blocks_that_fit(host: str, found: list[tuple[Lines, ...]]) -> None:
    assert lines(KERNEL + host, "occupancy") == found


WHOLE = (
    "void go(float* x, int n) {\n  int room = 0;\n"
    "  cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);\n"
    "  k<<<n, 128, room>>>(x, n);\n}\n"
)


@pytest.mark.parametrize(
    ("host", "found"),
    [
        pytest.param(WHOLE, [((4, 4), (5, 5))], id="all that a block may have"),
        pytest.param(
            WHOLE.replace("n, 128, room", "n, 128, (size_t)most").replace(
                "  k<<<", "  int most = room; k<<<"
            ),
            [((4, 4), (5, 5))],
            id="under another name",
        ),
        pytest.param(WHOLE.replace("128, room", "128, room / 2"), [], id="half of it"),
        pytest.param(WHOLE.replace("Optin", ""), [], id="what needs no opting in"),
        pytest.param(WHOLE.replace("128, room", "128, 4 * n"), [], id="only asked"),
        pytest.param(
            WHOLE.replace("(x, n);\n}", "(x, n);\n  k<<<n, 128>>>(x, n);\n}"),
            [],
            id="one launch without it",
        ),
    ],
)
def test_a_block_alone_on_its_multiprocessor(host: str, found: list[tuple[Lines, ...]]) -> None:
    assert lines(KERNEL + host, "occupancy") == found


SHARED = (
    "void go(float* x, int n, int m) {{\n  int sms;\n"
    "  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));\n"
    "  int parts = 2 * sms / {};\n  k<<<dim3(parts, m), 128>>>(x, n);\n}}\n"
)


@pytest.mark.parametrize(
    ("host", "found"),
    [
        pytest.param(SHARED.format("m"), [((5, 5),)], id="shared out to the work"),
        pytest.param(
            "#define CHECK(f) { int e = (f); if (e) return; }\n" + SHARED.format("m"),
            [((6, 6),)],
            id="asked in a block of a macro",
        ),
        pytest.param(SHARED.format("4"), [], id="a fixed number for each"),
        pytest.param(
            SHARED.format("m").replace("128>>>", "m>>>"), [], id="by the threads of a block"
        ),
        pytest.param(SHARED.format("m").replace("dim3(parts", "dim3(n"), [], id="not the grid"),
        pytest.param(
            SHARED.format("m").replace("dim3(parts", "dim3((n + sms - 1) / sms * sms"),
            [],
            id="work shared out to the multiprocessors",
        ),
    ],
)
def test_parts_by_the_number_of_multiprocessors(host: str, found: list[tuple[Lines, ...]]) -> None:
    assert lines(KERNEL + host, "split_count") == found


GLOBAL = (
    "int sms;\nvoid begin() {\n  cudaDeviceProp p;\n  cudaGetDeviceProperties(&p, 0);\n"
    "  sms = p.multiProcessorCount;\n}\n"
    "void go(float* x, int n) {\n  k<<<4 * sms, 128>>>(x, n);\n}\n"
)


def test_a_number_of_multiprocessors_that_another_function_keeps() -> None:
    assert lines(KERNEL + GLOBAL, "occupancy") == [((9, 9),)]


ONE_EACH = (
    "void one(float* x, int n) { k<<<n, 32>>>(x, n); }\n"
    "void two(float* x, int n) { j<<<n, 32>>>(x, n); }\n"
)


@pytest.mark.parametrize(
    ("host", "found"),
    [
        pytest.param(
            "void go(float* x, int n) {\n  if (n > 64) {\n    k<<<n, 32>>>(x, n);\n  } else {\n"
            "    j<<<n, 32>>>(x, n);\n  }\n}\n",
            [((4, 4), (5, 5), (7, 7))],
            id="another kernel",
        ),
        pytest.param(
            "void go(float* x, int n) {\n  auto one = k;\n  if (n > 64) {\n    one = j;\n  }\n"
            "  one<<<n, 32>>>(x, n);\n}\n",
            [((4, 4), (6, 6), (8, 8))],
            id="what a name was given",
        ),
        pytest.param(
            "void go(float* x, int n) {\n  if (n > 64) k<<<n, 32>>>(x, n);\n"
            "  else k<<<1, 32>>>(x, n);\n}\n",
            [((4, 4), (5, 5))],
            id="another grid",
        ),
        pytest.param(
            "void go(float* x, int n) {\n  if (n > 64) k<<<n, 32>>>(x, n);\n"
            "  else k<<<n, 32>>>(x, 0);\n}\n",
            [],
            id="another argument",
        ),
        pytest.param(
            "void go(float* x, int n) {\n  if (n > 64) k<<<n, 32>>>(x, n);\n"
            "  j<<<n, 32>>>(x, n);\n}\n",
            [],
            id="one after the other",
        ),
        pytest.param(
            "template <bool B> void go(float* x, int n) {\n  if constexpr (B) k<<<n, 32>>>(x, n);\n"
            "  else j<<<n, 32>>>(x, n);\n}\n",
            [],
            id="a constant of the compiler",
        ),
        pytest.param(
            ONE_EACH + "void go(int v, float* x, int n) {\n  switch (v) {\n"
            "    case 1: one(x, n); break;\n    case 2: two(x, n); break;\n  }\n}\n",
            [((6, 6), (7, 7))],
            id="a switch over functions",
        ),
        pytest.param(
            ONE_EACH + "void go(int v, float* x, int n) {\n  if (v > 1) {\n    two(x, n);\n"
            "    return;\n  }\n  one(x, n);\n}\n",
            [((6, 6), (10, 10))],
            id="a function that is left early",
        ),
        pytest.param(
            "void go(float* x, int n) {\n  if (n > 64) {\n    k<<<n, 32>>>(x, n);\n"
            "    return;\n  }\n  k<<<1, 32>>>(x, n);\n}\n",
            [((4, 4), (5, 5), (8, 8))],
            id="another grid where the one leaves",
        ),
        pytest.param(
            "void go(float* x, int n) {\n  if (n > 64) {\n    k<<<n, 32>>>(x, n);\n  }\n"
            "  k<<<1, 32>>>(x, n);\n}\n",
            [],
            id="another grid afterwards",
        ),
        pytest.param(
            ONE_EACH + "bool wide(int n) {\n  return n > 9;\n}\n"
            "void go(float* x, int n) {\n  if (wide(n)) {\n    one(x, n);\n  } else {\n"
            "    two(x, n);\n  }\n}\n",
            [((3, 3), (4, 4), (5, 7), (9, 9), (10, 10))],
            id="a function that answers",
        ),
        pytest.param(
            ONE_EACH + "void go(int v, float* x, int n) {\n  if (n > 9) {\n    v = 1;\n  }\n"
            "  if (v == 1) {\n    one(x, n);\n  } else {\n    two(x, n);\n  }\n}\n",
            [((3, 3), (4, 4), (6, 6), (7, 7), (9, 9), (10, 10))],
            id="a branch further up that sets what is asked",
        ),
        pytest.param(
            ONE_EACH + "void go(int v, float* x, int n) {\n  if (v > 1) {\n    two(x, n);\n"
            "  }\n  one(x, n);\n}\n",
            [],
            id="functions one after the other",
        ),
        pytest.param(
            ONE_EACH + "void go(int v, float* x, int n) {\n  switch (v) {\n"
            "    case 1: one(x, n); break;\n    case 2: one(x, 2); break;\n  }\n}\n",
            [],
            id="one function in every case",
        ),
    ],
)
def test_another_kernel(host: str, found: list[tuple[Lines, ...]]) -> None:
    assert lines(KERNEL + OTHER + host, "algorithm_selection") == found


BRANCH = "#if {} >= 900\n  x[0] = n;\n#else\n  x[0] = 0.f;\n#endif\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            "__global__ void k(float* x, int n) {\n" + BRANCH.format("__CUDA_ARCH__") + "}\n",
            [((2, 6),)],
            id="in the kernel",
        ),
        pytest.param(
            "__device__ void put(float* x, int n) {\n"
            + BRANCH.format("defined(__CUDA_ARCH__) && __CUDA_ARCH__")
            + "}\n__global__ void k(float* x, int n) {\n  put(x, n);\n}\n",
            [((2, 6),)],
            id="in a helper",
        ),
        pytest.param(
            "__device__ float twice(float v) {\n  return v * 2;\n}\n"
            "__device__ float made(float v) {\n#if __CUDA_ARCH__ >= 900\n  return twice(v);\n"
            "#else\n  return v;\n#endif\n}\n"
            "__global__ void k(float* x, int n) {\n  x[0] = made(x[n]);\n}\n",
            [((5, 9),)],
            id="in a helper, around the call of another",
        ),
        pytest.param(
            "__device__ void put(float* x, int n) {\n"
            + BRANCH.format("__CUDA_ARCH__")
            + "}\n__global__ void k(float* x, int n) {\n  x[0] = n;\n}\n",
            [],
            id="in a function that the kernel does not call",
        ),
        pytest.param(
            "__global__ void k(float* x, int n) {\n" + BRANCH.format("MODE") + "}\n",
            [],
            id="on something else",
        ),
        pytest.param(
            "#if __CUDA_ARCH__ >= 900\n"
            "__global__ void k(float* x, int n) {\n  x[0] = n;\n}\n#endif\n",
            [((1, 1), (5, 5))],
            id="around the kernel",
        ),
        pytest.param(
            "#if __CUDA_ARCH__ >= 530\n#define HALVES\n#endif\n"
            "__global__ void k(float* x, int n) {\n#ifdef HALVES\n  x[0] = n;\n#endif\n}\n",
            [((5, 7),)],
            id="on a macro that such a branch defines",
        ),
        pytest.param(
            "#if __CUDA_ARCH__ >= 1000\n#define WIDE 1\n#else\n#define WIDE 0\n#endif\n"
            "__global__ void k(float* x, int n) {\n"
            "  constexpr bool wide = WIDE;\n  x[0] = wide ? n : 0;\n}\n",
            [((7, 7),)],
            id="a macro of the target",
        ),
        pytest.param(
            "#define HALVES\n"
            "__global__ void k(float* x, int n) {\n#ifdef HALVES\n  x[0] = n;\n#endif\n}\n",
            [],
            id="on a macro of every target",
        ),
        pytest.param(
            "__global__ void k(float* x, int n) {\n  x[0] = n;\n}\n"
            "void run(float* x, int n) {\n#ifdef USE_ROCM\n  k<<<1, 64>>>(x, n);\n"
            "#else\n  k<<<1, 32>>>(x, n);\n#endif\n}\n",
            [((5, 9),)],
            id="where it is launched, on whose devices it is for",
        ),
        pytest.param(
            "#ifdef USE_ROCM\nusing real = double;\n#else\nusing real = float;\n#endif\n"
            "__global__ void k(float* x, int n) {\n  x[0] = n;\n}\n",
            [],
            id="before the kernel, on whose devices it is for",
        ),
    ],
)
def test_branches_on_the_target(text: str, found: list[tuple[Lines, ...]]) -> None:
    assert lines(text, "arch_dispatch") == found


_RAISES = "cudaFuncSetAttribute({}, cudaFuncAttributeMaxDynamicSharedMemorySize, n)"


@pytest.mark.parametrize(
    ("host", "found"),
    [
        pytest.param(
            f"void go(float* x, int n) {{\n  CHECK({_RAISES.format('k')});\n"
            "  k<<<8, 128, n>>>(x, n);\n}\n",
            [((3, 3),)],
            id="of the kernel",
        ),
        pytest.param(
            f"template <typename F> void room(F f, int n) {{\n  {_RAISES.format('f')};\n}}\n"
            "void go(float* x, int n) {\n  room(k, n);\n  k<<<8, 128, n>>>(x, n);\n}\n",
            [((3, 3), (6, 6))],
            id="in a function that is given the kernel",
        ),
        pytest.param(
            f"void go(float* x, int n) {{\n  CHECK({_RAISES.format('j')});\n"
            "  k<<<8, 128, n>>>(x, n);\n}\n",
            [],
            id="of another kernel",
        ),
        pytest.param(
            "void go(float* x, int n) {\n  CHECK("
            + _RAISES.format("k").replace("MaxDynamicSharedMemorySize", "RequiredClusterWidth")
            + ");\n  k<<<8, 128, n>>>(x, n);\n}\n",
            [],
            id="another attribute",
        ),
    ],
)  # fmt: skip
def test_more_shared_memory_is_opted_in_to(host: str, found: list[tuple[Lines, ...]]) -> None:
    text = KERNEL.replace("\n", " ") + OTHER + host
    assert lines(text, "occupancy") == found

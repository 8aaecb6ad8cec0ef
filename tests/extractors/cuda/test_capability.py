"""Checks of the compute capability of the device before a launch."""

from __future__ import annotations

import pytest

from tests.extractors.cuda.test_resident import lines

_KERNEL = "__global__ void k(float* x, int n) { x[threadIdx.x] = n; }\n"
_DEMAND = """void demand(int device) {
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  TORCH_CHECK(major == 10, "another device");
}
"""
_BETWEEN = "void all(int device) {\n  demand(device);\n}\n"


@pytest.mark.parametrize(
    ("host", "found"),
    [
        pytest.param(
            "int asked() {\n  int m;\n"
            "  cudaDeviceGetAttribute(&m, cudaDevAttrComputeCapabilityMajor, 0);\n  return m;\n}\n"
            "void go(float* x, int n) {\n"
            '  TORCH_CHECK(asked() >= 9, "too old");\n  k<<<1, 32>>>(x, n);\n}\n',
            [((8, 8),)],
            id="where it is launched",
        ),
        pytest.param(
            _DEMAND + "void go(float* x, int n) {\n  demand(0);\n  k<<<1, 32>>>(x, n);\n}\n",
            [((4, 4), (5, 5), (8, 8))],
            id="in a function that is called before",
        ),
        pytest.param(
            _DEMAND
            + _BETWEEN
            + "void go(float* x, int n) {\n  all(0);\n  k<<<1, 32>>>(x, n);\n}\n",
            [((4, 4), (5, 5), (8, 8), (11, 11))],
            id="in one that this one calls",
        ),
        pytest.param(
            _DEMAND + "void go(float* x, int n) {\n  k<<<1, 32>>>(x, n);\n  demand(0);\n}\n",
            [],
            id="afterwards",
        ),
        pytest.param(
            _DEMAND.replace("ComputeCapabilityMajor", "WarpSize")
            + "void go(float* x, int n) {\n  demand(0);\n  k<<<1, 32>>>(x, n);\n}\n",
            [],
            id="of something else",
        ),
        pytest.param(
            _DEMAND.replace('  TORCH_CHECK(major == 10, "another device");\n', "")
            + "void go(float* x, int n) {\n  demand(0);\n  k<<<1, 32>>>(x, n);\n}\n",
            [],
            id="asked, and nothing refused",
        ),
    ],
)
def test_checks_of_the_capability(host: str, found: list[object]) -> None:
    assert lines(_KERNEL + host, "arch_dispatch") == found


_PAIR = """std::pair<int, int> capability(int device) {
  int major, minor;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return {major, minor};
}
void go(float* x, int n) {
  auto [major, minor] = capability(0);
  bool small = major == 8 && minor > 0;
  if (small) k<<<1, 32>>>(x, n); else k<<<1, 64>>>(x, n);
}
"""


def test_a_capability_taken_out_of_what_a_function_gives() -> None:
    assert lines(_KERNEL + _PAIR, "arch_dispatch") == [((9, 9), (10, 10), (11, 11))]
    assert lines(_KERNEL + _PAIR.replace("capability(0)", "other(0)"), "arch_dispatch") == []


_ROOM = """void go(float* x, int n) {
  int room;
  cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0);
  if (room >= 4 * n) k<<<1, 32>>>(x, n); else k<<<1, 64>>>(x, n);
}
"""


def test_launches_chosen_by_shared_memory() -> None:
    assert lines(_KERNEL + _ROOM, "arch_dispatch") == [((4, 4), (5, 5))]
    other = _ROOM.replace("MaxSharedMemoryPerMultiprocessor", "WarpSize")
    assert lines(_KERNEL + other, "arch_dispatch") == []

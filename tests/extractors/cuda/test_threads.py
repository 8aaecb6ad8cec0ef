"""What the shape of a block must keep to: threads that a kernel shares out to warps."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda

_TEXT = """
__global__ void k(float* x, int n) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row < n) x[row] = 0.0f;
}
void run(float* x, int n, int threads) { k<<<n, threads>>>(x, n); }
"""
_PLACE = "int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;"
_EXCHANGED = "int row = __shfl_xor_sync(0xffffffff, blockIdx.x * n + threadIdx.x, 1);"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("", "", True, id="threads of the block over those of a warp"),
        pytest.param(
            "blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32",
            "(blockIdx.x * blockDim.x + threadIdx.x) / 32", True, id="threads of all blocks",
        ),
        pytest.param(
            "blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32",
            "(blockIdx.x * n + threadIdx.x) / 32", False, id="blocks of another size",
        ),
        pytest.param("blockDim.x / 32", "blockDim.x / 8", False, id="another number"),
        pytest.param("(blockDim.x / 32)", "(n / 32)", False, id="not the threads of the block"),
        pytest.param("n, threads>>>", "n, 256>>>", False, id="the host gives a constant"),
        pytest.param(_PLACE, _EXCHANGED, True, id="all lanes exchange values"),
        pytest.param(
            _PLACE, _EXCHANGED.replace("0xffffffff", "__activemask()"), False,
            id="the lanes that are there do",
        ),
    ],
)  # fmt: skip
def test_blocks_are_whole_warps(old: str, new: str, expected: bool) -> None:
    (found,) = host_facts(read_cuda(_TEXT.replace(old, new) if old else _TEXT, "k.cu")).values()
    told = [c.expression for c in found.constraints]
    assert ("threads % 32 == 0" in told) is expected


_ROWS = """
__global__ void k(float* x, int n) {
    extern __shared__ float s[];
    float v = x[blockIdx.x * n + threadIdx.y * 32 + threadIdx.x];
    v += __shfl_xor_sync(0xffffffff, v, 1);
    s[threadIdx.y] = v;
    __syncthreads();
    x[blockIdx.x * n + threadIdx.x] = s[0];
}
void run(float* x, int n, int warps) {
    k<<<n, dim3(32, warps), warps * sizeof(float)>>>(x, n);
}
"""
_SHARED = "warps * bytes_of(float) <= target.shared_bytes_per_block"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param("", "", {"block_x == 32", _SHARED}, id="rows of one warp"),
        pytest.param("dim3(32, warps)", "dim3(64, warps)", {_SHARED}, id="rows of two"),
        pytest.param(
            "v += __shfl_xor_sync(0xffffffff, v, 1);",
            "",
            {"block_x == 32", _SHARED},
            id="no exchange, but rows of 32",
        ),
        pytest.param(
            "threadIdx.y * 32",
            "threadIdx.y * blockDim.x",
            {"block_x == 32", _SHARED},
            id="the size is asked for, but a warp exchanges",
        ),
        pytest.param("warps * sizeof(float)", "4096", {"block_x == 32"}, id="a constant size"),
        pytest.param(
            "warps * sizeof(float)", "padded(warps)", {"block_x == 32"}, id="a call is not read"
        ),
    ],
)
def test_rows_and_shared_memory_of_blocks(old: str, new: str, told: set[str]) -> None:
    (found,) = host_facts(read_cuda(_ROWS.replace(old, new) if old else _ROWS, "k.cu")).values()
    expressions = {c.expression for c in found.constraints}
    assert {one for one in expressions if one == "block_x == 32" or "shared" in one} == told

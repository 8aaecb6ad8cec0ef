"""Small sources that tests read: sound kernels and several kinds of bad input."""

from __future__ import annotations

KERNEL = """\
import cuda.tile as ct
import torch


@ct.kernel
def add_rows(left, right, out, scale: float, TILE: ct.Constant[int]):
    row = ct.bid(0)
    a = ct.load(left, index=(row, 0), shape=(1, TILE))
    b = ct.load(right, index=(row, 0), shape=(1, TILE))
    total = ct.astype(a, ct.float32) + ct.astype(b, ct.float32) * scale
    ct.store(out, index=(row, 0), tile=ct.astype(total, out.dtype))


def add(left, right, scale):
    assert left.shape[1] % 128 == 0
    out = torch.empty_like(left)
    stream = torch.cuda.current_stream()
    ct.launch(stream, (left.shape[0], 1, 1), add_rows, (left, right, out, scale, 1024))
    return out
"""

TRITON = """\
import triton
import triton.language as tl


@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    tl.store(out_ptr + at, x * 2, mask=inside)
"""

UNKNOWN_CALL = KERNEL.replace(
    "    total = ct.astype", "    ct.summon_demon(a)\n    total = ct.astype", 1
)

UNKNOWN_SEARCH = """\
import cuda.tile as ct
import torch
from cuda.tile.tune import exhaustive_search
from elsewhere import secret_sizes


@ct.kernel
def copy_rows(x, out, TILE: ct.Constant[int]):
    row = ct.bid(0)
    ct.store(out, index=(row, 0), tile=ct.load(x, index=(row, 0), shape=(1, TILE)))


def copy(x):
    out = torch.empty_like(x)
    stream = torch.cuda.current_stream()
    configs = [size for size in secret_sizes(x)]
    found = exhaustive_search(
        configs, stream, lambda c: (x.shape[0], 1, 1), copy_rows, lambda c: (x, out, c)
    )
    ct.launch(stream, (x.shape[0], 1, 1), copy_rows, (x, out, found.best.config))
    return out
"""

HELPER_IN_PACKAGE = """\
import cuda.tile as ct
from pack.sizes import WIDTH


@ct.kernel
def fill(out):
    ct.store(out, index=(ct.bid(0),), tile=ct.full((WIDTH,), 0.0, dtype=ct.float32))
"""


def nested(depth: int) -> str:
    """An expression with that many parentheses around a name."""
    return f"x = 1\ny = {'(' * depth}x{')' * depth}\n"

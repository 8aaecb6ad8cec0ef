"""Kernels written for these tests, and how they are read."""

from __future__ import annotations

from extractors.modules import ModuleText
from extractors.read import read
from kb.ir import Kernel

HEAD = "import cuda.tile as ct\nConstInt = ct.Constant[int]\n"
TRITON_HEAD = "import triton\nimport triton.language as tl\n"


def cutile(body: str) -> Kernel:
    """The last kernel of a cuTile module."""
    return read(ModuleText("", "k.py", HEAD + body)).kernels[-1]


def triton(body: str) -> Kernel:
    """The last kernel of a Triton module."""
    return read(ModuleText("", "k.py", TRITON_HEAD + body)).kernels[-1]


def on_tile(expression: str) -> Kernel:
    """A cuTile kernel that stores an expression of the 4 x 8 tile `x`, in its own shape."""
    return cutile(
        "@ct.kernel\n"
        "def k(X, Out):\n"
        "    x = ct.load(X, index=(0, 0), shape=(4, 8))\n"
        f"    ct.store(Out, index=(0, 0), tile={expression})\n"
    )


SOFTMAX = cutile("""
@ct.kernel
def softmax(X, Out, N: ConstInt, TILE: ConstInt):
    row = ct.bid(0)
    at = ct.arange(TILE, dtype=ct.int32)
    x = ct.gather(X, (row, at), padding_value=-float("inf")).astype(ct.float32)
    e = ct.exp(x - ct.max(x, axis=0, keepdims=True))
    ct.scatter(Out, (row, at), (e / ct.sum(e, axis=0, keepdims=True)).astype(Out.dtype))
""")
MATMUL = cutile("""
@ct.kernel
def matmul(A, B, C, TM: ConstInt, TN: ConstInt, TK: ConstInt):
    i = ct.bid(0)
    j = ct.bid(1)
    acc = ct.full((TM, TN), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(A, axis=1, shape=(TM, TK))):
        a = ct.load(A, index=(i, k), shape=(TM, TK), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, index=(j, k), shape=(TN, TK), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(a, ct.transpose(b), acc)
    ct.store(C, index=(i, j), tile=acc.astype(C.dtype))
""")
PARTS = cutile("""
@ct.kernel
def parts(X, Out, N: ConstInt, TILE: ConstInt):
    x = ct.load(X, index=(ct.bid(0), 0), shape=(1, TILE), padding_mode=ct.PaddingMode.NEG_INF)
    last = ct.extract(x, index=(0, 1), shape=(1, TILE // 2))
    whole = ct.cat((last, last), 1)
    ct.store(Out, index=(ct.bid(0), 0), tile=ct.maximum(whole, x).astype(Out.dtype))
""")
HEADS = cutile("""
@ct.kernel
def heads(X, Out, TILE: ConstInt):
    x = ct.load(X, index=(ct.bid(0), 0, ct.bid(1)), shape=(1, TILE, TILE), order=(0, 2, 1),
                padding_mode=ct.PaddingMode.ZERO)
    y = ct.tanh(ct.transpose(ct.reshape(x, (TILE, TILE)), 0, 1))
    ct.store(Out, index=(ct.bid(0), 0, ct.bid(1)), tile=ct.reshape(y, (1, TILE, TILE)))
""")
GUARDED = cutile("""
@ct.kernel
def guarded(Index, X, Out, n: int, TILE: ConstInt):
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    rows = ct.gather(Index, at, padding_value=TILE)
    best = ct.full((TILE,), 0.0, dtype=ct.float32)
    for j in range(TILE):
        x = ct.gather(X, (rows, j), mask=at < n).astype(ct.float32)
        if j >= 3:
            best = ct.maximum(best, x * 2.0)
    ct.scatter(Out, at, best.astype(Out.dtype), mask=at < n)
""")
SLICED = cutile("""
@ct.kernel
def sliced(Offsets, X, Out, TILE: ConstInt):
    start = ct.load(Offsets, index=(ct.bid(0),), shape=(1,)).item()
    stop = ct.load(Offsets, index=(ct.bid(0) + 1,), shape=()).item()
    part = X.slice(axis=0, start=start, stop=stop)
    x = ct.load(part, index=(0, 0), shape=(TILE, TILE), padding_mode=ct.PaddingMode.ZERO)
    ct.store(Out, index=(ct.bid(0), 0), tile=ct.sum(x, axis=0, keepdims=True))
""")

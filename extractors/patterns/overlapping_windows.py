"""Neighbouring elements of one array are loaded one by one."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.taps import moved_on, shifted, stepped
from kb.analysis.windows import slid
from kb.evidence import Decision

_TAPS = (
    POINTER
    + """
@triton.jit
def smooth(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    u = tl.load(x + at, mask=at < n)
    v = tl.load(x + at + 1, mask=at + 1 < n)
    w = tl.load(x + at + 2, mask=at + 2 < n)
    tl.store(out + at, u + 2 * v + w, mask=at < n)
"""
)

_TAPS_TILE = (
    TILE
    + """
@ct.kernel
def smooth(x, out, T: Int):
    row = ct.bid(0)
    at = ct.bid(1) * T + ct.arange(T, dtype=ct.int32)
    u = ct.gather(x, (row, at))
    v = ct.gather(x, (row, at + 1))
    w = ct.gather(x, (row, at + 2))
    ct.scatter(out, (row, at), u + 2 * v + w)
"""
)


_POOL = (
    POINTER
    + """
@triton.jit
def pool(x, out, n, K: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    sum = tl.zeros([T], tl.float32)
    for i in tl.range(K):
        sum += tl.load(x + (at + i) * n)
    tl.store(out + at, sum / K)
"""
)
_POOL_TILE = (
    TILE
    + """
@ct.kernel
def pool(x, out, K: Int, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    sum = ct.full((T,), 0.0, dtype=ct.float32)
    for i in range(K):
        sum = sum + ct.gather(x, (at + i,))
    ct.scatter(out, (at,), sum)
"""
)
_HALVES = (
    TILE
    + """
@ct.kernel
def turn(x, out, T: Int):
    row = ct.bid(0)
    u = ct.load(x, index=(row, 0), shape=(1, T))
    v = ct.load(x, index=(row, 1), shape=(1, T))
    ct.store(out, index=(row, 0), tile=u + v)
"""
)
_TAPS_THREADS = """__global__ void smooth(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at + 2 < n) out[at] = x[at] + 2.f * x[at + 1] + x[at + 2];
}
"""


_FIELDS = (
    POINTER
    + """
@triton.jit
def lengths(points, out, n, width, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    x = tl.load(points + at * width, mask=at < n, other=0.0)
    y = tl.load(points + at * width + 1, mask=at < n, other=0.0)
    z = tl.load(points + at * width + 2, mask=at < n, other=0.0)
    tl.store(out + at, tl.sqrt(x * x + y * y + z * z), mask=at < n)
"""
)


_ROWS = (
    POINTER
    + """
@triton.jit
def filter(x, w, out, n, s, K: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * T + tl.arange(0, T)
    sum = tl.zeros([T], tl.float32)
    for i in tl.static_range(K):
        here = (at < n) & (row >= i)
        sum += tl.load(w + i * n + at, mask=at < n) * tl.load(x + (row - i) * s + at, mask=here)
    tl.store(out + row * s + at, sum, mask=at < n)
"""
)
_PARTS = (
    POINTER
    + """
@triton.jit
def parts(x, ends, out, n, most, T: tl.constexpr):
    own = tl.program_id(0) * T + tl.arange(0, T)
    begin = tl.load(ends + own - 1, mask=(own > 0) & (own < n), other=0)
    long = tl.load(ends + own, mask=own < n, other=0) - begin
    for i in range(most):
        tl.store(out + own * most + i, tl.load(x + begin + i, mask=i < long), mask=own < n)
"""
)
_PARTS_THREADS = """__global__ void parts(const float* x, const int* starts, float* out, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.f;
    for (int i = starts[row]; i < starts[row + 1]; i += 1) sum += x[row];
    if (row < n) out[row] = sum;
}
"""

_STATE = (
    POINTER
    + """
@triton.jit
def update(x, state, w, out, D: tl.constexpr, W: tl.constexpr):
    d = tl.program_id(0) * D + tl.arange(0, D)
    k = tl.arange(0, W)
    v = tl.load(x + d)
    at = state + d[:, None] * W + k[None, :]
    s = tl.load(at + 1, mask=k[None, :] + 1 < W, other=0.0)
    s = tl.where(k[None, :] == W - 1, v[:, None], s)
    tl.store(out + d, tl.sum(s * tl.load(w + d[:, None] * W + k[None, :]), axis=1))
    tl.store(at, s, mask=k[None, :] < W)
"""
)
_MOVED = "window moved on by a place where it lies"


_SLID = (
    POINTER
    + """
@triton.jit
def follow(x, w, out, n, s, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    a = tl.load(x + at)
    b = tl.load(x + s + at)
    for i in range(2, n):
        c = tl.load(x + i * s + at)
        tl.store(out + i * s + at, a * tl.load(w) + b * tl.load(w + 1) + c * tl.load(w + 2))
        a = b
        b = c
"""
)
_SLID_TILE = (
    TILE
    + """
@ct.kernel
def follow(x, out, n, T: Int):
    col = ct.bid(0)
    a = ct.load(x, index=(0, col), shape=(1, T))
    b = ct.load(x, index=(1, col), shape=(1, T))
    for i in range(2, n):
        c = ct.load(x, index=(i, col), shape=(1, T))
        ct.store(out, index=(i, col), tile=a + b * 2.0 + c)
        a = b
        b = c
"""
)
_SLID_THREADS = """__global__ void follow(const float* x, const float* w, float* o, int n, int s) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float held[4] = {0};
    for (int i = 0; i < n; ++i) {
        held[3] = x[i * s + at];
        float sum = 0.f;
        for (int j = 0; j < 4; ++j) sum += w[j] * held[j];
        o[i * s + at] = sum;
        for (int j = 0; j < 3; ++j) held[j] = held[j + 1];
    }
}
"""


class OverlappingWindows(Pattern):
    """Loads of an array whose positions differ by small numbers; or one load in a loop whose rounds
    shift it along its own lanes; or a window held over the rounds, which moves by one in each."""

    name = "overlapping-window-loads"
    axis = "stencil_access"
    source = "tilelore catalogue, P48"
    matches = (
        Case(_TAPS, "k shifted loads"),
        Case(_TAPS_TILE, "k shifted loads"),
        Case(_TAPS_THREADS, "k shifted loads"),
        Case(_STATE, _MOVED),
        Case(_POOL, "one shifted load per tap"),
        Case(_ROWS, "one shifted load per tap"),
        Case(_POOL_TILE, "one shifted load per tap"),
        Case(
            vary(_POOL, ("range(K)", "range(1 - K, 1)")),
            "one shifted load per tap",
        ),
        Case(_SLID, "register shift"),
        Case(_SLID_TILE, "register shift"),
        Case(_SLID_THREADS, "register shift"),
    )
    near_misses = (
        NearMiss(vary(_SLID, ("a = b", "a = a + b")), why="a sum", value="register shift"),
        NearMiss(
            vary(_SLID_TILE, ("a + b * 2.0 + c", "a + c")),
            why="fetched ahead: the round computes with one of them",
            value="register shift",
        ),
        NearMiss(
            _SLID_THREADS.replace("held[j] = held[j + 1]", "held[j] = held[j] * 0.5f"),
            why="every element stays where it is",
            value="register shift",
        ),
        NearMiss(vary(_STATE, ("at + 1,", "at,")), why="the window stays where it is"),
        NearMiss(vary(_STATE, ("store(at, s,", "store(at, s + 1.0,")), why="computed anew"),
        NearMiss(vary(_STATE, ("store(at, s", "store(w + d[:, None] * W, s")), why="another array"),
        NearMiss(_PARTS_THREADS, why="neighbours say where a part begins and where it ends"),
        NearMiss(_PARTS, why="how long the part of a lane is, and where it begins"),
        NearMiss(
            vary(
                _PARTS_THREADS,
                (
                    "for (int i = starts[row]; i < starts[row + 1]; i += 1) sum +=",
                    "sum = starts[row + 1] - starts[row] +",
                ),
            ),
            why="how long a part is",
        ),
        NearMiss(
            vary(_POOL, ("x + (at + i) * n", "x + (at + i * T) * n")),
            why="every round reads the next tile",
        ),
        NearMiss(
            vary(_POOL, ("x + (at + i) * n", "x + at + i * n")),
            why="every round reads another row",
        ),
        NearMiss(
            vary(_POOL, ("range(K)", "range(n)")),
            why="the number of rounds is known at run time only",
        ),
        NearMiss(
            vary(_POOL, ("x + (at + i) * n", "x + (at * K + i) * n")),
            why="every lane has rows of its own",
        ),
        NearMiss(
            vary(_ROWS, ("(row - i) * s", "(row * K + i) * s")), why="rows of the block's own"
        ),
        NearMiss(_HALVES, why="whole tiles side by side"),
        NearMiss(_FIELDS, why="fields of a record: every lane has a row of its own"),
        NearMiss(vary(_FIELDS, ("at * width", "(at // n % 7) * 4")), why="records of four numbers"),
        NearMiss(
            vary(
                _FIELDS,
                ("at * width", "tl.load(out + at) * width"),
                (", mask=at < n, other=0.0", ""),
            ),
            why="records that are looked up",
        ),
        NearMiss(ADD_POINTER, why="two arrays"),
        NearMiss(ROW_NORM, why="every array is read at one place"),
        NearMiss(
            vary(
                _TAPS_THREADS,
                (
                    "blockIdx.x * blockDim.x + threadIdx.x",
                    "2 * (blockIdx.x * blockDim.x + threadIdx.x)",
                ),
                ("x[at] + 2.f * x[at + 1] + x[at + 2]", "x[at] + 2.f * x[at + 1]"),
            ),
            why="every thread has a pair of its own",
        ),
        NearMiss(
            vary(
                _TAPS_THREADS,
                (
                    "blockIdx.x * blockDim.x + threadIdx.x",
                    "64 * blockIdx.x + (threadIdx.x & 31) * 2",
                ),
                ("x[at] + 2.f * x[at + 1] + x[at + 2]", "x[at] + 2.f * x[at + 1]"),
            ),
            why="every lane of a warp has a pair of its own",
        ),
        NearMiss(ADD_THREADS, why="two arrays"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for near in shifted(facts):
            yield self.decide(facts, "k shifted loads", near)
        taps = stepped(facts)
        if taps:
            yield self.decide(facts, "one shifted load per tap", taps)
        if moved := slid(facts):
            yield self.decide(facts, "register shift", moved)
        if states := moved_on(facts):
            yield self.decide(facts, _MOVED, states)

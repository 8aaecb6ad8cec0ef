# ruff: noqa: E501
"""Convolutions that sum inputs times weights over loops of taps, and sums that are none. Written for
this purpose; none is somebody else's."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE, vary

DIRECT = (
    POINTER
    + """
@triton.jit
def slide(x, w, out, C, H, V, KO, xn, xc, xh, xv, wk, wc, wr, ws, yn, yk, yp, yq,
          R: tl.constexpr, S: tl.constexpr, STEP: tl.constexpr, PAD: tl.constexpr, DIL: tl.constexpr,
          TK: tl.constexpr, TQ: tl.constexpr):
    n = tl.program_id(0)
    p = tl.program_id(1)
    ko = tl.program_id(2) * TK + tl.arange(0, TK)
    q = tl.arange(0, TQ)
    acc = tl.zeros((TK, TQ), dtype=tl.float32)
    for c in range(C):
        for r in range(R):
            h = p * STEP - PAD + r * DIL
            for s in range(S):
                v = q * STEP - PAD + s * DIL
                inside = (h >= 0) & (h < H) & (v >= 0) & (v < V)
                a = tl.load(x + n * xn + c * xc + h * xh + v * xv, mask=inside, other=0.0)
                b = tl.load(w + ko * wk + c * wc + r * wr + s * ws, mask=ko < KO, other=0.0)
                acc += b[:, None] * a[None, :]
    tl.store(out + n * yn + ko[:, None] * yk + p * yp + q[None, :] * yq, acc, mask=ko[:, None] < KO)
"""
)
"""Channels outside, taps inside, each in a loop of its own."""

DEPTHWISE_TILE = (
    TILE
    + """
@ct.kernel
def slide(x, w, out, C: int, R: Int, S: Int, STEP: Int, PAD: Int, DIL: Int, TP: Int, TQ: Int):
    plane = ct.bid(0)
    p = ct.bid(1) * TP + ct.arange(TP, dtype=ct.int32)
    q = ct.bid(2) * TQ + ct.arange(TQ, dtype=ct.int32)
    n = plane // C
    c = plane % C
    acc = ct.zeros((TP, TQ), dtype=ct.float32)
    for r in ct.static_iter(range(R)):
        for s in ct.static_iter(range(S)):
            h = p * STEP - PAD + r * DIL
            v = q * STEP - PAD + s * DIL
            a = ct.gather(x, (n, c, h[:, None], v[None, :]), check_bounds=True, padding_value=0)
            b = ct.gather(w, (c, r, s))
            acc = acc + a * b
    ct.scatter(out, (n, c, p[:, None], q[None, :]), acc)
"""
)
"""One channel per block; a gather fills what lies outside."""

DEPTHWISE_THREADS = """template <int R, int S, int STEP, int PAD, int DIL>
__global__ void slide(const float* x, const float* w, float* y, int C, int H, int V, int Q) {
    int plane = blockIdx.x;
    int p = blockIdx.y;
    int q = threadIdx.x;
    float sum = 0.f;
    for (int r = 0; r < R; ++r) {
        for (int s = 0; s < S; ++s) {
            int h = p * STEP - PAD + r * DIL;
            int v = q * STEP - PAD + s * DIL;
            if (h >= 0 && h < H && v >= 0 && v < V) {
                sum += x[(plane * H + h) * V + v] * w[(plane % C * R + r) * S + s];
            }
        }
    }
    y[(plane * gridDim.y + p) * Q + q] = sum;
}
"""

POOLED = vary(DIRECT, ("b[:, None] * a[None, :]", "a[None, :]"))
"""Inputs are summed as they are."""

WINDOW = vary(DIRECT, ("ko * wk + c * wc + r * wr + s * ws", "ko * wk + c * wc"))
"""One factor for all taps."""

"""Cases and near misses of patterns that the program and the host tell together."""

from __future__ import annotations

from extractors.host.samples import HostCase, HostMiss, vary
from extractors.told_flags import BOTH_PASSES
from extractors.told_stages import BESIDE

TURN = """
import torch
import triton
import triton.language as tl

@triton.jit
def turn(x, s, out, T: tl.constexpr, BACK: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    angle = tl.load(s + at)
    if BACK:
        angle = -angle
    tl.store(out + at, tl.load(x + at) * angle)

def ahead(x, s):
    out = torch.empty_like(x)
    turn[(x.numel() // 128,)](x, s, out, T=128, BACK=False)
    return out

def back(x, s):
    out = torch.empty_like(x)
    turn[(x.numel() // 128,)](x, s, out, T=128, BACK=True)
    return out

class Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(s)
        return ahead(x, s)

    @staticmethod
    def backward(ctx, dy):
        (s,) = ctx.saved_tensors
        return back(dy, s), None
"""
_TURN_TILE = vary(
    TURN,
    ("import triton\nimport triton.language as tl", "import cuda.tile as ct"),
    ("@triton.jit", "@ct.kernel"),
    ("T: tl.constexpr, BACK: tl.constexpr", "T: ct.Constant[int], BACK: ct.Constant[bool]"),
    ("    at = tl.program_id(0) * T + tl.arange(0, T)\n", "    at = ct.bid(0)\n"),
    ("tl.load(s + at)", "ct.load(s, index=(at,), shape=(T,))"),
    ("tl.store(out + at, tl.load(x + at) * angle)",
     "v = ct.load(x, index=(at,), shape=(T,))\n    ct.store(out, index=(at,), tile=v * angle)"),
    ("turn[(x.numel() // 128,)](x, s, out, T=128, BACK=False)",
     "ct.launch(torch.cuda.current_stream(), (x.numel() // 128,), turn, (x, s, out, 128, False))"),
    ("turn[(x.numel() // 128,)](x, s, out, T=128, BACK=True)",
     "ct.launch(torch.cuda.current_stream(), (x.numel() // 128,), turn, (x, s, out, 128, True))"),
)  # fmt: skip

LEAVE = """
import torch
import triton
import triton.language as tl

@triton.jit
def leave(x, parts, twice, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at)
    tl.store(parts + at, v * v)
    tl.store(twice + at, v + v)

@triton.jit
def join(parts, out, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.exp(tl.load(parts + at)))

def host(x):
    parts, twice, out = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    leave[(x.numel() // 64,)](x, parts, twice, T=64)
    join[(x.numel() // 64,)](parts, out, T=64)
    return out, twice

class Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return host(x)
"""
_LEAVE_TILE = vary(
    LEAVE,
    ("import triton\nimport triton.language as tl", "import cuda.tile as ct"),
    ("@triton.jit", "@ct.kernel"),
    ("T: tl.constexpr", "T: ct.Constant[int]"),
    ("    at = tl.program_id(0) * T + tl.arange(0, T)\n", "    at = ct.bid(0)\n"),
    ("tl.load(x + at)", "ct.load(x, index=(at,), shape=(T,))"),
    ("tl.store(parts + at, v * v)", "ct.store(parts, index=(at,), tile=v * v)"),
    ("tl.store(twice + at, v + v)", "ct.store(twice, index=(at,), tile=v + v)"),
    ("tl.store(out + at, tl.exp(tl.load(parts + at)))",
     "ct.store(out, index=(at,), tile=ct.exp(ct.load(parts, index=(at,), shape=(T,))))"),
    ("leave[(x.numel() // 64,)](x, parts, twice, T=64)",
     "ct.launch(torch.cuda.current_stream(), (x.numel() // 64,), leave, (x, parts, twice, 64))"),
    ("join[(x.numel() // 64,)](parts, out, T=64)",
     "ct.launch(torch.cuda.current_stream(), (x.numel() // 64,), join, (parts, out, 64))"),
)  # fmt: skip

CASES = (
    HostCase(BOTH_PASSES, TURN),
    HostCase(BOTH_PASSES, _TURN_TILE),
    HostCase(BESIDE, LEAVE),
    HostCase(BESIDE, _LEAVE_TILE),
)
"""Some kernel of the module is told so."""

MISSES = (
    HostMiss(
        BOTH_PASSES, vary(TURN, ("BACK=True", "BACK=False")), "both passes hand the same flag over"
    ),
    HostMiss(
        BOTH_PASSES,
        vary(_TURN_TILE, ("128, True)", "128, False)")),
        "both passes hand the same flag over",
    ),
    HostMiss(
        BESIDE,
        vary(LEAVE, ("    tl.store(twice + at, v + v)\n", "")),
        "nothing is stored beside it",
    ),
    HostMiss(
        BESIDE,
        vary(_LEAVE_TILE, ("    ct.store(twice, index=(at,), tile=v + v)\n", "")),
        "nothing is stored beside it",
    ),
)
"""No kernel of the module is told so."""

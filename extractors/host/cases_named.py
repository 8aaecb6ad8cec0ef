"""Cases and near misses of launchers under one name, and of launches that are left out."""

from __future__ import annotations

from extractors.host.named import BESIDE, LEFT_OUT
from extractors.host.samples import ROWS_POINTER, ROWS_TILE, HostCase, HostMiss, vary

_HOST_POINTER = """
def host(x, w):
    out = torch.empty_like(x)
    kern[(x.shape[0],)](x, w, out, 1024, True, 1024, num_warps=4)
"""
_KERNEL_POINTER = """
@triton.jit
def wide(x, out, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at))

@triton.jit
def kern("""
_BOTH_POINTER = """
def first(x: torch.Tensor, w: torch.Tensor):
    out = torch.empty_like(x)
    wide[(x.shape[0],)](x, out, 64)
    return out

def second(x: torch.Tensor, w: torch.Tensor):
    out = torch.empty_like(x)
    kern[(x.shape[0],)](x, w, out, 1024, True, 1024, num_warps=4)
    return out

rows = first
"""
PASSED = vary(
    ROWS_POINTER, ("\n@triton.jit\ndef kern(", _KERNEL_POINTER), (_HOST_POINTER, _BOTH_POINTER)
)
"""Two launchers; a name of the module stands for that of the other kernel."""

_KERNEL_TILE = """
@ct.kernel
def wide(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)))

@ct.kernel
def kern("""
_LAUNCH_TILE = "    ct.launch(torch.cuda.current_stream(), (x.shape[0],), "
_BOTH_TILE = f"""
def first(x: torch.Tensor, w: torch.Tensor):
    out = torch.empty_like(x)
{_LAUNCH_TILE}wide, (x, out, 64))
    return out

def second(x: torch.Tensor, w: torch.Tensor):
    out = torch.empty_like(x)
{_LAUNCH_TILE}kern, (x, w, out, 1024, True, 1024))
    return out

rows = first
"""
PASSED_TILE = vary(
    ROWS_TILE,
    ("\n@ct.kernel\ndef kern(", _KERNEL_TILE),
    (ROWS_TILE[ROWS_TILE.index("\ndef host") :], _BOTH_TILE),
)
"""The same with tiles."""

_GIVEN = "    if w is None:\n        return x\n"
SKIPPED = vary(ROWS_POINTER, ("    out =", _GIVEN + "    out ="))
SKIPPED_TILE = vary(ROWS_TILE, ("    out =", _GIVEN + "    out ="))
"""Nothing to do without the weight."""

CASES = (
    HostCase(BESIDE, PASSED, "a name of the module stands for another launcher"),
    HostCase(BESIDE, PASSED_TILE, "a name of the module stands for another launcher"),
    HostCase(LEFT_OUT, SKIPPED),
    HostCase(LEFT_OUT, SKIPPED_TILE),
    HostCase(LEFT_OUT, vary(SKIPPED, ("return x\n", "return x.view(-1)\n"))),
)
"""What must be seen."""

MISSES = (
    HostMiss(
        BESIDE, vary(PASSED, ("rows = first", "rows = second")), "the name stands for its launcher"
    ),
    HostMiss(BESIDE, vary(PASSED, (": torch.Tensor", "")), "nothing says what the launchers take"),
    HostMiss(
        BESIDE,
        vary(PASSED, ("first(x: torch.Tensor, w: ", "first(x: int, w: ")),
        "the launchers take different things",
    ),
    HostMiss(
        BESIDE,
        vary(PASSED_TILE, ("    return out\n\nrows", "    return out, x\n\nrows")),
        "the launchers give different things",
    ),
    HostMiss(
        BESIDE,
        vary(PASSED, ("rows = first", "rows = first\n\ndef both(x):\n    return second(x, x)")),
        "the other launcher is called",
    ),
    HostMiss(LEFT_OUT, vary(SKIPPED, ("return x\n", "return None\n")), "nothing is given back"),
    HostMiss(
        LEFT_OUT,
        vary(SKIPPED, ("if w is None", "if x.shape[0] == 0")),
        "there is nothing to be done at all",
    ),
    HostMiss(
        LEFT_OUT,
        vary(SKIPPED_TILE, ("def host(x, w)", "def host(x, w, y)"), ("return x\n", "return y\n")),
        "what the kernel does not get",
    ),
)
"""What must not be seen."""

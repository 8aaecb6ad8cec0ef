# ruff: noqa: E501
"""Small modules of kernel and host code that the cases of host decisions are cut from. Written for
this purpose; none is somebody else's.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostCase:
    """A module whose last kernel's host code decides `value` by `pattern`."""

    pattern: str
    text: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class HostMiss:
    """A module in which the pattern must not be seen, or not the value; with the reason."""

    pattern: str
    text: str
    why: str
    value: str | None = None


def vary(text: str, *changes: tuple[str, str]) -> str:
    """The text with pieces replaced; ValueError when a piece is not there."""
    for old, new in changes:
        if old not in text:
            raise ValueError(f"the case has no {old!r} to replace")
        text = text.replace(old, new)
    return text


ROWS_TILE = """import torch
import cuda.tile as ct
from types import SimpleNamespace
from cuda.tile.tune import exhaustive_search

@ct.kernel
def kern(x, w, out, N: ct.Constant[int], HAS: ct.Constant[bool], T: ct.Constant[int]):
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, (row, at))
    if HAS:
        v = v * ct.gather(w, at)
    ct.scatter(out, (row, at), v)

def host(x, w):
    out = torch.empty_like(x)
    ct.launch(torch.cuda.current_stream(), (x.shape[0],), kern, (x, w, out, 1024, True, 1024))
"""
"""Rows with constants for everything."""

SEARCH_TILE = vary(
    ROWS_TILE,
    (
        """def host(x, w):
    out = torch.empty_like(x)
    ct.launch(torch.cuda.current_stream(), (x.shape[0],), kern, (x, w, out, 1024, True, 1024))
""",
        """def space():
    for t in (512, 1024):
        for o in (1, 2):
            yield SimpleNamespace(T=t, occ=o)

best = {}

def host(x, w):
    out = torch.empty_like(x)
    stream = torch.cuda.current_stream()
    configs = list(space())
    key = (x.shape, x.dtype)
    if key not in best:
        found = exhaustive_search(
            configs, stream, lambda c: (x.shape[0],), kern,
            lambda c: (x, w, out, 1024, True, c.T), lambda c: {"occupancy": c.occ},
        )
        best[key] = found.best.config
    c = best[key]
    ct.launch(stream, (x.shape[0],), kern.replace_hints(occupancy=c.occ), (x, w, out, 1024, True, c.T))
""",
    ),
)
"""The same with a search that is remembered."""

ROWS_POINTER = """import torch
import triton
import triton.language as tl

@triton.jit
def kern(x, w, out, N: tl.constexpr, HAS: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * N + at, mask=at < N)
    if HAS:
        v = v * tl.load(w + at, mask=at < N)
    tl.store(out + row * N + at, v, mask=at < N)

def host(x, w):
    out = torch.empty_like(x)
    kern[(x.shape[0],)](x, w, out, 1024, True, 1024, num_warps=4)
"""
"""Rows with constants for everything."""

SEARCH_POINTER = vary(
    ROWS_POINTER,
    ("@triton.jit\n", '@triton.autotune(configs=[triton.Config({"T": t}, num_warps=w) for t in (512, 1024) for w in (4, 8)], key=["N"])\n@triton.jit\n'),
    ("x, w, out, 1024, True, 1024, num_warps=4)", "x, w, out, 1024, True)"),
)  # fmt: skip
"""The same with an attached search."""

TUNER_POINTER = vary(
    ROWS_POINTER,
    ("@triton.jit\n", """class Tried:
    def __init__(self, kernel, tried, left):
        self.kernel, self.tried, self.left = kernel, tried, left

    def __getitem__(self, grid):
        return lambda *args: fastest(self, grid, args)

@triton.jit
"""),
    ("\ndef host", """
best = Tried(
    kern,
    [triton.Config({"T": t}, num_warps=w) for t in (512, 1024) for w in (4, 8)],
    left=lambda tried, args: [c for c in tried if c.kwargs["T"] <= 2 * args["N"]],
)

def host"""),
    ("kern[(x.shape[0],)](x, w, out, 1024, True, 1024, num_warps=4)", "best[(x.shape[0],)](x, w, out, 1024, True)"),
)  # fmt: skip
"""The same with a class of the module that is made of the kernel and its configurations."""

ACCUMULATE_TILE = vary(
    SEARCH_TILE, ("    ct.scatter(out, (row, at), v)", "    ct.atomic_add(out, (row, at), v)")
)
ACCUMULATE_POINTER = vary(
    SEARCH_POINTER,
    (
        "tl.store(out + row * N + at, v, mask=at < N)",
        "tl.atomic_add(out + row * N + at, v, mask=at < N)",
    ),
)
LOOPS_TILE = vary(
    SEARCH_TILE,
    ("    if HAS:\n        v = v * ct.gather(w, at)\n",
     "    if HAS:\n        for j in range(4):\n            v = v + ct.gather(w, at + j)\n    else:\n        for j in range(2):\n            v = v * ct.gather(w, at + j)\n"),
    ("SimpleNamespace(T=t, occ=o)", "SimpleNamespace(T=t, occ=o, two=t > 600)"),
    ("lambda c: (x, w, out, 1024, True, c.T)", "lambda c: (x, w, out, 1024, c.two, c.T)"),
)  # fmt: skip
LOOPS_POINTER = vary(
    SEARCH_POINTER,
    ("    if HAS:\n        v = v * tl.load(w + at, mask=at < N)\n",
     "    if HAS:\n        for j in range(4):\n            v = v + tl.load(w + at + j)\n    else:\n        for j in range(2):\n            v = v * tl.load(w + at + j)\n"),
    ('{"T": t}, num_warps=w) for t in (512, 1024)', '{"T": t, "HAS": h}, num_warps=w) for h in (True, False) for t in (512, 1024)'),
    ("x, w, out, 1024, True)", "x, w, out, 1024)"),
)  # fmt: skip
PADDED = """def host(x, w):
    out = torch.empty_like(x)
    stat = torch.full((2048,), float("inf"), device=x.device)
    stat[: x.shape[0]] = w
"""
COMPUTED = """def host(x, w):
    out = torch.empty_like(x)
    tile = 256 if x.shape[1] <= 4096 else 1024
"""
SPLITS = """def host(x, w):
    out = torch.empty_like(x)
    splits = max(1, torch.cuda.get_device_properties(x.device).multi_processor_count // x.shape[0])
"""
BY_DEVICE = """def device_grade():
    return torch.cuda.get_device_capability()[0]

def host(x, w):
    out = torch.empty_like(x)
    size = 1024 if device_grade() >= 10 else 512
"""
"""A size by what a function of the module learns of the device."""
COUNTED = """def host(x, w):
    out = torch.empty_like(x)
    size = 64
    while size < x.shape[1] and size < 2048:
        size *= 2
"""
BOUNDED = """def host(x, w):
    import triton
    out = torch.empty_like(x)
    size = min(4096, triton.next_power_of_2(x.shape[1]))
"""
BOUNDED_BY_CASES = """if torch.version.hip:
    BOUND = 2048
else:
    BOUND = 4096
""" + BOUNDED.replace("4096", "BOUND")
SAVED = """def first(ctx, x):
    import triton
    ctx.span = triton.next_power_of_2(x.shape[1])

def host(ctx, x, w):
    out = torch.empty_like(x)
"""
"""A size that another function put into a context."""
STRIDED = """def host(x, w):
    out = torch.empty_like(x)
    assert x.stride(0) == w.stride(0)
"""
HEAD = "def host(x, w):\n    out = torch.empty_like(x)\n"
_TILE_ARGS, _POINTER_ARGS = "(x, w, out, 1024, True, 1024)", "(x, w, out, 1024, True, 1024, num"


TWO_TILE = vary(
    ROWS_TILE,
    ("@ct.kernel\n", "@ct.kernel\ndef wide(x, out, T: ct.Constant[int]):\n    i = ct.bid(0)\n    ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)))\n\n@ct.kernel\n"),
    ("    ct.launch(torch", "    if x.shape[1] > 4096:\n        ct.launch(torch.cuda.current_stream(), (x.shape[0],), wide, (x, out, 64))\n        return out\n    ct.launch(torch"),
)  # fmt: skip
TWO_POINTER = vary(
    ROWS_POINTER,
    ("@triton.jit\n", "@triton.jit\ndef wide(x, out, T: tl.constexpr):\n    at = tl.program_id(0) * T + tl.arange(0, T)\n    tl.store(out + at, tl.load(x + at))\n\n@triton.jit\n"),
    ("    kern[", "    if x.shape[1] > 4096:\n        wide[(x.shape[0],)](x, out, 64)\n        return out\n    kern["),
)  # fmt: skip
"""Another kernel for wide rows."""


def tile(host: str, args: str) -> str:
    """The rows in cuTile with another beginning of the host function and other arguments."""
    return vary(ROWS_TILE, (HEAD, host), (_TILE_ARGS, f"({args})"))


def pointer(host: str, args: str) -> str:
    """The rows in Triton with another beginning of the host function and other arguments."""
    return vary(ROWS_POINTER, (HEAD, host), (_POINTER_ARGS, f"({args}, num"))

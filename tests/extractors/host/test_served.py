"""Kernels that serve a case of the problem of their own, taken out of a table."""

from __future__ import annotations

from tests.extractors.rules.support import subjects

_TABLES = """import torch
import triton
import triton.language as tl

@triton.jit
def plain(x, out, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at))

@triton.jit
def weighed(x, w, out, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at) * tl.load(w + tl.arange(0, T)))

WITH = {"one": weighed}
WITHOUT = {
    "one": plain,
}

def run(x, w, out, kind):
    if w is None:
        chosen = WITHOUT[kind]
        chosen[(x.shape[0],)](x, out, T=64)
    else:
        chosen = WITH[kind]
        chosen[(x.shape[0],)](x, w, out, T=64)
"""


def test_the_table_and_the_look_up_are_told_with_the_launch() -> None:
    told = [d for d in subjects(_TABLES)["plain"].host.decisions if d.axis == "optional_inputs"]
    assert [d.lines for d in told] == [((16, 18), (21, 21), (22, 22), (23, 23))]

"""A test or a benchmark in the module says nothing of what the function that it tries accepts."""

from __future__ import annotations

import pytest

from tests.extractors.host.conftest import Read

_MODULE = """import torch
import triton
import triton.language as tl

@triton.jit
def kern(x, out, n):
    tl.store(out, tl.load(x))

def inner(x, out, n):
    kern[(n,)](x, out, n)

def run(x, flag=False):
    assert x.shape[1] % 8 == 0
    out = torch.empty_like(x)
    inner(x, out, x.shape[0])
    return out
"""
_CALLED = "\nx = torch.randn((512, 64))\nrun(x)\n"
_METHOD = (
    "\ndef check(rows, flag):\n    x = torch.empty((rows, 64)).normal_()\n    run(x, flag)\n"
    "\ncheck(512, True)\n"
)
_PASSED = (
    "\ndef bench(fn, x):\n    fn(x)\n\ndef main(rows):\n"
    "    bench(run, torch.rand((rows, 64)).T.to('cuda'))\n"
)
_LISTED = _CALLED.replace("run(x)", "for one in [x, x]:\n    run(one)")


@pytest.mark.parametrize("trial", ["", _CALLED, _METHOD, _PASSED, _LISTED])
def test_what_a_trial_passes_is_not_what_is_accepted(read: Read, trial: str) -> None:
    facts = read(_MODULE + trial, "kern")
    assert [c.expression for c in facts.constraints if "%" in c.expression] == [
        "x.shape[1] % 8 == 0"
    ]
    material = facts.material
    assert material is not None
    assert [launch.stack for launch in material.launches] == [("run", "inner")]


_OWN = """
def noise(x):
    draw = torch.rand(x.shape[0], 64)
    out = torch.empty_like(x)
    inner(draw, out, x.shape[0])
"""


def test_random_numbers_of_a_function_that_takes_arrays_are_no_trial(read: Read) -> None:
    material = read(_MODULE.partition("def run")[0] + _OWN, "kern").material
    assert material is not None
    assert [launch.stack for launch in material.launches] == [("noise", "inner")]

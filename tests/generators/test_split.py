"""A loop whose branch compares the induction variable with an invariant becomes two loops."""

from __future__ import annotations

import numpy as np
import pytest

from extractors.modules import ModuleText
from extractors.read import read
from generators.evaluate import run
from generators.lower.triton import Lowered, to_triton
from kb.ir import Kernel, walk
from kb.ops import OpKind

SOURCE = """
import cuda.tile as ct

@ct.kernel
def k(A, Out, bound: int, TILE: ct.Constant[int], MASK: ct.Constant[bool]):
    acc = ct.full((TILE,), 0.0, dtype=ct.float32)
    n = ct.cdiv(A.shape[0], TILE)
    for j in range(0, n):
        x = ct.load(A, index=(j,), shape=(TILE,), padding_mode=ct.PaddingMode.ZERO)
        if {guard}:
            x = x * 2.0
        acc = acc + x
    ct.store(Out, index=(0,), tile=acc)
"""
GUARDS = ("j >= bound", "MASK and j >= bound")
TILE, COUNT = 16, 5


def program(guard: str) -> Kernel:
    (kernel,) = read(ModuleText("", "k.py", SOURCE.format(guard=guard))).kernels
    return kernel


def loops(kernel: Kernel) -> int:
    return sum(1 for op in walk(kernel.entry.body) if op.kind == OpKind.FOR)


def arguments(lowered: Lowered, a: np.ndarray, out: np.ndarray, values: dict) -> dict:
    """What the host passes for the parameters of the lowered kernel."""
    arrays = {"A": a, "Out": out}
    found = {}
    for parameter in lowered.parameters:
        if parameter.source == "pointer":
            found[parameter.name] = arrays[parameter.tensor]
        elif parameter.source == "shape":
            found[parameter.name] = arrays[parameter.tensor].shape[parameter.axis]
        elif parameter.source == "stride":
            found[parameter.name] = 1
        else:
            found[parameter.name] = values[parameter.name]
    return found


@pytest.mark.parametrize("guard", GUARDS)
def test_the_loop_is_split(guard: str) -> None:
    kernel = program(guard)
    assert (loops(kernel), loops(to_triton(kernel).kernel)) == (1, 2)


@pytest.mark.parametrize(
    "guard", ["j > bound", "j >= bound or MASK", "x0 >= bound"], ids=["other", "or", "not the loop"]
)
def test_other_branches_stay(guard: str) -> None:
    kernel = program(guard.replace("x0", "TILE"))
    assert loops(to_triton(kernel).kernel) == 1


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("bound", [-3, 0, 2, COUNT, 9])
@pytest.mark.parametrize("mask", [True, False])
def test_both_programs_compute_the_same(guard: str, bound: int, mask: bool) -> None:
    kernel = program(guard)
    lowered = to_triton(kernel)
    a = np.arange(TILE * COUNT - 3, dtype=np.float32)
    values = {"bound": bound, "TILE": TILE, "MASK": mask}
    results = []
    for one, bound_arguments in (
        (kernel, lambda out: {"A": a, "Out": out, **values}),
        (lowered.kernel, lambda out: arguments(lowered, a, out, values)),
    ):
        out = np.zeros(TILE, dtype=np.float32)
        run(one, (1, 1, 1), bound_arguments(out))
        results.append(out)
    assert results[0].any()
    assert np.array_equal(*results)

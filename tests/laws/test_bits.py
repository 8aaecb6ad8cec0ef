"""What the dataflow says of bits, held against runs of real kernels: an axis that is called bitwise
stable leaves every bit alone, one that can change bits changes some.

Kernels of pinned wheels, both sides in the NumPy interpreter, which sums a loop in the order of its
iterations and rounds to the type of the program after every operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil

import numpy as np
import pytest

from api.corpora import fetch
from api.source_files import FolderModules, module_text
from extractors.read import read
from generators.evaluate import run
from kb.analysis.facts import Facts
from kb.analysis.numerics_rules import parameter_numerics
from kb.errors import InputError
from kb.evidence import Numerics
from kb.ir import Kernel

Arguments = dict[str, object]
CHANCE = 20261122


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Arguments of one problem with its tuned values worked in, and the grid that covers it."""

    wheel: str
    path: str
    kernel: str
    output: str
    arguments: Callable[[], Arguments]
    tuned: Arguments
    grid: Callable[[Arguments], tuple[int, ...]]


@cache
def kernel_of(wheel: str, path: str, name: str) -> Kernel:
    try:
        root = fetch(wheel).folder
    except InputError as error:
        pytest.skip(f"no wheel: {error.text}")
    module = module_text(root, root / path)
    assert module is not None
    return next(k for k in read(module, FolderModules(root)).kernels if k.name == name)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Unit normal numbers, f32."""
    return np.random.default_rng(CHANCE + seed).standard_normal(shape).astype(np.float32)


def matmul() -> Arguments:
    return {"A": normal(72, 88), "B": normal(88, 56, seed=1), "C": np.zeros((72, 56), np.float32)}


MATMUL = Launch(
    wheel="tilegym==1.5.1", path="tilegym/ops/cutile/matmul.py", kernel="_matmul_kernel",
    output="C", arguments=matmul,
    tuned={"TILE_SIZE_M": 16, "TILE_SIZE_N": 16, "TILE_SIZE_K": 16},
    grid=lambda a: (ceil(72 / a["TILE_SIZE_M"]) * ceil(56 / a["TILE_SIZE_N"]),),  # type: ignore[operator]
)  # fmt: skip
PERSISTENT = Launch(
    wheel="tilegym==1.5.1", path="tilegym/ops/cutile/matmul.py",
    kernel="_static_persistent_matmul_kernel", output="C",
    arguments=lambda: {**matmul(), "M": 72, "N": 56, "K": 88, "TRANSPOSE_A": False,
                       "TRANSPOSE_B": False},
    tuned={"TILE_SIZE_M": 16, "TILE_SIZE_N": 16, "TILE_SIZE_K": 16, "GROUP_SIZE_M": 2,
           "LOAD_LATENCY": 2},
    grid=lambda a: (3,),
)  # fmt: skip


def attention() -> Arguments:
    """Two heads of 40 rows of 16, causal, with what the backward kernels take beside."""
    rows, wide, heads = 40, 16, 2
    shape = (1, heads, rows, wide)
    names = ("Q", "K", "V", "dO")
    found: Arguments = {name: normal(*shape, seed=place) for place, name in enumerate(names)}
    found |= {name: np.zeros(shape, np.float32) for name in ("dQ", "dK", "dV", "Out")}
    found |= {"LSE": np.full(heads * rows, 4, np.float32), "Delta": normal(heads * rows, seed=9)}
    return {**found, "qk_scale": 0.25, "TILE_D": wide, "H": heads, "H_Q": heads, "H_KV": heads,
            "SEQ_LEN": rows, "QUERY_GROUP_SIZE": 1, "CAUSAL": True, "EVEN_K": False,
            "input_pos": 0}  # fmt: skip


def backward(kernel: str, output: str, rows: str) -> Launch:
    return Launch(
        wheel="tilegym==1.5.1", path="tilegym/ops/cutile/attention.py", kernel=kernel,
        output=output, arguments=attention, tuned={"TILE_M": 8, "TILE_N": 8},
        grid=lambda a: (ceil(40 / a[rows]), 2),  # type: ignore[operator]
    )  # fmt: skip


DQ = backward("_fmha_bwd_dq_kernel", "dQ", "TILE_M")
DKDV = backward("_fmha_bwd_dkdv_kernel", "dK", "TILE_N")
FMHA = backward("_fmha_kernel", "Out", "TILE_M")
SWIGLU = Launch(
    wheel="liger-kernel==0.8.5", path="liger_kernel/ops/swiglu.py",
    kernel="_swiglu_forward_kernel_tiled", output="c_ptr",
    arguments=lambda: {"a_ptr": normal(3, 44), "b_ptr": normal(3, 44, seed=1),
                       "c_ptr": np.zeros((3, 44), np.float32), "stride": 44,
                       "gate_multiplier": 1.0, "n_cols": 44},
    tuned={"BLOCK_SIZE": 16},
    grid=lambda a: (3, ceil(44 / a["BLOCK_SIZE"])),  # type: ignore[operator]
)  # fmt: skip
KL = Launch(
    wheel="liger-kernel==0.8.5", path="liger_kernel/ops/kl_div.py",
    kernel="_kldiv_kernel_forward", output="loss_ptr",
    arguments=lambda: {"y_ptr": normal(24, 99), "y_stride": 99, "gt_ptr": normal(24, 99, seed=1),
                       "gt_stride": 99, "loss_ptr": np.zeros(24, np.float32), "loss_stride": 1,
                       "n_cols": 99, "eps": 1e-6, "reduction": 1, "log_target": True},
    tuned={"BLOCK_SIZE": 16},
    grid=lambda a: (24,),
)  # fmt: skip
S, C = Numerics.STABLE, Numerics.CHANGES


@pytest.mark.parametrize(
    ("launch", "axis", "other", "numerics"),
    [
        pytest.param(MATMUL, "TILE_SIZE_M", 32, S, id="rows of a matrix product"),
        pytest.param(MATMUL, "TILE_SIZE_N", 64, S, id="columns of a matrix product"),
        pytest.param(MATMUL, "TILE_SIZE_K", 32, C, id="contracted extent of a matrix product"),
        pytest.param(PERSISTENT, "GROUP_SIZE_M", 4, S, id="groups of tiles"),
        pytest.param(PERSISTENT, "LOAD_LATENCY", 5, S, id="latency"),
        pytest.param(PERSISTENT, "TILE_SIZE_K", 64, C, id="contracted extent, persistent"),
        pytest.param(DQ, "TILE_M", 16, S, id="query tile of dQ, causal limit"),
        pytest.param(DQ, "TILE_N", 16, C, id="key tile of dQ"),
        pytest.param(DKDV, "TILE_N", 16, S, id="key tile of dK, causal limit"),
        pytest.param(DKDV, "TILE_M", 16, C, id="query tile of dK"),
        pytest.param(FMHA, "TILE_N", 16, C, id="key tile of the forward pass"),
        pytest.param(SWIGLU, "BLOCK_SIZE", 32, S, id="block of a map, Triton"),
        pytest.param(KL, "BLOCK_SIZE", 32, C, id="block of a sum over a loop, Triton"),
    ],
)
def test_bits_do_as_the_dataflow_says(
    launch: Launch, axis: str, other: int, numerics: Numerics
) -> None:
    kernel = kernel_of(launch.wheel, launch.path, launch.kernel)
    found = parameter_numerics(Facts(kernel), axis)
    assert found.numerics is numerics, found.reason
    one, two = (output(launch, kernel, tuned) for tuned in ({}, {axis: other}))
    assert np.isfinite(one).all()
    assert np.abs(one).max() > 0.1
    np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)
    assert np.array_equal(one, two) is (numerics is S)


def output(launch: Launch, kernel: Kernel, changed: Arguments) -> np.ndarray:
    """What the kernel writes, with some tuned values replaced."""
    given = {**launch.arguments(), **launch.tuned, **changed}
    arguments = {name: given[name] for name in kernel.entry.parameter_names}
    run(kernel, launch.grid(given), arguments)
    written = arguments[launch.output]
    assert isinstance(written, np.ndarray)
    return written

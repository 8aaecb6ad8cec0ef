"""The laws of rewrites on a kernel file that was not written for them: attention.py of TileGym."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from api.corpora import fetch
from generators.compile_model import Argument, ArgumentKind, CompileJob, Signature
from generators.compile_pool import CompilerPool, PoolSettings, available
from generators.emit import emit_program
from generators.rewrites.registry import apply, axes, rewrites
from kb.errors import InputError
from kb.ir import Kernel, alpha_digest
from kb.ir_verify import verify
from tests.laws.rewriting import again, choices, digest, kernels_of, on_axis
from tests.laws.test_rewrites import FLIPS

WHEEL, FILE = "tilegym==1.5.1", "tilegym/ops/cutile/attention.py"
FORWARD = "_fmha_kernel"
WITH_STATISTIC = "_fmha_fwd_kernel_with_lse"
KEYS = "_fmha_bwd_dkdv_kernel"
QUERIES = "_fmha_bwd_dq_kernel"

ROWS = [
    *(
        pytest.param(name, axis, *values, id=f"{name}-{axis}")
        for name in (FORWARD, WITH_STATISTIC)
        for axis, values in FLIPS["flash"].items()
        if axis != "side_output"
    ),
    pytest.param(FORWARD, "side_output", "none", "log-sum-exp", id="statistic added"),
    pytest.param(WITH_STATISTIC, "side_output", "log-sum-exp", "none", id="statistic dropped"),
    pytest.param(KEYS, "denormal_mode", "ftz", "ieee denormals", id="gradient of keys"),
    pytest.param(
        QUERIES, "mask_placement", "mask every iteration",
        "single loop + iv>=bound branch (compiler splits)", id="gradient of queries",
    ),
]  # fmt: skip


@cache
def kernels() -> dict[str, Kernel]:
    try:
        corpus = fetch(WHEEL)
    except InputError as problem:
        pytest.skip(f"{WHEEL} is not at hand: {problem.message}")
    return kernels_of(corpus.folder.joinpath(FILE).read_text(encoding="utf-8"), FILE)


def test_rows_are_collected() -> None:
    assert len(ROWS) == 22


@pytest.mark.parametrize(("name", "axis", "has", "wanted"), ROWS)
def test_there_and_back(name: str, axis: str, has: str, wanted: str) -> None:
    before = kernels()[name]
    after = apply(before, axis, wanted)
    assert verify(after) == ()
    assert on_axis(after, axis) & set(axes()[axis]) == {wanted}
    along = {axis, *rewrites()[axis].follows}
    assert {c for c in choices(before) ^ choices(after) if c[0] not in along} == set()
    assert digest(again(after)) == digest(after)
    assert alpha_digest(apply(after, axis, has)) == alpha_digest(before)


def test_the_forward_kernel_becomes_the_one_with_a_statistic(tmp_path: Path) -> None:
    """NVIDIA wrote both: the rewrite must arrive at the machine code of the other."""
    if not available("cutile"):
        pytest.skip("the compiler of cuTile is not installed")
    rewritten = apply(kernels()[FORWARD], "side_output", "log-sum-exp")
    with CompilerPool(PoolSettings(cache=tmp_path)) as pool:
        made, wanted = (
            pool.compile(
                CompileJob(
                    dialect="cutile", text=emit_program(kernel, "cutile"), kernel=kernel.name,
                    signature=signature(kernel), target="sm_90",
                )
            ).machine
            for kernel in (rewritten, kernels()[WITH_STATISTIC])
        )  # fmt: skip
    assert made is not None
    assert wanted is not None
    assert made.digest == wanted.digest


SIZES: dict[str, int | bool] = {
    "TILE_D": 64, "H": 8, "B": 2, "SEQ_LEN": 1024, "TILE_M": 64, "TILE_N": 64,
    "QUERY_GROUP_SIZE": 2, "CAUSAL": True, "EVEN_K": False,
}  # fmt: skip
SCALARS = {"qk_scale": "f32", "input_pos": "i32"}


def signature(kernel: Kernel) -> Signature:
    return Signature(arguments=tuple(argument(p.name) for p in kernel.entry.parameters))


def argument(name: str) -> Argument:
    if name in SIZES:
        return Argument(name=name, kind=ArgumentKind.CONSTEXPR, value=SIZES[name])
    if name in SCALARS:
        return Argument(name=name, kind=ArgumentKind.SCALAR, dtype=SCALARS[name])
    flat = name == "LSE"
    return Argument(
        name=name, kind=ArgumentKind.ARRAY, dtype="f32" if flat else "f16", rank=1 if flat else 4
    )

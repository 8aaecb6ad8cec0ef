"""Host code under a target profile: what libraries answer about the device, and what Python raises
on the way."""

from __future__ import annotations

import ast

from extractors.host.events import PROFILES, KernelSignature, SearchRecord
from extractors.host.modules import TextLoader
from extractors.host.read import read_searches
from tests.extractors.host.conftest import Read

SHARED = """
import enum
import torch
import triton
import triton.language as tl

class Memory(enum.Enum):
    ADA = 101376
    HOPPER = 232448
    OTHER = 102400

    @classmethod
    def wanted(cls, name):
        try:
            return cls[name.upper()].value
        except KeyError:
            return cls.OTHER.value

def vendor():
    return triton.runtime.driver.active.get_current_target().backend

def fits(name):
    rows = [
        triton.runtime.driver.active.utils.get_device_properties(i)["max_shared_mem"]
        for i in range(torch.cuda.device_count())
    ]
    return rows[0] >= Memory.wanted(name)

TILES = [64, 128] if fits(NAME) else [32]
WARPS = [2, 4] if vendor() == "hip" else [4, 8, 16]

@triton.autotune(
    configs=[triton.Config({"T": t}, num_warps=w) for t in TILES for w in WARPS], key=["n"]
)
@triton.jit
def kern(x, n, T: tl.constexpr):
    pass
"""
TABLE = """
gemm:
  - config:
    param_map:
      META:
        T: tiles
      num_warps: warps
    tiles: [32, 64]
    warps: [4, 8]
  - strategy:
      n: default
"""
LOOKED_UP = """
import triton
import triton.language as tl
from pkg.loader import configs_for

def wide(config):
    return config.kwargs["T"] > 32 and config.num_warps == 8

@triton.autotune(configs=list(filter(wide, configs_for("gemm"))), key=["n"])
@triton.jit
def kern(x, n, T: tl.constexpr):
    pass
"""


def searches(text: str, profile: str | None, **modules: str) -> tuple[SearchRecord, ...]:
    signature = KernelSignature(name="kern", params=(("x", False), ("n", False), ("T", True)))
    return read_searches(
        ast.parse(text), path="pkg/main.py", kernels={"kern": signature},
        loader=TextLoader(dict(modules)), profile=PROFILES[profile] if profile else None,
    )  # fmt: skip


def points(text: str, profile: str | None, **modules: str) -> list[int]:
    (search,) = searches(text, profile, **modules)
    return [len(case.points) for case in search.cases]


def test_a_profile_settles_vendor_and_shared_memory() -> None:
    text = SHARED.replace("NAME", '"hopper"')
    assert points(text, "sm_90") == [6]
    assert points(text, "sm_89") == [3]


def test_a_key_that_no_member_has_is_caught() -> None:
    text = SHARED.replace("NAME", '"none"')
    assert points(text, "sm_90") == [6]
    assert points(text, "sm_89") == [3]


def test_without_a_profile_the_space_is_unknown_with_a_reason() -> None:
    (search,) = searches(SHARED.replace("NAME", '"hopper"'), None)
    assert all(case.reason and not case.points for case in search.cases)


def test_a_table_with_a_strategy_is_filtered_like_configurations_of_the_source() -> None:
    rows = {"tables.yaml": TABLE, "pkg.loader": "def configs_for(name):\n    return load(name)\n"}
    (search,) = searches(LOOKED_UP, "sm_90", **rows)
    (case,) = search.cases
    assert [dict(point) for point in case.points] == [{"T": 64, "num_warps": 8}]


ASKED = """
import torch
import triton

def memories():
    return [torch.cuda.get_device_properties(i) for i in range(devices())]

def large():
    return memories()[0] > 200000

@triton.jit
def k_rows(x, T: "tl.constexpr"):
    pass

def host(x):
    size = 128 if large() else 64
    k_rows[(x.shape[0],)](x, size)
"""


def test_a_question_that_no_evaluated_path_reaches(read: Read) -> None:
    told = [d for d in read(ASKED).decisions if d.axis == "arch_dispatch"]
    assert [d.lines for d in told] == [((6, 6), (9, 9), (16, 16))]
    plain = ASKED.replace("torch.cuda.get_device_properties(i)", "int(i)")
    assert not [d for d in read(plain).decisions if d.axis == "arch_dispatch"]

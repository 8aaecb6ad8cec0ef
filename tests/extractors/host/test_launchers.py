"""Kernels that only other modules of the package launch: their launches are read there."""

from __future__ import annotations

import pytest

from extractors.by_file import BEYOND
from kb.evidence import Lines
from tests.extractors.host.conftest import Read

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def k_scale(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""
LAUNCHER = """
import torch
from pkg.main import k_scale

def scale(x):
    assert x.is_contiguous()
    out = torch.empty_like(x)
    k_scale[(x.shape[0],)](x, out, x.numel(), 256, num_warps=8)
    return out
"""


def place(line: int, file: int = 1) -> Lines:
    """A line of the `file`-th launching module."""
    return file * BEYOND + line, file * BEYOND + line


def test_a_launch_in_another_module_is_read_there(read: Read) -> None:
    facts = read(KERNEL, pkg__ops=LAUNCHER)
    (launch,) = facts.launches
    assert (launch.lines, launch.host_function) == (place(8), "scale")
    assert dict(launch.hints) == {"num_warps": 8}
    assert facts.files == ("pkg/ops.py",)
    (warps,) = [d for d in facts.decisions if d.axis == "num_warps"]
    assert (warps.value, warps.lines) == ("fixed 8", (place(8),))
    assert any(c.lines == place(6) for c in facts.constraints)


def test_a_launch_of_its_own_is_all_that_counts(read: Read) -> None:
    own = KERNEL + LAUNCHER.replace("from pkg.main import k_scale\n", "")
    facts = read(own, pkg__ops=LAUNCHER.replace("256", "512"))
    assert (facts.launches, facts.files) == (read(own).launches, ())
    assert [b.expression for b in facts.launches[0].bindings if b.parameter == "T"] == ["256"]


def test_several_modules_that_launch_it_are_alternatives_in_order(read: Read) -> None:
    other = LAUNCHER.replace("256", "512").replace("def scale", "def wide")
    facts = read(KERNEL, pkg__ops=LAUNCHER, pkg__more=other)
    assert facts.files == ("pkg/more.py", "pkg/ops.py")
    assert [(one.lines, one.host_function) for one in facts.launches] == [
        (place(8), "wide"),
        (place(8, 2), "scale"),
    ]


@pytest.mark.parametrize(
    "changed",
    [
        LAUNCHER.replace("from pkg.main", "from .main"),
        LAUNCHER.replace("from pkg.main", "from pkg"),  # passed on by the package
        LAUNCHER.replace("import k_scale", "import k_scale as run").replace(
            " k_scale[", " run["
        ),
        LAUNCHER.replace("from pkg.main import k_scale", "import pkg.main as m").replace(
            " k_scale[", " m.k_scale["
        ),
        LAUNCHER.replace("from pkg.main import k_scale", "from . import main").replace(
            " k_scale[", " main.k_scale["
        ),
        LAUNCHER.replace("from pkg.main import k_scale", "from pkg.main import *"),
        LAUNCHER.replace("from pkg.main import k_scale\n", "").replace(
            "    assert", "    from pkg.main import k_scale\n    assert"
        ),
        LAUNCHER.replace("import k_scale", "import (\n    k_scale,\n)"),
    ],
)  # fmt: skip
def test_however_it_is_taken(read: Read, changed: str) -> None:
    facts = read(KERNEL, pkg__ops=changed, pkg="from pkg.main import k_scale\n")
    assert [one.host_function for one in facts.launches] == ["scale"]
    assert facts.files[-1] == "pkg/ops.py"


@pytest.mark.parametrize(
    "changed",
    [
        LAUNCHER.replace("from pkg.main", "from pkg.others"),
        LAUNCHER.replace("from pkg.main", "from elsewhere.main"),
        LAUNCHER.replace("\n\ndef scale(x)", ", k_late\n\ndef scale(x, k_scale)"),
        LAUNCHER + "\n\n@triton.jit\ndef k_scale(x, out, n, T):\n    pass\n",
        LAUNCHER.replace("    k_scale[", "    k_scale = other(x)\n    k_scale["),
        LAUNCHER.replace(
            "    k_scale[(x.shape[0],)](x, out, x.numel(), 256, num_warps=8)\n",
            "    k_scale(x, out, 4, 256)\n",
        ),
        "import pkg.main\n\ndef names():\n    return 'k_scale'\n",
        "this is no Python (",
    ],
)
def test_what_is_another_thing_of_its_name_launches_nothing(read: Read, changed: str) -> None:
    others = {"pkg__others": KERNEL + "\nk_scale[(1,)](x, x, 1, 1)\n"}
    assert read(KERNEL, pkg__ops=changed, **others).launches == ()


def test_a_search_attached_at_the_kernel_stays_of_its_file(read: Read) -> None:
    tuned = KERNEL.replace(
        "@triton.jit",
        '@triton.autotune([triton.Config({"T": t}) for t in (64, 128)], key=["n"])\n@triton.jit',
    )
    launcher = LAUNCHER.replace("x.numel(), 256, num_warps=8", "x.numel()")
    facts = read(tuned, pkg__ops=launcher)
    assert facts.tuning.mechanism == "triton.autotune"
    assert facts.tuning.lines == (5, 5)
    assert facts.launches[0].lines == place(8)


def test_another_kernel_of_that_name_brings_no_search(read: Read) -> None:
    launcher = (
        LAUNCHER.replace("import k_scale", "import k_scale as base").replace(" k_scale[", " base[")
        + """
import triton

@triton.autotune([triton.Config({"T": t}) for t in (64, 128)], key=["n"])
@triton.jit
def k_scale(x, out, n, T):
    pass
"""
    )
    facts = read(KERNEL, pkg__ops=launcher)
    assert facts.launches[0].lines == place(8)
    assert facts.tuning.mechanism == "fixed"


def test_helpers_of_the_kernels_module_are_read_at_their_lines(read: Read) -> None:
    text = KERNEL + "\n\ndef tile_of(n):\n    return triton.next_power_of_2(n)\n"
    launcher = LAUNCHER.replace("import k_scale", "import k_scale, tile_of").replace(
        "256", "tile_of(x.shape[1])"
    )
    facts = read(text, pkg__ops=launcher)
    tiles = [d for d in facts.decisions if d.axis in ("tile_padding", "tile_selection")]
    assert tiles
    assert place(8) in {line for d in tiles for line in d.lines}


CUTILE = """
import cuda.tile as ct

@ct.kernel
def k_copy(x, out, T: ct.Constant[int]):
    ct.store(out, index=(ct.bid(0),), tile=ct.load(x, index=(ct.bid(0),), shape=(T,)))
"""
STARTS = """
import torch
import cuda.tile as ct
from pkg.main import k_copy

def copy(x):
    out = torch.empty_like(x)
    ct.launch(torch.cuda.current_stream(), (ct.cdiv(x.shape[0], 128),), k_copy, (x, out, 128))
    return out
"""


def test_kernels_that_a_library_launches(read: Read) -> None:
    facts = read(CUTILE, pkg__ops=STARTS)
    assert [(one.lines, one.host_function) for one in facts.launches] == [(place(8), "copy")]


ELSE = LAUNCHER.replace(
    "    k_scale[(x.shape[0],)](x, out, x.numel(), 256, num_warps=8)\n",
    "    if x.shape[0] > 64:\n        k_scale[(x.shape[0],)](x, out, x.numel(), 256)\n"
    "    else:\n        out = torch.mul(x, 2)\n",
)


def test_what_other_modules_compute_besides_is_no_alternative(read: Read) -> None:
    own = read(KERNEL + ELSE.replace("from pkg.main import k_scale\n", ""))
    assert "framework-instead-of-the-kernel" in {d.pattern for d in own.decisions}
    facts = read(KERNEL, pkg__ops=ELSE)
    assert facts.launches
    assert "framework-instead-of-the-kernel" not in {d.pattern for d in facts.decisions}

"""Where another module chooses between a launcher and something else, it is told."""

from __future__ import annotations

import pytest

from extractors.host.chosen_elsewhere import ELSEWHERE
from extractors.host.samples import vary
from tests.extractors.host.conftest import Read

_MAIN = """import torch
import triton
@triton.jit
def k(x, n, BLOCK: "tl.constexpr"):
    pass
def small(x):
    if x.numel() > 4096:
        return False
    return x.is_cuda and torch.cuda.get_device_capability() >= (9, 0)
def run(x, y):
    k[(x.shape[0],)](x, x.shape[-1], BLOCK=64)
    return x
"""
_NEAR = """import torch
from pkg.main import run, small
def both(x, y):
    if small(x):
        return run(x, y)
    return torch.matmul(x, y)
"""
_CHOICE = """from pkg.main import run
from pkg.other import plain
def both(x, y):
    one = run if x.is_cuda else plain
    return one(x, y)
"""
_WAYS = """import triton
from pkg.main import run
@triton.jit
def other(x, y, BLOCK: "tl.constexpr"):
    pass
def both(x, y):
    if x.shape[0] > 8:
        other[(8,)](x, y, BLOCK=64)
    else:
        run(x, y)
    return x
"""


@pytest.mark.parametrize(
    ("near", "lines"),
    [
        pytest.param(_NEAR, [4], id="the framework instead"),
        pytest.param(_CHOICE, [4], id="another function"),
        pytest.param(_WAYS, [7], id="a kernel of that module"),
        pytest.param(
            vary(_NEAR, ("        return run(x, y)\n    return", "        run(x, y)\n    return")),
            [],
            id="both may run",
        ),
        pytest.param(vary(_NEAR, ("    return torch.matmul(x, y)", "    return x")), [],
                     id="nothing instead"),
        pytest.param(vary(_CHOICE, ("else plain", "else None")), [], id="or no function at all"),
        pytest.param(vary(_WAYS, ("pkg.main", "pkg.other")), [], id="another module's launcher"),
    ],
)  # fmt: skip
def test_a_launcher_chosen_elsewhere(read: Read, near: str, lines: list[int]) -> None:
    found = read(_MAIN, "k", pkg__near=near).decisions
    told = [d for d in found if d.pattern == ELSEWHERE and d.file == "pkg/near.py"]
    assert [at[0] for d in told for at in d.lines] == lines


_OPPOSITE = vary(_NEAR, ("return run(x, y)", "return torch.add(x, y)"),
                 ("return torch.matmul(x, y)", "return run(x, y)"))  # fmt: skip
_HERE = vary(
    _MAIN,
    ("def run(x, y):\n", "def run(x, y):\n    if x.shape[0] == 9:\n"
     "        return torch.add(x, y)\n"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("main", "near", "lines"),
    [
        pytest.param(_MAIN, _NEAR, [7, 9], id="what holds for the kernel"),
        pytest.param(_MAIN, _OPPOSITE, [], id="what holds for the other side"),
        pytest.param(_HERE, _NEAR, [7, 9, 11], id="with what is chosen here"),
    ],
)
def test_what_the_module_answers(read: Read, main: str, near: str, lines: list[int]) -> None:
    found = [d for d in read(main, "k", pkg__near=near).decisions if d.file is None]
    assert [[at for at, _ in d.lines] for d in found if d.axis == "algorithm_selection"] == (
        [lines] if lines else []
    )
    asked = [d.lines for d in found if d.axis == "arch_dispatch"]
    assert asked == ([((9, 9),)] if lines else [])

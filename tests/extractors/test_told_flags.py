"""Flags that the host computes and branches of the program ask for."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.told_cases import TURN
from extractors.told_flags import BOTH_PASSES
from extractors.told_together import told_together
from kb.evidence import Decision
from tests.extractors.rules.support import subject


def _told(text: str) -> tuple[Decision, ...]:
    found = subject(text)
    return tuple(told_together(detect(found.facts.kernel, found.host), found.host))


_LAST = """
import cuda.tile as ct
import torch


@ct.kernel
def scale(x, out, COUNT: ct.Constant[int], REST: ct.Constant[bool]):
    i = ct.bid(0)
    v = ct.load(x, index=(i,), shape=(128,))
    if REST and i == COUNT - 1:
        v = v * 2
    ct.store(out, index=(i,), tile=v)


def host(x):
    out = torch.empty_like(x)
    n = x.shape[0]
    count = (n + 127) // 128
    ct.launch(torch.cuda.current_stream(), (count, 1, 1), scale, (x, out, count, n % 128 != 0))
    return out
"""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(("", ""), True, id="a branch asks"),
        pytest.param(("if REST and i", "if i"), False, id="no branch asks"),
    ],
)
def test_branches_on_the_flag_belong_to_what_it_decides(
    change: tuple[str, str], told: bool
) -> None:
    rows = _told(_LAST.replace(*change))
    tails = [row for row in rows if row.axis == "tail_handling"]
    assert [(10, 10) in row.lines for row in tails] == [told]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(("", ""), True, id="the passes give other flags"),
        pytest.param(("BACK=True", "BACK=False"), False, id="the passes give the same flag"),
    ],
)
def test_branches_on_the_flag_of_a_pass_belong_to_the_kernel_of_both(
    change: tuple[str, str], told: bool
) -> None:
    rows = _told(TURN.replace(*change))
    cuts = [row for row in rows if row.value == "backward by the same kernel"]
    assert [(10, 10) in row.lines for row in cuts] == [told]
    structure = [row for row in rows if row.pattern == BOTH_PASSES]
    assert [{(7, 7), (10, 10)} <= {*row.lines} for row in structure] == [True] * told

"""What happened before a launch, on conditions that the launch shares: the same whichever launch is
asked first."""

from __future__ import annotations

import pytest

from extractors.host.events import CheckRecord
from extractors.host.facts import Material
from tests.extractors.host.conftest import Read

TEXT = """\
import triton
@triton.jit
def k(x, n): pass
def wide(x, n):
    assert n > 1
    if n > 64:
        assert n % 64 == 0
        k[(1,)](x, n)
    else:
        assert n % 2 == 0
        k[(2,)](x, n)
    assert n < 4096
    k[(3,)](x, n)
def other(x, n):
    assert n % 3 == 0
    k[(4,)](x, n)
"""
CHECKS = {(8, (5, 7)), (11, (5, 10)), (13, (5, 7, 12)), (13, (5, 10, 12)), (16, (15,))}
"""Line of a launch, lines of the checks before it; the third is reached in two ways."""


@pytest.fixture
def material(read: Read) -> Material:
    found = read(TEXT).material
    assert found is not None
    return Material(
        found.machine, found.tree, found.signature,
        launches=found.launches, roots=found.roots, events=found.events,
    )  # fmt: skip


@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "the last one first"])
def test_checks_before_a_launch(material: Material, backwards: bool) -> None:
    launches = material.launches[::-1] if backwards else material.launches
    found = {
        (launch.lines[0], tuple(e.lines[0] for e in before if isinstance(e, CheckRecord)))
        for launch in launches
        for before in (material.before(launch),)
    }
    assert found == CHECKS

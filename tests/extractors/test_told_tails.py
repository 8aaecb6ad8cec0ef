"""What becomes of a rest, told of program and host together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extractors.host.served import WHOLE
from extractors.patterns.whole_vectors import WholeVectors
from extractors.told_tails import DEMANDED, with_demands, with_variants
from kb.evidence import AxisKind, Decision


def _told(pattern: str, line: int) -> Decision:
    return Decision(
        axis="tail_handling", value="none", pattern=pattern, lines=((line, line),),
        kind=AxisKind.DESIGN,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [(WholeVectors.name, ((3, 3), (9, 9))), ("another", ((3, 3),))],
)
def test_demands_beside_what_the_program_does(
    pattern: str, lines: tuple[tuple[int, int], ...]
) -> None:
    program, rest = with_demands([_told(pattern, 3)], [_told(DEMANDED, 9)])
    assert ([d.lines for d in program], rest) == ([lines], [])


def test_demands_alone() -> None:
    assert with_demands([], [_told(DEMANDED, 9)]) == ([], [_told(DEMANDED, 9)])


def test_a_kernel_for_whole_tiles_belongs_to_what_the_program_does() -> None:
    apart = _told(WHOLE, 9)
    program, rest = with_variants([_told("another", 3)], [apart])
    assert ([d.lines for d in program], rest) == ([((3, 3), (9, 9))], [])
    assert with_variants([], [apart]) == ([], [apart])


def test_what_is_demanded_belongs_to_the_bound_of_loops() -> None:
    bound = replace(_told("rounds", 3), axis="boundary_handling", value="loop bound")
    program, rest = with_demands([bound], [_told(DEMANDED, 9)])
    assert ([d.lines for d in program], len(rest)) == ([((3, 3), (9, 9))], 1)
    assert with_demands([bound], [])[0] == [bound]

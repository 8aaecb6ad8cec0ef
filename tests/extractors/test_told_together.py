"""Decisions of program and host become one where they are one."""

from __future__ import annotations

import pytest

from extractors.told_together import merged_decisions
from kb.evidence import AxisKind, Decision


@pytest.mark.parametrize(
    ("second", "count"),
    [
        pytest.param({"subject": "K"}, 1, id="one knows the subject"),
        pytest.param({"value": "fixed 4"}, 2, id="another value"),
        pytest.param({"lines": ((9, 9),)}, 1, id="decorator and launch set one hint"),
        pytest.param({"axis": "prefetch_depth", "lines": ((9, 9),)}, 2, id="another axis"),
    ],
)
def test_program_and_host_may_tell_of_one_decision(second: dict[str, object], count: int) -> None:
    first: dict[str, object] = {
        "axis": "occupancy",
        "value": "fixed 2",
        "pattern": "occupancy-hint",
        "lines": ((3, 3),),
        "kind": AxisKind.TUNING,
    }
    one, other = Decision(**first), Decision(**{**first, **second})  # type: ignore[arg-type]
    assert len(merged_decisions([one, other])) == count

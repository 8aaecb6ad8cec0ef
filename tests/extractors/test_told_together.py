"""Decisions of program and host become one where they are one."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.cases_partial import SUMMED
from extractors.host.samples import vary
from extractors.told_together import merged_decisions, told_together
from kb.evidence import AxisKind, Decision
from tests.extractors.rules.support import subject


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


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param((), True, id="what the kernel wrote"),
        pytest.param(
            (("    n = x", "    x = x + 1\n    n = x"), ("parts.sum()", "x.sum()")),
            False,
            id="what the kernel read",
        ),
    ],
)
def test_host_adds_up_what_the_kernel_wrote(
    changes: tuple[tuple[str, str], ...], told: bool
) -> None:
    found = subject(vary(SUMMED, *changes))
    detection = detect(found.facts.kernel, found.host)
    assert any(d.axis == "reduction_split" for d in found.host.decisions)
    splits = [d for d in told_together(detection, found.host) if d.subject is not None]
    assert any(d.axis == "reduction_split" for d in splits) is told

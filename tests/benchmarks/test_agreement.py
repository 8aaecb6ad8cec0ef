"""How two annotators are held against each other: as the tool is held against one."""

from __future__ import annotations

from typing import Any

from benchmarks.gold.agreement import against, of_both


def entry(*items: tuple[str, str]) -> dict[str, Any]:
    """A kernel with decisions on these axes at these lines."""
    return {"decisions": [{"axis": axis, "lines": lines, "value": ""} for axis, lines in items]}


FIRST = entry(("grid_mapping", "4-6"), ("io_cast", "9"), ("aliasing", "20"))
SECOND = entry(("grid_mapping", "6, 8"), ("io_cast", "10"), ("unrolling", "3"))


def test_a_decision_is_shared_on_one_axis_and_line() -> None:
    assert against([(FIRST, SECOND)]) == {"gold": 3, "recall": 0.3333, "precision": 0.5}


def test_precision_leaves_out_axes_that_the_other_does_not_name() -> None:
    assert against([(SECOND, FIRST)]) == {"gold": 3, "recall": 0.3333, "precision": 0.5}
    assert against([(entry(("aliasing", "20")), FIRST)]) == {
        "gold": 1, "recall": 1.0, "precision": 1.0,
    }  # fmt: skip


def test_what_both_name_keeps_the_lines_of_the_first() -> None:
    (both,) = of_both([(FIRST, SECOND)])
    assert [(item["axis"], item["lines"]) for item in both["decisions"]] == [
        ("grid_mapping", "4-6")
    ]

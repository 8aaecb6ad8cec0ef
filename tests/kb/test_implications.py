"""Constraints that follow from what the host checks."""

from __future__ import annotations

import pytest

from kb.implications import follows


@pytest.mark.parametrize(
    ("expression", "checked"),
    [
        pytest.param("n > 0", {"n > 0"}, id="checked as it stands"),
        pytest.param("n > 0 and n % 4 == 0", {"n > 0", "n % 4 == 0"}, id="each part"),
        pytest.param("a.numel == b.numel", {"b.shape == a.shape"}, id="shapes are one"),
        pytest.param(
            "a.numel == b.numel == c.numel",
            {"a.shape == b.shape", "c.shape == (n, m)", "b.shape == (n, m)"},
            id="through a third",
        ),
        pytest.param("a.shape[-1] == b.shape[-1]", {"a.shape == b.shape"}, id="an extent"),
        pytest.param("b.shape[1] == n", {"n == b.shape[1]"}, id="turned around"),
    ],
)
def test_follows(expression: str, checked: set[str]) -> None:
    assert follows(expression, checked)


@pytest.mark.parametrize(
    ("expression", "checked"),
    [
        pytest.param("n > 0", set(), id="nothing is checked"),
        pytest.param("n > 0 and m > 0", {"n > 0"}, id="one part is not"),
        pytest.param("a.numel == b.numel", {"a.numel == c.numel"}, id="another array"),
        pytest.param("a.shape == b.shape", {"a.numel == b.numel"}, id="numbers of elements only"),
        pytest.param("a.shape[0] == b.shape[1]", {"a.shape == b.shape"}, id="another axis"),
        pytest.param("a.numel == b.numel", {"a.shape == b.shape or n == 1"}, id="one of two"),
    ],
)
def test_does_not_follow(expression: str, checked: set[str]) -> None:
    assert not follows(expression, checked)

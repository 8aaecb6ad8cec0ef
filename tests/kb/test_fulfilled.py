"""Constraints that hold by what the host passes."""

from __future__ import annotations

import pytest

from kb.fulfilled import fulfilled
from kb.space import Binding, GuardedPoints, Launch


def launch(when: str = "always", **passed: str) -> Launch:
    bindings = tuple(Binding(parameter=name, expression=text) for name, text in passed.items())
    return Launch(grid=("1",), bindings=bindings, hints=(), lines=(1, 1), when=when)


def searched(*sizes: int, complete: bool = True) -> tuple[GuardedPoints, ...]:
    points = tuple((("T", size),) for size in sizes)
    return (GuardedPoints(when="always", points=points, complete=complete),)


@pytest.mark.parametrize(
    ("expression", "launches"),
    [
        pytest.param("is_power_of_two(T)", [launch(T="1024"), launch(T="256")], id="numbers"),
        pytest.param("is_power_of_two(T)", [launch(T="next_power_of_two(n)")], id="rounded up"),
        pytest.param("is_power_of_two(T)", [launch(T="64 if n < 9 else 128")], id="one of two"),
        pytest.param("T >= n", [launch(T="max(next_power_of_two(n), 16)")], id="at least"),
        pytest.param("T >= n", [launch("n <= T", T="T")], id="by the condition of the launch"),
        pytest.param("W % T == 0", [launch(W="x.shape[1]", T="64")], id="after a check"),
        pytest.param("W % T == 0", [launch(W="cdiv(n, 64) * 64", T="64")], id="whole tiles"),
        pytest.param("T <= 64 and is_power_of_two(T)", [launch(T="32")], id="both parts"),
    ],
)
def test_fulfilled(expression: str, launches: list[Launch]) -> None:
    assert fulfilled(expression, launches, (), {"x.shape[1] % 64 == 0"})


@pytest.mark.parametrize(
    ("expression", "launches"),
    [
        pytest.param("is_power_of_two(T)", [], id="no launch"),
        pytest.param("is_power_of_two(T)", [launch(T="1024"), launch(T="96")], id="one launch"),
        pytest.param("is_power_of_two(T)", [launch(T="unknown")], id="unknown"),
        pytest.param("is_power_of_two(T)", [launch()], id="not told"),
        pytest.param("T >= n", [launch(T="min(next_power_of_two(n), 64)")], id="cut off"),
        pytest.param("W % T == 0", [launch(W="x.shape[1]", T="128")], id="another number"),
        pytest.param("x.stride[-1] == 1", [launch(x="1")], id="an array"),
    ],
)
def test_not_fulfilled(expression: str, launches: list[Launch]) -> None:
    assert not fulfilled(expression, launches, (), {"x.shape[1] % 64 == 0"})


def test_every_configuration_is_asked() -> None:
    asked = ("is_power_of_two(T)", [launch()])
    assert fulfilled(*asked, searched(32, 64), ())
    assert not fulfilled(*asked, searched(32, 96), ())
    assert not fulfilled(*asked, searched(32, 64, complete=False), ())

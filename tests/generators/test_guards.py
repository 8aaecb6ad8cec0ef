"""Guard zones: a tensor keeps its values and strides, and what strays past it is seen."""

from __future__ import annotations

import pytest
import torch

from generators.tuner.bench import ZONE, Guards


def past_the_end(tensor: torch.Tensor) -> torch.Tensor:
    """The first element after a contiguous tensor, in the same memory."""
    return tensor.as_strided((1,), (1,), tensor.storage_offset() + tensor.numel())


@pytest.mark.parametrize(
    "order", [pytest.param(False, id="rows"), pytest.param(True, id="columns")]
)
def test_an_argument_keeps_its_values_and_strides(order: bool) -> None:
    given = torch.arange(6.0).view(2, 3)
    given = given.T if order else given
    guards = Guards()
    kept = guards.around(given)
    assert torch.equal(kept, given)
    assert kept.stride() == given.stride()
    assert kept.storage_offset() == ZONE
    assert not guards.broken()


def test_a_read_past_an_argument_is_no_number() -> None:
    assert bool(past_the_end(Guards().around(torch.ones(4))).isnan().all())


@pytest.mark.parametrize(
    "value", [pytest.param(1.0, id="number"), pytest.param(float("nan"), id="NaN")]
)
def test_a_write_past_an_output_is_seen(value: float) -> None:
    guards = Guards()
    with guards:
        made = torch.empty_like(torch.ones(4))
    made.fill_(value)
    assert not guards.broken()
    past_the_end(made).fill_(value)
    assert guards.broken()


def test_indices_and_numbers_pass_as_they_are() -> None:
    guards = Guards()
    index = torch.arange(3)
    assert guards.around(index) is index
    assert guards.around(7) == 7

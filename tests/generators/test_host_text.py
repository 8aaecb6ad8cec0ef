"""Host expressions as Python."""

from __future__ import annotations

import pytest

from generators.host_text import HostNames, folded
from kb.errors import CannotEmit

NAMES = HostNames(given={"Q": "q", "K": "k"}, device="q")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param("cdiv(Q.shape[2], TILE_M)", "triton.cdiv(q.shape[2], TILE_M)", id="cdiv"),
        pytest.param("Q.stride[0]", "q.stride(0)", id="stride"),
        pytest.param("2 * Q.element_size", "2 * q.element_size()", id="element size"),
        pytest.param("1.0 if s == None else s", "1.0 if s is None else s", id="none"),
        pytest.param(
            "is_power_of_two(Q.shape[3])", "triton.next_power_of_2(q.shape[3]) == q.shape[3]",
            id="power of two",
        ),
        pytest.param("device.sms * 2", "_multiprocessors(q.device) * 2", id="multiprocessors"),
        pytest.param("max(1, sqrt(Q.shape[3]))", "max(1, math.sqrt(q.shape[3]))", id="sqrt"),
    ],
)  # fmt: skip
def test_text(expression: str, text: str) -> None:
    assert NAMES.text(expression) == text


def test_unknown_function() -> None:
    with pytest.raises(CannotEmit, match="bytes_of"):
        NAMES.text("bytes_of(x)")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param("Q.shape[1] % K.shape[1] == 0", "q.shape[1] % k.shape[1] != 0", id="equal"),
        pytest.param("eps > 0", "not eps > 0", id="order, so that nan is refused"),
        pytest.param("a and b", "not (a and b)", id="both"),
    ],
)
def test_broken(expression: str, text: str) -> None:
    assert NAMES.broken(expression) == text


def test_messages_show_values_and_nothing_else() -> None:
    assert NAMES.message('a "{Q.shape[1]}" and }') == """f"a '{q.shape[1]}' and }}\""""
    assert NAMES.message("plain") == '"plain"'
    assert len(NAMES.message("word " * 40).splitlines()) == 1
    assert NAMES.message("word " * 40).count('" "') == 2


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param(
            "Q.shape[2] % (64 if capability[0] < 9 else 128)", "Q.shape[2] % 128", id="branch"
        ),
        pytest.param("x and capability[0] >= 9", "x", id="true operand"),
        pytest.param("x or capability[0] >= 9", "True", id="decided"),
        pytest.param("capability[0] * 2", "18", id="number"),
    ],
)
def test_folded(expression: str, text: str) -> None:
    assert folded(expression, {"capability": (9, 0)}) == text

"""Launches that spread the extents or strides of a tensor of unknown rank into their arguments, and
checks of what PyTorch was built for."""

from __future__ import annotations

import ast

import pytest

from extractors.host.tree import spread_at
from extractors.patterns.cases import POINTER, vary
from tests.extractors.rules.support import subject

_STRIDED = (
    POINTER
    + """
import torch
@triton.jit
def rows(x, out, sx, sy, n, W: tl.constexpr):
    at = tl.program_id(0) * sx + tl.arange(0, W) * sy
    tl.store(out + at, tl.load(x + at))

def run(x, out):
    rows[(x.shape[0],)](x, out, *x.stride(), 8, W=64)
"""
)
_BUILT = vary(_STRIDED, ("def run(x, out):\n", "def run(x, out):\n    CHECK: raise ValueError()\n"))


def bound(text: str) -> dict[str, str]:
    """What the only launch gives for each parameter, as text."""
    material = subject(text).host.material
    assert material is not None
    (launch,) = material.launches
    names = material.names(launch)
    return {name: names.text(value) for name, value in launch.args}


def test_strides_make_up_for_the_rest() -> None:
    given = bound(_STRIDED)
    assert given["sx"] == "x.stride[0]"
    assert given["sy"] == "x.stride[1]"
    assert given["n"] == "8"


def test_extents_of_two_arrays_share_the_rest() -> None:
    given = bound(vary(_STRIDED, ("*x.stride(), 8,", "*x.shape[:1], 4, 8,")))
    assert given["n"] == "8"


def test_keywords_of_a_known_dictionary_are_taken() -> None:
    given = bound(
        vary(_STRIDED, ("    rows[", '    more = {"W": 64}\n    rows['), ("W=64)", "**more)"))
    )
    assert (given["sy"], given["W"]) == ("x.stride[1]", "64")


def test_the_stride_of_one_of_two_tensors() -> None:
    given = bound(vary(_STRIDED, ("*x.stride()", "*(x if x.shape[0] > 1 else out).stride()")))
    assert "x.stride[1]" in given["sy"]
    assert "out.stride[1]" in given["sy"]


def test_a_search_that_is_not_known_gives_the_last_parameters() -> None:
    given = bound(
        vary(
            _STRIDED,
            ("@triton.jit", "import other\n@triton.autotune(configs=other.space(), key=['n'])\n"
             "@triton.jit"),
            (", W=64", ""),
        )
    )  # fmt: skip
    assert (given["sy"], given["n"]) == ("x.stride[1]", "8")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("*x.stride(), *out.stride(), W=64", id="three places for two rows"),
        pytest.param("*x.stride(), 8, **more", id="keywords that are not known"),
    ],
)
def test_rows_that_cannot_be_told(arguments: str) -> None:
    material = subject(vary(_STRIDED, ("*x.stride(), 8, W=64", arguments))).host.material
    assert material is None or not any("sx" in dict(one.args) for one in material.launches)


@pytest.mark.parametrize(
    "check",
    [
        "if torch.version.hip",
        "if torch.version.hip or x.dtype != torch.float16",
        "if torch.version.xpu is not None",
    ],
)
def test_a_check_of_the_build_does_not_hide_the_launch(check: str) -> None:
    assert bound(vary(_BUILT, ("CHECK", check)))["n"] == "8"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("*x.stride(), 8,", "*x.stride(), *out.stride(), 8,"), id="two ranks"),
        pytest.param(("W=64)", "W=64, **more())"), id="keywords from elsewhere"),
    ],
)
def test_a_launch_keeps_the_keywords_that_are_written(change: tuple[str, str]) -> None:
    given = bound(vary(_STRIDED, change))
    assert given["W"] == "64"


@pytest.mark.parametrize(
    ("row", "name", "piece"),
    [
        pytest.param("x, *x.stride(), *y.stride()", "sc", "y.stride()", id="two each"),
        pytest.param("x, *x.stride(), *y.stride()", "x", None, id="a place of its own"),
        pytest.param("x, *x.stride(), 4", "sc", "x.stride()", id="the rest"),
        pytest.param("x, 3, *x.stride(), *y.stride()", "sc", None, id="three for two"),
        pytest.param("x, *x.stride(), sd=1", "sb", "x.stride()", id="named aside"),
    ],
)
def test_the_piece_that_a_parameter_belongs_to(row: str, name: str, piece: str | None) -> None:
    call = ast.parse(f"rows({row})", mode="eval").body
    assert isinstance(call, ast.Call)
    found = spread_at(call, name, ["x", "sa", "sb", "sc", "sd"])
    assert (ast.unparse(found)[1:] if found is not None else None) == piece

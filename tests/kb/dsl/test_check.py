"""Documents against their own constraints, and settings against documents."""

from __future__ import annotations

import pytest

from kb.dsl.check import check_document, setting, with_settings
from kb.dsl.model import Document
from kb.dsl.reader import read
from kb.errors import ConstraintViolated, InputError, SyntaxProblem, UnknownName
from kb.planner.target import Target
from kb.space import Scalar
from tests.kb.dsl.vocabulary import VOCABULARY

TARGET = Target(name="t", label="T", arch="sm_90", limits=(("max_threads_per_block", 1024),))
SPACE = """design_space {
    softmax_scheme: ["online", "naive"]
    mask_fusion: ["fused", "post"]
}
tuning_space {
    tile_m: [32, 64]
    num_warps: [4, 8]
}
"""


def document(extra: str = "", space: str = SPACE) -> Document:
    return read(space + extra, VOCABULARY).document


def constraints(*texts: str) -> str:
    return "constraints {\n" + "\n".join(texts) + "\n}\n"


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param("", id="none"),
        pytest.param(constraints("is_power_of_two(tile_m)"), id="kept by all"),
        pytest.param(constraints("tile_m * num_warps <= 128"), id="kept by one point"),
        pytest.param(constraints("head_dim == 64"), id="not known yet"),
        pytest.param(constraints("32 * num_warps <= target.max_threads_per_block"), id="target"),
    ],
)
def test_documents_that_keep_their_constraints(extra: str) -> None:
    check_document(document(extra), target=TARGET)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        pytest.param(
            constraints('tile_m < 64; because "{tile_m} rows"; hint "use 32"'),
            "tile_m=64 breaks `tile_m < 64`: 64 rows. Try: use 32.",
            id="a value",
        ),
        pytest.param(
            constraints("tile_m * num_warps <= 64"),
            "no point of the space keeps every constraint",
            id="every point",
        ),
        pytest.param(
            constraints("tile_m <= 64")
            + 'tuning {\n case "always" {\n point: {TILE_M: 256}\n}\n}\n',
            "TILE_M=256 breaks",
            id="a listed point",
        ),
        pytest.param(
            constraints("256 * num_warps <= target.max_threads_per_block"),
            "num_warps=8 breaks",
            id="a limit",
        ),
        pytest.param(
            constraints('softmax_scheme == "naive"'), "no point", id="the first design value"
        ),
    ],
)
def test_documents_that_break_them(extra: str, said: str) -> None:
    with pytest.raises(ConstraintViolated) as caught:
        check_document(document(extra), target=TARGET, where="x.dsl")
    assert said in caught.value.text
    assert caught.value.where == "x.dsl"


@pytest.mark.parametrize(
    ("text", "axis", "value"),
    [
        pytest.param("softmax_scheme=naive", "softmax_scheme", "naive", id="bare string"),
        pytest.param('softmax_scheme="naive"', "softmax_scheme", "naive", id="quoted string"),
        pytest.param("tile_m=64", "tile_m", 64, id="number"),
        pytest.param("mask_placement=post", "mask_fusion", "post", id="by its other name"),
    ],
)
def test_settings(text: str, axis: str, value: Scalar) -> None:
    assert setting(text, document()) == (axis, value)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        pytest.param("tile_m", SyntaxProblem, "Write AXIS=VALUE", id="no value"),
        pytest.param("tile_n=3", UnknownName, "Did you mean `tile_m`?", id="no axis"),
        pytest.param("tile_m=63", InputError, "not on the axis", id="not on the axis"),
        pytest.param("softmax_scheme=naiv", InputError, "Did you mean `naive`?", id="near value"),
    ],
)
def test_settings_that_are_refused(text: str, kind: type[InputError], said: str) -> None:
    with pytest.raises(kind) as caught:
        setting(text, document())
    assert said in caught.value.text


def test_a_point_has_every_axis() -> None:
    assert with_settings(document(), ("num_warps=8",)) == (
        ("softmax_scheme", "online"),
        ("mask_fusion", "fused"),
        ("tile_m", 32),
        ("num_warps", 8),
    )

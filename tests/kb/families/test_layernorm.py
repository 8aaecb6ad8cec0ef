"""The layer norm family: choices, conflicts, and programs that hold together and read back."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from extractors.modules import ModuleText
from extractors.read import read
from generators.emit import emit_program
from kb.dsl.model import Document
from kb.errors import ConstraintViolated, InputError, UnknownName
from kb.families.layernorm import build
from kb.families.model import ChosenBy, matching
from kb.families.registry import family_of
from kb.graph.terms import vocabulary
from kb.ir_text import parse, to_text
from kb.ir_verify import verify
from kb.space import DesignSpace, Scalar
from kb.transfer import transfer
from tests.kb.fmha_decisions import fmha_donor

CHUNKS = "multi-pass reload (2/3 passes)"


def template() -> Document:
    return transfer(fmha_donor(), "layernorm", vocabulary()).document()


POINTS: tuple[tuple[str, Mapping[str, Scalar]], ...] = (
    ("defaults", {}),
    ("rows", {"work_decomposition": "one tile per CTA"}),
    ("persistent", {"work_decomposition": "persistent grid-stride", "prefetch_depth": 2}),
    ("one pass", {"variance_algorithm": "one-pass E[x^2]-E[x]^2"}),
    ("chunks", {"row_residency": CHUNKS}),
    ("chunks of rows", {"row_residency": CHUNKS, "work_decomposition": "one tile per CTA"}),
    ("welford", {"row_residency": "chunked online single pass", "variance_algorithm": "Welford"}),
    ("lanes", {"row_residency": CHUNKS, "reduction_placement": "lane-wise"}),
    ("always masked", {"tail_handling": "always mask", "side_output": "saved"}),
    ("bare", {"affine": "none", "eps_placement": "after sqrt", "specialization": "runtime"}),
    ("divided", {"division_strength": "divide per element", "affine": "weight + offset"}),
)


@pytest.mark.parametrize("settings", [pytest.param(s, id=name) for name, s in POINTS])
def test_every_point_is_a_program(settings: Mapping[str, Scalar]) -> None:
    kernel = build(template(), settings).kernel
    assert verify(kernel) == ()
    assert parse(to_text(kernel)) == kernel


@pytest.mark.parametrize("settings", [pytest.param(s, id=name) for name, s in POINTS])
def test_what_is_written_reads_back_whole(settings: Mapping[str, Scalar]) -> None:
    kernel = build(template(), settings).kernel
    text = emit_program(kernel, "triton")
    (again,) = read(ModuleText("m", "m.py", text)).kernels
    assert emit_program(again, "triton") == text
    assert again.entry.parameter_names == kernel.entry.parameter_names


def test_who_chose_what() -> None:
    program = build(template(), {"num_warps": 4})
    by = {choice.axis: choice.by for choice in program.choices}
    assert by["num_warps"] is ChosenBy.SETTING
    assert by["variance_algorithm"] is ChosenBy.SPACE
    assert by["affine"] is ChosenBy.DEFAULT
    assert any(note.startswith("affine: a hole") for note in program.residuals)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        pytest.param({"variance_algorithm": "Welford"}, ConstraintViolated, "merge", id="resident"),
        pytest.param(
            {"row_residency": "chunked online single pass"}, ConstraintViolated, "mean first",
            id="centred needs two passes",
        ),
        pytest.param({"rows_per_program": 4}, ConstraintViolated, "owns one row", id="rows"),
        pytest.param({"num_warps": 3}, ConstraintViolated, "power of two", id="warps"),
        pytest.param({"num_warps": 0}, InputError, "whole numbers", id="no warps"),
        pytest.param({"affine": "both"}, InputError, "weight and bias", id="unknown value"),
        pytest.param({"afine": "none"}, InputError, "Did you mean `affine`", id="unknown axis"),
    ],
)  # fmt: skip
def test_refusals(settings: Mapping[str, Scalar], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        build(template(), settings)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        pytest.param("one-pass", "one-pass E[x^2]-E[x]^2", id="a part of it"),
        pytest.param("WELFORD", "Welford", id="letter case"),
        pytest.param("pass", None, id="unclear"),
        pytest.param("three-pass", None, id="unknown"),
    ],
)
def test_a_value_by_part_of_its_name(word: str, found: str | None) -> None:
    known = ("two-pass centred", "one-pass E[x^2]-E[x]^2", "Welford")
    assert matching(word, known) == found


def test_no_family_is_said_with_what_there_is() -> None:
    space = DesignSpace(name="s", operation="sorting", axes=())
    with pytest.raises(UnknownName, match="layernorm"):
        family_of(Document(space=space))

"""From FMHA to layer normalisation and convolution, over the real ontology."""

from __future__ import annotations

import json

import pytest

from kb.donor import donor_from_decisions, donor_from_document, merged
from kb.dsl.reader import read
from kb.dsl.writer import write
from kb.errors import InputError, UnknownName
from kb.evidence import AxisKind, Decision
from kb.graph.terms import vocabulary
from kb.space import Constraint, Origin
from kb.template import Template
from kb.transfer import transfer
from tests.kb.fmha_decisions import DECISIONS, KERNEL, fmha_donor


def template(operation: str) -> Template:
    return transfer(fmha_donor(), operation, vocabulary())


@pytest.mark.parametrize(
    ("operation", "axis"),
    [
        pytest.param("layernorm", "accum_dtype", id="sums stay wide"),
        pytest.param("conv2d", "accum_dtype", id="products stay wide"),
        pytest.param("softmax", "accum_dtype", id="sums of rows stay wide"),
    ],
)
def test_values_carry_over_with_their_lines(operation: str, axis: str) -> None:
    found = {inherited.axis: inherited for inherited in template(operation).inherited}
    assert found[axis].values == ("fp32",)
    assert found[axis].facts[0].kernel == KERNEL
    assert found[axis].facts[0].iri == f"{KERNEL}/decision/14"
    assert found[axis].facts[0].decision.lines == ((82, 84), (120, 121))


@pytest.mark.parametrize(
    ("operation", "axis", "first"),
    [
        pytest.param("layernorm", "tile_padding", "next_pow2 + OOB handling", id="row padding"),
        pytest.param("layernorm", "boundary_handling", "where(mask, x-mean, 0)", id="re-mask"),
        pytest.param("layernorm", "work_decomposition", "one row per CTA", id="rows"),
        pytest.param("layernorm", "prefetch_depth", 1, id="stages of the row loop"),
        pytest.param("layernorm", "tile_n", 1024, id="a searched name asked anew"),
        pytest.param("conv2d", "boundary_handling", "ZERO", id="padding is zero"),
        pytest.param("conv2d", "stationary_operand", "C-stationary GEMM", id="output stays"),
        pytest.param("conv2d", "tile_m", 64, id="tile of the matrix product"),
        pytest.param("conv2d", "prefetch_depth", 3, id="stages of K"),
    ],
)
def test_only_the_axis_carries_over(operation: str, axis: str, first: object) -> None:
    found = {adapted.axis: adapted for adapted in template(operation).adapted}
    assert found[axis].candidates[0] == first
    assert found[axis].reason
    assert found[axis].sources


@pytest.mark.parametrize(
    ("value", "inherited"),
    [
        pytest.param("int32", False, id="narrow offsets are left behind"),
        pytest.param("int64 opt-in", True, id="wide offsets carry over"),
    ],
)
def test_a_rule_for_one_value_goes_before_the_rule_for_all(value: str, inherited: bool) -> None:
    decision = Decision(axis="index_width", value=value, pattern="p", lines=((1, 2),))
    donor = donor_from_decisions([decision], name="k", operation="fmha", kernel=KERNEL)
    made = transfer(donor, "layernorm", vocabulary())
    assert ("index_width" in {axis.axis for axis in made.inherited}) is inherited
    assert ("index_width" in {axis.axis for axis in made.adapted}) is not inherited


@pytest.mark.parametrize(
    ("operation", "axes"),
    [
        pytest.param(
            "layernorm",
            {
                "norm_kind",
                "eps_placement",
                "affine",
                "variance_algorithm",
                "side_output",
                "residual_fusion",
                "parameter_gradient",
            },
            id="layernorm",
        ),
        pytest.param(
            "conv2d",
            {
                "conv_filter",
                "conv_stride",
                "conv_padding",
                "conv_dilation",
                "conv_groups",
                "conv_layout",
                "conv_gemm_mapping",
                "conv_im2col",
                "conv_k_order",
            },
            id="conv2d",
        ),
    ],
)
def test_the_target_asks_for_its_own(operation: str, axes: set[str]) -> None:
    made = template(operation)
    assert axes <= {own.axis for own in made.own}
    assert all(own.question and own.candidates for own in made.own if own.axis in axes)
    asked = {hole.split(":")[0] for hole in made.holes}
    assert asked <= {own.axis for own in made.own} | {a.axis for a in made.adapted}
    assert {"norm_kind", "conv_stride"} & asked


@pytest.mark.parametrize(
    ("operation", "axis", "value"),
    [
        pytest.param("layernorm", "math_approximation", "exp2", id="no base-2 statistics"),
        pytest.param("layernorm", "mask_application", "-inf", id="no additive mask"),
        pytest.param("layernorm", "mask_placement", "bound", id="no split at the diagonal"),
        pytest.param("layernorm", "loop_extent", "causal", id="no causal clipping"),
        pytest.param("layernorm", "empty_row_handling", "any value", id="no l = 1"),
        pytest.param("layernorm", "kv_head_mapping", "division", id="no heads"),
        pytest.param("layernorm", "TILE_M", "256, 128", id="no query tile of rows"),
        pytest.param("conv2d", "softmax_scheme", "online", id="no online softmax"),
        pytest.param("conv2d", "kv_head_mapping", "division", id="no heads in conv"),
        pytest.param("conv2d", "intermediate_dtype", "cast P", id="no second product"),
    ],
)
def test_must_not_transfer(operation: str, axis: str, value: str) -> None:
    made = template(operation)
    matches = [refusal for refusal in made.refused if refusal.axis == axis]
    assert any(value in refusal.value for refusal in matches)
    assert all(refusal.reason for refusal in matches)
    assert axis not in {space_axis.name for space_axis in made.space().axes}


def test_every_decision_ends_on_exactly_one_pile() -> None:
    for operation in ("layernorm", "conv2d"):
        made = template(operation)
        carried = [fact for axis in made.inherited for fact in axis.facts]
        carried += [fact for axis in made.adapted for fact in axis.facts]
        refused = [iri for refusal in made.refused for iri in refusal.derived_from if "/d" in iri]
        assert sorted([*(fact.iri for fact in carried), *refused]) == sorted(
            fact.iri for fact in fmha_donor().facts
        )


@pytest.mark.parametrize("operation", ["layernorm", "conv2d", "softmax", "rmsnorm", "gemm"])
def test_the_template_is_a_document(operation: str) -> None:
    document = template(operation).document()
    text = write(document)
    reading = read(text, vocabulary())
    assert reading.document == document
    assert reading.notes == ()
    assert write(reading.document) == text


def test_axes_have_one_place_and_a_maker() -> None:
    made = template("layernorm")
    axes = made.space().axes
    assert len({axis.name for axis in axes}) == len(axes)
    assert all(axis.by for axis in axes)
    kinds = [axis.kind for axis in axes]
    assert kinds == sorted(kinds, key=list(AxisKind).index)
    inherited = [axis for axis in axes if axis.origin is Origin.INHERITED]
    assert inherited
    assert all(axis.derived_from for axis in inherited)


def test_constraints_of_the_parts_come_along() -> None:
    assert "eps > 0" in [c.expression for c in template("layernorm").constraints]
    assert "eps > 0" not in [c.expression for c in template("conv2d").constraints]
    groups = "in_channels % groups == 0 and out_channels % groups == 0"
    assert groups in [c.expression for c in template("conv2d").constraints]


def test_constraints_of_the_donor_stay_unless_all_their_names_are_known() -> None:
    stated = ("TILE_M >= 16", "TILE_D == head_dim")
    donor = merged([fmha_donor()])
    donor = type(donor)(
        name=donor.name,
        operation=donor.operation,
        facts=donor.facts,
        constraints=tuple(Constraint(expression=text, origin=Origin.STATED) for text in stated),
        tuned=donor.tuned,
    )
    conv = transfer(donor, "conv2d", vocabulary())
    assert "TILE_M >= 16" in [c.expression for c in conv.constraints]
    left = {r.value: r.reason for r in conv.refused if r.axis == "constraint"}
    assert left == {"TILE_D == head_dim": "it speaks of TILE_D, head_dim, which conv2d has not"}


def test_json_is_stable() -> None:
    text = json.dumps(template("conv2d").to_json())
    assert text == json.dumps(template("conv2d").to_json())
    assert json.loads(text)["schema"] == "tilelore.template/1"
    assert json.loads(text)["from"]["kernels"] == [KERNEL]


def test_a_dsl_file_can_be_the_donor() -> None:
    document = transfer(fmha_donor(), "softmax", vocabulary()).document()
    donor = donor_from_document(document, kernel="https://example.org/softmax")
    made = transfer(donor, "layernorm", vocabulary())
    assert made.donor_operation == "softmax"
    assert "reduction" in made.shared


def test_softmax_keeps_what_layernorm_must_not() -> None:
    found = {axis.axis: axis.values for axis in template("softmax").inherited}
    assert found["math_approximation"] == ("exp2 with log2e folded into the scale",)
    assert "online (1 pass)" in found["softmax_scheme"]


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        pytest.param("layer_norm", "layernorm", id="an alias"),
        pytest.param("LayerNorm", "layernorm", id="letter case"),
    ],
)
def test_operations_answer_to_other_names(name: str, operation: str) -> None:
    assert template(name).operation == operation


def test_unknown_operation_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean `layernorm`"):
        template("layernrm")


def test_no_kernel_is_refused() -> None:
    with pytest.raises(InputError, match="no kernel to transfer from"):
        merged([])


def test_the_fixture_is_the_kernel_of_the_issue() -> None:
    assert len(DECISIONS) == 28
    assert len({decision.axis for decision in DECISIONS}) >= 12
    assert len({decision.pattern for decision in DECISIONS}) >= 21

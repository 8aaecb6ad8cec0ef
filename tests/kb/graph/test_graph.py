"""Graph round trips: nothing is lost, names are stable, what is written conforms to the shapes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Quad, RdfFormat
from pyoxigraph import parse as parse_rdf

from extractors.modules import ModuleText
from extractors.read import read
from kb.errors import InputError
from kb.evidence import (
    AxisKind,
    AxisNumerics,
    Decision,
    Finding,
    Measurement,
    Numerics,
    Severity,
)
from kb.graph import names
from kb.graph.decode import decode
from kb.graph.decode_program import decode_program
from kb.graph.decode_records import decode_measurement, decode_space
from kb.graph.encode import encode
from kb.graph.encode_program import encode_program
from kb.graph.encode_records import encode_measurement, encode_space
from kb.graph.facts import canonical, literal, scalar
from kb.graph.vocabulary import TL, axes, ontology
from kb.ir import Kernel, kernel_ops
from kb.ir_text import program_digest
from kb.knowledge import KernelKnowledge, ParameterFact, ParameterRole, Source
from kb.space import (
    Axis,
    Binding,
    Constraint,
    DesignSpace,
    GuardedPoints,
    Launch,
    Origin,
    Tuning,
)
from kb.validation import validate
from tests.strategies import LITERALS, TEXTS, design_spaces, kernels, knowledge, measurements

LAW = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
SOURCE = """
import cuda.tile as ct

@ct.kernel(occupancy=2)
def scale(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    acc = ct.load(x, index=(i,), shape=(TILE,))
    for j in range(3):
        acc = acc * 2.0
    ct.store(out, index=(i,), tile=acc)
"""


def reread(quads: tuple[Quad, ...]) -> list[Quad]:
    """The quads as a file gives them back."""
    return list(parse_rdf(canonical(quads), format=RdfFormat.N_QUADS))


@given(kernels())
@LAW
def test_program_graph_loses_nothing(kernel: Kernel) -> None:
    again = decode_program(reread(encode_program(kernel)))
    assert again == kernel
    assert repr(again) == repr(kernel)


@given(knowledge())
@LAW
def test_kernel_graph_loses_nothing(known: KernelKnowledge) -> None:
    graph = encode(known)
    assert graph.text == canonical(graph.quads)
    again = decode(reread(graph.quads), graph.program_text)
    assert again == known
    assert repr(again) == repr(known)
    for quad in graph.quads:
        assert not isinstance(quad.subject, BlankNode)
        assert not isinstance(quad.object, BlankNode)
        subject = str(quad.subject)[1:-1]
        assert subject == graph.kernel or subject.startswith(graph.kernel + "/")
        assert str(quad.graph_name)[1:-1] == graph.name
    assert encode(known) == graph


@given(design_spaces())
@LAW
def test_space_graph_loses_nothing(space: DesignSpace) -> None:
    graph = encode_space(space)
    again = decode_space(reread(graph.quads))
    assert (again, repr(again)) == (space, repr(space))


@given(measurements())
@LAW
def test_measurement_graph_loses_nothing(measurement: Measurement) -> None:
    graph = encode_measurement(measurement)
    again = decode_measurement(reread(graph.quads))
    assert (again, repr(again)) == (measurement, repr(measurement))


@given(LITERALS | st.sampled_from(["\ud800", 10**5000, -(10**5000)]))
def test_literals_keep_type_and_value(value: int | float | bool | str | None) -> None:
    again = scalar(literal(value))
    assert type(again) is type(value)
    if isinstance(value, float):
        assert repr(again) == repr(value)
    else:
        assert again == value


@given(TEXTS, TEXTS)
def test_segments_are_reversible_and_safe(first: str, second: str) -> None:
    assert names.text_of(names.segment(first)) == first
    assert (names.segment(first) == names.segment(second)) == (first == second)
    assert "/" not in names.segment(first)


def test_value_names_agree_with_the_ontology() -> None:
    known = {str(node) for node in ontology().subjects(TL.ofAxis, None)}
    minted = {names.value(axis.name, text) for axis in axes().values() for text in axis.values}
    assert minted == known


def sample() -> KernelKnowledge:
    """A small kernel read from its source, with one of each fact."""
    kernel = read(ModuleText("m", "pkg/k.py", SOURCE)).kernels[0]
    return KernelKnowledge(
        kernel=kernel,
        source=Source(path="pkg/k.py", sha256="a" * 64, dialect="cutile", package="pkg==1.0"),
        lines=(4, 10),
        operation="fmha",
        parameters=tuple(
            ParameterFact(name=name, kind=kind, role=role)
            for name, kind, role in (
                ("x", "tensor", ParameterRole.INPUT),
                ("out", "tensor", ParameterRole.OUTPUT),
                ("TILE", "constexpr", ParameterRole.TILE_SIZE),
            )
        ),
        decisions=(
            Decision(
                axis="softmax_scheme", value="online", pattern="online-softmax", lines=((8, 9),)
            ),
        ),
        tuning=Tuning(
            mechanism="grid",
            spaces=(GuardedPoints(when="always", points=((("TILE", 64),), (("TILE", 128),))),),
            effective_axes=("TILE",),
            dead_axes=("num_ctas",),
            launched_with=(("occupancy", 2),),
            cache_key=("x.shape[0]",),
            lines=(1, 2),
        ),
        launches=(
            Launch(
                grid=("cdiv(n, TILE)",),
                bindings=(Binding(parameter="x", expression="x"),),
                hints=(("occupancy", None),),
                lines=(20, 21),
            ),
        ),
        constraints=(Constraint(expression="TILE <= 1024", origin=Origin.STATED, lines=(3, 3)),),
        findings=(
            Finding(
                rule="dead-axis", severity=Severity.WARNING, message="never timed", lines=((1, 2),)
            ),
        ),
        operations=sum(1 for _ in kernel_ops(kernel)),
        opaque=0,
        numerics=(
            AxisNumerics(
                name="TILE", numerics=Numerics.CHANGES, reason="it is summed.", lines=((8, 9),)
            ),
        ),
    )


def test_a_real_kernel_graph_conforms() -> None:
    graph = encode(sample())
    assert decode(reread(graph.quads), graph.program_text) == sample()
    assert validate(graph.quads) == ()


def test_a_program_graph_conforms() -> None:
    assert validate(encode_program(sample().kernel)) == ()


def test_a_template_and_a_measurement_conform() -> None:
    axis = Axis(
        name="softmax_scheme", kind=AxisKind.DESIGN, values=("online", None),
        origin=Origin.INHERITED, derived_from=("fmha",),
    )  # fmt: skip
    space = DesignSpace(
        name="ln", operation="layernorm", axes=(axis,), holes=("eps",), derived_from=("fmha",)
    )
    assert validate(encode_space(space).quads) == ()
    measurement = Measurement(
        metric="mean-time", value=1.5, unit="us", target="h100", samples=3, seed=0,
        versions=(("triton", "3.9"),), kernel_digest="b" * 64,
    )  # fmt: skip
    assert validate(encode_measurement(measurement).quads) == ()


def test_the_graph_name_follows_the_content() -> None:
    known = sample()
    graph = encode(known)
    assert graph.name.startswith("https://w3id.org/tilelore/graph/pkg==1.0/pkg/k.py/scale/")
    assert graph.kernel.rpartition("/kernel/")[2] == graph.name.rpartition("/graph/")[2]
    assert graph.program_digest == program_digest(known.kernel)
    assert encode(known, version="9").name == graph.name
    changed = (
        replace(known, opaque=1),
        replace(known, source=replace(known.source, sha256="c" * 64)),
        replace(known, decisions=()),
    )
    assert len({encode(item).name for item in changed} | {graph.name}) == 4


@pytest.mark.parametrize("link", ["hasTuning", "startLine", "hasSource"])
def test_a_graph_with_a_missing_fact_is_refused(link: str) -> None:
    graph = encode(sample())
    rest = [quad for quad in graph.quads if not quad.predicate.value.endswith(f"#{link}")]
    with pytest.raises(InputError):
        decode(rest, graph.program_text)


def test_any_missing_quad_gives_a_record_or_an_input_error() -> None:
    graph, program = encode(sample()), encode_program(sample().kernel)
    for index in range(len(graph.quads)):
        with suppress(InputError):
            decode(graph.quads[:index] + graph.quads[index + 1 :], graph.program_text)
    for index in range(0, len(program), 5):
        with suppress(InputError):
            decode_program(program[:index] + program[index + 1 :])


def test_an_empty_graph_is_refused() -> None:
    with pytest.raises(InputError, match="0 tl:Kernel"):
        decode([], "")


def test_what_holds_elsewhere_is_no_part_of_the_name_of_a_value() -> None:
    plain = names.value("boundary_handling", "ZERO")
    assert names.value("boundary_handling", "ZERO (elsewhere NEG_INF, not checked)") == plain

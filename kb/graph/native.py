"""Turtle by the native parser, as a graph of rdflib: five times as fast as rdflib's own."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import pyoxigraph
from rdflib import XSD, BNode, Graph, Literal, URIRef
from rdflib.term import Node

from kb.errors import InputError


def turtle_files(package: str) -> tuple[Traversable, ...]:
    """The Turtle files of a data package (`ontology` or `shapes`), sorted by name."""
    found = [entry for entry in files(package).iterdir() if entry.name.endswith(".ttl")]
    return tuple(sorted(found, key=lambda entry: entry.name))


def turtle_graph(package: str) -> Graph:
    """All Turtle files of a data package in one graph."""
    graph, node = Graph(), cache(node_of)
    for entry in turtle_files(package):
        for quad in pyoxigraph.parse(entry.read_bytes(), format=pyoxigraph.RdfFormat.TURTLE):
            graph.add((node(quad.subject), node(quad.predicate), node(quad.object)))
    return graph


def node_of(term: object) -> Node:
    """A term of pyoxigraph in rdflib; InputError for a quoted triple."""
    if isinstance(term, pyoxigraph.NamedNode):
        return URIRef(term.value)
    if isinstance(term, pyoxigraph.BlankNode):
        return BNode(term.value)
    if isinstance(term, pyoxigraph.Literal):
        if term.language:
            return Literal(term.value, lang=term.language)
        datatype = URIRef(term.datatype.value)
        return Literal(term.value, datatype=None if datatype == XSD.string else datatype)
    raise InputError(
        "a quoted triple stands where a term is expected", hint="State it as plain triples."
    )

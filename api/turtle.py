"""A graph as Turtle for people: sorted, with the prefixes of the store."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Quad, RdfFormat, Triple, serialize

from kb.sparql_text import PREFIXES


def turtle(quads: Iterable[Quad]) -> str:
    """The triples of one graph as Turtle."""
    triples = sorted((Triple(q.subject, q.predicate, q.object) for q in quads), key=str)
    return (serialize(triples, format=RdfFormat.TURTLE, prefixes=PREFIXES) or b"").decode()

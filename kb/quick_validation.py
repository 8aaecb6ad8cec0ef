"""The quick door of validation: a native engine that only ever says yes.

pySHACL is the authority and writes every report; on a graph of a thousand triples it takes a tenth
of a second. pyshifty checks the same shapes ten times as fast. A graph that it finds sound is
taken; of any other graph it says nothing, and the authority is asked. The tests of the shapes hold
the two together on every shape and on every way of breaking one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import pyoxigraph as ox
import shifty

from kb.graph.vocabulary import BASE, TL, ontology
from kb.validation import MAX_TRIPLES, shapes, shapes_for, vocabulary

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
TYPE = ox.NamedNode(RDF_TYPE)
STEP = f"<{TL.DesignStep}>"


def surely_conforms(quads: Sequence[ox.Quad | ox.Triple]) -> bool:
    """True when the native engine finds no violation; False says nothing."""
    if len(quads) > MAX_TRIPLES:
        return False
    used = shapes_for(frozenset(_classes(quads)))
    if not used:
        return True
    triples = (q.triple if isinstance(q, ox.Quad) else q for q in quads)
    text = ox.serialize(triples, format=ox.RdfFormat.TURTLE) or b""
    found = _engine().validate_algebra(
        text + "".join(_slice(quads)).encode(),
        shape_names=used,
        infer=False,
        sort_results=False,
        on_unsupported="error",
    )
    return bool(found.conforms)


def _classes(quads: Iterable[ox.Quad | ox.Triple]) -> Iterable[str]:
    kinds = {quad.object for quad in quads if quad.predicate == TYPE}
    return (kind.value for kind in kinds if isinstance(kind, ox.NamedNode))


@cache
def _engine() -> shifty.PreparedValidator:
    text = shapes().serialize(format="nt")
    return shifty.PreparedValidator(text)


@cache
def _known() -> dict[str, tuple[str, str]]:
    """For each individual of the vocabulary its types, and its other facts, as N-Triples."""
    found = {}
    for subject, facts in vocabulary().items():
        lines = [(p, f"{subject.n3()} {p.n3()} {o.n3()} .\n") for p, o in facts]
        types = "".join(line for p, line in lines if str(p) == RDF_TYPE)
        found[str(subject)] = (types, "".join(line for p, line in lines if str(p) != RDF_TYPE))
    return found


@cache
def _order_of_steps() -> str:
    rows = ontology().subject_objects(TL.precedes)
    return "".join(f"{a.n3()} {TL.precedes.n3()} {b.n3()} .\n" for a, b in rows)


def _slice(quads: Sequence[ox.Quad | ox.Triple]) -> Iterable[str]:
    """The same facts about vocabulary terms that `validation.vocabulary_slice` gives."""
    known = _known()
    subjects, objects = {q.subject for q in quads}, {q.object for q in quads}
    described = {str(one.value) for one in subjects if not isinstance(one, ox.Triple)}
    named = {one.value for one in objects if isinstance(one, ox.NamedNode)}
    steps = False
    for iri in named | described:
        types, rest = known.get(iri, ("", ""))
        steps = steps or STEP in types
        yield types
        if iri in described:
            continue
        yield rest
        axis, slash, slug = iri.removeprefix(BASE + "value/").partition("/")
        if iri.startswith(BASE + "value/") and slash and slug:
            yield f"<{iri}> <{RDF_TYPE}> <{TL.AxisValue}> .\n"
            yield f"<{iri}> <{TL.ofAxis}> <{BASE}axis/{axis}> .\n"
    if steps:
        yield _order_of_steps()

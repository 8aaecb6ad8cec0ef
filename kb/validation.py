"""Runs shapes/ over a graph and turns the report into rows.

A data graph names terms of the vocabulary (axes, patterns, targets) that it does not describe.
Instead of the whole ontology only the referenced terms travel along: their types, with every class
above, and the few links that shapes follow. Results about
those terms themselves are not the data's business and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

import pyoxigraph
from rdflib import RDF, RDFS, SH, XSD, BNode, Graph, Literal, URIRef
from rdflib.term import Node

from kb.errors import DoesNotConform, InputError, SyntaxProblem
from kb.graph.native import node_of, turtle_graph
from kb.graph.vocabulary import BASE, TL, ontology

MAX_BYTES = 16 * 2**20
"""Longest Turtle text that is read."""

MAX_TRIPLES = 200_000
"""Largest graph that is validated; a kernel has about a thousand triples."""

SHORT = {
    str(TL): "tl:",
    "https://w3id.org/tilelore/shapes#": "tls:",
    "http://www.w3.org/2000/01/rdf-schema#": "rdfs:",
    "http://www.w3.org/ns/prov#": "prov:",
    "http://purl.org/dc/terms/": "dcterms:",
    "http://www.w3.org/2004/02/skos/core#": "skos:",
}
FOLLOWED = (RDF.type, TL.ofAxis, TL.recognises, TL.axisKind, TL.precedes)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Violation:
    """One thing that a shape refuses: `path` is short (`tl:ranOn`), empty for the whole node."""

    focus: str
    path: str
    shape: str
    message: str
    value: str = ""

    def __str__(self) -> str:
        where = f"{self.focus} {self.path}".rstrip()
        return f"{where}: {self.message} [{self.shape}]"


def validate_turtle(text: str, *, where: str = "") -> tuple[Violation, ...]:
    """Check Turtle against every shape; SyntaxProblem with line and column if it is no Turtle."""
    return validate(parse_turtle(text, where=where))


def validate(
    data: Graph | Iterable[pyoxigraph.Quad | pyoxigraph.Triple],
) -> tuple[Violation, ...]:
    """Check a graph against every shape: violations by focus and path, empty when it conforms.

    Raises InputError above MAX_TRIPLES. Quads count as one graph; their graph names are ignored.
    """
    source = data if isinstance(data, Graph) else to_graph(data)
    if len(source) > MAX_TRIPLES:
        raise InputError(
            f"the graph has {len(source)} triples; {MAX_TRIPLES} are read at once",
            hint="Validate one kernel at a time.",
        )
    subjects = set(source.subjects())
    whole = Graph()
    for subject, predicate, value in source:
        whole.add((subject, predicate, _plain(value)))
    for triple in vocabulary_slice(source):
        whole.add(triple)
    used = shapes_for(frozenset(str(cls) for cls in source.objects(None, RDF.type)))
    if not used:
        return ()
    import pyshacl  # noqa: PLC0415 - a tenth of a start, and most graphs never come here

    _, report, _ = pyshacl.validate(
        whole, shacl_graph=shapes(), inplace=True, do_owl_imports=False, use_shapes=used
    )
    if not isinstance(report, Graph):
        raise InputError(
            "the validator gave no report", hint="Run the shape tests: a shape is broken."
        )
    rows = {row for focus, row in _rows(report) if focus in subjects}
    return tuple(sorted(rows))


def require_conformance(
    data: Graph | Iterable[pyoxigraph.Quad | pyoxigraph.Triple], *, where: str = ""
) -> None:
    """Raise DoesNotConform with the first violations and their number when there are any."""
    found = validate(data)
    if not found:
        return
    shown = "\n  ".join(str(row) for row in found[:10])
    more = f"\n  and {len(found) - 10} more" if len(found) > 10 else ""
    raise DoesNotConform(
        f"{len(found)} shape violations; nothing was written:\n  {shown}{more}",
        where=where,
        hint="Each line says what to do.",
    )


def parse_turtle(text: str, *, where: str = "") -> Graph:
    """Turtle as an rdflib graph, read by pyoxigraph, which is faster and says line and column."""
    size = len(text.encode("utf-8", errors="replace"))
    if size > MAX_BYTES:
        raise InputError(
            f"the text has {size} bytes; {MAX_BYTES} are read at once",
            where=where,
            hint="Split it into one file per kernel.",
        )
    try:
        return to_graph(pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.TURTLE, base_iri=BASE))
    except SyntaxError as error:
        place = f"{where or 'turtle'}:{error.lineno or 0}:{error.offset or 0}"
        raise SyntaxProblem(
            error.msg, where=place, hint="Correct the Turtle at this place."
        ) from error


def to_graph(quads: Iterable[pyoxigraph.Quad | pyoxigraph.Triple]) -> Graph:
    """Triples of pyoxigraph in rdflib; InputError above MAX_TRIPLES or on a quoted triple."""
    graph = Graph()
    for count, quad in enumerate(quads, 1):
        if count > MAX_TRIPLES:
            raise InputError(
                f"the graph has more than {MAX_TRIPLES} triples",
                hint="Validate one kernel at a time.",
            )
        graph.add((node_of(quad.subject), node_of(quad.predicate), node_of(quad.object)))
    return graph


def _plain(value: Node) -> Node:
    """A string literal without its datatype: rdflib tells the two apart, RDF does not."""
    if isinstance(value, Literal) and value.datatype == XSD.string:
        return Literal(str(value))
    return value


@cache
def shapes() -> Graph:
    """Every shape of shapes/ in one graph; read it, never write to it."""
    return turtle_graph("shapes")


def vocabulary_slice(data: Graph) -> Iterator[tuple[Node, Node, Node]]:
    """What the shapes need to know about the vocabulary terms that the data names.

    A term that the data describes itself gets its types only: the shapes say what it lacks.
    """
    known = vocabulary()
    described = set(data.subjects())
    named = {node for node in data.objects() if isinstance(node, URIRef)} | described
    steps = False
    for node in named:
        for predicate, value in known.get(node, ()):
            steps = steps or value == TL.DesignStep
            if predicate == RDF.type or node not in described:
                yield node, predicate, value
        axis = None if node in described else _axis_of_value(node)
        if axis is not None:
            yield node, RDF.type, TL.AxisValue
            yield node, TL.ofAxis, axis
    if steps:
        for before, after in ontology().subject_objects(TL.precedes):
            yield before, TL.precedes, after


def _axis_of_value(node: Node) -> URIRef | None:
    """The axis named in a value IRI; values are open, so most of them are not in the ontology."""
    prefix = BASE + "value/"
    axis, slash, slug = str(node).removeprefix(prefix).partition("/")
    if not str(node).startswith(prefix) or not slash or not slug:
        return None
    return URIRef(f"{BASE}axis/{axis}")


@cache
def vocabulary() -> dict[Node, tuple[tuple[Node, Node], ...]]:
    """For each individual of the ontology its types, closed upwards, and the links followed."""
    graph = ontology()
    found: dict[Node, set[tuple[Node, Node]]] = {}
    for predicate in FOLLOWED:
        for subject, value in graph.subject_objects(predicate):
            found.setdefault(subject, set()).add((predicate, value))
    for subject, cls in graph.subject_objects(RDF.type):
        for above in graph.transitive_objects(cls, RDFS.subClassOf):
            if isinstance(above, URIRef):
                found[subject].add((RDF.type, above))
    return {subject: tuple(sorted(facts)) for subject, facts in found.items()}


@lru_cache(maxsize=64)
def shapes_for(classes: frozenset[str]) -> list[str]:
    """The shapes whose target is among the classes; terms of the slice need no look."""
    graph = shapes()
    targets = (shape for cls in classes for shape in graph.subjects(SH.targetClass, URIRef(cls)))
    return sorted({str(shape) for shape in targets})


@cache
def _owners() -> dict[Node, str]:
    """The node shape by name for every shape, property shape and SPARQL constraint in it."""
    graph = shapes()
    found: dict[Node, str] = {}
    for shape in graph.subjects(RDF.type, SH.NodeShape):
        name = short(shape).removeprefix("tls:")
        found[shape] = name
        for predicate in (SH.property, SH.sparql):
            for part in graph.objects(shape, predicate):
                found[part] = name
    return found


def _rows(report: Graph) -> Iterator[tuple[Node, Violation]]:
    for result in report.subjects(RDF.type, SH.ValidationResult):
        focus = report.value(result, SH.focusNode)
        source = report.value(result, SH.sourceShape)
        if focus is None or source is None:
            continue
        value = report.value(result, SH.value)
        yield (
            focus,
            Violation(
                focus=str(focus),
                path=_path(report.value(result, SH.resultPath), report),
                shape=_owners().get(source, short(source)),
                message=str(report.value(result, SH.resultMessage) or "The shape does not hold."),
                value="" if value is None else str(value),
            ),
        )


def _path(path: Node | None, graph: Graph) -> str:
    """`tl:name` for a property, `tl:hasLimit/tl:name` for a sequence."""
    if path is None:
        return ""
    if isinstance(path, BNode):
        return "/".join(short(part) for part in graph.items(path))
    return short(path)


def short(node: Node) -> str:
    """The IRI with one of our prefixes, or as it is."""
    text = str(node)
    for start, prefix in SHORT.items():
        if text.startswith(start):
            return prefix + text.removeprefix(start)
    return text

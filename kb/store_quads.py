"""Quads as the store keeps them: canonical text, digests, ownership of subjects, vocabulary."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Store, Triple
from pyoxigraph import parse as ox_parse
from pyoxigraph import serialize as ox_serialize

from kb.errors import DoesNotConform, InputError, SyntaxProblem, UnknownName
from kb.sparql_text import PREFIXES
from kb.store_choices import CHOICES, counted_in, counted_out
from kb.store_records import DumpFormat

ROOT = PREFIXES["tlr"]
NS = PREFIXES["tl"]
VOCABULARY = ROOT + "graph/vocabulary"
CATALOGUE = ROOT + "graph/catalogue"
PROGRAMS = ROOT + "graph/programs"
RESERVED = frozenset((VOCABULARY, CATALOGUE, PROGRAMS, CHOICES))

CONTENT_DIGEST = NamedNode(NS + "contentDigest")
PROGRAM_DIGEST = NamedNode(NS + "programDigest")
PROGRAM_TEXT = NamedNode(NS + "programText")
KERNEL = NamedNode(NS + "Kernel")
RDF_TYPE = NamedNode(PREFIXES["rdf"] + "type")

SUFFIXES = {
    ".nq": RdfFormat.N_QUADS,
    ".nt": RdfFormat.N_TRIPLES,
    ".trig": RdfFormat.TRIG,
    ".ttl": RdfFormat.TURTLE,
}


def digest(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def parse(data: str | bytes, form: RdfFormat, *, where: str) -> list[Quad]:
    """The quads of a text; SyntaxProblem with line and column."""
    try:
        return list(ox_parse(data, format=form))
    except SyntaxError as error:
        raise SyntaxProblem(
            f"{error.msg}.",
            where=f"{where}:{error.lineno or 1}:{error.offset or 1}",
            hint="Correct the text there; nothing was read from this file.",
        ) from None
    except ValueError as error:
        raise SyntaxProblem(f"{error}.", where=where, hint="Is it UTF-8 RDF text?") from None


def read_file(path: Path) -> list[Quad]:
    """The quads of a file, its format by suffix. InputError, SyntaxProblem."""
    form = SUFFIXES.get(path.suffix)
    if form is None:
        raise InputError(
            f"`{path.suffix}` is not a graph format known here.",
            where=str(path),
            hint=f"Use one of {', '.join(sorted(SUFFIXES))}.",
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"Cannot read it: {error.strerror}.", where=str(path)) from None
    return parse(data, form, where=str(path))


def as_quads(graph: str, quads: Sequence[Quad] | str | bytes) -> list[Quad]:
    """Quads of one graph; those of the default graph are taken to be in `graph`."""
    if isinstance(quads, (str, bytes)):
        quads = parse(quads, RdfFormat.N_QUADS, where=graph)
    name = NamedNode(graph)
    return [
        Quad(q.subject, q.predicate, q.object, name)
        if isinstance(q.graph_name, DefaultGraph)
        else q
        for q in quads
    ]


def canonical(quads: Iterable[Quad]) -> bytes:
    """Sorted, distinct N-Quads lines. With no blank nodes this is a canonical form."""
    text = ox_serialize(set(quads), format=RdfFormat.N_QUADS)
    assert text is not None
    return b"".join(sorted(text.splitlines(keepends=True)))


def triples_text(quads: Iterable[Quad]) -> str:
    """N-Triples lines of the quads, for INSERT DATA."""
    text = ox_serialize((q.triple for q in quads), format=RdfFormat.N_TRIPLES)
    assert text is not None
    return text.decode()


def insert_data(graph: str, quads: Iterable[Quad]) -> str:
    """`INSERT DATA` of the quads into the graph; they hold no blank nodes."""
    return f"INSERT DATA {{ GRAPH {NamedNode(graph)} {{\n{triples_text(quads)}}} }}"


def replace_graph(graph: str, quads: Sequence[Quad], content: str) -> str:
    """One update: the graph holds these quads, the catalogue this content digest."""
    name = NamedNode(graph)
    entry = Quad(name, CONTENT_DIGEST, Literal(content), NamedNode(CATALOGUE))
    added = (insert_data(graph, quads), insert_data(CATALOGUE, [entry]), counted_in((graph,)))
    return ";\n".join((drop_graph(graph), *added))


def drop_graph(graph: str) -> str:
    """One update: the graph, its catalogue entry and what it counted for are gone."""
    return f"{counted_out((graph,))};\n{forget_graph(graph)}"


def forget_graph(graph: str) -> str:
    """One update: the graph and its catalogue entry are gone, the counts are as they were."""
    name = NamedNode(graph)
    return (
        f"DROP SILENT GRAPH {name};\n"
        f"DELETE WHERE {{ GRAPH <{CATALOGUE}> {{ {name} {CONTENT_DIGEST} ?digest }} }}"
    )


def by_graph(quads: Iterable[Quad], *, where: str) -> dict[str, list[Quad]]:
    """The quads by graph IRI. Those of the default graph (Turtle) go to the graph of their kernel.

    InputError when the default graph does not describe exactly one kernel.
    """
    groups: dict[str, list[Quad]] = {}
    loose: list[Quad] = []
    for quad in quads:
        if isinstance(quad.graph_name, NamedNode):
            groups.setdefault(quad.graph_name.value, []).append(quad)
        else:
            loose.append(quad)
    if loose:
        kernels = {q.subject for q in loose if q.predicate == RDF_TYPE and q.object == KERNEL}
        names = [k.value for k in kernels if isinstance(k, NamedNode)]
        if len(names) != 1 or not names[0].startswith(ROOT + "kernel/"):
            raise InputError(
                f"Triples outside any graph describe {len(names)} kernels; one is needed to name "
                "their graph.",
                where=where,
                hint="Write one tl:Kernel per Turtle file, or use TriG or N-Quads.",
            )
        graph = ROOT + "graph/" + names[0].removeprefix(ROOT + "kernel/")
        groups.setdefault(graph, []).extend(as_quads(graph, loose))
    return groups


def check_owned(graph: str, quads: Sequence[Quad]) -> None:
    """DoesNotConform unless the graph holds only what is its own.

    A graph `graph/TAIL` owns the subjects that begin with `kernel/TAIL` or `TAIL`, has no blank
    nodes and names no other graph. So no triple is in two graphs, and the union of all graphs
    counts each once (oxigraph 0.5.13 counts a triple once per graph it is in).
    """
    if not graph.startswith(ROOT + "graph/") or graph in RESERVED:
        raise DoesNotConform(
            "It is not the name of a graph that can be added.",
            where=graph,
            hint=f"Graph names are {ROOT}graph/<the kernel's tail>.",
        )
    if not quads:
        raise DoesNotConform("The graph is empty.", where=graph, hint="Use `remove` to drop it.")
    tail = graph.removeprefix(ROOT + "graph/")
    owners = (ROOT + "kernel/" + tail, ROOT + tail)
    own = NamedNode(graph)
    subjects = {quad.subject: quad for quad in quads}
    plain = not any(isinstance(quad.object, (BlankNode, Triple)) for quad in quads)
    here = {quad.graph_name for quad in quads} == {own}
    for quad in subjects.values() if plain and here else quads:
        reason = _foreign(quad, graph, owners)
        if reason:
            raise DoesNotConform(
                reason, where=graph, hint=f"Subjects in it begin with <{owners[0]}>."
            )


def _foreign(quad: Quad, graph: str, owners: Sequence[str]) -> str:
    if str(quad.graph_name) != f"<{graph}>":
        return f"A triple names another graph: {quad.graph_name}."
    if not isinstance(quad.subject, NamedNode):
        return f"The subject {quad.subject} has no IRI; blank nodes are not stored."
    if isinstance(quad.object, (BlankNode, Triple)):
        return f"The object of {quad.subject} {quad.predicate} is a blank node or a triple."
    subject = quad.subject.value
    if not any(subject == own or subject.startswith((own + "/", own + "#")) for own in owners):
        return f"{quad.subject} belongs to another graph."
    return ""


def program_digests(quads: Iterable[Quad]) -> frozenset[str]:
    """Digests of the tile programs that the quads name."""
    return frozenset(q.object.value for q in quads if q.predicate == PROGRAM_DIGEST)  # type: ignore[union-attr]


def check_programs(graph: str, wanted: Iterable[str], programs: Mapping[str, str]) -> None:
    """DoesNotConform unless every program text has its digest and each wanted one is given."""
    for name, text in programs.items():
        if digest(text.encode()) != name:
            raise DoesNotConform(
                f"The program text does not have the digest {name}.",
                where=graph,
                hint="The digest is the SHA-256 of the text in UTF-8.",
            )
    missing = sorted(set(wanted) - programs.keys())
    if missing:
        raise DoesNotConform(
            f"The graph names program {missing[0]}, which is not given.",
            where=graph,
            hint="Pass its text beside the graph.",
        )


def program_quads(programs: Mapping[str, str]) -> list[Quad]:
    """Program texts as quads of the programs graph, as exports and remote stores hold them."""
    graph = NamedNode(PROGRAMS)
    return [
        Quad(NamedNode(f"{ROOT}program/{name}"), PROGRAM_TEXT, Literal(text), graph)
        for name, text in sorted(programs.items())
    ]


def programs_of(quads: Iterable[Quad]) -> dict[str, str]:
    """Program texts by digest, from quads of the programs graph."""
    return {
        q.subject.value.rsplit("/", 1)[-1]: q.object.value
        for q in quads
        if q.predicate == PROGRAM_TEXT
        and isinstance(q.subject, NamedNode)
        and isinstance(q.object, Literal)
    }


def own_programs(quads: Iterable[Quad], programs: Mapping[str, str]) -> dict[str, str]:
    """The programs among these that the quads name."""
    return {name: programs[name] for name in program_digests(quads) & programs.keys()}


def file_graphs(path: Path) -> tuple[dict[str, list[Quad]], dict[str, str]]:
    """The graphs of a file that can be added, and the programs in it. DoesNotConform when none."""
    groups = by_graph(read_file(path), where=str(path))
    programs = programs_of(groups.pop(PROGRAMS, []))
    for reserved in RESERVED:
        groups.pop(reserved, None)
    if not groups:
        raise DoesNotConform("No kernel is in it.", where=str(path), hint="Is it an export?")
    return groups, programs


def write_quads(out: BinaryIO, quads: Sequence[Quad], form: DumpFormat) -> int:
    """Write quads, sorted, in a format of exports; their number."""
    text = canonical(quads)
    if form is DumpFormat.TRIG:
        ordered = parse(text, RdfFormat.N_QUADS, where="export")
        text = ox_serialize(ordered, format=RdfFormat.TRIG, prefixes=PREFIXES) or b""
    out.write(text)
    return len(quads)


def vocabulary_files(folder: Path) -> tuple[Path, ...]:
    """The Turtle modules of the ontology, in a fixed order."""
    return tuple(sorted(folder.rglob("*.ttl")))


def vocabulary_digest(folder: Path) -> str:
    """Digest of the module texts, names included."""
    parts = [
        p.relative_to(folder).as_posix().encode() + b"\0" + p.read_bytes()
        for p in vocabulary_files(folder)
    ]
    return digest(b"\0\0".join(parts))


def vocabulary_quads(folder: Path) -> list[Quad]:
    """All modules as quads of the vocabulary graph; blank nodes become IRIs by their order."""
    graph = NamedNode(VOCABULARY)
    quads: dict[Quad, None] = {}
    for path in vocabulary_files(folder):
        names: dict[str, NamedNode] = {}
        stem = path.relative_to(folder).with_suffix("").as_posix()
        for quad in read_file(path):
            subject = _named(quad.subject, names, stem)
            target = _named(quad.object, names, stem)
            quads[Quad(subject, quad.predicate, target, graph)] = None  # type: ignore[arg-type]
    return list(quads)


def _named(term: object, names: dict[str, NamedNode], stem: str) -> object:
    if not isinstance(term, BlankNode):
        return term
    name = f"{ROOT}.well-known/genid/{stem}/{len(names)}"
    return names.setdefault(term.value, NamedNode(name))


def graph_text(index: Store, graph: str) -> str:
    """A named graph in canonical N-Quads. Raises UnknownName."""
    text = canonical(index.quads_for_pattern(None, None, None, NamedNode(graph)))
    if not text:
        raise UnknownName(f"There is no graph <{graph}>.", hint="See `tilelore kb stats`.")
    return text.decode()

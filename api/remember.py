"""Knowledge into the store and back: every graph is validated before any of a file is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyoxigraph import Quad, RdfFormat
from pyoxigraph import parse as parse_quads

from kb.errors import DoesNotConform
from kb.graph import names
from kb.graph.decode import decode
from kb.graph.encode import KernelGraph, encode
from kb.knowledge import KernelKnowledge, SourceKnowledge
from kb.quick_validation import surely_conforms
from kb.store import AddResult, KernelEntry, Rows, Store, open_store, resolve_kernel
from kb.validation import require_conformance

_SOURCES = """
SELECT ?graph ?kernel ?sha WHERE {
  GRAPH ?graph { ?kernel a tl:Kernel ; tl:hasSource ?source . ?source tl:sha256 ?sha }
}
"""


@dataclass
class Conformance:
    """Runs the shapes over a graph once; one that has passed is not checked again when written."""

    passed: dict[str, frozenset[Quad]] = field(default_factory=dict)

    def __call__(self, quads: Sequence[Quad]) -> None:
        """Raise DoesNotConform unless the quads of this one graph conform."""
        graph = str(quads[0].graph_name) if quads else ""
        rows = frozenset(quads)
        if self.passed.get(graph) != rows:
            if not surely_conforms(quads):
                require_conformance(quads, where=graph.strip("<>"))
            self.passed[graph] = rows


@dataclass(frozen=True, slots=True)
class Remembered:
    """What storing did: how many graphs were new, as before, or replaced."""

    added: int = 0
    unchanged: int = 0
    replaced: int = 0

    def __add__(self, other: Remembered) -> Remembered:
        """Both together."""
        return Remembered(
            added=self.added + other.added,
            unchanged=self.unchanged + other.unchanged,
            replaced=self.replaced + other.replaced,
        )


def open_for_writing(location: str | None, conformance: Conformance) -> Store:
    """The knowledge base, made when it is not there; every write passes the shapes."""
    return open_store(location, validate=conformance)


def remember(sources: Iterable[SourceKnowledge], location: str | None) -> Remembered:
    """Store the kernels of files; all kernels of a file, or none when one does not conform.

    A kernel read again from the very same source replaces what an older reader said of it.
    Raises StoreError; and DoesNotConform after the other files are stored, naming what was refused.
    """
    conformance = Conformance()
    total = Remembered()
    refused: list[DoesNotConform] = []
    with open_for_writing(location, conformance) as store:
        known = {entry.graph for entry in store.kernels()}
        for source in sources:
            graphs = [encode(knowledge) for knowledge in source.kernels]
            try:
                for graph in graphs:
                    if graph.name not in known:
                        conformance(graph.quads)
            except DoesNotConform as error:
                refused.append(error)
                continue
            total += add_graphs(store, graphs)
    if refused:
        more = f" (and {len(refused) - 1} further files)" if len(refused) > 1 else ""
        raise DoesNotConform(
            refused[0].message, where=refused[0].where + more, hint=refused[0].hint
        )
    return total


def add_graphs(store: Store, graphs: Sequence[KernelGraph]) -> Remembered:
    """Write graphs that conform, and drop those that they take the place of."""
    superseded = _superseded(store, graphs)
    counts = Counter(store.add(graph.name, graph.quads, graph.programs) for graph in graphs)
    for name in superseded:
        store.remove(name)
    replaced = counts[AddResult.REPLACED] + len(superseded)
    return Remembered(
        added=counts[AddResult.ADDED] - len(superseded),
        unchanged=counts[AddResult.UNCHANGED],
        replaced=replaced,
    )


def _superseded(store: Store, graphs: Sequence[KernelGraph]) -> list[str]:
    """Graphs of the same kernel of the same source text under another digest."""
    wanted = {(graph.name.rpartition("/")[0], _sha(graph)): graph.name for graph in graphs}
    names_ = {graph.name for graph in graphs}
    found = store.query(_SOURCES)
    rows = list(found) if isinstance(found, Rows) else []
    return [
        str(row["graph"])
        for row in rows
        if (str(row["graph"]).rpartition("/")[0], str(row["sha"])) in wanted
        and str(row["graph"]) not in names_
    ]


def _sha(graph: KernelGraph) -> str:
    predicate = names.term("tl:sha256")
    return next(str(q.object.value) for q in graph.quads if q.predicate.value == predicate)  # type: ignore[union-attr]


def recall(store: Store, name: str) -> tuple[str, KernelKnowledge]:
    """IRI and knowledge of the kernel with this IRI, id or name. UnknownName."""
    entries = store.kernels()
    iri = resolve_kernel(name, entries)
    entry = next(entry for entry in entries if entry.iri == iri)
    return iri, recall_entry(store, entry)


def recall_entry(store: Store, entry: KernelEntry) -> KernelKnowledge:
    """The knowledge of a kernel of the listing."""
    quads = parse_quads(store.graph_text(entry.graph), format=RdfFormat.N_QUADS)
    return decode(quads, store.program(entry.program))

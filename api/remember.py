"""Knowledge into the store and back: only graphs that were checked are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

from pyoxigraph import Quad, RdfFormat
from pyoxigraph import parse as parse_quads

from api.reading import Reading, reading_of
from kb.checked import origin_of
from kb.errors import DoesNotConform
from kb.graph.decode import decode
from kb.knowledge import KernelKnowledge, SourceKnowledge
from kb.quick_validation import surely_conforms
from kb.store import AddResult, KernelEntry, Rows, Store, open_store, resolve_kernel
from kb.store_bulk import BATCH
from kb.store_records import CheckedGraph
from kb.validation import require_conformance

_SOURCES = """
SELECT ?graph ?sha WHERE {
  GRAPH ?graph { ?kernel a tl:Kernel ; tl:hasSource ?source . ?source tl:sha256 ?sha }
}
"""


def require_shapes(quads: Sequence[Quad]) -> None:
    """Raise DoesNotConform unless the quads of this one graph conform."""
    if not surely_conforms(quads):
        where = str(quads[0].graph_name).strip("<>") if quads else ""
        require_conformance(quads, where=where)


def open_for_writing(location: str | None) -> Store:
    """The knowledge base, made when it is not there; every write passes the shapes."""
    return open_store(location, validate=require_shapes)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What storing did: how many graphs were new, as before, or replaced."""

    added: int = 0
    unchanged: int = 0
    replaced: int = 0


class Memory:
    """Readings into a knowledge base, which is opened with the first graph.

    A kernel read again from the very same source replaces what an older reader said of it. One
    batch is written in a thread while the next one gathers: who reads need not wait for the disk.
    """

    def __init__(self, location: str | None) -> None:
        self._location = location
        self._store: Store | None = None
        self._held: dict[tuple[str, str], set[str]] = {}
        self._batch: dict[str, CheckedGraph] = {}
        self._outdated: list[str] = []
        self._counts = dict.fromkeys(AddResult, 0)
        self._dropped = 0
        self._refused: list[str] = []
        self._writer = ThreadPoolExecutor(1)
        self._written: Future[None] | None = None

    def add(self, reading: Reading) -> None:
        """All kernels of a file, or none when one does not conform. Raises StoreError, also for
        what was added before."""
        if reading.refused:
            self._refused.append(reading.refused)
        if not reading.graphs:
            return
        self._open()
        by_origin: dict[tuple[str, str], set[str]] = {}
        for graph in reading.graphs:
            by_origin.setdefault(graph.origin, set()).add(graph.name)
            self._batch[graph.name] = graph
        for origin, names in by_origin.items():
            self._outdated += self._held.get(origin, set()) - names
            self._held[origin] = names
        if len(self._batch) >= BATCH:
            self._flush()

    def _open(self) -> Store:
        if self._store is None:
            self._store = open_for_writing(self._location)
            self._held = _held(self._store)
        return self._store

    def _flush(self) -> None:
        """Begin to write what waits, when the batch before is written."""
        self._settle()
        batch, outdated = tuple(self._batch.values()), tuple(self._outdated)
        self._written = self._writer.submit(self._write, self._open(), batch, outdated)
        self._batch, self._outdated = {}, []

    def _settle(self) -> None:
        """Wait for the batch that is written; what stopped it is raised here."""
        if self._written is not None:
            self._written.result()

    def _write(
        self, store: Store, batch: tuple[CheckedGraph, ...], outdated: tuple[str, ...]
    ) -> None:
        """Write a batch, then drop what it takes the place of."""
        for result in store.add_checked(batch):
            self._counts[result] += 1
        self._dropped += sum(store.remove(name) for name in outdated)

    def done(self) -> Remembered:
        """Write the rest; what all of it did.

        Raises StoreError; and DoesNotConform, after the other files are stored, naming what was
        refused.
        """
        if self._batch:
            self._flush()
        self._settle()
        if self._refused:
            raise DoesNotConform(
                f"{len(self._refused)} files were not stored: {self._refused[0]}",
                hint="This is a fault of tilelore: report it with the file.",
            )
        return Remembered(
            added=self._counts[AddResult.ADDED] - self._dropped,
            unchanged=self._counts[AddResult.UNCHANGED],
            replaced=self._counts[AddResult.REPLACED] + self._dropped,
        )

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.shutdown()
        if self._store is not None:
            self._store.close()


def remember(sources: Iterable[SourceKnowledge], location: str | None) -> Remembered:
    """Store the kernels of files that were read; see `Memory`."""
    with Memory(location) as memory:
        for source in sources:
            memory.add(reading_of(source))
        return memory.done()


def _held(store: Store) -> dict[tuple[str, str], set[str]]:
    """The graphs of the store by kernel and source text."""
    found = store.query(_SOURCES)
    held: dict[tuple[str, str], set[str]] = {}
    for row in found if isinstance(found, Rows) else ():
        graph = str(row["graph"])
        held.setdefault(origin_of(graph, str(row["sha"])), set()).add(graph)
    return held


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

"""Many new graphs at once: files first, then one bulk load of the index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyoxigraph as ox
from pyoxigraph import Literal, NamedNode, Quad

from kb import store_quads as sq
from kb.store_choices import counted_anew, counted_in
from kb.store_failures import told
from kb.store_files import UNCHANGED, Folder
from kb.store_records import AddResult, CheckedGraph, Store

BATCH = 256
"""Graphs of one load; a killed load is undone as a whole. The fewer the loads, the less often the
index merges what it holds: loads of 64 graphs took a third more processor time."""


def add_checked(
    store: Store, folder: Folder, index: ox.Store, graphs: Sequence[CheckedGraph]
) -> tuple[AddResult, ...]:
    """See `Store.add_checked`: new graphs in bulk, those that replace another one by one."""
    known = catalogue(index)
    new = [graph for graph in graphs if graph.name not in known]
    for start in range(0, len(new), BATCH):
        _add_new(folder, index, new[start : start + BATCH])
    fresh = {graph.name for graph in new}
    return tuple(
        AddResult.ADDED
        if graph.name in fresh
        else AddResult.UNCHANGED
        if known[graph.name] == graph.content
        else store.add(graph.name, graph.text, graph.programs)
        for graph in graphs
    )


def _add_new(folder: Folder, index: ox.Store, graphs: Sequence[CheckedGraph]) -> None:
    """Write graphs that the index does not hold: all or, when it fails or is killed, none."""
    programs = {name: text for graph in graphs for name, text in graph.programs.items()}
    texts = _Unpacked({graph.content: graph for graph in graphs})
    pending = folder.begin(texts, programs, graphs=[graph.name for graph in graphs])
    written = False
    blocks = b"".join((*map(_block, graphs), _entries(graphs)))
    try:
        with told("The index could not be written", folder.root, UNCHANGED):
            # The texts are of the same library: asking every name again takes a third of the time.
            index.bulk_load(blocks, format=ox.RdfFormat.TRIG, lenient=True)
            index.update(counted_in(pending.graphs))
        written = True
    finally:
        if not written:
            undo(index, pending.graphs)
            folder.roll_back(pending)
    folder.finish()


def catalogue(index: ox.Store) -> dict[str, str]:
    """Content digest by graph, without the vocabulary."""
    named = NamedNode(sq.CATALOGUE)
    found = index.quads_for_pattern(None, sq.CONTENT_DIGEST, None, named)
    rows = {q.subject.value: q.object.value for q in found}  # type: ignore[union-attr]
    rows.pop(sq.VOCABULARY, None)
    return rows


def programs_named(index: ox.Store, graph: str) -> tuple[str, ...]:
    """Digests of the programs that a graph names."""
    found = index.quads_for_pattern(None, sq.PROGRAM_DIGEST, None, NamedNode(graph))
    return tuple(sorted(sq.program_digests(found)))


def undo(index: ox.Store, graphs: Sequence[str]) -> None:
    """Drop what a load may have left of graphs that were not there before, counted or not."""
    for graph in graphs:
        index.update(sq.forget_graph(graph))
    index.update(counted_anew())


@dataclass(frozen=True, slots=True)
class _Unpacked(Mapping[str, bytes]):
    """Texts by digest, each unpacked when it is asked for."""

    graphs: Mapping[str, CheckedGraph]

    def __getitem__(self, content: str) -> bytes:
        return self.graphs[content].text

    def __iter__(self) -> Iterator[str]:
        return iter(self.graphs)

    def __len__(self) -> int:
        return len(self.graphs)


def _block(graph: CheckedGraph) -> bytes:
    """A graph as TriG, which names it once: a third less to parse than its N-Quads."""
    name = str(NamedNode(graph.name)).encode()
    return b"GRAPH %b {\n%b}\n" % (name, graph.text.replace(b" %b .\n" % name, b" .\n"))


def _entries(graphs: Sequence[CheckedGraph]) -> bytes:
    """The graphs' entries in the catalogue, as TriG."""
    catalogue = NamedNode(sq.CATALOGUE)
    entries = (
        Quad(NamedNode(graph.name), sq.CONTENT_DIGEST, Literal(graph.content), catalogue)
        for graph in graphs
    )
    return ox.serialize(entries, format=ox.RdfFormat.TRIG) or b""

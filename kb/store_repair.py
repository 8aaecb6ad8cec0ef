"""Index against files: repair at opening, fill a fresh index, the full check, the export."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyoxigraph as ox
from pyoxigraph import NamedNode, Quad

from kb import store_quads as sq
from kb.errors import DoesNotConform, StoreError, SyntaxProblem
from kb.store_bulk import catalogue, undo
from kb.store_choices import CHOICES, counted, counted_anew, miscounted
from kb.store_files import Folder
from kb.store_records import DumpFormat, Problem


def reconcile(folder: Folder, index: ox.Store) -> None:
    """Make the folder and the index agree after a killed writer or a lost or damaged index.

    An add that was not acknowledged is undone; one that reached the index is completed; otherwise
    the files win. A damaged file is left where it is, for `check` to report.
    """
    for left in (*folder.root.glob("kernels/??/*.tmp"), *folder.root.glob("programs/*.tmp")):
        left.unlink()
    known = catalogue(index)
    pending = folder.pending()
    lost = not known and len(folder.kernel_digests()) > 1
    if pending is not None and pending.graphs:
        undo(index, pending.graphs)
        known = {graph: known[graph] for graph in known.keys() - {*pending.graphs}}
        folder.roll_back(pending)
    elif pending is not None and not lost and pending.contents[0] not in known.values():
        folder.roll_back(pending)
    files = folder.kernel_digests()
    unsure = pending.contents[0] if pending is not None else ""
    for graph, content in known.items():
        if content not in files:
            index.update(sq.drop_graph(graph))
    alive = {graph: content for graph, content in known.items() if content in files}
    # What was pending comes last, so that of two files for one graph the acknowledged one stays.
    for content in sorted(files.keys() - set(alive.values()), key=lambda c: (c == unsure, c)):
        _take_in(folder, index, files[content], alive)
    if not counted(index):
        index.update(counted_anew())
    folder.finish()
    _drop_unnamed(folder, index)


def _take_in(folder: Folder, index: ox.Store, path: Path, alive: dict[str, str]) -> None:
    quads = _sound(path)
    if not quads:
        return
    graph = _graph_of(quads)
    if graph in alive:
        path.unlink()  # superseded: the kill came before it was removed
        return
    index.update(sq.replace_graph(graph, quads, path.stem))
    alive[graph] = path.stem


def _drop_unnamed(folder: Folder, index: ox.Store) -> None:
    """Remove programs that no graph names; a kill can leave them."""
    named = sq.program_digests(index.quads_for_pattern(None, sq.PROGRAM_DIGEST, None, None))
    indexed = set(catalogue(index).values())
    if folder.kernel_digests().keys() - indexed:
        return  # a damaged graph file may name them
    for name, path in folder.program_digests().items():
        if name not in named:
            path.unlink()


def _graph_of(quads: list[Quad]) -> str:
    return quads[0].graph_name.value  # type: ignore[union-attr]


def _sound(path: Path) -> list[Quad]:
    """The quads of a graph file; none when its bytes do not have the digest in its name."""
    data = path.read_bytes()
    if sq.digest(data) != path.stem:
        return []
    return sq.parse(data, ox.RdfFormat.N_QUADS, where=str(path))


def build_index(folder: Folder, old: ox.Store, path: Path) -> int:
    """Make an index at `path` from the files and the old one's vocabulary; the number of graphs."""
    shutil.rmtree(path, ignore_errors=True)
    fresh = ox.Store(str(path))
    vocabulary, catalogue_graph = NamedNode(sq.VOCABULARY), NamedNode(sq.CATALOGUE)
    fresh.extend(old.quads_for_pattern(None, None, None, vocabulary))
    fresh.extend(old.quads_for_pattern(vocabulary, None, None, catalogue_graph))
    count = fill_index(folder, fresh)
    fresh.optimize()
    return count


def fill_index(folder: Folder, index: ox.Store) -> int:
    """Put every sound graph file into a fresh index; the number of graphs.

    StoreError when a file is damaged or two files hold the same graph: the truth is then in doubt.
    """
    seen: dict[str, Path] = {}
    index.bulk_extend(_all_quads(folder, seen))
    index.update(counted_anew())
    return len(seen)


def _all_quads(folder: Folder, seen: dict[str, Path]) -> Iterator[Quad]:
    """The quads of all graph files with their catalogue entries; `seen` gets file by graph."""
    for path in folder.kernel_digests().values():
        quads = _sound(path)
        if not quads:
            raise StoreError(
                "The graph file was changed after it was written.",
                where=str(path),
                hint="Restore it or delete it, then extract its kernel again.",
            )
        graph = _graph_of(quads)
        if graph in seen:
            raise StoreError(
                f"Two files hold <{graph}>.",
                where=str(path),
                hint=f"Delete it or {seen[graph]}.",
            )
        seen[graph] = path
        yield from quads
        name, digest = NamedNode(graph), ox.Literal(path.stem)
        yield Quad(name, sq.CONTENT_DIGEST, digest, NamedNode(sq.CATALOGUE))


def check_folder(folder: Folder, index: ox.Store) -> tuple[Problem, ...]:
    """Digests of all files, ownership of every graph, and index equal to files."""
    return (*_check_graphs(folder, index), *_check_programs(folder, index))


def _check_graphs(folder: Folder, index: ox.Store) -> Iterator[Problem]:
    known, files = catalogue(index), folder.kernel_digests()
    for graph, content in sorted(known.items()):
        if content not in files:
            yield Problem(graph, "Its file is missing.", "Extract its kernel again.")
    for content, path in files.items():
        quads = _sound(path)
        if not quads:
            yield Problem(
                str(path),
                "The file was changed after it was written.",
                "Restore it or delete it, then extract its kernel again.",
            )
            continue
        graph = _graph_of(quads)
        if known.get(graph) != content:
            yield Problem(str(path), "The index does not hold it.", "Run `tilelore kb rebuild`.")
        held = sq.canonical(index.quads_for_pattern(None, None, None, NamedNode(graph)))
        if known.get(graph) == content and sq.digest(held) != content:
            yield Problem(graph, "The index differs from the file.", "Run `tilelore kb rebuild`.")
        yield from _check_rows(graph, quads)
    if miscounted(index):
        yield Problem(CHOICES, "The values are miscounted.", "Run `tilelore kb rebuild`.")
    allowed = known.keys() | sq.RESERVED
    for name in index.named_graphs():
        if name.value not in allowed:
            yield Problem(
                name.value,
                "The index holds a graph that no file has.",
                "Run `tilelore kb rebuild`.",
            )


def _check_rows(graph: str, quads: list[Quad]) -> Iterator[Problem]:
    try:
        sq.check_owned(graph, quads)
    except (DoesNotConform, SyntaxProblem) as error:
        yield Problem(graph, error.message, error.hint)


def _check_programs(folder: Folder, index: ox.Store) -> Iterator[Problem]:
    files = folder.program_digests()
    found = index.quads_for_pattern(None, sq.PROGRAM_DIGEST, None, None)
    for name in sorted(sq.program_digests(found)):
        if name not in files:
            yield Problem(f"program {name}", "Its file is missing.", "Extract its kernel again.")
    for name, path in files.items():
        if sq.digest(path.read_bytes()) != name:
            yield Problem(
                str(path),
                "The program was changed after it was written.",
                "Delete it and extract its kernel again.",
            )


def export_all(folder: Folder, index: ox.Store, out: BinaryIO, form: DumpFormat) -> int:
    """Write every graph that is not ours, and the programs; the number of quads."""
    graphs = [g.value for g in index.named_graphs() if isinstance(g, NamedNode)]
    count = 0
    for graph in sorted(set(graphs) - sq.RESERVED):
        found = index.quads_for_pattern(None, None, None, NamedNode(graph))
        count += sq.write_quads(out, list(found), form)
    texts = {name: folder.program(name) for name in folder.program_digests()}
    return count + sq.write_quads(out, sq.program_quads(texts), form)

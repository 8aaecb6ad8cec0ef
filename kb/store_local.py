"""The local store: files are the truth, an Oxigraph index on disk answers; one writer."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pyoxigraph as ox
from pyoxigraph import NamedNode, Quad

from kb import store_quads as sq
from kb.errors import StoreError
from kb.query_pool import Limits, Query, QueryPool
from kb.questions import QUESTIONS, prepare
from kb.results import Result, Serialized, parse
from kb.sparql_text import PREFIXES, syntax_problem, with_using
from kb.store_ask import direct_answer, kernel_entries, kernel_names, read_stats
from kb.store_bulk import add_checked, programs_named
from kb.store_choices import counted
from kb.store_failures import told
from kb.store_files import UNCHANGED, Folder, hold
from kb.store_records import (
    AddResult,
    Binding,
    CheckedGraph,
    DumpFormat,
    KernelEntry,
    KernelName,
    Loaded,
    Problem,
    ReadOnly,
    Stats,
    Validator,
)
from kb.store_repair import build_index, check_folder, export_all, reconcile


class LocalStore:
    """A knowledge base folder, open for writing (one process) or for reading (any number).

    `scratch` gives up the files: the index is all there is and takes free updates.
    """

    def __init__(
        self,
        root: Path,
        *,
        validate: Validator | None = None,
        vocabulary: Path | None = None,
        limits: Limits | None = None,
        read_only: bool = False,
        scratch: bool = False,
    ) -> None:
        self.folder = Folder(root)
        self._validate = validate
        self._read_only = read_only
        self._scratch = scratch
        self._pool = QueryPool(limits or Limits())
        self._published: Path | None = None
        self._handle: int | None = None
        self._guard = threading.Lock()
        self._index: ox.Store | None = None
        if read_only:
            self._open_reader(validate, vocabulary)
        else:
            self._open_writer(vocabulary)

    def _open_writer(self, vocabulary: Path | None) -> None:
        self.folder.lock()
        done = False
        try:
            self.folder.create()
            self._index = self._open_index()
            if not self._scratch:
                self.folder.dirty.touch()
                reconcile(self.folder, self._index)
            if vocabulary is not None:
                self.set_vocabulary(vocabulary)
            done = True
        finally:
            if not done:
                self._index = None
                self.folder.unlock()

    def _open_index(self) -> ox.Store:
        try:
            return ox.Store(str(self.folder.index))
        except OSError as error:
            if self._scratch or "lock" in str(error).lower():
                raise StoreError(
                    f"The index cannot be opened: {error}.",
                    where=str(self.folder.index),
                    hint="Is another program using it?",
                ) from None
        # The index is damaged; the files are not. Make it again (reconcile fills it).
        shutil.rmtree(self.folder.index)
        return ox.Store(str(self.folder.index))

    def _open_reader(self, validate: Validator | None, vocabulary: Path | None) -> None:
        if not (self.folder.root / "FORMAT").exists():
            raise StoreError(
                "There is no knowledge base.",
                where=str(self.folder.root),
                hint="Make one with `tilelore extract PATH --kb DIR`, or name it with --kb.",
            )
        if self.folder.current() is None or self.folder.dirty.exists():
            self._settle(validate, vocabulary)
        self._follow()
        if not counted(self.index):  # published before values were counted
            self._settle(validate, vocabulary)

    def _follow(self) -> None:
        """Open the newest snapshot, unless it is open already."""
        for _ in range(10):  # a writer may publish and drop between the steps
            current = self.folder.current()
            if current is not None and current == self._published:
                return
            if current is not None and self._hold(current):
                return
        raise StoreError(
            "Nothing has been published yet.",
            where=str(self.folder.root),
            hint="Wait until the process that writes it ends.",
        )

    def _hold(self, snapshot: Path) -> bool:
        """Keep it from being dropped and open it; False when it is gone already."""
        handle = hold(snapshot)
        if handle is None:
            return False
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._published = handle, snapshot
        self._index = ox.Store.read_only(str(snapshot))
        return True

    def _settle(self, validate: Validator | None, vocabulary: Path | None) -> None:
        """Repair and publish after a killed writer; while one lives, its last snapshot is read."""
        try:
            LocalStore(self.folder.root, validate=validate, vocabulary=vocabulary).close()
        except StoreError:
            if self.folder.current() is None:
                raise

    def close(self) -> None:
        """Publish what was written, end the readers, let go of the lock."""
        self._pool.close()
        try:
            if self._index is not None and not self._read_only and not self._scratch:
                self.snapshot()
                self.folder.dirty.unlink(missing_ok=True)
        finally:
            self._index = None
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None
            self.folder.unlock()

    def __enter__(self) -> LocalStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def index(self) -> ox.Store:
        """The open index; a reader's is the newest published one."""
        if self._index is None:
            raise StoreError("The store is closed.", where=self.location, hint="Open it again.")
        if self._read_only:
            with self._guard:
                self._follow()
        return self._index

    @property
    def location(self) -> str:
        """The folder."""
        return str(self.folder.root)

    @property
    def writable(self) -> bool:
        """Whether free updates are taken."""
        return self._scratch

    def snapshot(self) -> Path:
        """A published, unchanging copy of the index as it is now (hard links, milliseconds)."""
        index = self.index
        later = "Make room there; the next writer publishes it."
        with self._guard, told("What was written cannot be published", self.location, later):
            if self._published is None:
                path = self.folder.next_snapshot()
                index.backup(str(path))
                self.folder.publish(path)
                self._published = path
            return self._published

    def add(
        self, graph: str, quads: Sequence[Quad] | str | bytes, programs: Mapping[str, str]
    ) -> AddResult:
        """See `Store.add`."""
        self._check_writer()
        rows = sq.as_quads(graph, quads)
        text, content, old = self._admit(graph, rows, programs)
        if old == content:
            return AddResult.UNCHANGED
        before = programs_named(self.index, graph)
        pending = self.folder.begin({content: text}, programs)
        written = False
        try:
            self._commit(sq.replace_graph(graph, rows, content))
            written = True
        finally:
            if not written:
                self.folder.roll_back(pending)
        self._drop_files(old, before)
        self.folder.finish()
        return AddResult.REPLACED if old else AddResult.ADDED

    def add_checked(self, graphs: Sequence[CheckedGraph]) -> tuple[AddResult, ...]:
        """See `Store.add_checked`."""
        self._check_writer()
        self._published = None
        return add_checked(self, self.folder, self.index, graphs)

    def _admit(
        self, graph: str, rows: Sequence[Quad], programs: Mapping[str, str]
    ) -> tuple[bytes, str, str]:
        """Canonical text, its digest, the graph's digest so far; raises when it may not enter."""
        sq.check_owned(graph, rows)
        text = sq.canonical(rows)
        content, old = sq.digest(text), self.content_digest(graph)
        wanted = sq.program_digests(rows)
        here = {n for n in wanted if n.isalnum() and self.folder.program_path(n).exists()}
        sq.check_programs(graph, wanted - here, programs)
        if old != content and self._validate is not None:
            self._validate(rows)
        return text, content, old

    def remove(self, graph: str) -> bool:
        """See `Store.remove`."""
        self._check_writer()
        old = self.content_digest(graph)
        if not old or graph in sq.RESERVED:
            return False
        before = programs_named(self.index, graph)
        self.folder.kernel_path(old).unlink(missing_ok=True)
        self._commit(sq.drop_graph(graph))
        self._drop_files("", before)
        return True

    def _commit(self, update: str) -> None:
        self._published = None
        with told("The index could not be written", self.location, UNCHANGED):
            self.index.update(update)

    def _drop_files(self, content: str, programs: Sequence[str]) -> None:
        if content:
            self.folder.kernel_path(content).unlink(missing_ok=True)
        for name in programs:
            named = (None, sq.PROGRAM_DIGEST, ox.Literal(name), None)
            if next(iter(self.index.quads_for_pattern(*named)), None) is None:
                self.folder.program_path(name).unlink(missing_ok=True)

    def content_digest(self, graph: str) -> str:
        """The digest of the graph's canonical text; '' when it is not there."""
        name, catalogue = NamedNode(graph), NamedNode(sq.CATALOGUE)
        found = self.index.quads_for_pattern(name, sq.CONTENT_DIGEST, None, catalogue)
        return next((str(q.object.value) for q in found), "")  # type: ignore[union-attr]

    def set_vocabulary(self, folder: Path) -> bool:
        """Hold these ontology modules in the vocabulary graph; False when it does already."""
        content = sq.vocabulary_digest(folder)
        if content == self.content_digest(sq.VOCABULARY):
            return False
        quads = sq.vocabulary_quads(folder)
        update = sq.replace_graph(sq.VOCABULARY, quads, content) if quads else ""
        self._commit(update or sq.drop_graph(sq.VOCABULARY))
        return True

    def update(
        self,
        sparql: str,
        *,
        using: Sequence[str] = (),
        using_named: Sequence[str] = (),
        base: str = "",
    ) -> None:
        """See `Store.update`."""
        if not self._scratch:
            raise ReadOnly(
                "Free updates are refused; the kernel files are the truth.",
                where=self.location,
                hint="Add kernels with `tilelore extract --kb` or `tilelore kb load`.",
            )
        text = with_using(sparql, using, using_named) if using or using_named else sparql
        self._published = None
        try:
            self.index.update(text, base_iri=base or None, prefixes=PREFIXES)
        except SyntaxError as error:
            raise syntax_problem(str(error), text, where="update") from None
        except OSError as error:
            raise StoreError(f"The update failed: {error}.", where=self.location) from None

    def _check_writer(self) -> None:
        if self._read_only or self._scratch:
            raise ReadOnly(
                "The store is open for reading.",
                where=self.location,
                hint="Open it for writing to add kernels.",
            )

    def query(
        self,
        sparql: str,
        *,
        default_graph_uris: Sequence[str] = (),
        named_graph_uris: Sequence[str] = (),
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Result:
        """See `Store.query`."""
        asked = Query(sparql, default_graph_uris, named_graph_uris)
        return parse(self.query_serialized(asked, timeout=timeout, limit=limit))

    def query_serialized(
        self, query: Query, *, timeout: float | None = None, limit: int | None = None
    ) -> Serialized:
        """See `Store.query_serialized`."""
        handle = None
        while handle is None:  # gone when another thread published in between
            snapshot = self.snapshot()
            handle = hold(snapshot)
        try:
            return self._pool.run(snapshot, query, timeout=timeout, max_rows=limit)
        finally:
            os.close(handle)

    def ask(self, name: str, **bindings: Binding) -> Result:
        """See `Store.ask`. Runs in this process: our questions are known to be quick."""
        return self.direct(prepare(QUESTIONS, name, bindings, self.named))

    def direct(self, sparql: str) -> Result:
        """Answer one of our own queries in this process; every pattern names its graph."""
        return direct_answer(self.index, sparql)

    def kernels(self) -> tuple[KernelEntry, ...]:
        """See `Store.kernels`."""
        return kernel_entries(self.direct)

    def named(self, name: str) -> tuple[KernelName, ...]:
        """See `Store.named`."""
        return kernel_names(self.direct, name)

    def graph_text(self, graph: str) -> str:
        """See `Store.graph_text`."""
        return sq.graph_text(self.index, graph)

    def program(self, digest: str) -> str:
        """See `Store.program`."""
        return self.folder.program(digest)

    def stats(self) -> Stats:
        """See `Store.stats`."""
        programs, disk = len(self.folder.program_digests()), self.folder.disk_bytes()
        held = self.content_digest(sq.VOCABULARY)
        return read_stats(self.direct, self.location, held, programs, disk)

    def export(self, out: BinaryIO, form: DumpFormat = DumpFormat.NQUADS) -> int:
        """See `Store.export`."""
        return export_all(self.folder, self.index, out, form)

    def load(self, path: Path) -> tuple[Loaded, ...]:
        """See `Store.load`."""
        self._check_writer()
        groups, programs = sq.file_graphs(path)
        own = {graph: sq.own_programs(quads, programs) for graph, quads in groups.items()}
        for graph, quads in groups.items():
            self._admit(graph, quads, own[graph])
        return tuple(Loaded(g, self.add(g, groups[g], own[g])) for g in sorted(groups))

    def check(self) -> tuple[Problem, ...]:
        """See `Store.check`."""
        return check_folder(self.folder, self.index)

    def rebuild(self) -> int:
        """See `Store.rebuild`."""
        self._check_writer()
        beside = self.folder.index.with_name("index.new")
        count = build_index(self.folder, self.index, beside)
        self._index = self._published = None
        shutil.rmtree(self.folder.index)
        beside.rename(self.folder.index)
        self._index = self._open_index()
        return count

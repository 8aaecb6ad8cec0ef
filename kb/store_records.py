"""What a store of kernels is: the interface that the local and the remote store share."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Protocol

from pyoxigraph import Quad

from kb.errors import StoreError
from kb.query_pool import Query
from kb.results import Result, Serialized

Validator = Callable[[Sequence[Quad]], None]
"""Raises DoesNotConform when the graph breaks a shape; called before anything is written."""

Binding = str | int | float


class StoreLocked(StoreError):
    """Another process writes this knowledge base."""


class ReadOnly(StoreError):
    """The store was opened for reading."""


class AddResult(Enum):
    """What an add did: a new graph, the same bytes as before, or new bytes for a known graph."""

    ADDED = "added"
    UNCHANGED = "unchanged"
    REPLACED = "replaced"


class DumpFormat(Enum):
    """Formats of an export; programs travel inside as triples."""

    NQUADS = "nquads"
    TRIG = "trig"


@dataclass(frozen=True, slots=True)
class Loaded:
    """One graph of a loaded file and what adding it did."""

    graph: str
    result: AddResult


@dataclass(frozen=True, slots=True)
class Problem:
    """Something `check` found: where, what, and the next thing to do."""

    where: str
    what: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Sizes of a knowledge base; `disk_bytes` is 0 for a remote one."""

    location: str
    kernels: int
    decisions: int
    findings: int
    quads: int
    graphs: int
    programs: int
    dialects: tuple[tuple[str, int], ...]
    vocabulary: str
    disk_bytes: int = 0


@dataclass(frozen=True, slots=True)
class KernelName:
    """What a kernel can be called by."""

    iri: str
    label: str

    @property
    def id(self) -> str:
        """The IRI without what all kernels share."""
        return self.iri.split("/kernel/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEntry:
    """One row of the listing of kernels."""

    iri: str
    graph: str
    label: str
    dialect: str
    operation: str
    path: str
    start_line: int
    end_line: int
    program: str
    decisions: int
    findings: int

    @property
    def id(self) -> str:
        """The IRI without what all kernels share; unique, usable in a URL path."""
        return self.iri.split("/kernel/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedGraph:
    """One graph that passed every check, as canonical N-Quads, packed; `kb.checked` alone makes it.

    `content` is the digest of the text; `origin` names kernel and source text without the digest of
    what is known, so that two graphs of one origin are two readings of the same kernel.
    """

    name: str
    content: str
    origin: tuple[str, str]
    packed: bytes
    packed_programs: Mapping[str, bytes]

    @property
    def text(self) -> bytes:
        """Canonical N-Quads."""
        return zlib.decompress(self.packed)

    @property
    def programs(self) -> dict[str, str]:
        """Tile programs by digest."""
        found = self.packed_programs.items()
        return {name: zlib.decompress(text).decode() for name, text in found}


class Store(Protocol):
    """A knowledge base. `close` it, or use it as a context manager."""

    @property
    def location(self) -> str:
        """Folder or URL."""
        ...

    @property
    def writable(self) -> bool:
        """Whether free SPARQL updates are taken (scratch and remote stores)."""
        ...

    def add(
        self, graph: str, quads: Sequence[Quad] | str | bytes, programs: Mapping[str, str]
    ) -> AddResult:
        """Validate one graph and write it with its programs (digest to text), whole or not at all.

        `quads` are Quads or N-Quads text. Raises DoesNotConform, ReadOnly, StoreError.
        """
        ...

    def add_checked(self, graphs: Sequence[CheckedGraph]) -> tuple[AddResult, ...]:
        """Write graphs that were checked, none named twice, unchecked; what each add did.

        A failure leaves some of them written, each whole. Raises ReadOnly, StoreError.
        """
        ...

    def remove(self, graph: str) -> bool:
        """Drop one graph and the programs only it used; False when it is not there."""
        ...

    def query(
        self,
        sparql: str,
        *,
        default_graph_uris: Sequence[str] = (),
        named_graph_uris: Sequence[str] = (),
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Result:
        """Answer a person's query in a child process: seconds, and at most `limit` rows.

        More rows than `limit` are refused, never cut.
        """
        ...

    def query_serialized(
        self, query: Query, *, timeout: float | None = None, limit: int | None = None
    ) -> Serialized:
        """The same as bytes in the formats asked for."""
        ...

    def ask(self, name: str, **bindings: Binding) -> Result:
        """Answer a named question of `kb/queries`. UnknownName, InputError."""
        ...

    def update(
        self,
        sparql: str,
        *,
        using: Sequence[str] = (),
        using_named: Sequence[str] = (),
        base: str = "",
    ) -> None:
        """A free update; ReadOnly unless `writable`."""
        ...

    def kernels(self) -> tuple[KernelEntry, ...]:
        """All kernels, by IRI."""
        ...

    def named(self, name: str) -> tuple[KernelName, ...]:
        """The kernels of this IRI, id or label, found without a listing; else all names."""
        ...

    def graph_text(self, graph: str) -> str:
        """One graph as canonical N-Quads; UnknownName when it is not there."""
        ...

    def program(self, digest: str) -> str:
        """The text of a tile program; UnknownName when it is not there."""
        ...

    def stats(self) -> Stats:
        """How much is in it."""
        ...

    def export(self, out: BinaryIO, form: DumpFormat = DumpFormat.NQUADS) -> int:
        """Write all kernel graphs and programs; the number of quads written."""
        ...

    def load(self, path: Path) -> tuple[Loaded, ...]:
        """Add the graphs of an N-Quads, TriG or Turtle file; none when one does not conform."""
        ...

    def check(self) -> tuple[Problem, ...]:
        """Verify digests and that the index holds exactly the files."""
        ...

    def rebuild(self) -> int:
        """Make the index again from the files; the number of graphs in it."""
        ...

    def close(self) -> None:
        """Publish what was written and let go of the lock."""
        ...

    def __enter__(self) -> Store: ...

    def __exit__(self, *exc: object) -> None: ...

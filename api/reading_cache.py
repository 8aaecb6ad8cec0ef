"""Readings that are kept from run to run, so that only what changed is read again.

A reading holds while three things are as they were: the file, all that was looked at beside it
(modules that it imports, headers, tables; also that they were not there), and the code and data
that read it. It is a file of the cache folder: a line of JSON, then the packed graphs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from api.corpora import cache_folder
from api.lookups import Lookups, Present, digest_of
from api.reading import KernelSummary, Reading
from api.sources import SourceFile
from kb.evidence import Diagnostic, Severity
from kb.knowledge import Source
from kb.store_records import CheckedGraph

FORMAT = 1
MAX_KEPT = 20_000
"""Readings that stay when a run ends, the ones used last."""

READ_BY = ("extractors", "kb", "ontology", "shapes")
READ_BY_API = (
    "cuda_source.py", "explain.py", "extract.py", "including.py", "lookups.py", "reading.py",
    "source_files.py",
)  # fmt: skip
DATA = frozenset((".py", ".ttl", ".lark", ".json", ".toml"))


def reader_version() -> str:
    """Digest of all code and data that a reading comes from, and of the Python that runs it."""
    here = Path(__file__).resolve().parent
    files = [here / name for name in READ_BY_API]
    for folder in READ_BY:
        files += sorted(p for p in (here.parent / folder).rglob("*") if p.suffix in DATA)
    parts = [f"{FORMAT} {sys.version_info[:2]}".encode()]
    parts += [path.name.encode() + b"\0" + path.read_bytes() for path in files]
    return digest_of(b"\0\0".join(parts))


@dataclass
class ReadingCache:
    """Readings by file, under the version of the reader that made them."""

    folder: Path
    version: str
    present: Present = field(default_factory=Present)

    @classmethod
    def of_this_version(cls) -> ReadingCache:
        """The cache of this tilelore."""
        return cls(cache_folder() / "readings", reader_version())

    def __getstate__(self) -> dict[str, Any]:
        """Another process looks at files itself."""
        return {"folder": self.folder, "version": self.version, "present": Present()}

    def get(self, file: SourceFile) -> Reading | None:
        """The reading that still holds; None when there is none or it cannot be read."""
        try:
            path = self._path(file, file.path.read_bytes())
            head, _, packed = path.read_bytes().partition(b"\n")
            row = json.loads(head)
            if not self.present.still(file.root, row["lookups"]):
                return None
            os.utime(path)
            return _reading(row, packed)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, file: SourceFile, lookups: Lookups, reading: Reading) -> None:
        """Keep a reading; a full disk only means that the file will be read again."""
        try:
            path = self._path(file, file.path.read_bytes())
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
            beside.write_bytes(_written(lookups.found, reading))
            beside.replace(path)
        except OSError:
            return

    def prune(self) -> None:
        """Drop the readings that were not used for longest when there are too many."""
        kept = sorted(self.folder.glob("??/*.reading"), key=_used)
        for path in kept[: max(len(kept) - MAX_KEPT, 0)]:
            path.unlink(missing_ok=True)

    def _path(self, file: SourceFile, data: bytes) -> Path:
        words = (self.version, file.shown, file.package or "", file.licence or "", digest_of(data))
        name = digest_of("\0".join(words).encode(errors="surrogateescape"))
        return self.folder / name[:2] / f"{name}.reading"


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _written(lookups: Mapping[str, str], reading: Reading) -> bytes:
    packed: list[bytes] = []
    graphs = []
    for graph in reading.graphs:
        packed += [graph.packed, *graph.packed_programs.values()]
        sizes = {name: len(text) for name, text in graph.packed_programs.items()}
        row = {"name": graph.name, "content": graph.content, "origin": graph.origin}
        graphs.append({**row, "size": len(graph.packed), "programs": sizes})
    head = {
        "lookups": dict(lookups),
        "source": asdict(reading.source),
        "kernels": [asdict(row) for row in reading.kernels],
        "diagnostics": [asdict(note) for note in reading.diagnostics],
        "graphs": graphs,
        "refused": reading.refused,
    }
    return json.dumps(head).encode() + b"\n" + b"".join(packed)


def _reading(row: Mapping[str, Any], packed: bytes) -> Reading:
    kernels = [{**kernel, "lines": _pair(kernel["lines"])} for kernel in row["kernels"]]
    return Reading(
        source=Source(**row["source"]),
        kernels=tuple(KernelSummary(**kernel) for kernel in kernels),
        diagnostics=tuple(_diagnostic(note) for note in row["diagnostics"]),
        graphs=tuple(_graphs(row["graphs"], packed)),
        refused=row["refused"],
        again=False,
    )


def _diagnostic(row: Mapping[str, Any]) -> Diagnostic:
    lines = _pair(row["lines"]) if row["lines"] is not None else None
    return Diagnostic(**{**row, "severity": Severity(row["severity"]), "lines": lines})


def _pair(lines: list[int]) -> tuple[int, int]:
    first, last = lines
    return first, last


def _graphs(rows: list[dict[str, Any]], packed: bytes) -> Iterator[CheckedGraph]:
    place = 0
    for row in rows:
        pieces = {}
        sizes = {"": row["size"], **row["programs"]}
        for name, size in sizes.items():
            pieces[name] = packed[place : place + size]
            place += size
        text = pieces.pop("")
        yield CheckedGraph(
            name=row["name"],
            content=row["content"],
            origin=(row["origin"][0], row["origin"][1]),
            packed=text,
            packed_programs=pieces,
        )
    if place != len(packed):
        raise ValueError("the packed graphs are not those that the head names")

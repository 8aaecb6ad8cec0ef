"""CUDA C++ files of a folder: which are read, and where their headers lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from api.including import declarers, ending, includers
from api.lookups import Lookups
from api.sources import SourceFile
from extractors.cuda.beside import beside, handed_out, mentions
from extractors.cuda.launches import host_facts
from extractors.cuda.library import Above, above, included
from extractors.cuda.read import MAX_BYTES, ReadCuda, read_cuda
from extractors.host.facts import HostFacts
from extractors.host.modules import real
from kb.evidence import Diagnostic
from kb.ir import Kernel

SUFFIXES = frozenset({".cu", ".cuh", ".h", ".hpp"})
"""Kinds of file that may hold kernels in CUDA C++."""

MAX_LEVELS = 12

MAX_FILES = 8
"""Files that launch one kernel of a header."""

MAX_LOOKED_AT = 64
"""Files around one header whose texts are looked at."""

MAX_HEADERS_ABOVE = 8
"""Headers around one header whose own includers are looked for."""

_PUBLIC = frozenset({
    "ATen", "boost", "c10", "cooperative_groups", "cub", "cuda", "cudnn_frontend", "cute",
    "cutlass", "cutlass_extensions", "nlohmann", "nv", "thrust", "torch", "tvm", "dlpack", "spdlog",
})  # fmt: skip
"""First folders of what many packages include."""


@dataclass(frozen=True, slots=True)
class CudaFile:
    """Kernels of a file, what host code says of each, and what was not understood."""

    kernels: tuple[Kernel, ...]
    hosts: Mapping[str, HostFacts]
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Headers:
    """Finds included files under one root and never outside it; `lookups` hears of each."""

    root: Path
    lookups: Lookups | None = None

    def load(self, path: str, name: str) -> tuple[str, str] | None:
        """Path below the root and text of a header, None when it is not there or too large."""
        looked, found = _search(self.root, (self.root / path).parent, name)
        if found is None and _may_lie_beside(name):
            rows = ending(real(self.root), name)
            if self.lookups is not None:
                self.lookups.note_ending(name, rows)
            if (only := _only(name, path.rpartition("/")[0], rows)) is not None:
                looked, found = (*looked, only), _text(self.root, self.root / only)
        if self.lookups is not None:
            for one in looked:
                self.lookups.look_below(one)
        return found

    def means(self, path: str, name: str, header: str) -> bool:
        """Whether a file may mean a header by a name: no other one of that name lies closer."""
        found = self.load(path, name)
        return found is None or found[0] == header


def _may_lie_beside(name: str) -> bool:
    """Whether what is included may be a header of the tree: none of the language or of a library
    that everybody brings along, and no place that the name tells."""
    return "." in name and not name.startswith((".", "/")) and name.partition("/")[0] not in _PUBLIC


@lru_cache(maxsize=4096)
def _search(root: Path, start: Path, name: str) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """Where a header was looked for below the root, in order, and what was found; from the folder
    of the file that includes it upwards, then in what the folders beside these bring along for
    others."""
    looked: list[str] = []
    for folder in _folders(root, start, name):
        place = folder / name
        if place.is_relative_to(root):
            looked.append(place.relative_to(root).as_posix())
        found = _text(root, place)
        if found is not None:
            return tuple(looked), found
    return tuple(looked), None


def _folders(root: Path, start: Path, name: str) -> Iterator[Path]:
    for folder in (start, *start.parents)[:MAX_LEVELS]:
        yield from (folder, folder / "include", folder / "includes")
        if folder == root:
            break
    yield from _beside(root, start, name)


@lru_cache(maxsize=1024)
def _beside(root: Path, start: Path, name: str) -> tuple[Path, ...]:
    """The `include` folders that lie beside the folders above a file and hold the first folder of a
    name, the closest of them; none for libraries that everybody brings along."""
    first, apart, _ = name.partition("/")
    if not apart or first in _PUBLIC or not start.is_relative_to(root):
        return ()
    for folder in start.parents:
        if not folder.is_relative_to(root):
            break
        if found := tuple(i for i in _brought_along(folder) if (i / first).is_dir()):
            return found
    return ()


def _only(header: str, start: str, rows: Sequence[str]) -> str | None:
    """Of paths that end in what a file includes, the only one in a folder beside the file's, or
    beside the closest of those above it: where a compiler is told to look."""
    above = {row: row[: -len(header) - 1].rpartition("/")[0] for row in rows if row != header}
    near = {row: up for row, up in above.items() if not up or f"{start}/".startswith(f"{up}/")}
    closest = max(map(len, near.values()), default=0)
    found = [row for row, up in near.items() if len(up) == closest]
    return found[0] if len(found) == 1 else None


@lru_cache(maxsize=256)
def _brought_along(folder: Path) -> tuple[Path, ...]:
    try:
        return tuple(sorted(folder.glob("*/include")))
    except OSError:
        return ()


@lru_cache(maxsize=512)
def _text(root: Path, path: Path) -> tuple[str, str] | None:
    try:
        whole = path.resolve()
        if not whole.is_file() or not whole.is_relative_to(root.resolve()):
            return None
        if whole.stat().st_size > MAX_BYTES:
            return None
        shown = whole.relative_to(root.resolve()).as_posix()
        return shown, whole.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None


def read_file(file: SourceFile, text: str, lookups: Lookups | None = None) -> CudaFile:
    """Every kernel of a CUDA C++ file with what the host code of the file says.

    Raises InputError when it is too large or tree-sitter is not installed.
    """
    inside = file.path.relative_to(file.root).as_posix()
    load = Headers(file.root, lookups).load
    complete = any(load(inside, name) for name in included(text))
    before = None if complete else _above(file.root, inside, lookups)
    found = read_cuda(text, inside, load, shown=file.shown, above=before)
    hosts = dict(host_facts(found))
    alone = [name for name, facts in hosts.items() if not facts.launches]
    if alone:
        hosts |= _launched_elsewhere(file, inside, found, alone, lookups)
    return CudaFile(found.kernels, hosts, found.diagnostics)


def _above(root: Path, header: str, lookups: Lookups | None) -> Above | None:
    """What stands above a header, which includes nothing of its tree, in the first file that
    includes it: that is where what it needs is."""
    headers = Headers(root, lookups)
    rows = includers(real(root), header)
    if lookups is not None:
        lookups.note_includers(header, rows)
    for path, name in rows:
        loaded = _text(root, root / path) if headers.means(path, name, header) else None
        if lookups is not None:
            lookups.look(root / path)
        before = above(loaded[1], name) if loaded is not None else None
        if before is not None:
            return path, before
    return None


def _launched_elsewhere(
    file: SourceFile, inside: str, found: ReadCuda, kernels: list[str], lookups: Lookups | None
) -> dict[str, HostFacts]:
    """Facts of kernels that files which include theirs, or declare them, launch, read beside it:
    those of the same launchers together."""
    own = {k.name: d.name for k, d in zip(found.kernels, found.definitions, strict=True)}
    names = {one: (own[one], *handed_out(own[one], found.library.unit)) for one in kernels}
    asked = list(dict.fromkeys(name for one in kernels for name in names[one]))
    around = _around(file.root, inside, asked, lookups)
    groups: dict[tuple[str, ...], list[str]] = {}
    for kernel in kernels:
        if taken := tuple(
            p for p, text in around.items() if any(mentions(text, x) for x in names[kernel])
        ):
            groups.setdefault(taken[:MAX_FILES], []).append(kernel)
    load = Headers(file.root, lookups).load
    told: dict[str, HostFacts] = {}
    for taken, some in groups.items():
        whole = beside(found, [(path, around[path]) for path in taken], inside, load)
        facts = host_facts(whole, some)
        files = tuple(taken)
        told |= {k: replace(facts[k], files=files) for k in some if facts[k].launches}
    return told


def _around(root: Path, inside: str, names: list[str], lookups: Lookups | None) -> dict[str, str]:
    """Files that include another one, by themselves or through others, or declare its kernels, and
    launch something of what is asked for, with their texts, by their paths."""
    found: dict[str, str] = {}
    headers, seen = [inside], {inside}
    headers_of = Headers(root, lookups)
    for level, header in enumerate(headers):
        rows = includers(real(root), header)
        if lookups is not None:
            lookups.note_includers(header, rows)
        for path, name in rows:
            if path in seen or len(seen) > MAX_LOOKED_AT:
                continue
            if not headers_of.means(path, name, header):
                continue
            seen.add(path)
            loaded = _text(root, root / path)
            if lookups is not None:
                lookups.look(root / path)
            if loaded is None:
                continue
            if any(mentions(loaded[1], name) for name in names):
                found[path] = loaded[1]
            if not path.endswith(".cu") and level < MAX_HEADERS_ABOVE:
                headers.append(path)
    declaring = declarers(real(root), inside, names)
    if lookups is not None:
        lookups.note_declarers(inside, names, declaring)
    for path in declaring:
        loaded = _text(root, root / path)
        if lookups is not None:
            lookups.look(root / path)
        if loaded is not None and path not in found:
            found[path] = loaded[1]
    return dict(sorted(found.items()))

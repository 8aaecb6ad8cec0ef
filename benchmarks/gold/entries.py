"""Gold files and the extracted kernels that their entries speak of."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from api.corpora import fetch, pinned
from api.extract import extract_or_explain
from api.sources import SourceFile
from kb.evidence import Lines
from kb.knowledge import KernelKnowledge, SourceKnowledge

Entry = dict[str, Any]
"""One kernel of a gold file: package, version, file, kernel, decisions, tuning, constraints,
defects."""


def load(gold: Path) -> list[Entry]:
    """Every kernel of a gold file."""
    entries: list[Entry] = yaml.safe_load(gold.read_text(encoding="utf-8"))
    return entries


def ranges(text: object) -> list[Lines]:
    """Line ranges of the gold: `67, 114-118`, or a pair; none when it gives no lines."""
    if text is None:
        return []
    if isinstance(text, list):
        return [(int(text[0]), int(text[1]))]
    found: list[Lines] = []
    for part in str(text).split(","):
        first, _, last = part.strip().partition("-")
        found.append((int(first), int(last or first)))
    return found


def overlap(left: Sequence[Lines], right: Sequence[Lines]) -> bool:
    """True when two lists of ranges share a line."""
    return any(a[0] <= b[1] and b[0] <= a[1] for a in left for b in right)


class Reader:
    """Extracted files of a corpus, each read once; `seconds` per file.

    A package is looked for in `corpus`, then among the pinned wheels; a pinned one is there in the
    pinned version alone.
    """

    def __init__(self, corpus: Path | None) -> None:
        self.corpus = corpus
        self.seconds: dict[str, float] = {}
        self._read: dict[Path, SourceKnowledge] = {}

    def kernel(self, entry: Entry) -> KernelKnowledge | None:
        """The kernel that a gold entry speaks of; None when the package is not there in the
        version of the entry, or the file holds no such kernel that is read. Of overloads, the one
        whose lines the entry gives."""
        root = self._root(str(entry["package"]), str(entry.get("version")))
        path = root / str(entry["file"]) if root is not None else None
        if root is None or path is None or not path.is_file():
            return None
        if path not in self._read:
            began = time.perf_counter()
            shown = str(entry["file"])
            self._read[path] = extract_or_explain(SourceFile(path=path, root=root, shown=shown))
            self.seconds[shown] = round(time.perf_counter() - began, 3)
        name = re.compile(rf"{re.escape(str(entry['kernel']))}(_\d+)?")
        same = [k for k in self._read[path].kernels if name.fullmatch(k.kernel.name)]
        exact = [k for k in same if k.kernel.name == entry["kernel"]]
        if exact and len(same) > 1 and entry.get("lines"):
            given = ranges(entry["lines"])
            exact = [k for k in same if overlap([k.lines], given)] or exact
        return next(iter(exact), None)

    def _root(self, package: str, version: str) -> Path | None:
        requirement = f"{package.replace('_', '-')}=={version}"
        known = pinned().get(package.replace("_", "-"))
        if known not in (None, requirement):
            return None
        if self.corpus is not None and (self.corpus / package).is_dir():
            return self.corpus / package
        return _wheel(requirement) if known else None


@cache
def _wheel(requirement: str) -> Path:
    return fetch(requirement).folder

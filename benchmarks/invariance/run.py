"""Real kernels in other spellings: every decision must stay.

    .venv/bin/python -m benchmarks.invariance.run [--files 900] [--jobs 2]

Files with kernels are drawn from the default set with a seed: Python, and CUDA C++ (`--cuda`).
Python is read as it is and after every change of `spellings` and of `rewriting` (new names, another
order of independent statements, the body in a helper), by itself, without the host code of its
package; CUDA C++ after every change of `cuda_spellings`, `cuda_forms`, `cuda_words`, `cuda_hosts`
and `cuda_params`, with its headers and its host code. Compared are axis, value and pattern of all
decisions, and the operation; whether a helper holds the body is what the changes with helpers
change. Writes results.json and table.md beside this file.
"""

from __future__ import annotations

import argparse
import ast
import json
import platform
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from api.corpora import DEFAULT_SET, default_set
from api.cuda_source import read_file
from api.lookups import Lookups
from api.pool import Work, each
from api.sources import SourceFile, source_files
from benchmarks.invariance import cuda_hosts, cuda_params, cuda_spellings, rewriting
from benchmarks.invariance.cuda_forms import FORMS
from benchmarks.invariance.cuda_words import WORDS
from benchmarks.invariance.spellings import CHANGES
from extractors.detect import detect
from extractors.host.facts import HostFacts
from extractors.modules import ModuleText
from extractors.read import read
from extractors.told_together import told_together

HERE = Path(__file__).parent
SEED = 20261127
MAX_BYTES = 120_000
"""Larger files are left out; each is read about ten times."""

SECONDS = 300.0
STRUCTURE = "code_structure"

EVERY: dict[str, Callable[[str], str]] = {
    "renamed": rewriting.rename,
    "reordered": rewriting.reorder,
    "body in a helper": rewriting.outline,
    **CHANGES,
}
_WORD = re.compile(r"[A-Za-z_]\w*")
LANGUAGES = {
    "Triton and cuTile": EVERY,
    "CUDA C++": {
        **cuda_spellings.CHANGES,
        **FORMS,
        **WORDS,
        **cuda_hosts.CHANGES,
        **cuda_params.CHANGES,
    },
}

Told = Counter[tuple[str, str, str]]
"""Axis, value and pattern of decisions, with how often each is there."""

Seen = tuple[str, Told, str | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """Decisions of one kernel that a change took away or brought; `kernel` is empty and `lost`
    says why when the changed file could not be compared."""

    path: str
    change: str
    kernel: str
    lost: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Kernels that were compared after each change, and what differed."""

    language: str
    compared: tuple[tuple[str, int], ...]
    differences: tuple[Difference, ...]


def seen(text: str, file: SourceFile) -> list[Seen]:
    """Name, decisions and operation of every kernel, in the order in which the kernels stand."""
    found = []
    hosts: Mapping[str, HostFacts] = {}
    if language(file) == "CUDA C++":
        cuda = read_file(file, text, Lookups(file.root))
        kernels, hosts = cuda.kernels, cuda.hosts
    else:
        kernels = read(ModuleText("", "kernel.py", text)).kernels
    for kernel in kernels:
        host = hosts.get(kernel.name, HostFacts())
        detection = detect(kernel, host)
        told = Counter(
            (d.axis, d.value, d.pattern)
            for d in told_together(detection, host)
            if d.axis != STRUCTURE
        )
        found.append((kernel.name, told, detection.operation))
    return found


def language(file: SourceFile) -> str:
    """The language of a file, as the tables call it."""
    return "Triton and cuTile" if file.path.suffix == ".py" else "CUDA C++"


def outcome(file: SourceFile) -> Outcome:
    """Read a file as it is and after each change that changes it."""
    text = file.path.read_text(encoding="utf-8", errors="replace")
    if file.path.suffix == ".py":
        text = ast.unparse(ast.parse(text))
    else:
        text = text.encode("ascii", "replace").decode()
    before = seen(text, file)
    compared, differences = [], []
    for name, change in LANGUAGES[language(file)].items():
        changed = change(text)
        if changed == text:
            continue
        after = seen(changed, file)
        if len(after) != len(before):
            why = f"{len(before)} kernels before, {len(after)} after"
            differences.append(Difference(file.shown, name, "", (why,)))
            continue
        compared.append((name, len(before)))
        for (kernel, told, what), (_, again, then) in zip(before, after, strict=True):
            apart = _differ(told, again, text, changed)
            lost = [*_rows(apart[0]), *([f"operation: {what}"] if what != then else [])]
            new = [*_rows(apart[1]), *([f"operation: {then}"] if what != then else [])]
            if lost or new:
                row = Difference(file.shown, name, kernel, tuple(lost), tuple(new))
                differences.append(row)
    return Outcome(language(file), tuple(compared), tuple(differences))


def _differ(told: Told, again: Told, text: str, other: str) -> tuple[Told, Told]:
    """What only one reading tells; values that are called by a name of the kernel's change with
    it."""
    lost, new = told - again, again - told
    words = {*_WORD.findall(text)}, {*_WORD.findall(other)}
    own = words[0] - words[1], words[1] - words[0]
    for row in [*lost.elements()]:
        alike = (one for one in new if one[::2] == row[::2] and _renamed(row[1], one[1], own))
        if (found := next(alike, None)) is not None:
            lost, new = lost - Counter([row]), new - Counter([found])
    return lost, new


def _renamed(value: str, other: str, own: tuple[set[str], set[str]]) -> bool:
    """Whether two values differ in names alone that one of two texts has."""
    if _WORD.sub("_", value) != _WORD.sub("_", other):
        return False
    pairs = zip(_WORD.findall(value), _WORD.findall(other), strict=True)
    return all(a == b or (a in own[0] and b in own[1]) for a, b in pairs)


def _rows(decisions: Told) -> list[str]:
    return [f"{axis}: {value} <{pattern}>" for axis, value, pattern in sorted(decisions.elements())]


def failed(file: SourceFile, why: str) -> Outcome:
    """A file whose reading ended its process or took too long."""
    return Outcome(language(file), (), (Difference(file.shown, "", "", (why,)),))


def report(found: Sequence[Outcome], seed: int) -> dict[str, Any]:
    """The results as data, by language."""
    languages = {}
    for name, changes in LANGUAGES.items():
        kernels: Counter[str] = Counter()
        mine = [one for one in found if one.language == name]
        for one in mine:
            kernels.update(dict(one.compared))
        rows = [row for one in mine for row in one.differences]
        differ = Counter(row.change for row in rows)
        languages[name] = {
            "files": len(mine),
            "changes": {c: {"kernels": kernels[c], "differ": differ[c]} for c in changes},
            "differences": sorted((asdict(row) for row in rows), key=str),
        }
    return {
        "machine": {"platform": platform.platform(), "python": platform.python_version()},
        "seed": seed,
        "corpora": sorted(default_set()),
        "languages": languages,
    }


def table(results: dict[str, Any]) -> str:
    """The results for people."""
    rows = ["| language | change | kernels | with another decision |", "|---|---|---:|---:|"]
    totals = []
    for name, told in results["languages"].items():
        for change, row in told["changes"].items():
            rows.append(f"| {name} | {change} | {row['kernels']} | {row['differ']} |")
        every = sum(row["kernels"] for row in told["changes"].values())
        differ = len(told["differences"])
        totals.append(f"{name}: {told['files']} files, {differ} of {every} changed kernels differ.")
    total = f"{len(results['corpora'])} corpora, seed {results['seed']}. {' '.join(totals)}"
    return "\n".join([*rows, "", total, ""])


def _drawn(files: Sequence[SourceFile], number: int, seed: int) -> list[SourceFile]:
    files = [f for f in files if f.path.stat().st_size <= MAX_BYTES]
    return Random(seed).sample(files, min(number, len(files)))


def main() -> None:
    """Draw, change, compare and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=900)
    parser.add_argument("--cuda", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    every = list(source_files([DEFAULT_SET]))
    drawn = _drawn([f for f in every if f.path.suffix == ".py"], options.files, options.seed)
    others = [f for f in every if f.path.suffix != ".py"]
    others = [f for f in others if b"__global__" in f.path.read_bytes()]
    drawn += _drawn(others, options.cuda, options.seed)
    work = Work(outcome, failed, SECONDS)
    found = dict(each(work, drawn, jobs=options.jobs))
    results = report([found[place] for place in sorted(found)], options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "table.md").write_text(table(results))
    print(table(results))


if __name__ == "__main__":
    main()

"""`tilelore verify --roundtrip`: kernels written anew from their programs, binaries compared."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from api import console
from api.corpora import cache_folder
from api.roundtrip import (
    FIRST_TARGET,
    REPORTED,
    TARGETS,
    KernelCheck,
    Progress,
    Request,
    report,
    roundtrip,
    targets_asked,
    unread,
)
from api.source_files import SourceTree, source_tree
from kb.errors import InputError, UnknownName

Again = Annotated[
    bool,
    typer.Option(
        "--roundtrip",
        help="Write every kernel of files, folders, wheels anew and compare binaries.",
    ),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Processes; else one per core.")
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", metavar=FIRST_TARGET, help="Only this GPU; repeatable."),
]


@dataclass(frozen=True, slots=True)
class Options:
    """How a round trip runs; no targets means all whose machine code is deterministic."""

    jobs: int
    targets: tuple[str, ...] = ()


def options(jobs: int | None, targets: Sequence[str] | None) -> Options:
    """Options as given on the command line. UnknownName for a GPU that no dialect is built for."""
    known = sorted({t for rows in (TARGETS, REPORTED) for row in rows.values() for t in row})
    for target in targets or ():
        if target not in known:
            hint = f"Known are {', '.join(known)}."
            raise UnknownName(f"there is no round trip on `{target}`.", where="--target", hint=hint)
    return Options(jobs or os.cpu_count() or 1, tuple(targets or ()))


def verify_again(sources: Sequence[str], chosen: Options, *, as_json: bool) -> int:
    """Check every source and print the verdicts.

    0 when every kernel that its compiler accepts is identical, 1 when one differs or none could be
    compared. Raises InputError for a source that is not there, cannot be read or has no kernel.
    """
    trees = [source_tree(source) for source in sources]
    checks: list[KernelCheck] = []
    for source, tree in zip(sources, trees, strict=True):
        found = roundtrip(_request(tree, chosen), _progress(tree.name))
        lost = list(unread(found))
        if len(lost) == len(found):
            raise _nothing(source, lost)
        checks += found
    if as_json:
        console.say_json(report(checks))
    else:
        _print(checks)
    verdicts = [check.identical for check in checks]
    return 0 if True in verdicts and False not in verdicts else 1


def _request(tree: SourceTree, chosen: Options) -> Request:
    """Every dialect with the targets that were asked for and that it is built for."""
    cache = cache_folder() / "roundtrip"
    targets = targets_asked(chosen.targets)
    return Request(tree=tree, cache=cache, jobs=chosen.jobs, targets=targets)


def _progress(name: str) -> Progress:
    """One line on standard error after each kernel."""

    def show(done: int, files: int, check: KernelCheck) -> None:
        where = f"{check.path}:{check.line} {check.name}".rstrip()
        console.note(f"{name} {done}/{files} files, {where}: {verdict(check)}")

    return show


def verdict(check: KernelCheck) -> str:
    """One or two words for people."""
    return {True: "identical", False: "differs", None: "not counted"}[check.identical]


def _nothing(source: str, lost: Sequence[KernelCheck]) -> InputError:
    if lost:
        return InputError(f"it cannot be read: {lost[0].reason}", where=source)
    hint = "Give a file, a folder or a pinned wheel with cuTile or Triton kernels."
    return InputError("there is no kernel in it.", where=source, hint=hint)


def _print(checks: Sequence[KernelCheck]) -> None:
    """One row per kernel, then the counts."""
    rows = [
        (f"{check.path}:{check.line}", check.name, check.dialect, _targets(check), verdict(check),
         check.reason)
        for check in checks
    ]  # fmt: skip
    columns = ("where", "kernel", "dialect", "same machine code", "verdict", "reason")
    console.table("Round trip", columns, rows)
    verdicts = [check.identical for check in checks if check.name]
    console.say(
        f"{len(verdicts)} kernels: {verdicts.count(True)} identical, {verdicts.count(False)} "
        f"differ, {verdicts.count(None)} not counted"
    )


def _targets(check: KernelCheck) -> str:
    words = {True: "yes", False: "no", None: "-"}
    return " ".join(f"{target} {words[same]}" for target, same in check.targets.items())

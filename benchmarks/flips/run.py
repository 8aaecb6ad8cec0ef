"""Every rewrite on every kernel of the round-trip sample: there, read again, and back.

    .venv/bin/python -m benchmarks.flips.run

For each design axis with a rewrite and each value that the kernel does not have: apply, verify,
write, read again, detect,
flip back, and run both on small derived launches (benchmarks/flips/numerics.py). A way back to the
same text is a way back to the same machine code; where the texts differ, both are compiled for
sm_90. Writes results.json and table.md beside this file.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from api.corpora import cache_folder, fetch
from api.ratchet import Sampled, load
from api.source_files import FolderModules, module_text
from benchmarks.flips.numerics import SEED, Numerics, compare
from extractors.detect import decisions_of
from extractors.modules import ModuleText
from extractors.read import read
from generators.compile_model import CompileJob
from generators.compile_pool import CompilerPool, PoolSettings
from generators.emit import emit_program
from generators.interpret.client import Interpreter
from generators.rewrites.equality import renamed, same_program
from generators.rewrites.registry import apply, axes, rewrites
from kb.analysis.facts import Facts
from kb.errors import CannotEmit, TileloreError
from kb.ir import Kernel, alpha_digest
from kb.ir_verify import verify

HERE = Path(__file__).parent
SAMPLE = HERE.parent.parent / "tests" / "roundtrip" / "sample.json"
LAUNCHES = json.loads((HERE / "launches.json").read_text())
"""Parameters that a launch cannot guess: sizes that let loops run, flags that reach the flip."""

TARGET = "sm_90"
COLUMNS = ("axis", "flips", "detected", "others unchanged", "back to the program",
           "back to the machine code", "computes the same", "all of it run", "refused")  # fmt: skip

Choices = frozenset[tuple[str, str, str | None]]


@dataclass(frozen=True, slots=True)
class Flip:
    """What became of one rewrite of one kernel."""

    kernel: str
    axis: str
    value: str
    refused: str = ""
    detected: bool = False
    unchanged: bool = False
    same_program: bool = False
    same_code: bool | None = None
    numerics: Numerics | None = None


@dataclass(frozen=True, slots=True)
class Workers:
    """The compiler and the interpreter that a run shares."""

    pool: CompilerPool
    interpreter: Interpreter


def choices(kernel: Kernel) -> Choices:
    """Decisions without their lines."""
    return frozenset((d.axis, d.value, d.subject) for d in decisions_of(Facts(kernel)))


def reread(kernel: Kernel) -> Kernel:
    """The kernel after it was written and read."""
    text = emit_program(kernel, kernel.dialect)
    found = read(ModuleText("", "flip.py", text)).kernels
    return next(one for one in found if one.name == kernel.name)


def flips(kernel: Kernel, sampled: Sampled, workers: Workers) -> Iterator[Flip]:
    """Every flip of one kernel that is not what it has already."""
    before = choices(kernel)
    for axis, values in axes().items():
        has = {value for name, value, _ in before if name == axis} & set(values)
        for value in values:
            if has and value not in has and len(has) == 1:
                yield flip(kernel, sampled, (axis, next(iter(has)), value), workers)


def flip(kernel: Kernel, sampled: Sampled, change: tuple[str, str, str], workers: Workers) -> Flip:
    """Apply, read again, flip back."""
    axis, has, value = change
    try:
        after = apply(kernel, axis, value)
        back = apply(after, axis, has)
        seen = choices(reread(after))
    except CannotEmit as problem:
        return Flip(sampled.id, axis, value, refused=problem.message)
    along = {axis, *rewrites()[axis].follows}
    if len(after.helpers) < len(kernel.helpers):
        along.add(
            "code_structure"
        )  # what belongs together was spread over helpers (change_functions)
    back = renamed(back, kernel)
    exact = alpha_digest(back) == alpha_digest(kernel)
    return Flip(
        sampled.id, axis, value,
        detected=not verify(after) and (axis, value) in {(a, v) for a, v, _ in seen},
        unchanged={c for c in choices(kernel) ^ seen if c[0] not in along} == set(),
        same_program=exact or same_program(back, kernel),
        same_code=True if exact else same_code(back, kernel, sampled, workers.pool),
        numerics=compare(kernel, after, axis, workers.interpreter,
                         LAUNCHES.get(f"{sampled.path}:{sampled.kernel}", {})),
    )  # fmt: skip


def same_code(one: Kernel, other: Kernel, sampled: Sampled, pool: CompilerPool) -> bool | None:
    """Whether two programs compile to the same machine code; None when one does not compile."""
    if sampled.signature is None:
        return None
    made = []
    for kernel in (one, other):
        text = emit_program(kernel, kernel.dialect)
        job = CompileJob(dialect=kernel.dialect, text=text, kernel=kernel.name,
                         signature=sampled.signature, target=TARGET)  # fmt: skip
        made.append(pool.compile(job).machine)
    first, second = made
    return None if first is None or second is None else first.digest == second.digest


def kernels() -> Iterator[tuple[Kernel, Sampled]]:
    """The kernels of the sample."""
    for sampled in load(SAMPLE).kernels:
        folder = fetch(sampled.package).folder
        text = module_text(folder, folder / sampled.path)
        if text is None:
            continue
        for kernel in read(text, FolderModules(folder)).kernels:
            if kernel.name == sampled.kernel:
                yield kernel, sampled


def table(found: list[Flip]) -> str:
    """One line per axis."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    for axis in axes():
        mine = [one for one in found if one.axis == axis]
        made = [one for one in mine if not one.refused]
        counts = (len(made), sum(o.detected for o in made), sum(o.unchanged for o in made),
                  sum(o.same_program for o in made), sum(o.same_code is True for o in made),
                  sum(o.numerics is not None and o.numerics.same is True for o in made),
                  sum(o.numerics is not None and o.numerics.same is True
                      and o.numerics.reached == o.numerics.altered for o in made),
                  len(mine) - len(made))  # fmt: skip
        lines.append(f"| {axis} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def main() -> None:
    """Run all and write the files."""
    found: list[Flip] = []
    settings = PoolSettings(cache=cache_folder() / "roundtrip")
    with CompilerPool(settings) as pool, Interpreter() as interpreter:
        for kernel, sampled in kernels():
            try:
                found += flips(kernel, sampled, Workers(pool, interpreter))
            except TileloreError as problem:
                print(f"{sampled.id}: {problem.text}")
    rows: list[dict[str, Any]] = [asdict(one) for one in found]
    report = {"machine": platform.platform(), "python": platform.python_version(),
              "target": TARGET, "seed": SEED, "flips": rows}  # fmt: skip
    (HERE / "results.json").write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
    reasons = Counter(one.refused for one in found if one.refused)
    open_ = Counter(one.numerics.reason for one in found if one.numerics and one.numerics.reason)
    unseen = "".join(f"- {count} × {reason}\n" for reason, count in open_.items())
    unseen = f"\nNot computed because:\n\n{unseen}" if unseen else ""
    notes = "\n".join(f"- {count} × {reason}" for reason, count in reasons.most_common(12))
    (HERE / "table.md").write_text(f"{table(found)}\n\nRefused because:\n\n{notes}\n{unseen}")
    print(table(found))


if __name__ == "__main__":
    main()

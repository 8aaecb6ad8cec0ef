"""The results as Markdown: the overview, then decisions by package and the other kinds by file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.gold.overview import Counts, first_reading, overview, share

Result = tuple[str, str, dict[str, Any]]
"""Gold file, package or `all`, and the summary."""

MATCHES = (
    "A decision is found when one of the same axis has a common line; precision is over our "
    "decisions on axes that the gold of the kernel covers. `undisputed` leaves out what "
    "disputed.json lists with its reason. Of a tuning space every fact that the gold states as "
    "data is compared, and every point. Constraints and findings of the gold are prose: a common "
    "line or parameter decides, and precision is a lower bound, for the gold lists a selection."
)


def held_out(folder: Path) -> list[str]:
    """What a gold said at first reading, before anything was corrected on it."""
    lines = [
        "",
        "| held out: first reading of | kernels' decisions | recall | inside kernels | precision |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in sorted(path.stem for path in (folder / "first_readings").glob("*.json")):
        part = first_reading(folder, name)
        shares = [share(part[key]) for key in ("recall", "recall_in_kernel", "precision")]
        lines.append(f"| {name} | {part['gold']} | " + " | ".join(shares) + " |")
    return lines


def table(
    results: list[Result],
    groups: Mapping[str, Counts],
    missing: list[tuple[str, str]],
    machine: dict[str, str],
    folder: Path,
) -> str:
    """The overview, how to read it, and three tables; `folder` holds the first readings."""
    lines = [*overview(groups, folder), "", MATCHES]
    if missing:
        packages = ", ".join(sorted({package for package, _ in missing}))
        lines.append(
            f"Not judged: {len(missing)} kernels that are not in a corpus or not read ({packages})."
        )
    lines += [
        "Measured with " + ", ".join(f"{k} {v}" for k, v in machine.items()) + ".",
        "",
        "## Kernels by package",
        "",
        "| gold | package | kernels' decisions | recall | undisputed | inside kernels | precision "
        "| undisputed |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    keys = ("recall", "recall_undisputed", "recall_in_kernel", "precision", "precision_undisputed")
    for gold, package, total in results:
        part = total["decisions"]
        shares = " | ".join(share(part[key]) for key in keys)
        lines.append(f"| {gold} | {package} | {part['gold']} | {shares} |")
    lines += [
        "",
        "| gold | space facts | agree | points | recall | precision | constraints | recall "
        "| precision ≥ | defects | recall | precision ≥ |",
        "|---|" + "---:|" * 11,
    ]
    for gold, total in _whole(results).items():
        space = total["spaces"]
        cells = [str(space["facts"]), share(space["agreement"]), str(space["points"])]
        cells += [share(space["points_recall"]), share(space["points_precision"])]
        for kind in ("constraints", "findings"):
            part = total[kind]
            cells += [str(part["gold"]), share(part["recall"])]
            cells.append(share(part["precision_lower_bound"]))
        lines.append(f"| {gold} | " + " | ".join(cells) + " |")
    lines += held_out(folder)
    return "\n".join(lines) + "\n"


def _whole(results: list[Result]) -> dict[str, dict[str, Any]]:
    """The summary of each gold file; `all` comes last and stands for the file."""
    return {gold: total for gold, _, total in results}

"""The results as Markdown: decisions by package, then the other kinds by gold file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    for path in sorted(folder.glob("*_held_out.json")):
        part = json.loads(path.read_text(encoding="utf-8"))["decisions"]
        shares = [_share(part[key]) for key in ("recall", "recall_in_kernel", "precision")]
        name = path.stem.removesuffix("_held_out")
        lines.append(f"| {name} | {part['gold']} | " + " | ".join(shares) + " |")
    return lines


def table(
    results: list[Result],
    missing: list[tuple[str, str]],
    machine: dict[str, str],
    folder: Path,
) -> str:
    """Three tables and how to read them; `folder` holds the first readings."""
    lines = [
        "| gold | package | kernels' decisions | recall | undisputed | inside kernels | precision "
        "| undisputed |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    keys = ("recall", "recall_undisputed", "recall_in_kernel", "precision", "precision_undisputed")
    for gold, package, total in results:
        part = total["decisions"]
        shares = " | ".join(_share(part[key]) for key in keys)
        lines.append(f"| {gold} | {package} | {part['gold']} | {shares} |")
    lines += [
        "",
        "| gold | space facts | agree | points | recall | precision | constraints | recall "
        "| precision ≥ | defects | recall | precision ≥ |",
        "|---|" + "---:|" * 11,
    ]
    for gold, total in _whole(results).items():
        space = total["spaces"]
        cells = [str(space["facts"]), _share(space["agreement"]), str(space["points"])]
        cells += [_share(space["points_recall"]), _share(space["points_precision"])]
        for kind in ("constraints", "findings"):
            part = total[kind]
            cells += [str(part["gold"]), _share(part["recall"])]
            cells.append(_share(part["precision_lower_bound"]))
        lines.append(f"| {gold} | " + " | ".join(cells) + " |")
    lines += held_out(folder)
    lines += ["", MATCHES]
    if missing:
        packages = ", ".join(sorted({package for package, _ in missing}))
        lines.append(
            f"Not judged: {len(missing)} kernels that are not in a corpus or not read ({packages})."
        )
    lines.append("Measured with " + ", ".join(f"{k} {v}" for k, v in machine.items()) + ".")
    return "\n".join(lines) + "\n"


def _whole(results: list[Result]) -> dict[str, dict[str, Any]]:
    """The summary of each gold file; `all` comes last and stands for the file."""
    return {gold: total for gold, _, total in results}


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

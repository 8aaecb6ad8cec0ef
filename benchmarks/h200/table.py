"""results.json, flips.json, generated.json and descriptors.json as Markdown (table.md).

.venv/bin/python -m benchmarks.h200.table
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def main() -> None:
    """Write table.md."""
    lines = [*regenerated(), "", flipped(), "", *generated(), "", *roads()]
    (FOLDER / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def generated() -> list[str]:
    """Generated Triton modules: numerics, and times beside PyTorch's."""
    report = json.loads((FOLDER / "generated.json").read_text())
    versions = report["versions"]
    checked = report["numerics"]
    held = sum(1 for row in checked if row.get("holds"))
    attention = report["attention"]
    modules = sorted({row["module"] for row in checked})
    lines = [
        f"Generated Triton (triton {versions['triton']}, torch {versions['torch']}): {held} of "
        f"{len(checked)} FMHA cases hold in fp16 and bf16 ({len(modules)} modules: tile sizes and "
        "design flips; causal and not, GQA, tails, head dims 64 and 128). Causal FMHA, bf16, "
        "2 x 32 heads of 128, 4096 rows, TFLOP/s (the flips at 128 x 64 with 4 warps): "
        + ", ".join(f"{name} {value:.0f}" for name, value in attention["tflops"].items())
        + ".",
        "",
        "| LayerNorm, bf16 | generated GB/s | torch | torch.compile | copy | holds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in report["layernorm"]:
        rate = row["gigabytes_per_s"]
        lines.append(
            f"| {row['rows']} x {row['columns']} | {rate['layernorm']:.0f} | {rate['torch']:.0f} "
            f"| {rate['torch.compile']:.0f} | {rate['copy']:.0f} "
            f"| {'yes' if row['holds'] else 'NO'} |"
        )
    return lines


def flipped() -> str:
    """cuTile kernels with one decision changed, beside the kernel as it was."""
    report = json.loads((FOLDER / "flips.json").read_text())
    rows = report["flips"]
    close = [row for row in rows if row.get("allclose") and row.get("allclose_to_torch")]
    equal = [row for row in rows if row.get("bit_equal")]
    slowest = max(rows, key=_ratio)
    fastest = min(rows, key=_ratio)
    return (
        f"Flipped cuTile kernels: {len(close)} of {len(rows)} flips of "
        f"{len({row['kernel'] for row in rows})} kernels compute what the kernel and PyTorch "
        f"compute, {len(equal)} of them to the bit. Time of the flipped kernel over the original: "
        f"from {_told(fastest)} to {_told(slowest)}."
    )


def _ratio(row: dict[str, Any]) -> float:
    return float(row["times"]["ratio"]) if row.get("times") else 1.0


def _told(row: dict[str, Any]) -> str:
    return f"{_ratio(row):.2f} (`{row['kernel']}`, {row['axis']} = {row['value']})"


def roads() -> list[str]:
    """FMHA by pointers and by tensor descriptors: the fastest design point of each road."""
    report = json.loads((FOLDER / "descriptors.json").read_text())
    names = {"pointers": "pointers", "host": "descriptors of the host", "device": "of the kernel"}
    ragged = report["ragged"]
    held = sum(1 for row in ragged if row["holds"])
    lines = [
        f"| FMHA, {report['dtype']}, TFLOP/s | torch SDPA | " + " | ".join(names.values()) + " |",
        "| --- " * (len(names) + 2) + "|",
    ]
    for row in report["problems"]:
        problem, best = row["problem"], row["best"]
        causal = "causal" if problem["causal"] else "full"
        speeds = (best[name]["tflops"] for name in ("torch SDPA", *names))
        lines.append(
            f"| {problem['batch']} x {problem['heads']} heads of {problem['dim']}, "
            f"{problem['rows']} rows, {causal} | " + " | ".join(f"{s:.0f}" for s in speeds) + " |"
        )
    return [*lines, "", f"Ragged lengths on every road: {held} of {len(ragged)} cases hold."]


def regenerated() -> list[str]:
    """Original and regenerated cuTile kernels."""
    report = json.loads((FOLDER / "results.json").read_text())
    machine, versions = report["machine"], report["versions"]
    lines = [
        f"{machine['gpu']} ({machine['sms']} SMs), torch {versions['torch']}, "
        f"cuda-tile {versions['cuda_tile']}, {report['samples']} interleaved pairs per direction, "
        f"seed {report['seed']}. Ratio: regenerated over original.",
        "",
        "| kernel | bits equal | close to PyTorch | original µs | regenerated µs | ratio |"
        " ratio, other order first | noise: original over itself, quartiles |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in report["kernels"]:
        if "failed" in row:
            lines.append(f"| `{row['kernel']}` | failed: {row['failed']} |  |  |  |  |  |  |")
            continue
        one, two = row["original_then_regenerated"], row["regenerated_then_original"]
        noise = row["noise_original_with_itself"]
        lines.append(
            f"| `{row['kernel']}` | {'yes' if row['bit_equal'] else 'NO'} "
            f"| {'yes' if row['allclose'] else 'NO'} (tolerance {row['tolerance']:g}) "
            f"| {one['first_us']:.1f} | {one['second_us']:.1f} | {one['ratio']:.3f} "
            f"| {1 / two['ratio']:.3f} | {noise['ratio_p25']:.3f} to {noise['ratio_p75']:.3f} |"
        )
    return lines


if __name__ == "__main__":
    main()

"""results.json as a table in Markdown (table.md).

.venv/bin/python -m benchmarks.h200.table
"""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parent


def main() -> None:
    """Write table.md."""
    report = json.loads((FOLDER / "results.json").read_text())
    machine, versions = report["machine"], report["versions"]
    lines = [
        f"{machine['gpu']} ({machine['sms']} SMs), torch {versions['torch']}, cuda-tile "
        f"{versions['cuda_tile']}, {report['samples']} interleaved pairs per direction, seed "
        f"{report['seed']}. Ratio: regenerated over original.",
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
    (FOLDER / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

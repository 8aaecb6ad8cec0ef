"""Flipped cuTile kernels against the originals on one GPU: the same inputs, outputs compared.

    python3 benchmarks/h200/flips.py JOB_FOLDER RESULT.json [--samples 20]

Needs torch and cuda-tile; imports nothing of tilelore. JOB_FOLDER is what
`python -m benchmarks.h200.prepare_flips` wrote; the cases are those of measure.py beside this file.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from pathlib import Path
from typing import Any

import cuda.tile as ct
import torch

sys.path.insert(0, str(Path(__file__).parent))

import measure

SAMPLES = 20
CLOSE = {torch.float16: 4e-3, torch.bfloat16: 3.2e-2, torch.float32: 2e-3}
"""Largest error, absolute and relative, between a flip and its original: four units in the last
place of a number near one for 16-bit outputs; 32-bit outputs are sums of 16-bit products."""

REBASED = "math_approximation"
"""The axis that changes the base of a stored log-sum-exp along."""


def flipped_arguments(case: measure.Case, row: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a case in the order of the flipped kernel; a statistic that the flip adds
    gets an array of one number per row."""
    known = dict(zip(row["parameters"], case.args, strict=True))
    queries = case.args[0]
    added: dict[str, Any] = {}
    for name in row["flipped_parameters"]:
        if name not in known:
            rows = queries.shape[-2]
            numbers = queries.numel() // queries.shape[-1]
            fresh = torch.zeros(numbers, device="cuda") if not added else rows
            added[name] = fresh
    return tuple({**known, **added}[name] for name in row["flipped_parameters"])


def outputs_after(case: measure.Case, kernel: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    """Copies of the outputs after one launch on cleared outputs."""
    for output in case.outputs.values():
        output.zero_()
    ct.launch(torch.cuda.current_stream(), case.grid, kernel, args)
    torch.cuda.synchronize()
    return {name: tensor.clone() for name, tensor in case.outputs.items()}


def compared(case: measure.Case, row: dict[str, Any], folder: Path, samples: int) -> dict[str, Any]:
    """Errors of one flip against its original and against PyTorch, and the paired times."""
    original = measure.load(folder, "original", case.name)
    flipped = measure.load(folder, row["side"], case.name)
    args = flipped_arguments(case, row)
    before, after = outputs_after(case, original, case.args), outputs_after(case, flipped, args)
    gone = [name for name in before if not any(case.outputs[name] is value for value in args)]
    errors, close, reference = {}, True, True
    for name in (name for name in before if name not in gone):
        one, other = before[name].float(), after[name].float()
        if row["axis"] == REBASED and name == "lse":
            other = other / math.log(2)
        limit = CLOSE[before[name].dtype]
        errors[name] = float((one - other).abs().max())
        close &= bool(torch.allclose(one, other, atol=limit, rtol=limit))
        reference &= bool(torch.allclose(other, case.expected[name].float(),
                                         atol=case.tolerance, rtol=case.tolerance))  # fmt: skip

    def launch(kernel: Any, given: tuple[Any, ...]) -> None:
        ct.launch(torch.cuda.current_stream(), case.grid, kernel, given)

    return {
        "kernel": case.name, "axis": row["axis"], "value": row["value"], "allclose": close,
        "allclose_to_torch": reference, "max_abs_error": errors, "outputs_gone": gone,
        "bit_equal": all(torch.equal(before[n], after[n]) for n in errors),
        "times": measure.paired(lambda: launch(original, case.args),
                                lambda: launch(flipped, args), samples),
    }  # fmt: skip


def main() -> None:
    """Compare every flip; the result is written after each, so that a cut run keeps what it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    options = parser.parse_args()
    torch.manual_seed(measure.SEED)
    measure.FLUSH = torch.empty(64 * 1024 * 1024, dtype=torch.int32, device="cuda")  # type: ignore[attr-defined]
    props = torch.cuda.get_device_properties(0)
    report: dict[str, Any] = {
        "machine": {"gpu": props.name, "sms": props.multi_processor_count,
                    "python": platform.python_version()},
        "versions": {"torch": torch.__version__, "cuda_tile": ct.__version__},
        "seed": measure.SEED, "samples": options.samples,
        "tolerance": {str(dtype): limit for dtype, limit in CLOSE.items()}, "flips": [],
    }  # fmt: skip
    rows = json.loads((options.job / "flips.json").read_text())
    for make in (measure.attention_cases, measure.row_cases, lambda: [measure.matmul_case()]):
        for case in make():
            for row in (row for row in rows if row["kernel"] == case.name):
                try:
                    found = compared(case, row, options.job, options.samples)
                except Exception as problem:
                    said = f"{type(problem).__name__}: {problem}"[:400]
                    found = {"kernel": case.name, "axis": row["axis"], "value": row["value"],
                             "failed": said}  # fmt: skip
                report["flips"].append(found)
                print(json.dumps(found)[:240], flush=True)
                options.result.write_text(json.dumps(report, indent=1) + "\n")
    bad = [row for row in report["flips"] if not row.get("allclose")]
    print(f"{len(report['flips'])} flips, {len(bad)} not close")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

"""Both roads of tiles on one GPU: FMHA by pointers with masks, by descriptors of the host and by
descriptors of the kernel, against PyTorch's attention.

    python3 benchmarks/h200/descriptors.py MODULE_FOLDER RESULT.json [--samples 50] [--jobs 12]

MODULE_FOLDER holds what prepare_descriptors.py wrote. Needs torch and triton only. All modules of
one problem run in one process, interleaved; processes beside it compile first.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import generated as harness
import torch
import triton
from torch.nn.functional import scaled_dot_product_attention

PROBLEMS = [
    {"batch": 2, "heads": 32, "kv_heads": 32, "rows": 4096, "keys": 4096, "dim": d, "causal": c}
    for d in (64, 128)
    for c in (True, False)
]
RAGGED = [case for case in harness.ATTENTION if case["rows"] % 64]
ROADS = ("pointers", "host", "device")
WARM_SECONDS = 500
TOLERANCE = 2e-2


def road_of(name: str) -> str:
    """The road in a module's name."""
    return name.split("_")[1]


def outcome(run: Callable[[], torch.Tensor], expected: torch.Tensor) -> dict[str, Any]:
    """Largest error of one call where the reference reaches, or the words of its failure."""
    try:
        given = run()[tuple(map(slice, expected.shape))]
        error = float((given.float() - expected).abs().max())
    except Exception as problem:  # a kernel that fails is a recorded failure
        return {"failed": f"{type(problem).__name__}: {problem}"[:300]}
    return {"error": error, "holds": error <= TOLERANCE}


def warm(path: Path) -> None:
    """Compile one module for every timed problem; the compiled kernels stay in Triton's cache."""
    module = harness.load(path)
    for problem in PROBLEMS:
        q, k, v = harness.attention_inputs(problem, torch.bfloat16)
        module.fmha(q, k, v, is_causal=problem["causal"])
    torch.cuda.synchronize()


def warm_all(paths: list[Path], jobs: int) -> None:
    """Compile in processes beside each other; what fails here fails again when it is timed."""

    def one(path: Path) -> None:
        try:
            subprocess.run(
                [sys.executable, __file__, "--warm", str(path)], check=False, timeout=WARM_SECONDS
            )
        except subprocess.TimeoutExpired:
            print("too slow:", path.stem, flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, paths))


def timed(paths: list[Path], problem: dict[str, Any], samples: int) -> dict[str, Any]:
    """Numerics and TFLOP/s of all modules and of PyTorch on one problem in bf16."""
    q, k, v = harness.attention_inputs(problem, torch.bfloat16)
    causal = problem["causal"]
    expected = harness.attention_reference(q[:1, :2], k[:1, :2], v[:1, :2], causal)
    runs: dict[str, Callable[[], Any]] = {
        "torch SDPA": lambda: scaled_dot_product_attention(q, k, v, is_causal=causal)
    }
    checks = {}
    for path in paths:
        run = partial(harness.load(path).fmha, q, k, v, is_causal=causal)
        checks[path.stem] = outcome(run, expected)
        if checks[path.stem].get("holds"):
            runs[path.stem] = run
    times = harness.interleaved(runs, samples)
    flops = 4 * problem["batch"] * problem["heads"] * problem["rows"] ** 2 * problem["dim"]
    flops //= 2 if causal else 1
    tflops = {name: flops / us / 1e6 for name, us in times.items()}
    return {"problem": problem, "numerics": checks, "us": times, "tflops": tflops,
            "best": best(tflops)}  # fmt: skip


def best(tflops: dict[str, float]) -> dict[str, dict[str, Any]]:
    """The fastest module of each road, and PyTorch."""
    found = {"torch SDPA": {"module": "torch SDPA", "tflops": tflops["torch SDPA"]}}
    for road in ROADS:
        mine = {n: v for n, v in tflops.items() if n.startswith("fmha_") and road_of(n) == road}
        if mine:
            name = max(mine, key=lambda n: mine[n])
            found[road] = {"module": name, "tflops": mine[name]}
    return found


def ragged(paths: list[Path]) -> list[dict[str, Any]]:
    """Tails, shared heads, more keys than rows: one module of each road, fp16 and bf16."""
    rows = []
    for road in ROADS:
        path = next(path for path in paths if road_of(path.stem) == road)
        module = harness.load(path)
        for case in RAGGED:
            for dtype in (torch.float16, torch.bfloat16):
                q, k, v = harness.attention_inputs(case, dtype)
                expected = harness.attention_reference(q, k, v, case["causal"])
                made = outcome(partial(module.fmha, q, k, v, is_causal=case["causal"]), expected)
                rows.append({"module": path.stem, "dtype": str(dtype), **case, **made})
    return rows


def main() -> None:
    """Compile, measure, write the report after every part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", type=Path, nargs="?")
    parser.add_argument("result", type=Path, nargs="?")
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--warm", type=Path)
    options = parser.parse_args()
    torch.manual_seed(harness.SEED)
    if options.warm is not None:
        warm(options.warm)
        return
    harness.FLUSH = torch.empty(64 * 1024 * 1024, dtype=torch.int32, device="cuda")
    paths = sorted(options.modules.glob("fmha_*.py"))
    warm_all(paths, options.jobs)
    report: dict[str, Any] = {
        "machine": {"gpu": torch.cuda.get_device_name(), "python": platform.python_version()},
        "versions": {"torch": torch.__version__, "triton": triton.__version__},
        "seed": harness.SEED, "samples": options.samples, "dtype": "bfloat16", "problems": [],
    }  # fmt: skip
    for problem in PROBLEMS:
        report["problems"].append(timed(paths, problem, options.samples))
        print(json.dumps(report["problems"][-1]["best"]), flush=True)
        options.result.write_text(json.dumps(report, indent=1) + "\n")
    report["ragged"] = ragged(paths)
    options.result.write_text(json.dumps(report, indent=1) + "\n")
    print(sum(row.get("holds", False) for row in report["ragged"]), "of", len(report["ragged"]),
          "ragged cases hold")  # fmt: skip


if __name__ == "__main__":
    main()

"""Generated Triton modules on one GPU: numerics in bf16 and fp16 against PyTorch, times against
PyTorch's own kernels.

    python3 generated.py MODULE_FOLDER RESULT.json [--samples 50]

MODULE_FOLDER holds files that `tilelore generate` wrote: fmha_*.py with a function `fmha`,
layernorm*.py with `layer_norm`.
Needs torch and triton only. Peers run in the same process, interleaved.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
from torch.nn.functional import layer_norm, scaled_dot_product_attention

LEAD = 6
"""How often 256 MiB are overwritten before a launch, about 0.4 ms: the host has queued the launch
before the GPU comes to it, so the host's time is not in the measurement."""
SEED = 20_261_121
ATTENTION = [
    {"batch": 2, "heads": 8, "kv_heads": 8, "rows": 512, "keys": 512, "dim": 64, "causal": True},
    {"batch": 2, "heads": 8, "kv_heads": 2, "rows": 512, "keys": 512, "dim": 128, "causal": True},
    {"batch": 1, "heads": 4, "kv_heads": 2, "rows": 333, "keys": 333, "dim": 128, "causal": True},
    {"batch": 1, "heads": 4, "kv_heads": 4, "rows": 200, "keys": 457, "dim": 64, "causal": False},
    {"batch": 1, "heads": 4, "kv_heads": 1, "rows": 129, "keys": 401, "dim": 128, "causal": True},
]
ROWS = [(8192, 1024), (8192, 4096), (8192, 5120), (8192, 8192), (2048, 16384), (37, 1000)]
ROW_TOLERANCE = 6e-2
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 2e-2}


def load(path: Path) -> Any:
    """A generated module; importing it needs torch and triton only."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def attention_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Plain fp32 attention; causal masks align to the bottom right."""
    group = q.shape[1] // k.shape[1]
    k, v = (t.float().repeat_interleave(group, dim=1) for t in (k, v))
    scores = q.float() @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        rows, keys = scores.shape[-2:]
        keep = torch.ones(rows, keys, device=q.device, dtype=torch.bool).tril(keys - rows)
        scores = scores.masked_fill(~keep, float("-inf"))
    return scores.softmax(-1) @ v


def attention_inputs(case: dict[str, Any], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """q, k and v of a case."""
    shapes = [(case["heads"], case["rows"]), (case["kv_heads"], case["keys"])]
    (h, s), (hk, t) = shapes
    sizes = [(h, s), (hk, t), (hk, t)]
    return tuple(
        torch.randn(case["batch"], heads, rows, case["dim"], device="cuda", dtype=dtype)
        for heads, rows in sizes
    )


def interleaved(runs: dict[str, Callable[[], Any]], samples: int) -> dict[str, float]:
    """Median microseconds on the GPU of each, one launch of each per round, caches overwritten
    before every launch."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(3):
            run()
    for index in range(samples):
        names = list(runs) if index % 2 else list(runs)[::-1]
        for name in names:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(LEAD):
                FLUSH.zero_()
            start.record()
            runs[name]()
            end.record()
            end.synchronize()
            times[name].append(float(start.elapsed_time(end)) * 1000)
    return {name: statistics.median(values) for name, values in times.items()}


def check_attention(path: Path) -> list[dict[str, Any]]:
    """Numerics of one FMHA module over all cases."""
    module, rows = load(path), []
    for case in ATTENTION:
        for dtype in (torch.float16, torch.bfloat16):
            q, k, v = attention_inputs(case, dtype)
            try:
                got = module.fmha(q, k, v, is_causal=case["causal"])
            except Exception as problem:  # a kernel that fails is a recorded failure
                failed = f"{type(problem).__name__}: {problem}"[:300]
                rows.append({"module": path.stem, "dtype": str(dtype), **case, "failed": failed})
                continue
            out = got[0] if isinstance(got, tuple) else got
            error = float((out.float() - attention_reference(q, k, v, case["causal"])).abs().max())
            holds = error <= TOLERANCE[dtype]
            rows.append(
                {"module": path.stem, "dtype": str(dtype), **case, "error": error, "holds": holds}
            )
    return rows


def time_attention(paths: list[Path], samples: int) -> dict[str, Any]:
    """Batch 2, 32 heads of 128, 4096 rows, causal, bf16: every module and PyTorch's attention."""
    case = {"batch": 2, "heads": 32, "kv_heads": 32, "rows": 4096, "keys": 4096, "dim": 128}
    q, k, v = attention_inputs(case, torch.bfloat16)
    runs: dict[str, Callable[[], Any]] = {
        "torch SDPA": lambda: scaled_dot_product_attention(q, k, v, is_causal=True)
    }
    for path in paths:
        module = load(path)
        try:
            module.fmha(q, k, v, is_causal=True)
        except Exception:  # recorded by the numerics already
            continue
        runs[path.stem] = lambda m=module: m.fmha(q, k, v, is_causal=True)
    flops = 4 * case["batch"] * case["heads"] * case["rows"] ** 2 * case["dim"] / 2
    times = interleaved(runs, samples)
    return {"case": case, "us": times, "tflops": {n: flops / t / 1e6 for n, t in times.items()}}


def rows_report(paths: list[Path], samples: int) -> list[dict[str, Any]]:
    """LayerNorm over all shapes."""
    modules = {path.stem: load(path) for path in paths}
    return [row_report(modules, shape, samples) for shape in ROWS]


def row_report(modules: dict[str, Any], shape: tuple[int, int], samples: int) -> dict[str, Any]:
    """Numerics and effective bandwidth of one shape against PyTorch, eager and compiled for it."""
    rows, columns = shape
    x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
    w, b = (torch.randn(columns, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    want = layer_norm(x.float(), (columns,), w.float(), b.float())
    torch._dynamo.reset()
    compiled = torch.compile(layer_norm, dynamic=False)
    runs: dict[str, Callable[[], Any]] = {
        name: partial(module.layer_norm, x, w, b) for name, module in modules.items()
    }
    errors = {name: float((run().float() - want).abs().max()) for name, run in runs.items()}
    runs |= {
        "torch": partial(layer_norm, x, (columns,), w, b),
        "torch.compile": partial(compiled, x, (columns,), w, b),
        "copy": x.clone,
    }
    times = interleaved(runs, samples)
    gigabytes = {name: 2 * x.numel() * 2 / t / 1e3 for name, t in times.items()}
    return {
        "rows": rows, "columns": columns, "errors": errors,
        "holds": max(errors.values()) <= ROW_TOLERANCE, "us": times,
        "gigabytes_per_s": gigabytes,
    }  # fmt: skip


def main() -> None:
    """Measure and write the report after every part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--samples", type=int, default=50)
    options = parser.parse_args()
    torch.manual_seed(SEED)
    report: dict[str, Any] = {
        "machine": {"gpu": torch.cuda.get_device_name(), "python": platform.python_version()},
        "versions": {"torch": torch.__version__, "triton": triton.__version__},
        "seed": SEED, "samples": options.samples, "numerics": [],
    }  # fmt: skip
    paths = sorted(options.modules.glob("fmha_*.py"))
    for path in paths:
        report["numerics"] += check_attention(path)
        options.result.write_text(json.dumps(report, indent=1) + "\n")
        print(json.dumps(report["numerics"][-1]), flush=True)
    report["attention"] = time_attention(paths, options.samples)
    print(json.dumps(report["attention"]), flush=True)
    options.result.write_text(json.dumps(report, indent=1) + "\n")
    rows = sorted(options.modules.glob("layernorm*.py"))
    report["layernorm"] = rows_report(rows, options.samples)
    for row in report["layernorm"]:
        print(json.dumps(row), flush=True)
    options.result.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    FLUSH = torch.empty(64 * 1024 * 1024, dtype=torch.int32, device="cuda")
    main()

"""Original against regenerated cuTile kernels on one GPU: numerics, bit equality, paired and
interleaved times.

    python3 measure.py JOB_FOLDER RESULT.json [--samples 60]

Needs torch and cuda-tile; imports nothing of tilelore. Each pair runs on the same inputs in one
process; the order
inside a pair alternates, and the same kernel paired with itself gives the noise of the machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import platform
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cuda.tile as ct
import torch

SEED = 20_261_121
SAMPLES = 60


def load(folder: Path, side: str, name: str) -> Any:
    """The kernel object of one file."""
    path = folder / side / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{side}_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


class Case:
    """One kernel with inputs, outputs, launch and reference."""

    def __init__(self, name: str, grid: tuple[int, ...], args: tuple[Any, ...]) -> None:
        self.name, self.grid, self.args = name, grid, args
        self.outputs: dict[str, torch.Tensor] = {}
        self.expected: dict[str, torch.Tensor] = {}
        self.tolerance = 2e-2

    def launch(self, kernel: Any) -> None:
        """One launch on the current stream."""
        ct.launch(torch.cuda.current_stream(), self.grid, kernel, self.args)


def cdiv(a: int, b: int) -> int:
    """Ceiling of a quotient."""
    return -(-a // b)


def attention_cases() -> list[Case]:
    """FMHA forward, forward with log-sum-exp, and the three backward kernels; batch 2, 16 heads,
    GQA 4, causal."""
    b, h, hkv, s, d = 2, 16, 4, 2048, 128
    tm, tn, group = 64, 64, 4
    scale = 1 / math.sqrt(d)
    q, k, v = (
        torch.randn(b, heads, s, d, device="cuda", dtype=torch.float16) for heads in (h, hkv, hkv)
    )
    qf, kf, vf = (t.float().requires_grad_() for t in (q, k, v))
    kx, vx = (t.repeat_interleave(group, dim=1) for t in (kf, vf))
    scores = qf @ kx.transpose(-1, -2) * scale
    mask = torch.ones(s, s, device="cuda", dtype=torch.bool).tril()
    scores = scores.masked_fill(~mask, float("-inf"))
    out_ref = scores.softmax(-1) @ vx
    lse_ref = torch.logsumexp(scores, -1) / math.log(2)
    grad = torch.randn_like(out_ref).half()
    out_ref.backward(grad.float())
    delta_ref = (out_ref.detach() * grad.float()).sum(-1)
    o = torch.empty_like(q)
    even = s % tn == 0
    grid = (cdiv(s, tm), b * h, 1)
    common = (scale, 0, d, h)
    fwd = Case("_fmha_kernel", grid, (q, k, v, o, *common, tm, tn, group, True, even))
    fwd.outputs, fwd.expected = {"o": o}, {"o": out_ref.detach()}
    o2 = torch.empty_like(q)
    lse = torch.zeros(b * h * s, device="cuda")
    with_lse = Case("_fmha_fwd_kernel_with_lse", grid,
                    (q, k, v, o2, lse, *common, b, s, tm, tn, group, True, even))  # fmt: skip
    with_lse.outputs = {"o": o2, "lse": lse}
    with_lse.expected = {"o": out_ref.detach(), "lse": lse_ref.detach().flatten()}
    delta = torch.zeros(b * h * s, device="cuda")
    out_half = out_ref.detach().half()
    pre = Case("_fmha_bwd_preprocess_kernel", grid, (out_half, grad, delta, tm, d, h, s))
    pre.outputs, pre.expected = {"delta": delta}, {"delta": delta_ref.flatten()}
    pre.tolerance = 5e-2
    lse_in = lse_ref.detach().flatten().contiguous()
    delta_in = delta_ref.flatten().contiguous()
    dk, dv, dq = torch.zeros_like(k), torch.zeros_like(v), torch.empty_like(q)
    shared = (lse_in, delta_in, scale, d)
    tail = (s, tm, tn, group, True)
    dkdv = Case("_fmha_bwd_dkdv_kernel", (cdiv(s, tn), b * hkv, 1),
                (q, k, v, grad, dk, dv, *shared, h, hkv, *tail))  # fmt: skip
    dkdv.outputs, dkdv.expected = {"dk": dk, "dv": dv}, {"dk": kf.grad, "dv": vf.grad}
    dkdv.tolerance = 6e-2
    dqc = Case("_fmha_bwd_dq_kernel", grid,
               (q, k, v, grad, dq, *shared, h, *tail))  # fmt: skip
    dqc.outputs, dqc.expected = {"dq": dq}, {"dq": qf.grad}
    dqc.tolerance = 6e-2
    return [fwd, with_lse, pre, dkdv, dqc]


def row_cases() -> list[Case]:
    """RMSNorm and softmax over 8192 rows of 4096 bf16 numbers."""
    rows, n = 8192, 4096
    x = torch.randn(rows, n, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(n, device="cuda", dtype=torch.bfloat16)
    out, rstd = torch.empty_like(x), torch.empty(rows, device="cuda")
    rstd_ref = torch.rsqrt(x.float().pow(2).mean(-1) + 1e-6)
    rms = Case(
        "_rms_norm_kernel_multi_wave_cached", (rows, 1, 1), (x, w, out, rstd, n, 1e-6, 0.0, n)
    )
    rms.outputs = {"out": out, "rstd": rstd}
    rms.expected = {"out": x.float() * rstd_ref[:, None] * w.float(), "rstd": rstd_ref}
    rms.tolerance = 5e-2
    y = torch.empty_like(x)
    programs = min(4 * torch.cuda.get_device_properties(0).multi_processor_count, rows)
    soft = Case("_softmax_kernel", (programs, 1, 1), (y, x, rows, n, n))
    soft.outputs, soft.expected = {"y": y}, {"y": x.float().softmax(-1)}
    return [rms, soft]


def matmul_case() -> Case:
    """4096 x 4096 x 4096 in fp16, 128 x 128 x 64 tiles."""
    m = n = k = 4096
    a = torch.randn(m, k, device="cuda", dtype=torch.float16) / 8
    b = torch.randn(k, n, device="cuda", dtype=torch.float16) / 8
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    case = Case("_matmul_kernel", (cdiv(m, 128) * cdiv(n, 128), 1, 1), (a, b, c, 128, 128, 64))
    case.outputs, case.expected = {"c": c}, {"c": a.float() @ b.float()}
    case.tolerance = 5e-2
    return case


def timed(run: Callable[[], None]) -> float:
    """Microseconds of one launch, between two events, after the caches were overwritten."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    FLUSH.zero_()
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000


def paired(first: Callable[[], None], second: Callable[[], None], samples: int) -> dict[str, float]:
    """Medians and the median ratio of interleaved runs; the order inside a pair alternates."""
    for _ in range(5):
        first(), second()
    one, two = [], []
    for index in range(samples):
        order = ((one, first), (two, second)) if index % 2 else ((two, second), (one, first))
        for times, run in order:
            times.append(timed(run))
    ratios = sorted(b / a for a, b in zip(one, two, strict=True))
    return {
        "first_us": statistics.median(one),
        "second_us": statistics.median(two),
        "ratio": statistics.median(two) / statistics.median(one),
        "ratio_p25": ratios[len(ratios) // 4],
        "ratio_p75": ratios[3 * len(ratios) // 4],
    }


def measure(case: Case, folder: Path, samples: int) -> dict[str, Any]:
    """Numerics against PyTorch, bit equality between the sides, and times in both directions."""
    kernels = {side: load(folder, side, case.name) for side in ("original", "regenerated")}
    results: dict[str, dict[str, torch.Tensor]] = {}
    for side, kernel in kernels.items():
        for output in case.outputs.values():
            output.zero_()
        case.launch(kernel)
        torch.cuda.synchronize()
        results[side] = {name: t.clone() for name, t in case.outputs.items()}
    errors = {
        name: float(
            (results["regenerated"][name].float() - case.expected[name].float()).abs().max()
        )
        for name in case.outputs
    }
    equal = all(
        torch.equal(results["original"][n], results["regenerated"][n]) for n in case.outputs
    )
    close = all(
        torch.allclose(results["regenerated"][n].float(), case.expected[n].float(),
                       atol=case.tolerance, rtol=case.tolerance)
        for n in case.outputs
    )  # fmt: skip
    run = {side: (lambda k=kernel: case.launch(k)) for side, kernel in kernels.items()}
    return {
        "kernel": case.name, "bit_equal": equal, "allclose": close, "tolerance": case.tolerance,
        "max_abs_error": errors,
        "original_then_regenerated": paired(run["original"], run["regenerated"], samples),
        "regenerated_then_original": paired(run["regenerated"], run["original"], samples),
        "noise_original_with_itself": paired(run["original"], run["original"], samples),
    }  # fmt: skip


def main() -> None:
    """Measure every case and write the result after each, so that a cut run keeps what it has."""
    parser = argparse.ArgumentParser()
    parser.add_argument("job", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    options = parser.parse_args()
    torch.manual_seed(SEED)
    props = torch.cuda.get_device_properties(0)
    report: dict[str, Any] = {
        "machine": {
            "gpu": props.name,
            "sms": props.multi_processor_count,
            "python": platform.python_version(),
        },
        "versions": {"torch": torch.__version__, "cuda_tile": ct.__version__},
        "seed": SEED, "samples": options.samples,
        "sources": json.loads((options.job / "index.json").read_text()),
        "kernels": [],
    }  # fmt: skip
    for make in (attention_cases, row_cases, lambda: [matmul_case()]):
        for case in make():
            try:
                row = measure(case, options.job, options.samples)
            except Exception as problem:
                row = {"kernel": case.name, "failed": f"{type(problem).__name__}: {problem}"[:400]}
            report["kernels"].append(row)
            print(json.dumps(row)[:300], flush=True)
            options.result.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    FLUSH = torch.empty(64 * 1024 * 1024, dtype=torch.int32, device="cuda")
    main()

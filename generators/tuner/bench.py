"""Run a generated file against its PyTorch reference: the side of `tilelore verify` that holds
torch.

`python -m generators.tuner.bench` reads one JSON job from standard input and writes one JSON line
per case. It runs in a process of its own: interpreting and compiling cannot share one, and a kernel
that crashes takes only this process along.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Case = Mapping[str, Any]
SEED = 20_260_101
LOG2E = 1.4426950408889634
ZONE = 1 << 16
"""Elements before and after each tensor: a whole tile past the last row of every case."""

_FACTORIES = {
    torch.ops.aten.empty.memory_format,
    torch.ops.aten.empty_like.default,
    torch.ops.aten.empty_strided.default,
    torch.ops.aten.new_empty.default,
}


@dataclass(frozen=True)
class Prepared:
    """Arguments of one call, what it should give, and by how much it may differ."""

    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    expected: tuple[torch.Tensor, ...]


@dataclass
class Recorder:
    """Stands in for a kernel and keeps what its host passes; nothing is launched."""

    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """The launcher of a grid."""

        def launch(*arguments: Any, **keywords: Any) -> None:
            self.calls.append((grid, arguments, keywords))

        return launch


class Guards(TorchDispatchMode):  # type: ignore[misc]
    """While active, uninitialised tensors that the host allocates stand between guard zones.

    Triton's interpreter dereferences raw pointers: a kernel that forgets a mask reads and writes
    its own process's heap, and may hang it. Between guard zones such a read gives NaN, and such a
    write is seen: the zones of tensors that the host allocates hold the largest finite number
    instead, since a NaN written over a NaN would not be.
    """

    def __init__(self) -> None:
        super().__init__()
        self._zones: list[tuple[torch.Tensor, float]] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one operation; a fresh floating-point tensor gets its zones."""
        given = func(*args, **(kwargs or {}))
        if func in _FACTORIES and given.is_floating_point() and given.numel():
            return self._between_zones(given, torch.finfo(given.dtype).max)
        return given

    def around(self, value: Any) -> Any:
        """`value`; a floating-point tensor as a copy of same shape and strides between zones."""
        if not (isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel()):
            return value
        return self._between_zones(value, float("nan")).copy_(value)

    def broken(self) -> bool:
        """Whether something was written outside of a tensor."""
        return not all(
            bool(zone.isnan().all() if math.isnan(filler) else (zone == filler).all())
            for zone, filler in self._zones
        )

    def _between_zones(self, like: torch.Tensor, filler: float) -> torch.Tensor:
        """A tensor with the shape, strides, type and device of `like`, all of it `filler`."""
        steps = zip(like.shape, like.stride(), strict=True)
        extent = 1 + sum((length - 1) * step for length, step in steps)
        flat = like.new_full((extent + 2 * ZONE,), filler)
        self._zones += [(flat[:ZONE], filler), (flat[ZONE + extent :], filler)]
        return flat.as_strided(like.shape, like.stride(), ZONE)


def main() -> int:
    """Say where kernels run, then what the host passes, then answer every case of the job."""
    job = json.load(sys.stdin)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    wanted = job["device"] == "cuda"
    answer({"device": gpu if wanted else "interpreter", "torch": str(torch.__version__)})
    if wanted and not gpu:
        return 0
    module = load(job["path"])
    answer({"launch": recorded(module, job)})
    for case in job["cases"]:
        answer(checked(module, job, case, "cuda" if wanted else "cpu"))
    return 0


def answer(row: Mapping[str, Any]) -> None:
    """One line of JSON."""
    print(json.dumps(row), flush=True)


def load(path: str) -> ModuleType:
    """The generated file as a module."""
    spec = importlib.util.spec_from_file_location("tilelore_generated", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no loader for {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def checked(module: ModuleType, job: Case, case: Case, device: str) -> dict[str, Any]:
    """Run one case; a failure of any kind becomes a recorded failure."""
    started = time.monotonic()
    try:
        prepared = FAMILIES[job["family"]](case, job["design_point"], device)
        host = getattr(module, job["host"])
        guards = Guards()
        arguments = [guards.around(value) for value in prepared.arguments]
        with guards:
            given = host(*arguments, **prepared.keywords)
        row = compared(given if isinstance(given, tuple) else (given,), prepared)
        if guards.broken():
            row = {"error": None, "message": "written outside of a tensor"}
    except Exception as problem:
        row = {"error": None, "message": f"{type(problem).__name__}: {problem}"[:800]}
    return {"case": case["name"], "seconds": round(time.monotonic() - started, 3), **row}


def compared(given: tuple[torch.Tensor, ...], prepared: Prepared) -> dict[str, Any]:
    """The largest |given - expected| / max(1, |expected|) over all outputs."""
    worst = 0.0
    for number, expected in enumerate(prepared.expected):
        if number >= len(given):
            return {"error": None, "message": f"{len(given)} outputs, not {len(prepared.expected)}"}
        value = given[number]
        if value.shape != expected.shape:
            shapes = f"{tuple(value.shape)}, not {tuple(expected.shape)}"
            return {"error": None, "message": f"output {number} has shape {shapes}"}
        if value.numel() == 0:
            continue
        difference = (value.double() - expected).abs() / expected.abs().clamp(min=1.0)
        if not bool(torch.isfinite(difference).all()):
            return {"error": None, "message": f"output {number} is not finite"}
        worst = max(worst, float(difference.max()))
    return {"error": worst, "message": ""}


# -- layer norm


def layer_norm_case(case: Case, point: Case, device: str) -> Prepared:
    """Rows of normal numbers away from zero; the reference works in 64 bits."""
    generator = torch.Generator().manual_seed(SEED)
    dtype = getattr(torch, case["dtype"])
    n = case["shape"][-1]
    x = _laid_out(case, generator).to(dtype).to(device)
    weight = (torch.randn(n, generator=generator) + 1.0).to(dtype).to(device)
    bias = torch.randn(n, generator=generator).to(dtype).to(device)
    eps = float(case["eps"])
    affine = point.get("affine", "weight and bias")
    x64 = x.double()
    mean = x64.mean(-1, keepdim=True)
    variance = (x64 - mean).square().mean(-1, keepdim=True)
    place = point.get("eps_placement", "inside rsqrt")
    if place == "after sqrt":
        rstd = 1.0 / (variance.sqrt() + eps)
    elif place == "clamp":
        rstd = variance.clamp(min=eps).rsqrt()
    else:
        rstd = (variance + eps).rsqrt()
    y = (x64 - mean) * rstd
    arguments: list[Any] = [x]
    if affine != "none":
        y = y * (weight.double() + (1.0 if affine == "weight + offset" else 0.0))
        arguments.append(weight)
    if affine == "weight and bias":
        y = y + bias.double()
        arguments.append(bias)
    expected = [y]
    if point.get("side_output") == "statistics saved for backward":
        expected += [mean.squeeze(-1), rstd.squeeze(-1)]
    return Prepared(tuple(arguments), {"eps": eps}, tuple(expected))


def _laid_out(case: Case, generator: torch.Generator) -> torch.Tensor:
    """A tensor of the case's shape: contiguous, a slice of wider rows, or transposed in memory."""
    *leading, n = case["shape"]
    layout = case.get("layout", "contiguous")
    if layout == "row stride":
        return (torch.randn(*leading, n + 8, generator=generator) * 2.0 + 0.5)[..., :n]
    if layout == "transposed":
        flat = torch.randn(n, *leading, generator=generator) * 2.0 + 0.5
        return flat.movedim(0, -1)
    return torch.randn(*leading, n, generator=generator) * 2.0 + 0.5


# -- attention


def attention_case(case: Case, point: Case, device: str) -> Prepared:
    """Softmax(q kᵀ · scale) v in 64 bits; the causal mask ends at the last key."""
    generator = torch.Generator().manual_seed(SEED)
    dtype = getattr(torch, case["dtype"])
    batch, heads, kv_heads = case["batch"], case["heads"], case["kv_heads"]
    rows, keys, depth = case["queries"], case["keys"], case["depth"]

    def tensor(count: int, length: int) -> torch.Tensor:
        values = torch.randn(batch, count, length, depth, generator=generator)
        return values.to(dtype).to(device)

    q, k, v = tensor(heads, rows), tensor(kv_heads, keys), tensor(kv_heads, keys)
    scale = case.get("scale") or depth**-0.5
    wide_k = k.double().repeat_interleave(heads // kv_heads, dim=1)
    wide_v = v.double().repeat_interleave(heads // kv_heads, dim=1)
    scores = q.double() @ wide_k.transpose(-1, -2) * scale
    if case["causal"]:
        row = torch.arange(rows, device=device)[:, None] + (keys - rows)
        scores = scores.masked_fill(torch.arange(keys, device=device)[None, :] > row, float("-inf"))
    expected = [scores.softmax(-1) @ wide_v]
    if point.get("side_output") == "log-sum-exp":
        base2 = str(point.get("math_approximation")).startswith("exp2")
        expected.append(scores.logsumexp(-1) * (LOG2E if base2 else 1.0))
    keywords: dict[str, Any] = {"is_causal": case["causal"]}
    if case.get("scale"):
        keywords["scaling"] = case["scale"]
    return Prepared((q, k, v), keywords, tuple(expected))


FAMILIES: dict[str, Callable[[Case, Case, str], Prepared]] = {
    "layernorm": layer_norm_case,
    "attention": attention_case,
}


# -- what the host passes


def recorded(module: ModuleType, job: Case) -> dict[str, Any]:
    """The launch of one case as plain values: dtypes of pointers, numbers, compile-time values; the
    words of a failure.
    """
    kernel = getattr(module, job["kernel"])
    names = list(inspect.signature(kernel.fn).parameters)
    recorder = Recorder()
    setattr(module, job["kernel"], recorder)
    try:
        prepared = FAMILIES[job["family"]](job["launch"], job["design_point"], "cpu")
        getattr(module, job["host"])(*prepared.arguments, **prepared.keywords)
        _, arguments, keywords = recorder.calls[0]
    except Exception as problem:
        return {"message": f"{type(problem).__name__}: {problem}"[:800]}
    finally:
        setattr(module, job["kernel"], kernel)
    bound = dict(zip(names, arguments, strict=False))
    return {
        "order": names,
        "runtime": {name: _described(value) for name, value in bound.items()},
        "constants": {name: value for name, value in keywords.items() if name in names},
        "options": {name: value for name, value in keywords.items() if name not in names},
    }


def _described(value: Any) -> str:
    """`*float16` for a tensor, `*float16[1, 64]` for a descriptor, else the kind of number; an
    integer that is one is compiled in.
    """
    if hasattr(value, "block_shape"):
        return f"{_described(value.base)}{[int(extent) for extent in value.block_shape]}"
    if isinstance(value, torch.Tensor):
        return "*" + str(value.dtype).removeprefix("torch.")
    if isinstance(value, bool):
        return "bool"
    if value == 1 and isinstance(value, int):
        return "unit"
    return "float" if isinstance(value, float) else "int"


if __name__ == "__main__":
    sys.exit(main())

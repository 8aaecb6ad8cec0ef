"""Import one generated module and launch its kernel once in Triton's interpreter.

Started by run.py with TRITON_INTERPRET=1; reads one job per line of standard input, answers with
lines of JSON, the last one {"done": true}. The launch need not mean anything: it has to run, and to
write.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

SHAPES: tuple[tuple[int, ...], ...] = (
    (4, 16), (16,), (16, 16), (2, 4, 16), (4, 4, 4), (2, 2, 4, 16), (3, 3),
)  # fmt: skip
LEAST = (1, 16)
"""Smallest numbers for compile-time sizes: operands of a matrix product have sixteen rows."""

AROUND = 1 << 16
"""Elements on both sides of a tensor, so that an index past its end meets memory."""

GRIDS = ((2,), (2, 2), (2, 2, 2))
_TORCH = {
    "f16": torch.float16, "bf16": torch.float32, "f32": torch.float32, "f64": torch.float64,
    "i1": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64, "u8": torch.uint8,
}  # fmt: skip
_TILE = {"f16": tl.float16, "f32": tl.float32, "bf16": tl.float32}


def tensor(shape: tuple[int, ...], dtype: str, seed: int) -> torch.Tensor:
    """Small numbers inside a larger piece of memory; indices are zero or one."""
    generator = torch.Generator().manual_seed(seed)
    count = torch.Size(shape).numel()
    if dtype[0] in "iu":
        memory = torch.randint(0, 2, (count + 2 * AROUND,), generator=generator)
    else:
        memory = torch.rand(count + 2 * AROUND, generator=generator) + 0.25
    memory = memory.to(_TORCH.get(dtype, torch.float32))
    return memory[AROUND : AROUND + count].view(shape)


def descriptor(base: torch.Tensor) -> TensorDescriptor | None:
    """The whole tensor as one block; None where a descriptor cannot take it."""
    sizes = list(base.shape)
    try:
        return TensorDescriptor(base, sizes, list(base.stride()), sizes)
    except (AssertionError, ValueError):
        return None


def attempts(job: dict[str, Any], names: list[str]) -> Iterator[dict[str, Any]]:
    """Arguments by name: shapes, and the values that a signature of the kernel suggests."""
    grids = GRIDS if "grid" in names else GRIDS[:1]
    for shape, least, values, grid in itertools.product(SHAPES, LEAST, job["values"], grids):
        given: dict[str, Any] = {}
        for seed, name in enumerate(names):
            known = values.get(name, {"value": 1})
            if name == "grid":
                given[name] = grid
            elif name in job["tensors"]:
                given[name] = tensor(shape, known.get("dtype", "f32"), seed)
            elif known.get("described"):
                given[name] = descriptor(tensor(shape, known["dtype"], seed))
            elif "dtype" in known and known.get("constant"):
                given[name] = _TILE.get(known["dtype"], tl.float32)
            else:
                given[name] = raised(known.get("value", 1), least)
        yield given


def raised(value: Any, least: int) -> Any:
    """A size that is at least so large; flags and other values stay."""
    return max(value, least) if type(value) is int and value > 1 else value


def wrote(before: dict[str, torch.Tensor], after: dict[str, Any]) -> bool:
    """True when some tensor changed."""
    return any(not torch.equal(old, after[name]) for name, old in before.items())


def served(job: dict[str, Any]) -> None:
    """One job, in a process of its own."""
    path = Path(job["path"])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    say(imported=True)
    host = getattr(module, job["host"])
    parameters = inspect.signature(host).parameters
    required = [n for n, p in parameters.items() if p.default is inspect.Parameter.empty]
    message = "no attempt"
    for given in attempts(job, required):
        tensors = {n: getattr(v, "base", v) for n, v in given.items()}
        tensors = {n: v for n, v in tensors.items() if isinstance(v, torch.Tensor)}
        before = {n: v.clone() for n, v in tensors.items()}
        try:
            host(**given)
        except Exception as problem:
            message = f"{type(problem).__name__}: {problem}"[:300]
            say(message=message)
            continue
        if wrote(before, tensors):
            say(ran=True, message="", shapes={n: list(v.shape) for n, v in tensors.items()})
            return
        say(message="nothing was written")


def say(**facts: Any) -> None:
    """A line of the answer; later lines add to earlier ones."""
    print(json.dumps(facts), flush=True)


def main() -> int:
    """A process forked for every job, so that what hangs or crashes takes nothing with it."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.alarm(int(job["seconds"]))
            try:
                served(job)
            except Exception as problem:
                say(message=f"{type(problem).__name__}: {problem}"[:300])
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            late = os.WTERMSIG(status) == signal.SIGALRM
            say(crashed="too slow" if late else f"signal {os.WTERMSIG(status)}")
        say(done=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

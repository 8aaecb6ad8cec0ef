"""A process that runs emitted Triton source in Triton's interpreter.

Started as `python -m generators.interpret.compile` with TRITON_INTERPRET=1. One job per line of
standard input, one verdict per line of output.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from generators.interpret.model import BindingKind, InterpretJob, job_from_json

MEMORY_BYTES = 12 << 30
_DTYPES = {
    "f16": tl.float16, "bf16": tl.bfloat16, "f32": tl.float32, "f64": tl.float64, "i1": tl.int1,
    "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64, "u8": tl.uint8,
    "u16": tl.uint16, "u32": tl.uint32, "u64": tl.uint64, "f8e4m3": tl.float8e4nv,
    "f8e5m2": tl.float8e5,
}  # fmt: skip


def main() -> None:
    """Serve jobs until standard input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    torch.set_num_threads(1)
    print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"error": _served(job_from_json(line))}), flush=True)


def _served(job: InterpretJob) -> str:
    """Empty when the job was done, else the last words of the interpreter."""
    try:
        _run(job)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)
        lines = [f"line {f.lineno}" for f in last if f.filename == job.module]
        return f"{type(error).__name__}: {error} ({lines[-1] if lines else 'outside the kernel'})"
    return ""


def _run(job: InterpretJob) -> None:
    kernel = getattr(_module(Path(job.module)), job.kernel)
    with np.load(job.arrays) as held:
        arrays = {name: torch.from_numpy(held[name].copy()) for name in held.files}
    given: dict[str, Any] = {}
    for bound in job.bound:
        if bound.kind is BindingKind.ARRAY:
            given[bound.name] = arrays[str(bound.value)]
        elif bound.kind is BindingKind.DESCRIPTOR and bound.layout is not None:
            said = bound.layout
            given[bound.name] = TensorDescriptor(
                arrays[str(bound.value)], list(said.shape), list(said.strides), list(said.block),
                said.padding,
            )  # fmt: skip
        elif bound.kind is BindingKind.ADDRESSES:
            addresses = [arrays[str(name)].data_ptr() for name in bound.items]
            given[bound.name] = torch.tensor(addresses, dtype=torch.int64)
        elif bound.kind is BindingKind.NUMBERS:
            given[bound.name] = torch.tensor(bound.items, dtype=torch.int64)
        elif bound.kind is BindingKind.DTYPE:
            given[bound.name] = _DTYPES[str(bound.value)]
        else:
            given[bound.name] = bound.value
    kernel[job.grid](**given)
    np.savez(job.results, **{name: array.numpy() for name, array in arrays.items()})


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"emitted_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()

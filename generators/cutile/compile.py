"""Ahead-of-time compile of a cuTile kernel for one signature: machine code, Tile IR text, compile
facts.

Runs inside a compiler process (generators/compile_worker.py), never in the process that serves a
user.
Source: cuda-tile 1.7, module `cuda.tile.compilation`.
"""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType

import cuda.tile as ct
import nvidia.cu13
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    ConstantConstraint,
    KernelSignature,
    ListConstraint,
    ScalarConstraint,
    export_kernel,
)

from generators.compile_model import Argument, ArgumentKind, CompileJob, FrontEnd, MachineCode
from generators.machine_code import from_binary

_DTYPES = {
    "f16": ct.float16, "bf16": ct.bfloat16, "f32": ct.float32, "f64": ct.float64, "i1": ct.bool_,
    "i8": ct.int8, "i16": ct.int16, "i32": ct.int32, "i64": ct.int64, "u8": ct.uint8,
    "u16": ct.uint16, "u32": ct.uint32, "u64": ct.uint64, "f8e4m3": ct.float8_e4m3fn,
    "f8e5m2": ct.float8_e5m2, "tf32": ct.tfloat32,
}  # fmt: skip
UNSUPPORTED = (ct.TileUnsupportedFeatureError,)
"""What the compiler raises when the target, or every target, lacks something."""

_ALIGNMENT_BYTES = 16
_PACKAGES = ("cuda-tile", "nvidia-cuda-tileiras", "nvidia-cuda-nvcc", "nvidia-nvvm")
_LOCATION = re.compile(r"\s*loc\([^)]*\)")


def toolchain() -> str:
    """Versions of everything that decides what the compiler writes."""
    return " ".join(f"{name}=={metadata.version(name)}" for name in _PACKAGES)


def constraint(argument: Argument) -> object:
    """The native form of one parameter; ValueError when cuTile has none."""
    match argument.kind:
        case ArgumentKind.ARRAY:
            return _array(argument)
        case ArgumentKind.ARRAY_LIST:
            return ListConstraint(_array(argument), alias_groups=(), elements_may_alias=False)
        case ArgumentKind.SCALAR:
            return ScalarConstraint(_DTYPES[argument.dtype])
        case ArgumentKind.CONSTEXPR:
            return _constant(argument.value)
        case ArgumentKind.DTYPE:
            return ConstantConstraint(_DTYPES[argument.dtype])
    raise ValueError(f"cuTile has no parameter of kind {argument.kind}")


def _constant(value: object) -> object:
    return (
        tuple(_constant(item) for item in value)
        if isinstance(value, tuple)
        else ConstantConstraint(value)
    )


def _array(argument: Argument) -> ArrayConstraint:
    """A row-major array whose rows and base address are aligned to 16 bytes, as torch allocates
    them.
    """
    dtype = _DTYPES[argument.dtype]
    elements = max(1, _ALIGNMENT_BYTES * 8 // dtype.bitwidth)
    last = argument.rank - 1
    return ArrayConstraint(
        dtype,
        argument.rank,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[1 if axis == last else None for axis in range(argument.rank)],
        stride_divisible_by=[1 if axis == last else elements for axis in range(argument.rank)],
        base_addr_divisible_by=_ALIGNMENT_BYTES,
    )


def warm() -> None:
    """Let the library find its compiler and its bytecode version once, before jobs are forked."""
    signature = KernelSignature([], CallingConvention.cutile_python_v1(), symbol="kernel")
    export_kernel(
        ct.kernel(_nothing),
        [signature],
        io.BytesIO(),
        gpu_code="sm_90",
        output_format="tileir_bytecode",
    )


def _nothing() -> None:
    ct.bid(0)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel with its signature, ready for the compiler."""

    kernel: ct.kernel
    signature: KernelSignature
    target: str


def prepare(job: CompileJob, module: ModuleType) -> Prepared:
    """The kernel that `module`, the executed text of the job, defines, and its native signature."""
    parameters = [constraint(argument) for argument in job.signature.arguments]
    signature = KernelSignature(parameters, CallingConvention.cutile_python_v1(), symbol="kernel")
    return Prepared(getattr(module, job.kernel), signature, job.target)


def front_end(prepared: Prepared) -> FrontEnd:
    """Of the Tile IR text without locations; what the compiler raises goes through."""
    text = _LOCATION.sub("", _tile_ir(_export(prepared, "tileir_bytecode")))
    options = repr(prepared.kernel._compiler_options)  # no public reading of the hints exists
    return FrontEnd(hashlib.sha256(f"{options}\n{text}".encode()).hexdigest())


def machine_code(prepared: Prepared) -> MachineCode:
    """Compile to machine code."""
    return from_binary(_export(prepared, "cubin"))


def _export(prepared: Prepared, form: str) -> bytes:
    out = io.BytesIO()
    export_kernel(
        prepared.kernel, [prepared.signature], out, gpu_code=prepared.target, output_format=form
    )
    return out.getvalue()


def _tile_ir(bytecode: bytes) -> str:
    tool = Path(next(iter(nvidia.cu13.__path__)), "bin", "tileirdisasm")
    with tempfile.NamedTemporaryFile(suffix=".tileirbc") as file:
        file.write(bytecode)
        file.flush()
        done = subprocess.run([tool, file.name], capture_output=True, text=True, check=True)
    return done.stdout

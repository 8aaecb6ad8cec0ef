"""Ahead-of-time compile of a Triton kernel for one signature: machine code, TTIR, compile facts.

Runs inside a compiler process (generators/compile_worker.py), never in the process that serves a
user.
Source: triton 3.6 to 3.9, `triton.compile(ASTSource(...), target=GPUTarget(...))`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from math import prod
from types import ModuleType
from typing import Any

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.cache import triton_key

from generators.compile_model import Argument, ArgumentKind, CompileJob, FrontEnd, MachineCode
from generators.machine_code import from_binary

_NATIVE = {
    "f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "i1": "i1", "i8": "i8",
    "i16": "i16", "i32": "i32", "i64": "i64", "u8": "u8", "u16": "u16", "u32": "u32",
    "u64": "u64", "f8e4m3": "fp8e4nv", "f8e5m2": "fp8e5",
}  # fmt: skip
_DTYPES = {
    "f16": tl.float16, "bf16": tl.bfloat16, "f32": tl.float32, "f64": tl.float64, "i1": tl.int1,
    "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64, "u8": tl.uint8,
    "u32": tl.uint32, "u64": tl.uint64, "f8e4m3": tl.float8e4nv, "f8e5m2": tl.float8e5,
}  # fmt: skip
UNSUPPORTED: tuple[type[Exception], ...] = ()
"""Triton has no exception of its own for what a target lacks."""

_SHAPE = re.compile(r"tensor<((?:\d+x)+)")
_WARP_SIZE = 32
_CAPABILITIES = (80, 90, 100)
_DIVISIBLE = [["tt.divisibility", 16]]


def toolchain() -> str:
    """Versions of everything that decides what the compiler writes; ptxas comes with Triton."""
    return f"triton=={triton.__version__}"


def warm() -> None:
    """Load what the first compile would load, and let Triton digest itself: the name that it gives
    to a result holds its own sha256, of half a gigabyte, and the version of ptxas. Both are
    remembered per process, so that a forked child that had to find them would do so each time.
    """
    triton_key()
    for capability in _CAPABILITIES:
        backend = make_backend(GPUTarget("cuda", capability, _WARP_SIZE))
        backend.get_module_map()
        backend.hash()


class _Source(ASTSource):  # type: ignore[misc]
    """A source whose module is made once: what is digested is what is compiled."""

    _made: Any = None

    def make_ir(self, *arguments: Any) -> Any:
        """The module as the first call made it; the context, the last argument, lives with it."""
        if self._made is None:
            self._made = super().make_ir(*arguments), arguments[-1]
        return self._made[0]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel with its signature, ready for the compiler."""

    source: ASTSource
    target: GPUTarget
    options: dict[str, Any]


def prepare(job: CompileJob, module: ModuleType) -> Prepared:
    """The kernel that `module`, the executed text of the job, defines, and its native signature."""
    function = getattr(module, job.kernel)
    types = {argument.name: _type(argument) for argument in job.signature.arguments}
    constants = {a.name: _value(a) for a in job.signature.arguments if types[a.name] == "constexpr"}
    aligned = {
        (index,): _DIVISIBLE
        for index, argument in enumerate(job.signature.arguments)
        if argument.kind is ArgumentKind.POINTER or types[argument.name] in ("i32", "i64")
    }
    source = _Source(function, types, constants, aligned)
    target = GPUTarget("cuda", int(job.target.removeprefix("sm_")), _WARP_SIZE)
    return Prepared(source, target, dict(job.signature.options))


def _type(argument: Argument) -> str | tuple[str, ...]:
    match argument.kind:
        case ArgumentKind.POINTER_TUPLE:
            return (f"*{_NATIVE[argument.dtype]}",) * argument.shape[0]
        case ArgumentKind.POINTER:
            return f"*{_NATIVE[argument.dtype]}"
        case ArgumentKind.SCALAR:
            return _NATIVE[argument.dtype]
        case ArgumentKind.DESCRIPTOR:
            return f"tensordesc<{_NATIVE[argument.dtype]}{list(argument.shape)}>"
        case ArgumentKind.CONSTEXPR | ArgumentKind.DTYPE:
            return "constexpr"
    raise ValueError(f"Triton has no parameter of kind {argument.kind}")


def _value(argument: Argument) -> object:
    return _DTYPES[argument.dtype] if argument.kind is ArgumentKind.DTYPE else argument.value


def front_end(prepared: Prepared) -> FrontEnd:
    """Of the TTIR text without locations; what the compiler raises goes through."""
    backend = make_backend(prepared.target)
    options = backend.parse_options({**prepared.options, **prepared.source.parse_options()})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = prepared.source.make_ir(
        prepared.target,
        options,
        backend.get_codegen_implementation(options),
        backend.get_module_map(),
        context,
    )
    text = module.str_nodebug().replace(f"@{prepared.source.name}(", "@kernel(")
    digest = hashlib.sha256(f"{options.hash()}\n{text}".encode()).hexdigest()
    return FrontEnd(digest, _work(text, options.num_warps * _WARP_SIZE))


def _work(text: str, threads: int) -> int:
    """Values that each thread computes: the last tensor type of a line is that of its result."""
    count = 0
    for line in text.splitlines():
        shapes = _SHAPE.findall(line)
        elements = prod(map(int, shapes[-1].split("x")[:-1])) if shapes else 1
        count += max(1, elements // threads)
    return count


def machine_code(prepared: Prepared) -> MachineCode:
    """Compile to machine code; shared memory is what Triton asks for at launch."""
    compiled = triton.compile(prepared.source, target=prepared.target, options=prepared.options)
    found = from_binary(compiled.asm["cubin"])
    return replace(found, shared_bytes=compiled.metadata.shared)

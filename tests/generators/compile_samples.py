"""Small kernels that the compile tests share."""

from __future__ import annotations

from pathlib import Path

from generators.compile_model import Argument, ArgumentKind, CompileJob, Signature

TRITON = """
import triton
import triton.language as tl

@triton.jit
def scale(X, Y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + at, tl.load(X + at, mask=at < n) * factor, mask=at < n)
"""
CUTILE = """
import cuda.tile as ct

@ct.kernel
def scale(X, Y, factor: float, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(Y, index=(i,), tile=ct.load(X, index=(i,), shape=(TILE,)) * factor)
"""


def argument(name: str, kind: ArgumentKind, dtype: str = "", **more: object) -> Argument:
    """An argument in one line."""
    return Argument(name=name, kind=kind, dtype=dtype, **more)  # type: ignore[arg-type]


TRITON_SIGNATURE = Signature(
    arguments=(
        argument("X", ArgumentKind.POINTER, "f32"),
        argument("Y", ArgumentKind.POINTER, "f32"),
        argument("n", ArgumentKind.SCALAR, "i32"),
        argument("factor", ArgumentKind.SCALAR, "f32"),
        argument("BLOCK", ArgumentKind.CONSTEXPR, value=64),
    )
)
CUTILE_SIGNATURE = Signature(
    arguments=(
        argument("X", ArgumentKind.ARRAY, "f32", rank=1),
        argument("Y", ArgumentKind.ARRAY, "f32", rank=1),
        argument("factor", ArgumentKind.SCALAR, "f32"),
        argument("TILE", ArgumentKind.CONSTEXPR, value=64),
    )
)


def job(dialect: str, text: str = "", *, target: str = "sm_90") -> CompileJob:
    """Compile the sample of a dialect, or another text with the same signature."""
    sample, signature = (
        (TRITON, TRITON_SIGNATURE) if dialect == "triton" else (CUTILE, CUTILE_SIGNATURE)
    )
    return CompileJob(
        dialect=dialect, text=text or sample, kernel="scale", signature=signature, target=target
    )


HANG = "while True:\n    pass\n"
CRASH = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
GREEDY = "held = bytearray(1 << 45)\n"
HERE = Path(__file__).parent

"""What expressions say without a scope: constants, conversions, arithmetic, limits of formats."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable

MAX_INTEGER_BITS = 256

_BINARY: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}
_MATH: dict[str, Callable[[float], float]] = {
    name: getattr(math, name)
    for name in ("log", "log2", "log10", "sqrt", "exp", "sin", "cos", "tanh", "floor", "ceil")
}
LIBRARY_CONSTANTS: dict[str, float | None] = {
    "math.inf": math.inf, "math.pi": math.pi, "math.e": math.e, "math.nan": math.nan,
    "torch.inf": math.inf, "numpy.inf": math.inf, "torch.pi": math.pi,
    "torch.version.hip": None, "torch.version.xpu": None,
}  # fmt: skip
"""Values of libraries; those of `torch.version` on a machine with NVIDIA GPUs."""

_LIMITS: dict[tuple[str, str], float | int] = {
    ("float32", "max"): 3.4028234663852886e38, ("float32", "min"): -3.4028234663852886e38,
    ("float32", "eps"): 1.1920928955078125e-07, ("float32", "tiny"): 1.1754943508222875e-38,
    ("float16", "max"): 65504.0, ("float16", "min"): -65504.0,
    ("bfloat16", "max"): 3.3895313892515355e38, ("bfloat16", "min"): -3.3895313892515355e38,
    ("float8_e4m3fn", "max"): 448.0, ("float8_e4m3fn", "min"): -448.0,
    ("float8_e4m3fn", "tiny"): 2.0**-6,
    ("float8_e5m2", "max"): 57344.0, ("float8_e5m2", "min"): -57344.0,
    ("float8_e5m2", "tiny"): 2.0**-14,
} | {
    (f"int{bits}", end): value
    for bits in (8, 16, 32, 64)
    for end, value in (("max", 2 ** (bits - 1) - 1), ("min", -(2 ** (bits - 1))))
}  # fmt: skip
"""Largest, smallest and smallest normal numbers of the IEEE, OCP FP8 and integer formats."""


def environment_default(node: ast.expr) -> object:
    """A constant, or the default of a look-up of the environment."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Call(
            func=ast.Attribute(attr="get" | "getenv"), args=[_, ast.Constant(value=value)]
        ):
            return value
    return None


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def converted(name: str, value: object) -> object:
    if name == "float" and isinstance(value, int | float | str):
        try:
            return float(value)
        except ValueError:
            return None
    return int(value) if name == "int" and isinstance(value, int | bool) else None


def computed(op: ast.operator, left: object, right: object) -> object:
    """Arithmetic on two numbers; None when it has no value or a very large one."""
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        return None
    if isinstance(op, ast.Pow | ast.LShift) and abs(right) > MAX_INTEGER_BITS:
        return None
    function = _BINARY.get(type(op))
    try:
        return function(left, right) if function else None
    except (ArithmeticError, TypeError, ValueError):
        return None


def of_library(path: str, value: object) -> object:
    """A function of `math` on a number, or a wrapper such as a constexpr constructor; else None."""
    head, _, name = path.rpartition(".")
    if head in ("math", "numpy") and name in _MATH and isinstance(value, int | float):
        try:
            return _MATH[name](value)
        except ValueError:
            return None
    return value if name == "constexpr" else None


def limit(function: str, dtype: str, member: str) -> float | int | None:
    """`finfo(dtype).max` and its kin, by the paths of function and dtype."""
    if function.rpartition(".")[2] not in ("finfo", "iinfo"):
        return None
    return _LIMITS.get((dtype.rpartition(".")[2], member))

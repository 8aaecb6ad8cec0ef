"""What every Python-hosted dialect shares: builtins that kernels may call."""

from __future__ import annotations

from kb.dialects.model import Row
from kb.ops import OpKind

BUILTINS: tuple[Row, ...] = (
    Row("range", OpKind.RANGE, "low high step"),
    Row("max", OpKind.MAXIMUM, "lhs rhs"),
    Row("min", OpKind.MINIMUM, "lhs rhs"),
    Row("abs", OpKind.ABS, "x"),
    Row("pow", OpKind.POW, "lhs rhs"),
    Row("len", OpKind.BUILTIN, "x"),
    Row("float", OpKind.BUILTIN, "x"),
    Row("int", OpKind.BUILTIN, "x"),
    Row("bool", OpKind.BUILTIN, "x"),
    Row("tuple", OpKind.BUILTIN, "x"),
    Row("sum", OpKind.BUILTIN, "x"),
    Row("isinstance", OpKind.BUILTIN, "x y"),
    Row("hasattr", OpKind.BUILTIN, "x y"),
    Row("getattr", OpKind.BUILTIN, "x y z"),
    Row("print", OpKind.DEVICE_PRINT, "*values * sep end"),
)

"""Which branches of `#if` a target compiles, as far as file and profile say."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from extractors.cuda.macros import Macro
from extractors.syntax.builtin_parser import python_expression

_COMPILER = {
    "__CUDACC__": 1, "__NVCC__": 1, "__CUDACC_VER_MAJOR__": 13, "__CUDACC_VER_MINOR__": 0,
    "CUDART_VERSION": 13000, "CUDA_VERSION": 13000, "CUTE_ARCH_CP_ASYNC_SM80_ENABLED": 1,
    "CUTE_ARCH_LDSM_SM75_ENABLED": 1, "CUTE_ARCH_MMA_SM80_ENABLED": 1,
    "__cplusplus": 201703, "__SIZEOF_INT128__": 16,
}  # fmt: skip
_ABSENT = frozenset(
    {
        "USE_ROCM", "__HIP_PLATFORM_AMD__", "__HIPCC__", "__HIP_DEVICE_COMPILE__", "_MSC_VER",
        "_WIN32", "WIN32", "__clang__", "__CUDACC_RTC__", "USE_MUSA", "__INTELLISENSE__", "DEBUG",
        "CUTLASS_ENABLE_SYNCLOG", "FLASHINFER_ENABLE_PROFILER", "__CUDA_ARCH_FAMILY_SPECIFIC__",
    }
)  # fmt: skip
OTHERS = re.compile(r"(?:\b|_)(?:HIP|ROCM|MUSA)(?:CC)?(?:\b|_)")
"""The words for other makers' devices in names that packages set for them, as MMCV_WITH_HIP.
Source: HIP porting guide; PyTorch, torch/headeronly/macros."""

_FEATURES = frozenset(f"__CUDA_ARCH_FEAT_SM{number}_ALL" for number in (90, 100, 120))


@dataclass(frozen=True, slots=True)
class Profile:
    """What a compiler for one target defines, and what it surely does not: other compilers'
    names, other targets' features, switches of logs that are off unless asked for.

    Source: CUDA C++ Programming Guide 13.0, NVCC predefined macros; CUTLASS, cute/arch/config.hpp.
    """

    target: str
    defined: Mapping[str, int]
    absent: frozenset[str]


def _profile(number: int) -> Profile:
    feature = f"__CUDA_ARCH_FEAT_SM{number}_ALL"
    defined = {"__CUDA_ARCH__": number * 10, feature: 1, **_COMPILER}
    return Profile(f"sm_{number}", defined, _ABSENT | (_FEATURES - {feature}))


HOPPER, BLACKWELL = _profile(90), _profile(100)

_Names = tuple[Mapping[str, Macro], Profile]

MAX_CONDITION = 2_000
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_INTEGER = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]*\b")
_NAME = re.compile(r"[A-Za-z_]\w*")


def known(name: str, macros: Mapping[str, Macro], profile: Profile) -> bool | None:
    """Whether a name is defined; None when nothing tells."""
    if name in macros or name in profile.defined:
        return True
    return False if name in profile.absent or OTHERS.search(name) else None


def holds(condition: str, macros: Mapping[str, Macro], profile: Profile) -> bool | None:
    """Value of the condition of an `#if`; None when it rests on something unknown."""
    if len(condition) > MAX_CONDITION:
        return None
    text = _DEFINED.sub(
        lambda m: f" {known(m.group(1) or m.group(2), macros, profile)} ", condition
    )
    text = _INTEGER.sub(
        lambda m: str(int(m.group(1), 0 if "x" in m.group(1).lower() else 10)), text
    )
    text = text.replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"!(?!=)", " not ", text).strip()
    try:
        return _truth(_value(python_expression(text), (macros, profile)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _truth(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _value(node: ast.expr, names: _Names) -> int | None:
    match node:
        case ast.Constant(value=int() as value):
            return int(value)
        case ast.Name(id=name):
            return _named(name, *names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _value(operand, names)
            return None if inner is None else int(not inner)
        case ast.BoolOp(op=op, values=values):
            return _logic(isinstance(op, ast.Or), [_value(v, names) for v in values])
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(op, _value(left, names), _value(right, names))
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(op, _value(left, names), _value(right, names))
    return None


def _named(name: str, macros: Mapping[str, Macro], profile: Profile) -> int | None:
    if name in profile.defined:
        return profile.defined[name]
    found = macros.get(name)
    if found is not None and found.parameters is None and found.body:
        number = _INTEGER.fullmatch(found.body.strip("() "))
        return int(number.group(1), 0) if number else None
    return 0 if name in profile.absent or OTHERS.search(name) else None


def _logic(either: bool, values: list[int | None]) -> int | None:
    if any(value is not None and bool(value) is either for value in values):
        return int(either)
    return None if None in values else int(not either)


def _compared(op: ast.cmpop, left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return None
    match op:
        case ast.Eq():
            return int(left == right)
        case ast.NotEq():
            return int(left != right)
        case ast.Lt():
            return int(left < right)
        case ast.LtE():
            return int(left <= right)
        case ast.Gt():
            return int(left > right)
        case ast.GtE():
            return int(left >= right)
    return None


def _computed(op: ast.operator, left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return None
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
    return None

"""Values of the reference interpreter: tiles with a dtype name, pointers, views, constants.

A plain Python number is a compile-time constant without a dtype of its own; it takes that of the
tile that it meets. What NumPy lacks (bf16, tf32, fp8) is held in float32 and rounded when made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb.errors import InputError
from kb.ir import Span

Array = NDArray[Any]

MAX_ELEMENTS = 1 << 24
"""Elements of one tile."""

STORAGE: dict[str, type[np.generic]] = {
    "f16": np.float16, "bf16": np.float32, "tf32": np.float32, "f32": np.float32,
    "f64": np.float64, "f8e4m3": np.float32, "f8e5m2": np.float32, "i1": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
_WIDTH = {
    "i1": 1, "i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64,
    "f8e4m3": 8, "f8e5m2": 8, "bf16": 15, "f16": 16, "tf32": 19, "f32": 32, "f64": 64,
}  # fmt: skip
_MANTISSA = {"bf16": 7, "tf32": 10, "f8e4m3": 3, "f8e5m2": 2}
_LIMITS = {"f8e4m3": 448.0, "f8e5m2": 57344.0}
_SMALLEST = {"f8e4m3": 2.0**-6, "f8e5m2": 2.0**-14}


class EvaluationError(InputError):
    """A program that does what no machine defines (an access outside an array), or past a bound."""


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype as a value of the program."""

    name: str


@dataclass(frozen=True, slots=True)
class PointerType:
    """The type of a pointer as a value of the program."""

    element: str


@dataclass(frozen=True, slots=True)
class Enumerated:
    """A member of an enumeration, such as `padding.zero`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """A tile, or a scalar when `data` has no axis."""

    data: Array
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.data.shape


@dataclass(frozen=True, slots=True, eq=False)
class ArrayView:
    """A global array, or a part of one; writes go through to the argument."""

    data: Array
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class TiledView:
    """An array cut into tiles, each `steps` elements from the one before."""

    array: ArrayView
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    padding: str


@dataclass(frozen=True, slots=True)
class Section:
    """A run of `length` indices that begins at `start`."""

    start: int
    length: int


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """Pointers into one buffer, in elements."""

    buffer: Array
    dtype: str
    offsets: Array


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A tensor descriptor or a block pointer: where the tensor lies, its extents and the block."""

    base: Pointer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    offsets: tuple[int, ...]
    padding: str = "zero"


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function handed on as a value: a helper of the program or a native operation."""

    callee: str = ""
    native: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a loop counts through."""

    low: int
    high: int
    step: int
    dtype: str | None


def is_float(dtype: str) -> bool:
    """True for floating-point dtype names."""
    return dtype[0] in "fbt"


def is_constant(value: object) -> bool:
    """True for a compile-time number, text or None."""
    return value is None or isinstance(value, bool | int | float | str)


def rounded(data: Array, dtype: str) -> Array:
    """Data as `dtype` stores it: rounded to nearest even, integers wrapped."""
    if dtype not in STORAGE:
        raise EvaluationError(f"dtype {dtype} is not evaluated.", hint="Use f16, f32 or integers.")
    storage: Any = STORAGE[dtype]
    if dtype in _MANTISSA:
        return _shortened(np.asarray(data, np.float32), dtype)
    data = np.asarray(data)
    if storage is np.bool_:
        return np.not_equal(data, 0)
    if np.issubdtype(storage, np.integer) and np.issubdtype(data.dtype, np.floating):
        whole = np.trunc(data.astype(np.float64))
        clean = np.nan_to_num(whole, nan=0.0, posinf=2.0**62, neginf=-(2.0**62))
        wide = np.clip(clean, -(2.0**63), 2.0**63 - 1024).astype(np.int64)
        return np.asarray(wide.astype(storage))
    return np.asarray(data.astype(storage))


def _shortened(data: Array, dtype: str) -> Array:
    """Round float32 to fewer mantissa bits; small formats saturate."""
    keep = _MANTISSA[dtype]
    smallest = _SMALLEST.get(dtype)
    if smallest is not None:
        scale: Array = np.exp2(np.floor(np.log2(np.maximum(np.abs(data), smallest)))) / 2.0**keep
        short = np.rint(data / scale) * scale
        limit = _LIMITS[dtype]
        return np.where(np.isnan(data), data, np.clip(short, -limit, limit)).astype(np.float32)
    drop = 23 - keep
    bits = np.ascontiguousarray(data).view(np.uint32).astype(np.uint64)
    odd = (bits >> np.uint64(drop)) & np.uint64(1)
    bits = bits + np.uint64((1 << (drop - 1)) - 1) + odd
    bits = (bits >> np.uint64(drop)) << np.uint64(drop)
    short = (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32).reshape(data.shape)
    return np.where(np.isfinite(data), short, data)


def tile(data: object, dtype: str) -> Tile:
    """A tile of `dtype`; raises EvaluationError when it is larger than a tile may be."""
    array = np.asarray(data)
    if array.size > MAX_ELEMENTS:
        raise EvaluationError(
            f"a tile of {array.size} elements; {MAX_ELEMENTS} are evaluated.",
            hint="Use smaller tiles.",
        )
    return Tile(rounded(array, dtype), dtype)


def constant_dtype(value: object) -> str:
    """Dtype of a compile-time number that meets no tile."""
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    if isinstance(value, float):
        return "f32"
    raise EvaluationError(f"{value!r} is no number.", hint="Give a number or a tile.")


def from_constant(value: object, dtype: str | None = None) -> Tile:
    """A compile-time number as a scalar tile."""
    dtype = dtype or constant_dtype(value)
    if isinstance(value, int) and not is_float(dtype):
        wrapped = int(value) & (2**64 - 1)
        return tile(np.array(wrapped, np.uint64), dtype)
    return tile(np.array(value, np.float64), dtype)


def as_tile(value: object, dtype: str | None = None) -> Tile:
    """A tile from a tile or a constant; with `dtype`, converted to it."""
    if isinstance(value, Tile):
        return value if dtype in (None, value.dtype) else tile(value.data, str(dtype))
    return from_constant(value, dtype)


def dtype_of_numpy(data: Array) -> str:
    """Dtype name of a NumPy array."""
    for name, storage in STORAGE.items():
        if data.dtype == storage and name not in _MANTISSA:
            return name
    raise EvaluationError(f"NumPy dtype {data.dtype} is not evaluated.", hint="Use f16 or f32.")


def promoted(one: str, other: str) -> str:
    """Common dtype of two tiles."""
    if one == other:
        return one
    if is_float(one) != is_float(other):
        return one if is_float(one) else other
    if _WIDTH[one] == _WIDTH[other]:
        return one if one[0] == "u" else other
    wide, narrow = (one, other) if _WIDTH[one] > _WIDTH[other] else (other, one)
    return "f32" if {wide, narrow} == {"f16", "bf16"} else wide


def common(one: object, other: object) -> str:
    """Dtype in which two operands meet; a constant takes the dtype of the tile it meets."""
    if isinstance(one, Tile) and isinstance(other, Tile):
        return promoted(one.dtype, other.dtype)
    if isinstance(one, Tile) or isinstance(other, Tile):
        held, loose = (one, other) if isinstance(one, Tile) else (other, one)
        assert isinstance(held, Tile)
        if isinstance(loose, float) and not is_float(held.dtype):
            return "f32"
        if isinstance(loose, int) and not isinstance(loose, bool) and held.dtype == "i1":
            return "i32"
        return held.dtype
    return promoted(constant_dtype(one), constant_dtype(other))


def integer(value: object, span: Span) -> int:
    """A whole number, from a constant or a scalar tile."""
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float) and value == int(value):
        return int(value)
    if isinstance(value, Tile) and value.data.size == 1:
        return int(value.data.reshape(()))
    raise EvaluationError("an integer is needed here.", where=str(span), hint="See its operand.")


def integers(value: object, span: Span) -> tuple[int, ...]:
    """Whole numbers from a tuple; a lone one counts as a tuple of one."""
    items = value if isinstance(value, tuple | list) else (value,)
    return tuple(integer(item, span) for item in items)

"""Types and functions of libraries for CUDA whose headers are not read: what they are, in words of
the language."""

from __future__ import annotations

_COUNTS = (2, 3, 4)

TEMPLATE_VECTORS: dict[str, tuple[int, int]] = {
    "cutlass::Array": (0, 1), "cutlass::AlignedArray": (0, 1), "cute::array": (0, 1),
    "cute::array_aligned": (0, 1), "glm::vec": (1, 0),
}  # fmt: skip
"""Types of so many elements of a type: which of their arguments is the type, and which the number.
Source: CUTLASS, array.h; OpenGL Mathematics, detail/type_vec3.hpp."""

NAMED_VECTORS: dict[str, tuple[str, int]] = {
    f"glm::{short}vec{count}": (dtype, count)
    for short, dtype in (("", "f32"), ("f", "f32"), ("d", "f64"), ("i", "i32"), ("u", "u32"))
    for count in _COUNTS
}
"""Vectors with names of their own: element type and number of elements. Source: OpenGL
Mathematics, fwd.hpp."""

POINTED: dict[str, tuple[int, ...]] = {
    **{f"glm::make_vec{count}": (count,) for count in _COUNTS},
    **{f"glm::make_mat{count}": (count, count) for count in _COUNTS},
}
"""Functions that read the elements behind a pointer, one by one, with how many there are. Source:
OpenGL Mathematics, gtc/type_ptr.hpp."""

CONVERTERS = frozenset({"cutlass::NumericArrayConverter", "cutlass::NumericConverter"})
"""Structs that convert what they are called with to their first argument. Source: CUTLASS,
numeric_conversion.h."""

BY_VALUE = frozenset({
    "at::cuda::philox::unpack", "philox::unpack", *POINTED,
    *(f"glm::{name}" for name in (
        "dot", "cross", "length", "normalize", "distance", "transpose", "inverse", "determinant",
        "outerProduct", "max", "min", "abs", "clamp", "mix", "exp", "sqrt", "value_ptr",
    )),
})  # fmt: skip
"""Functions of other libraries that take their arguments by value and write none. Source: PyTorch,
ATen/cuda/detail/UnpackRaw.cuh; OpenGL Mathematics, geometric.hpp, matrix.hpp, common.hpp."""

_FLOATS = ("kFloat", "kDouble")
_WHOLE = ("kByte", "kChar", "kInt", "kLong", "kShort")

DISPATCHES = {
    "AT_DISPATCH_FLOATING_TYPES": (_FLOATS, 0),
    "AT_DISPATCH_FLOATING_TYPES_AND_HALF": ((*_FLOATS, "kHalf"), 0),
    "AT_DISPATCH_FLOATING_TYPES_AND": (_FLOATS, 1),
    "AT_DISPATCH_FLOATING_TYPES_AND2": (_FLOATS, 2),
    "AT_DISPATCH_FLOATING_TYPES_AND3": (_FLOATS, 3),
    "AT_DISPATCH_REDUCED_FLOATING_TYPES": (("kHalf", "kBFloat16"), 0),
    "AT_DISPATCH_INTEGRAL_TYPES": (_WHOLE, 0),
    "AT_DISPATCH_ALL_TYPES": ((*_WHOLE, *_FLOATS), 0),
    "AT_DISPATCH_ALL_TYPES_AND": ((*_WHOLE, *_FLOATS), 1),
    "AT_DISPATCH_ALL_TYPES_AND2": ((*_WHOLE, *_FLOATS), 2),
    "AT_DISPATCH_ALL_TYPES_AND3": ((*_WHOLE, *_FLOATS), 3),
}
"""Macros that call a function for the element type of a tensor and stop for others, with those
types, and how many more they are given first. Source: PyTorch, ATen/Dispatch.h."""

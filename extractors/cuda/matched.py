"""What a tensor must be like that the host compares with a description: extents, types, layout."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.cuda import nodes as n
from extractors.cuda.render import shown

MATCHERS = {"TensorMatcher": "verify"}
"""Structs of what a tensor must be like, with the method that stops where one is not. Source:
SGLang, sgl_kernel/tensor.h."""

_TYPES = {"bf16_t": "bfloat16", "fp16_t": "float16", "fp32_t": "float32", "float": "float32",
          "double": "float64", "int": "int32", "int32_t": "int32", "int64_t": "int64",
          "int8_t": "int8", "uint8_t": "uint8", "fp8_e4m3_t": "float8_e4m3fn",
          "fp8_e5m2_t": "float8_e5m2"}  # fmt: skip
"""Element types as a description names them. Source: SGLang, sgl_kernel/utils.cuh."""

_FREE = frozenset({"-1", "kAnySize", "kNullSize"})
"""Extents that may be anything."""


def linked(node: n.Expr) -> list[n.Expr]:
    """What is called in a chain of methods, the last one first, the function that begins it at the
    end."""
    return [one.function for one in _calls(node)] or [node]


def matches(node: object) -> bool:
    """Whether a call compares a tensor with a description."""
    if not isinstance(node, n.Call) or not isinstance(node.function, n.Field):
        return False
    begun = shown(linked(node)[-1]).rpartition("::")[2]
    return MATCHERS.get(begun) == node.function.name


def matched(node: n.Expr) -> str:
    """What holds of the tensor of such a call after it; those of calls before it in the chain have
    their own."""
    calls = _calls(node)
    said = {c.function.name: c for c in calls if isinstance(c.function, n.Field)}
    tensor = shown(calls[0].arguments[0]) if calls[0].arguments else ""
    return " and ".join(_of(tensor, calls[-1], said)) if tensor else ""


def _of(tensor: str, begun: n.Call, said: dict[str, n.Call]) -> Iterator[str]:
    """What one tensor must be like."""
    for axis, extent in enumerate(_items(begun)):
        if (text := shown(extent)) not in _FREE and "?" not in text:
            yield f"{tensor}.shape[{axis}] == {text}"
    typed = said.get("with_dtype")
    given = typed.function.arguments if typed and isinstance(typed.function, n.Field) else ()
    names = [shown(one) for one in given]
    types = [f"{tensor}.dtype == {_type(one)}" for one in names]
    if types:
        yield types[0] if len(types) == 1 else f"({' or '.join(types)})"
    strides = _items(said["with_strides"]) if "with_strides" in said else ()
    if "with_strides" not in said or [shown(one) for one in strides[-1:]] == ["1"]:
        yield f"{tensor}.stride[-1] == 1"


def _type(name: str) -> str:
    last = name.rpartition("::")[2]
    return f"torch.{_TYPES[last]}" if last in _TYPES else name


def _items(call: n.Call) -> tuple[n.Expr, ...]:
    given = call.arguments[0] if len(call.arguments) == 1 else None
    return given.items if isinstance(given, n.Braces) else call.arguments


def _calls(node: n.Expr) -> list[n.Call]:
    """The calls of a chain of methods, the last one first."""
    found: list[n.Call] = []
    while isinstance(node, n.Call):
        found.append(node)
        node = node.function.operand if isinstance(node.function, n.Field) else node.function
    return found

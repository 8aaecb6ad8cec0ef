"""What the source declares a value to be, where rules of operations know less or other."""

from __future__ import annotations

from kb.ir import Op, TileType, TypeKind, Value
from kb.ops import OpKind

_POINTERS = (TypeKind.ARRAY, TypeKind.POINTER)
_OPEN = ("?", "dtypeof")


def as_declared(found: TileType, written: Op) -> TileType:
    """A number has the element type that the source declares where rules tell none, a load always:
    it gives what it is declared to, whatever the pointer was before. What is moved by a number from
    where nobody knows is an address."""
    declared = written.results[0].type
    if declared is None or declared.kind not in (*_POINTERS, TypeKind.SCALAR, TypeKind.TILE):
        return found
    if declared.kind in _POINTERS:
        moves = written.kind in (OpKind.ADD, OpKind.SUB) and found.kind not in _POINTERS
        return TileType(declared.kind, declared.dtype, found.shape) if moves else found
    loads, told = written.kind == OpKind.LOAD, found.dtype != "?"
    scalar = declared.kind is TypeKind.SCALAR
    if declared.dtype == "?" or (told and not (loads and scalar)) or not (loads or scalar):
        return found
    return shaped(declared.dtype, found.shape)


def carried_as(found: TileType, argument: Value) -> TileType:
    """What a loop carries has the float type that the source declares, where it begins with a value
    of a type that a parameter leaves open: a cast that the template may need stands between."""
    declared = argument.type
    floats = declared is not None and declared.dtype in ("f32", "f64")
    if declared is None or not floats or not found.dtype.startswith(_OPEN):
        return found
    if declared.kind not in (TypeKind.SCALAR, TypeKind.TILE):
        return found
    return shaped(declared.dtype, found.shape)


def shaped(dtype: str, shape: tuple[str, ...]) -> TileType:
    """A tile, or a number where there is no shape."""
    return TileType(TypeKind.TILE if shape else TypeKind.SCALAR, dtype, shape)

"""What an access of a thread moves, as far as the program tells."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.ir import ParameterKind, TileType, TypeKind
from kb.ops import OpKind

NUMBERS = {"f64": 64, "i64": 64, "u64": 64, "f32": 32, "i32": 32, "u32": 32, "f16": 16, "bf16": 16,
           "i16": 16, "u16": 16, "i8": 8, "u8": 8, "f8e4m3": 8, "f8e5m2": 8}  # fmt: skip
"""Bits of the types of numbers."""

MOVING = CASTS | COPIES | {OpKind.ADD, OpKind.POINTER_CAST}
"""Steps on the way to an address."""

_TAKING = CASTS | {OpKind.MINIMUM, OpKind.MAXIMUM, OpKind.INSERT, OpKind.IF_EXPRESSION}


def taken_apart(facts: Facts, node: Node, moved: TileType | None) -> TileType | None:
    """What moves: a register array, where its bits move as one number of a type of its own."""
    graph = facts.threads
    if moved is None or moved.shape:
        return moved
    if node.op.kind == OpKind.LOAD:
        casts = [n for n in graph.users(node.result) if n.op.kind == OpKind.BITCAST]
        kinds = [n.op.results[0].type for n in casts]
    else:
        made = graph.producer(node.op.operand("value"))
        casts = [made] if made is not None and made.op.kind == OpKind.BITCAST else []
        kinds = [type_of(facts, n.op.inputs[0]) for n in casts]
    return next((k for k in kinds if k is not None and k.kind == TypeKind.TILE and k.shape), moved)


def as_one(facts: Facts, node: Node) -> TileType | None:
    """One number, where what is loaded is converted to one, compared with one, or held as one."""
    users = facts.threads.users(node.result)
    for user in users:
        owner = user.parent if user.op.kind == OpKind.YIELD else None
        if owner is not None and owner.op.kind == OpKind.IF_EXPRESSION:
            user = owner
        kind = user.op.results[0].type if user.op.results else None
        if kind is None or user.op.kind not in _TAKING:
            continue
        held = user.op.kind == OpKind.INSERT and len(kind.shape) == 1
        if kind.kind == TypeKind.SCALAR or held:
            return TileType(TypeKind.SCALAR)
    return None


def type_of(facts: Facts, value: str) -> TileType | None:
    made = facts.threads.producer(value)
    rows = made.op.results if made is not None else ()
    return next((row.type for row in rows if row.name == value), None)


def given_number(facts: Facts, value: str | None) -> bool:
    """Whether a value is a number that the kernel is handed."""
    own = next((p for p in facts.threads.function.parameters if p.name == value), None)
    return own is not None and own.kind is ParameterKind.SCALAR and own.annotation in NUMBERS


def is_packed(facts: Facts, node: Node) -> bool:
    """Whether what moves under a type of its own, known where the kernel is compiled, is a field
    whose elements another field names, or lies in an array of registers that is seen as it."""
    graph = facts.threads
    address = graph.upstream(node.op.inputs[0], lambda n: n.op.kind not in MOVING)
    shared = node.op.attribute("space") == "shared"
    if shared or not any(n.op.kind == OpKind.POINTER_CAST for n in address):
        return False
    if _seen_as_one(facts, node):
        return True
    if node.op.kind == OpKind.STORE:
        field = graph.producer(node.op.operand("value"))
        if field is None or field.op.kind != OpKind.ATTRIBUTE:
            return False
        above = graph.upstream(field.op.inputs[0])
        return any(n.op.kind == OpKind.INSERT and n.op.operand("index") for n in above)
    users = graph.users(node.result)
    if not any(n.op.kind == OpKind.INSERT and n.op.attribute("name") for n in users):
        return False
    below = graph.downstream(node.result, 400)
    return any(n.op.kind == OpKind.EXTRACT and n.op.operand("index") for n in below)


def _seen_as_one(facts: Facts, node: Node) -> bool:
    """Whether what moves goes to, or comes from, an array of several registers that is seen as an
    array of such as move."""
    graph = facts.threads
    beside: list[Node | None] = list(graph.users(node.result)) if node.op.results else []
    if node.op.kind == OpKind.STORE:
        beside = [graph.producer(node.op.operand("value"))]
    for one in beside:
        if one is not None and one.op.kind in (OpKind.INSERT, OpKind.EXTRACT):
            seen = graph.producer(one.op.inputs[0])
            kept = type_of(facts, seen.op.inputs[0]) if seen and seen.op.inputs else None
            if seen is not None and seen.op.kind == OpKind.BITCAST and kept and kept.shape:
                return True
    return False

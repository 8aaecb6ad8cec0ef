"""Where a computed tile becomes numbers of eight bits or fewer."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.ops import OpKind

FEW_BITS = frozenset(
    {"i4", "u4", "i8", "u8", "f8e4m3", "f8e5m2", "f8e4b8", "f8e4b15", "f4e2m1", "f6e2m3"}
)
_HELD = frozenset({OpKind.MINIMUM, OpKind.MAXIMUM, OpKind.CLAMP, OpKind.FLOOR, OpKind.EXTERN_MATH})
_SCALES = frozenset({OpKind.MUL, OpKind.DIV})


def narrowed(facts: Facts) -> list[tuple[Node, Node]]:
    """Casts of a scaled value to few bits, each with the product or quotient that scales it."""
    found = []
    for cast in facts.graph.of(OpKind.CAST):
        types = {*facts.types.dtype(cast.result).split("|")}
        few = types <= FEW_BITS or _of_bytes(cast)
        if few and facts.stored_in(cast.result):
            made = _below(facts, cast.op.inputs[0])
            if made is not None and made.kind in _SCALES:
                found.append((cast, made))
    return found


def _of_bytes(cast: Node) -> bool:
    """Whether an instruction converts to numbers of one byte, whatever register takes them."""
    opcode = cast.op.attribute("opcode")
    parts = opcode.split(".") if isinstance(opcode, str) else []
    return len(parts) > 2 and parts[-2] in ("s8", "u8")


def _below(facts: Facts, value: str) -> Node | None:
    """What makes a value, below bounds and roundings."""
    made = facts.graph.producer(facts.graph.through(value, VIEWS | CASTS))
    for _ in range(6):
        if made is None or made.kind not in _HELD:
            break
        moving = [v for v in made.op.inputs if facts.number(v) is None]
        if not moving:
            return None
        made = facts.graph.producer(facts.graph.through(moving[0], VIEWS | CASTS))
    return made

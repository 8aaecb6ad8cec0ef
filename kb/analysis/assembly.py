"""What inline assembly says: the instructions of a PTX text with their modifiers."""

from __future__ import annotations

import re

from kb.analysis.graph import Node
from kb.analysis.values import Values
from kb.ops import OpKind

MAX_CHARS = 20_000
"""Characters of a text that are looked at."""

_INSTRUCTION = re.compile(r"(?:^|[;{}\n\t ])(?:@!?%?\w+\s+)?([a-z][a-z0-9]*)((?:\.[a-z0-9_:]+)+)")


def instructions(node: Node, values: Values) -> tuple[tuple[str, frozenset[str]], ...]:
    """(name, modifiers) of every instruction of an `inline_asm` operation, in order.

    Source: PTX ISA, instruction statements: `name.modifier.modifier operands;`.
    """
    text = values.literal(node.op.operand("asm")) or node.op.attribute("asm")
    if node.op.kind != OpKind.INLINE_ASM or not isinstance(text, str):
        return ()
    return tuple(
        (name, frozenset(part for part in modifiers.split(".") if part))
        for name, modifiers in _INSTRUCTION.findall(text[:MAX_CHARS])
    )

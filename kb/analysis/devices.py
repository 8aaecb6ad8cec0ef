"""The oldest device that what a kernel does runs on: instructions that it writes out, and types
that its dialect converts on newer devices only."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.dialects.registry import narrow_float_since
from kb.ops import OpKind
from kb.space import Constraint, implied

_SINCE = (
    (100, re.compile(r"\btcgen05\.|\.f32x2\b|\be2m1x2\b|\bue8m0x2\b|\be2m3x2\b|\be3m2x2\b")),
    (100, re.compile(r"\b(?:ld|st)\.[\w.:]*\.(?:v8\.[busf]32|v4\.[busf]64)\b")),
    (90, re.compile(r"\bcp\.async\.bulk|\bmbarrier\.try_wait|\bgriddepcontrol\.|\bwgmma\.")),
    (90, re.compile(r"\bsetmaxnreg\.|\belect\.sync|\bbarrier\.cluster|\bmapa\.|\bmultimem\.")),
    (90, re.compile(r"\bstmatrix\.|\bfence\.proxy\.async|\bst\.async\.")),
    (89, re.compile(r"\be4m3x2\b|\be5m2x2\b")),
    (80, re.compile(r"\bcp\.async\.c[ag]\.|\bredux\.sync|\bcreatepolicy\.|\bcvt\.rna?\.tf32\b")),
    (75, re.compile(r"\bldmatrix\.")),
)
"""Instructions by the compute capability since which they are there, ten times the major number and
the minor one, the newest first. Source: PTX ISA, target notes of each instruction."""

_NARROW = "f8e4m3"


def since(text: str) -> int:
    """Since which capability the instructions of a text are there; 0 where all are old."""
    return next((number for number, said in _SINCE if said.search(text)), 0)


def devices(facts: Facts) -> Iterator[Constraint]:
    """What kernels of tiles ask of the device, outside branches known when they are compiled."""
    narrow = narrow_float_since(facts.kernel.dialect)
    best, lines = 0, None
    for node in facts.graph.nodes if narrow else ():
        number = _asked(facts, node, narrow)
        if number > best and not _chosen(facts, node):
            best, lines = number, node.lines
    if best:
        yield implied(
            f"10 * capability[0] + capability[1] >= {best}",
            "the kernel does what older devices have no instruction for",
            "ask for the device before the launch, or give older ones a path of their own",
            lines,
        )


def _asked(facts: Facts, node: Node, narrow: int) -> int:
    if node.op.kind == OpKind.INLINE_ASM:
        text = facts.values.literal(node.op.operand("asm"))
        return since(text) if isinstance(text, str) else 0
    cast = node.op.kind == OpKind.CAST and node.op.operand("bitcast") is None
    if not cast or not node.op.results:
        return 0
    ends = (node.op.inputs[0], node.result)
    return narrow if any(facts.types.dtype(one) == _NARROW for one in ends) else 0


def _chosen(facts: Facts, node: Node) -> bool:
    """Whether a branch decides on an operation: perhaps one that asks for the device."""
    return any(around.op.kind == OpKind.IF for around in node.around())

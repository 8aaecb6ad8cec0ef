"""The oldest device that has the instructions which a kernel writes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kb.analysis.devices import since
from kb.evidence import Lines
from kb.ir import Kernel, Op, ParameterKind, Region
from kb.ops import OpKind
from kb.space import Constraint, implied


def needs(kernel: Kernel, targets: Sequence[Lines]) -> Iterator[Constraint]:
    """The compute capability that instructions of the file ask for which stand in no branch of the
    preprocessor on the target, and under no condition known when the kernel is compiled; `targets`
    are the lines of such branches."""
    path = kernel.entry.span.path
    known = {p.name for p in kernel.entry.parameters if p.kind is ParameterKind.CONSTEXPR}
    best, lines = 0, None
    for op in _certain(kernel.entry.body, known):
        at = op.span.lines
        elsewhere = op.span.path != path or op.span.origin is not None
        if elsewhere or any(a <= at[0] <= b for a, b in targets):
            continue
        number = _since(op)
        if number > best:
            best, lines = number, at
    if best:
        yield implied(
            f"10 * capability[0] + capability[1] >= {best}",
            "the kernel writes out instructions that older devices do not have",
            "ask for the device before the launch, or give older ones a path of their own",
            lines,
        )


def _certain(region: Region, known: set[str]) -> Iterator[Op]:
    """Operations that no condition on what is known when a kernel is compiled takes out; `known`
    gains the values that are made of nothing else."""
    for op in region.ops:
        made = op.results and op.kind in _PLAIN and all(value in known for value in op.inputs)
        known.update(row.name for row in op.results if made)
        if op.kind == OpKind.IF and op.inputs[0] in known:
            continue
        yield op
        for inner in op.regions:
            yield from _certain(inner, known)


_PLAIN = frozenset({
    OpKind.CONST, OpKind.EQ, OpKind.NE, OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE, OpKind.AND,
    OpKind.OR, OpKind.NOT, OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.FLOOR_DIV, OpKind.MOD,
    OpKind.CAST, OpKind.DTYPE,
})  # fmt: skip


def _since(op: Op) -> int:
    """Since which capability an operation of inline assembly is there; 0 for others."""
    return since(f"{op.attribute('opcode') or ''} {op.attribute('asm') or ''}")

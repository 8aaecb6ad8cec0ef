"""What the laws of rewrites share: reading, digests, decisions, and the round trip through source
text."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from extractors.detect import decisions_of
from extractors.modules import ModuleText
from extractors.read import read
from generators.emit import emit_program
from kb.analysis.facts import Facts
from kb.ir import SPELLING, Kernel, Op, Region, alpha_digest
from kb.ops import TERMINATORS, OpKind

Choice = tuple[str, str, str | None]
_IMMEDIATE = frozenset({OpKind.CONST, OpKind.DTYPE, OpKind.ENUM})


def kernels_of(text: str, path: str = "case.py") -> dict[str, Kernel]:
    """Kernels of a module by name."""
    return {kernel.name: kernel for kernel in read(ModuleText("", path, text)).kernels}


@cache
def again(kernel: Kernel) -> Kernel:
    """The program after it was written as source and read."""
    return kernels_of(emit_program(kernel, kernel.dialect))[kernel.name]


def digest(kernel: Kernel) -> str:
    """alpha_digest of the program in a form that its source text cannot blur.

    Literals stand where they are used, operands are sorted by role, and what regions hand over is
    numbered: source text orders keyword arguments and spells variables as it likes.
    """
    functions = [replace(f, body=_settled(f.body, {})) for f in kernel.functions]
    return alpha_digest(replace(kernel, entry=functions[0], helpers=tuple(functions[1:])))


def _settled(region: Region, literals: dict[str, str]) -> Region:
    ops: list[Op] = []
    for op in region.ops:
        if op.kind in _IMMEDIATE:
            shown = [pair for pair in op.attributes if pair[0] not in SPELLING]
            literals[op.result] = f"{op.kind}{shown}"
            continue
        operands = [(role, literals.get(value, value)) for role, value in op.operands]
        if op.kind in TERMINATORS:
            operands = [(str(place), value) for place, (_, value) in enumerate(operands)]
        regions = tuple(_settled(inner, literals) for inner in op.regions)
        operands.sort(key=lambda pair: pair[0])
        ops.append(replace(op, operands=tuple(operands), regions=regions))
    return Region(region.arguments, tuple(ops))


@cache
def choices(kernel: Kernel) -> frozenset[Choice]:
    """Decisions of a program without their lines."""
    return frozenset((d.axis, d.value, d.subject) for d in decisions_of(Facts(kernel)))


def on_axis(kernel: Kernel, axis: str) -> frozenset[str]:
    """Values that are seen on one axis."""
    return frozenset(value for name, value, _ in choices(kernel) if name == axis)

"""How many elements a thread moves at once, where the host makes that of the size of an element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import followed, place
from extractors.cuda.render import shown
from kb.evidence import AxisKind, Decision

Names = Mapping[str, n.Expr | n.Variable]


def vector_choice(
    definition: n.Definition, kernel: n.Name, cases: Sequence[tuple[n.Expr, n.Expr]], names: Names
) -> Iterator[Decision]:  # fmt: skip
    """Template arguments of a launch that are computed with `sizeof`: given as they are, or by the
    case of a dispatch that has their value."""
    for parameter, given in zip(definition.template, kernel.arguments, strict=False):
        if parameter.dtype == "typename" or not parameter.name:
            continue
        written = n.Name(definition.at, given.name) if isinstance(given, n.CType) else given
        number = _number(written, names)
        sources = [value for value, label in cases if number and _number(label, names) == number]
        for source in sources or [written]:
            made, lines = followed(source, names)
            if isinstance(made, n.Expr) and any(isinstance(e, n.SizeOf) for e in n.inside(made)):
                yield Decision(
                    axis="vector_width", value=f"{shown(made)} elements", subject=parameter.name,
                    pattern="vector-width-of-an-access", kind=AxisKind.DESIGN,
                    lines=tuple(sorted(set(lines) or {place(made.at)})),
                )  # fmt: skip
                break


def _number(node: n.Expr, names: Names) -> object:
    made, _ = followed(node, names)
    return made.value if isinstance(made, n.Constant) else None

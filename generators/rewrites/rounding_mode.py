"""rounding_mode: divisions and roots rounded to nearest, or the fast approximation of the
hardware."""

from __future__ import annotations

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions, refuse_mixed
from kb.ir import Kernel
from kb.ops import OpKind

NEAREST = "rn"
APPROXIMATE = "approx"
_PREFIX = "rounding."
_BOTH = frozenset({OpKind.DIV, OpKind.SQRT})
"""Operations that have both modes; exponentials have no rounding to nearest."""


class RoundingMode(Rewrite):
    """The rounding that an operation is given is exchanged for the other.

    Source: NVIDIA, PTX ISA, div.approx and div.rn.
    """

    axis = "rounding_mode"
    values = (APPROXIMATE, NEAREST)

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Exchange the rounding of every operation that is given one."""
        seen: list[str] = []
        changed = change_functions(kernel, lambda site: _exchange(site, value, seen))
        if changed is None and value not in seen:
            raise NotApplicable(
                "no operation is given a rounding.", where=f"{kernel.entry.span} {kernel.name}",
                hint="Write the rounding mode on the divisions.",
            )  # fmt: skip
        if changed is not None and value in seen:
            refuse_mixed(kernel, value)
        return changed or kernel


def _exchange(site: Site, value: str, seen: list[str]) -> bool:
    touched = False
    for step in list(site.draft.steps()):
        made = site.draft.producer(step.operand("rounding"))
        if made is None or made.kind != OpKind.ENUM:
            continue
        given = str(made.attribute("name")).removeprefix(_PREFIX)
        if given == value:
            seen.append(given)
            continue
        if step.kind not in _BOTH:
            raise NotApplicable(
                f"{step.kind} cannot be rounded {value}.", where=str(step.span),
                hint="Only divisions and square roots have both roundings.",
            )  # fmt: skip
        fresh = site.draft.before(made).add(OpKind.ENUM, (), (("name", _PREFIX + value),))
        step.set_operand("rounding", fresh)
        touched = True
    return touched

"""denormal_mode: whether operations that say so flush denormal results to zero."""

from __future__ import annotations

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions, refuse_mixed
from kb.ir import Kernel

FLUSHED = "ftz"
KEPT = "ieee denormals"


class DenormalMode(Rewrite):
    """The flag is turned on or off on every operation that has it; operations without it keep
    denormals anyway.

    Source: NVIDIA, PTX ISA, ex2.approx.ftz.f32.
    """

    axis = "denormal_mode"
    values = (FLUSHED, KEPT)

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Turn the flag."""
        seen: list[bool] = []
        wanted = value == FLUSHED
        changed = change_functions(kernel, lambda site: _turn(site, wanted, seen))
        if changed is None and wanted not in seen:
            raise NotApplicable(
                "no operation says whether it flushes denormals.",
                where=f"{kernel.entry.span} {kernel.name}",
                hint="Write flush_to_zero on the operations that may.",
            )
        if changed is not None and wanted in seen:
            refuse_mixed(kernel, value)
        return changed or kernel


def _turn(site: Site, wanted: bool, seen: list[bool]) -> bool:
    touched = False
    for step in list(site.draft.steps()):
        flag = site.facts.values.literal(step.operand("ftz"))
        if not isinstance(flag, bool):
            continue
        made = site.draft.producer(step.operand("ftz"))
        if flag is wanted or made is None:
            seen.append(flag)
            continue
        step.set_operand("ftz", site.draft.before(made).constant(wanted))
        touched = True
    return touched

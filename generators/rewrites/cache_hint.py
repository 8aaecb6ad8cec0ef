"""cache_hint: what loads and stores through pointers tell the caches."""

from __future__ import annotations

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions, refuse_mixed
from generators.rewrites.edit import Step
from kb.ir import Kernel

NONE = "none"
_HINTS = {
    "evict_first": ("eviction_policy", "evict_first"),
    "cache at L2 (.cg)": ("cache_modifier", ".cg"),
}
"""Operand and word by value: hints that a load and a store can both be given."""

_ROLES = ("cache_modifier", "eviction_policy")


class CacheHint(Rewrite):
    """Every access is given the hint, or loses it; what is read and written stays what it was.

    Source: NVIDIA, PTX ISA, cache operators and cache eviction priority hints.
    """

    axis = "cache_hint"
    values = (NONE, *_HINTS)

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Set or drop the hint."""
        seen: set[str] = set()
        changed = change_functions(kernel, lambda site: _set(site, value, seen))
        if not seen:
            raise NotApplicable(
                "no access goes through pointers that could carry a hint.",
                where=f"{kernel.entry.span} {kernel.name}",
                hint="Tiles of views and descriptors carry none.",
            )
        if len(seen) > 1:
            refuse_mixed(kernel, sorted(seen)[0])
        return changed or kernel


def _set(site: Site, value: str, seen: set[str]) -> bool:
    touched = False
    for step in list(site.draft.steps()):
        if step.operand("pointer") is None or not site.knows(step.kind, "eviction_policy"):
            continue
        has = _hint(site, step)
        seen.add(has)
        if has == value:
            continue
        for role in _ROLES:
            step.drop_operand(role)
        if value in _HINTS:
            role, word = _HINTS[value]
            step.set_operand(role, site.draft.before(step).constant(word))
        touched = True
    return touched


def _hint(site: Site, step: Step) -> str:
    """The hint that an access has, as a value of the axis. Raises NotApplicable for another one."""
    given = {role: site.facts.values.literal(step.operand(role)) for role in _ROLES}
    said = [(role, word) for role, word in given.items() if step.operand(role) and word != ""]
    for value, pair in _HINTS.items():
        if said == [pair]:
            return value
    if said:
        raise NotApplicable(
            "an access has a hint of its own.", where=str(step.span),
            hint="Only one hint, the same on every access, can be taken back.",
        )  # fmt: skip
    return NONE

"""What a rewrite is: the other side of a pattern. It makes a tile program have another value on
one design axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from generators.rewrites.edit import Draft
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.inline import inline
from kb.dialects.registry import dialect as dialect_named
from kb.errors import CannotEmit
from kb.ir import Function, Kernel

SEPARATE = "Write the step by itself in the function that holds the loop."


class NotApplicable(CannotEmit):
    """The program cannot have the value by this rewrite: `where` stands in the way, `hint` says
    what would help."""

    def __init__(self, message: str, *, where: str, hint: str = SEPARATE) -> None:
        super().__init__(message, where=where, hint=hint)


@dataclass(eq=False)
class Site:
    """One function of a program, opened for change, with the facts of that function (its calls
    seen inlined)."""

    kernel: Kernel
    function: Function

    @cached_property
    def draft(self) -> Draft:
        """The function as it is being changed."""
        return Draft(self.function)

    @cached_property
    def facts(self) -> Facts:
        """Facts of the function as it was."""
        return Facts(replace(self.kernel, entry=self.function))

    @cached_property
    def _own(self) -> frozenset[str]:
        return frozenset(v.name for step in self.draft.steps() for v in step.results)

    def owns(self, node: Node | None) -> bool:
        """True when an operation stands in this function and not in one that it calls."""
        return node is not None and node.result in self._own

    def knows(self, kind: str, role: str) -> bool:
        """True when the dialect of the program can say `role` on an operation."""
        rows = dialect_named(self.kernel.dialect).rows
        return any(row.kind == kind and role in (p.role for p in row.parameters) for row in rows)


class Rewrite:
    """The rewrites of one axis. Subclasses say `axis`, the `values` that they can make, and what
    `follows`.

    `follows` names axes whose decisions change along because they speak of the same operations.
    """

    axis: ClassVar[str]
    values: ClassVar[tuple[str, ...]]
    follows: ClassVar[frozenset[str]] = frozenset()

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """The program with `value` on the axis; the same program when it has it already.

        Raises NotApplicable when the program does not have what the axis speaks of, or is not
        understood enough.
        """
        raise NotImplementedError


def refuse_mixed(kernel: Kernel, value: str) -> None:
    """Raises NotApplicable for a program that has `value` in one place and another in the next."""
    raise NotApplicable(
        f"{value!r} holds in some places and not in others.",
        where=f"{kernel.entry.span} {kernel.name}",
        hint="As one axis they could not be told apart again; make them alike by hand first.",
    )


Change = Callable[[Site], bool]
"""Changes the draft of a site; False when the site has nothing to change. Raises NotApplicable."""


def change_functions(kernel: Kernel, change: Change) -> Kernel | None:
    """Change every function that has something to change; None when there was nothing.

    When what belongs together is spread over helpers, the helpers are inlined first.
    Raises NotApplicable as `change` does.
    """
    try:
        changed = _each(kernel, change)
    except NotApplicable:
        if not kernel.helpers:
            raise
        changed = None
    if changed is None and kernel.helpers:
        flat = inline(kernel)
        if not flat.helpers:
            changed = _each(flat, change)
    return changed


def _each(kernel: Kernel, change: Change) -> Kernel | None:
    functions = list(kernel.functions)
    touched = False
    for index, function in enumerate(functions):
        site = Site(kernel, function)
        if change(site):
            functions[index] = site.draft.finish()
            touched = True
    return replace(kernel, entry=functions[0], helpers=tuple(functions[1:])) if touched else None

"""Where the host gives and chooses the template arguments of a kernel: what is compiled in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import ALIAS, LaunchSite
from extractors.cuda.render import shown
from kb.evidence import AxisKind, Decision, Lines

MAX_SITES = 60
"""Launches whose arguments are told; a dispatch of more is told by the kernel alone."""

MAX_DEPTH = 5
"""Names behind names that a template argument is followed through."""

MAX_GIVEN = 40
"""Arguments of one kernel and of the structs among them that are followed."""


def compiled_in(
    definition: n.Definition, sites: Sequence[LaunchSite], unit: n.Unit
) -> tuple[Decision, ...]:
    """The names of a template kernel with arguments, where launches of the kernel's file stand,
    what their arguments were given before, the tests by which the host takes one set of arguments
    or another, and where the kernel, or what launches it, is instantiated."""
    home = definition.at.path
    named = [one for one in sites[:MAX_SITES] if one.kernel.arguments]
    lines = {place(one.kernel.at) for one in named if one.kernel.at.path == home}
    through = {definition.name, *(x for one in sites for x in (one.function, one.root))}
    lines |= {place(at) for name in through for at in unit.instantiated.get(name, ())}
    if not definition.template or not lines:
        return ()
    lines |= _chosen_by(named, home) | _by_type(named, home)
    given = [made for one in named for _, made in _behind(one) if made is not None]
    lines |= {place(made.at) for made in given if made.at.path == home}
    return (
        Decision(
            axis="specialization", value="constexpr", kind=AxisKind.HOST,
            pattern="problem-extents-as-compile-time-constants", lines=tuple(sorted(lines)),
        ),
    )  # fmt: skip


def _chosen_by(sites: Sequence[LaunchSite], home: str) -> set[Lines]:
    """Tests of the host with other template arguments on their one side than on the other."""
    given = [tuple(t for t, made in _behind(one) if not isinstance(made, n.Expr)) for one in sites]
    if len({*given}) == 1:
        return set()
    pairs = list(zip(sites, given, strict=True))
    tests = {test.at: shown(test) for one in sites for test in one.tests if test.at.path == home}
    cases = {label.at for one in sites for _, label in one.cases}
    labelled: dict[str, set[tuple[str, ...]]] = {}
    for one, made in pairs:
        for _, label in one.cases:
            labelled.setdefault(shown(label), set()).add(made)
    differ = len({frozenset(made) for made in labelled.values()}) > 1
    return {place(at) for at, text in tests.items() if _divides(text, pairs)} | {
        place(at) for at in cases if differ and at.path == home
    }


def _by_type(sites: Sequence[LaunchSite], home: str) -> set[Lines]:
    """Where the host calls a function for the element type of a tensor, around launches."""
    checks = {one.at for site in sites for one in site.checks if one.chooses}
    return {(at.line, at.line) for at in checks if at.path == home}


def _divides(test: str, pairs: Sequence[tuple[LaunchSite, tuple[str, ...]]]) -> bool:
    """Whether launches with a condition have other arguments than those without it."""
    inside = {made for one, made in pairs if test in one.guards}
    outside = {made for one, made in pairs if f"not ({test})" in one.guards}
    return bool(inside and outside) and inside != outside


def _behind(site: LaunchSite) -> Iterator[tuple[str, n.Expr | n.Variable | None]]:
    """The template arguments of a launch and what they are made of, name by name, each with what it
    was given: a struct of such, and what a dispatch chose."""
    pending: list[tuple[n.CType | n.Expr, int]] = [(one, 0) for one in site.kernel.arguments]
    for one, depth in pending:
        text = one.name if isinstance(one, n.CType) else shown(one)
        made = site.names.get(f"{ALIAS}{text}") or site.names.get(text)
        yield text, made
        if depth < MAX_DEPTH and len(pending) < MAX_GIVEN:
            if isinstance(made, n.Expr):
                pending.append((made, depth + 1))
            elif isinstance(one, n.CType | n.Name):
                pending += [(argument, depth + 1) for argument in one.arguments]

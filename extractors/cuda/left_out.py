"""Branches of the host that launch a kernel for some values, and nothing for others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.checks import refuses
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.render import shown
from kb.evidence import Lines

_LEAST = 2
"""Branches from which on a chain of them tells values apart."""

_ONE_SIDE = frozenset({"==", "!=", "<", "<=", ">", ">="})


def left_out(
    sites: Sequence[LaunchSite],
    every: Sequence[LaunchSite],
    functions: Mapping[str, Sequence[n.Definition]],
    path: str,
) -> tuple[tuple[Lines, ...], ...]:
    """Chains of branches around launches of a kernel, each branch of which launches one of the
    kernels of the file, with no branch for what is left: the lines of their conditions."""
    own, all_of = _places(sites), _places(every)
    checked = {
        name.text
        for site in sites
        for check in site.checks
        for name in n.inside(check.condition)
        if isinstance(name, n.Name)
    }
    found: dict[tuple[Lines, ...], None] = {}
    for name, lines in own.items():
        for function in functions.get(name, ()):
            if function.at.path != path:
                continue
            for tests, arms in _chains(function):
                names = {x.text for t in tests for x in n.inside(t) if isinstance(x, n.Name)}
                launching = all(_holds(arm, all_of[name]) for arm in arms)
                mine = any(_holds(arm, lines) for arm in arms)
                alone = all(any(_holds(arm, {line}) for arm in arms) for line in all_of[name])
                if launching and mine and alone and not names & checked:
                    found.setdefault(tuple((t.at.line, t.at.line) for t in tests))
    return tuple(found)


def _places(sites: Sequence[LaunchSite]) -> dict[str, set[int]]:
    """Lines at which functions launch, or call what does, by the name of the function."""
    found: dict[str, set[int]] = {}
    for site in sites:
        found.setdefault(site.function, set()).add(site.at.line)
        if site.root:
            found.setdefault(site.root, set()).add(site.reached.line)
    return found


def _holds(arm: Sequence[n.Stmt], lines: set[int]) -> bool:
    return any(one.at.line <= line <= one.at.end_line for one in arm for line in lines)


def _chains(
    function: n.Definition,
) -> Iterator[tuple[list[n.Expr], list[Sequence[n.Stmt]]]]:
    """The conditions and the branches of each chain of a function that has none for the rest, and
    after which the function refuses nothing."""
    inner: set[int] = set()
    for one in n.inside(function.body):
        if isinstance(one, n.If) and id(one) not in inner:
            tests, arms = [one.condition], [one.then.body]
            other = one.other.body
            while len(other) == 1 and isinstance(other[0], n.If):
                inner.add(id(other[0]))
                tests.append(other[0].condition)
                arms.append(other[0].then.body)
                other = other[0].other.body
            whole = {f"not {shown(t)}" for t in tests} & {shown(t) for t in tests}
            open_ = not other and not one.static and not whole and all(map(_tells_apart, tests))
            if open_ and len(arms) >= _LEAST and not _refused(function, one):
                yield tests, list(arms)
        elif isinstance(one, n.Switch):
            labels = [label for label, _ in one.cases if label is not None]
            rest = [body for label, body in one.cases if label is None]
            bodies = [body for label, body in one.cases if label is not None and body]
            if not rest and len(labels) >= _LEAST and not _refused(function, one):
                yield [one.value], [*bodies]


def _tells_apart(test: n.Expr) -> bool:
    """Whether a condition compares a number, or asks for several things."""
    return any(isinstance(x, n.Binary) and x.operator in _ONE_SIDE for x in n.inside(test)) or (
        isinstance(test, n.Name | n.Field | n.Call)
    )


def _refused(function: n.Definition, chain: n.Stmt) -> bool:
    """Whether a function refuses anything after a chain."""
    last = chain.at.end_line
    return any(
        isinstance(one, n.Stmt) and one.at.line > last and refuses([one])
        for one in n.inside(function.body)
    )

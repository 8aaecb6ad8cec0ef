"""Extents that must be whole numbers of what the threads take at once: asserted in the kernel, or
checked by the host before it counts the parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.given import given
from extractors.cuda.launch_site import LaunchSite, constant
from extractors.cuda.library import Library
from extractors.cuda.render import shown
from kb.evidence import AxisKind, Decision, Lines

_Side = tuple[str, str]


def whole_extents(
    definition: n.Definition,
    launches: Sequence[LaunchSite],
    hosts: Sequence[n.Definition],
    library: Library,
) -> Iterator[Decision]:
    """One decision with the lines of all that demands it; `hosts` are functions of the host that
    lead to a launch, what they are given is not known."""
    open_ = {one.name for host in hosts for one in host.parameters}
    threads = {name for site in launches if len(site.shape) > 1 for name in _names(site.shape[1])}
    threads |= {shown(one) for site in launches for one in _extents(definition, site, threads)}
    lines = {*_asserted(definition, threads)}
    for site in launches:
        lines |= {*_checked(definition, site, open_, library)}
    if lines:
        yield Decision(
            axis="tail_handling", value="none: whole tiles demanded", lines=tuple(sorted(lines)),
            pattern="extents-demanded-to-be-whole-tiles", kind=AxisKind.DESIGN,
        )  # fmt: skip


def _asserted(definition: n.Definition, threads: set[str]) -> Iterator[Lines]:
    """Assertions of the kernel that an extent which it divides leaves no rest, or that it is a
    product of what the threads take."""
    divided: set[_Side] | None = None
    for node in n.inside(definition.body):
        for test in _both(node.condition) if isinstance(node, n.Assert) else ():
            if divided is None:
                divided = {*_quotients(n.inside(definition.body))}
            rest = _rest(test)
            whole = rest is not None and _sides(rest) in divided and not _names(rest.left) & threads
            if whole or _filled(test):
                yield place(node.at)


def _checked(
    definition: n.Definition, site: LaunchSite, open_: set[str], library: Library
) -> Iterator[Lines]:
    """Checks of the host that an extent leaves no rest when a number that is known when the code is
    compiled divides it, where the quotient counts blocks or is handed to the kernel, or the kernel
    divides what it is given."""
    divided: set[_Side] | None = None
    for check in site.checks:
        for test in _both(check.condition):
            rest = _rest(test)
            if rest is None or not _is_known(rest.right, site, open_):
                continue
            if divided is None:
                shared_out = (site.shape[0] if site.shape else None, site.arguments)
                divided = {*_quotients(site.behind(shared_out))}
            if _sides(rest) in divided or _divides(definition, site, rest, library):
                yield place(check.at)


def _both(test: n.Expr) -> Iterator[n.Expr]:
    if isinstance(test, n.Binary) and test.operator == "&&":
        yield from _both(test.left)
        yield from _both(test.right)
    else:
        yield test


def _rest(test: n.Expr) -> n.Binary | None:
    """The remainder that a test holds to be zero."""
    if isinstance(test, n.Binary) and test.operator == "==":
        for one, other in ((test.left, test.right), (test.right, test.left)):
            if isinstance(one, n.Binary) and one.operator == "%" and _is_zero(other):
                return one
    return None


def _is_zero(node: n.Expr) -> bool:
    return isinstance(node, n.Constant) and node.value == 0 and node.value is not False


def _filled(test: n.Expr) -> bool:
    """True when a name is held to be a product of names, numbers and sizes of types."""
    if not isinstance(test, n.Binary) or test.operator != "==":
        return False
    sides = [_factors(test.left), _factors(test.right)]
    for own, other in (sides, sides[::-1]):
        names = [one for one in own if isinstance(one, n.Name)]
        sizes = [one for one in own if isinstance(one, n.SizeOf)]
        counted = [one for one in other if not isinstance(one, n.SizeOf)]
        if len(names) == 1 and len(names) + len(sizes) == len(own) and len(other) > 1 and counted:
            return all(isinstance(one, n.Name | n.Constant | n.SizeOf) for one in other)
    return False


def _factors(node: n.Expr) -> list[n.Expr]:
    if isinstance(node, n.Binary) and node.operator == "*":
        return [*_factors(node.left), *_factors(node.right)]
    return [node]


def _quotients(nodes: Iterator[object]) -> Iterator[_Side]:
    """What is divided by what; of a product each factor, too, which need leave no rest alone."""
    for node in nodes:
        if isinstance(node, n.Binary) and node.operator == "/":
            yield _sides(node)
            factors = _factors(node.left)
            if len(factors) > 1:
                yield from ((shown(one), shown(node.right)) for one in factors)


def _sides(node: n.Binary) -> _Side:
    return shown(node.left), shown(node.right)


def _names(node: object) -> set[str]:
    return {one.text for one in n.inside(node) if isinstance(one, n.Name)}


def _extents(definition: n.Definition, site: LaunchSite, threads: set[str]) -> Iterator[n.Name]:
    """Template parameters of the kernel that are given a name of the block's extent."""
    for parameter, value in zip(definition.template, site.kernel.arguments, strict=False):
        if shown(value) in threads:
            yield n.Name(site.at, parameter.name)


def _is_known(node: n.Expr, site: LaunchSite, open_: set[str]) -> bool:
    """Whether all of an expression is a number, the size of a type, what a function makes of types
    alone, or the name of one."""
    pending: list[object] = [node]
    seen: set[str] = set()
    for made in pending:
        for one in n.inside(made):
            if isinstance(one, n.Field | n.Index) or (isinstance(one, n.Call) and one.arguments):
                return False
            if isinstance(one, n.Name) and one.text not in seen:
                seen.add(one.text)
                held = site.names.get(one.text)
                if isinstance(held, n.Variable) or (held is None and one.text in open_):
                    return False
                pending.append(held)
    return True


def _divides(definition: n.Definition, site: LaunchSite, rest: n.Binary, library: Library) -> bool:
    """Whether the kernel divides a parameter, or a field of one, that is given an extent; where
    that is compiled in and leaves no rest by the threads of a block, be it rounded up."""
    extent = shown(rest.left)
    divided = [one.left for one in n.inside(definition.body)
               if isinstance(one, n.Binary) and one.operator == "/"]  # fmt: skip
    names = {one.name for one, v in given(definition, site, library) if shown(v) == extent}
    if any(shown(one) in names for one in divided):
        return True
    compiled = zip(definition.template, site.kernel.arguments, strict=False)
    names = {one.name for one, value in compiled if shown(value) == extent}
    shared = bool(names) and _by_threads(rest.right, site)
    return shared and any(_first_term(one) in names for one in divided)


def _by_threads(divisor: n.Expr, site: LaunchSite) -> bool:
    """Whether a number is that of the threads of a block."""
    block = site.shape[1] if len(site.shape) > 1 else None
    number = constant(divisor, site.names)
    if number is None or not isinstance(block, n.Expr):
        return False
    return constant(block, site.names) == number


def _first_term(node: n.Expr) -> str:
    """What something is added to, or taken from, before it is divided."""
    while isinstance(node, n.Binary) and node.operator in ("+", "-"):
        node = node.left
    return shown(node)

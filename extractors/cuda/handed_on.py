"""Arrays that the host of a CUDA file hands to one kernel after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.render import shown
from extractors.cuda.tensors import address
from extractors.host.passes import HANDED_ON, LEFT, TAKEN
from kb.evidence import AxisKind, Decision, Lines

_NOWHERE = ("?", "none", "nullptr", "NULL", "0")


def handed_on(
    mine: Sequence[LaunchSite],
    every: Sequence[LaunchSite],
    definitions: Sequence[n.Definition],
    functions: Mapping[str, Sequence[n.Definition]],
) -> Iterator[Decision]:
    """Pointers that a launch of this kernel and one of another are both given, where one host
    function leads to both, and the first of the two kernels writes through them."""
    by_name = {one.name: one for one in definitions}
    found: dict[tuple[str, str], set[Lines]] = {}
    for site in mine:
        for other in every:
            if _name(other) == _name(site) or other.top != site.top or _apart(site, other):
                continue
            later = _order(other) > _order(site)
            for name in _both(site, other, by_name, later=later):
                lines = found.setdefault((LEFT if later else TAKEN, name), set())
                lines |= {place(at) for one in (site, other) for at in (one.at, one.reached)}
                head = by_name[_name(other)].at.line
                lines |= {(head, head), *_parting(site, other, functions)}
    for (value, name), lines in found.items():
        yield Decision(
            axis="kernel_boundaries", value=value, lines=tuple(sorted(lines)),
            pattern=HANDED_ON, kind=AxisKind.DESIGN, subject=name,
        )  # fmt: skip


def _parting(
    site: LaunchSite, other: LaunchSite, functions: Mapping[str, Sequence[n.Definition]]
) -> Iterator[Lines]:
    """The calls of the two functions that launch, where one function calls both."""
    wanted = {site.function, other.function}
    for holder in (one for many in functions.values() for one in many) if len(wanted) > 1 else ():
        calls = [c for c in n.inside(holder.body) if isinstance(c, n.Call)]
        named = [(c.function.text.rpartition("::")[2], c) for c in calls
                 if isinstance(c.function, n.Name)]  # fmt: skip
        if wanted <= {name for name, _ in named}:
            yield from (place(call.at) for name, call in named if name in wanted)


def _name(site: LaunchSite) -> str:
    return site.kernel.text.rpartition("::")[2]


def _order(site: LaunchSite) -> tuple[int, int]:
    return (site.reached.line, site.at.line)


def _apart(one: LaunchSite, other: LaunchSite) -> bool:
    """Whether two launches stand on two sides of a branch, or under two cases of a switch."""
    return any(_excludes(a, b) or _excludes(b, a) for a in one.guards for b in other.guards)


def _excludes(guard: str, other: str) -> bool:
    if other == f"not ({guard})":
        return True
    asked, equal, value = guard.rpartition(" == ")
    same, again, rest = other.rpartition(" == ")
    return bool(equal and again) and asked == same and value != rest


def _both(
    site: LaunchSite, other: LaunchSite, by_name: Mapping[str, n.Definition], *, later: bool
) -> Iterator[str]:
    """Parameters of this kernel whose pointer the other launch is given, too; the kernel that runs
    first writes through it."""
    own, theirs = by_name.get(_name(site)), by_name.get(_name(other))
    if own is None or theirs is None:
        return
    first = own if later else theirs
    given = dict(_pointers(other, theirs))
    for text, parameter in _pointers(site, own):
        if text in given and text not in _NOWHERE:
            written = parameter if later else given[text]
            if _written(first, written):
                yield parameter.name


def _pointers(site: LaunchSite, definition: n.Definition) -> Iterator[tuple[str, n.Variable]]:
    for parameter, given in zip(definition.parameters, site.arguments, strict=False):
        if parameter.type.pointers and not isinstance(given, n.Constant):
            yield shown(address(site, given)), parameter


def _written(definition: n.Definition, parameter: n.Variable) -> bool:
    """Whether a kernel writes through a pointer: what is assigned lies behind it, or a function is
    given it that may."""
    if parameter.type.const:
        return False
    names = {parameter.name}
    for one in n.inside(definition.body):
        if isinstance(one, n.Variable) and one.type.pointers and one.value is not None:
            names |= {one.name} if _mentions(one.value, names) else set()
        elif isinstance(one, n.Assign) and isinstance(one.target, n.Index | n.Unary):
            if _mentions(one.target, names):
                return True
        elif isinstance(one, n.Call) and any(_points(a, names) for a in one.arguments):
            return True
    return False


def _mentions(node: n.Expr, names: set[str]) -> bool:
    """Whether an address starts at one of some names."""
    while True:
        match node:
            case n.Index(operand=inner) | n.Unary(operand=inner) | n.Cast(operand=inner):
                node = inner
            case n.Field(operand=inner):
                node = inner
            case n.Binary(left=left, right=right):
                return _mentions(left, names) or _mentions(right, names)
            case n.Name(text=text):
                return text in names
            case n.Call(arguments=arguments):
                return any(_mentions(one, names) for one in arguments)
            case _:
                return False


def _points(node: n.Expr, names: set[str]) -> bool:
    """Whether an argument is an address behind one of some names, not an element."""
    return not isinstance(node, n.Index) and _mentions(node, names)

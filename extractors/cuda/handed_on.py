"""Arrays that the host of a CUDA file hands to one kernel after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite, owner
from extractors.cuda.render import shown
from extractors.cuda.tensors import address
from extractors.host.passes import HANDED_ON, LEFT, TAKEN
from kb.evidence import AxisKind, Decision, Lines

_NOWHERE = ("?", "none", "nullptr", "NULL", "0")


def handed_on(
    mine: Sequence[LaunchSite],
    every: Sequence[LaunchSite],
    definitions: Sequence[n.Definition],
    calls: Calls,
) -> Iterator[Decision]:
    """Pointers that a launch of this kernel and one of another are both given, where one host
    function leads to both, and the first of the two kernels writes through them."""
    by_name = {one.name: one for one in definitions}
    found: dict[tuple[str, str], set[Lines]] = {}
    asked = {id(site): _Stands.of(site) for site in (*mine, *every)}
    kept: _Kept = {}
    for site in mine:
        for other in every:
            if _name(other) == _name(site) or other.top != site.top:
                continue
            if asked[id(site)].excludes(asked[id(other)]):
                continue
            later = _order(other) > _order(site)
            for name in _both(site, other, by_name, kept, later=later):
                lines = found.setdefault((LEFT if later else TAKEN, name), set())
                lines |= {place(at) for one in (site, other) for at in (one.at, one.reached)}
                head = by_name[_name(other)].at.line
                lines |= {(head, head), *calls.parting(site, other)}
    for (value, name), lines in found.items():
        yield Decision(
            axis="kernel_boundaries", value=value, lines=tuple(sorted(lines)),
            pattern=HANDED_ON, kind=AxisKind.DESIGN, subject=name,
        )  # fmt: skip


@dataclass(eq=False)
class Calls:
    """What the functions of a file call by name, each walked once and only when it is asked for."""

    functions: Mapping[str, Sequence[n.Definition]]
    _known: dict[frozenset[str], frozenset[Lines]] = field(default_factory=dict)

    def parting(self, site: LaunchSite, other: LaunchSite) -> frozenset[Lines]:
        """The calls of the two functions that launch, where one function calls both."""
        wanted = frozenset({site.function, other.function})
        if wanted not in self._known:
            holders = self._named if len(wanted) > 1 else ()
            self._known[wanted] = frozenset(
                lines
                for places in holders
                if wanted <= places.keys()
                for name in wanted
                for lines in places[name]
            )
        return self._known[wanted]

    @cached_property
    def _named(self) -> list[dict[str, set[Lines]]]:
        found: list[dict[str, set[Lines]]] = []
        for holder in (one for many in self.functions.values() for one in many):
            places: dict[str, set[Lines]] = {}
            for call in n.inside(holder.body):
                if isinstance(call, n.Call) and isinstance(call.function, n.Name):
                    name = call.function.text.rpartition("::")[2]
                    places.setdefault(name, set()).add(place(call.at))
            found.append(places)
        return found


def _name(site: LaunchSite) -> str:
    return site.kernel.text.rpartition("::")[2]


def _order(site: LaunchSite) -> tuple[int, int]:
    return (site.reached.line, site.at.line)


@dataclass(frozen=True, slots=True)
class _Stands:
    """What a launch stands under: its conditions, their opposites, and what is compared for
    equality with what."""

    conditions: frozenset[str]
    opposites: frozenset[str]
    equals: Mapping[str, set[str]]

    @classmethod
    def of(cls, site: LaunchSite) -> _Stands:
        equals: dict[str, set[str]] = {}
        for guard in site.guards:
            asked, equal, value = guard.rpartition(" == ")
            if equal:
                equals.setdefault(asked, set()).add(value)
        opposites = frozenset(f"not ({guard})" for guard in site.guards)
        return cls(frozenset(site.guards), opposites, equals)

    def excludes(self, other: _Stands) -> bool:
        """Whether two launches stand on two sides of a branch, or under two cases of a switch."""
        if self.opposites & other.conditions or other.opposites & self.conditions:
            return True
        both = self.equals.keys() & other.equals.keys()
        return any(len(self.equals[asked] | other.equals[asked]) > 1 for asked in both)


def _both(
    site: LaunchSite, other: LaunchSite, by_name: Mapping[str, n.Definition], kept: _Kept, *,
    later: bool,
) -> Iterator[str]:  # fmt: skip
    """Parameters of this kernel whose pointer the other launch is given, too; the kernel that runs
    first writes through it."""
    own, theirs = by_name.get(_name(site)), by_name.get(_name(other))
    if own is None or theirs is None:
        return
    first, second = (own, theirs) if later else (theirs, own)
    given = dict(_handed(other, theirs))
    for text, parameter in _handed(site, own):
        if text not in given or text in _NOWHERE:
            continue
        written, taken = (parameter, given[text]) if later else (given[text], parameter)
        if parameter.type.pointers and given[text].type.pointers:
            if not written.type.const and _once(kept, _written, first, written.name):
                yield parameter.name
        elif not (parameter.type.pointers or given[text].type.pointers):
            left = _once(kept, _left, first, written.name)
            read = _once(kept, _fields, second, taken.name) if left else []
            yield from (f"{parameter.name}.{one}" for one in left if one in read)


def _handed(site: LaunchSite, definition: n.Definition) -> Iterator[tuple[str, n.Variable]]:
    """Parameters that are given a pointer or a struct, with what it is: the tensor of an address,
    whatever it is seen as."""
    for parameter, given in zip(definition.parameters, site.arguments, strict=False):
        made = address(site, given)
        while isinstance(made, n.Cast):
            made = made.operand
        if not isinstance(made, n.Constant) and (
            parameter.type.pointers or isinstance(made, n.Name)
        ):
            tensor = owner(made, site.names) if parameter.type.pointers else []
            yield next(iter(tensor), shown(made)), parameter


_Asked = Callable[[n.Definition, str], list[str]]
_Kept = dict[tuple[_Asked, int, str], list[str]]
"""What was asked of kernels and their parameters."""


def _once(kept: _Kept, asked: _Asked, definition: n.Definition, name: str) -> list[str]:
    key = (asked, id(definition), name)
    if key not in kept:
        kept[key] = asked(definition, name)
    return kept[key]


def _fields(definition: n.Definition, name: str) -> list[str]:
    """The fields of a struct that a kernel speaks of."""
    return [
        one.name for one in n.inside(definition.body)
        if isinstance(one, n.Field) and isinstance(one.operand, n.Name) and one.operand.text == name
    ]  # fmt: skip


def _left(definition: n.Definition, name: str) -> list[str]:
    """The fields of a struct whose arrays a kernel writes: an element is assigned."""
    found: dict[str, None] = {}
    for one in n.inside(definition.body):
        target = one.target if isinstance(one, n.Assign) else None
        while isinstance(target, n.Index | n.Unary):
            target = target.operand
            if isinstance(target, n.Field) and isinstance(target.operand, n.Name):
                if target.operand.text == name:
                    found[target.name] = None
    return list(found)


def _written(definition: n.Definition, name: str) -> list[str]:
    """The pointer, if a kernel writes through it: what is assigned lies behind it, or a function is
    given it that may."""
    names = {name}
    for one in n.inside(definition.body):
        if isinstance(one, n.Variable) and one.type.pointers and one.value is not None:
            names |= {one.name} if _mentions(one.value, names) else set()
        target = one.target if isinstance(one, n.Assign) else None
        if target is not None and _behind(target) and _mentions(target, names):
            return [name]
        if isinstance(one, n.Call) and any(_points(a, names) for a in one.arguments):
            return [name]
    return []


def _behind(target: n.Expr) -> bool:
    """Whether what is assigned is an element, or a field of one."""
    while isinstance(target, n.Field):
        target = target.operand
    return isinstance(target, n.Index | n.Unary)


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

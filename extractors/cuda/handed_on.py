"""Arrays that the host of a CUDA file hands to one kernel after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.given import given
from extractors.cuda.launch_site import LaunchSite, owner
from extractors.cuda.library import Library
from extractors.cuda.render import shown
from extractors.cuda.tensors import address
from extractors.cuda.through_callers import Callers, alone_under, encloses, kernel_of, of_library
from extractors.cuda.unfolded import unfolded
from extractors.host.passes import BESIDE, HANDED_ON, LEFT, TAKEN
from kb.dialects.cuda import CUDA
from kb.evidence import AxisKind, Decision, Lines
from kb.ops import ATOMICS

PART = "one of several kernels of a call"
BY_LIBRARY = "array-shared-with-a-call-of-a-library"
SET = "array set ahead of the kernel"
_NOWHERE = ("?", "none", "nullptr", "NULL", "0")


def handed_on(
    mine: Sequence[LaunchSite], every: Sequence[LaunchSite], known: Handings
) -> Iterator[Decision]:
    """Pointers that a launch of this kernel and one of another are both given, where one host
    function leads to both, and the first of the two kernels writes through them; and that both do
    a part of one call's work on the same arrays, told where the program takes or leaves none."""
    found: dict[tuple[str, str], set[Lines]] = {}
    asked = {id(site): _Stands.of(site) for site in (*mine, *every)}
    for site in mine:
        for other in every:
            if kernel_of(other) == kernel_of(site) or not known.together(site, other):
                continue
            if other.at == site.at:
                continue  # one launch of what a name was given
            if asked[id(site)].excludes(asked[id(other)]):
                continue
            later = _order(other) > _order(site)
            for name in known.passed(known.seen(site), known.seen(other), later=later):
                lines = found.setdefault((LEFT if later else TAKEN, name), set())
                lines |= {place(site.at), place(other.at), *known.head(kernel_of(other))}
    for kernel in dict.fromkeys(kernel_of(site) for site in mine):
        for one, beside in known.callers.pairs(kernel):
            later = beside.order > one.order
            own, theirs = ((seen.kernel, seen.given) for seen in (one, beside))
            for name in known.passed(own, theirs, later=later):
                lines = found.setdefault((LEFT if later else TAKEN, name), set())
                lines |= {*one.lines, *beside.lines, *known.head(beside.kernel)}
    for (value, name), lines in found.items():
        yield Decision(
            axis="kernel_boundaries", value=value, lines=tuple(sorted(lines)),
            pattern=HANDED_ON, kind=AxisKind.DESIGN, subject=name,
        )  # fmt: skip
    yield from _of_libraries(mine, known)
    if parts := _beside(mine, known):
        yield Decision(
            axis="kernel_boundaries", value=PART, lines=tuple(sorted(parts)),
            pattern=BESIDE, kind=AxisKind.DESIGN,
        )  # fmt: skip


def _of_libraries(mine: Sequence[LaunchSite], known: Handings) -> Iterator[Decision]:
    """That a library works on arrays of the kernel in a call of its own beside the launch, or sets
    one that the kernel changes."""
    found: dict[str, set[Lines]] = {}
    for kernel in dict.fromkeys(kernel_of(site) for site in mine):
        for seen, call, words in known.callers.by_library(kernel):
            ahead = (call.at.line, call.at.column) < seen.order
            sets = "Memset" in of_library(call)
            shared = [seen.given[word] for word in words & seen.given.keys() - {*_NOWHERE}]
            told = [p for p in shared if p.type.pointers and not (sets and p.type.const)]
            if told and (ahead or not sets):
                lines = found.setdefault(SET if sets else PART, set())
                lines |= {*seen.lines, place(call.at)}
    for value, lines in found.items():
        yield Decision(
            axis="kernel_boundaries", value=value, lines=tuple(sorted(lines)),
            pattern=BY_LIBRARY, kind=AxisKind.DESIGN,
        )  # fmt: skip


def _beside(mine: Sequence[LaunchSite], known: Handings) -> set[Lines]:
    """Launches of this kernel and of others that one function comes to in the same call, given
    the same array or struct, with where the others stand."""
    lines: set[Lines] = set()
    for kernel in dict.fromkeys(kernel_of(site) for site in mine):
        for one, beside in known.callers.beside(kernel):
            if (one.given.keys() & beside.given.keys()) - {*_NOWHERE}:
                lines |= {*one.lines, *beside.lines, *known.head(beside.kernel)}
    return lines | alone_under(mine, known.sites) if lines else lines


Given = tuple[str, Mapping[str, n.Variable]]
"""A kernel, and its parameters by what a launch gives them."""


@dataclass(eq=False)
class Handings:
    """What the launches of a file hand to their kernels, and which kernels write through it."""

    library: Library
    functions: Mapping[str, Sequence[n.Definition]]
    sites: Sequence[LaunchSite]
    path: str
    _asked: _Kept = field(default_factory=dict)

    @cached_property
    def callers(self) -> Callers:
        return Callers(self.functions, self.sites, self._handed)

    def seen(self, site: LaunchSite) -> Given:
        return kernel_of(site), dict(self._handed(site))

    def together(self, site: LaunchSite, other: LaunchSite) -> bool:
        """Whether two launches stand in one function."""
        if site.function != other.function:
            return False
        own = self.functions.get(site.function, ())
        return len(own) < 2 or any(encloses(f, site) and encloses(f, other) for f in own)

    def head(self, kernel: str) -> Iterator[Lines]:
        """Where a kernel of this file stands."""
        found = self._kernel(kernel)
        if found is not None and found.at.path == self.path:
            yield (found.at.line, found.at.line)

    def passed(self, own: Given, theirs: Given, *, later: bool) -> Iterator[str]:
        """Parameters of this kernel whose pointer the other launch is given, too; the kernel that
        runs first writes through it."""
        kernel, other = self._kernel(own[0]), self._kernel(theirs[0])
        if kernel is None or other is None:
            return
        first, second = (kernel, other) if later else (other, kernel)
        others = theirs[1]
        for text, parameter in own[1].items():
            if text not in others or text in _NOWHERE:
                continue
            written, taken = (parameter, others[text]) if later else (others[text], parameter)
            if parameter.type.pointers and others[text].type.pointers:
                if not written.type.const and self._once(_written, first, written.name):
                    yield parameter.name
            elif not (parameter.type.pointers or others[text].type.pointers):
                left = self._once(self._left, first, written.name)
                read = self._once(self._fields, second, taken.name) if left else []
                yield from (f"{parameter.name}.{one}" for one in left if one in read)

    def _left(self, definition: n.Definition, name: str) -> list[str]:
        """The fields of a struct whose arrays a kernel writes: itself, or by a function or method
        that is given the pointer and stores behind it."""
        found: dict[str, None] = {}
        for one, own in self._with_helpers(definition, name):
            found |= dict.fromkeys((*_left(one, own), *self._left_by_calls(one, own)))
        return list(found)

    def _fields(self, definition: n.Definition, name: str) -> list[str]:
        """The fields of a struct that a kernel speaks of, itself or in functions that it hands the
        struct to."""
        told = (_fields(one, own) for one, own in self._with_helpers(definition, name))
        return [field for fields in told for field in fields]

    def _with_helpers(
        self, definition: n.Definition, name: str
    ) -> list[tuple[n.Definition, str]]:  # fmt: skip
        """A function, and those that it hands a parameter on to as it is, by what they call it."""
        found = [(definition, name)]
        for one, own in found:
            for call in n.inside(one.body):
                if not isinstance(call, n.Call) or not isinstance(call.function, n.Name):
                    continue
                for at, handed in enumerate(call.arguments):
                    if isinstance(handed, n.Name) and handed.text == own:
                        called = self.library.functions(call.function.text.rpartition("::")[2])
                        more = [
                            (f, f.parameters[at].name) for f in called if at < len(f.parameters)
                        ]
                        found += [pair for pair in more if pair not in found][:MAX_HELPERS]
            if len(found) > MAX_HELPERS:
                break
        return found

    def _left_by_calls(self, definition: n.Definition, name: str) -> list[str]:
        """The fields of a struct whose pointers a function gives to others that store there."""
        found: dict[str, None] = {}
        held = {one.name: one.type.name for one in n.inside(definition.body)
                if isinstance(one, n.Variable)}  # fmt: skip
        calls = [one for one in n.inside(definition.body) if isinstance(one, n.Call)]
        for call in calls:
            for at, pointer in enumerate(call.arguments):
                own = _field(pointer, name, {}) if not isinstance(pointer, n.Index) else ""
                if own and own not in found and self._stores(call, at, held):
                    found[own] = None
        return list(found)

    def _stores(self, call: n.Call, at: int, held: Mapping[str, str]) -> bool:
        """Whether every function that a call may mean stores behind its argument at a place."""
        match call.function:
            case n.Field(operand=n.Name(text=text), name=name) if text in held:
                last = held[text].rpartition("::")[2]
                every = [m for r in self.library.records(last) for m in r.methods if m.name == name]
            case n.Name(text=text):
                every = self.library.functions(text.rpartition("::")[2])
            case _:
                return False
        every = [one for one in every if at < len(one.parameters)]
        return bool(every) and all(
            one.parameters[at].type.pointers
            and not one.parameters[at].type.const
            and _written(one, one.parameters[at].name)
            for one in every
        )

    def _kernel(self, name: str) -> n.Definition | None:
        found = self.library.functions(name)
        kernel = next((one for one in found if "__global__" in one.words), None)
        return unfolded(kernel, self.library) if kernel is not None else None

    def _handed(self, site: LaunchSite) -> Iterator[tuple[str, n.Variable]]:
        """Parameters that are given a pointer or a struct, with what it is: the tensor of an
        address, whatever it is seen as."""
        definition = self._kernel(kernel_of(site))
        for parameter, value in given(definition, site, self.library) if definition else ():
            made = address(site, value)
            while isinstance(made, n.Cast):
                made = made.operand
            whole = _of_one(made) if not parameter.type.pointers else None
            if not isinstance(made, n.Constant) and (
                parameter.type.pointers or isinstance(whole, n.Name | n.Field)
            ):
                tensor = owner(made, site.names) if parameter.type.pointers else []
                yield next(iter(tensor), _source(made, site)), parameter

    def _once(self, asked: _Asked, definition: n.Definition, name: str) -> list[str]:
        key = (asked, id(definition), name)
        if key not in self._asked:
            self._asked[key] = asked(definition, name)
        return self._asked[key]


MAX_HELPERS = 12
"""Functions that a kernel hands a struct to."""


def _source(made: n.Expr, site: LaunchSite) -> str:
    """What an argument is; of a struct that a function makes of another one, that one."""
    held = site.names.get(made.text) if isinstance(made, n.Name) else made
    given = _of_one(held) if isinstance(held, n.Call) else made
    return shown(given if isinstance(given, n.Name) else made)


def _of_one(made: n.Expr) -> n.Expr:
    """What a struct is made of by a function that is given one thing; itself for others."""
    return made.arguments[0] if isinstance(made, n.Call) and len(made.arguments) == 1 else made


_Asked = Callable[[n.Definition, str], list[str]]
_Kept = dict[tuple[_Asked, int, str], list[str]]
"""What was asked of kernels and their parameters."""


def _order(site: LaunchSite) -> tuple[int, int]:
    return (site.at.line, site.at.column)


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
            if equal and not asked.startswith("not ("):
                equals.setdefault(asked, set()).add(value)
        opposites = frozenset(
            text for guard in site.guards for text in (f"not ({guard})", f"not {guard}")
        )
        left = frozenset(f"not ({text})" for text in site.left)
        return cls(frozenset(site.guards) | left, opposites, equals)

    def excludes(self, other: _Stands) -> bool:
        """Whether two launches stand on two sides of a branch, or under two cases of a switch."""
        if self.opposites & other.conditions or other.opposites & self.conditions:
            return True
        both = self.equals.keys() & other.equals.keys()
        return any(len(self.equals[asked] | other.equals[asked]) > 1 for asked in both)


def _fields(definition: n.Definition, name: str) -> list[str]:
    """The fields of a struct that a kernel speaks of."""
    return [
        one.name for one in n.inside(definition.body)
        if isinstance(one, n.Field) and shown(one.operand) == name
    ]  # fmt: skip


def _left(definition: n.Definition, name: str) -> list[str]:
    """The fields of a struct whose arrays a kernel writes: an element is assigned, or changed by an
    atomic operation; also behind pointers that are made of a field."""
    found: dict[str, None] = {}
    aliases: dict[str, str] = {}
    for one in n.inside(definition.body):
        if isinstance(one, n.Variable) and one.value is not None and not one.type.const:
            if (own := _field(one.value, name, aliases)) and not isinstance(one.value, n.Index):
                aliases[one.name] = own
        target = one.target if isinstance(one, n.Assign) else None
        if isinstance(one, n.Call) and one.arguments and _is_atomic(one):
            target = one.arguments[0]
        if target is not None and (_behind(target) or isinstance(one, n.Call)):
            if own := _field(target, name, aliases):
                found[own] = None
    return list(found)


def _is_atomic(call: n.Call) -> bool:
    """Whether a function of the language changes an element at once."""
    row = CUDA.by_path.get(shown(call.function).removeprefix("::"))
    return row is not None and row.kind in ATOMICS


def _field(node: n.Expr, struct: str, aliases: Mapping[str, str]) -> str:
    """The field of a struct whose array an address or an element lies in; empty for others."""
    while True:
        match node:
            case n.Index(operand=inner) | n.Unary(operand=inner) | n.Cast(operand=inner):
                node = inner
            case n.Binary(operator="+" | "-", left=left):
                node = left
            case n.Field(operand=inner, name=name) if shown(inner) == struct:
                return name
            case n.Field(operand=inner):
                node = inner
            case n.Name(text=text):
                return aliases.get(text, "")
            case _:
                return ""


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
                if shown(node) in names:
                    return True
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
    """Whether an argument is an address behind one of some names, not an element, or the struct
    that one is a field of."""
    whole = isinstance(node, n.Name) and any(one.startswith(f"{node.text}.") for one in names)
    return whole or (not isinstance(node, n.Index) and _mentions(node, names))

"""Launches as functions see them that call the functions which launch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite, owner
from extractors.cuda.render import shown
from kb.evidence import Lines

MAX_SEEN = 64
"""Launches that one function is known to lead to."""

MAX_DEPTH = 3
"""Functions of a file, one calling the other, on the way to a library."""

MAX_FUNCTIONS = 400
"""Functions of a file, above which none is asked."""

_LIBRARY = re.compile(r"(?:^|::)cub::Device\w+::\w+$|^thrust::\w+$|^cudaMemset(?:Async)?$")
"""Functions that run for the whole device. Source: CUB, device-wide primitives; Thrust, algorithms;
CUDA Runtime API, memory management."""

_ARGUMENTS = "Arguments"

Sides = Mapping[int, int]
"""Branches around a statement, and on which side of each it stands."""
Given = tuple[n.Expr, ...]
Handed = Callable[[LaunchSite], Iterator[tuple[str, n.Variable]]]


@dataclass(frozen=True, slots=True)
class Seen:
    """A launch in the words of a function that leads to it: what its parameters are given there,
    where that or the call that leads to it stands, on which sides of branches, and the lines of
    the way; `called`: what is called there to come to it."""

    kernel: str
    given: Mapping[str, n.Variable]
    at: n.Place
    sides: Sides
    lines: frozenset[Lines]
    called: str = ""

    @property
    def order(self) -> tuple[int, int]:
        """Where the function that sees it comes to it."""
        return (self.at.line, self.at.column)

    def copies(self, other: Seen) -> bool:
        """Whether one call leads to both, be it one that a macro wrote several times."""
        again = self.called != "" and self.called == other.called
        return self.order == other.order or (again and place(self.at) == place(other.at))

    def excludes(self, other: Seen) -> bool:
        """Whether the two stand on different sides of a branch."""
        both = self.sides.keys() & other.sides.keys()
        return any(self.sides[one] != other.sides[one] for one in both)


@dataclass(eq=False)
class Callers:
    """What functions of a file lead to; `handed` tells what a launch hands to its kernel."""

    functions: Mapping[str, Sequence[n.Definition]]
    sites: Sequence[LaunchSite]
    handed: Handed
    _known: dict[int, list[Seen]] = field(default_factory=dict)
    _by_library: dict[str, bool] = field(default_factory=dict)

    def pairs(self, kernel: str) -> Iterator[tuple[Seen, Seen]]:
        """A launch of this kernel beside one of another, where one function comes to both, to one
        of them by a call, and both may happen; of the copies that macros make, all."""
        return (pair for pair in self.beside(kernel) if pair[0].called or pair[1].called)

    def beside(self, kernel: str) -> Iterator[tuple[Seen, Seen]]:
        """The same, whether by calls or not."""
        for seen in self._several:
            met = [
                (mine, other)
                for mine in seen
                if mine.kernel == kernel
                for other in seen
                if other.kernel != kernel and not mine.copies(other)
            ]
            apart = {(a.lines, b.lines) for a, b in met if a.excludes(b)}
            yield from (pair for pair in met if (pair[0].lines, pair[1].lines) not in apart)

    def by_library(self, kernel: str) -> Iterator[tuple[Seen, n.Call, frozenset[str]]]:
        """A launch of a kernel beside a call of a library that works on arrays of the device, where
        one function comes to both and both may happen; with what the call is given by name."""
        for function, calls in self._library:
            for seen in self._seen(function):
                for call, sides, given in calls if seen.kernel == kernel else ():
                    both = seen.sides.keys() & sides.keys()
                    if all(seen.sides[one] == sides[one] for one in both):
                        yield seen, call, frozenset(map(_words, given)) - {""}

    @cached_property
    def _library(self) -> list[tuple[n.Definition, list[tuple[n.Call, Sides, Given]]]]:
        """Functions of the host that call a library, with these calls and what they are given."""
        every = [one for many in self.functions.values() for one in many]
        found = []
        for one in every if len(every) <= MAX_FUNCTIONS and self.sites else ():
            met = [*_calls(one.body.body, {})] if "__global__" not in one.words else []
            calls = [(c, sides, c.arguments) for c, sides in met if self._runs_library(c, 0)]
            calls += _by_objects(one, met)
            found += [(one, calls)] if calls else []
        return found

    def _runs_library(self, call: n.Call, depth: int) -> bool:
        """Whether a call is of a library, or of functions of the file that come to one and launch
        nothing themselves."""
        if of_library(call):
            return True
        name = _name(call.function)
        if depth >= MAX_DEPTH or name in self._launched:
            return False
        if any(self._seen(one) for one in self.functions.get(name, ())):
            return False  # It launches through others.
        if name not in self._by_library:
            self._by_library[name] = False  # what calls itself
            self._by_library[name] = any(
                self._runs_library(one, depth + 1)
                for function in self.functions.get(name, ())
                for one in n.inside(function.body)
                if isinstance(one, n.Call)
            )
        return self._by_library[name]

    @cached_property
    def _several(self) -> list[list[Seen]]:
        """What functions lead to that lead to several kernels."""
        every = [one for many in self.functions.values() for one in many]
        if len({kernel_of(site) for site in self.sites}) < 2 or len(every) > MAX_FUNCTIONS:
            return []
        seen = (self._seen(one) for one in every if "__global__" not in one.words)
        return [found for found in seen if len({one.kernel for one in found}) > 1]

    @cached_property
    def _launched(self) -> dict[str, list[LaunchSite]]:
        """Launches by the function that they stand in, each once."""
        found: dict[str, dict[tuple[str, n.Place], LaunchSite]] = {}
        for site in self.sites:
            found.setdefault(site.function, {}).setdefault((kernel_of(site), site.at), site)
        return {name: list(sites.values()) for name, sites in found.items()}

    def _seen(self, function: n.Definition) -> list[Seen]:
        if id(function) not in self._known:
            self._known[id(function)] = []
            self._known[id(function)] = [*islice(self._leads(function), MAX_SEEN)]
        return self._known[id(function)]

    def _leads(self, function: n.Definition) -> Iterator[Seen]:
        own = self._launched.get(function.name, [])
        met = [(call, self._told(call, sides)) for call, sides in _calls(function.body.body, {})]
        words = {one.name for one in function.parameters}
        stands = {(call.at.line, call.at.column): sides for call, sides in met}
        alone = len(self.functions.get(function.name, ())) == 1
        for site in own:
            at = site.at
            if alone or encloses(function, site):  # a macro writes it where it is defined
                inner = {key: one for key, one in site.names.items() if key not in words}
                given = dict(self.handed(replace(site, levels=(), names=inner)))
                sides = stands.get((at.line, at.column), {})
                yield Seen(kernel_of(site), given, at, sides, frozenset({place(at)}))
        for call, sides in met:
            told: set[tuple[object, ...]] = set()
            for below in self._below(call):
                lines, name = below.lines | {place(call.at)}, _name(call.function)
                same = (below.kernel, tuple(below.given), lines)
                if same not in told:  # copies that macros make there look the same from here
                    told.add(same)
                    yield replace(below, at=call.at, sides=sides, lines=lines, called=name)

    def _told(self, call: n.Call, sides: Sides) -> Sides:
        """The sides of a call, where the answer of one that is asked is the truth: what says yes
        has stood on the side that leaves."""
        asked = self.functions.get(_name(call.function), ())
        yes = bool(asked) and all(one.result.name == "bool" for one in asked)
        return {abs(one): side for one, side in sides.items() if one > 0 or yes}

    def _below(self, call: n.Call) -> Iterator[Seen]:
        """What a call leads to, in the words of its caller."""
        for called in self.functions.get(_name(call.function), ()):
            if len(called.parameters) < len(call.arguments) or not called.body.body:
                continue
            names = [one.name for one in called.parameters]
            words = dict(zip(names, map(_words, call.arguments), strict=False))
            for one in self._seen(called):
                given = {words[t]: p for t, p in one.given.items() if words.get(t)}
                yield replace(one, given=given)


def of_library(call: n.Call) -> str:
    """The function of a library that a call is of, where it runs kernels of its own on arrays of
    the device, or sets them; empty for others."""
    name = call.function.text.removeprefix("::") if isinstance(call.function, n.Name) else ""
    return name if _LIBRARY.search(name) is not None else ""


def _by_objects(
    function: n.Definition, met: Sequence[tuple[n.Call, Sides]]
) -> Iterator[tuple[n.Call, Sides, Given]]:
    """Where a function runs an object of CUTLASS, which launches a kernel of its own; with what the
    struct of its arguments is made of. Source: CUTLASS 4.2, gemm/device/gemm_universal_adapter.h.
    """
    made = {x.name: x for x in n.inside(function.body) if isinstance(x, n.Variable)}
    structs = {name: one for name, one in made.items() if one.type.name.endswith(_ARGUMENTS)}
    for call, sides in met if structs else ():
        run = call.function if isinstance(call.function, n.Field) else None
        if run is not None and run.name == "run" and isinstance(run.operand, n.Name):
            given = [x.text for x in call.arguments[:1] if isinstance(x, n.Name)]
            object_ = made.get(run.operand.text)
            kind = f"{object_.type.name}::{_ARGUMENTS}" if object_ is not None else ""
            given += [name for name, one in structs.items() if one.type.name == kind]
            if struct := next((structs[name] for name in given if name in structs), None):
                yield call, sides, tuple(_parts(struct, structs))


def _parts(made: n.Variable, structs: Mapping[str, n.Variable]) -> Iterator[n.Expr]:
    """What stands in the braces of a struct, in braces inside them, and in those of other structs
    that are named there."""
    pending: list[object] = [made.value, made.arguments]
    named = {made.name}
    for one in pending:
        if isinstance(one, tuple):
            pending += one
        elif isinstance(one, n.Braces):
            pending += one.items
        elif isinstance(one, n.Name) and one.text in structs.keys() - named:
            named.add(one.text)
            pending += [structs[one.text].value, structs[one.text].arguments]
        elif isinstance(one, n.Expr):
            yield one


def kernel_of(site: LaunchSite) -> str:
    """The last name of the kernel that is launched."""
    return site.kernel.text.rpartition("::")[2]


def encloses(function: n.Definition, site: LaunchSite) -> bool:
    """Whether a launch stands in this function."""
    return function.at.line <= site.at.line <= function.body.at.end_line


def _name(called: n.Expr) -> str:
    """The last name of a function or method that is called."""
    match called:
        case n.Name(text=text):
            return text.rpartition("::")[2]
        case n.Field(name=text):
            return text
    return ""


def _words(given: n.Expr) -> str:
    """What a caller hands on as it is, the tensor of an address, what a method tells of a name by
    itself; empty for what it computes."""
    while isinstance(given, n.Cast) or (isinstance(given, n.Unary) and given.operator == "&"):
        given = given.operand
    if tensor := owner(given, {}):
        return tensor[0]
    told = given.function if isinstance(given, n.Call) and not given.arguments else None
    asked = isinstance(told, n.Field) and isinstance(told.operand, n.Name)
    return shown(given) if asked or isinstance(given, n.Name | n.Field) else ""


def _calls(statements: Sequence[n.Stmt], sides: Sides) -> Iterator[tuple[n.Call, Sides]]:
    """Calls of statements in order, with the sides of branches that they stand on: what stands
    behind a branch that returns stands on its other side. A call that such a branch asks stands on
    no side of it, told by its number below zero."""
    for one in statements:
        match one:
            case n.If(before=before, condition=asked, then=then, other=other):
                yield from _plain(before, sides)
                leaves = {**sides, -id(one): 0} if returns(then) else sides
                truths = [t for t in _conjuncts(asked) if isinstance(t, n.Call)]
                for call, own in _plain(asked, sides):
                    yield call, (leaves if any(call is t for t in truths) else own)
                yield from _calls(then.body, {**sides, id(one): 0})
                yield from _calls(other.body, {**sides, id(one): 1})
                if returns(then):
                    sides = {**sides, id(one): 1}
            case n.Switch(cases=cases):
                for at, (_, body) in enumerate(cases):
                    yield from _calls(body, {**sides, id(one): at})
            case (
                n.Block(body=body)
                | n.For(body=n.Block(body=body))
                | n.While(body=n.Block(body=body))
            ):
                yield from _calls(body, sides)
            case _:
                yield from _plain(one, sides)


def _conjuncts(asked: object) -> list[object]:
    """What must all be true for a condition to hold."""
    if isinstance(asked, n.Binary) and asked.operator == "&&":
        return [*_conjuncts(asked.left), *_conjuncts(asked.right)]
    return [asked]


def _plain(node: object, sides: Sides) -> Iterator[tuple[n.Call, Sides]]:
    """Calls of an expression; what stands in a closure stands on the sides of its branches."""
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, tuple):
            pending += one[::-1]
        elif isinstance(one, n.Lambda):
            yield from _calls(one.body.body, sides)
        elif isinstance(one, n.Expr | n.Stmt):
            if isinstance(one, n.Call):
                yield one, sides
            pending += n.parts(one)


def returns(block: n.Block) -> bool:
    """Whether the statements of a block end with a return."""
    last = block.body[-1] if block.body else None
    if isinstance(last, n.Block):
        return returns(last)
    return isinstance(last, n.Leave) and last.word == "return"


def alone_under(mine: Sequence[LaunchSite], every: Sequence[LaunchSite]) -> set[Lines]:
    """Conditions that all launches of a kernel stand under, and none of another kernel in the same
    functions of the host does."""
    asked = [{place(x.at) for x in site.tests if shown(x) in site.guards} for site in mine]
    functions = {site.function for site in mine}
    others = [x for x in every if x.function in functions]
    theirs = {place(t.at) for x in others if kernel_of(x) != kernel_of(mine[0]) for t in x.tests}
    return set.intersection(*asked) - theirs

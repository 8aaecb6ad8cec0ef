"""Launches in the host code of a file, each with what is known where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from extractors.cuda import nodes as n
from extractors.cuda.called import Called, meant, through
from extractors.cuda.checks import Check, callees, checked, checked_by, dispatched, with_made
from extractors.cuda.handed import (
    MAX_HANDED,
    Handed,
    Open,
    by_name,
    last_name,
    launched,
    of_device,
    openly,
    passed_on,
    templates,
    under,
)
from extractors.cuda.held import Held, Holding, Known, Way, kernels_behind, names_kernel, with_value
from extractors.cuda.launch_site import ALIAS, LaunchSite, Names, compared
from extractors.cuda.launchers import LAUNCHERS, Launchers, filled, handed, launches
from extractors.cuda.library import Library
from extractors.cuda.render import shown
from extractors.cuda.resident import ASKED, QUERIES, Query, asks_about, names_count
from extractors.cuda.through_callers import returns
from kb.evidence import Lines

MAX_LAUNCHES = 400
MAX_STEPS = 200_000
_NOTHING: frozenset[str] = frozenset()
_UNKNOWN = n.CType("auto")


@dataclass(slots=True)
class Walker:
    """Walks host functions in order and remembers what names were last given."""

    library: Library
    kernels: frozenset[str] = frozenset()
    asking: Mapping[str, Mapping[int, Lines]] = field(default_factory=dict)
    raising: Mapping[str, Mapping[int, Lines]] = field(default_factory=dict)
    found: list[LaunchSite] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    counters: set[str] = field(default_factory=set)
    names: Names = field(default_factory=dict)
    guards: tuple[str, ...] = ()
    steps: int = 0
    within: str = ""
    checks: tuple[Check, ...] = ()
    cases: tuple[tuple[n.Expr, n.Expr], ...] = ()
    tests: tuple[n.Expr, ...] = ()
    left: tuple[str, ...] = ()
    held: Holding = field(default_factory=dict)
    open: dict[str, list[Open]] = field(default_factory=dict)
    handed: list[Handed] = field(default_factory=list)
    called: list[Called] = field(default_factory=list)
    local: dict[str, tuple[n.Lambda, list[LaunchSite], list[Called]]] = field(default_factory=dict)
    replaced: list[LaunchSite] = field(default_factory=list)
    passed: dict[str, list[Handed]] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    lent: set[str] = field(default_factory=set)
    owner: n.Record | None = None
    _all: Known = field(init=False)
    _known: Known = field(init=False)
    _shared: tuple[n.Variable, ...] = field(init=False)
    _objects: Launchers = field(init=False)

    def __post_init__(self) -> None:
        self._objects = Launchers(self.library)
        known = Known(self.kernels, self.functions)
        self._shared = tuple(x for x in self.library.unit.constants.values() if known.holds(x))
        holders = frozenset(one.name for one in self._shared)
        self._all = self._known = replace(known, holders=holders)

    @property
    def functions(self) -> Mapping[str, Sequence[n.Definition]]:
        """The functions of the file."""
        return self.library.unit.functions

    def function(self, function: n.Definition, record: n.Record | None = None) -> None:
        """Every launch in a function of the host; for a method its struct's assertions hold."""
        if "__global__" in function.words or of_device(function):
            return
        own = [one for one in record.fields if "static" in one.storage] if record else []
        self.names = {one.name: one.value for one in own if one.value is not None}
        self.guards, self.within = (), function.name
        self.cases = self.tests = self.left = ()
        asserts = record.asserts if record else ()
        self.checks = tuple(Check(one.condition, one.at) for one in asserts)
        self.held = {
            one.name: (Held(one.value, template=one.template),)
            for one in (*self._shared, *own)
            if one.value is not None
        }
        self.owner, self._known = record, self._all.beside(record)
        before = len(self.found)
        self.given = openly(function)
        self.local, self.replaced, self.passed, self.lent = {}, [], {}, set()
        self._walk(function.body)
        others = {id(one) for one in self.replaced}
        self.found[before:] = [one for one in self.found[before:] if id(one) not in others]
        self._opened(self._key(function.name), function, before)

    def finish(self) -> None:
        """Let the kernels that functions are given be launched by them, and every launch mean what
        the callers of its function make of it."""
        for _ in range(MAX_HANDED):
            calls, self.handed = self.handed, []
            for one in calls:
                opened = self.open.get(one.name) or self._elsewhere(last_name(one.name))
                function = next(iter(self.functions.get(one.site.function, ())), None)
                before = len(self.found)
                for launch in opened:
                    self.found += launched(launch, one, self._known)
                if function is not None:
                    self._opened(function.name, function, before)
            if not self.handed:
                break
        self.found = meant(self.found, self.called, self.functions)

    def _key(self, name: str) -> str:
        """A function by its name; a method of the struct at hand also by that."""
        methods = self.owner.methods if self.owner is not None else ()
        own = any(one.name == last_name(name) for one in methods)
        return f"{self.owner.name}::{last_name(name)}" if self.owner is not None and own else name

    def _opened(self, name: str, function: n.Definition | n.Lambda, before: int) -> None:
        """Keep the launches of what a function is given until it is called."""
        places = tuple(one.name if one.dtype == "auto" else "" for one in function.template)
        names = {one.name for one in function.parameters} | {*places} - {""}
        mine = self.found[before:]
        held = [one for one in mine if one.kernel.text in names]
        if held:
            self.found[before:] = [one for one in mine if one not in held]
            self.open.setdefault(name, []).extend(
                Open(function.parameters, one, template=places) for one in held
            )

    def _elsewhere(self, name: str) -> list[Open]:
        """The launches of a function that a header defines, of what it is given."""
        if name not in self.open and len(self.open) < MAX_LAUNCHES:
            self.open[name] = []
            here = self.functions.get(name, ())
            for one in self.library.functions(name) if not here else ():
                if any(isinstance(x, n.Call) and launches(x) for x in n.inside(one.body)):
                    inner = Walker(self.library, self.kernels)
                    inner.function(one)
                    found = inner.open.get(name, ())
                    self.open[name] += [replace(launch, foreign=True) for launch in found]
        return self.open[name]

    def _walk(self, node: object) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or len(self.found) >= MAX_LAUNCHES:
            return
        match node:
            case tuple():
                for one in node:
                    self._walk(one)
            case n.Block(body=body):
                before = self.names
                self.names, outer = dict(before), self.held
                self.held = dict(outer)
                self._walk(body)
                for one in body:
                    if isinstance(one, n.Variable):
                        self.held.pop(one.name, None)
                        self.held |= {one.name: outer[one.name]} if one.name in outer else {}
                told = {key: value for key, value in self.names.items() if key.startswith("&")}
                own = frozenset(one.name for one in body if isinstance(one, n.Variable))
                self.names = before | told | self._set_again(before, own)
            case n.Variable(name=name):
                before_, calls = len(self.found), len(self.called)
                self._walk((node.value, node.arguments))
                self.names[name] = node if node.value is None else node.value
                self._declared(node, before_, calls)
            case n.Unpack(names=names, value=value):
                self._walk(value)
                for place, name in enumerate(names):
                    self.names[name] = n.Field(node.at, value, str(place))
            case n.Alias(name=name, type=made):
                self.names[f"{ALIAS}{name}"] = n.Name(node.at, made.name, made.arguments)
            case n.If():
                text = shown(node.condition)
                self._walk((node.before, node.condition))
                around, held = self.tests, self.cases
                self.tests = around if node.static else (*around, node.condition)
                self.cases = (*held, *compared(node.condition))
                self._scoped(node.then, (text,))
                self.cases = held
                self._scoped(node.other, (f"not ({text})",))
                self.tests = around
                self.left += (text,) if returns(node.then) else ()
                self.checks += self._checked(node)
            case n.Switch(value=value, cases=cases):
                self._walk(value)
                passed = self._checked(node)
                for label, body in cases:
                    when = f"{shown(value)} == {shown(label)}" if label is not None else "otherwise"
                    held = self.cases
                    self.cases = (*held, (value, label)) if label is not None else held
                    self._scoped(body, (when,), passed)
                    self.cases = held
                self.checks += passed
            case n.Assign(target=target, value=value):
                self._walk(value)
                former = self.names.get(shown(target))
                if node.operator and isinstance(former, n.Expr):
                    self.names[shown(target)] = n.Binary(node.at, node.operator, former, value)
                elif node.operator:  # of what the caller gives
                    self.names[shown(target)] = n.Variable(node.at, shown(target), _UNKNOWN)
                else:
                    self.names[shown(target)] = value
                if isinstance(target, n.Name):
                    with_value(self.held, target.text, self._now(value))
                self.counters |= {shown(target)} if names_count(value) else set()
            case n.Call():
                self._call(node)
            case n.Lambda():
                given, self.given = self.given, self.given | openly(node)
                self._walk(node.body)
                self.given = given
            case n.Assert():
                self.checks += self._checked(node)
            case n.Expr() | n.Stmt():
                for part in type(node).__dataclass_fields__:
                    inner = getattr(node, part)
                    if isinstance(inner, tuple | n.Expr | n.Stmt):
                        self._walk(inner)

    def _checked(self, node: n.Expr | n.Stmt) -> tuple[Check, ...]:
        """What holds once a statement is passed, with what its names were given."""
        return tuple(with_made(checked(node), self.names))

    def _now(self, value: n.Expr) -> Held:
        return Held(value, self.guards, self.tests, self.cases)

    def _declared(self, node: n.Variable, before: int, calls: int) -> None:
        """Remember what a variable is given: a value, a lambda with its launches, or fields."""
        self.held.pop(node.name, None)
        self.open.pop(node.name, None)
        self.local.pop(node.name, None)
        self.passed.pop(node.name, None)
        if isinstance(node.value, n.Lambda):
            self._opened(node.name, node.value, before)
            self.local[node.name] = (node.value, self.found[before:], self.called[calls:])
            self._passes(node.name, node.value)
        value = node.value
        if value is None and node.arguments is not None and len(node.arguments) == 1:
            value = node.arguments[0]
        if value is not None:
            self.held[node.name] = (self._now(value),)
        if isinstance(value, n.Braces):
            self.names |= filled(node, value, self.library)

    def _passes(self, name: str, code: n.Lambda) -> None:
        """Keep what a lambda hands on of what it is given until it is called."""
        own = {one.name for one in code.parameters}
        inside = {id(one) for one in n.inside(code.body)}
        mine = [x for x in self.handed if id(x.call) in inside
                and any(shown(one) in own for one in x.call.arguments)]  # fmt: skip
        self.handed = [x for x in self.handed if all(x is not one for one in mine)]
        self.passed[name] = mine

    def _scoped(
        self, node: object, guards: tuple[str, ...], passed: tuple[Check, ...] = ()
    ) -> None:
        names, before, checks, left = dict(self.names), self.guards, self.checks, self.left
        self.guards, self.checks = (*before, *guards), (*checks, *passed)
        self._walk(node)
        self.names = names | self._set_again(names)
        self.guards, self.checks, self.left = before, checks, left

    def _set_again(self, before: Names, own: frozenset[str] = _NOTHING) -> Names:
        """Names that had a value and that a branch or a loop, just walked, gave another one, which
        holds after it or not: variables without a value, where that is written; not its `own`."""
        return {
            key: n.Variable(now.at, key, _UNKNOWN)
            for key, former in before.items()
            if (now := self.names.get(key)) is not None and now is not former
            and key not in own and key.isidentifier()
        }  # fmt: skip

    def _call(self, node: n.Call) -> None:
        node = by_name(node)
        self.checks += tuple(dispatched(node))
        self._walk((node.function, node.arguments))
        self.checks += self._checked(node)
        if node.launch:
            for kernel, way in self._kernels(node.function):
                shape = (*node.launch, None, None)[:3]
                self._keep(kernel, shape, node.arguments, node.at, way, plain=True)
            return
        self._asked(node)
        self._written(node)
        thrown = self._objects.launch(node, self.names)
        if thrown is not None:
            for kernel, way in self._kernels(thrown.kernel):
                extents = (*thrown.shape, None)[:3]
                self._keep(kernel, extents, thrown.arguments, node.at, way, plain=thrown.plain)
            return
        name = node.function.text if isinstance(node.function, n.Name) else ""
        self.checks += tuple(
            checked_by(callees(name, self.functions, self.owner), node.arguments, self.functions)
        )
        place = LAUNCHERS.get(name)
        if place is None or len(node.arguments) < 2:
            self._hands(node)
            self._means(node, name)
            return
        for kernel, way in self._kernels(node.arguments[place]):
            extents_, given, plain = handed(node, name, self.names, self.lent)
            self._keep(kernel, extents_, given, node.at, way, plain=plain)

    def _hands(self, node: n.Call) -> None:
        """A call that hands a kernel to a lambda or a function."""
        name = node.function.text if isinstance(node.function, n.Name) else ""
        if not name or name in self.kernels or not any(
            shown(one) in self.given or names_kernel(one, self.held, self._known)
            for one in (*node.arguments, *templates(node))
        ):  # fmt: skip
            return
        here = self._site(n.Name(node.at, name), (), (), node.at)
        key = self._key(name)
        handed = Handed(key if "::" in key else last_name(name), node, here, dict(self.held))
        if any(isinstance(one.value, n.Lambda) for one in self.held.get(name, ())):
            for launch in list(self.open.get(name, ())):
                self.found += launched(launch, handed, self._known)
            self.handed += [passed_on(inner, handed, self.local[name][0])
                            for inner in self.passed.get(name, ())]  # fmt: skip
        elif len(self.handed) < MAX_LAUNCHES:
            self.handed.append(handed)

    def _means(self, node: n.Call, name: str) -> None:
        """A call of a lambda or of a function that may launch kernels."""
        last = name.rpartition("::")[2]
        if name in self.local:
            code, sites, calls = self.local[name]
            here = Called(name, node, self._site(n.Name(node.at, name), (), (), node.at))
            self.replaced += sites
            self.found += [through(one, here, code) for one in sites]
            self.called = [x for x in self.called if all(x is not one for one in calls)]
            inner = [replace(one, site=through(one.site, here, code)) for one in calls]
            self.called += inner[: MAX_LAUNCHES - len(self.called)]
        elif self.kernels and last in self.functions and last not in self.kernels:
            if len(self.called) < MAX_LAUNCHES:
                here_ = self._site(n.Name(node.at, name), (), (), node.at)
                self.called.append(Called(last, node, here_))

    def _asked(self, node: n.Call) -> None:
        """What the runtime is asked of the device or of a kernel, and where the answer goes."""
        name = node.function.text if isinstance(node.function, n.Name) else ""
        if name in QUERIES or name == ASKED:
            self.names[shown(node.arguments[0])] = node
        for raises, through_ in ((False, self.asking), (True, self.raising)):
            for given, lines in asks_about(node, through_, raises=raises):
                self.queries += [
                    Query(kernel.text.rpartition("::")[2], lines, raises)
                    for kernel, _ in self._kernels(given)
                ]

    def _written(self, node: n.Call) -> None:
        """A number whose address a call is given is no longer known, nor what a struct holds that
        one is given."""
        name = node.function.text if isinstance(node.function, n.Name) else ""
        self.lent |= {shown(x).removeprefix("&") for x in node.arguments if name not in LAUNCHERS}
        for given in node.arguments:
            if isinstance(given, n.Unary) and given.operator == "&":
                name = shown(given.operand)
                if isinstance(self.names.get(name), n.Constant):
                    self.names[name] = n.Variable(node.at, name, _UNKNOWN)

    def _keep(
        self, kernel: n.Name, shape: tuple[n.Expr | n.Variable | None, ...],
        arguments: tuple[n.Expr, ...], at: n.Place, way: Way = (), *, plain: bool = False,
    ) -> None:  # fmt: skip
        site = replace(self._site(kernel, shape, arguments, at), plain=plain)
        self.found.append(under(site, way))

    def _site(
        self, kernel: n.Name, shape: tuple[n.Expr | n.Variable | None, ...],
        arguments: tuple[n.Expr, ...], at: n.Place,
    ) -> LaunchSite:  # fmt: skip
        return LaunchSite(
            kernel, shape, arguments, at, self.guards, dict(self.names), self.within, self.checks,
            self.cases, self.tests, left=self.left,
        )  # fmt: skip

    def _kernels(self, node: n.Expr) -> Iterator[tuple[n.Name, Way]]:
        """The kernels behind an expression, each with what was asked on the way to it."""
        return kernels_behind(node, self.held, self._known)

"""Where the host works out the extents of a block: in the function of the launch, whatever the
branch, or in functions that hand them to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.render import shown
from kb.evidence import Lines

MAX_NAMES = 12
"""Names that an extent is made of."""

MAX_CALLERS = 2
"""Functions that hand an extent on, one to the other."""

DEVICE = frozenset({"__global__", "__device__"})
"""Words of functions that run on the device."""

Write = n.Variable | n.Assign


@dataclass(slots=True)
class BlockOrigins:
    """The host functions of one file, each walked once."""

    functions: Mapping[str, Sequence[n.Definition]]
    path: str
    _written: dict[int, dict[str, list[Write]]] = field(default_factory=dict)
    _calls: dict[str, list[tuple[n.Definition, n.Call]]] | None = None

    def lines(self, sites: Sequence[LaunchSite]) -> set[Lines]:
        """Lines that declare or set what the blocks of the launches are made of."""
        return self._behind(sites, 1, MAX_CALLERS)

    def grids(self, sites: Sequence[LaunchSite]) -> set[Lines]:
        """Lines that declare, set or compute how many blocks there are, and those of the launches
        that ask for them."""
        return self._behind(sites, 0, 0) | {place(site.at) for site in sites}

    def counting(self, sites: Sequence[LaunchSite]) -> dict[str, Lines]:
        """Functions that are called to find out how many blocks there are, with the place of the
        launch."""
        found: dict[str, Lines] = {}
        for site in sites:
            given = site.shape[0] if site.shape else None
            around = self.holder(site)
            if given is None or around is None:
                continue
            written = self.writes(around)
            behind = (_value(one) for name in _names(given) for one in written.get(name, ()))
            for node in n.inside((given, *behind)):
                if isinstance(node, n.Call) and isinstance(node.function, n.Name):
                    found.setdefault(node.function.text.rpartition("::")[2], place(site.at))
        return found

    def _behind(self, sites: Sequence[LaunchSite], part: int, callers: int) -> set[Lines]:
        found: set[Lines] = set()
        known: set[tuple[int, int]] = set()
        for site in sites:
            block = site.shape[part] if len(site.shape) > part else None
            around = self.holder(site)
            if block is not None and around is not None and (id(block), id(around)) not in known:
                known.add((id(block), id(around)))
                found |= set(self._made(block, around, callers))
        return found

    def holder(self, site: LaunchSite) -> n.Definition | None:
        """The function of the file that a launch stands in."""
        here = [f for f in self.functions.get(site.function, ()) if f.at.path == self.path]
        inside = [f for f in here if f.at.line <= site.at.line <= f.at.end_line]
        return next(iter(here if len(here) == 1 else inside), None)

    def holders(self, site: LaunchSite) -> tuple[n.Definition, ...]:
        """That function, and the outermost that leads to it."""
        own = self.holder(site)
        here = [f for f in self.functions.get(site.root, ()) if f.at.path == self.path]
        tops = [f for f in here if f.at.line <= site.reached.line <= f.at.end_line]
        return tuple(one for one in (own, *tops[:1]) if one is not None)

    def _made(self, block: object, function: n.Definition, callers: int) -> Iterator[Lines]:
        names = _names(block)
        written = self.writes(function)
        for name in names:
            for one in written.get(name, ()):
                yield place(one.at)
                new = [x for x in _names(_value(one)) if x not in names]
                names += new[: MAX_NAMES - len(names)]
        yield from (place(p.at) for p in function.parameters if p.name in names and p.value)
        yield from self._templated(names, function)
        places = {p.name: at for at, p in enumerate(function.parameters)}
        wanted = {places[name] for name in names if name in places}
        for caller, call in self.callers(function.name) if wanted and callers else ():
            for at in wanted:
                if at < len(call.arguments) and caller is not function:
                    yield from self._made(call.arguments[at], caller, callers - 1)

    def _templated(self, names: Sequence[str], function: n.Definition) -> Iterator[Lines]:
        """Calls of a function that give a template argument by its name, or a member of a struct
        that is named as that."""
        last = {name.rpartition("::")[2] for name in names}
        at = [i for i, one in enumerate(function.template) if one.dtype != "typename"
              and one.name in last]  # fmt: skip
        for _, call in self.callers(function.name) if at else ():
            if isinstance(call.function, n.Name) and len(call.function.arguments) > max(at):
                yield place(call.at)

    def writes(self, function: n.Definition) -> dict[str, list[Write]]:
        """What a function declares and sets, by name; a field of a variable belongs to it."""
        if id(function) not in self._written:
            found = self._written[id(function)] = {}
            for one in n.inside(function.body):
                if isinstance(one, n.Variable | n.Assign):
                    name = one.name if isinstance(one, n.Variable) else shown(one.target)
                    stem, _, axis = name.rpartition(".")
                    found.setdefault(stem if axis in ("x", "y", "z") else name, []).append(one)
        return self._written[id(function)]

    def callers(self, name: str) -> list[tuple[n.Definition, n.Call]]:
        """Calls of a function by the host functions of the file."""
        if self._calls is None:
            self._calls = {}
            for caller in (one for many in self.functions.values() for one in many):
                if caller.at.path == self.path and not caller.words & DEVICE:
                    for node in n.inside(caller.body):
                        if isinstance(node, n.Call) and isinstance(node.function, n.Name):
                            called = node.function.text.rpartition("::")[2]
                            self._calls.setdefault(called, []).append((caller, node))
        return self._calls.get(name, [])


def _value(one: Write) -> object:
    return (one.value, one.arguments) if isinstance(one, n.Variable) else one.value


def _names(node: object) -> list[str]:
    if node is None:
        return []
    return list(dict.fromkeys(x.text for x in n.inside(node) if isinstance(x, n.Name)))

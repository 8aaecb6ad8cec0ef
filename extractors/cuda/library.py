"""What a kernel may call or name: definitions of its file and of the headers that it includes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from extractors.cuda import nodes as n
from extractors.cuda.conditions import HOPPER, Profile
from extractors.cuda.inheritance import with_bases
from extractors.cuda.macros import Macro, elsewhere
from extractors.cuda.outside_methods import defined_outside, with_methods
from extractors.cuda.packs import takes
from extractors.cuda.parse import parse
from extractors.cuda.preprocess import Prepared, prepare
from extractors.cuda.public_headers import DEFINITIONS
from kb.dialects.cute import SPACES

PUBLIC_PATH = "<public headers>"
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_CUTE = re.compile(r"\bcute\s*::|\bnamespace\s+cute\b")
MAX_HEADERS = 48
MAX_HEADER_BYTES = 600_000
MAX_LEVELS = 8

Load = Callable[[str, str], tuple[str, str] | None]
"""Path and text of the header that a file (first argument) includes, None when it is not there."""

Above = tuple[str, str]
"""Path of a file that includes another one, and its text above that."""


@dataclass(slots=True)
class Header:
    """A header whose definitions are parsed when one of its names is asked for."""

    path: str
    prepared: Prepared
    mentioned: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    """Words of its text, those among them that were macros when it was prepared, and all of
    these."""
    _words: frozenset[str] | None = None
    _outside: frozenset[str] | None = None
    _unit: n.Unit | None = None

    @property
    def macros(self) -> dict[str, Macro]:
        """The macros that the header itself defines; what others defined before it is theirs."""
        return {k: v for k, v in self.prepared.macros.items() if k not in self.given}

    def unit(self, name: str) -> n.Unit | None:
        """The parsed header when it mentions the name."""
        if self._words is None:
            self._words = frozenset(re.findall(r"[A-Za-z_]\w*", self.prepared.text))
        if name not in self._words:
            return None
        if self._unit is None:
            self._unit = parse(self.prepared, self.path)
        return self._unit

    def completes(self, record: str) -> bool:
        """Whether the header may define methods of a struct outside of it."""
        if self._outside is None:
            self._outside = defined_outside(self.prepared.text)
        return record in self._outside


_HEADERS: dict[str, Header] = {}
"""Headers by path, length of their text and target; many files of a package include the same."""

MAX_KEPT = 400


Instance = tuple[tuple[n.CType | n.Expr, ...], Mapping[str, n.CType], n.Definition, n.Place]
"""Arguments of a template, with the type aliases around, the function that names it, and where."""


@dataclass(slots=True)
class Library:
    """Looks names up, the file first, then its headers in order of inclusion."""

    unit: n.Unit
    headers: list[Header] = field(default_factory=list)
    _functions: dict[str, list[n.Definition]] = field(default_factory=dict)
    _records: dict[str, list[n.Record]] = field(default_factory=dict)
    _having: dict[str, list[n.Record]] = field(default_factory=dict)
    _aliases: dict[str, n.Alias | None] = field(default_factory=dict)
    _constants: dict[str, n.Variable | None] = field(default_factory=dict)
    works: dict[int, tuple[n.Definition, frozenset[str]]] = field(default_factory=dict)
    """What functions do, by their identity, where that was asked; kept with the function, so that
    no other one takes its identity."""
    unfolded: dict[int, tuple[n.Definition, n.Definition]] = field(default_factory=dict)
    """Kernels with the work of functions in them, kept in the same way."""
    tensors: bool = False
    """Whether the file, or a header of its, names CuTe."""
    _given: dict[str, tuple[n.Expr, ...]] = field(default_factory=dict)
    _instances: dict[str, list[Instance]] | None = None

    def of_cute(self, name: str, count: int | None = None) -> str:
        """The last name of a function of CuTe; empty for one of the file or of another library, if
        any there may be called with so many arguments."""
        head, _, last = name.rpartition("::")
        if head not in SPACES or not (head or self.tensors):
            return ""
        own = () if head else self.functions(last)
        return "" if any(count is None or takes(one, count) for one in own) else last

    def tensor_method(self, name: str) -> bool:
        """Whether a method may be one of CuTe's types: no struct of the files has it."""
        return self.tensors and not self.methods(name)

    def instances(self, name: str) -> list[Instance]:
        """Wherever the host code of the file names a template with arguments."""
        if self._instances is None:
            self._instances = {}
            for last, one in _instances(self.unit):
                self._instances.setdefault(last, []).append(one)
        return self._instances.get(name, [])

    def units(self, name: str) -> Iterator[n.Unit]:
        """Files that may define a name."""
        yield self.unit
        for header in self.headers:
            found = header.unit(name)
            if found is not None:
                yield found

    def given(self, name: str) -> tuple[n.Expr, ...]:
        """What functions of the headers give a variable at the level of a file."""
        if name not in self._given:
            self._given[name] = ()
            if self.constant(name) is not None:
                headers = (found for h in self.headers if (found := h.unit(name)) is not None)
                bodies = (f.body for u in headers for many in u.functions.values() for f in many)
                self._given[name] = tuple(
                    one.value for body in bodies for one in n.inside(body)
                    if isinstance(one, n.Assign) and isinstance(one.target, n.Name)
                    and one.target.text == name
                )  # fmt: skip
        return self._given[name]

    def functions(self, name: str) -> list[n.Definition]:
        """Definitions of a function by its last name, of the first file that has any."""
        last = name.rpartition("::")[2]
        if last not in self._functions:
            several = (unit.functions.get(last) for unit in self.units(last))
            self._functions[last] = next((found for found in several if found), [])
        return self._functions[last]

    def declared(self, name: str) -> list[n.Declared]:
        """Templates of a function that are declared with defaults and without a body, each with how
        many parameters the function has."""
        last = name.rpartition("::")[2]
        several = (unit.declared.get(last) for unit in self.units(last))
        return next((found for found in several if found), [])

    def overloads(self, name: str) -> Iterator[list[n.Definition]]:
        """Free functions of that name in the files behind the first that has any."""
        last = name.rpartition("::")[2]
        several = (unit.functions.get(last, []) for unit in self.units(last))
        found = ([f for f in one if not f.owner] for one in several if one)
        yield from islice(found, 1, None)

    def methods(self, name: str) -> list[n.Definition]:
        """Methods of that name of every struct."""
        return [m for r in self.having(name) for m in r.methods if m.name == name]

    def having(self, name: str) -> list[n.Record]:
        """Every struct of the files that has a method of that name; those of public headers are
        known by their own."""
        if name not in self._having:
            own = (unit for unit in self.units(name) if unit.path != PUBLIC_PATH)
            records = (r for unit in own for many in unit.records.values() for r in many)
            self._having[name] = [r for r in records if any(m.name == name for m in r.methods)]
        return self._having[name]

    def records(self, name: str) -> list[n.Record]:
        """Definitions of a struct."""
        last = name.rpartition("::")[2]
        if last not in self._records:
            own = self._defined(last)
            self._records[last] = own
            if any(one.bases for one in own):
                self._records[last] = [with_bases(one, self._defined) for one in own]
        return self._records[last]

    def _defined(self, name: str) -> list[n.Record]:
        """Definitions of a struct as they are written."""
        last = name.rpartition("::")[2]
        several = ((unit, unit.records.get(last)) for unit in self.units(last))
        unit, found = next(((one, many) for one, many in several if many), (None, None))
        if unit is None or found is None:
            return []
        headers = [one for one in self.headers if one.completes(last)]
        more = [made for one in headers if (made := one.unit(last)) is not None]
        units = list({id(one): one for one in (self.unit, unit, *more)}.values())
        return [with_methods(one, units) for one in found]

    def alias(self, name: str) -> n.Alias | None:
        """A type alias at the level of a file."""
        last = name.rpartition("::")[2]
        if last not in self._aliases:
            several = (unit.aliases.get(last) for unit in self.units(last))
            self._aliases[last] = next((found for found in several if found), None)
        return self._aliases[last]

    def aliases(self, name: str) -> list[n.Alias]:
        """Type aliases by that name, at the level of a file or of any struct."""
        units = [*self.units(name)]
        found = [unit.aliases[name] for unit in units if name in unit.aliases]
        several = (r for unit in units for many in unit.records.values() for r in many)
        return found + [
            alias for record in several for alias in record.aliases if alias.name == name
        ]

    def constant(self, name: str) -> n.Variable | None:
        """A constant at the level of a file."""
        last = name.rpartition("::")[2]
        if last not in self._constants:
            several = (unit.constants.get(last) for unit in self.units(last))
            self._constants[last] = next((found for found in several if found), None)
        return self._constants[last]


def _instances(unit: n.Unit) -> Iterator[tuple[str, Instance]]:
    """Every template that the host functions and the methods of a file name, by its last name."""
    hosts: list[tuple[n.Definition, tuple[n.Alias, ...]]]
    hosts = [(one, ()) for many in unit.functions.values() for one in many]
    records = (one for many in unit.records.values() for one in many)
    hosts += [(method, one.aliases) for one in records for method in one.methods]
    outer = {one.name: one.type for one in unit.aliases.values()}
    for function, around in hosts:
        if "__global__" in function.words:
            continue
        nodes = [x for x in n.inside(function.body) if isinstance(x, n.Name | n.Alias)]
        own = [*around, *(x for x in nodes if isinstance(x, n.Alias))]
        aliases = outer | {x.name: x.type for x in own}
        for x in nodes:
            if isinstance(x, n.Name) and x.arguments:
                yield x.text.rpartition("::")[2], (x.arguments, aliases, function, x.at)


def included(text: str) -> list[str]:
    """What a file includes, as it writes it."""
    return _INCLUDE.findall(text)


def above(text: str, name: str) -> str | None:
    """What stands in a text above the inclusion of a header; None where it is not included."""
    at = next((one.start() for one in _INCLUDE.finditer(text) if one[1] == name), None)
    return None if at is None else text[:at]


def gather(
    text: str, path: str, load: Load, profile: Profile = HOPPER, above: Above | None = None
) -> tuple[Prepared, list[Header]]:
    """The prepared file and the headers that it includes, at any level, within bounds, as a
    compiler for one target sees them; what stands above it in a file that includes it is there as
    another header."""
    macros: dict[str, Macro] = {}
    headers: list[Header] = []
    seen: set[str] = {path}
    found = macros, headers, seen, profile
    if above is not None:
        seen.add(above[0])
        _include(included(above[1]), above[0], load, found, ())
        _add(_header(*above, macros, profile), macros, headers)
    _include(included(text), path, load, found, ())
    headers.append(_header(PUBLIC_PATH, DEFINITIONS, {}, profile))
    return prepare(text, macros, profile), headers


def _include(
    names: list[str], path: str, load: Load,
    found: tuple[dict[str, Macro], list[Header], set[str], Profile], levels: tuple[str, ...],
) -> None:  # fmt: skip
    """Headers that a file includes; `levels` are the files that lead there. What does not lie
    beside a header may lie beside the first of them, where the compiler is told to look."""
    macros, headers, seen, profile = found
    level, first = len(levels), (*levels, path)[0]
    for name in names:
        within = len(headers) < MAX_HEADERS and level < MAX_LEVELS
        loaded = (load(path, name) or load(first, name)) if within else None
        if loaded is None or loaded[0] in seen or len(loaded[1]) > MAX_HEADER_BYTES:
            continue
        inner, text = loaded
        seen.add(inner)
        header, known = _header(inner, text, macros, profile), len(macros)
        _include(header.prepared.includes, inner, load, found, (*levels, path))
        if len(macros) > known:
            header = _header(inner, text, macros, profile)
        _add(header, macros, headers)


def _add(header: Header, macros: dict[str, Macro], headers: list[Header]) -> None:
    headers.append(header)
    new = {k: v for k, v in header.macros.items() if k not in macros}
    macros.update({k: elsewhere(v, header.path) for k, v in new.items()})


def names_cute(prepared: Prepared, headers: Iterable[Header]) -> bool:
    """Whether a file, or a header that it includes, takes in CuTe or names its namespace; what
    comments say is no code."""
    units = (prepared, *(one.prepared for one in headers))
    return any(
        _CUTE.search(one.text) or any(name.startswith("cute/") for name in one.includes)
        for one in units
    )


def _header(path: str, text: str, macros: dict[str, Macro], profile: Profile) -> Header:
    """The header as the macros before it make it; those of what it includes itself are known only
    when it is asked for again."""
    key = f"{path}:{len(text)}:{profile.target}"
    told = _HEADERS.get(key)
    words = frozenset(re.findall(r"[A-Za-z_]\w*", text)) if told is None else told.mentioned
    known = frozenset(words & macros.keys())
    if told is None or not known <= told.known:
        if len(_HEADERS) >= MAX_KEPT:
            _HEADERS.clear()
        _HEADERS[key] = Header(
            path, prepare(text, macros, profile), words, known, frozenset(macros)
        )
    return _HEADERS[key]

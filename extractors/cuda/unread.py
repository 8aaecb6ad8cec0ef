"""Names that a function declares and that its text does not have again: nothing reads them,
whatever branch the preprocessor takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.macros import Macro
from extractors.cuda.preprocess import uncommented
from extractors.host.file_facts import Declared, Unread
from kb.evidence import Lines

MAX_FUNCTIONS = 64
"""Functions of its file that one kernel is followed into."""

_WORD = re.compile(r"[A-Za-z_]\w*")
_KEPT = "maybe_unused"
"""The attribute of a name that may stay unread. Source: C++17, [[maybe_unused]]."""


@dataclass(slots=True)
class Texts:
    """The text of a file without its comments, and what functions and macros it has."""

    text: str
    functions: Mapping[str, Sequence[n.Definition]]
    macros: Mapping[str, Macro]
    _lines: list[str] | None = None
    _counts: dict[int, Counter[str]] = field(default_factory=dict)
    _found: dict[tuple[int, str], tuple[Unread, ...]] = field(default_factory=dict)

    def unread(self, kernel: n.Definition, launchers: Sequence[n.Definition]) -> tuple[Unread, ...]:
        """The names that a kernel, the functions of the file that it calls, and those that launch
        it declare and never read."""
        found = list(self._told(kernel, ""))
        others = {id(one): one for one in (*self._called(kernel), *launchers)}
        for helper in others.values():
            found += self._told(helper, helper.name)
        return tuple(dict.fromkeys(found))

    def _told(self, function: n.Definition, shown: str) -> tuple[Unread, ...]:
        key = (id(function), shown)
        if key not in self._found:
            self._found[key] = tuple(self._of(function, shown))
        return self._found[key]

    def _of(self, function: n.Definition, shown: str) -> Iterator[Unread]:
        if not function.body.body:
            return  # a stand-in for a target or a type that is not served
        counts = self._words(function)
        hidden = self._in_macros(counts)
        for name, declared, lines in _declarations(function):
            written = self.rows()[lines[0] - 1 : lines[1]]
            here = sum(_WORD.findall(row).count(name) for row in written)
            if counts[name] != here or name in hidden or any(_KEPT in row for row in written):
                continue
            if here == 1 or declared is Declared.NAME:  # it may be named after what it stands for
                yield Unread(name, declared, shown, lines)

    def _words(self, function: n.Definition) -> Counter[str]:
        """How often each word stands in a function, its head and its template included."""
        if id(function) not in self._counts:
            first = min([function.at.line, *(t.at.line for t in function.template if t.at)])
            rows = self.rows()[first - 1 : function.at.end_line]
            self._counts[id(function)] = Counter(_WORD.findall("\n".join(rows)))
        return self._counts[id(function)]

    def _in_macros(self, words: Iterable[str]) -> frozenset[str]:
        """Words of the macros among some words and of those in their bodies, which stand for more
        than the text shows."""
        found: set[str] = set()
        pending = [word for word in words if word in self.macros]
        for name in pending:
            macro = self.macros[name]
            new = {w for w in _WORD.findall(macro.body) if w not in (macro.parameters or ())}
            pending += [w for w in new - found if w in self.macros and w not in pending]
            found |= new
        return frozenset(found)

    def rows(self) -> list[str]:
        """The lines of the file."""
        if self._lines is None:
            self._lines = uncommented(self.text).split("\n")
        return self._lines

    def _called(self, kernel: n.Definition) -> list[n.Definition]:
        """Functions of the device that a kernel calls by a name of its own, and those that they
        call."""
        found: dict[int, n.Definition] = {}
        pending = [kernel]
        for one in pending:
            for node in n.inside(one.body):
                name = node.function.text if isinstance(node, n.Call) and isinstance(
                    node.function, n.Name) else ""  # fmt: skip
                several = self.functions.get(name.rpartition("::")[2], ()) if name else ()
                here = [f for f in several if f.at.path == kernel.at.path]
                if len(here) == 1 and id(here[0]) not in found and len(found) < MAX_FUNCTIONS:
                    found[id(here[0])] = here[0]
                    pending.append(here[0])
        return [one for one in found.values() if one is not kernel]


def _declarations(function: n.Definition) -> Iterator[tuple[str, Declared, Lines]]:
    """What a function declares: its parameters, those of its template, its variables, constants and
    names of types."""
    for one in function.template:
        if one.name and not one.pack and one.at is not None:
            yield one.name, Declared.TEMPLATE, place(one.at)
    for parameter in function.parameters:
        if parameter.name.isidentifier() and parameter.at.path == function.at.path:
            yield parameter.name, Declared.PARAMETER, place(parameter.at)
    for node in n.inside(function.body):
        if isinstance(node, n.Variable) and node.value is not None and node.name.isidentifier():
            if function.at.line <= node.at.line <= function.at.end_line:
                constant = "constexpr" in node.storage
                yield node.name, Declared.NAME if constant else Declared.LOCAL, place(node.at)
        elif isinstance(node, n.Alias):
            yield node.name, Declared.NAME, place(node.at)

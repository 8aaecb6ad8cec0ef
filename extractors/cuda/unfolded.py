"""A kernel with what the functions that it calls do in the place of the calls, in its own words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from extractors.cuda import nodes as n
from extractors.cuda.library import Library

MAX_DEPTH = 3
"""Functions, one calling the other, that are put in place."""

MAX_CALLS = 60
"""Calls of one kernel that are."""

_Words = Mapping[str, n.Expr | n.CType]
"""What names of a function mean in the kernel."""


def unfolded(definition: n.Definition, library: Library) -> n.Definition:
    """The kernel as if it did by itself what functions do that it calls by their names; what stands
    in another file has the place of the call."""
    known = library.unfolded.get(id(definition))
    if known is None:
        whole = _Unfolder(library, definition.at.path, {*_named(definition)})
        body = whole.statements(definition.body.body, (definition.name,))
        known = definition, replace(definition, body=replace(definition.body, body=body))
        library.unfolded[id(definition)] = known
    return known[1]


@dataclass(slots=True)
class _Unfolder:
    """Puts the bodies of functions in place; `taken` are the names that mean something already."""

    library: Library
    path: str
    taken: set[str]
    calls: int = 0

    def statements(self, body: Sequence[n.Stmt], within: tuple[str, ...]) -> tuple[n.Stmt, ...]:
        """Statements with the work of the functions that they call before them; one that is nothing
        but a call is that work."""
        found: list[n.Stmt] = []
        for one in body:
            called = one.value if isinstance(one, n.Do) else None
            if isinstance(called, n.Call) and (whole := self._work(called, within)) is not None:
                found.append(whole)
                continue
            asked = (x for part in _own(one) for x in n.inside(part) if isinstance(x, n.Call))
            found += [made for x in asked if (made := self._work(x, within)) is not None]
            found.append(self._below(one, within))
        return tuple(found)

    def _below(self, one: n.Stmt, within: tuple[str, ...]) -> n.Stmt:
        """A statement with the same done in the blocks that it holds."""
        match one:
            case n.Block():
                return replace(one, body=self.statements(one.body, within))
            case n.If():
                sides = [replace(x, body=self.statements(x.body, within))
                         for x in (one.then, one.other)]  # fmt: skip
                return replace(one, then=sides[0], other=sides[1])
            case n.For() | n.While():
                inner = replace(one.body, body=self.statements(one.body.body, within))
                return replace(one, body=inner)
            case n.Switch():
                cases = tuple((label, self.statements(x, within)) for label, x in one.cases)
                return replace(one, cases=cases)
        return one

    def _work(self, call: n.Call, within: tuple[str, ...]) -> n.Block | None:
        """The body of the only function that a call can mean, in the words of the caller."""
        if not isinstance(call.function, n.Name) or call.launch or len(within) > MAX_DEPTH:
            return None
        name = call.function.text.rpartition("::")[2]
        if name in within or self.calls >= MAX_CALLS:
            return None
        found = [f for f in self.library.functions(call.function.text) if _takes(f, call)]
        if len(found) != 1 or "__global__" in found[0].words:
            return None
        self.calls += 1
        function = found[0]
        words, kept = self._words(function, call)
        place = call.at if function.at.path != self.path else None
        body = _reworded(function.body.body, words, place)
        return n.Block(call.at, self.statements((*kept, *body), (*within, name)))

    def _words(
        self, function: n.Definition, call: n.Call
    ) -> tuple[dict[str, n.Expr | n.CType], list[n.Stmt]]:
        """What the names of a function mean at a call, and what is declared before its body:
        parameters that it sets. Names of its own that the caller has, too, get other ones, and
        so do template parameters that the arguments tell."""
        words: dict[str, n.Expr | n.CType] = {}
        for own in dict.fromkeys(_named(function)):
            if own in self.taken:
                words[own] = n.Name(call.at, self._fresh(own))
            self.taken.add(own)
        arguments = call.function.arguments if isinstance(call.function, n.Name) else ()
        for at, parameter in enumerate(function.template):
            deduced = n.Name(call.at, self._fresh(f"{parameter.name}'"))
            words[parameter.name] = arguments[at] if at < len(arguments) else deduced
        kept: list[n.Stmt] = []
        changed = {*_assigned(function)}
        for one, value in zip(function.parameters, call.arguments, strict=False):
            if one.name in changed and not one.type.reference:
                renamed = words.get(one.name)
                name = renamed.text if isinstance(renamed, n.Name) else one.name
                kept.append(replace(one, at=call.at, name=name, value=value))
            else:
                words[one.name] = value
        return words, kept

    def _fresh(self, name: str) -> str:
        """A name that no source has."""
        while name in self.taken:
            name += "'"
        self.taken.add(name)
        return name


def _takes(function: n.Definition, call: n.Call) -> bool:
    """Whether a function may be called with so many arguments."""
    least = sum(1 for one in function.parameters if one.value is None)
    return least <= len(call.arguments) <= len(function.parameters)


def _own(one: n.Stmt) -> Iterator[object]:
    """What a statement holds besides the blocks in it."""
    match one:
        case n.Block():
            return
        case n.If():
            yield from (one.before, one.condition)
        case n.For():
            yield from (one.before, one.condition, one.after)
        case n.While():
            yield one.condition
        case n.Switch():
            yield one.value
        case _:
            yield one


def _named(function: n.Definition) -> Iterator[str]:
    """Names that a function declares."""
    yield from (one.name for one in function.template)
    yield from (one.name for one in function.parameters)
    for one in n.inside(function.body):
        if isinstance(one, n.Variable | n.Alias):
            yield one.name
        elif isinstance(one, n.Unpack):
            yield from one.names


def _assigned(function: n.Definition) -> Iterator[str]:
    """Variables that a function sets as a whole."""
    for one in n.inside(function.body):
        if isinstance(one, n.Assign) and isinstance(one.target, n.Name):
            yield one.target.text


def _reworded(node: Any, words: _Words, at: n.Place | None) -> Any:
    """A piece of code with other words, and at another place where one is told."""
    if isinstance(node, tuple):
        return tuple([_reworded(one, words, at) for one in node])
    if isinstance(node, n.Name) and (meant := words.get(node.text)) is not None:
        if isinstance(meant, n.CType):
            return n.Name(at or node.at, meant.name, meant.arguments)
        if not isinstance(meant, n.Name) or not node.arguments:
            return meant
        return replace(meant, arguments=_reworded(node.arguments, words, at))
    if not isinstance(node, n.Expr | n.Stmt | n.CType | n.TemplateParameter):
        return node
    changed: dict[str, Any] = {}
    for one in fields(node):
        value = getattr(node, one.name)
        if one.name == "at":
            changed["at"] = at or value
        elif isinstance(value, tuple | n.Expr | n.Stmt | n.CType):
            changed[one.name] = _reworded(value, words, at)
    if isinstance(node, n.Variable | n.Alias) and isinstance(own := words.get(node.name), n.Name):
        changed["name"] = own.text
    if isinstance(node, n.CType) and (meant := words.get(node.name)) is not None:
        return _type(node, meant, changed)
    return replace(node, **changed)


def _type(node: n.CType, meant: n.Expr | n.CType, changed: dict[str, Any]) -> n.CType:
    """The type that a template parameter stands for, with the pointers and words around it."""
    if isinstance(meant, n.CType):
        return replace(
            meant, pointers=meant.pointers + node.pointers, const=meant.const or node.const,
            reference=meant.reference or node.reference, restrict=meant.restrict or node.restrict,
            extents=changed.get("extents", node.extents), member=node.member or meant.member,
        )  # fmt: skip
    name = meant.text if isinstance(meant, n.Name) else node.name
    return replace(node, **changed | {"name": name})

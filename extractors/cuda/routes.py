"""Branches of host functions that lead to one kernel on this side and to other work on another,
through functions of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import DEVICE
from extractors.cuda.block_size import place
from kb.evidence import Lines

MAX_ROUNDS = 6
"""Functions that call functions that launch a kernel."""

_SAME = ("==", "!=", "&&", "||")
MAX_FUNCTIONS = 400
"""Host functions of one file that are looked at."""


@dataclass(frozen=True, slots=True)
class Fork:
    """What a branch asks, and what each side runs, with the place where that stands."""

    test: n.Expr
    sides: tuple[tuple[frozenset[str], n.Place], ...]

    def lines(self, kernel: str) -> set[Lines]:
        """The lines of the branch and of the sides that run a kernel, where others do other work
        instead."""
        ours = [(side, at) for side, at in self.sides if kernel in side]
        if not ours:
            return set()
        rest = [side for side, _ in self.sides if kernel not in side]
        if not any(side - own for own, _ in ours for side in rest):
            return set()
        return {place(self.test.at), *(place(at) for _, at in ours)}


@dataclass(slots=True)
class Routes:
    """Where the host functions of one file lead; kernels and functions by their names."""

    functions: Mapping[str, Sequence[n.Definition]]
    kernels: frozenset[str]
    path: str
    _leads: dict[str, frozenset[str]] = field(default_factory=dict)
    _inside: dict[int, frozenset[str]] = field(default_factory=dict)
    _behind: dict[int, set[Lines]] = field(default_factory=dict)
    _sets: dict[int, list[tuple[n.If, list[tuple[str, n.Place]]]]] = field(default_factory=dict)

    def forks(self) -> tuple[Fork, ...]:
        """Every branch of the host functions on something known at run time."""
        hosts = [
            one
            for many in self.functions.values()
            for one in many
            if self._here(one) and one.name not in self.kernels
        ][:MAX_FUNCTIONS]
        parted = [one for one in hosts if any(isinstance(x, n.If | n.Switch) for x in _within(one))]
        if not parted:
            return ()
        self._follow(hosts)
        return tuple(
            fork for one in parted if self._leads[one.name] & self.kernels
            for fork in self._of(one.body)
        )  # fmt: skip

    def behind(self, test: n.Expr) -> set[Lines]:
        """Where the answer to a test is found: the function that gives it; branches of the own
        function, further up, that set what is asked for."""
        if id(test) not in self._behind:
            self._behind[id(test)] = self._answers(test)
        return self._behind[id(test)]

    def _answers(self, test: n.Expr) -> set[Lines]:
        asked = set(_asked(test))
        every = [one for many in self.functions.values() for one in many if self._here(one)]
        answers = {place(f.at) for f in every if f.name in asked and f.result.name == "bool"}
        for function in (f for f in every if f.at.line <= test.at.line <= f.at.end_line):
            for branch, rows in self._branches(function):
                sets = [at for name, at in rows if name in asked]
                if sets and branch.at.line < test.at.line:
                    answers |= {place(branch.condition.at), *map(place, sets)}
        return answers

    def _branches(self, function: n.Definition) -> list[tuple[n.If, list[tuple[str, n.Place]]]]:
        """The branches of a function that set names, with the names and where."""
        if id(function) not in self._sets:
            self._sets[id(function)] = [
                (node, rows)
                for node in _within(function)
                if isinstance(node, n.If) and (rows := [*_sets((node.then, node.other))])
            ]
        return self._sets[id(function)]

    def _here(self, one: n.Definition) -> bool:
        return one.at.path == self.path and not one.words & DEVICE

    def _follow(self, hosts: Sequence[n.Definition]) -> None:
        """What each function leads to: kernels, or itself where it takes arrays and leads to
        none."""
        named: dict[str, frozenset[str]] = {}
        for one in hosts:
            named[one.name] = named.get(one.name, frozenset()) | self._names(one.body)
        self._leads = {name: found & self.kernels for name, found in named.items()}
        for _ in range(MAX_ROUNDS):
            more = {
                name: frozenset(self._leads[name].union(*(self._leads.get(f, ()) for f in found)))
                for name, found in named.items()
            }
            if more == self._leads:
                break
            self._leads = more
        for one in hosts:
            arrays = [p for p in one.parameters if p.type.pointers]
            if not self._leads[one.name] and len(arrays) > 1:
                self._leads[one.name] = frozenset({one.name})

    def _names(self, code: object) -> frozenset[str]:
        """The last parts of the names in a piece of code; a statement is read through once, however
        many branches it stands in."""
        if isinstance(code, n.Expr) or not isinstance(code, tuple | n.Stmt):
            return frozenset(_names(code))
        found = self._inside.get(id(code))
        if found is None:
            within = code if isinstance(code, tuple) else n.parts(code)
            found = frozenset().union(*map(self._names, within))
            if isinstance(code, n.Stmt):
                self._inside[id(code)] = found
        return found

    def _runs(self, block: object) -> frozenset[str]:
        found: set[str] = set()
        for name in self._names(block):
            found |= {name} & self.kernels or self._leads.get(name, frozenset())
        return frozenset(found)

    def _of(self, block: n.Block) -> Iterator[Fork]:
        """The forks of a block and of the blocks in it, with what follows where one is left."""
        follows: dict[int, _Rest] = {}
        for node in n.inside(block):
            if isinstance(node, n.Switch) and id(node) not in follows:
                yield Fork(node.value, tuple(self._cases(node, ())))
            elif isinstance(node, n.Block):
                yield from self._ifs(node.body, follows.get(id(node), ()), follows)

    def _cases(self, node: n.Switch, after: _Rest) -> Iterator[tuple[frozenset[str], n.Place]]:
        """The cases, with what comes behind them where others have left by then."""
        left = after if any(_leaves(body) for _, body in node.cases) else ()
        for _, body in node.cases:
            own = self._runs(body)
            if body and left and not _leaves(body):
                yield own | self._runs(left), (body if own else left)[0].at
            elif body:
                yield own, body[0].at

    def _ifs(
        self, body: Sequence[n.Stmt], follows: _Rest, known: dict[int, _Rest]
    ) -> Iterator[Fork]:
        """Forks of one row of statements; what comes behind it is kept for the blocks in it."""
        for index, node in enumerate(body):
            after = _reached((*body[index + 1 :], *follows))
            if isinstance(node, n.Block):
                known[id(node)] = after
            elif isinstance(node, n.Switch):
                known[id(node)] = after
                yield Fork(node.value, tuple(self._cases(node, after)))
            elif isinstance(node, n.If):
                known[id(node.then)] = known[id(node.other)] = after
                if not node.static:
                    one, two = node.then.body, node.other.body
                    if _leaves(one) != _leaves(two):
                        one, two = (one, (*two, *after)) if _leaves(one) else ((*one, *after), two)
                    sides = (one, two)
                    yield Fork(node.condition, tuple((self._runs(s), s[0].at) for s in sides if s))


_Rest = tuple[n.Stmt, ...]
"""What is run behind a block, up to the end of the function."""


def _reached(body: _Rest) -> _Rest:
    """Statements up to the first return among them."""
    ends = (i for i, one in enumerate(body) if isinstance(one, n.Leave) and one.word == "return")
    return body[: next(ends, len(body)) + 1]


def _leaves(body: Sequence[n.Stmt]) -> bool:
    """Whether a row of statements ends in a return, or in what the compiler may make one of."""
    last = body[-1] if body else None
    if isinstance(last, n.If) and last.static:
        return _leaves(last.then.body)
    if isinstance(last, n.Block):
        return _leaves(last.body)
    return isinstance(last, n.Leave) and last.word == "return"


def _asked(test: n.Expr) -> Iterator[str]:
    """What a test asks by itself, or compares for being the same: names and functions."""
    pending: list[n.Expr] = [test]
    for one in pending:
        if isinstance(one, n.Name):
            yield one.text.rpartition("::")[2]
        elif isinstance(one, n.Call):
            pending.append(one.function)
        elif isinstance(one, n.Unary) and one.operator == "!":
            pending.append(one.operand)
        elif isinstance(one, n.Binary) and one.operator in _SAME:
            pending += [one.left, one.right]


def _sets(code: object) -> Iterator[tuple[str, n.Place]]:
    """The names that a piece of code sets."""
    for node in n.inside(code):
        if isinstance(node, n.Assign) and isinstance(node.target, n.Name):
            yield node.target.text, node.at


def _within(function: n.Definition) -> Iterator[object]:
    yield from n.inside(function.body)


def _names(block: object) -> Iterator[str]:
    """The last parts of the names in a piece of code, those of template arguments too."""
    for node in n.inside(block):
        if isinstance(node, n.Name):
            yield node.text.rpartition("::")[2]
            for given in node.arguments:
                if isinstance(given, n.CType):
                    yield given.name.rpartition("::")[2]

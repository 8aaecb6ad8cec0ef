"""Helpers read in place: a body with several returns becomes branches with one value."""

from __future__ import annotations

from collections.abc import Sequence

from extractors.cuda import nodes as n
from extractors.cuda.control import ControlReader
from extractors.cuda.core import joined_kind
from extractors.cuda.loops import contains_leave
from extractors.cuda.returns import returning_behind
from extractors.cuda.values import NULL, UNKNOWN, Frame, Kind, Val
from extractors.writer import OpenRegion
from kb.ir import Region
from kb.ops import OpKind

MAX_BRANCHES = 24
"""Branches with a return inside each other that one helper may have."""


class HelperReader(ControlReader):
    """Reads the bodies of helpers and lambdas where they are called."""

    def body_of(self, function: n.Definition, frame: Frame, at: n.Place) -> Val | None:
        """The value that a helper returns; None when a switch of it returns. Where the kernel ends
        behind the call, the helper returns as the kernel does."""
        body: tuple[n.Stmt, ...] | None = function.body.body
        closes = self.closing == at and not _gives(function.body)
        self.closing = None if closes else self.closing
        if not closes and not _structured(function.body.body):
            body = returning_behind(function)
        if body is None:
            return None
        outer = self._loops
        self._loops = []
        self.trail.append(function)
        before = self.writer.count
        self.writer.site.append(at)
        try:
            with self.inside(frame), self.block(), self.ending(closes, closes):
                if closes:
                    self.left = self.statements(_without_return(body))
                    return Val("")
                value = self._returning(body, 0, at)
                kind = self.kind(function.result, frame)
                if value.name and kind != UNKNOWN and kind.dtype != "void":
                    value = self.convert(value, kind, at)
                return value
        finally:
            self.writer.site.pop()
            self.trail.pop()
            self._loops = outer
            cost = self.writer.count - before
            self.read_once[function.at] = max(cost, self.read_once.get(function.at, 0))

    def _returning(self, body: Sequence[n.Stmt], depth: int, at: n.Place) -> Val:
        """Read statements up to their return and give its value."""
        for index, statement in enumerate(body):
            rest = body[index + 1 :]
            if isinstance(statement, n.Leave) and statement.word == "return":
                return self.read(statement.value) if statement.value is not None else Val("")
            if not contains_leave(statement, ("return",)):
                self.statement(statement)
                continue
            if isinstance(statement, n.Block):
                return self._returning((*statement.body, *rest), depth, at)
            if isinstance(statement, n.If):
                self.statements(statement.before)
                return self._split(statement, rest, depth + 1, at)
        return Val("")

    def _split(self, node: n.If, rest: Sequence[n.Stmt], depth: int, at: n.Place) -> Val:
        """A branch one side of which returns: what follows belongs to the other side."""
        condition = self.read(node.condition)
        sides = [_continued(side, rest) for side in (node.then, node.other)]
        if condition.const is not None or depth > MAX_BRANCHES:
            return self._returning(sides[0 if condition.const else 1], depth, at)
        keys = self._keys(self.assigned(tuple(sides)))
        before = dict(self.names)
        ends: list[tuple[OpenRegion, dict[str, Val], Val]] = []
        for side in sides:
            self.names = dict(before)
            with self.writer.region() as opened, self.block():
                value = self._returning(side, depth, at)
            ends.append((opened, self.names, value))
        value = self._merged(node, condition, keys, ends)
        self.names = {**before, **{key: self.names[key] for key in keys}}
        return value

    def choice_with_effects(self, node: n.Choice, condition: Val) -> Val:
        """`a ? f(&b) : c` as a branch that gives its value and what its sides wrote."""
        keys = self._keys(self.assigned((node.then, node.other)))
        before = dict(self.names)
        ends: list[tuple[OpenRegion, dict[str, Val], Val]] = []
        for side in (node.then, node.other):
            self.names = dict(before)
            with self.writer.region() as opened, self.block():
                value = self.read(side)
            ends.append((opened, self.names, value))
        kind = joined_kind(ends[0][2], ends[1][2])
        alike: list[tuple[OpenRegion, dict[str, Val], Val]] = []
        for opened, names, value in ends:
            with self.writer.reopen(opened):
                alike.append((opened, names, self.convert(value, kind, node.at)))
        made = self._merged(node, condition, keys, alike)
        self.names = {**before, **{key: self.names[key] for key in keys}}
        return made

    def _merged(
        self, node: n.If | n.Choice, condition: Val, keys: tuple[str, ...],
        ends: list[tuple[OpenRegion, dict[str, Val], Val]],
    ) -> Val:  # fmt: skip
        given = [value for _, _, value in ends if value.name]
        kind = next((v.kind for v in given if v.kind != NULL), given[0].kind if given else UNKNOWN)
        regions: list[Region] = []
        kinds: list[Kind] = []
        for opened, names, value in ends:
            self.names = names
            with self.writer.reopen(opened):
                values = [self.current(key, node.at) for key in keys]
                kinds = [self._kind_of(key) for key in keys]
                if given:
                    value = value if value.name else self.one(OpKind.UNDEF, (), node.at, kind)
                    values.insert(0, value)
                operands = [("value", v.name) for v in values]
                self.writer.emit(OpKind.YIELD, operands, node.at)
            regions.append(opened.region)
        results = [(key.partition("#")[0], k) for key, k in zip(keys, kinds, strict=True)]
        if given:
            results.insert(0, ("", kind))
        made = self.writer.emit(
            OpKind.IF, [("condition", condition.name)], node.at, results, (), tuple(regions)
        )
        for key, name, k in zip(keys, made[len(made) - len(keys) :], kinds, strict=True):
            self.names[key] = Val(name, k)
        return Val(made[0], kind) if given else Val("")


def _continued(side: n.Block, rest: Sequence[n.Stmt]) -> tuple[n.Stmt, ...]:
    """A side with what follows the branch, unless the side returns for sure."""
    if _returns(side.body):
        return side.body
    return (*side.body, *rest)


def _returns(body: Sequence[n.Stmt]) -> bool:
    for statement in body:
        if isinstance(statement, n.Leave) and statement.word == "return":
            return True
        if isinstance(statement, n.Block) and _returns(statement.body):
            return True
        if isinstance(statement, n.If):
            if _returns(statement.then.body) and _returns(statement.other.body):
                return True
    return False


def _without_return(body: tuple[n.Stmt, ...]) -> tuple[n.Stmt, ...]:
    """A body without the return at its end, which comes anyway."""
    last = body[-1] if body else None
    return body[:-1] if isinstance(last, n.Leave) and last.word == "return" else body


def _gives(body: n.Block) -> bool:
    """Whether a function returns a value."""
    return any(isinstance(one, n.Leave) and one.value is not None for one in n.inside(body))


def _structured(body: Sequence[n.Stmt]) -> bool:
    """True when no loop and no switch returns."""
    return not any(
        isinstance(one, n.For | n.While | n.Switch) and contains_leave(one, ("return",))
        for one in n.inside(tuple(body))
    )

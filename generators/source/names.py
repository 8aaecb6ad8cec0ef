"""Which variable holds which value. Source names are reused; a value that would be overwritten gets
its own."""

from __future__ import annotations

import keyword
from dataclasses import dataclass, field


class NameClash(Exception):
    """Internal: a value was overwritten before its last use; carries the value to rename."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value


@dataclass(slots=True)
class Renames:
    """What earlier attempts at writing a function learned: names that values must give up."""

    values: dict[str, str] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Names:
    """Variable of each value, and the value that each variable holds at the point being written."""

    reserved: frozenset[str]
    parameters: frozenset[str]
    renames: Renames = field(default_factory=Renames)
    shared: dict[str, str] = field(default_factory=dict)
    holds: dict[str, str | None] = field(default_factory=dict)
    stores: list[set[str]] = field(default_factory=lambda: [set()])
    outer_reads: list[list[tuple[str, str]]] = field(default_factory=list)

    def of(self, value: str) -> str:
        """Variable of a value: that of its loop or branch when it is one of theirs."""
        owner = self._owner(value)
        if owner in self.parameters:
            return owner
        if owner in self.renames.values:
            return self.renames.values[owner]
        hint = owner.rpartition(".")[0]
        hint = self.renames.hints.get(hint, hint)
        if not hint:
            return f"value_{owner[1:]}"
        clean = hint not in self.reserved and not keyword.iskeyword(hint)
        return hint if clean else f"{hint}_"

    def _owner(self, value: str) -> str:
        while value in self.shared:
            value = self.shared[value]
        return value

    def share(self, value: str, owner: str) -> None:
        """Let `value` live in the variable of `owner`."""
        if self._owner(owner) != value:
            self.shared[value] = owner

    def store(self, value: str) -> str:
        """The variable of `value`, which now holds it."""
        name = self.of(value)
        self.hold(name, value)
        return name

    def hold(self, name: str, value: str) -> None:
        """`name` now holds `value`."""
        self.holds[name] = value
        for written in self.stores:
            written.add(name)

    def read(self, value: str) -> str:
        """The variable that holds `value`; NameClash when something else has taken it."""
        name = self.of(value)
        held = self.holds.get(name)
        if held != value:
            raise NameClash(self._loser(value, held))
        for reads in self.outer_reads:
            reads.append((name, value))
        return name

    def _loser(self, value: str, held: str | None) -> str:
        """Which of two values moves to a new name: never a parameter."""
        owner = self._owner(value)
        if owner in self.parameters and held is not None:
            return self._owner(held)
        return owner

    def rename(self, value: str) -> None:
        """Give the owner of `value` a name of its own; a parameter keeps its name and evicts the
        locals."""
        owner = self._owner(value)
        if owner in self.parameters:
            self.renames.hints[owner] = self._fresh(owner)
            return
        self.renames.values[owner] = self._fresh(owner.rpartition(".")[0] or "value")

    def _fresh(self, hint: str) -> str:
        taken = {*self.renames.values.values(), *self.renames.hints.values()}
        number = 1
        while f"{hint}_{number}" in taken | self.reserved | self.parameters:
            number += 1
        return f"{hint}_{number}"

"""What the text of a file says of a kernel and of the functions that launch it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kb.evidence import Lines


@dataclass(frozen=True, slots=True)
class EmptyGrid:
    """A size that makes a grid of no blocks when it is zero, and where the grid is made; `divides`
    where the number of blocks is a quotient by something that is zero with it."""

    size: str
    lines: tuple[Lines, ...]
    divides: bool = False


@dataclass(frozen=True, slots=True)
class LargeBlock:
    """A size that a block grows with and that nothing bounds, and where the block is made."""

    size: str
    lines: tuple[Lines, ...]


class Declared(StrEnum):
    """What a name is declared as."""

    TEMPLATE = "template parameter"
    PARAMETER = "parameter"
    LOCAL = "variable"
    NAME = "constant or type"


@dataclass(frozen=True, slots=True)
class Unread:
    """A name that the function declaring it never reads; `function` is empty for the kernel."""

    name: str
    declared: Declared
    function: str
    lines: Lines


@dataclass(frozen=True, slots=True)
class Hollow:
    """A body that only a compiler for a capability of at least `capability`, ten times the major
    number and the minor one, sees; `lines` are those of the condition and of its end."""

    capability: int
    lines: tuple[Lines, ...]


@dataclass(frozen=True, slots=True)
class Habit:
    """A name of the host, of a function that it calls or of something that it declares, and where
    it stands."""

    name: str
    lines: Lines


@dataclass(frozen=True, slots=True)
class Habits:
    """What the functions do that launch a kernel: calls whose result nothing takes, variables that
    keep what the first device answered, questions to the runtime before every launch, launches
    that name no stream beside tensors that have one, and parameters that are handed the address of
    a tensor nothing is asked of."""

    dropped: tuple[Habit, ...] = ()
    kept: tuple[Habit, ...] = ()
    repeated: tuple[Habit, ...] = ()
    streamless: tuple[Lines, ...] = ()
    loose: tuple[Habit, ...] = ()

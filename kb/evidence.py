"""What was seen and what was measured: decisions, findings, measurements. Plain frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kb.ir import Origin, Place

Lines = tuple[int, int]
"""First and last source line, 1-based, inclusive."""


class Shown:
    """A record whose `lines` show it: in the order of the file, each span once."""

    __slots__ = ()
    lines: tuple[Lines, ...]

    def __post_init__(self) -> None:
        """Put the lines in order."""
        ordered = tuple(sorted({(first, last) for first, last in self.lines}))
        if ordered != self.lines or any(type(one) is Place for one in self.lines):
            object.__setattr__(self, "lines", ordered)


class AxisKind(StrEnum):
    """Where an axis acts: on the program, on its instantiation, or on the code around the
    launch."""

    DESIGN = "design"
    TUNING = "tuning"
    HOST = "host"


class Severity(StrEnum):
    """How much a reader should worry."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Numerics(StrEnum):
    """Whether changing an axis can change the bits of a result."""

    STABLE = "bitwise stable"
    CHANGES = "can change bits"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisNumerics(Shown):
    """Numerics class of one tuned name of a kernel, why it is so, and the lines that show it."""

    name: str
    numerics: Numerics
    reason: str
    lines: tuple[Lines, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Shown):
    """An axis value that a pattern saw in a kernel, with its lines; `subject` is the operand or
    loop it speaks of. `elsewhere` are the lines of other files that these lead to."""

    axis: str
    value: str
    pattern: str
    lines: tuple[Lines, ...]
    kind: AxisKind = AxisKind.DESIGN
    subject: str | None = None
    file: str | None = None
    elsewhere: tuple[Origin, ...] = ()

    @property
    def by_file(self) -> dict[str, tuple[Lines, ...]]:
        """What `elsewhere` says, for each file in turn."""
        found: dict[str, tuple[Lines, ...]] = {}
        for file, lines in self.elsewhere:
            found[file] = (*found.get(file, ()), lines)
        return found

    def __post_init__(self) -> None:
        """Keep where the lines lead, then put them in order."""
        places = [one for one in self.lines if isinstance(one, Place)]
        led = {at for one in places for at in (one.origin, *one.through)}
        if led:
            object.__setattr__(self, "elsewhere", tuple(sorted(led.union(self.elsewhere))))
        Shown.__post_init__(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Shown):
    """What a reader should know: a rule, what it saw, where, and what to do about it."""

    rule: str
    severity: Severity
    message: str
    lines: tuple[Lines, ...]
    fix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """What the reader could not understand, or why a file yields nothing."""

    severity: Severity
    message: str
    hint: str | None = None
    lines: Lines | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What happened when a kernel ran or compiled; every number has its unit, its machine and its
    versions."""

    metric: str
    value: float
    unit: str
    target: str
    samples: int
    seed: int
    versions: tuple[tuple[str, str], ...]
    kernel_digest: str
    problem: tuple[tuple[str, str], ...] = ()
    point: tuple[tuple[str, str], ...] = ()

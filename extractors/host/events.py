"""What the reading of host code observes: signatures given to it, and the events it records on
the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extractors.host.assume import Path
from extractors.host.values import Expr, KernelValue, Ref, Value
from kb.evidence import Lines
from kb.space import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSignature:
    """What the kernel reader knows of one kernel: parameters with their constexpr flag, hints of
    its decorator."""

    name: str
    params: tuple[tuple[str, bool], ...]
    decorator_hints: Point = ()
    lines: Lines = (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetProfile:
    """One GPU as host code sees it; shared memory in bytes per block."""

    name: str
    capability: tuple[int, int]
    sms: int
    shared_bytes: int


PROFILES: Mapping[str, TargetProfile] = {
    row.name: row
    for row in (
        TargetProfile(name="sm_80", capability=(8, 0), sms=108, shared_bytes=166_912),
        TargetProfile(name="sm_86", capability=(8, 6), sms=84, shared_bytes=101_376),
        TargetProfile(name="sm_89", capability=(8, 9), sms=142, shared_bytes=101_376),
        TargetProfile(name="sm_90", capability=(9, 0), sms=132, shared_bytes=232_448),
        TargetProfile(name="sm_100", capability=(10, 0), sms=148, shared_bytes=232_448),
        TargetProfile(name="sm_103", capability=(10, 3), sms=148, shared_bytes=232_448),
        TargetProfile(name="sm_120", capability=(12, 0), sms=170, shared_bytes=101_376),
    )
}
"""A100, A40, L40S, H100 SXM, B200, B300, RTX 5090. Source: CUDA C++ Programming Guide, technical
specifications per compute capability (shared memory, opt-in); SM counts from NVIDIA's product data
sheets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Points of a space under conditions; `reason` says why some may be missing."""

    conds: tuple[tuple[Expr, bool], ...]
    points: tuple[tuple[tuple[str, Value], ...], ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HintRecord:
    """A kernel object was given hints, by its decorator or on the way to the launch."""

    kernel: str
    hints: tuple[tuple[str, Value], ...]
    lines: Lines


@dataclass(slots=True, kw_only=True)
class SearchRecord:
    """One search over configurations, called or attached by a decorator."""

    id: int
    kind: str
    lines: Lines
    configs: Value
    kernel: Value = None
    grid: Value = None
    args: Value = None
    hints: Value = None
    path: Path = field(default_factory=Path)
    stack: tuple[str, ...] = ()
    budget: Value = None
    key: Value = None
    prune: Value = None
    resets: tuple[str, ...] = ()
    restores: tuple[str, ...] = ()
    copied: tuple[tuple[bool, Lines], ...] = ()
    """Whether a tensor of a trial was zeroed, or cloned, and where."""
    order: int = 0
    seen_axes: list[str] = field(default_factory=list)
    cases: tuple[Case, ...] = ()
    generator: tuple[str, Lines, tuple[str, ...]] | None = None
    has_hints: bool = False
    module: str = ""
    place: int = 0
    """Which argument holds the configurations, of what attaches the search."""
    _values: Mapping[str, tuple[Value, ...]] | None = field(default=None, compare=False, repr=False)

    def values(self) -> Mapping[str, tuple[Value, ...]]:
        """The axes in source order with the values that points have on them, each once.

        Told once: a search may have thousands of points, and every launch asks.
        """
        if self._values is None:
            found: dict[str, dict[Value, None]] = {}
            for case in self.cases:
                for point in case.points:
                    for name, value in point:
                        found.setdefault(name, {})[value] = None
            self._values = {name: tuple(rows) for name, rows in found.items()}
        return self._values


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRecord:
    """One kernel launch on one path."""

    kernel: KernelValue
    grid: Value
    args: tuple[tuple[str, Value], ...]
    lines: Lines
    arg_lines: tuple[tuple[str, Lines], ...]
    path: Path
    stack: tuple[str, ...]
    order: int
    sites: tuple[Lines, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRecord:
    """A condition that the host demands: an assert, or the opposite of what makes it raise."""

    cond: Value
    lines: Lines
    path: Path
    stack: tuple[str, ...]
    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """A function that is read by itself was called: which (the identity of its definition) and what
    it was given."""

    function: int
    given: tuple[tuple[str, Value], ...]
    path: Path
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PickRecord:
    """Element `index` of a list of configurations was taken by position."""

    points: tuple[tuple[tuple[str, Value], ...], ...]
    lines: Lines
    path: Path
    stack: tuple[str, ...]
    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NormaliseRecord:
    """`.contiguous()` was called on a tensor."""

    tensor: Value
    lines: Lines
    path: Path
    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRecord:
    """The shape of a tensor was taken apart into as many extents as it has axes."""

    tensor: Value
    rank: int
    lines: Lines
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRecord:
    """A tensor was cloned, or (`zeroed`) filled with zeros in place."""

    tensor: Value
    zeroed: bool
    lines: Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """An extent was rounded up to a power of two."""

    result: Expr
    lines: Lines
    path: Path = field(default_factory=Path)
    stack: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelRecord:
    """Part of a tensor filled with one value was overwritten: the rest keeps the value."""

    tensor: Value
    fill: Value
    lines: Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeConfig:
    """Where a configuration record was made: the functions on the stack and the lines."""

    ref: Ref
    stack: tuple[tuple[str, Lines, tuple[str, ...]], ...]
    lines: Lines

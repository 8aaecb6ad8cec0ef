"""What a caller of `generate` set, sorted by what follows it: rewrites, the launch, tile sizes, how
tiles are addressed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from generators.launch_point import ACCUMULATORS, Capability, LaunchPoint, capability
from generators.lower.roads import DESCRIPTORS, Road, default_road
from generators.rewrites.registry import axes
from kb.dsl.model import Document
from kb.errors import InputError, SyntaxProblem, UnknownName
from kb.families.model import Choice, ChosenBy, matching
from kb.ir import Kernel
from kb.planner.expressions import parse
from kb.planner.nodes import Literal
from kb.space import Scalar

ACCESS = "access_mode"
SITE = "descriptor_site"
"""Where tensor descriptors are made: handed over by the host, or made by the kernel."""

_ROADS = {
    "element gather/pointer": Road.POINTERS,
    "tile-indexed (TMA-able) load": DESCRIPTORS,
    "tensor descriptor": DESCRIPTORS,
}
_SITES = {"host": Road.HOST, "device": Road.DEVICE}
_NUMBER = re.compile(r"\d+")
_STAGES = ("num_stages", "prefetch_depth")
_LAUNCH = ("num_warps", *_STAGES, "num_ctas", "occupancy")
_REGISTERS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Values of design axes, launch options, tile sizes; the road of tiles, None unless set."""

    design: Mapping[str, str] = field(default_factory=dict)
    launch: Mapping[str, Scalar] = field(default_factory=dict)
    tuned: Mapping[str, Scalar] = field(default_factory=dict)
    asked_road: Road | None = None
    target: Capability = (9, 0)

    @property
    def road(self) -> Road:
        """How tiles are addressed."""
        return self.asked_road or default_road(self.target)

    @property
    def made_by(self) -> frozenset[str]:
        """The design axes that the caller set."""
        return frozenset(self.design) | ({ACCESS} if self.asked_road else frozenset())

    def warps(self, point: LaunchPoint) -> int:
        """Four warps, eight for a tile of scores that four cannot hold."""
        given = self.launch.get("num_warps")
        if isinstance(given, int):
            return given
        size = 1
        for _, value in point.values:
            size *= value
        return 8 if size >= ACCUMULATORS else 4

    @property
    def stages(self) -> int | None:
        """Stages of loops that were asked for."""
        found = [self.launch[name] for name in _STAGES if name in self.launch]
        return found[0] if found and isinstance(found[0], int) else None

    def options(self, point: LaunchPoint) -> tuple[tuple[str, str], ...]:
        """Launch options beside warps and stages; occupancy becomes a bound on registers."""
        found: list[tuple[str, str]] = []
        if "num_ctas" in self.launch:
            found.append(("num_ctas", str(self.launch["num_ctas"])))
        blocks = self.launch.get("occupancy")
        if isinstance(blocks, int):
            registers = _REGISTERS // (blocks * 32 * self.warps(point))
            found.append(("maxnreg", str(min(255, registers // 8 * 8))))
        return tuple(found)

    def tuning_point(self, point: LaunchPoint, dialect: str) -> tuple[Choice, ...]:
        """The values that the program is instantiated with, and who chose them."""
        rows = [_choice(name, value, set_=name in self.tuned) for name, value in point.values]
        if dialect == "triton" or "num_warps" in self.launch:
            by = ChosenBy.SETTING if "num_warps" in self.launch else ChosenBy.DEFAULT
            rows.append(Choice(axis="num_warps", value=self.warps(point), by=by))
        rows += [
            _choice(name, value, set_=True)
            for name, value in self.launch.items()
            if name != "num_warps"
        ]
        if dialect == "triton" and self.road is not Road.POINTERS:
            by = ChosenBy.SETTING if self.asked_road else ChosenBy.DEFAULT
            rows.append(Choice(axis=SITE, value=self.road.value, by=by))
        return tuple(rows)


def _choice(name: str, value: Scalar, *, set_: bool) -> Choice:
    return Choice(axis=name, value=value, by=ChosenBy.SETTING if set_ else ChosenBy.SPACE)


def scalar(text: str) -> Scalar:
    """A setting as the number, truth value or word that it spells."""
    try:
        tree = parse(text)
    except SyntaxProblem:
        return text
    return tree.value if isinstance(tree, Literal) else text


def sorted_settings(
    kernel: Kernel, document: Document, given: Mapping[str, Scalar], dialect: str, arch: str
) -> Settings:
    """Settings by what they change, for a target.

    Raises UnknownName for an axis that nothing follows, InputError for a value that cannot be
    built.
    """
    names = {name.casefold(): name for name in kernel.entry.parameter_names}
    roads = {ACCESS: _ROADS, SITE: _SITES} if dialect == "triton" else {}
    lowered = kernel.dialect != dialect
    design: dict[str, str] = {}
    launch: dict[str, Scalar] = {}
    tuned: dict[str, Scalar] = {}
    road: Road | None = None
    for axis, value in given.items():
        if axis in axes():
            design[axis] = _known(axis, value, axes()[axis])
        elif axis in roads and lowered:
            made = roads[axis][_known(axis, value, tuple(roads[axis]))]
            road = made if road is None or axis == SITE else road
        elif axis in _LAUNCH:
            launch[axis] = _whole(axis, value)
        elif axis.casefold() in names:
            tuned[names[axis.casefold()]] = _whole(axis, value)
        else:
            tiles = (name for name, _ in _searched(document))
            known = ", ".join([*axes(), *(roads if lowered else ()), *_LAUNCH, *tiles])
            raise UnknownName(
                f"nothing in this kernel follows the axis `{axis}`.", hint=f"It changes {known}."
            )
    target = capability(arch)
    return Settings(design=design, launch=launch, tuned=tuned, asked_road=road, target=target)


def _known(axis: str, value: Scalar, values: tuple[str, ...]) -> str:
    found = matching(value, values)
    if found is None:
        known = ", ".join(values)
        raise InputError(f"`{axis}` cannot be `{value}` here.", hint=f"It can be {known}.")
    return str(found)


def _searched(document: Document) -> tuple[tuple[str, Scalar], ...]:
    spaces = document.tuning.spaces if document.tuning is not None else ()
    return spaces[0].points[0] if spaces and spaces[0].points else ()


def _whole(axis: str, value: Scalar) -> int:
    """A whole number, also where words stand beside it as in `latency 4`."""
    digits = _NUMBER.findall(str(value))
    if isinstance(value, bool) or len(digits) != 1 or int(digits[0]) < 1:
        raise InputError(f"`{axis}` cannot be `{value}`.", hint="Give a whole number from 1 up.")
    return int(digits[0])

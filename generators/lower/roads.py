"""How tiles are addressed in Triton: by pointers with masks, or through tensor descriptors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kb.ir import Literal


class Road(StrEnum):
    """Pointers with masks; descriptors made by the kernel; descriptors handed over by the host."""

    POINTERS = "pointers"
    DEVICE = "device"
    HOST = "host"


DEFAULT_ROAD = Road.HOST
"""What a generated file uses unless it is told otherwise, where the GPU has a copy engine.

Decided by the times in benchmarks/h200/descriptors.json.
"""

COPY_ENGINE = (9, 0)
"""The first compute capability with the Tensor Memory Accelerator; before it, Triton writes
descriptors out as pointers and loses the asynchronous copies (benchmarks/cross_dialect).

Source: CUDA C++ Programming Guide, Tensor Memory Access.
"""

DESCRIPTORS = Road.HOST
"""The kind of descriptor where descriptors are asked for: those of the host cost no kernel time."""


def default_road(capability: tuple[int, int]) -> Road:
    """The road for a target when nobody asks for one."""
    return DEFAULT_ROAD if capability >= COPY_ENGINE else Road.POINTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """What the caller of a lowering chooses and knows.

    `known` holds values of compile-time parameters, `element_bytes` the size of an array's elements
    where it is known, `natural` the parameters that the host keeps from being negative.
    """

    road: Road = Road.POINTERS
    known: Mapping[str, Literal] = field(default_factory=dict)
    element_bytes: Mapping[str, int] = field(default_factory=dict)
    natural: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How one access was lowered: through a descriptor, or by pointers for a reason."""

    line: int
    kind: str
    array: str
    reason: str = ""

    @property
    def described(self) -> bool:
        """True when a descriptor serves the access."""
        return not self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A descriptor: the array, the extents of its block outermost first, and what pads it.

    `extents` are numbers or compile-time expressions; the last of them times the size of an element
    has to be 16 bytes at least.
    """

    name: str
    array: str
    extents: tuple[str, ...]
    padding: str

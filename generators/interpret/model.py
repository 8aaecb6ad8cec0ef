"""What goes into an interpreter process: plain records, with the arrays in a file beside them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

Scalar = int | float | bool | str | None


class BindingKind(StrEnum):
    """How a parameter is bound: an array of the file, the addresses of several, numbers in memory,
    a descriptor of an array, a number, or a dtype.
    """

    ARRAY = "array"
    ADDRESSES = "addresses"
    NUMBERS = "numbers"
    DESCRIPTOR = "descriptor"
    VALUE = "value"
    DTYPE = "dtype"


@dataclass(frozen=True, slots=True)
class Layout:
    """What a descriptor says of an array: extents and strides in elements, its block, padding."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    padding: str


@dataclass(frozen=True, slots=True)
class Bound:
    """One parameter: the name of an array, a number or word, or a dtype name such as `f16`."""

    name: str
    kind: BindingKind
    value: Scalar
    layout: Layout | None = None
    items: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpretJob:
    """Run the function `kernel` of the module at `module` on the arrays at `arrays`.

    The worker writes the arrays as the kernel left them to `results`.
    """

    module: str
    kernel: str
    grid: tuple[int, ...]
    bound: tuple[Bound, ...]
    arrays: str
    results: str

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))


def job_from_json(text: str) -> InterpretJob:
    """The inverse of `InterpretJob.to_json`."""
    data: dict[str, Any] = json.loads(text)
    bound = tuple(
        Bound(item["name"], BindingKind(item["kind"]), item["value"],
              Layout(**item["layout"]) if item["layout"] else None, tuple(item["items"]))
        for item in data.pop("bound")
    )  # fmt: skip
    return InterpretJob(bound=bound, grid=tuple(data.pop("grid")), **data)

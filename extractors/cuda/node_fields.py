"""Which fields of a kind of node may hold other nodes, and what reads them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any

Held = Callable[[Any], tuple[Any, ...]]
_PLAIN = ("Place", "bool", "float", "int", "str")
"""Types of fields that hold none."""


def held(kind: type) -> Held:
    """What gives the fields of a node of this dataclass that may hold others, the last first."""
    names = [f.name for f in fields(kind) if f.type not in _PLAIN][::-1]
    return attrgetter(*names) if len(names) > 1 else _first(*names)


def _first(name: str = "") -> Held:
    return lambda node: (getattr(node, name),) if name else ()


def nothing(_: object) -> tuple[Any, ...]:
    """Of what is no node."""
    return ()

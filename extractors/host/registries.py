"""Configuration tables beside the code: YAML whose entries are lists of launch configurations.

Two entry forms: one configuration (`META` with the kernel's axes, and launch options), or
`gen: true` with a `param_map` from each axis to the list it ranges over (a name in the same entry,
a list, or a literal). Known by their shape, not by the function that loads them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import yaml

from kb.evidence import Lines
from kb.space import Scalar

MAX_POINTS = 4096
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
OPTIONS = ("num_warps", "num_stages", "num_ctas")
Row = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """The configurations under one key, and where they stand."""

    path: str
    lines: Lines
    rows: tuple[Row, ...]


def registered(tables: Sequence[tuple[str, str]], key: str) -> Registered | None:
    """What the tables, path and text, keep under a key.

    Among tables for several vendors, the one for NVIDIA is meant: all our targets are theirs.
    """
    for near in (True, False):
        own = [(path, text) for path, text in tables if ("nvidia" in path.lower()) == near]
        for path, text in sorted(own, key=lambda one: (one[0].count("/"), one[0])):
            if rows := points_of(text, key):
                return Registered(path, _lines_under(text, key), rows)
    return None


def _lines_under(text: str, key: str) -> Lines:
    """From a key of the whole table to the last line before the next that says something."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines, 1) if line.startswith(f"{key}:"))
    last = first
    for number, line in enumerate(lines[first:], first + 1):
        if line and not line[0].isspace() and line[0] not in "-#":
            break
        last = number if line.strip() and not line.startswith("#") else last
    return first, last


def points_of(text: str, key: str) -> tuple[Row, ...] | None:
    """The points under `key` of a table, or None when the text has no such table.

    Entries without points say how to search; they are passed over.
    """
    if not text.startswith(f"{key}:") and f"\n{key}:" not in text:
        return None
    entries = _parsed(text).get(key)
    if not isinstance(entries, list):
        return None
    rows: list[Row] = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            return None
        if "param_map" not in entry and "META" not in entry:
            continue
        found = _generated(entry) if "param_map" in entry else _single(entry)
        if found is None or len(rows) + len(found) > MAX_POINTS:
            return None
        rows += found
    return tuple(rows) or None


@lru_cache(maxsize=64)
def _parsed(text: str) -> Mapping[str, object]:
    try:
        data = yaml.load(text, Loader=LOADER)
    except (yaml.YAMLError, RecursionError):
        return {}
    return data if isinstance(data, Mapping) else {}


def _single(entry: Mapping[str, object]) -> list[Row] | None:
    meta = entry.get("META")
    if not isinstance(meta, Mapping):
        return None
    named = {**meta, **{name: entry[name] for name in OPTIONS if name in entry}}
    if not all(_plain(value) for value in named.values()):
        return None
    return [tuple((str(name), _scalar(value)) for name, value in named.items())]


def _generated(entry: Mapping[str, object]) -> list[Row] | None:
    """The product of all axes of a `param_map`, the last axis fastest."""
    plan = entry["param_map"]
    if not isinstance(plan, Mapping):
        return None
    meta = plan.get("META")
    sources = dict(meta) if isinstance(meta, Mapping) else {}
    blocks = [{}] if isinstance(meta, Mapping) else _range(entry, meta)
    sources.update({name: source for name, source in plan.items() if name != "META"})
    ranges = [_range(entry, source) for source in sources.values()]
    count = len(blocks or ())
    for values in ranges:
        count *= len(values or ())
    if not count or count > MAX_POINTS or blocks is None:
        return None
    rows = []
    for block, *values in itertools.product(blocks, *[row or [] for row in ranges]):
        named = {
            **(block if isinstance(block, Mapping) else {}),
            **dict(zip(sources, values, strict=True)),
        }
        rows.append(tuple((str(name), _scalar(value)) for name, value in named.items()))
    return rows


def _range(entry: Mapping[str, object], source: object) -> list[object] | None:
    if isinstance(source, list):
        return source
    if isinstance(source, int):
        return [source]
    found = entry.get(source) if isinstance(source, str) else None
    return found if isinstance(found, list) else None


def _plain(value: object) -> bool:
    return value is None or isinstance(value, (int, float, str))


def _scalar(value: object) -> Scalar:
    return value if value is None or isinstance(value, (int, float, str)) else str(value)

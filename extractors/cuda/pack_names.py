"""The names that parameter packs have among the names of a function."""

from __future__ import annotations


def count_of(pack: str) -> str:
    """The name that stands for how many arguments a pack has."""
    return f"{pack}__pack"

"""Modules as data: where the text of a module and of its package siblings comes from."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ModuleText:
    """Source text with its dotted name (`pkg.sub.mod`, empty when unknown) and its path as shown to
    people."""

    dotted: str
    path: str
    text: str
    is_package: bool = False


class ModuleLoader(Protocol):
    """Finds the text of an imported module; None when it lies outside the folder being read."""

    def load(self, dotted: str) -> ModuleText | None:
        """Text of the module with this absolute dotted name."""


@dataclass(frozen=True, slots=True)
class NoModules:
    """A loader for a file that stands alone."""

    def load(self, dotted: str) -> ModuleText | None:
        """Nothing is importable."""
        return None


@dataclass(frozen=True, slots=True)
class TextModules:
    """A loader over texts in memory, by dotted name; for tests and for archives."""

    texts: Mapping[str, ModuleText]

    def load(self, dotted: str) -> ModuleText | None:
        """The text registered under `dotted`."""
        return self.texts.get(dotted)


def absolute_import(statement: ast.ImportFrom, module: ModuleText) -> str:
    """Absolute dotted name of an import, relative levels resolved against the module's own name."""
    if not statement.level:
        return statement.module or ""
    parts = module.dotted.split(".")
    keep = len(parts) - statement.level + (1 if module.is_package else 0)
    base = ".".join(parts[: max(keep, 0)])
    return f"{base}.{statement.module}".strip(".") if statement.module else base


def handed_on(member: str, beside: Collection[str]) -> str | None:
    """The library behind a name that a module which is not here gives: a package that hands Triton
    on does so under its own name, and its language as `tl` beside it. `beside` holds the other
    names that are taken from that module."""
    if member == "triton":
        return "triton"
    return "triton.language" if member == "tl" and "triton" in beside else None

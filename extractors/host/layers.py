"""Tables that note what is read of them and what is written to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from extractors.host.modules import ModuleLoader

Key = TypeVar("Key")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Change(Generic[Key, Item]):
    """What was read of a table as it was before, None where nothing was, and what was written."""

    read: dict[Key, Item | None]
    written: dict[Key, Item]

    def holds(self, table: Mapping[Key, Item]) -> bool:
        """Whether reading this table gives the very same."""
        return all(table.get(key) is item for key, item in self.read.items())


class Layer(dict[Key, Item]):
    """A table over another: what is written stays here, what is read from below is noted.

    No item is None. Only the methods below are told apart from those of a dict.
    """

    def __init__(self, below: Mapping[Key, Item]) -> None:
        super().__init__()
        self._below = below
        self._read: dict[Key, Item | None] = {}

    def get(self, key: Key, default: Item | None = None) -> Item | None:  # type: ignore[override]
        """As of a dict."""
        found = super().get(key)
        if found is None:
            found = self._read[key] = self._below.get(key)
        return default if found is None else found

    def __getitem__(self, key: Key) -> Item:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]

    def __len__(self) -> int:
        """Both together: nothing of the table below is written again where this is asked."""
        return super().__len__() + len(self._below)

    def setdefault(self, key: Key, default: Item) -> Item:
        """As of a dict."""
        found = self.get(key)
        if found is None:
            found = self[key] = default
        return found

    def change(self) -> Change[Key, Item]:
        """What was read and written so far."""
        return Change(dict(self._read), dict(self.items()))


@dataclass(slots=True)
class Asked:
    """A loader that notes which texts it was asked for."""

    loader: ModuleLoader
    texts: dict[str, tuple[str, str] | None] = field(default_factory=dict)

    def source(self, module: str) -> tuple[str, str] | None:
        """`(path, text)` of the module."""
        found = self.texts[module] = self.loader.source(module)
        return found

    def name_of(self, path: str) -> str:
        """The dotted name of the module at a path."""
        return self.loader.name_of(path)

    def tables(self) -> tuple[tuple[str, str], ...]:
        """Configuration tables of the package."""
        return self.loader.tables()

    def beside_tables(self) -> tuple[str, ...]:
        """Dotted names of the modules in the folders that hold those tables."""
        return self.loader.beside_tables()

    def imported(self, name: str) -> bool:
        """Whether some module of the package imports something of that name."""
        return self.loader.imported(name)

    def takers(self, module: str, name: str) -> tuple[str, ...]:
        """Modules that may take a name from a module."""
        return self.loader.takers(module, name)

"""The classes of a folder that holds one per file: patterns, rules, rewrites."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


def one_per_file(
    registry: str, path: str, base: type[Found], without: str
) -> Iterator[tuple[str, Found]]:
    """One instance of every subclass of `base` in the files beside the module `registry` (at
    `path`), with the name of its module, by name.

    `without` is a regular expression for the names of modules that hold none. A file that fails
    to load stops the program. Raises TypeError for any other file with none or two.
    """
    package = registry.rpartition(".")[0]
    for info in pkgutil.iter_modules([str(Path(path).parent)]):
        if info.ispkg or re.fullmatch(without, info.name):
            continue
        module = importlib.import_module(f"{package}.{info.name}")
        own = [
            item
            for item in vars(module).values()
            if isinstance(item, type)
            and issubclass(item, base)
            and item.__module__ == module.__name__
        ]
        if len(own) != 1:
            raise TypeError(f"{module.__file__} holds {len(own)} of {base.__name__}; one per file")
        yield info.name, own[0]()

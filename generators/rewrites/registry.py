"""apply(kernel, axis, value) and axes(): every rewrite of this folder, one file per axis,
collected by itself."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from generators.rewrites.base import Rewrite
from kb.errors import UnknownName
from kb.ir import Kernel


@cache
def rewrites() -> Mapping[str, Rewrite]:
    """One instance per axis, by axis. A file that fails to load stops the program."""
    found: dict[str, Rewrite] = {}
    for info in pkgutil.iter_modules([str(Path(__file__).parent)]):
        module = importlib.import_module(f"generators.rewrites.{info.name}")
        for item in vars(module).values():
            if (
                isinstance(item, type)
                and issubclass(item, Rewrite)
                and item.__module__ == module.__name__
            ):
                if item is Rewrite:
                    continue
                if item.axis != info.name or item.axis in found:
                    raise TypeError(
                        f"generators/rewrites/{info.name}.py holds a rewrite of {item.axis}"
                    )
                found[item.axis] = item()
    return found


@cache
def axes() -> Mapping[str, tuple[str, ...]]:
    """The values that can be made, by design axis."""
    return {axis: rewrite.values for axis, rewrite in sorted(rewrites().items())}


def apply(kernel: Kernel, axis: str, value: str) -> Kernel:
    """The program with another value on a design axis; the same program when it has the value
    already.

    Raises UnknownName for an axis or value that nothing makes, NotApplicable (a CannotEmit) with
    the place in the way.
    """
    rewrite = rewrites().get(axis)
    if rewrite is None:
        raise UnknownName(f"no rewrite changes the axis {axis!r}.", hint=_near(axis, tuple(axes())))
    if value not in rewrite.values:
        raise UnknownName(f"no rewrite makes {axis} {value!r}.", hint=_near(value, rewrite.values))
    return rewrite.apply(kernel, value)


def _near(word: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(word, known, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known are {', '.join(repr(name) for name in known)}."

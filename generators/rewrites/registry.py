"""apply(kernel, axis, value) and axes(): every rewrite of this folder, one file per axis,
collected by itself."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache

from generators.rewrites.base import Rewrite
from kb.errors import UnknownName
from kb.ir import Kernel
from kb.one_per_file import one_per_file

_WITHOUT = "base|registry|edit|equality|exponents|mask_bounds|reciprocals|scores|signature"
"""Modules that rewrites share, and that hold none."""


@cache
def rewrites() -> Mapping[str, Rewrite]:
    """One instance per axis, by axis."""
    found: dict[str, Rewrite] = {}
    for name, rewrite in one_per_file(__name__, __file__, Rewrite, _WITHOUT):
        if rewrite.axis != name:
            raise TypeError(f"generators/rewrites/{name}.py holds a rewrite of {rewrite.axis}")
        found[name] = rewrite
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

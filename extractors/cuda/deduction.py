"""Template arguments deduced from the arguments of a call."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.values import UNKNOWN, Frame, Kind, Val
from kb.ir import MemorySpace


def bind_names(written: n.CType, kind: Kind, names: set[str], frame: Frame) -> None:
    """Bind the names in a written type to what stands there in a kind."""
    if written.name in names and not written.arguments:
        if frame.find(written.name) is None and kind != UNKNOWN:
            frame.bind(written.name, replace(kind, space=MemorySpace.NONE))
        return
    if written.extents and kind.shape:
        kind = replace(kind, shape=kind.shape[len(written.extents) :])
    for one, given in zip(written.arguments, kind.arguments, strict=False):
        if isinstance(one, n.CType) and isinstance(given, Kind):
            bind_names(one, given, names, frame)
        name = one.text if isinstance(one, n.Name) else ""
        name = one.name if isinstance(one, n.CType) else name
        if name in names and frame.find(name) is None and isinstance(given, Kind | Val):
            if isinstance(given, Kind) or given.name:
                frame.bind(name, given)

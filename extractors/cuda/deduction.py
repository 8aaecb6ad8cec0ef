"""Template arguments deduced from the arguments of a call."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.values import UNKNOWN, Frame, Kind, Val
from kb.dialects.cute import TENSORS
from kb.ir import MemorySpace


def bind_names(written: n.CType, kind: Kind, names: set[str], frame: Frame) -> None:
    """Bind the names in a written type to what stands there in a kind."""
    if written.name in names and not written.arguments:
        if frame.find(written.name) is None and kind != UNKNOWN:
            frame.bind(written.name, replace(kind, space=MemorySpace.NONE))
        return
    if written.name in TENSORS and written.arguments:
        _bind_engine(written.arguments[0], kind, names, frame)
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


def _bind_engine(written: n.CType | n.Expr, kind: Kind, names: set[str], frame: Frame) -> None:
    """Bind what a tensor of CuTe lies in, of which its elements' type is asked."""
    of = kind.to if kind.to is not None and not kind.shape else kind
    name = written.name if isinstance(written, n.CType) else ""
    if name in names and frame.find(name) is None and of.dtype != UNKNOWN.dtype and not of.record:
        frame.bind(name, replace(of, shape=("?",), space=MemorySpace.NONE))

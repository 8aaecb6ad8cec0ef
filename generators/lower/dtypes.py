"""Which tiles of a cuTile program are surely single or double precision, or integers."""

from __future__ import annotations

from dataclasses import dataclass, field

from generators.lower.extents import MAX_DEPTH, Extents
from kb.ops import COMPARISONS, OpKind

_RANK = {"f64": 5, "f32": 4, "": 3, "i64": 2, "i32": 1}
"""Of two dtypes that meet the higher one stays; the empty name is what an array holds."""

_MADE = frozenset({OpKind.FULL, OpKind.ZEROS, OpKind.ONES, OpKind.CAST, OpKind.BITCAST})
_READ = frozenset({OpKind.LOAD_TILE, OpKind.GATHER, OpKind.VIEW_LOAD, OpKind.LOAD_ADVANCED})
_WHOLE = frozenset({OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.NUM_TILES, OpKind.ARANGE})
_DATA = frozenset({"x", "y", "lhs", "rhs", "acc"})


@dataclass(slots=True)
class Dtypes:
    """Dtypes by value name: a name, empty for what only the arrays know, None for a constant."""

    extents: Extents
    _known: dict[str, str | None] = field(default_factory=dict)
    _depth: int = 0

    def single(self, value: str) -> bool:
        """True when the device functions of single precision take the value as it is."""
        return self.of(value) in ("f32", "f64", None)

    def of(self, value: str) -> str | None:
        """Dtype of a value."""
        if value not in self._known:
            if self._depth > MAX_DEPTH:
                return ""
            self._known[value] = None
            self._depth += 1
            self._known[value] = self._found(value)
            self._depth -= 1
        return self._known[value]

    def _found(self, value: str) -> str | None:
        if value in self.extents.sources:
            return self.of(self.extents.sources[value])
        op = self.extents.producers.get(value)
        if op is None:
            return ""
        if op.kind in _MADE and op.operand("dtype") is not None:
            made = self.extents.producers.get(str(op.operand("dtype")))
            name = made.attribute("name") if made and made.kind == OpKind.DTYPE else ""
            return "f32" if name == "tf32" else str(name) if name in _RANK else ""
        if op.kind in _READ:
            return ""
        if op.kind in _WHOLE or op.kind in COMPARISONS:
            return "i32"
        met = [self.of(v) for role, v in op.operands if role in _DATA]
        known = [dtype for dtype in met if dtype is not None]
        best = max(known, key=lambda name: _RANK[name], default=None)
        return "f32" if op.kind == OpKind.DIV and best in ("i32", "i64") else best

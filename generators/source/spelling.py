"""How a dialect spells values and calls in Python: constants, dtypes, table rows, operator
precedence."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kb.dialects.model import Dialect, Row
from kb.errors import CannotEmit
from kb.ir import Literal, Op
from kb.ops import OpKind

ATOM = 15
UNARY = 12
CONDITIONAL = 1

_LIBDEVICE = {
    "triton.language.extra.libdevice": ("libdevice", "from triton.language.extra import libdevice"),
    "triton.language.extra.cuda.libdevice": (
        "cuda_libdevice",
        "from triton.language.extra.cuda import libdevice as cuda_libdevice",
    ),
}


@dataclass(frozen=True, slots=True)
class Text:
    """Source text of an expression with the precedence of its outermost operator (15 binds
    tightest)."""

    text: str
    precedence: int = ATOM

    def within(self, precedence: int) -> str:
        """The text, in parentheses when it binds less tightly than `precedence`."""
        return self.text if self.precedence >= precedence else f"({self.text})"


@dataclass(slots=True)
class Spelling:
    """Names of one output file: which modules it imports and which constants it defines."""

    dialect: Dialect
    imports: set[str] = field(default_factory=set)
    constants: dict[str, float | int | bool | str | None] = field(default_factory=dict)
    reserved: frozenset[str] = frozenset()

    def native(self, path: str) -> str:
        """A dotted native name as the file writes it; records the import that it needs."""
        for module, (short, line) in _LIBDEVICE.items():
            if path.startswith(f"{module}."):
                self.imports.add(line)
                return f"{short}.{path[len(module) + 1 :]}"
        module = self.dialect.module
        if path == module or path.startswith(f"{module}."):
            self.imports.add(f"import {module} as {self.dialect.alias}")
            return self.dialect.alias + path[len(module) :]
        head = path.partition(".")[0]
        if head != path:
            self.imports.add(f"import {head}")
        return path

    def constant(self, op: Op) -> Text:
        """A constant: by its module-level name when it has one, else as a literal."""
        value = op.attribute("value")
        name = op.attribute("constant_name")
        if isinstance(name, str) and value is not None and self._names(name, value):
            return Text(name)
        return self.literal(value)

    def _names(self, name: str, value: Literal) -> bool:
        """True when `name` may stand for `value` in this file."""
        if name in self.reserved or not name.isidentifier() or value is None:
            return False
        known = self.constants.setdefault(name, value)
        return known == value and type(known) is type(value)

    def literal(self, value: Literal) -> Text:
        """A Python literal; infinities in the words of the dialect."""
        if isinstance(value, float) and not math.isfinite(value):
            sign = "-" if value < 0 else ""
            word = "nan" if math.isnan(value) else "inf"
            if self.dialect.float_from_text:
                return Text(f'float("{sign}{word}")')
            self.imports.add("import math")
            return Text(f"{sign}math.{word}", UNARY if sign else ATOM)
        text = repr(value) if not isinstance(value, str) else _quoted(value)
        negative = isinstance(value, int | float) and not isinstance(value, bool) and value < 0
        return Text(text, UNARY if negative or text.startswith("-") else ATOM)

    def dtype(self, name: str, op: Op) -> str:
        """A dtype by its neutral name."""
        path = self.dialect.dtype_paths.get(name)
        if path is None:
            raise CannotEmit(
                f"{self.dialect.name} has no dtype {name}.",
                where=str(op.span),
                hint="Cast to a dtype that the dialect has before emitting.",
            )
        return self.native(path)

    def enum(self, name: str, op: Op) -> str:
        """An enumeration member by its neutral name."""
        path = self.dialect.enum_paths.get(name)
        if path is None:
            raise CannotEmit(f"{self.dialect.name} has no {name}.", where=str(op.span))
        return self.native(path)

    def row(self, op: Op) -> Row:
        """The table row that writes an operation: its own spelling when the dialect has it."""
        spelled = op.attribute("spelling")
        if isinstance(spelled, str):
            row = self.dialect.by_path.get(spelled)
            if row is not None and row.kind == op.kind:
                return row
        rows = self.dialect.by_kind.get(op.kind, ())
        if not rows:
            raise CannotEmit(
                f"{self.dialect.name} has no call for `{op.kind}`.",
                where=str(op.span),
                hint=f"Add a row to {self.dialect.file}, or rewrite the program first.",
            )
        return rows[0]


BY_KEYWORD: frozenset[tuple[str, str]] = frozenset(
    {
        (OpKind.LOAD_TILE, "index"), (OpKind.LOAD_TILE, "shape"),
        (OpKind.STORE_TILE, "index"), (OpKind.STORE_TILE, "value"),
        (OpKind.LOAD, "mask"), (OpKind.LOAD, "padding"), (OpKind.STORE, "mask"),
        (OpKind.RANGE, "num_stages"),
        (OpKind.MMA, "acc"), (OpKind.FULL, "dtype"), (OpKind.ZEROS, "dtype"),
        (OpKind.REDUCE_SUM, "axis"), (OpKind.REDUCE_MAX, "axis"), (OpKind.REDUCE_MIN, "axis"),
        (OpKind.REDUCE_SUM, "keepdims"), (OpKind.REDUCE_MAX, "keepdims"),
        (OpKind.REDUCE_MIN, "keepdims"),
    }
)  # fmt: skip
"""Operands written by keyword although they could stand by position: they read better so."""


def _quoted(value: str) -> str:
    text = repr(value)
    plain = '"' not in value and "\\" not in text
    return f'"{value}"' if plain and text.startswith("'") else text

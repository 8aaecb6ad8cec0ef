"""What a dialect is: a table of rows between native calls and operations, read in both
directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kb.ops import OF_THREE, SIDES, OpKind


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a native call: the operand role it plays, its native name, and whether it
    may be positional."""

    role: str
    native: str
    positional: bool = True
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A native call and its operation.

    `path` is the dotted native name; a path that starts with a dot is a method of the first
    operand.
    `signature` lists roles: `role` or `role=native`; after `*` only by keyword; `*role` takes the
    remaining arguments.
    `attributes` is what the name says beyond its operation.
    The first row of a kind is the one an emitter prefers when an operation carries no spelling of
    its own.
    """

    path: str
    kind: OpKind
    signature: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    parameters: tuple[Parameter, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", _parameters(self.signature))

    @property
    def needed(self) -> frozenset[str]:
        """Roles without which the operation means nothing."""
        roles = frozenset(one.role for one in self.parameters)
        return roles if self.kind in OF_THREE else roles & SIDES

    @property
    def is_method(self) -> bool:
        """True when the call is written on its first operand."""
        return self.path.startswith(".")


def _parameters(signature: str) -> tuple[Parameter, ...]:
    found: list[Parameter] = []
    positional = True
    for word in signature.split():
        if word == "*":
            positional = False
            continue
        variadic = word.startswith("*")
        role, _, native = word.lstrip("*").partition("=")
        found.append(Parameter(role, native or role, positional, variadic))
    return tuple(found)


@dataclass(frozen=True)
class Dialect:
    """A kernel language: its rows, its names for dtypes and enumerations, and how kernels are
    marked.

    `assignment_copies`: `y = X` makes a tensor of a compile-time constant X, so y is not X.
    `marks_helpers`: helpers carry the decorator of kernels, so only calls tell them apart.
    `kernel_mark`, `constexpr_mark`: what an emitter writes on a kernel and on a compile-time
    parameter; `constexpr_typed` adds the Python type in brackets. `constant_wrapper` wraps a
    module-level constant. `float_from_text`: infinities are written as `float("inf")`.
    `reductions_widen`: reductions and extrema of 16-bit floats come back in 32 bits.
    `written`: there is an emitter, so a kernel of this dialect can be written again.
    `former`: native names that older versions had: read, but not what a name stands for today.
    `roundings`: native spellings that fix how a result is rounded: rn, rz, ru, rd or approx.
    `staged_launch`: a launch sets `num_stages`, how many tiles of an operand are in flight.
    `contracted_bytes`: how many bytes an operand of a matrix product has at least along the axis
    over which it contracts; 0 where nothing asks for that.
    `narrow_float_since`: the compute capability, ten times the major number and the minor one,
    since which it converts from and to f8e4m3; 0 where nothing is known of that.
    `stores_cast`: a store narrows to the dtype of its array without a word in the program.
    `rounds_products`: the type to which a product rounds 32-bit floats when nothing is said.
    """

    name: str
    module: str
    alias: str
    rows: tuple[Row, ...]
    dtypes: dict[str, str]
    enums: dict[str, str]
    kernel_decorators: frozenset[str]
    helper_decorators: frozenset[str]
    constexpr_annotations: frozenset[str]
    file: str
    kernel_mark: str
    constexpr_mark: str
    assignment_copies: bool = False
    marks_helpers: bool = False
    constexpr_typed: bool = False
    constant_wrapper: str = ""
    float_from_text: bool = False
    reductions_widen: bool = False
    staged_launch: bool = False
    contracted_bytes: int = 0
    narrow_float_since: int = 0
    stores_cast: bool = False
    rounds_products: str = ""
    written: bool = True
    former: frozenset[str] = frozenset()
    roundings: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def by_path(self) -> dict[str, Row]:
        """Row of a native call."""
        return {row.path: row for row in self.rows}

    @cached_property
    def by_kind(self) -> dict[str, tuple[Row, ...]]:
        """Rows of an operation, the preferred one first."""
        found: dict[str, tuple[Row, ...]] = {}
        for row in self.rows:
            found[row.kind] = (*found.get(row.kind, ()), row)
        return found

    @cached_property
    def dtype_paths(self) -> dict[str, str]:
        """Native name of a dtype: the first that the table gives."""
        found: dict[str, str] = {}
        for path, name in self.dtypes.items():
            found.setdefault(name, path)
        return found

    @cached_property
    def enum_paths(self) -> dict[str, str]:
        """Native name of an enumeration member."""
        return {name: path for path, name in self.enums.items()}

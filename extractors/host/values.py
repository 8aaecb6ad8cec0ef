"""What host code computes with when it is read and not run: known Python values, expressions,
choices.

Known scalars and tuples are plain Python objects. Everything mutable is a `Ref` into the machine's
heap.
What depends on the problem is an `Expr`; what depends on a condition is a `Choice`; the rest is
`Unknown`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

Value = object
"""A value of the abstract interpreter: a Python scalar, a tuple of values, or one of the records
below."""

MAX_EXPRESSION_NODES = 600
MAX_EXPRESSION_DEPTH = 60


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that cannot be told from the source; `reason` says why.

    `raised`: Python would raise here, which a handler around it may catch. `counted`: a number that
    a `while` loop makes larger or smaller until it fits.
    """

    reason: str
    raised: bool = False
    counted: bool = False


@dataclass(init=False, slots=True)
class Expr:
    """An operation over problem sizes, flags, target facts and tuning axes (see `expr.py` for
    the operations).

    Never changed. Not frozen: a reading makes a hundred thousand, and a frozen one takes twice as
    long to make.
    """

    op: str
    args: tuple[Value, ...]
    size: int = field(compare=False, default=1)
    depth: int = field(compare=False, default=1)
    digest: int = field(compare=False, repr=False, default=0)

    def __init__(self, op: str, args: tuple[Value, ...], size: int = 1, depth: int = 1) -> None:
        self.op, self.args, self.size, self.depth = op, args, size, depth
        self.digest = hash((op, args))

    def __hash__(self) -> int:
        """Made once: expressions share their parts, and each is looked up many times."""
        return self.digest

    def __eq__(self, other: object) -> bool:
        """The same operation of the same operands; another hash is another expression."""
        if self is other or not isinstance(other, Expr):
            return self is other
        return self.digest == other.digest and self.op == other.op and self.args == other.args

    def __reduce__(self) -> tuple[type[Expr], tuple[object, ...]]:
        """Without the hash, which is another one in another process."""
        return Expr, (self.op, self.args, self.size, self.depth)


@dataclass(init=False, slots=True)
class Choice:
    """`then` where `cond` holds, `other` elsewhere; `partial` where some case is absent.

    Never changed; not frozen, as an expression.
    """

    cond: Expr
    then: Value
    other: Value
    size: int = field(compare=False, default=1)
    depth: int = field(compare=False, default=1)
    digest: int = field(compare=False, repr=False, default=0)
    partial: bool = field(compare=False, repr=False, default=False)

    def __init__(
        self, cond: Expr, then: Value, other: Value, size: int = 1, depth: int = 1
    ) -> None:
        self.cond, self.then, self.other, self.size, self.depth = cond, then, other, size, depth
        self.digest = hash((cond, then, other))
        self.partial = then is ABSENT or other is ABSENT
        if isinstance(then, Choice) and then.partial:
            self.partial = True
        if isinstance(other, Choice) and other.partial:
            self.partial = True

    def __hash__(self) -> int:
        """Made once, as that of an expression."""
        return self.digest

    def __eq__(self, other: object) -> bool:
        """The same cases; another hash is another choice."""
        if self is other or not isinstance(other, Choice):
            return self is other
        same = self.digest == other.digest and self.cond == other.cond
        return same and self.then == other.then and self.other == other.other

    def __reduce__(self) -> tuple[type[Choice], tuple[object, ...]]:
        """Without the hash, which is another one in another process."""
        return Choice, (self.cond, self.then, self.other, self.size, self.depth)


@dataclass(frozen=True, slots=True)
class Marker:
    """A value with no meaning of its own: an unbound name, an absent key, a path that raises."""

    name: str


ABSENT = Marker("absent")
NEVER = Marker("never")


@dataclass(frozen=True, slots=True)
class Ref:
    """A mutable object: `kind` is list, dict, set, record or frame; its contents lie in the heap
    under `oid`."""

    oid: int
    kind: str
    open: bool = field(compare=False, default=False)


@dataclass(frozen=True, slots=True)
class External:
    """Something of a library, by its dotted import path."""

    path: str


@dataclass(frozen=True, slots=True)
class Lazy:
    """An imported name, looked up when it is first read; an empty `name` is the module itself."""

    base: str
    name: str


@dataclass(frozen=True, slots=True)
class Builtin:
    """A Python builtin, or an operation of a modelled library, by name."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A module of the same package, read as data; `frame` holds its names once it is evaluated."""

    name: str
    path: str
    tree: ast.Module
    package: str
    frame: Frame | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Where a function keeps its names; `parent` is the enclosing function's frame or the
    module's."""

    oid: int
    parent: Frame | None
    module: str
    function: str


@dataclass(frozen=True, slots=True, eq=False)
class Func:
    """A Python function or lambda with its closure and the values of its defaults."""

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: Frame
    defaults: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ClassValue:
    """A class of the analysed package: methods and class attributes by name, bases as values."""

    name: str
    attributes: tuple[tuple[str, Value], ...]
    bases: tuple[Value, ...]
    fields: tuple[str, ...]
    lines: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Bound:
    """A method looked up on a value, not yet called."""

    owner: Value
    name: str


@dataclass(frozen=True, slots=True)
class Partial:
    """A callable with some arguments already given."""

    target: Value
    args: tuple[Value, ...]
    kwargs: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Iterator:
    """`iter(...)` over a known sequence, held in the heap as the list of what is left."""

    items: Ref


@dataclass(frozen=True, slots=True)
class KernelValue:
    """A kernel object: the function it wraps and the hints it carries; `tuner` numbers an
    attached search."""

    name: str
    module: str
    hints: tuple[tuple[str, Value], ...] = ()
    tuner: int | None = None
    heuristics: tuple[tuple[str, Value], ...] = ()
    bare: bool = False


@dataclass(frozen=True, slots=True)
class BoundLaunch:
    """`kernel[grid]`, waiting for the arguments."""

    kernel: KernelValue
    grid: Value


@dataclass(frozen=True, slots=True)
class Decorating:
    """A decorator factory of a library that was given its options (`ct.kernel(...)`,
    `triton.autotune(...)`)."""

    kind: str
    options: tuple[tuple[str, Value], ...]
    lines: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Tuned:
    """The configuration that search number `search` takes: its attributes are the tuning axes."""

    search: int


@dataclass(frozen=True, slots=True)
class TuningOutcome:
    """What a search returns; `.best.config` of it is the `Tuned` configuration."""

    search: int


@dataclass(frozen=True, slots=True)
class Meta:
    """The dictionary that a Triton grid function receives: launch arguments by parameter name."""

    values: tuple[tuple[str, Value], ...]
    search: int | None


def size_of(value: Value) -> int:
    """Nodes of an expression; 1 for anything else."""
    if isinstance(value, (Expr, Choice)):
        return value.size
    if isinstance(value, tuple):
        return 1 + sum(map(size_of, value[:64]))
    return 1


def depth_of(value: Value) -> int:
    """Nesting of an expression; 1 for anything else."""
    if isinstance(value, (Expr, Choice)):
        return value.depth
    if isinstance(value, tuple):
        return 1 + max((depth_of(item) for item in value[:64]), default=0)
    return 1

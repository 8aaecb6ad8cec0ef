"""C++ as far as kernels use it: expressions, statements and declarations, each with its lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from extractors.cuda import node_base, traversal

Place = node_base.Place
Node = node_base.Node
inside = traversal.inside
parts = traversal.parts


@dataclass(frozen=True, slots=True)
class CType:
    """A type, `name` without qualifiers; `extents`: outermost first, None for empty brackets;
    `rows`: those of the array that a pointer points at."""

    name: str
    arguments: tuple[CType | Expr, ...] = ()
    pointers: int = 0
    reference: bool = False
    const: bool = False
    restrict: bool = False
    volatile: bool = False
    extents: tuple[Expr | None, ...] = ()
    member: str = ""
    rows: tuple[Expr | None, ...] = ()


# -- expressions


@dataclass(frozen=True, slots=True)
class Expr(Node):
    """Something that has a value."""


@dataclass(frozen=True, slots=True)
class Name(Expr):
    """A variable, function or constant; `scope`: its type when that has template arguments."""

    text: str
    arguments: tuple[CType | Expr, ...] = ()
    scope: CType | None = None


@dataclass(frozen=True, slots=True)
class Constant(Expr):
    """A literal; `dtype` is empty when the spelling does not say."""

    value: int | float | bool | str | None
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`-x`, `~x`, `!x`, `+x`, `*x`, `&x`."""

    operator: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """Two operands; `,` is one of the operators."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Assign(Expr):
    """`target = value`, or with an operator; `++x`: `x += 1`; `postfix`: gives what was before."""

    operator: str
    target: Expr
    value: Expr
    postfix: bool = False


@dataclass(frozen=True, slots=True)
class Choice(Expr):
    """`condition ? then : other`."""

    condition: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A call; `launch` holds what stands between `<<<` and `>>>`."""

    function: Expr
    arguments: tuple[Expr, ...]
    launch: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Field(Expr):
    """`operand.name` with the template arguments of the member."""

    operand: Expr
    name: str
    arguments: tuple[CType | Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Index(Expr):
    """`operand[index]`."""

    operand: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """A conversion to a type; `form` is c, static, reinterpret, const, bit or construct."""

    type: CType
    operand: Expr
    form: str


@dataclass(frozen=True, slots=True)
class SizeOf(Expr):
    """`sizeof(type)`, or of the expression `operand`."""

    type: CType | None
    operand: Expr | None = None


@dataclass(frozen=True, slots=True)
class Braces(Expr):
    """`{a, b}`, with the type before it when there is one."""

    items: tuple[Expr, ...]
    type: CType | None = None


@dataclass(frozen=True, slots=True)
class Lambda(Expr):
    """A closure that sees the variables around it, with its own `template`."""

    parameters: tuple[Variable, ...]
    body: Block
    template: tuple[TemplateParameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Assembly(Expr):
    """Inline PTX: its text and its operands."""

    text: str
    outputs: tuple[tuple[str, Expr], ...]
    inputs: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class Fold(Expr):
    """`(start op ... op operand)` over packs in the operand; `late`: the dots stand behind it."""

    operator: str
    operand: Expr
    start: Expr | None = None
    late: bool = False


@dataclass(frozen=True, slots=True)
class Unread(Expr):
    """An expression or statement without a form here; `inner` are expressions in it."""

    what: str
    inner: tuple[Expr, ...] = ()


# -- statements


@dataclass(frozen=True, slots=True)
class Stmt(Node):
    """Something that is done."""


@dataclass(frozen=True, slots=True)
class Block(Stmt):
    """Statements in order."""

    kept: ClassVar[bool] = True
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Variable(Stmt):
    """A declared variable or parameter; `storage`: its words; `arguments`: of a constructor."""

    name: str
    type: CType
    value: Expr | None = None
    arguments: tuple[Expr, ...] | None = None
    storage: frozenset[str] = frozenset()
    template: tuple[TemplateParameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Unpack(Stmt):
    """`auto [a, b] = value`, the type of which is that of the whole."""

    names: tuple[str, ...]
    value: Expr
    type: CType


@dataclass(frozen=True, slots=True)
class Do(Stmt):
    """An expression for its effect."""

    value: Expr


@dataclass(frozen=True, slots=True)
class If(Stmt):
    """A branch; `static` is `if constexpr`."""

    before: tuple[Stmt, ...]
    condition: Expr
    then: Block
    other: Block
    static: bool = False


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """`for (before; condition; after) body`; `unroll`: number of the `pragma`, 0 for all, None."""

    before: tuple[Stmt, ...]
    condition: Expr | None
    after: Expr | None
    body: Block
    unroll: int | str | None = None
    pragma: int | None = None


@dataclass(frozen=True, slots=True)
class While(Stmt):
    """`while`; `late` when the condition stands after the body."""

    condition: Expr
    body: Block
    late: bool = False


@dataclass(frozen=True, slots=True)
class Switch(Stmt):
    """Cases in order; a label of None is the default."""

    value: Expr
    cases: tuple[tuple[Expr | None, tuple[Stmt, ...]], ...]


@dataclass(frozen=True, slots=True)
class Leave(Stmt):
    """`return`, `break` or `continue`."""

    word: str
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class Assert(Stmt):
    """`static_assert`: what must hold where the code is compiled."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Alias(Stmt):
    """`using name = type`, or a typedef; `template` are the parameters of an alias template."""

    name: str
    type: CType
    template: tuple[TemplateParameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped(Stmt):
    """A statement without a form here."""

    what: str
    inner: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """A template parameter; `dtype`: `typename` for a type that is as `asked`, or a number's."""

    name: str
    dtype: str
    default: Expr | CType | None = None
    pack: bool = False
    at: Place | None = None
    asked: str = ""


TO_POINTER, TO_CONST_POINTER, CONST_THIS = "operator T*", "operator const T*", "const this"


@dataclass(frozen=True, slots=True)
class Definition:
    """A function. `owner`: class of a method, `instance`: that with arguments, `given`: those of a
    specialisation, `words`: specifiers, CONST_THIS where no field is set, `space`: namespaces."""

    name: str
    parameters: tuple[Variable, ...]
    body: Block
    result: CType
    at: Place
    template: tuple[TemplateParameter, ...] = ()
    owner: str = ""
    words: frozenset[str] = frozenset()
    attributes: tuple[tuple[str, str], ...] = ()
    specialised: bool = False
    instance: str = ""
    given: tuple[CType | Expr, ...] = ()
    space: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A struct. `open`: fields may overlap or come from an unknown base; `inner`: in another, whose
    constants and aliases are `around`."""

    name: str
    at: Place
    template: tuple[TemplateParameter, ...] = ()
    fields: tuple[Variable, ...] = ()
    methods: tuple[Definition, ...] = ()
    aliases: tuple[Alias, ...] = ()
    specialised: tuple[CType | Expr, ...] = ()
    open: bool = False
    bases: tuple[CType, ...] = ()
    inner: bool = False
    asserts: tuple[Assert, ...] = ()
    around: tuple[Alias | Variable, ...] = ()


Declared = tuple[int, tuple[TemplateParameter, ...]]  # how many parameters, and the template


@dataclass(slots=True)
class Unit:
    """What one file defines."""

    path: str
    functions: dict[str, list[Definition]] = field(default_factory=dict)
    records: dict[str, list[Record]] = field(default_factory=dict)
    aliases: dict[str, Alias] = field(default_factory=dict)
    constants: dict[str, Variable] = field(default_factory=dict)
    declared: dict[str, list[Declared]] = field(default_factory=dict)
    broken: list[tuple[int, int]] = field(default_factory=list)
    instantiated: dict[str, list[Place]] = field(default_factory=dict)

"""Overloads and specialisations that do the same work on other types: one stands for all of them
where only the instantiation tells which type it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.core import INTEGERS
from extractors.cuda.instructions import instructions_of
from extractors.cuda.library import Library
from extractors.cuda.overloads import converting, returns_argument
from extractors.cuda.render import shown
from extractors.cuda.values import Kind
from kb.dialects.cuda import CUDA, INSTRUCTIONS, VECTORS
from kb.ops import OpKind

MAX_DEPTH = 4
"""Helpers of helpers whose work is looked at."""

_BITS = frozenset({"<<", ">>", "&", "|", "unary ~", OpKind.BIT_AND, OpKind.BIT_OR})
_ROUNDS = frozenset({OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.FLOOR, OpKind.CEIL, "unary -"})
"""What a conversion to few bits may do besides: it rounds and keeps within the range."""

_MOVES = frozenset({OpKind.CAST, OpKind.BITCAST, OpKind.VECTOR, OpKind.DEVICE_ASSERT, OpKind.TRAP})
_LARGER, _SMALLER = frozenset({">", ">="}), frozenset({"<", "<="})

Work = frozenset[str]
"""Operations that a function does besides converting and moving numbers in registers."""


def _is_open(kind: Kind | None, library: Library) -> bool:
    """Whether only the instantiation tells the type of an element."""
    inner = (kind.to or kind) if kind is not None else None
    if inner is None or inner.dtype.startswith("dtypeof("):
        return True
    return inner.dtype == "?" and not (inner.record and library.records(inner.record))


def standing_for(
    candidates: Sequence[n.Definition], given: Sequence[Kind | None], library: Library
) -> n.Definition | None:
    """The general one of the candidates that take such arguments, else the shortest, its parameters
    of open types without a type, where all of them do the same work. None when they do not, or no
    type is open."""
    places = {place for place, kind in enumerate(given) if _is_open(kind, library)}
    if not places:
        return None
    used = [one for one in candidates if not never_used(one)]
    fitting = [one for one in used if _runs(one) and _takes(one, given, places)]
    vectors = [one for one in fitting if _vectors(one, given)]
    found = vectors or [one for one in fitting if _scalars(one, given)]
    if not found or len({_outline(one) for one in found}) > 1:
        return None
    # One that calls itself by name hands its parts to the others.
    plain = [one for one in found if not _calls_own(one)] or found
    works = [work_of(one, library) for one in plain]
    least = min(works, key=len)
    if any(work - least - _BITS - _ROUNDS or least - work for work in works):
        return None
    general = [one for one in plain if one.template and not one.specialised]
    return general[0] if len(general) == 1 else _loosened(min(plain, key=_size), places, plain)


def shown_by(candidates: Sequence[n.Definition], library: Library) -> n.Definition | None:
    """The first of methods or specialisations for single types that do the same work, its types
    left open where they differ."""
    found = [one for one in candidates if _runs(one)]
    if len(found) < 2 or len(found) < len(candidates) or len({_outline(f) for f in found}) > 1:
        return None
    works = {work_of(one, library) for one in found}
    return _loosened(found[0], set(), found) if len(works) == 1 else None


def never_used(function: n.Definition) -> bool:
    """Whether a template promises a value and returns none, or does nothing but assert: only its
    specialisations are meant."""
    body = function.body.body
    returns = (one for one in n.inside(function.body) if isinstance(one, n.Leave) and one.value)
    general = bool(function.template) and not function.specialised
    asserts = bool(body) and all(isinstance(one, n.Assert) for one in body)
    empty = function.result.name != "void" and next(returns, None) is None
    return general and (asserts or empty)


def only_converts(candidates: Sequence[n.Definition], library: Library) -> bool:
    """Whether the specialisations of a template do nothing but convert what they are given first,
    the rest of their parameters being how."""
    special = [one for one in candidates if one.specialised]
    return bool(special) and not any(work_of(one, library) for one in special)


def _loosened(
    function: n.Definition, places: set[int], all_: Sequence[n.Definition]
) -> n.Definition:
    count = len(function.parameters)
    open_ = places | {i for i in range(count) if len({f.parameters[i].type for f in all_}) > 1}
    parameters = tuple(
        replace(p, type=replace(p.type, name="auto", arguments=(), member="")) if i in open_ else p
        for i, p in enumerate(function.parameters)
    )
    results = {one.result for one in all_}
    result = function.result if len(results) == 1 else n.CType("auto")
    return replace(function, parameters=parameters, result=result)


def _runs(function: n.Definition) -> bool:
    """Whether a function does anything but assert that it is never called."""
    first = function.body.body[0] if function.body.body else None
    call = first.value if isinstance(first, n.Do) else None
    if isinstance(call, n.Call) and isinstance(call.function, n.Name):
        if call.function.text == "assert" and isinstance(call.arguments[0], n.Constant):
            return bool(call.arguments[0].value)
    return first is not None


def _takes(function: n.Definition, given: Sequence[Kind | None], places: set[int]) -> bool:
    """Whether a function takes pointers where pointers are given, and known types as they are,
    one whole number for another."""
    least = sum(1 for p in function.parameters if p.value is None)
    if not least <= len(given) <= len(function.parameters):
        return False
    for place, (parameter, kind) in enumerate(zip(function.parameters, given, strict=False)):
        written = parameter.type
        if kind is not None and bool(written.pointers) != (kind.to is not None):
            return False
        if kind is not None and place not in places and written.name in CUDA.dtypes:
            inner, wanted = kind.to or kind, CUDA.dtypes[written.name]
            number = not written.pointers and {inner.dtype, wanted} <= INTEGERS
            if inner.shape or (inner.dtype != wanted and not number):
                return False
    return True


def _vectors(function: n.Definition, given: Sequence[Kind | None]) -> bool:
    """Whether a function takes vectors of as many elements as are given somewhere."""
    return any(
        kind is not None and kind.shape and parameter.type.name in VECTORS
        and kind.shape == (str(VECTORS[parameter.type.name][1]),)
        for parameter, kind in zip(function.parameters, given, strict=False)
    )  # fmt: skip


def _scalars(function: n.Definition, given: Sequence[Kind | None]) -> bool:
    return not any(
        kind is not None and kind.to is None and not kind.shape and kind.dtype != "?"
        and parameter.type.name in VECTORS
        for parameter, kind in zip(function.parameters, given, strict=False)
    )  # fmt: skip


def _outline(function: n.Definition) -> tuple[object, ...]:
    """Which parameters are pointers, and whether the function gives something."""
    pointers = tuple(bool(p.type.pointers) for p in function.parameters)
    return (*pointers, function.result.name == "void", bool(function.result.pointers))


def _calls_own(function: n.Definition) -> bool:
    calls = (one.function for one in n.inside(function.body) if isinstance(one, n.Call))
    return any(
        isinstance(one, n.Name) and one.text.rpartition("::")[2] == function.name for one in calls
    )


def _size(function: n.Definition) -> int:
    return sum(1 for _ in n.inside(function.body))


def work_of(function: n.Definition, library: Library) -> Work:
    """The work of a function, found once."""
    if id(function) not in library.works:
        library.works[id(function)] = (function, frozenset(_work(function, library, 0)))
    return library.works[id(function)][1]


def _work(function: n.Definition, library: Library, depth: int) -> Iterator[str]:
    pointers = {p.name for p in function.parameters if p.type.pointers}
    whole = [one for one in n.inside(function.body) if isinstance(one, n.Expr | n.Stmt)]
    choices = {one.condition: one for one in whole if isinstance(one, n.Choice)}
    for one in whole:
        match one:
            case n.Binary(operator=sign) if one in choices:
                yield _chosen(choices[one], sign)
            case n.Binary(operator=sign):
                yield sign
            case n.Choice(condition=condition) if not isinstance(condition, n.Binary):
                yield "choice"
            case n.If() | n.For() | n.While() | n.Switch():
                yield type(one).__name__
            case n.Assign(operator=sign, target=target):
                yield from (sign,) if sign else ()
                yield from ("store",) if _reaches(target, pointers) else ()
            case n.Unary(operator="-" | "~" | "!" as sign):
                yield f"unary {sign}"
            case n.Index() | n.Unary(operator="*") if _reaches(one, pointers):
                yield "access"
            case n.Assembly(text=text):
                yield from _instructions(text)
            case n.Call(function=n.Name() as named):
                yield from _called(named, one, function, library, depth)
            case n.Call():
                yield "method"
            case n.Unread() | n.Skipped():
                yield one.what


def _chosen(choice: n.Choice, sign: str) -> str:
    """What a choice by a comparison is: the larger or the smaller one of what is compared."""
    condition = choice.condition
    if sign not in _LARGER | _SMALLER or not isinstance(condition, n.Binary):
        return sign
    then = shown(choice.then)
    first = then in {shown(one) for one in n.inside(condition.left)}
    second = then in {shown(one) for one in n.inside(condition.right)}
    if first == second:
        return sign
    return OpKind.MAXIMUM if (sign in _LARGER) == first else OpKind.MINIMUM


def _called(
    named: n.Name, call: n.Call, function: n.Definition, library: Library, depth: int
) -> Iterator[str]:
    """What a function that is called does: nothing more where it converts or is named alike."""
    name = named.text.rpartition("::")[2]
    row = CUDA.by_path.get(named.text.removeprefix("::"))
    if row is not None:
        yield from () if row.kind in _MOVES else (row.kind,)
        return
    if name == function.name or name in CUDA.dtypes or name in VECTORS or name == "assert":
        return
    if "numeric_limits" in named.text:
        return
    head, _, _ = named.text.removeprefix("::").rpartition("::")
    if f"{head}::{name}" in CUDA.dtypes or head in CUDA.dtypes:
        return
    inner = [f for f in library.functions(name) if len(f.parameters) == len(call.arguments)]
    if converting(inner) or any(one.template and returns_argument(one) for one in inner):
        return
    if not inner or depth >= MAX_DEPTH:
        yield f"call {name}"
        return
    found = {frozenset(_work(one, library, depth + 1)) for one in inner}
    yield from next(iter(found)) if len(found) == 1 else (f"call {name}",)


def _instructions(text: str) -> Iterator[str]:
    for one in instructions_of(text):
        kind = next((k for start, k in INSTRUCTIONS if one.opcode.startswith(start)), None)
        if kind not in _MOVES and not one.opcode.startswith("mov"):
            yield kind or one.opcode


def _reaches(node: n.Expr, pointers: set[str]) -> bool:
    while isinstance(node, n.Index | n.Field | n.Cast | n.Unary):
        node = node.operand
    return isinstance(node, n.Name) and node.text in pointers

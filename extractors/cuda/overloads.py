"""Which of several functions with one name a call means."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.core import INTEGERS, Core, pure
from extractors.cuda.packs import takes
from extractors.cuda.values import Kind, Memory, Pointing, Slot, Val
from kb.dialects.cuda import BITS, CUDA, VECTORS
from kb.ops import OpKind


def same_bodies(methods: Iterable[n.Definition]) -> list[n.Definition]:
    """One of several methods that are written the same, none when they differ."""
    found = list(methods)
    texts = {_text(one) for one in found}
    return found[:1] if len(texts) == 1 else []


def alike(methods: Iterable[n.Definition]) -> list[n.Definition]:
    """The first of several methods that do the same with other types: their bodies have one form,
    whatever is named and called there. None when they differ, or one has no body."""
    found = list(methods)
    forms = {_form(one) for one in found}
    return found[:1] if len(forms) == 1 and found[0].body.body else []


def _form(function: n.Definition) -> str:
    return " ".join(type(one).__name__ for one in n.inside((function.parameters, function.body)))


def _text(function: n.Definition) -> str:
    nodes = n.inside((function.parameters, function.body))
    return " ".join(type(one).__name__ + getattr(one, "text", "") for one in nodes)


def in_space(reader: Core, candidates: list[n.Definition], name: str) -> list[n.Definition]:
    """Of functions of one name in several namespaces those that a name in front of it means, else
    those beside the function that calls. Further files are asked where the first one has the name
    in other namespaces only."""
    head, _, last = name.rpartition("::")
    around = (reader.entry, *reader.trail)
    own = next((one.space for one in reversed(around) if one and one.space), "")
    strange = head or any(_apart(one.space, own) for one in candidates)
    further = reader.library.overloads(last) if strange else ()
    for several in itertools.chain([candidates], further):
        named = [one for one in several if (_ends(one, head) if head else one.space == own)]
        if named:
            return named
    return candidates


def elsewhere(
    reader: Core, name: str, chosen: Sequence[n.Definition]
) -> Iterator[list[n.Definition]]:
    """Functions of that name in further files: where the namespace in front of the name told which
    were chosen, those of the same one."""
    head = name.rpartition("::")[0]
    told = bool(head) and all(_ends(one, head) for one in chosen)
    for several in reader.library.overloads(name):
        yield [one for one in several if _ends(one, head)] if told else several


def _ends(function: n.Definition, head: str) -> bool:
    return f"::{function.space}".endswith(f"::{head.removeprefix('::')}")


def _apart(space: str, own: str) -> bool:
    """Whether neither of two namespaces is around the other."""
    inner, outer = (f"{one}::" for one in sorted((space, own), key=len, reverse=True))
    return bool(space) and bool(own) and not inner.startswith(outer)


def converting(candidates: Sequence[n.Definition]) -> n.CType | None:
    """What several overloads turn a number into, when each returns its only argument as it is,
    cast, or converted by a function of the language."""
    results = {one.result for one in candidates}
    if len(candidates) < 2 or len(results) != 1 or not all(map(returns_argument, candidates)):
        return None
    result = next(iter(results))
    return result if result.name in CUDA.dtypes and not result.pointers else None


def converted_to(
    candidates: Sequence[n.Definition], template: tuple[n.CType | n.Expr, ...]
) -> n.CType | None:
    """The type that a call names first, where the general one of the candidates returns its only
    argument as that type, or hands it to the others: its specialisations are conversions too."""
    general = [one for one in candidates if one.template and len(one.parameters) == 1]
    if len(general) != 1 or len(candidates) < 2:
        return None
    others = [one for one in candidates if one is not general[0]]
    if not returns_argument(general[0]) and not (
        _hands_on(general[0]) and sum(map(returns_argument, others)) * 3 > len(others)
    ):
        return None
    first = template[0] if template else None
    if isinstance(first, n.Name):
        first = n.CType(first.text, first.arguments)
    named = general[0].result.name == general[0].template[0].name
    return first if named and isinstance(first, n.CType) else None


def _hands_on(function: n.Definition) -> bool:
    """Whether a function does nothing but hand its only argument to one of its own name."""
    leave = function.body.body[0] if len(function.body.body) == 1 else None
    value = leave.value if isinstance(leave, n.Leave) else None
    if not isinstance(value, n.Call) or not isinstance(value.function, n.Name):
        return False
    given = [one.text for one in value.arguments if isinstance(one, n.Name)]
    same = value.function.text == function.name
    return same and given == [parameter.name for parameter in function.parameters]


def returns_argument(function: n.Definition) -> bool:
    """Whether a function returns its only argument as it is, cast, or converted by a function of
    the language."""
    body = function.body.body
    leave = body[0] if len(body) == 1 else None
    value = leave.value if isinstance(leave, n.Leave) else None
    for _ in range(4):
        if isinstance(value, n.Cast):
            value = value.operand
        elif isinstance(value, n.Call) and isinstance(value.function, n.Name):
            row = CUDA.by_path.get(value.function.text)
            cast = row is not None and row.kind is OpKind.CAST and len(value.arguments) == 1
            value = value.arguments[0] if cast else None
    names = [parameter.name for parameter in function.parameters]
    return isinstance(value, n.Name) and names == [value.text]


def own_overload(reader: Core, node: n.Call, name: str) -> list[n.Definition]:
    """The function of the file, named as one of the language, that takes the structs given."""
    fitting = [
        one
        for one in reader.library.unit.functions.get(name, ())
        if not one.owner and takes(one, len(node.arguments))
    ]
    given = arguments_of(reader, node, [*fitting, *fitting])
    structs = any(kind is not None and kind.record for kind in given)
    return [one for one in fitting if _types(one, given)] if structs else []


def arguments_of(
    reader: Core, node: n.Call, candidates: Sequence[n.Definition]
) -> tuple[Kind | None, ...]:
    """Kinds of the arguments that names tell; only looked at when there is a choice."""
    if len(candidates) == 1:
        return (None,) * len(node.arguments)
    found: list[Kind | None] = []
    for argument in node.arguments:
        kind: Kind | None = None
        array = _moved(argument)
        bound = reader.frame.find(array.text) if isinstance(array, n.Name) else None
        if isinstance(bound, Pointing):
            kind = Kind(to=bound.kind)
        elif isinstance(argument, n.Name) or _is_array(bound):
            if isinstance(bound, Slot | Memory | Val):
                kind = bound.kind
        elif not any(_does(one) for one in n.inside(argument)):
            kind = _kind_of(reader, argument)
        found.append(kind)
    return tuple(found)


def _moved(argument: n.Expr) -> n.Expr:
    """What a number of elements is added to; the argument itself when it is no sum."""
    while isinstance(argument, n.Binary) and argument.operator in ("+", "-"):
        argument = argument.left
    return argument


def _is_array(bound: object) -> bool:
    return isinstance(bound, Slot | Memory) and bool(bound.kind.shape)


_DOING = (n.Assign, n.Lambda, n.Assembly, n.Unread, n.Braces)


def _does(node: n.Expr | n.Stmt) -> bool:
    """Whether an expression may do more than compute, or takes long to read."""
    if isinstance(node, n.Call):
        function = node.function
        row = CUDA.by_path.get(function.text) if isinstance(function, n.Name) else None
        return row is None or not pure((row.kind,))
    return isinstance(node, _DOING)


def _kind_of(reader: Core, argument: n.Expr) -> Kind | None:
    """The kind of an expression that only computes; what reading it writes is thrown away."""
    names = dict(reader.names)
    with reader.writer.region():
        kind = reader.read(argument).kind
    reader.names = names
    return kind if kind.dtype != "?" or kind.to is not None or kind.record else None


def chosen(
    candidates: Sequence[n.Definition], given: tuple[Kind | None, ...], template: int
) -> n.Definition | None:
    """The only candidate that fits the number and the types of the arguments."""
    several = [one for one in candidates if takes(one, len(given))]
    special = [one for one in several if one.specialised]
    if special:
        return _specialised(several, special, given)
    fitting = [one for one in several if len(one.template) >= template]
    if len(fitting) > 1:
        taking = [one for one in fitting if _types(one, given)]
        exact = [one for one in taking if _of_vectors(one, given)] or taking
        fitting = exact or fitting
        closer = [one for one in exact if _closed(one)]
        fitting = closer if len(closer) == 1 and len(exact) > 1 else fitting
    if len(fitting) > 1:
        plain = [one for one in fitting if not one.template]
        fitting = plain if len(plain) == 1 and not template else fitting
    if len(fitting) > 1 and same_but_for_const(fitting):
        fitting = [one for one in fitting if not one.result.reference][:1] or fitting[:1]
    return fitting[0] if len(fitting) == 1 else None


def same_but_for_const(functions: Sequence[n.Definition]) -> bool:
    """Whether overloads take the same, to be changed or not: for a value one is as good as the
    other."""
    plain = {
        tuple(replace(p.type, const=False) for p in one.parameters) for one in functions
    }  # fmt: skip
    return len(plain) == 1 and len({_form(one) for one in functions}) == 1


def _closed(function: n.Definition) -> bool:
    """Whether no parameter has a type that the template leaves open: of two templates that take the
    arguments, such a one is the closer."""
    names = {one.name for one in function.template}
    return not any(one.type.name in names for one in function.parameters)


def _of_vectors(function: n.Definition, given: Sequence[Kind | None]) -> bool:
    """Whether pointers to vectors are taken as such, not as pointers to their first element."""
    return not any(
        kind is not None and kind.to is not None and kind.to.shape and one.type.name in CUDA.dtypes
        for one, kind in zip(function.parameters, given, strict=False)
    )


def _specialised(
    several: list[n.Definition], special: list[n.Definition], given: tuple[Kind | None, ...]
) -> n.Definition | None:
    """With specialisations around, only arguments of known types tell which body runs."""
    if any(kind is None or not _known(kind) for kind in given):
        return None
    matching = [one for one in special if _types(one, given)]
    general = [one for one in several if not one.specialised]
    found = matching or general
    return found[0] if len(found) == 1 else None


def _as_many(sizes: Sequence[n.Expr | None], extents: Sequence[str]) -> bool:
    """Whether arrays may have as many elements as a parameter says, where both are numbers."""
    return not any(
        isinstance(size, n.Constant) and extent.isdigit() and int(extent) != size.value
        for size, extent in zip(sizes, extents, strict=False)
    )


def of_any_extent(
    candidates: Sequence[n.Definition], given: Sequence[Kind | None]
) -> list[n.Definition]:
    """Overloads that differ in how many elements the arrays have that they take, where nobody says
    how many are given."""
    found = [one for one in candidates if takes(one, len(given)) and _types(one, tuple(given))]
    without = {
        tuple(replace(p.type, extents=()) for p in one.parameters) for one in found
    }  # fmt: skip
    return found if len(found) > 1 and len(without) == 1 else []


def _known(kind: Kind) -> bool:
    inner = kind.to or kind
    return inner.dtype in BITS and not inner.record


def _types(function: n.Definition, given: tuple[Kind | None, ...]) -> bool:
    return all(
        kind is None or _fits(parameter.type, kind, function)
        for parameter, kind in zip(function.parameters, given, strict=False)
    )


def _fits(written: n.CType, kind: Kind, function: n.Definition) -> bool:
    if written.extents and kind.scalar and kind.dtype != "?":
        return False
    if written.extents and kind.shape:
        if len(kind.shape) < len(written.extents) or not _as_many(written.extents, kind.shape):
            return False
        kind = replace(kind, shape=kind.shape[len(written.extents) :])
        written = replace(written, extents=())
    if written.name in {t.name for t in function.template}:
        return (kind.to is not None) == bool(written.pointers)
    if bool(written.pointers) != (kind.to is not None or bool(written.pointers and kind.shape)):
        return False
    inner = kind.to or kind
    if written.pointers and kind.to is None:
        inner = replace(kind, shape=kind.shape[1:])  # An array is handed on as its first element.
    if written.name in VECTORS:
        return (inner.dtype, inner.shape) == (VECTORS[written.name][0],
                                              (str(VECTORS[written.name][1]),))  # fmt: skip
    if written.name in CUDA.dtypes:
        wanted = CUDA.dtypes[written.name]
        if wanted in INTEGERS and inner.dtype in INTEGERS and not written.pointers:
            return not inner.shape
        return inner.dtype == wanted and (not inner.shape or kind.to is not None)
    return inner.record == written.name or inner.record.endswith(f"::{written.name}")

"""Which of several templates may be meant by the template arguments of a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.core import INTEGERS
from extractors.cuda.pack_names import count_of
from extractors.cuda.packs import takes
from kb.dialects.cuda import CUDA

_TYPES = ("typename", "template")


def fitting(
    candidates: Sequence[n.Definition], template: Sequence[n.CType | n.Expr], call: n.Call,
    around: n.Definition | None,
) -> Sequence[n.Definition]:  # fmt: skip
    """The candidates whose template takes `template` and that take as many arguments as a call in
    the function `around` has: numbers where numbers are wanted, and no parameter left that nothing
    tells. All candidates where that leaves none."""
    if len(candidates) < 2:
        return candidates
    if not template:
        told = [c for c in candidates if c.specialised or _takes(c, template, around)]
        return told or candidates
    count = len(call.arguments)
    exact = [one for one in candidates if takes(one, count)]
    if not any(one.specialised for one in exact):
        # A specialisation has the defaults of the parameters of what it is one of.
        more = [c for c in candidates if c.specialised and count < len(c.parameters)]
        exact = [one for one in candidates if one in exact or one in more]
    candidates = exact or candidates
    told = [c for c in candidates if c.specialised or _takes(c, template, around)]
    return told or candidates


def is_deduced(parameter: n.TemplateParameter, function: n.Definition) -> bool:
    """Whether the parameters of a function tell what a template parameter is."""
    return any(parameter.name in _names(one.type) for one in function.parameters)


def _names(written: n.CType) -> Iterator[str]:
    """The names in a type."""
    yield written.name
    for one in (*written.arguments, *written.extents):
        if isinstance(one, n.CType):
            yield from _names(one)
        else:
            yield from (inner.text for inner in n.inside(one) if isinstance(inner, n.Name))


def _takes(
    function: n.Definition, template: Sequence[n.CType | n.Expr], around: n.Definition | None
) -> bool:
    own = function.template
    packed = any(one.pack for one in own)
    if len(own) < len(template) and not packed:
        return False
    rest = [one for one in own[len(template) :] if one.default is None and not one.pack]
    if not all(is_deduced(one, function) for one in rest):
        return False
    return not any(
        not wanted.pack and wanted.dtype != "auto" and _differ(wanted.dtype, given, around)
        for wanted, given in zip(own, template, strict=False)
    )


def _differ(wanted: str, given: n.CType | n.Expr, around: n.Definition | None) -> bool:
    """Whether a template argument is surely of another sort than the parameter wants: a type, a
    number, or something else, such as what an enumeration holds."""
    sort = _sort(given, around)
    return sort is not None and sort != _sort_of(wanted)


def _sort_of(dtype: str) -> str:
    if dtype in _TYPES:
        return "type"
    return "number" if dtype in INTEGERS or dtype in CUDA.dtypes else "else"


def _sort(given: n.CType | n.Expr, around: n.Definition | None) -> str | None:
    """What a template argument is, where that is plain; None where nothing tells."""
    if isinstance(given, n.Constant):
        return "number"
    name = given.text if isinstance(given, n.Name) else ""
    if isinstance(given, n.CType):
        if given.pointers or given.name in CUDA.dtypes:
            return "type"
        name = given.name
    for one in around.template if around is not None and name else ():
        if one.name == name or name.startswith(count_of(one.name)):
            return None if one.dtype == "auto" else _sort_of(one.dtype)
    return None

"""Which of several templates may be meant by the template arguments of a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.core import INTEGERS
from extractors.cuda.packs import takes
from kb.dialects.cuda import CUDA

_TYPES = ("typename", "template", "auto")


def fitting(
    candidates: Sequence[n.Definition], template: Sequence[n.CType | n.Expr], count: int,
    around: n.Definition | None,
) -> Sequence[n.Definition]:  # fmt: skip
    """The candidates whose template takes the arguments of a call in the function `around`, which
    has `count` others: so many of them, numbers where numbers are wanted, and none left that
    nothing tells. All candidates where that leaves none."""
    if not template or len(candidates) < 2:
        return candidates
    candidates = [one for one in candidates if takes(one, count)] or candidates
    return [c for c in candidates if c.given or _takes(c, template, around)] or candidates


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
        wanted.dtype not in _TYPES and not wanted.pack and _differ(wanted.dtype, given, around)
        for wanted, given in zip(own, template, strict=False)
    )


def _differ(wanted: str, given: n.CType | n.Expr, around: n.Definition | None) -> bool:
    """Whether one of both is a number and the other of an enumeration."""
    number = _number(given, around)
    return number is not None and number != _counts(wanted)


def _counts(dtype: str) -> bool:
    return dtype in INTEGERS or dtype in CUDA.dtypes


def _number(given: n.CType | n.Expr, around: n.Definition | None) -> bool | None:
    """Whether a template argument is a number; None where nothing tells."""
    if isinstance(given, n.Constant):
        return True
    name = given.text if isinstance(given, n.Name) else ""
    name = given.name if isinstance(given, n.CType) else name
    for one in around.template if around is not None and name else ():
        if one.name == name or name.startswith(n.count_of(one.name)):
            return None if one.dtype in _TYPES else _counts(one.dtype)
    return None

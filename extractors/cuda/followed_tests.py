"""Template arguments that the host chooses by a value of its own: where `x == 4` a kernel is
launched with 4, and elsewhere with another number, the parameter is `x`."""

from __future__ import annotations

from collections.abc import Sequence

from extractors.cuda import nodes as n
from extractors.cuda.launch_site import LaunchSite, constant
from extractors.cuda.render import shown
from kb.space import Scalar


def chosen_by(found: Sequence[LaunchSite], definition: n.Definition) -> dict[str, str]:
    """Template parameters of a kernel by the expressions of the host that all its launches choose
    them by."""
    asked = [_asked(one) for one in found]
    texts = {text for one in asked for text in one}
    told: dict[str, str] = {}
    for place, parameter in enumerate(definition.template):
        given = [_given(one, place) for one in found]
        if None in given or len(set(given)) < 2 or not parameter.name:
            continue
        follow = [
            text for text in sorted(texts) if _follows([one.get(text, []) for one in asked], given)
        ]
        if len(follow) == 1:
            told.setdefault(follow[0], parameter.name)
    return told


def _given(site: LaunchSite, place: int) -> Scalar:
    """The number that a launch gives for a template parameter."""
    arguments = site.kernel.arguments
    return constant(arguments[place], site.names) if place < len(arguments) else None


_Answers = list[tuple[Scalar, bool]]


def _asked(site: LaunchSite) -> dict[str, _Answers]:
    """What the branches around a launch compare with numbers, and whether they are equal there."""
    found: dict[str, _Answers] = {}
    for value, label in site.cases:
        found.setdefault(shown(value), []).append((constant(label, site.names), True))
    for test in site.tests:
        text = shown(test)
        if text in site.guards:
            parts = list(_parts(test))
        elif f"not ({text})" in site.guards and isinstance(test, n.Binary):
            parts = [test] if test.operator == "==" else []
        else:
            continue
        for one in parts:
            if one.operator == "==" and isinstance(one.right, n.Constant):
                answer = (one.right.value, text in site.guards)
                found.setdefault(shown(one.left), []).append(answer)
    return found


def _parts(test: n.Expr) -> list[n.Binary]:
    """Comparisons that hold together."""
    if isinstance(test, n.Binary) and test.operator == "&&":
        return [*_parts(test.left), *_parts(test.right)]
    return [test] if isinstance(test, n.Binary) else []


def _follows(asked: Sequence[_Answers], given: Sequence[Scalar]) -> bool:
    """Whether numbers are those that were asked for; a launch that no branch stands around, which
    keeps what another one would change, has one of those that are."""
    known = {value for answers in asked for value, same in answers if same}
    return bool(known) and all(
        _fits(answers, value) if answers else value in known
        for answers, value in zip(asked, given, strict=True)
    )


def _fits(answers: _Answers, given: Scalar) -> bool:
    """Whether a number is the one that was asked for, and none that was not found."""
    return all((value == given) == same for value, same in answers)

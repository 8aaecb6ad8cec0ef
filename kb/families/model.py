"""What a family of operations is: its program from a design point, and its host contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from kb.dsl.model import Document
from kb.errors import ConstraintViolated, InputError
from kb.families.contract import HostContract
from kb.ir import Kernel
from kb.space import Scalar


class ChosenBy(StrEnum):
    """Who chose a value: the caller, the space (its first value), or the family when nobody did."""

    SETTING = "setting"
    SPACE = "space"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRule:
    """An axis that a family realises: the values it can build, the first one its default.

    Empty `values` take any number from 1 up.
    """

    axis: str
    values: tuple[Scalar, ...] = ()
    default: Scalar = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The value of one axis in a design point, and who chose it."""

    axis: str
    value: Scalar
    by: ChosenBy


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyProgram:
    """A program with its host, as an emitter needs it. `residuals` say what was not realised."""

    family: str
    kernel: Kernel
    host: HostContract
    choices: tuple[Choice, ...]
    residuals: tuple[str, ...]
    reference: str


def choose(
    rules: tuple[AxisRule, ...], document: Document, settings: Mapping[str, Scalar]
) -> tuple[tuple[Choice, ...], tuple[str, ...]]:
    """A value for every axis that the family realises, and notes on what it does not.

    A setting goes first, then the first value of the space unless the axis is one of its holes,
    then the default of the family. Raises InputError for a setting that the family cannot build.
    """
    known = {rule.axis for rule in rules}
    for name in settings:
        if name not in known:
            raise _unknown(name, known)
    offered = {axis.name: axis for axis in document.space.axes}
    holes = {hole.partition(":")[0].strip() for hole in document.space.holes}
    choices: list[Choice] = []
    notes: list[str] = []
    for rule in rules:
        if rule.axis in settings:
            choices.append(_set(rule, settings[rule.axis]))
            continue
        axis = offered.get(rule.axis)
        if axis is None or not axis.values or rule.axis in holes or len(rule.values) == 0:
            choices.append(Choice(axis=rule.axis, value=rule.default, by=ChosenBy.DEFAULT))
            if rule.axis in holes:
                notes.append(f"{rule.axis}: a hole of the template; {rule.default} is the default")
        elif axis.values[0] in rule.values:
            choices.append(Choice(axis=rule.axis, value=axis.values[0], by=ChosenBy.SPACE))
        else:
            choices.append(Choice(axis=rule.axis, value=rule.default, by=ChosenBy.DEFAULT))
            notes.append(
                f"{rule.axis}: {axis.values[0]} cannot be built yet; {rule.default} is used"
            )
    return tuple(choices), tuple(notes)


def _set(rule: AxisRule, value: Scalar) -> Choice:
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not rule.values and number:
        return Choice(axis=rule.axis, value=value, by=ChosenBy.SETTING)
    found = matching(value, rule.values)
    if found is None:
        known = ", ".join(map(str, rule.values)) or "whole numbers from 1"
        raise InputError(f"`{rule.axis}` cannot be `{value}` here.", hint=f"It can be {known}.")
    return Choice(axis=rule.axis, value=found, by=ChosenBy.SETTING)


def matching(value: Scalar, known: Sequence[Scalar]) -> Scalar:
    """The known value that is meant: the same, else the only one with the word; None if unclear."""
    if value in known:
        return value
    word = str(value).casefold()
    same = [other for other in known if str(other).casefold() == word]
    near = [other for other in known if word and word in str(other).casefold()]
    if same:
        return same[0]
    return near[0] if len(near) == 1 else None


def _unknown(name: str, known: set[str]) -> InputError:
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean `{near[0]}`?" if near else f"It changes {', '.join(sorted(known))}."
    return InputError(f"nothing in this kernel follows the axis `{name}`.", hint=hint)


def conflict(what: str, hint: str) -> ConstraintViolated:
    """Two values that exclude each other."""
    return ConstraintViolated(what, hint=hint)

"""Constraints as data: compiled once, asked of a point; a refusal says which, why and what to try.

A constraint that names a value nobody supplied does not apply (yet): before a compile there are no
registers, so a limit on registers says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kb.errors import ConstraintViolated, InputError, SyntaxProblem, UnknownName
from kb.planner.evaluation import Environment, Value
from kb.planner.expressions import evaluate, names, parse
from kb.planner.nodes import Expr
from kb.planner.target import Target
from kb.space import Constraint, Point
from kb.vocabulary_model import Vocabulary, folded

INTERPOLATED = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A constraint with its parsed expression and its names."""

    constraint: Constraint
    expression: Expr
    needs: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a point cannot be: the constraint, the reason with its values, and what to try."""

    expression: str
    because: str
    hint: str
    source: str

    @property
    def text(self) -> str:
        """One sentence, or two with the hint."""
        return f"{self.because}. Try: {self.hint}." if self.hint else f"{self.because}."


def compile_constraint(constraint: Constraint) -> Rule:
    """Parse once. Raises SyntaxProblem that names the constraint."""
    try:
        expression = parse(constraint.expression)
    except SyntaxProblem as problem:
        where = f"constraint `{constraint.expression}` {problem.where}"
        raise SyntaxProblem(problem.message, where=where, hint=problem.hint) from problem
    return Rule(constraint=constraint, expression=expression, needs=names(expression))


def environment(
    problem: Mapping[str, Value],
    target: Target | None,
    point: Point = (),
    aliases: Iterable[tuple[str, str]] = (),
) -> dict[str, Value]:
    """What expressions see: problem sizes, the values of the point, and `target`.

    `TILE_M` of a point also answers to `tile_m`, and each name to its alias, unless something else
    already has that name.
    """
    env: dict[str, Value] = {**problem}
    for name, value in point:
        env[name] = value
    for name, value in point:
        env.setdefault(folded(name), value)
    for written, canonical in aliases:
        if written in env:
            env.setdefault(canonical, env[written])
    if target is not None:
        env["target"] = target.record()
    return env


def refusals(rules: Iterable[Rule], env: Environment) -> tuple[Refusal, ...]:
    """Every rule that `env` breaks; one that needs a name `env` lacks does not apply.

    A rule that cannot be computed (a division by zero, a wrong type) is broken: the point is
    refused with that as the reason.
    """
    found: list[Refusal] = []
    for rule in rules:
        try:
            holds = bool(evaluate(rule.expression, env))
        except UnknownName:
            continue
        except InputError as error:
            found.append(_refusal(rule.constraint, env, f"it cannot be computed: {error.message}"))
            continue
        if not holds:
            found.append(_refusal(rule.constraint, env, None))
    return tuple(found)


def check(rules: Iterable[Rule], env: Environment, *, where: str = "") -> None:
    """Raise ConstraintViolated with every broken rule of `env`."""
    broken = refusals(rules, env)
    if broken:
        message = "; ".join(f"`{refusal.expression}`: {refusal.because}" for refusal in broken)
        hints = "; ".join(dict.fromkeys(refusal.hint for refusal in broken if refusal.hint))
        hint = f"Try: {hints}." if hints else "Change one of the values."
        raise ConstraintViolated(f"{message}.", where=where, hint=hint)


def open_names(rules: Iterable[Rule], env: Environment) -> tuple[str, ...]:
    """Names that rules need and `env` lacks: what is still to be supplied before they apply."""
    missing: set[str] = set()
    for rule in rules:
        missing |= {name for name in rule.needs if name.split(".")[0] not in env}
    return tuple(sorted(missing))


def interpolate(text: str, env: Environment) -> str:
    """`text` with each `{expression}` replaced by its value; one that has none stays as it is."""
    return INTERPOLATED.sub(lambda match: _value_text(match, env), text)


def constraints_for(
    operation: str, axes: Iterable[str], vocabulary: Vocabulary
) -> tuple[Constraint, ...]:
    """The ontology's constraints on kernels for `operation` that have these axes."""
    reach = {term.name for term in vocabulary.closure(operation)}
    known = {term.name for name in axes if (term := vocabulary.find_axis(name)) is not None}
    parameters = {parameter.name: parameter.axis for parameter in vocabulary.parameters}
    known |= {parameters[folded(name)] for name in axes if folded(name) in parameters}
    return tuple(
        term.as_constraint()
        for term in vocabulary.constraints
        if set(term.operations) & reach or (not term.operations and set(term.axes) & known)
    )


def _value_text(match: re.Match[str], env: Environment) -> str:
    try:
        value = evaluate(parse(match.group(1)), env)
    except InputError:
        return match.group(0)
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else repr(value)


def _refusal(constraint: Constraint, env: Environment, because: str | None) -> Refusal:
    stated = constraint.because or f"`{constraint.expression}` does not hold"
    return Refusal(
        expression=constraint.expression,
        because=because or interpolate(stated, env),
        hint=interpolate(constraint.hint or "", env),
        source=constraint.source or "",
    )

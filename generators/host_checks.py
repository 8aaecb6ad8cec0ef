"""Checks of a host function, from the constraints of a design space and the axes of its arrays."""

from __future__ import annotations

from collections.abc import Iterator

from generators.flag_slice import read_without
from generators.host_facts import HostFacts
from generators.host_text import folded, rebuilt
from kb.errors import ConstraintViolated, TileloreError
from kb.families.contract import Check
from kb.planner.expressions import evaluate, names, parse, to_text
from kb.planner.nodes import (
    Attribute,
    Binary,
    BinaryOperator,
    Compare,
    Comparison,
    Expr,
    Index,
    Literal,
    Name,
)
from kb.space import Constraint

MAX_GRID = 65_535
"""Blocks along the second and third grid axis.

Source: CUDA C++ Programming Guide, technical specifications per compute capability.
"""


class HostChecks:
    """The checks of one host."""

    def __init__(self, facts: HostFacts) -> None:
        self.facts = facts

    def checks(self) -> Iterator[Check]:
        yield from self._not_empty()
        for constraint in self.facts.request.document.space.constraints:
            check = self._check(constraint)
            if check is not None:
                yield check
        for axis in self.facts.grid()[1:]:
            text = self.facts.to_host(axis)
            yield Check(
                expression=f"{text} <= {MAX_GRID}",
                message=f"{text} is {{{text}}}; a grid axis has at most {MAX_GRID} blocks",
            )

    def _not_empty(self) -> Iterator[Check]:
        """Axes of inputs that no output has are reduced; an empty one gives no value."""
        kept = {
            axis
            for name in self.facts.shapes.outputs
            for axis in self.facts.shapes.shape(name) or ()
        }
        seen: set[str] = set()
        for name in self.facts.shapes.inputs:
            for place in range(self.facts.shapes.ranks.get(name, 0)):
                like = self.facts.shapes.alike((name, place)) or (name, place)
                text = self.facts.to_host(f"{like[0]}.shape[{like[1]}]")
                if like not in kept and text not in seen:
                    seen.add(text)
                    yield Check(
                        expression=f"{text} > 0", message=f"{text} is 0; there is nothing to reduce"
                    )

    def _check(self, constraint: Constraint) -> Check | None:
        """A constraint on problem sizes; None when it holds by itself or speaks of an output."""
        tree = self.facts.resolved(parse(constraint.expression))
        text = folded(to_text(tree), dict(self.facts.request.point.values))
        used = {name.partition(".")[0] for name in names(parse(text))}
        if not used:
            self._decided(text, constraint)
            return None
        if used & set(self.facts.shapes.outputs) or self._repeats(parse(text)):
            return None
        known = {
            *self.facts.shapes.inputs,
            *(scalar.name for scalar in self.facts.scalars),
            *self.facts.runtime(),
        }
        if not used <= known:
            return None
        shown = self.facts.to_host(text)
        guard = self._guard(used)
        parts = ", ".join(f"{part} is {{{part}}}" for part in sorted(_shown(parse(shown))))
        message = f"`{shown}` does not hold: {parts}"
        if constraint.because and "{" not in constraint.because:
            message += f"; {constraint.because}"
        return Check(expression=shown, message=message, when=guard)

    def _guard(self, used: set[str]) -> str:
        """The flag without which the kernel reads none of these scalars; empty without one."""
        scalars = used & self.facts.runtime()
        if not scalars:
            return ""
        flags = {scalar.name for scalar in self.facts.scalars if scalar.annotation == "bool"}
        for parameter, text in self.facts.bound.items():
            if text in flags and not scalars & read_without(self.facts.request.program, parameter):
                return text
        return ""

    def _decided(self, text: str, constraint: Constraint) -> None:
        """Nothing to check at run time; a constraint that the chosen values break is refused."""
        try:
            holds = bool(evaluate(parse(text), {}))
        except TileloreError:
            return
        if not holds:
            point = ", ".join(f"{name}={value}" for name, value in self.facts.request.point.values)
            raise ConstraintViolated(
                f"{point} breaks `{constraint.expression}`.",
                hint=constraint.hint or "Choose other values for the tuning axes.",
            )

    def _repeats(self, expr: Expr) -> bool:
        """Equal sides or extents, or what `a % b == 0` or a product implies."""
        match expr:
            case Compare(first=left, links=((Comparison.EQUAL, Literal(value=0)),)):
                return _implied(left)
            case Compare(first=left, links=((Comparison.EQUAL, right),)):
                return self._same(left, right)
        return False

    def _same(self, left: Expr, right: Expr) -> bool:
        sides = [_axis(left), _axis(right)]
        alike = [self.facts.shapes.alike(side) if side is not None else None for side in sides]
        return left == right or (None not in alike and alike[0] == alike[1])


def _axis(expr: Expr) -> tuple[str, int] | None:
    match expr:
        case Index(
            value=Attribute(value=Name(name=name), name="shape"), index=Literal(value=int(axis))
        ):
            return name, axis
    return None


def _implied(expr: Expr) -> bool:
    match expr:
        case Binary(
            operator=BinaryOperator.MODULO, left=whole,
            right=Binary(operator=BinaryOperator.FLOOR_DIVIDE, left=divided),
        ):  # fmt: skip
            return whole == divided
        case Binary(
            operator=BinaryOperator.MODULO, right=divisor,
            left=Binary(operator=BinaryOperator.MULTIPLY, right=factor),
        ):  # fmt: skip
            return factor == divisor
    return False


def _shown(expr: Expr) -> set[str]:
    """Names and elements of an expression, as text."""
    found: set[str] = set()

    def visit(node: Expr) -> Expr:
        if isinstance(node, Name | Index):
            found.add(to_text(node))
            return node
        return rebuilt(node, visit)

    visit(expr)
    return found

"""Integer expressions in a normal form: sums of products of atoms, so that equal expressions
compare equal.

An atom is something that is not taken apart: a parameter, a block id, a loop variable, a lane of a
tile, an extent of an array, a quotient, a remainder, a minimum. The text of an expression is in
the grammar of constraints.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

MAX_TERMS = 48
"""Terms of a product; past that it stays an opaque atom."""

MAX_SUM = 192
"""Terms of a sum; past that it is an opaque atom."""

MAX_TEXT = 1200
"""Characters of an atom; past that it is opaque, which bounds how deep expressions nest."""


class AtomKind(StrEnum):
    """What an atom stands for."""

    PARAMETER = "parameter"
    BLOCK = "block"
    BLOCKS = "blocks"
    INDUCTION = "induction"
    COUNT = "count"
    LANE = "lane"
    EXTENT = "extent"
    FLOOR_DIV = "floor_div"
    CEIL_DIV = "ceil_div"
    MOD = "mod"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    CHOICE = "choice"
    LOADED = "loaded"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class Atom:
    """One indivisible factor; equal when its text is equal. `args` are the expressions inside
    it."""

    text: str
    kind: AtomKind = field(compare=False)
    args: tuple[Expr, ...] = field(default=(), compare=False)
    value: str = field(default="", compare=False)

    @property
    def axis(self) -> int:
        """The axis of the grid that a block id counts along; ValueError for any other atom."""
        return int(self.text.partition("(")[2].removesuffix(")"))


Term = tuple[tuple[Atom, ...], int]


@dataclass(frozen=True, slots=True)
class Expr:
    """A sum of terms, each an integer times a product of atoms; sorted, so equality is equality of
    meaning."""

    terms: tuple[Term, ...] = ()
    _atoms: tuple[Atom, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def constant(self) -> int | None:
        """The integer that this is, None when it depends on anything."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def atom(self) -> Atom | None:
        """The only atom, when the expression is nothing else."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    def top(self) -> Iterator[Atom]:
        """Atoms of the terms themselves."""
        for factors, _ in self.terms:
            yield from factors

    def atoms(self) -> tuple[Atom, ...]:
        """Every atom once, those inside quotients and minima too; found at the first question, for
        expressions share what is inside them."""
        if self._atoms is None:
            found: dict[tuple[str, str], Atom] = {}
            for atom in self.top():
                found.setdefault((atom.text, atom.value), atom)
                for inner in atom.args:
                    for one in inner.atoms():
                        found.setdefault((one.text, one.value), one)
            object.__setattr__(self, "_atoms", tuple(found.values()))
        return self._atoms or ()

    def has(self, *kinds: AtomKind) -> bool:
        """True when an atom of one of the kinds occurs anywhere."""
        return any(atom.kind in kinds for atom in self.atoms())

    def coefficient(self, atom: Atom) -> Expr:
        """What `atom` is multiplied by; zero when it does not occur by itself."""
        found = []
        for factors, number in self.terms:
            if factors.count(atom) == 1:
                rest = list(factors)
                rest.remove(atom)
                found.append((tuple(rest), number))
        return make(found)

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        text = ""
        for position, (factors, number) in enumerate(self.terms):
            sign = "-" if number < 0 else "+"
            body = " * ".join(atom.text for atom in factors)
            if abs(number) != 1 or not factors:
                body = f"{abs(number)} * {body}" if body else str(abs(number))
            if position == 0:
                text = f"-{body}" if number < 0 else body
            else:
                text += f" {sign} {body}"
        return text


def nested(expr: Expr) -> Iterator[Expr]:
    """An expression and those inside its choices, minima and maxima."""
    yield expr
    for atom in expr.top():
        if atom.kind in (AtomKind.CHOICE, AtomKind.MAXIMUM, AtomKind.MINIMUM):
            for inner in atom.args:
                yield from nested(inner)


def make(terms: list[Term]) -> Expr:
    """Collect equal products, drop zeros, sort: symbols first, the plain number last."""
    sums: dict[tuple[Atom, ...], int] = {}
    for factors, number in terms:
        key = tuple(sorted(factors, key=_text)) if len(factors) > 1 else factors
        sums[key] = sums.get(key, 0) + number
    kept = [(factors, number) for factors, number in sums.items() if number]
    if len(kept) > 1:
        kept.sort(key=lambda t: (not t[0], [a.text for a in t[0]]))
    return Expr(tuple(kept))


def _text(atom: Atom) -> str:
    return atom.text


def number(value: int) -> Expr:
    """A plain integer."""
    return Expr((((), value),) if value else ())


def of(atom: Atom) -> Expr:
    """An expression that is one atom."""
    return Expr((((atom,), 1),))


ZERO = number(0)
ONE = number(1)


def bounded(text: str, kind: AtomKind, args: tuple[Expr, ...], value: str = "") -> Atom:
    """An atom; one that would be too long is opaque, and equal when its full text is equal."""
    if len(text) <= MAX_TEXT:
        return Atom(text, kind, args, value)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Atom(f"value({digest})", AtomKind.OPAQUE)


def add(left: Expr, right: Expr) -> Expr:
    """Sum; an opaque atom when it would outgrow the bound."""
    if not left.terms or not right.terms:
        return left if left.terms else right
    if len(left.terms) + len(right.terms) > MAX_SUM:
        return of(bounded(f"({left} + {right})" + " " * MAX_TEXT, AtomKind.OPAQUE, ()))
    return make([*left.terms, *right.terms])


def scale(value: Expr, by: int) -> Expr:
    """Integer multiple."""
    return Expr(tuple([(factors, count * by) for factors, count in value.terms]) if by else ())


def sub(left: Expr, right: Expr) -> Expr:
    """Difference."""
    return add(left, scale(right, -1))


def mul(left: Expr, right: Expr) -> Expr | None:
    """Product; None when it would outgrow the bound."""
    if len(left.terms) * len(right.terms) > MAX_TERMS:
        return None
    return make([((*a, *b), m * n) for a, m in left.terms for b, n in right.terms])


def _side(value: Expr) -> str:
    """Text of an operand, in brackets when it is a sum or a product."""
    simple = value.atom is not None or (value.constant is not None and value.constant >= 0)
    return str(value) if simple else f"({value})"


def floor_div(left: Expr, right: Expr) -> Expr:
    """Quotient rounded down; `(x + t - 1) // t` is the quotient rounded up."""
    below = right.constant
    if right == ONE:
        return left
    if below and left.constant is not None:
        return number(left.constant // below)
    raised = sub(left, sub(right, ONE))
    if right.constant != 1 and len(raised.terms) < len(left.terms):
        return ceil_div(raised, right)
    return of(bounded(f"({_side(left)} // {_side(right)})", AtomKind.FLOOR_DIV, (left, right)))


def second_half(size: Expr) -> Expr:
    """How long a range is that begins in the middle of an even extent and ends with it: as long as
    the first half. Any other size is what it is."""
    halves = [a for a in size.top() if a.kind is AtomKind.FLOOR_DIV and a.args[1].constant == 2]
    return next((of(a) for a in halves if sub(a.args[0], of(a)) == size), size)


def ceil_div(left: Expr, right: Expr) -> Expr:
    """Quotient rounded up."""
    below = right.constant
    if right == ONE:
        return left
    if below and left.constant is not None:
        return number(-(-left.constant // below))
    return of(bounded(f"cdiv({left}, {right})", AtomKind.CEIL_DIV, (left, right)))


def mod(left: Expr, right: Expr) -> Expr:
    """Remainder."""
    below = right.constant
    if below and left.constant is not None:
        return number(left.constant % below)
    return of(bounded(f"({_side(left)} % {_side(right)})", AtomKind.MOD, (left, right)))


def extreme(kind: AtomKind, values: list[Expr]) -> Expr:
    """Minimum or maximum, nested ones flattened."""
    flat: list[Expr] = []
    for value in values:
        atom = value.atom
        flat += atom.args if atom is not None and atom.kind is kind else [value]
    unique = sorted(set(flat), key=str)
    if len(unique) == 1:
        return unique[0]
    name = "min" if kind is AtomKind.MINIMUM else "max"
    return of(bounded(f"{name}({', '.join(map(str, unique))})", kind, tuple(unique)))


def choice(values: list[Expr], name: str) -> Expr:
    """What a branch hands on: the one value that all sides give, else a choice between them."""
    if all(value == values[0] for value in values):
        return values[0]
    text = f"choice({', '.join(map(str, values))})"
    return of(bounded(text, AtomKind.CHOICE, tuple(values), name))


def only_bounds(index: Expr, value: str) -> bool:
    """True where a loaded number only says how far places are held up or down, as a length that
    cuts a window off does."""
    pending = [(atom, False) for atom in index.top()]
    inside = []
    for atom, held in pending:
        held = held or atom.kind in (AtomKind.MINIMUM, AtomKind.MAXIMUM)
        inside += [held] if atom.value == value else []
        pending += [(inner, held) for part in atom.args for inner in part.top()]
    return bool(inside) and all(inside)

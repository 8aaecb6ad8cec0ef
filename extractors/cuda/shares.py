"""How much of an extent one block takes: what the host divides a size by for the extents of a grid
or of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins, Write
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.library import Library
from extractors.cuda.render import shown
from extractors.cuda.resident import counts
from kb.evidence import AxisKind, Decision, Lines

MAX_NAMES = 40
"""Names that the extents of a launch are followed through."""

MAX_DEPTH = 6
"""Names behind names that a divisor is followed through."""

MAX_STEPS = 4_000
"""Expressions that are looked at for one launch."""

_AXES = ("x", "y", "z")
_BOUNDS = frozenset({"min", "max"})
"""Functions of two numbers that give one of them. Source: C++ standard library, algorithm."""

_DIVIDING = frozenset({"ceil_div"})
"""Rounded-up division. Source: CCCL, cuda/cmath; PyTorch, ATen/ceil_div.h."""

_RULE, _NUMBER, _OPEN = "heuristic(shape)", "constant", "compile-time parameter"


@dataclass(frozen=True, slots=True)
class _Made:
    """What a divisor was found to be: its numbers, whether a rule or a template gives it, and the
    lines where it is given; not `known` where a size of the problem is in it."""

    numbers: set[int] = field(default_factory=set)
    known: bool = True
    ruled: bool = False
    open: bool = False
    lines: set[Lines] = field(default_factory=set)


def shares(
    launches: Sequence[LaunchSite], origins: BlockOrigins, library: Library,
    counters: frozenset[str],
) -> tuple[Decision, ...]:  # fmt: skip
    """The decision how much of an extent a block takes: numbers, template parameters of the host,
    or what it chooses between them."""
    found: list[_Made] = []
    lines: set[Lines] = set()
    asked: dict[int, set[str]] = {}
    names: dict[tuple[str, int, int], _Made] = {}
    known: set[tuple[int, ...]] = set()
    for site in launches:
        function = origins.holder(site)
        shape = (id(function), *map(id, site.shape[:2]))
        if function is None or shape in known:
            continue
        known.add(shape)
        walk = _Shares(origins, library, counters, asked, names)
        for part, extent in enumerate(site.shape[:2]):
            walk.of_grid = not part
            for at, made in walk.divisors(extent, function):
                found.append(made)
                lines |= {place(at), *made.lines}
    if not found:
        return ()
    several = any(one.ruled or len(one.numbers) > 1 for one in found)
    value = _RULE if several else _OPEN if any(one.open for one in found) else _NUMBER
    pattern = "tile-extent-as-compile-time-parameter" if value == _OPEN else _PATTERN
    told = Decision(
        axis="tile_selection", value=value, pattern=pattern, lines=tuple(sorted(lines)),
        kind=AxisKind.TUNING,
    )  # fmt: skip
    return (told,)


_PATTERN = "closed-form-tile-heuristic"


@dataclass(slots=True)
class _Shares:
    """The divisions of one launch; `seen`: names that were followed, with their functions; `asked`:
    names whose addresses calls are given, by function; `names`: what names were found to be, by
    function and axis."""

    origins: BlockOrigins
    library: Library
    counters: frozenset[str]
    asked: dict[int, set[str]]
    names: dict[tuple[str, int, int], _Made]
    of_grid: bool = True
    steps: int = 0
    seen: set[tuple[str, int]] = field(default_factory=set)

    def divisors(
        self, extent: object, function: n.Definition
    ) -> Iterator[tuple[n.Place, _Made]]:  # fmt: skip
        """Divisions of a size by something known, in an extent and in what its names were given;
        what is multiplied by its divisor again is a size that was rounded."""
        nodes = [*n.inside(extent)] if extent is not None else []
        rounded = {id(one) for node in nodes for one in self._rounded(node, function)}
        for node in nodes:
            for left, right in self._division(node, function) if id(node) not in rounded else ():
                made = self._made(right, function, 0)
                if self._told(made) and self._of_a_size(left, function):
                    yield node.at, made
            if isinstance(node, n.Name) and (node.text, id(function)) not in self.seen:
                if len(self.seen) < MAX_NAMES:
                    self.seen.add((node.text, id(function)))
                    yield from self._behind(node.text, function)

    def _behind(self, name: str, function: n.Definition) -> Iterator[tuple[n.Place, _Made]]:
        for one in self.origins.writes(function).get(name, ()):
            yield from self.divisors(_value(one), function)
        for given, caller, _ in self._handed(name, function):
            yield from self.divisors(given, caller)

    def _told(self, made: _Made) -> bool:
        return made.known and (made.ruled or made.open or bool(made.numbers - {1}))

    def _of_a_size(self, node: n.Expr, function: n.Definition) -> bool:
        """Whether a size of the problem is divided, which a template of the host may hold for a
        grid, and no count of multiprocessors."""
        nodes = [*n.inside(node)]
        if any(counts(one, self.library, self.counters) for one in nodes):
            return False
        made = self._made(node, function, 0)
        return not made.known or (made.open and self.of_grid)

    def _rounded(self, node: object, function: n.Definition) -> Iterator[n.Expr]:
        """The division in a product of a quotient and its divisor."""
        if isinstance(node, n.Binary) and node.operator == "*":
            for one, factor in ((node.left, node.right), (node.right, node.left)):
                if any(shown(by) == shown(factor) for _, by in self._division(one, function)):
                    yield one

    def _division(
        self, node: object, function: n.Definition
    ) -> Iterator[tuple[n.Expr, n.Expr]]:  # fmt: skip
        match node:
            case n.Binary(operator="/", left=left, right=right):
                yield left, right
            case n.Binary(operator=">>", left=left, right=n.Constant(value=int() as bits) as by):
                yield left, n.Constant(by.at, 1 << min(bits, 30))
            case n.Call(arguments=(left, right), function=n.Name(text=text)):
                if self._divides(text.rpartition("::")[2], function):
                    yield left, right

    def _divides(self, name: str, function: n.Definition) -> bool:
        """Whether a function, or a lambda of this one, divides its first argument by the second."""
        if name in _DIVIDING:
            return True
        codes: list[n.Definition | n.Lambda] = [*self.library.functions(name)]
        codes += [
            held for one in self.origins.writes(function).get(name, ())
            if isinstance(held := one.value, n.Lambda)
        ]  # fmt: skip
        return any(len(code.parameters) == 2 and _divided(code) for code in codes[:4])

    # -- what a divisor is

    def _made(self, node: object, function: n.Definition, depth: int) -> _Made:
        self.steps += 1
        if depth > MAX_DEPTH or self.steps > MAX_STEPS:
            return _Made(known=False)
        match node:
            case n.Constant(value=bool()):
                return _Made()
            case n.Constant(value=int() as value):
                return _Made({value})
            case n.Cast(operand=inner) | n.Unary(operator="+" | "-", operand=inner):
                return self._made(inner, function, depth)
            case n.SizeOf():
                return _Made(open=True)
            case n.Binary(operator=operator, left=left, right=right):
                sides = [self._made(one, function, depth + 1) for one in (left, right)]
                return _computed(operator, sides[0], sides[1])
            case n.Choice(then=then, other=other):
                return _either([self._made(one, function, depth + 1) for one in (then, other)])
            case n.Call(arguments=given, function=n.Name(text=text)) if given:
                return self._called(text, [self._made(one, function, depth + 1) for one in given])
            case n.Field(operand=n.Name(text=text), name=axis) if axis in _AXES:
                return self._named(text, function, depth, _AXES.index(axis))
            case n.Name(text=text):
                return self._named(text, function, depth, 0)
        return _Made(known=False)

    def _called(self, text: str, given: list[_Made]) -> _Made:
        """What a function gives for what is known; of a bound, one known side is enough."""
        known = [one for one in given if one.known]
        lines = {line for one in known for line in one.lines}
        if text.rpartition("::")[2] in _BOUNDS and known:
            ruled = len(known) < len(given) or any(one.ruled for one in known)
            numbers = {number for one in known for number in one.numbers}
            return _Made(numbers, ruled=ruled, open=not ruled, lines=lines)
        return _Made(known=len(known) == len(given), open=True, lines=lines)

    def _named(self, text: str, function: n.Definition, depth: int, axis: int) -> _Made:
        """What a name is, looked for once; a name that is made of itself is not known."""
        key = (text, id(function), axis)
        if key not in self.names:
            self.names[key] = _Made(known=False)
            self.names[key] = self._written(text, function, depth, axis)
        return self.names[key]

    def _written(self, text: str, function: n.Definition, depth: int, axis: int) -> _Made:
        rows: list[_Made] = []
        if text in self._answered(function):
            return _Made(known=False)
        for one in self.origins.writes(function).get(text, ()):
            for value in _given(one, axis):
                made = self._made(value, function, depth + 1)
                rows.append(_with(made, place(one.at)))
        if rows:
            return _either(rows)
        return self._outside(text, function, depth)

    def _answered(self, function: n.Definition) -> set[str]:
        """Names whose addresses a call is given, which writes them."""
        if id(function) not in self.asked:
            self.asked[id(function)] = {
                one.operand.text
                for call in n.inside(function.body) if isinstance(call, n.Call)
                for given in call.arguments for one in n.inside(given)
                if isinstance(one, n.Unary) and one.operator == "&"
                if isinstance(one.operand, n.Name)
            }  # fmt: skip
        return self.asked[id(function)]

    def _outside(self, text: str, function: n.Definition, depth: int) -> _Made:
        """What a name is that the function itself does not give anything."""
        handed = [
            _with(self._made(given, caller, depth + 1), at)
            for given, caller, at in self._handed(text, function)
        ]
        if any(one.name == text for one in function.template):
            return _either([one for one in handed if one.known]) if handed else _Made(open=True)
        if any(one.name == text for one in function.parameters):
            return _either(handed) if handed else _Made(known=False)
        constant = self.library.constant(text)
        if constant is not None and constant.value is not None:
            made = self._made(constant.value, function, depth + 1)
            here = constant.at.path == function.at.path
            return _with(made, place(constant.at)) if here else made
        return _Made(open=True) if "::" in text else _Made(known=False)

    def _handed(
        self, name: str, function: n.Definition
    ) -> Iterator[tuple[n.Expr, n.Definition, Lines]]:  # fmt: skip
        """What the callers of a function give a parameter of it, or of its template."""
        for caller, call in self.origins.callers(function.name):
            if caller is function:
                continue
            own = call.function.arguments if isinstance(call.function, n.Name) else ()
            names = [one.name for one in function.template[: len(own)]]
            names += [one.name for one in function.parameters]
            given = [*own[: len(function.template)], *call.arguments]
            for parameter, one in zip(names, given, strict=False):
                if parameter == name:
                    at = place(call.at)
                    yield _as_expression(one, call.at), caller, (at[0], at[0])


def _as_expression(given: n.CType | n.Expr, at: n.Place) -> n.Expr:
    """A template argument that the grammar cannot tell from a type, as the name that it is."""
    return n.Name(at, given.name) if isinstance(given, n.CType) else given


def _value(one: Write) -> object:
    return (one.value, one.arguments) if isinstance(one, n.Variable) else one.value


def _given(one: Write, axis: int) -> Iterator[n.Expr]:
    """What a write gives a name, or one axis of it; nothing where it only declares the name."""
    if isinstance(one, n.Assign):
        at = shown(one.target).rpartition(".")[2]
        if at not in _AXES or at == _AXES[axis]:
            yield one.value
        return
    made: object = one.value
    parts = one.arguments
    if isinstance(made, n.Call) and shown(made.function) == "dim3":
        parts = made.arguments
    elif isinstance(made, n.Braces):
        parts = made.items
    if parts is not None:
        yield from parts[axis : axis + 1]
    elif isinstance(made, n.Expr):
        yield made


def _with(made: _Made, line: Lines) -> _Made:
    return replace(made, lines={*made.lines, line})


def _either(rows: Sequence[_Made]) -> _Made:
    """One of several, of which all have to be known."""
    numbers = {number for one in rows for number in one.numbers}
    return _Made(
        numbers, all(one.known for one in rows),
        any(one.ruled for one in rows) or len(numbers) > 1, any(one.open for one in rows),
        {line for one in rows for line in one.lines},
    )  # fmt: skip


def _computed(operator: str, left: _Made, right: _Made) -> _Made:
    both = _either([left, right])
    several = len(left.numbers) > 1 or len(right.numbers) > 1
    one = {a * b for a in left.numbers for b in right.numbers} if operator == "*" else set()
    return _Made(one, both.known, left.ruled or right.ruled or several,
                 both.open or operator != "*", both.lines)  # fmt: skip


def _divided(code: n.Definition | n.Lambda) -> bool:
    """Whether what a function gives back is divided by its second parameter."""
    by = code.parameters[1].name
    return any(
        isinstance(one, n.Binary)
        and one.operator == "/"
        and isinstance(one.right, n.Name)
        and one.right.text == by
        for one in n.inside(code.body)
    )

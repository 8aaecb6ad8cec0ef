"""Grids that have no block when a size is zero."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import followed, place
from extractors.cuda.checks import checked
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.launchers import LAUNCHERS
from extractors.cuda.library import Library
from extractors.cuda.render import shown
from extractors.host.file_facts import EmptyGrid
from kb.evidence import Lines

MAX_DEPTH = 12
MAX_CALLERS = 3
"""Functions of the file, one calling the other, whose conditions are looked at."""

MAX_ASKED = 4000
"""Expressions that the conditions of one launch are followed through."""

_AXES = ("x", "y", "z")
_COMPARED = frozenset({"==", "!=", "<", "<=", ">", ">="})
_ELEMENTS = frozenset({"numel", "nbytes", "defined"})
_SHAPES = frozenset({"shape", "sizes"})
_EXTENTS = frozenset({"size", "numel", "dim_size"})
"""Methods that tell how many elements a tensor has, all of them or along an axis. Source: PyTorch,
ATen/core/TensorBase.h; Apache TVM FFI, tvm/ffi/container/tensor.h."""


def empty_grids(
    sites: Sequence[LaunchSite], origins: BlockOrigins, library: Library
) -> tuple[EmptyGrid, ...]:
    """Sizes that nothing in the file keeps from being zero on the way to a launch."""
    found: dict[str, EmptyGrid] = {}
    for site in sites:
        if not site.shape or site.shape[0] is None:
            continue
        for holder in origins.holders(site):
            grid = Extents(site, holder, library)
            for size in grid.sizes():
                text = shown(size)
                if text not in found and not grid.excluded(size, origins):
                    lines = {place(site.at), *grid.lines}
                    found[text] = EmptyGrid(text, tuple(sorted(lines)), text in grid.divisors)
    return tuple(found.values())


@dataclass(slots=True)
class Extents:
    """The grid of a launch in the words of the host, or with `which` 1 its block, of which those
    sizes are looked for that it grows with; `divisors` are those that something is divided by, or
    by the smaller one of them and a number."""

    site: LaunchSite
    holder: n.Definition
    library: Library
    which: int = 0
    lines: list[Lines] = field(default_factory=list)
    divisors: set[str] = field(default_factory=set)

    def sizes(self) -> list[n.Expr]:
        """What makes an extent zero by being zero, and larger by being larger, each once."""
        made, lines = followed(self.site.shape[self.which], self.site.names)
        names = self.site.names
        given: Sequence[object] = (made,)
        if isinstance(made, n.Variable):
            set_ = [names.get(f"{made.name}.{axis}") for axis in "xyz"]
            given = made.arguments or [one for one in set_ if one is not None]
        elif isinstance(made, n.Braces):
            given = made.items
        elif isinstance(made, n.Call) and shown(made.function) == "dim3":
            given = made.arguments
        self.lines += lines
        found = {shown(z): z for one in given if isinstance(one, n.Expr) for z in self._zero(one)}
        return list(found.values())

    def _zero(self, node: n.Expr, depth: int = 0) -> Iterator[n.Expr]:
        """What makes an expression zero by being zero."""
        if depth > MAX_DEPTH:
            return
        match node:
            case n.Cast(operand=operand):
                yield from self._zero(operand, depth + 1)
            case n.Binary(operator="*", left=left, right=right):
                yield from self._zero(left, depth + 1)
                yield from self._zero(right, depth + 1)
            case n.Binary(operator="/", left=left, right=right):
                rounded = _rounded_up(left, right)
                self._divides(right, depth)
                yield from self._zero(left if rounded is None else rounded, depth + 1)
            case n.Call(function=n.Name(text=text), arguments=arguments):
                yield from self._called(text, arguments, depth)
            case n.Call(function=n.Field(name=name)) if name in _EXTENTS:
                yield node
            case n.Index(operand=n.Call(function=n.Field(name=name))) if name in _SHAPES:
                yield node
            case n.Name(text=text):
                made, lines = followed(node, self.site.names)
                if isinstance(made, n.Expr) and not isinstance(made, n.Name):
                    found = list(self._zero(made, depth + 1))
                    self.lines += lines if found else []
                    yield from found
                elif isinstance(made, n.Name) and self._parameter(made.text):
                    yield made

    def _called(self, text: str, given: Sequence[n.Expr], depth: int) -> Iterator[n.Expr]:
        """What makes the result of a call zero: the smaller of two, or what a function that does
        nothing but return a quotient is given."""
        last = text.rpartition("::")[2]
        known = self.library.functions(last)
        if last == "min" and not known and not self.which:
            for one in given:
                yield from self._zero(one, depth + 1)
        elif len(known) == 1 and len(known[0].body.body) == 1:
            statement = known[0].body.body[0]
            value = statement.value if isinstance(statement, n.Leave) else None
            if isinstance(value, n.Binary) and value.operator == "/":
                above = _rounded_up(value.left, value.right)
                places = {p.name: at for at, p in enumerate(known[0].parameters)}
                at = places.get(shown(value.left if above is None else above), len(given))
                if at < len(given):
                    yield from self._zero(given[at], depth + 1)
                below = places.get(shown(value.right), len(given))
                if below < len(given):
                    self._divides(given[below], depth)

    def _divides(self, by: n.Expr, depth: int) -> None:
        """Note what makes a divisor zero by being zero; an extent of the block is what it was made
        of."""
        if isinstance(by, n.Field) and isinstance(by.operand, n.Name) and by.name in _AXES:
            made, _ = followed(by.operand, self.site.names)
            given = made.arguments if isinstance(made, n.Variable) else None
            if isinstance(made, n.Call) and shown(made.function) == "dim3":
                given = made.arguments
            at = _AXES.index(by.name)
            extent = given[at] if given is not None and at < len(given) else None
            by = extent if isinstance(extent, n.Expr) else by
        lines = len(self.lines)
        self.divisors |= {shown(one) for one in self._zero(by, depth + 1)}
        del self.lines[lines:]

    def _parameter(self, text: str) -> bool:
        """Whether a name is a number that the function of the launch is given at run time; who
        hands over a whole grid answers for it, and so does who fills a struct."""
        given = (one.type for one in self.holder.parameters if one.name == text)
        return any(not one.pointers and one.name != "dim3" for one in given)

    def excluded(self, size: n.Expr, origins: BlockOrigins) -> bool:
        """Whether a condition that may keep a size from being zero is asked on the way."""
        wanted = _texts(size)
        on_way = [*self.site.tests, *(_larger(one.condition) for one in self.site.checks)]
        if any(self._names(one, wanted) and _excludes(one) for one in on_way):
            return True
        tensor = shown(size.function.operand) if isinstance(size, n.Call) and isinstance(
            size.function, n.Field) else ""  # fmt: skip
        if tensor and any(_handed(self.holder, tensor)):
            return True
        way = origins.holders(self.site)
        if any(self._names(test, wanted) for one in way for test in _leaving(one)):
            return True
        if _asked_inside(self.holder, wanted, origins):
            return True
        return _asked_around(self.holder, wanted, origins, MAX_CALLERS)

    def named(self, size: n.Expr, tests: Iterable[n.Expr]) -> bool:
        """Whether one of some conditions speaks of a size."""
        return any(self._names(test, _texts(size)) for test in tests)

    def _names(self, test: n.Expr, wanted: frozenset[str]) -> bool:
        """Whether a condition speaks of a size, directly or by what its names were given."""
        pending: list[object] = [test]
        seen: set[str] = set()
        for made in pending:
            for one in n.inside(made):
                text = shown(one)
                if text in wanted:
                    return True
                if isinstance(one, n.Name) and text not in seen and len(seen) < MAX_ASKED:
                    seen.add(text)
                    pending.append(self.site.names.get(text))
        return False


def _handed(function: n.Definition, tensor: str) -> Iterator[bool]:
    """Whether a statement hands a tensor to a function that may look at it."""
    for one in n.inside(function.body):
        call = one.value if isinstance(one, n.Do) else None
        if isinstance(call, n.Call) and not call.launch and isinstance(call.function, n.Name):
            known = call.function.text in LAUNCHERS or any(checked(call))
            yield not known and any(shown(given) == tensor for given in call.arguments)


def _texts(size: n.Expr) -> frozenset[str]:
    """How a condition may name a size: by itself, or by the elements of its tensor."""
    found = {shown(size)}
    if isinstance(size, n.Call) and isinstance(size.function, n.Field):
        found |= {f"{shown(size.function.operand)}.{name}" for name in _ELEMENTS}
    return frozenset(found)


def _rounded_up(above: n.Expr, below: n.Expr) -> n.Expr | None:
    """What is divided with the rest counted: `a` of `(a + b - 1) / b`."""
    fixed, rest = 0, []
    for sign, term in _terms(above):
        if isinstance(term, n.Constant) and isinstance(term.value, int):
            fixed += sign * term.value
        else:
            rest.append((sign, term))
    whole = below.value if isinstance(below, n.Constant) else 0
    if not isinstance(below, n.Constant):
        own = next((one for one in rest if one[0] == 1 and shown(one[1]) == shown(below)), None)
        rest = [one for one in rest if one is not own] if own is not None else []
    alone = len(rest) == 1 and rest[0][0] == 1
    return rest[0][1] if alone and isinstance(whole, int) and fixed == whole - 1 else None


def _terms(node: n.Expr, sign: int = 1) -> Iterator[tuple[int, n.Expr]]:
    """The terms of a sum, each with its sign."""
    while isinstance(node, n.Cast):
        node = node.operand
    if isinstance(node, n.Binary) and node.operator in ("+", "-"):
        yield from _terms(node.left, sign)
        yield from _terms(node.right, sign if node.operator == "+" else -sign)
    else:
        yield sign, node


def _excludes(test: n.Expr) -> bool:
    """Whether a condition compares, or asks for a truth: a remainder alone keeps zero."""
    for one in n.inside(test):
        if isinstance(one, n.Binary) and one.operator in _COMPARED:
            sides = (one.left, one.right)
            rest = any(isinstance(x, n.Binary) and x.operator == "%" for x in sides)
            fixed = any(isinstance(x, n.Constant) for x in sides)
            if not rest and (one.operator != "==" or fixed):
                return True
    return isinstance(test, n.Name | n.Unary | n.Call)


def _larger(condition: n.Expr) -> n.Expr:
    """What a condition that holds may keep from being zero: of two that are ordered the larger
    one, with the smaller one where that is a number."""
    if isinstance(condition, n.Binary) and condition.operator in ("<", "<=", ">", ">="):
        left, right = condition.left, condition.right
        less, more = (left, right) if condition.operator in ("<", "<=") else (right, left)
        fixed = isinstance(less, n.Constant)
        return condition if fixed else n.Unary(condition.at, "!", n.Unary(condition.at, "!", more))
    return condition


def _leaving(function: n.Definition) -> Iterator[n.Expr]:
    """Conditions of a function that compare with zero or one, or ask for a truth."""
    for one in n.inside(function.body):
        test = one.condition if isinstance(one, n.If | n.While | n.Choice) else None
        if isinstance(one, n.Call):
            found = (check.condition for check in checked(one))
            yield from (_larger(condition) for condition in found if _excludes(condition))
        for part in n.inside(test) if test is not None else ():
            match part:
                case n.Binary(operator=operator, left=left, right=right) if operator in _COMPARED:
                    bounds = [x.value for x in (left, right) if isinstance(x, n.Constant)]
                    if _excludes(part) and any(value in (0, 1) for value in bounds):
                        yield part
                case n.Unary(operator="!", operand=operand):
                    if isinstance(operand, n.Field) or _excludes(operand):
                        yield operand
                case n.Binary(operator="&&" | "||", left=left, right=right):
                    yield from (x for x in (left, right) if isinstance(x, n.Name | n.Call))
        if isinstance(test, n.Name | n.Call):
            yield test


def _asked_inside(function: n.Definition, wanted: frozenset[str], origins: BlockOrigins) -> bool:
    """Whether a function that is handed a size, perhaps with the launch, keeps it from being
    zero."""
    for call in n.inside(function.body):
        if not isinstance(call, n.Call) or call.launch or not isinstance(call.function, n.Name):
            continue
        for known in origins.functions.get(call.function.text.rpartition("::")[2], ()):
            given = zip(known.parameters, call.arguments, strict=False)
            names = {p.name for p, one in given if _made_of([one], function, origins) & wanted}
            if names and any(names & _made_of([t], known, origins) for t in _leaving(known)):
                return True
    return False


def _asked_around(
    function: n.Definition, wanted: frozenset[str], origins: BlockOrigins, callers: int
) -> bool:
    """Whether functions of the file that call a function keep what they hand it for a size from
    being zero."""
    for caller, call in origins.callers(function.name) if callers else ():
        if caller is function:
            continue
        given = [
            argument
            for one, argument in zip(function.parameters, call.arguments, strict=False)
            if any(text == one.name or text.startswith(f"{one.name}.") for text in wanted)
        ]
        texts = _made_of(given, caller, origins)
        if any(texts & _made_of([test], caller, origins) for test in _leaving(caller)):
            return True
        if _asked_around(caller, texts, origins, callers - 1):
            return True
    return False


def _made_of(
    given: Sequence[n.Expr], function: n.Definition, origins: BlockOrigins
) -> frozenset[str]:
    """Names, fields and methods in expressions and in what the names were given, as texts."""
    written = origins.writes(function)
    pending: list[object] = list(given)
    found: set[str] = set()
    for made in pending:
        for one in n.inside(made) if made is not None else ():
            text = shown(one) if isinstance(one, n.Name | n.Field | n.Call) else ""
            if text and text not in found and len(found) < MAX_ASKED:
                found.add(text)
                pending += [x.value for x in written.get(text, ())]
    return frozenset(found)

"""One launch of a kernel as the host writes it, and what it says in the words of the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from extractors.cuda import nodes as n
from extractors.cuda.checks import Check
from extractors.cuda.render import shown
from kb.space import Binding, Launch, Scalar

MAX_NAMES = 200
"""Names that one launch is followed to."""

MAX_STEPS = 4
"""Names behind names that a template argument is followed through."""

Names = dict[str, n.Expr | n.Variable]
_AXES = ("x", "y", "z")
ALIAS = "using "
"""What stands before the name of a type among the names of a launch; no name has a blank."""

POINTERS = frozenset({"data_ptr", "const_data_ptr", "mutable_data_ptr", "data"})
"""Methods that give the place of a tensor's elements. Source: PyTorch, ATen/core/TensorBase.h."""


@dataclass(frozen=True, slots=True)
class Level:
    """A call on the way to a launch: what the parameters of the function are given, in the words of
    its caller, and what names were given there."""

    given: Mapping[str, n.Expr]
    names: Names


@dataclass(frozen=True, slots=True)
class LaunchSite:
    """A launch of a kernel: what stands in its angle brackets, its arguments, its conditions;
    `root` is the function that leads to it through others, `entered` where it calls them, `levels`
    what the functions between hand on, that of the launch first, and `left` conditions under which
    they have returned before; `plain` when the launch can be given no attributes."""

    kernel: n.Name
    shape: tuple[n.Expr | n.Variable | None, ...]
    arguments: tuple[n.Expr, ...]
    at: n.Place
    guards: tuple[str, ...]
    names: Names
    function: str
    checks: tuple[Check, ...] = ()
    cases: tuple[tuple[n.Expr, n.Expr], ...] = ()
    tests: tuple[n.Expr, ...] = ()
    root: str = ""
    entered: n.Place | None = None
    levels: tuple[Level, ...] = ()
    left: tuple[str, ...] = ()
    plain: bool = False

    @property
    def top(self) -> str:
        """The outermost function that is known to lead here."""
        return self.root or self.function

    @property
    def reached(self) -> n.Place:
        """Where that function launches the kernel, or calls another to do it."""
        return self.entered or self.at

    def words(self, definition: n.Definition) -> dict[str, str]:
        """Parameters of the kernel by what the host calls them here."""
        own = own_names(definition)
        held = {shown(value): label for value, label in self.cases}
        names = [*(one.name for one in definition.template[: len(self.kernel.arguments)]),
                 *(one.name for one in definition.parameters)]  # fmt: skip
        written = self.kernel.arguments[: len(definition.template)]
        pairs = list(zip(names, (*written, *self.arguments), strict=False))
        free = own.keys() - {parameter for parameter, _ in pairs}
        found = {name: name for name in self._fed() if name not in own or name in free}
        for parameter, given in pairs:
            value = constant(given, self.names)
            chosen = [text for text, label in held.items()
                      if value is not None and constant(label, self.names) == value]  # fmt: skip
            tensor = owner(given, self.names)
            for name, made in fields(given, self.names) if isinstance(given, n.Name) else ():
                own_ = [shown(made)] if isinstance(made, n.Name | n.Field) else []
                found |= dict.fromkeys((*own_, *owner(made, self.names)), f"{parameter}.{name}")
            same = copies(given, self.names)
            found |= dict.fromkeys([shown(given), *chosen, *tensor, *same], parameter)
        return found

    def behind(self, made: object) -> Iterator[object]:
        """The nodes of an expression of the launch and of what its names were given, up to the
        outermost caller that is known."""
        scopes = [self.names, *(one.names for one in self.levels)]
        pending: list[tuple[object, int]] = [(made, 0)]
        seen: set[tuple[str, int]] = set()
        for node, level in pending:
            for one in n.inside(node):
                yield one
                if isinstance(one, n.Name) and (one.text, level) not in seen:
                    seen.add((one.text, level))
                    if len(seen) < MAX_NAMES and level < len(scopes):
                        pending += [(made, level) for _, made in fields(one, scopes[level])]
                    inner = self.levels[level].given if level < len(self.levels) else {}
                    if len(seen) < MAX_NAMES and one.text in inner:
                        pending.append((inner[one.text], level + 1))
                    elif len(seen) < MAX_NAMES:
                        pending.append((scopes[level].get(one.text), level))
                        pending.append((scopes[level].get(f"{ALIAS}{one.text}"), level))
                        pending.append((tuple(_named(one)), level))

    def _fed(self) -> Iterator[str]:
        """Names of the host that the launch is made of, up to the outermost caller that is known:
        its grid, its block, its arguments; those that choose it among others, and what functions
        on the way are handed."""
        handed = tuple(tuple(one.given.values()) for one in self.levels)
        for level in self.levels:
            yield from level.given
        made = [self.shape, self.arguments, self.kernel, self.tests, self.cases, handed]
        for node in self.behind(tuple(made)):
            if isinstance(node, n.Name) and "::" not in node.text:
                yield node.text


def _named(name: n.Name) -> Iterator[n.Name]:
    """Template arguments that are read as types: each may be a number by its name."""
    for one in name.arguments:
        if isinstance(one, n.CType):
            yield n.Name(name.at, one.name, one.arguments)


def fields(struct: n.Name, names: Names) -> Iterator[tuple[str, n.Expr | n.Variable]]:
    """What the host last gave the fields of a struct, by their names."""
    held = names.get(struct.text)
    if held is None or isinstance(held, n.Name | n.Constant):
        return
    start = f"{struct.text}."
    for name, made in names.items():
        if name.startswith(start) and name[len(start) :].isidentifier():
            yield name[len(start) :], made


def copies(given: object, names: Names) -> list[str]:
    """Names that what a launch or a function is given was copied from, one after the other."""
    found: list[str] = []
    node: object = given
    for _ in range(MAX_STEPS):
        while isinstance(node, n.Cast):
            node = node.operand
        if not isinstance(node, n.Name) or node.text in found:
            break
        found.append(node.text)
        node = names.get(node.text)
    return found[1:] if isinstance(given, n.Name) else found


def owner(given: object, names: Names) -> list[str]:
    """The tensor whose elements a pointer is of, in a list of its own; empty for others."""
    node: object = given
    for _ in range(MAX_NAMES):
        match node:
            case n.Cast(operand=operand):
                node = operand
            case n.Name(text=text) if text in names:
                node = names[text]
            case n.Field(operand=n.Name(text=text), name=name) if f"{text}.{name}" in names:
                node = names[f"{text}.{name}"]
            case n.Choice(then=then, other=n.Constant(value=None)):
                node = then
            case n.Choice(then=n.Constant(value=None), other=other):
                node = other
            case n.Call(function=n.Field(operand=operand, name=name)) if name in POINTERS:
                return [held.text] if isinstance(held := _inside(operand), n.Name) else []
            case _:
                break
    return []


def _inside(node: n.Expr) -> n.Expr:
    """What may be there or not, for what is there: `x.value()`, `*x`."""
    match node:
        case n.Call(function=n.Field(operand=operand, name="value"), arguments=()):
            return operand
        case n.Unary(operator="*", operand=operand):
            return operand
    return node


def written_for(fitting: Sequence[n.Definition], found: LaunchSite) -> list[n.Definition]:
    """Of definitions with one name, those of the namespace that a launch names and the
    specialisations that are written for its template arguments; where there are none, those that
    are not specialised, or all of an open type."""
    space = found.kernel.text.rpartition("::")[0]
    named = [one for one in fitting if space and f"::{one.space}".endswith(f"::{space}")]
    fitting = named or fitting
    asked = [_argument(one, found.names) for one in found.kernel.arguments]
    sure = [
        one for one in fitting
        if one.given and [_argument(own, {}) for own in one.given][: len(asked)] == asked
    ]  # fmt: skip
    general = [one for one in fitting if not one.given]
    return (sure if asked else []) or general or list(fitting)


def own_names(definition: n.Definition) -> dict[str, str]:
    names = (*(p.name for p in definition.template), *(p.name for p in definition.parameters))
    return dict(zip(names, names, strict=True))


def launch_of(found: LaunchSite, definition: n.Definition, parameters: Sequence[str]) -> Launch:
    grid, block, shared = (*found.shape, None, None, None)[:3]
    hints: list[tuple[str, Scalar]] = []
    for axis, extent in zip(_AXES, _extents(block, found.names), strict=False):
        hints.append((f"block_{axis}", int(extent) if extent.isdigit() else extent))
    if shared is not None and (size := shown(_value(shared, found.names))) != "0":
        hints.append(("shared_bytes", int(size) if size.isdigit() else size))
    bindings = [
        Binding(parameter=one.name, expression=_argument(given, found.names))
        for one, given in zip(definition.template, found.kernel.arguments, strict=False)
        if one.name in parameters
    ]
    runtime = parameters[len(definition.template) :]
    bindings += [
        Binding(parameter=name, expression=shown(given))
        for name, given in zip(runtime, found.arguments, strict=False)
        if name.isidentifier()  # a pack is no parameter of one name
    ]
    return Launch(
        grid=tuple(_extents(grid, found.names)),
        bindings=tuple(bindings),
        hints=tuple(hints),
        lines=(found.at.line, max(found.at.line, found.at.end_line)),
        when=" and ".join(found.guards) or "always",
        host_function=found.function,
    )


def _value(node: n.Expr | n.Variable, names: Names) -> n.Expr | n.Variable:
    """What a name was last given, one step back."""
    if isinstance(node, n.Name):
        return names.get(node.text, node)
    return node


def _extents(node: n.Expr | n.Variable | None, names: Names) -> list[str]:
    """Extents of a grid or block, x first: a dim3, or one number. Their numbers where all are
    known, else their texts."""
    if node is None:
        return ["?"]
    found = _value(node, names)
    given: Sequence[n.Expr | n.Variable]
    if isinstance(found, n.Variable):
        parts = [names.get(f"{found.name}.{axis}") for axis in _AXES]
        set_ = [one for one in parts if one is not None]
        given = found.arguments or set_ or [n.Name(found.at, found.name)]
    elif isinstance(found, n.Braces):
        given = found.items
    elif isinstance(found, n.Call) and shown(found.function) == "dim3":
        given = found.arguments
    else:
        given = [node]
    values = [None if isinstance(one, n.Variable) else constant(one, names) for one in given]
    if all(isinstance(value, int) for value in values):
        return [str(value) for value in values]
    return [shown(one) for one in given]


def _argument(given: n.CType | n.Expr, names: Names) -> str:
    value = constant(given, names)
    return str(value) if value is not None else shown(given)


def constant(given: n.CType | n.Expr, names: Names) -> Scalar:
    """The number or truth value that a template argument surely is."""
    if isinstance(given, n.CType) and (given.pointers or given.arguments):
        return None
    held = names.get(given.name) if isinstance(given, n.CType) else given
    for _ in range(MAX_STEPS):
        if not isinstance(held, n.Name):
            break
        held = names.get(held.text)
    return held.value if isinstance(held, n.Constant) else None


def compared(test: n.Expr) -> Iterator[tuple[n.Expr, n.Expr]]:
    """What a condition compares with which number, as the case of a switch does."""
    match test:
        case n.Binary(operator="==", left=left, right=n.Constant() as label):
            yield left, label


_T = TypeVar("_T")


def both(first: tuple[_T, ...], second: tuple[_T, ...]) -> tuple[_T, ...]:
    """The items of two tuples, those of the first one once."""
    return (*first, *(one for one in second if one not in first))

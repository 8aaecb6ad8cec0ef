"""What the variables of host code may hold, and the kernels that lie behind an expression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from extractors.cuda import nodes as n
from extractors.cuda.render import shown

MAX_KERNELS = 32
"""Kernels that one expression may stand for."""

MAX_STEPS = 400
"""Expressions that are looked at for them."""


@dataclass(frozen=True, slots=True)
class Held:
    """A value that a variable was given, and under which conditions; `template`: the parameters of
    a variable template."""

    value: n.Expr
    guards: tuple[str, ...] = ()
    tests: tuple[n.Expr, ...] = ()
    cases: tuple[tuple[n.Expr, n.Expr], ...] = ()
    template: tuple[n.TemplateParameter, ...] = ()

    def filled(self, arguments: Sequence[n.CType | n.Expr]) -> n.Expr:
        """The value with the arguments of its template in place of their names, where a name of a
        function stands alone."""
        given = dict(zip((one.name for one in self.template), arguments, strict=False))
        if not given or not isinstance(self.value, n.Name):
            return self.value
        own = tuple(given.get(shown(one), one) for one in self.value.arguments)
        return replace(self.value, arguments=own)


Holding = dict[str, tuple[Held, ...]]
"""What each variable may hold, in order."""

Way = tuple[Held, ...]
"""The values that lead to a kernel."""


@dataclass(frozen=True, slots=True)
class Known:
    """The kernels of a file by name, constants that hold one, and its functions; `named` says of
    bodies by their identity whether they name a kernel."""

    kernels: frozenset[str]
    functions: Mapping[str, Sequence[n.Definition]]
    holders: frozenset[str] = frozenset()
    named: dict[int, bool] = field(default_factory=dict)

    def beside(self, record: n.Record | None) -> Known:
        """The same with the methods of a struct, as another method of it calls them."""
        if record is None:
            return self
        own: dict[str, list[n.Definition]] = {}
        for one in record.methods:
            own.setdefault(one.name, []).append(one)
        fields = [x for x in record.fields if self.holds(x)]
        return replace(
            self, functions={**self.functions, **own}, named={},
            holders=self.holders | {x.name for x in fields},
        )  # fmt: skip

    def holds(self, variable: n.Variable) -> bool:
        """Whether what a variable is given begins with a kernel."""
        value = variable.value
        return isinstance(value, n.Name) and value.text.rpartition("::")[2] in self.kernels

    def names(self, body: n.Block) -> bool:
        """Whether a body names a kernel."""
        if id(body) not in self.named:
            self.named[id(body)] = any(
                isinstance(one, n.Name)
                and one.text.rpartition("::")[2] in self.kernels | self.holders
                for one in n.inside(body)
            )
        return self.named[id(body)]


def with_value(held: Holding, name: str, new: Held) -> None:
    """Let a variable hold a value: alone, where nothing was asked since its first one."""
    before = held.get(name, ())
    alone = not before or len(new.guards) <= len(before[0].guards)
    held[name] = (new,) if alone else (*before, new)


def kernels_behind(node: n.Expr, held: Holding, known: Known) -> Iterator[tuple[n.Name, Way]]:
    """The kernels behind a cast, a choice, a variable, or what a function or lambda returns. A name
    of which nothing is known stands for itself."""
    pending: list[tuple[n.Expr, Way, Holding]] = [(node, (), held)]
    found = 0
    for _ in range(MAX_STEPS):
        if not pending or found >= MAX_KERNELS:
            return
        one, way, names = pending.pop(0)
        if isinstance(one, n.Name):
            last = one.text.rpartition("::")[2]
            given = names.get(last if last in known.holders else one.text, ())
            if last in known.kernels or not given:
                found += 1
                yield one, way
            elif not any(step in way for step in given):
                pending[:0] = [(step.filled(one.arguments), (*way, step), names) for step in given]
        else:
            pending[:0] = [(x, (*way, *step), inner) for x, step, inner in _in(one, names, known)]


def _in(node: n.Expr, held: Holding, known: Known) -> Iterator[tuple[n.Expr, Way, Holding]]:
    match node:
        case n.Cast(operand=operand) | n.Unary(operand=operand) | n.Index(operand=operand):
            yield operand, (), held
        case n.Assign(value=value):
            yield value, (), held
        case n.Choice(condition=condition, then=then, other=other):
            text = shown(condition)
            yield then, (Held(then, (text,), (condition,)),), held
            yield other, (Held(other, (f"not ({text})",), (condition,)),), held
        case n.Braces(items=items) | n.Unread(inner=items):
            yield from ((item, (), held) for item in items)
        case n.Call(function=n.Lambda() as function):
            yield from _returned(function.body, held, known)
        case n.Call(function=n.Name(text=text), arguments=arguments):
            bodies = [h.value.body for h in held.get(text, ()) if isinstance(h.value, n.Lambda)]
            bodies = bodies or [f.body for f in known.functions.get(text.rpartition("::")[2], ())
                                if not f.words & {"__device__", "__global__"}]  # fmt: skip
            for body in bodies:
                yield from _returned(body, held, known)
            for given in arguments:
                lambdas = [given, *(h.value for h in held.get(shown(given), ()))]
                for one in lambdas:
                    if isinstance(one, n.Lambda):
                        yield from _returned(one.body, held, known)


def _returned(body: n.Block, held: Holding, known: Known) -> Iterator[tuple[n.Expr, Way, Holding]]:
    """What a body that names kernels returns, with the variables of its own."""
    if not known.names(body):
        return
    inner = dict(held)
    for one in n.inside(body):
        if isinstance(one, n.Variable) and one.value is not None:
            inner[one.name] = (Held(one.value),)
    for one in n.inside(body):
        if isinstance(one, n.Leave) and one.word == "return" and one.value is not None:
            if isinstance(one.value, _LEADING):
                yield one.value, (), inner


_LEADING = (n.Name, n.Cast, n.Unary, n.Choice, n.Index, n.Call, n.Braces)
"""Expressions that may lead to a kernel."""


def names_kernel(node: n.Expr, held: Holding, known: Known) -> bool:
    """Whether an argument is a kernel, or a variable that holds one."""
    while isinstance(node, n.Cast | n.Unary):
        node = node.operand
    if not isinstance(node, n.Name):
        return False
    if node.text.rpartition("::")[2] in known.kernels:
        return True
    return any(
        isinstance(step.value, n.Name | n.Cast | n.Unary | n.Choice | n.Call)
        for step in held.get(node.text, ())
    ) and any(
        name.text.rpartition("::")[2] in known.kernels
        for name, _ in kernels_behind(node, held, known)
    )  # fmt: skip

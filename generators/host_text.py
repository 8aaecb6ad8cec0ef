"""Expressions of a host contract as Python: the names of kernel parameters become those of the host
function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kb.errors import CannotEmit, TileloreError
from kb.planner.evaluation import Value
from kb.planner.expressions import evaluate, names, parse, to_text
from kb.planner.nodes import (
    Attribute,
    Binary,
    Boolean,
    Call,
    Compare,
    Comparison,
    Conditional,
    Expr,
    Index,
    Literal,
    Name,
    Sequence,
    Unary,
)

_CALLS = {
    "cdiv": "triton.cdiv", "next_power_of_two": "triton.next_power_of_2", "ceil": "math.ceil",
    "floor": "math.floor", "log2": "math.log2", "sqrt": "math.sqrt", "prod": "math.prod",
}  # fmt: skip
_BUILTIN = frozenset({"abs", "float", "int", "len", "max", "min", "sum"})
_METHODS = frozenset({"element_size"})
MESSAGE = 78
"""Characters of a message on one line of a generated file."""

_HOLE = re.compile(r"\{([^{}]+)\}")


@dataclass(slots=True)
class HostNames:
    """How contract names are written in the host function: `given` maps a name to Python text.

    `imports` collects the modules that the text needs, `device` is the tensor whose device runs the
    kernel; `own_functions` writes functions of Triton as functions of the file.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    device: str = "x"
    imports: set[str] = field(default_factory=set)
    helpers: set[str] = field(default_factory=set)
    own_functions: bool = False

    def text(self, expression: str) -> str:
        """Python text of an expression.

        Raises CannotEmit for a function that a host cannot call, SyntaxProblem for broken grammar.
        """
        return to_text(self.tree(parse(expression)))

    def message(self, template: str) -> str:
        """A string literal, over several lines when it is long; `{expression}` in the template
        shows its value.
        """
        lines: list[list[str]] = [[]]
        for word in _words(" ".join(template.split())):
            shown = self._filled(word)
            if lines[-1] and sum(map(len, lines[-1])) + len(shown) > MESSAGE:
                lines.append([])
            lines[-1].append(shown)
        return " ".join(_literal("".join(line)) for line in lines)

    def _filled(self, word: str) -> str:
        """A word of a message as it stands inside an f-string."""
        pieces = _HOLE.split(word)
        texts = [_plain(piece) for piece in pieces[::2]]
        holes = [f"{{{self._shown(piece)}}}" for piece in pieces[1::2]]
        return "".join(part for pair in zip(texts, [*holes, ""], strict=True) for part in pair)

    def _shown(self, expression: str) -> str:
        return self.text(expression).replace('"', "'")

    def broken(self, expression: str) -> str:
        """The Python condition under which `expression` does not hold."""
        tree = parse(expression)
        match tree:
            case Compare(first=first, links=((Comparison.EQUAL, other),)):
                return to_text(self.tree(Compare(first, ((Comparison.UNEQUAL, other),))))
            case Compare(links=(_,)):
                return f"not {to_text(self.tree(tree))}"
        return f"not ({to_text(self.tree(tree))})"

    def tree(self, expr: Expr) -> Expr:
        """The expression with host names in place of contract names; it nests as deep as the parser
        allows.
        """
        match expr:
            case Name(name=name):
                return Name(self.given.get(name, name))
            case Attribute(value=Name(name="device"), name="sms"):
                self.helpers.add("multiprocessors")
                return Call("_multiprocessors", (Name(f"{self.device}.device"),))
            case Attribute(value=value, name=name) if name in _METHODS:
                return Call(f"{to_text(self.tree(value))}.{name}", ())
            case Index(value=Attribute(value=value, name="stride"), index=index):
                return Call(f"{to_text(self.tree(value))}.stride", (self.tree(index),))
            case Compare(first=first, links=((link, Literal(value=None)),)):
                return self._none(first, link)
            case Call(function=function, arguments=arguments):
                return self._call(function, tuple(map(self.tree, arguments)))
        return rebuilt(expr, self.tree)

    def _none(self, first: Expr, link: Comparison) -> Expr:
        word = "is" if link is Comparison.EQUAL else "is not"
        return Name(f"{to_text(self.tree(first))} {word} None")

    def _call(self, function: str, arguments: tuple[Expr, ...]) -> Expr:
        if function == "is_power_of_two":
            power = self._call("next_power_of_two", arguments)
            return Compare(power, ((Comparison.EQUAL, arguments[0]),))
        native = _CALLS.get(function, function if function in _BUILTIN else "")
        if self.own_functions and native.startswith("triton."):
            self.helpers.add(function)
            native = f"_{function}"
        if not native:
            raise CannotEmit(f"a host function cannot call `{function}`.")
        if native.startswith("math."):
            self.imports.add("math")
        return Call(native, arguments)


def rebuilt(expr: Expr, apply: Callable[[Expr], Expr]) -> Expr:
    """The node with `apply` done to its children."""
    match expr:
        case Attribute(value=value):
            return replace(expr, value=apply(value))
        case Index(value=value, index=index):
            return replace(expr, value=apply(value), index=apply(index))
        case Unary(operand=operand):
            return replace(expr, operand=apply(operand))
        case Binary(left=left, right=right):
            return replace(expr, left=apply(left), right=apply(right))
        case Compare(first=first, links=links):
            return Compare(apply(first), tuple((link, apply(other)) for link, other in links))
        case Boolean(operands=operands):
            return replace(expr, operands=tuple(map(apply, operands)))
        case Conditional(then=then, condition=condition, otherwise=otherwise):
            return Conditional(apply(then), apply(condition), apply(otherwise))
        case Sequence(items=items):
            return replace(expr, items=tuple(map(apply, items)))
        case Call(arguments=arguments):
            return replace(expr, arguments=tuple(map(apply, arguments)))
    return expr


def folded(expression: str, known: Mapping[str, Value]) -> str:
    """The expression with everything worked out that `known` decides, branches included."""
    return to_text(_fold(parse(expression), known))


def _fold(expr: Expr, known: Mapping[str, Value]) -> Expr:
    used = names(expr)
    if used and used <= set(known):
        try:
            value = evaluate(expr, known)
        except TileloreError:
            return expr
        if isinstance(value, int | float | str) or value is None:
            return Literal(value)
        return expr
    if isinstance(expr, Conditional):
        condition = _fold(expr.condition, known)
        if isinstance(condition, Literal):
            return _fold(expr.then if condition.value else expr.otherwise, known)
    if isinstance(expr, Boolean):
        return _fold_boolean(expr, known)
    return rebuilt(expr, lambda inner: _fold(inner, known))


def _fold_boolean(expr: Boolean, known: Mapping[str, Value]) -> Expr:
    """`and`/`or` without the operands that decide nothing."""
    neutral = expr.operator.value == "and"
    kept: list[Expr] = []
    for operand in (_fold(inner, known) for inner in expr.operands):
        if isinstance(operand, Literal):
            if bool(operand.value) is neutral:
                continue
            return operand
        kept.append(operand)
    if not kept:
        return Literal(neutral)
    return kept[0] if len(kept) == 1 else Boolean(expr.operator, tuple(kept))


def _words(template: str) -> list[str]:
    """Words with the space behind them; what stands in braces stays in one."""
    return re.findall(r"(?:\{[^{}]*\}|\S)+\s*", template)


def _literal(text: str) -> str:
    return f'f"{text}"' if "{" in text or "}" in text else f'"{text}"'


def _plain(text: str) -> str:
    """Text that means itself in an f-string."""
    escaped = text.replace("\\", "\\\\").replace('"', "'")
    return escaped.replace("{", "{{").replace("}", "}}")

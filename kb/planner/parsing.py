"""Text to expression tree: tokens, precedence climbing. Called by `kb.planner.expressions`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from difflib import get_close_matches

from kb.errors import SyntaxProblem
from kb.planner.evaluation import FUNCTIONS
from kb.planner.nodes import (
    Attribute,
    Binary,
    BinaryOperator,
    Boolean,
    BooleanOperator,
    Call,
    Compare,
    Comparison,
    Conditional,
    Expr,
    Index,
    Literal,
    Name,
    Sequence,
    SequenceKind,
    Unary,
    UnaryOperator,
    depth,
)
from kb.space import Scalar

MAX_CHARACTERS = 20_000
MAX_NESTING = 32
MAX_DEPTH = 120
"""Longest path in the tree, in nodes: a sum of 120 terms is the longest that is read."""

TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<number>0[xX][0-9a-fA-F]+ | (?:\d[\d_]*(?:\.\d*)? | \.\d+)(?:[eE][+-]?\d+)?)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<string>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
    | (?P<symbol>\*\*|//|==|!=|<=|>=|[-+*/%<>()\[\],.])
    """,
    re.VERBOSE | re.ASCII,
)
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
CONSTANTS: dict[str, Scalar] = {
    "True": True, "true": True, "False": False, "false": False, "None": None, "none": None,
}  # fmt: skip
KEYWORDS = {"and", "or", "not", "in", "is", "if", "else", *CONSTANTS}
OF_C = {"in", "is"}
"""Words that stand between values here and that C++ programs call values by: where a value begins,
they are its name."""

LEVELS = {
    BinaryOperator.ADD: 6, BinaryOperator.SUBTRACT: 6, BinaryOperator.MULTIPLY: 7,
    BinaryOperator.DIVIDE: 7, BinaryOperator.FLOOR_DIVIDE: 7, BinaryOperator.MODULO: 7,
    BinaryOperator.POWER: 9,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    """One word of the text; `at` is its offset."""

    kind: str
    text: str
    at: int


def unquoted(token: str) -> str:
    """The text of a quoted string; `token` has its quotes."""
    return ESCAPE.sub(_unescape, token[1:-1])


def _unescape(match: re.Match[str]) -> str:
    body = match.group(1)
    if len(body) > 1:
        code = int(body[1:], 16)
        return "\ufffd" if 0xD800 <= code <= 0xDFFF else chr(code)
    return ESCAPED.get(body, body)


class Parser:
    """Precedence climbing over the tokens of one text."""

    def __init__(self, text: str, where: str) -> None:
        self.source = text
        self.where = where
        self.nesting = 0
        self.position = 0
        if len(text) > MAX_CHARACTERS:
            raise self.problem(
                "the expression is too long", 0, f"Stay below {MAX_CHARACTERS} characters."
            )
        self.tokens = self.tokenise()

    def problem(self, message: str, at: int, hint: str = "") -> SyntaxProblem:
        before = self.source[:at]
        place = f"{before.count(chr(10)) + 1}:{at - before.rfind(chr(10))}"
        return SyntaxProblem(
            f"{message}.", where=f"{self.where}:{place}" if self.where else place, hint=hint
        )

    def tokenise(self) -> list[Token]:
        tokens: list[Token] = []
        at = 0
        while at < len(self.source):
            match = TOKEN.match(self.source, at)
            if match is None:
                raise self.problem(
                    f"`{self.source[at]}` does not belong here",
                    at,
                    _character_hint(self.source[at]),
                )
            if match.lastgroup != "space":
                tokens.append(Token(str(match.lastgroup), match.group(), at))
            at = match.end()
        tokens.append(Token("end", "", at))
        return tokens

    @property
    def here(self) -> Token:
        return self.tokens[self.position]

    def at_word(self, *words: str) -> bool:
        return self.here.text in words and self.here.kind in ("name", "symbol")

    def take(self) -> Token:
        token = self.here
        self.position += 1
        return token

    def accept(self, word: str) -> bool:
        if self.at_word(word):
            self.position += 1
            return True
        return False

    def expect(self, word: str, hint: str) -> None:
        if not self.accept(word):
            raise self.problem(f"`{word}` is missing before {self.shown()}", self.here.at, hint)

    def shown(self) -> str:
        return "the end" if self.here.kind == "end" else f"`{self.here.text}`"

    def read(self) -> Expr:
        expr = self.expression()
        if self.here.kind != "end":
            raise self.problem(
                f"{self.shown()} does not continue the expression",
                self.here.at,
                self.operator_hint(),
            )
        if depth(expr) > MAX_DEPTH:
            raise self.problem(
                "the expression is nested too deeply", 0, "Split it into several constraints."
            )
        return expr

    def operator_hint(self) -> str:
        return "An operator or the end is expected here."

    def enter(self) -> None:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.problem("the expression is nested too deeply", self.here.at, "Split it.")

    def expression(self) -> Expr:
        self.enter()
        then = self.boolean(BooleanOperator.OR)
        if self.accept("if"):
            condition = self.boolean(BooleanOperator.OR)
            self.expect("else", "A conditional is written `a if condition else b`.")
            then = Conditional(then, condition, self.expression())
        self.nesting -= 1
        return then

    def boolean(self, operator: BooleanOperator) -> Expr:
        operands = [self.operand_of(operator)]
        while self.accept(operator):
            operands.append(self.operand_of(operator))
        return operands[0] if len(operands) == 1 else Boolean(operator, tuple(operands))

    def operand_of(self, operator: BooleanOperator) -> Expr:
        return (
            self.boolean(BooleanOperator.AND) if operator is BooleanOperator.OR else self.negation()
        )

    def negation(self) -> Expr:
        if not self.accept("not"):
            return self.comparison()
        self.enter()
        operand = self.negation()
        self.nesting -= 1
        return Unary(UnaryOperator.NOT, operand)

    def comparison(self) -> Expr:
        first = self.arithmetic(6)
        links: list[tuple[Comparison, Expr]] = []
        while (link := self.link()) is not None:
            links.append((link, self.arithmetic(6)))
        return Compare(first, tuple(links)) if links else first

    def link(self) -> Comparison | None:
        if self.accept("is"):
            return Comparison.UNEQUAL if self.accept("not") else Comparison.EQUAL
        if self.accept("not"):
            self.expect("in", "`not` after a value begins `not in`.")
            return Comparison.NOT_IN
        if self.at_word(*Comparison):
            return Comparison(self.take().text)
        return None

    def arithmetic(self, level: int) -> Expr:
        left = self.signed()
        while self.here.kind == "symbol" and self.here.text in tuple(BinaryOperator):
            operator = BinaryOperator(self.here.text)
            if LEVELS[operator] < level:
                break
            self.take()
            left = Binary(operator, left, self.arithmetic(LEVELS[operator] + 1))
        return left

    def signed(self) -> Expr:
        if not self.at_word("-", "+"):
            return self.power()
        sign = self.take().text
        self.enter()
        operand = self.signed()
        self.nesting -= 1
        if sign == "+":
            return operand
        if (
            isinstance(operand, Literal)
            and isinstance(operand.value, int | float)
            and not isinstance(operand.value, bool)
        ):
            return Literal(-operand.value)
        return Unary(UnaryOperator.NEGATE, operand)

    def power(self) -> Expr:
        base = self.postfix()
        if not self.accept("**"):
            return base
        self.enter()
        exponent = self.signed()
        self.nesting -= 1
        return Binary(BinaryOperator.POWER, base, exponent)

    def postfix(self) -> Expr:
        expr = self.atom()
        while self.at_word(".", "["):
            if self.take().text == "[":
                index = self.expression()
                self.expect("]", "An index ends with `]`.")
                expr = Index(expr, index)
            elif self.here.kind == "name" and self.here.text not in KEYWORDS - OF_C:
                expr = Attribute(expr, self.take().text)
            else:
                raise self.problem(f"a field name is missing before {self.shown()}", self.here.at)
        return expr

    def atom(self) -> Expr:
        token = self.here
        if token.kind == "number":
            return self.numeral(self.take())
        if token.kind == "string":
            return Literal(unquoted(self.take().text))
        if token.kind == "name" and token.text in CONSTANTS:
            return Literal(CONSTANTS[self.take().text])
        if token.kind == "name" and token.text not in KEYWORDS - OF_C:
            return self.name_or_call(self.take())
        if self.accept("["):
            return Sequence(SequenceKind.LIST, self.items("]")[0])
        if self.accept("("):
            items, trailing = self.items(")")
            return (
                items[0]
                if len(items) == 1 and not trailing
                else Sequence(SequenceKind.TUPLE, items)
            )
        raise self.problem(
            f"a value is missing before {self.shown()}",
            token.at,
            "A name, number, string or `(` is expected.",
        )

    def items(self, end: str) -> tuple[tuple[Expr, ...], bool]:
        """The items up to `end`, and whether a comma stood before it."""
        items: list[Expr] = []
        trailing = False
        while not self.accept(end):
            if items and not trailing:
                raise self.problem(f"`,` or `{end}` is missing before {self.shown()}", self.here.at)
            items.append(self.expression())
            trailing = self.accept(",")
        return tuple(items), trailing

    def numeral(self, token: Token) -> Expr:
        digits = token.text.replace("_", "")
        if len(digits) > 40:
            raise self.problem("the number is too long", token.at, "At most 40 digits.")
        if digits[:2] in ("0x", "0X"):
            return Literal(int(digits, 16))
        value = int(digits) if digits.isdigit() else float(digits)
        if isinstance(value, float) and not math.isfinite(value):
            raise self.problem(f"`{token.text}` is not a finite number", token.at)
        return Literal(value)

    def name_or_call(self, token: Token) -> Expr:
        if not self.accept("("):
            return Name(token.text)
        if token.text not in FUNCTIONS:
            near = get_close_matches(token.text, FUNCTIONS, n=1)
            known = ", ".join(FUNCTIONS)
            hint = f"Did you mean `{near[0]}`?" if near else f"Known are {known}."
            raise self.problem(f"there is no function `{token.text}`", token.at, hint)
        return Call(token.text, self.items(")")[0])


def _character_hint(character: str) -> str:
    hints = {
        "=": "Equality is written `==`.",
        "&": "Write `and`.",
        "|": "Write `or`.",
        "!": "Write `not`.",
    }
    return hints.get(character, "")

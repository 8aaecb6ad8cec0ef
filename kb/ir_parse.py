"""Program text -> Kernel. The grammar is told in kb/ir_text.py."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kb.ir import (
    Function,
    Kernel,
    Literal,
    Op,
    Parameter,
    ParameterKind,
    Region,
    Span,
    TileType,
    Value,
)
from kb.ir_scan import DTYPE, REGION_WORDS, Scanner

MAX_NESTING = 200
"""Regions inside regions."""

MAX_OPS = 20_000
"""Operations of one program."""

MAX_CHARS = 16 * 2**20
"""Length of a program text."""


@dataclass(slots=True)
class _Open:
    """A region being read and its operation; None for the body of a function."""

    arguments: tuple[Value, ...]
    op: Op | None
    ops: list[Op] = field(default_factory=list)


def parse(text: str, *, where: str = "", own_lines: bool = False) -> Kernel:
    """The program that a text describes. With `own_lines` spans name lines of the text itself.

    Raises SyntaxProblem with line and column when the text does not follow the grammar, nests
    deeper than MAX_NESTING, or holds more than MAX_OPS operations or MAX_CHARS characters.
    """
    scanner = Scanner(text[:MAX_CHARS], where)
    if len(text) > MAX_CHARS:
        scanner.fail(f"the program is longer than {MAX_CHARS} characters.", "Split the program.")
    return _Parser(scanner, own_lines).kernel()


class _Parser:
    def __init__(self, scanner: Scanner, own_lines: bool) -> None:
        self.scanner = scanner
        self.own_lines = own_lines
        self.path = ""
        self.count = 0

    def kernel(self) -> Kernel:
        scanner = self.scanner
        dialect = scanner.word("a dialect name") if scanner.keyword("dialect") else ""
        if not scanner.keyword("kernel"):
            hint = "A program is `dialect NAME`, then `kernel NAME(...) { ... }`, then helpers."
            scanner.fail(f"expected `kernel`, found {scanner.shown}.", hint)
        entry = self._function()
        helpers: list[Function] = []
        while scanner.keyword("helper"):
            helpers.append(self._function())
        if not scanner.at_end:
            hint = "Remove what follows the program."
            scanner.fail(f"expected `helper`, found {scanner.shown}.", hint)
        return Kernel(entry, tuple(helpers), dialect)

    def _function(self) -> Function:
        scanner = self.scanner
        start = scanner.position
        name = scanner.word("the name of a function")
        parameters = self._parameters()
        options: tuple[tuple[str, Literal], ...] = ()
        if scanner.keyword("options"):
            options = self._options()
        decorated = not scanner.keyword("undecorated")
        self.path = ""
        span = self._span(start)
        self.path = span.path
        scanner.expect("{", "The body of a function stands in braces.")
        return Function(name, parameters, self._body(), span, options, decorated)

    def _parameters(self) -> tuple[Parameter, ...]:
        scanner = self.scanner
        scanner.expect("(", "Parameters stand in parentheses: `kernel name(x: array)`.")
        found: list[Parameter] = []
        while not scanner.accept(")"):
            if found:
                scanner.expect(",", "Parameters are separated by commas.")
            found.append(self._parameter())
        return tuple(found)

    def _parameter(self) -> Parameter:
        scanner = self.scanner
        name = scanner.word("the name of a parameter")
        kind, annotation = ParameterKind.UNTOLD, ""
        if scanner.accept(":"):
            word = scanner.keyword(*ParameterKind)
            if word is None:
                hint = f"A parameter is {', '.join(ParameterKind)}."
                scanner.fail(f"expected the kind of a parameter, found {scanner.shown}.", hint)
            kind = ParameterKind(word)
            if scanner.accept("<"):
                annotation = scanner.plain_or_quoted(DTYPE, "an annotation")
                scanner.expect(">", "An annotation ends with `>`.")
        if scanner.accept("="):
            return Parameter(name, kind, annotation, scanner.literal(), True)
        return Parameter(name, kind, annotation)

    def _options(self) -> tuple[tuple[str, Literal], ...]:
        scanner = self.scanner
        scanner.expect("(", "Options stand in parentheses: `options(occupancy = 2)`.")
        found: list[tuple[str, Literal]] = []
        while not scanner.accept(")"):
            if found:
                scanner.expect(",", "Options are separated by commas.")
            name = scanner.word("the name of an option")
            scanner.expect("=", "Options are written `name = literal`.")
            found.append((name, scanner.literal()))
        return tuple(found)

    # -- regions

    def _body(self) -> Region:
        """A region behind its `{`, with the regions inside it on a stack of our own."""
        stack = [_Open((), None)]
        while True:
            if not self.scanner.accept("}"):
                self._place(self._op(), stack)
                continue
            closed = stack.pop()
            region = Region(closed.arguments, tuple(closed.ops))
            if closed.op is None:
                return region
            self._place(replace(closed.op, regions=(*closed.op.regions, region)), stack)

    def _place(self, op: Op, stack: list[_Open]) -> None:
        """Put an operation into its region, or open the next region of the operation."""
        place = self.scanner.position
        arguments = self._region_head()
        if arguments is None:
            stack[-1].ops.append(op)
            return
        if len(stack) > MAX_NESTING:
            message = f"regions nest deeper than {MAX_NESTING}."
            self.scanner.fail(message, "Move the inner ones into a helper.", place)
        stack.append(_Open(arguments, op))

    def _region_head(self) -> tuple[Value, ...] | None:
        scanner = self.scanner
        if not (scanner.keyword(*REGION_WORDS) or scanner.peek("{") or scanner.peek("(")):
            return None
        arguments: list[Value] = []
        if scanner.accept("("):
            while not scanner.accept(")"):
                if arguments:
                    scanner.expect(",", "Arguments of a region are separated by commas.")
                name = scanner.value()
                arguments.append(Value(name, scanner.type() if scanner.accept(":") else None))
        scanner.expect("{", "A region stands in braces.")
        return tuple(arguments)

    # -- operations

    def _op(self) -> Op:
        scanner = self.scanner
        start = scanner.position
        self.count += 1
        if self.count > MAX_OPS:
            scanner.fail(f"the program holds more than {MAX_OPS} operations.", "Split the program.")
        names = self._result_names()
        if scanner.at_end:
            scanner.fail("the text ends inside a region.", "Close it with `}`.", start)
        kind = scanner.word("an operation")
        scanner.expect("(", f"An operation is written `{kind}(role %value, name = literal)`.")
        operands, attributes = self._inputs()
        types: tuple[TileType | None, ...] = (None,) * len(names)
        if scanner.accept(":"):
            types = self._types(len(names), start)
        results = tuple(Value(name, type_) for name, type_ in zip(names, types, strict=True))
        return Op(kind, operands, attributes, results, (), self._span(start))

    def _span(self, start: int) -> Span:
        """The span that is written, or the line where the reading of its owner began."""
        span = self.scanner.span(self.path)
        if not self.own_lines:
            return span
        line = self.scanner.text.count("\n", 0, start) + 1
        return Span(line, 0, line, self.scanner.where)

    def _result_names(self) -> tuple[str, ...]:
        scanner = self.scanner
        if not scanner.peek("%"):
            return ()
        names = [scanner.value()]
        while scanner.accept(","):
            names.append(scanner.value())
        scanner.expect("=", "Results are written `%a.1, %b.2 = operation(...)`.")
        return tuple(names)

    def _inputs(self) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, Literal], ...]]:
        """Operands and attributes in parentheses, in any mixture."""
        scanner = self.scanner
        operands: list[tuple[str, str]] = []
        attributes: list[tuple[str, Literal]] = []
        while not scanner.accept(")"):
            if operands or attributes:
                scanner.expect(",", "Inputs are separated by commas.")
            name = scanner.word("a role or the name of an attribute")
            if scanner.accept("="):
                attributes.append((name, scanner.literal()))
            else:
                operands.append((name, scanner.value()))
        return tuple(operands), tuple(attributes)

    def _types(self, count: int, start: int) -> tuple[TileType | None, ...]:
        scanner = self.scanner
        found: list[TileType | None] = []
        while True:
            found.append(None if scanner.keyword("_") else scanner.type())
            if not scanner.accept(","):
                break
        if len(found) != count:
            hint = "Write one type per result, `_` for none."
            scanner.fail(f"{len(found)} types for {count} results.", hint, start)
        return tuple(found)

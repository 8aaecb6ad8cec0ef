"""The tile program as text that people read, diff and write tests in; it parses back to the same.

    dialect cutile
    kernel scale(x: array, n: scalar<i32>, TILE: constexpr = 128) @"k.py":1-9 {
        %i.1 = block_id(axis %zero.1) : scalar<i32> @3:8
        %acc.2 = for(iterable %r.3, init %zero.4) : tile<f32>[TILE] @4:4-6 do (%j.5, %acc.6) {
            yield(acc %acc.6) @6:8
        }
        return() @9:4
    }

An operation is `results = kind(role %value, attribute = literal) : types @span regions`.
Types (`_` for none), spans, `options(name = literal)` of a function and `dialect` may be left out.
A span is `@LINE:COLUMN-LAST_LINE` in the file of its function; another file stands before it in
quotes, the line of the kernel that leads there behind it: `@3:8<40`. Regions are `do`, `then`,
`else`, `test` or `region` with arguments and braces. Names that are not identifiers are quoted; `#`
starts a comment. No brace stands inside a quoted text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from kb.errors import InputError
from kb.ir import (
    Function,
    Kernel,
    Literal,
    Op,
    Parameter,
    ParameterKind,
    Span,
    TileType,
    kernel_ops,
)
from kb.ir_parse import MAX_CHARS, MAX_NESTING, MAX_OPS, parse
from kb.ir_scan import DTYPE, NAME, RESERVED, VALUE_NAME, Scanner, plain_extent

__all__ = ["literal_text", "parse", "parse_literal", "program_digest", "to_text"]

INDENT = "    "
WIDTH = 100
"""Characters of a function head past which each parameter takes its own line."""

_REGION_NAMES = {
    "for": ("do",),
    "while": ("test", "do"),
    "if": ("then", "else"),
    "if_expression": ("then", "else"),
}
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", '"': '\\"'}
_ESCAPES |= {"{": "\\x7b", "}": "\\x7d"}
_ABSENT = Span(0)


def to_text(kernel: Kernel) -> str:
    """The text of a program, without a final line break.

    Raises InputError when the program is larger than what `parse` reads.
    """
    lines = [f"dialect {_word(kernel.dialect)}"] if kernel.dialect else []
    for index, function in enumerate(kernel.functions):
        lines.extend(_function_lines(function, "helper" if index else "kernel"))
    text = "\n".join(lines)
    count = sum(1 for _ in kernel_ops(kernel))
    if len(text) > MAX_CHARS or count > MAX_OPS:
        raise InputError(
            f"the program has {count} operations in {len(text)} characters; "
            f"{MAX_OPS} in {MAX_CHARS} are read.",
            where=kernel.name,
            hint="Split the kernel.",
        )
    return text


def program_digest(kernel: Kernel) -> str:
    """sha256 of the text in hexadecimal: the name of the program."""
    return text_digest(to_text(kernel))


def text_digest(text: str) -> str:
    """`program_digest` of the program that was written as this text."""
    return hashlib.sha256(text.encode()).hexdigest()


def literal_text(value: Literal) -> str:
    """A literal as the text form writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        return repr(float(value))
    return hex(value) if value.bit_length() > 256 else str(int(value))


# -- words


def _quoted(text: str) -> str:
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _word(text: str) -> str:
    return text if NAME.fullmatch(text) and text not in RESERVED else _quoted(text)


def _value(name: str) -> str:
    return f"%{name}" if VALUE_NAME.fullmatch(name) else f"%{_quoted(name)}"


def _type(type_: TileType) -> str:
    dtype = type_.dtype if DTYPE.fullmatch(type_.dtype) else _quoted(type_.dtype)
    shape = tuple(extent if plain_extent(extent) else _quoted(extent) for extent in type_.shape)
    return str(TileType(type_.kind, dtype, shape, type_.space))


def _span(span: Span, path: str) -> str:
    """` @12:4-15`, ` @12:4-15<80<9` for a helper called in line 9 of one that is called in
    line 80; nothing for an absent span."""
    if span == _ABSENT:
        return ""
    file = "" if span.path == path else f"{_quoted(span.path)}:"
    column = f":{span.column}" if span.column else ""
    end = f"-{span.end_line}" if span.end_line != span.line else ""
    call = "".join(f"<{line}" for line in (span.call, *span.via)) if span.call else ""
    return f" @{file}{span.line}{column}{end}{call}"


# -- functions


def _function_lines(function: Function, word: str) -> Iterator[str]:
    parameters = [_parameter(parameter, function) for parameter in function.parameters]
    options = ", ".join(f"{_word(name)} = {literal_text(v)}" for name, v in function.options)
    tail = f" options({options})" if options else ""
    tail += "" if function.decorated else " undecorated"
    tail += f"{_span(function.span, '')} {{"
    head = f"{word} {_word(function.name)}("
    line = f"{head}{', '.join(parameters)}){tail}"
    if len(line) <= WIDTH or not parameters:
        yield line
    else:
        yield head
        for index, parameter in enumerate(parameters):
            yield f"{2 * INDENT}{parameter}{',' if index + 1 < len(parameters) else ''}"
        yield f"){tail}"
    yield from _body_lines(function)
    yield "}"


def _parameter(parameter: Parameter, function: Function) -> str:
    if parameter.default is not None and not parameter.has_default:
        raise InputError(
            f"parameter `{parameter.name}` has a default and says that it has none.",
            where=function.name,
            hint="Set has_default.",
        )
    text = _word(parameter.name)
    if parameter.kind is not ParameterKind.UNTOLD or parameter.annotation:
        text += f": {parameter.kind}"
    if parameter.annotation:
        plain = DTYPE.fullmatch(parameter.annotation)
        text += f"<{parameter.annotation if plain else _quoted(parameter.annotation)}>"
    return f"{text} = {literal_text(parameter.default)}" if parameter.has_default else text


@dataclass(slots=True)
class _Open:
    """A region being written: the operation that holds it, None for the body of a function."""

    op: Op | None
    index: int
    ops: Iterator[Op]


def _body_lines(function: Function) -> Iterator[str]:
    """The operations of a function; open regions lie on a stack, so depth costs no recursion."""
    if function.body.arguments:
        raise InputError(
            "the body of a function takes no arguments.", where=function.name,
            hint="Values handed to a function are its parameters.",
        )  # fmt: skip
    stack = [_Open(None, 0, iter(function.body.ops))]
    while stack:
        top = stack[-1]
        op = next(top.ops, None)
        if op is not None:
            line = INDENT * len(stack) + _op(op, function.span.path)
            index, following = 0, op
        else:
            stack.pop()
            if top.op is None:
                return
            line = f"{INDENT * len(stack)}}}"
            index, following = top.index + 1, top.op
        if index >= len(following.regions):
            yield line
            continue
        if len(stack) > MAX_NESTING:
            raise InputError(
                f"regions nest deeper than {MAX_NESTING}.", where=str(following.span),
                hint="Move the inner ones into a helper.",
            )  # fmt: skip
        yield f"{line} {_region_head(following, index)}"
        stack.append(_Open(following, index, iter(following.regions[index].ops)))


def _region_head(op: Op, index: int) -> str:
    names = _REGION_NAMES.get(op.kind, ())
    word = names[index] if index < len(names) else "region"
    arguments = [
        _value(value.name) + (f": {_type(value.type)}" if value.type else "")
        for value in op.regions[index].arguments
    ]
    return f"{word} ({', '.join(arguments)}) {{" if arguments else f"{word} {{"


def _op(op: Op, path: str) -> str:
    inputs = [f"{_word(role)} {_value(value)}" for role, value in op.operands]
    inputs += [f"{_word(name)} = {literal_text(value)}" for name, value in op.attributes]
    text = f"{_word(op.kind)}({', '.join(inputs)})"
    if op.results:
        text = f"{', '.join(_value(value.name) for value in op.results)} = {text}"
    if any(value.type for value in op.results):
        types = (_type(value.type) if value.type else "_" for value in op.results)
        text += f" : {', '.join(types)}"
    return text + _span(op.span, path)


def parse_literal(text: str) -> Literal:
    """The literal that `literal_text` wrote; SyntaxProblem when the text is none."""
    scanner = Scanner(text)
    found = scanner.literal()
    if not scanner.at_end:
        scanner.fail(f"expected one literal, found {scanner.shown}.", "Remove what follows it.")
    return found

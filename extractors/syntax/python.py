"""Python source text as a standard `ast` tree, through Python's own parser or libcst.

What the running Python reads is taken as it reads it (`native`). libcst reads every Python grammar
since 3.0 whatever Python runs it, and says what is wrong where none does; what it reads is
converted to `ast` nodes: all later rooms walk one well-known tree. Nothing is compiled or executed.
"""

from __future__ import annotations

import ast
import io
import tokenize

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from extractors.syntax.bounds import check_depth
from extractors.syntax.native import native_tree
from extractors.syntax.places import Places
from extractors.syntax.problems import syntax_problem
from extractors.syntax.statements import StatementReader
from kb.errors import InputError, SyntaxProblem

MAX_BYTES = 4_000_000
"""Size limit of one source file in bytes of UTF-8."""


def decode(data: bytes, path: str) -> str:
    """The text of a source file. InputError when it is too large, not UTF-8, or binary."""
    if len(data) > MAX_BYTES:
        raise _too_large(len(data), path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InputError(
            f"Byte 0x{data[error.start]:02x} is not UTF-8.",
            where=f"{path}:{line}:{column}",
            hint="Save the file as UTF-8 source text.",
        ) from None


def parse_module(text: str, path: str) -> ast.Module:
    """The `ast.Module` that `ast.parse` gives, except that columns count characters (see `places`).

    What the running Python's `ast` may have no class for reads as its plain form: type parameters
    are left out, `type X = T` is an assignment, a lazy import is an import. A t-string raises.
    InputError: over MAX_BYTES, a null byte, a lone surrogate. SyntaxProblem: not Python, or nested
    too deep; its `where` is `path:line:column`, the column counting from 1.
    """
    source = _checked(text, path)
    check_depth(source, path)
    tree = native_tree(source, lambda part: concrete_tree(part, path))
    return concrete_tree(source, path) if tree is None else tree


def concrete_tree(source: str, path: str) -> ast.Module:
    """The same through libcst, for a text whose line ends are newlines. SyntaxProblem."""
    try:
        module = cst.parse_module(source)
        ranges = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
        reader = StatementReader(Places(source.split("\n"), ranges, path))
        return ast.Module(body=reader.block(module.body), type_ignores=[])
    except cst.ParserSyntaxError as error:
        raise syntax_problem(error, source, path) from None
    except RecursionError:
        raise SyntaxProblem(
            "This text nests too deep to be read.",
            where=f"{path}:1:1",
            hint="Split long expressions into named steps.",
        ) from None


def comments(text: str) -> list[tuple[int, str]]:
    """Every comment as (line, text from the `#` on), in order, up to the first broken token."""
    found: list[tuple[int, str]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(_lines_of(text)).readline):
            if token.type == tokenize.COMMENT:
                found.append((token.start[0], token.string))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        # The text stops being tokens here; parse_module says where and why.
        return found
    return found


def _checked(text: str, path: str) -> str:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        where = _place(text, error.start, path)
        raise InputError("A lone surrogate.", where=where, hint="Save as UTF-8.") from None
    if size > MAX_BYTES:
        raise _too_large(size, path)
    null = text.find("\0")
    if null >= 0:
        hint = "Give Python source text, not a binary file."
        raise InputError("There is a null byte.", where=_place(text, null, path), hint=hint)
    return _lines_of(text.removeprefix("\ufeff"))


def _lines_of(text: str) -> str:
    """The text with every line end as a single newline, as Python reads it."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _place(text: str, position: int, path: str) -> str:
    line = text.count("\n", 0, position) + 1
    return f"{path}:{line}:{position - text.rfind(chr(10), 0, position)}"


def _too_large(size: int, path: str) -> InputError:
    return InputError(
        f"{size} bytes are more than the {MAX_BYTES} that one source file may have.",
        where=path,
        hint="Split the file, or cut it down to the kernel and its host code.",
    )

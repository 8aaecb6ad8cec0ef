"""The running Python's own parser, one text at a time.

Up to Python 3.11 the interpreter counts the depth of a tree in one place for all threads, and two
parsers that overlap stop with a SystemError.
"""

from __future__ import annotations

import ast
import threading
import warnings

_ONE_AT_A_TIME = threading.Lock()


def python_module(text: str) -> ast.Module:
    """A module. Raises what `ast.parse` raises; warnings about the text are not ours to print."""
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def python_expression(text: str) -> ast.expr:
    """One expression. Raises what `ast.parse` raises."""
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, mode="eval").body

"""Text that nests too deep is refused at its place, before a parser can run out of stack."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extractors.syntax.bounds import check_depth
from extractors.syntax.python import parse_module
from kb.errors import SyntaxProblem

NESTED: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: "(" * n + "1" + ")" * n,
    "brackets": lambda n: "[" * n + "]" * n,
    "braces": lambda n: "{1:" * n + "1" + "}" * n,
    "never closed": lambda n: "(" * n,
    "calls": lambda n: "f" + "()" * n,
    "subscripts": lambda n: "a" + "[0, 1]" * n,
    "attributes": lambda n: "a" + ".a" * n,
    "sum": lambda n: "a" + " + a" * n,
    "sum over lines": lambda n: "(a" + "\n + a" * n + ")",
    "powers": lambda n: "a" + "**a" * n,
    "signs": lambda n: "-" * n + "a",
    "not": lambda n: "not " * n + "a",
    "and": lambda n: "a" + " and a" * n,
    "conditionals": lambda n: "a if b else " * n + "c",
    "lambdas": lambda n: "lambda: " * n + "a",
    "lambdas with commas": lambda n: "lambda a, b=1, c=2: " * n + "a",
    "clauses with commas": lambda n: "[a " + "for a, b in c " * n + "]",
    "neighbouring strings": lambda n: "'a' " * n,
    "formatted": lambda n: 'f"{' + "(" * n + "1" + ")" * n + '}"',
    "formatted, quotes inside": lambda n: "f'{" + "[" * n + '"]"' + "]" * n + "}'",
    "specifications": lambda n: "f'{x:" + "{x:" * n + "}" * n + "}'",
    "elif": lambda n: "if a: pass\n" + "elif a: pass\n" * n,
    "elif blocks": lambda n: "if a:\n  pass\n" + "elif a:\n  pass\n" * n,
    "indentation": lambda n: "".join(" " * i + "if a:\n" for i in range(n)) + " " * n + "a",
    "patterns": lambda n: "match x:\n  case " + "[" * n + "]" * n + ": pass",
    "mapping patterns": lambda n: "match x:\n  case " + "{1: " * n + "a" + "}" * n + ": pass",
}


@pytest.mark.parametrize("make", [pytest.param(v, id=k) for k, v in NESTED.items()])
def test_deep_text_is_refused_and_flat_text_read(make: Callable[[int], str]) -> None:
    with pytest.raises(SyntaxProblem, match=r"^f\.py:\d+:\d+: This text has more than") as caught:
        parse_module(make(1_200), "f.py")
    assert caught.value.hint
    check_depth(make(5), "f.py")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = [" + "1, " * 1_000 + "]", id="long list"),
        pytest.param("x = {" + "'a': lambda: b + c, " * 500 + "}", id="table of lambdas"),
        pytest.param("f(" + "a, lambda x, y=1: x, " * 200 + ")", id="many arguments"),
        pytest.param("x = 1\n" * 1_000, id="many lines"),
        pytest.param("if a: b\nelse: c\n" * 500, id="many branches"),
        pytest.param("if a:\n  if b: c\n  elif d: e\n" * 300, id="blocks that close"),
        pytest.param("x = '" + "((((" * 100 + "'", id="brackets in a string"),
        pytest.param("x = f'" + "((((" * 100 + "{y}'", id="brackets in formatted text"),
        pytest.param("x = f'{a:>{w}}" + "{b!r:x}" * 150 + "'", id="many replacements"),
        pytest.param("# " + "(" * 500, id="brackets in a comment"),
        pytest.param("'''\n" + "((((\n" * 100 + "'''", id="brackets in a docstring"),
        pytest.param("case((((((((a))))))))", id="a call of case"),
        pytest.param("x = f'a' f\"\"\"b 'c' {d}\"\"\" f'' f'''{e}'''", id="quotes"),
    ],
)
def test_wide_text_is_not_deep(text: str) -> None:
    parse_module(text, "f.py")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param("a\nx = " + "(" * 80, "f.py:2:69", id="brackets"),
        pytest.param("match x:\n  case [[[[[[[a]]]]]]]: b", "f.py:2:14", id="pattern"),
    ],
)
def test_the_place_is_where_the_limit_is_passed(text: str, where: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        check_depth(text, "f.py")
    assert caught.value.where == where

"""The tree that is read is the one that `ast.parse` makes, positions included, by either road."""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from extractors.syntax.python import comments, concrete_tree, decode, parse_module
from kb.errors import InputError, SyntaxProblem

ROOT = Path(__file__).parents[3]
OWN_FILES = sorted(path.relative_to(ROOT) for path in (ROOT / "extractors/syntax").glob("*.py"))

Place = tuple[str, int, int, int | None, int | None]


def places(tree: ast.AST) -> Iterator[Place]:
    """Every located node outside of formatted strings, whose inside Python 3.11 does not locate."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.stmt, ast.expr, ast.arg, ast.keyword, ast.alias, ast.pattern)):
            end = (node.end_lineno, node.end_col_offset)
            yield (type(node).__name__, node.lineno, node.col_offset, *end)
        if not isinstance(node, ast.JoinedStr):
            waiting += ast.iter_child_nodes(node)


def assert_same(text: str) -> None:
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    wanted, slow, read = ast.parse(text), concrete_tree(plain, "f.py"), parse_module(text, "f.py")
    assert ast.dump(read) == ast.dump(slow) == ast.dump(wanted)
    assert ast.dump(read, include_attributes=True) == ast.dump(slow, include_attributes=True)
    if text.isascii():
        assert list(places(read)) == list(places(wanted))


EXPRESSIONS = {
    "names and constants": "None, True, False, ..., name, __debug__",
    "numbers": "0, 00, 1_000, 0xFF, 0o17, 0b1_0, 1., .5, 1e-3, 1_0.0_1, 2j, 1.5J",
    "strings": r"""'a', "b\n\x41\u00e9\N{BULLET}\101", r'\n', u'u', b'\x00\101', rb'\d', 'a\
b'""",
    "joined strings": "('a' 'b'\n  \"c\" u'd'), u'a' 'b', b'a' rb'\\d'",
    "formatted": "f'', f'a', f'{x}', f'a{x!r}b{{c}}', f'{x:>{w}.2f}', 'a' f'b{x}' 'c' f'd'",
    "formatted, shown": "f'{x=}', f'{ x = }', f'{x=!s:>3}', f'{(a, b)=:x}', f'{x:}'",
    "formatted, nested": "f'{f\"{x}\"}', f'{x:{y}}', f'{{}}{x}', rf'\\d{x}', f'{[i for i in y]}'",
    "triple quoted": "'''a\n  b''', f'''{\n x }\n'''",
    "access": "a.b.c[0][1:2, ::3, ...](d)[:], a[1,], a[(1, 2)], a[b:=1], a[ : ], a[ 1 : : ]",
    "starred index": "a[*b], a[*b, 1]",
    "calls": "f(), f(a, *b, c=1, *d, **e, f = (2)), f(x for x in y), f ( x for x in y ), f((a, b))",
    "operators": "a + b - c * d / e // f % g ** -h @ i << j >> k & l | m ^ n, ~a, +a, not a",
    "grouping": "(a + b) * (c), ((a)), (((a, b))), (), (a,), a if (b) else (c)",
    "boolean": "a and b and c or d or (e or f) or not g and (h and i)",
    "comparison": "a < b <= c == d != e >= f > g, a in b, a not in b, a is b, a is not b",
    "walrus": "(y := 1), [z := 2, z], f(w := 3)",
    "lambda": "lambda: 0, lambda a, /, b=1, *c, d, e=2, **f: (yield), lambda *, a: a, lambda *a: a",
    "collections": "[], [a, *b], {}, {1: 2, **d}, {1, *b}, [*a], (*a, b)",
    "comprehensions": "[a for b, in c if d if e for f in g], {a for a in b}, {a: b for a, b in c}",
    "generator": "(a for a in (b)), ((a) for a in b)",
}
STATEMENTS = {
    "assignments": "a = b = 1; c, d = e; (f, g) = h; [i, *j] = k; l.m = n[0] = 2; a = 1,\n",
    "augmented": "a+=1;a-=1;a*=1;a/=1;a//=1;a%=1;a**=1;a<<=1;a>>=1;a|=1;a&=1;a^=1;a@=1\n",
    "annotated": "a: int\nb: int = 1\nd.e: 'f' = 3\ng[0]: (int)\n",
    "simple": "pass; del a, b; del (c, d); del e[0], f.g; assert a, b; assert (a)\n",
    "imports": "import a, b.c as d\nfrom . import e\nfrom .. f import (g as h, i,)\n"
    "from j import *\n",
    "branches": "if a: b; c;\nelif d:\n  e\nelif f: g\nelse:\n  if h: i\n",
    "loops": "for a, in b: continue\nelse:\n  c\nwhile (d): break\nelse: e\nfor x in *a, b: pass\n",
    "try": "try: a\nexcept: b\n",
    "try, all": "try:\n  a\nexcept (b, c) as d:\n  e\nexcept f: g\nelse: h\nfinally:\n  i # c\n",
    "try star": "try:\n  a\nexcept* b as c:\n  d\nexcept *e: f\n",
    "raise": "raise\nraise a\nraise a from (b)\n",
    "with": "with a: b\nwith a as b, c as (d, e):\n  f\nwith (a as b, c,): d\nwith (a): b\n",
    "function": "@a\n@b.c(d)\ndef f(a, b: int = 1, /, c=2, *d: e, f, g=3, **h: i) -> j: return\n",
    "function, bare star": "def f(a, *, b: int, c: (str) = 1): yield a; yield; yield from b\n",
    "starred annotation": "def f(*a: *b): return *a, b\n",
    "class": "@a\nclass B: pass\nclass C(D, *E, metaclass=F, **G):\n  '''doc'''\n  x = 1\n"
    "class H(): a\n",
    "scopes": "def f():\n  global a, b\n  def g():\n    nonlocal c\n    return (a)\n",
    "async": "async def f():\n  async with a as b: await c\n  async for d in e: f\n  "
    "else: g\n  return [h async for h in i if await j]\n",
    "match values": "match a, *b:\n  case 1 | -2 | 1+2j | 'a' 'b' | None | True: c\n"
    "  case d.e: f\n",
    "match sequences": "match (a):\n  case [b, *_, c] if d: e\n  case f, *g,: h\n  case (i,): j\n  "
    "case (): k\n  case [ ]: l\n  case (m): n\n  case *o, : p\n",
    "match mappings": "match a:\n  case {'b': c, **d}: e\n  case {}: f\n"
    "  case {g.h: _, 1: i,}: j\n",
    "match classes": "match a:\n  case B(): c\n  case d.E(f, [g], h=_, i=1): j\n"
    "  case (1 | 2) as k: l\n  case {'m': 1 as n}: o\n  case _: p\n",
    "soft keywords": "match = case = _ = type = 1\nmatch(a)\nmatch[a]\ncase(((((((((a)))))))))\n",
    "layout": "\n\n# c\nif a:\n\tb\n\n# d\n  # e\n\n\tc\nd = 1 + \\\n 2\n",
    "form": "x = (\n  1  # one\n  +\n  2\n)  # two\n;".removesuffix(";"),
    "no newline at the end": "a = 1",
    "empty": "",
    "only a comment": "# a",
    "unicode": "é = 'ü' + f'{ß}'; ﬁ = 1\n",
}


@pytest.mark.parametrize("text", [pytest.param(v, id=k) for k, v in EXPRESSIONS.items()])
def test_expressions_as_python_reads_them(text: str) -> None:
    assert_same(f"x = ({text})\n({text})\n")


@pytest.mark.parametrize("text", [pytest.param(v, id=k) for k, v in STATEMENTS.items()])
def test_statements_as_python_reads_them(text: str) -> None:
    assert_same(text)


@pytest.mark.parametrize("path", OWN_FILES, ids=str)
def test_own_files_as_python_reads_them(path: Path) -> None:
    assert_same((ROOT / path).read_text(encoding="utf-8"))


def test_own_files_are_counted() -> None:
    assert len(OWN_FILES) == 15


def test_line_ends_and_byte_order_mark() -> None:
    text = "a = '''x\r\ny'''\r\nb = 1\r"
    assert_same(text)
    assert ast.dump(parse_module("\ufeffa = 1\n", "f.py")) == ast.dump(ast.parse("a = 1\n"))


def test_columns_count_characters() -> None:
    call = parse_module("é = f(ü, x)\n", "f.py").body[0]
    assert isinstance(call, ast.Assign)
    assert (call.value.col_offset, call.value.end_col_offset) == (4, 11)


def test_names_inside_a_formatted_string_are_located() -> None:
    tree = parse_module("x = 1\ny = f'ab{name:>{w}}'\n", "f.py")
    found = {n.id: (n.lineno, n.col_offset) for n in ast.walk(tree) if isinstance(n, ast.Name)}
    assert found == {"x": (1, 0), "y": (2, 0), "name": (2, 9), "w": (2, 16)}


@pytest.mark.parametrize(
    ("newer", "plain"),
    [
        pytest.param("type X = int\n", "X = int\n", id="type alias"),
        pytest.param("def f[T: int, *U, **V](a: T): pass\n", "def f(a: T): pass\n", id="function"),
        pytest.param("class A[T](B): pass\n", "class A(B): pass\n", id="class"),
        pytest.param("x = f'{a[\"b\"]}'\n", "x = f'{a[\"b\"]}'\n", id="quotes in a replacement"),
        pytest.param("x = f'{a['b']}'\n", "x = f'{a[\"b\"]}'\n", id="the same quotes"),
    ],
)
def test_newer_grammar_reads_as_its_plain_form(newer: str, plain: str) -> None:
    assert ast.dump(parse_module(newer, "f.py")) == ast.dump(ast.parse(plain))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("x = 1\ny = = 2\n", "f.py:2:5: This is not Python", id="two equal signs"),
        pytest.param("x = 1\nf(1,\n  2\n", "f.py:2:2: .*never closed", id="open parenthesis"),
        pytest.param("if a:\nb\n", "f.py:2:1: .*indent", id="no block"),
        pytest.param("if a:\n    b\n  c\n", "f.py:3:", id="dedent to nowhere"),
        pytest.param("x = 'abc\n", "f.py:1:5: .*unterminated", id="open string"),
        pytest.param("type X = int\ny = = 1\n", "f.py:2:5", id="error after newer grammar"),
        pytest.param("Dear reader, hello there\n", "f.py:1:", id="prose"),
        pytest.param("x = '\\xZZ'\n", "f.py:1:5: truncated escape", id="bad escape"),
        pytest.param("x = '\\N{NO SUCH}'\n", "f.py:1:5: unknown Unicode", id="bad name"),
        pytest.param("x = " + "9" * 5000, "f.py:1:5: ", id="too many digits"),
        pytest.param("a\nx = t'{y}'\n", "f.py:2:5: Template strings", id="template string"),
    ],
)
def test_what_is_not_python_is_located(text: str, says: str) -> None:
    with pytest.raises(SyntaxProblem, match=says) as caught:
        parse_module(text, "f.py")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"# a\nx = '\xff'\n", r"f.py:2:6: Byte 0xff is not UTF-8", id="latin 1"),
        pytest.param(b"\x00" * 5_000_000, "5000000 bytes", id="too large"),
    ],
)
def test_bytes_that_are_not_source(data: bytes, says: str) -> None:
    with pytest.raises(InputError, match=says):
        decode(data, "f.py")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("a\nb = '\0'\n", "f.py:2:6: There is a null byte", id="null byte"),
        pytest.param("a = '\ud800'\n", "f.py:1:6: A lone surrogate", id="surrogate"),
        pytest.param("a = 1\n" * 1_000_000, "6000000 bytes", id="too large"),
    ],
)
def test_text_that_is_not_source(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_module(text, "f.py")


def test_an_escape_that_python_does_not_know_stays() -> None:
    tree = parse_module(r"x = '\d\q'", "f.py")
    assert [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)] == [r"\d\q"]


def test_comments_have_their_lines() -> None:
    text = "# one\nx = '# no'  # two\n'''\n# no\n'''\nf(  # three\n"
    assert comments(text) == [(1, "# one"), (2, "# two"), (6, "# three")]


def test_a_long_file_is_read_in_time() -> None:
    """300 dense lines take 0.5 s of one core; NVIDIA's attention.py (1,369 lines) takes 0.3 s."""
    line = "    acc = ct.mma(p, v, acc) * (alpha[:, None] + f(x, axis=0, keep={1: 2}))\n"
    started = time.process_time()
    assert len(parse_module("def kernel(p, v, acc):\n" + line * 300, "f.py").body) == 1
    assert time.process_time() - started < 5


def test_recursion_limit_is_untouched() -> None:
    before = sys.getrecursionlimit()
    parse_module("x = " + "-" * 150 + "1", "f.py")
    assert sys.getrecursionlimit() == before

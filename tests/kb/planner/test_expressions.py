"""The expression grammar: what it reads, how it writes it, what it computes, what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.errors import InputError, SyntaxProblem, UnknownName
from kb.planner.evaluation import Environment, Value
from kb.planner.expressions import evaluate, names, parse, to_text
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
)

ENV: Environment = {
    "a": 3,
    "TILE_M": 128,
    "q_len": 1000,
    "causal": True,
    "capability": (9, 0),
    "dtype": "bf16",
    "target": {"name": "H100", "sms": 132, "limits": {"shared": 232448}},
    "Q.shape": (2, 8, 1000, 64),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1 + 2 * 3", 7, id="product before sum"),
        pytest.param("-2 ** 2", -4, id="power before minus"),
        pytest.param("2 ** 3 ** 2", 512, id="power to the right"),
        pytest.param("(1 + 2) * 3", 9, id="parentheses"),
        pytest.param("7 // 2 + 7 % 2 - 1 / 4", 3.75, id="divisions"),
        pytest.param("cdiv(q_len, TILE_M)", 8, id="cdiv"),
        pytest.param("cdiv(-7, 2)", -3, id="cdiv of a negative number"),
        pytest.param("next_power_of_two(5120)", 8192, id="next power of two"),
        pytest.param("next_power_of_two(64)", 64, id="next power of two of one"),
        pytest.param("is_power_of_two(96)", False, id="not a power of two"),
        pytest.param("is_power_of_two(128)", True, id="power of two"),
        pytest.param("log2(8) + sqrt(9)", 6.0, id="log2 and sqrt"),
        pytest.param("min(3, 1, 2) + max([4, 5]) + abs(-1)", 7, id="min max abs"),
        pytest.param("ceil(1.2) + floor(1.8)", 3, id="ceil and floor"),
        pytest.param("bytes_of(dtype) * prod([TILE_M, 64])", 16384, id="bytes of a dtype"),
        pytest.param("1 < a <= 3", True, id="chain holds"),
        pytest.param("1 < a < 3", False, id="chain fails at its end"),
        pytest.param("not a == 3 or causal", True, id="not before comparison"),
        pytest.param("64 if causal else 128", 64, id="conditional"),
        pytest.param('dtype in ["bf16", "f16"]', True, id="in a list"),
        pytest.param("capability in [(12, 0), (12, 1)]", False, id="tuple in a list"),
        pytest.param("capability[0] < 9", False, id="index"),
        pytest.param("capability >= (8, 9)", True, id="tuples are ordered"),
        pytest.param("target.sms * 2", 264, id="record field"),
        pytest.param("target.limits.shared", 232448, id="record in a record"),
        pytest.param("Q.shape[2] // 4", 250, id="dotted name with an index"),
        pytest.param("Q.shape[-1]", 64, id="index from the end"),
        pytest.param("none is None and dtype is not none", True, id="is, lower case constants"),
        pytest.param("x if False else 1", 1, id="the branch not taken is not evaluated"),
        pytest.param("False and x", False, id="and stops early"),
        pytest.param("0x10 + 1_000", 1016, id="number spellings"),
        pytest.param("'a\\'b' == \"a'b\"", True, id="quotes"),
    ],
)
def test_evaluates(text: str, expected: Value) -> None:
    assert evaluate(parse(text), ENV) == expected


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        pytest.param("a+b *c", "a + b * c", id="spaces"),
        pytest.param("((a))", "a", id="needless parentheses"),
        pytest.param("(a+b)*c", "(a + b) * c", id="needed parentheses"),
        pytest.param("a-(b-c)", "a - (b - c)", id="right operand"),
        pytest.param("not (a and b)", "not (a and b)", id="not over and"),
        pytest.param("- 1", "-1", id="negative number"),
        pytest.param("(-1)**2", "(-1) ** 2", id="negative base"),
        pytest.param("-(a*b)", "-(a * b)", id="minus over product"),
        pytest.param("x in ['a',\"b\"]", 'x in ["a", "b"]', id="strings"),
        pytest.param("a if b else c if d else e", "a if b else c if d else e", id="conditionals"),
        pytest.param("(a if b else c)+1", "(a if b else c) + 1", id="conditional operand"),
        pytest.param("x not  in (1,)", "x not in (1,)", id="one-tuple"),
        pytest.param("true", "True", id="constant"),
        pytest.param("x is not None", "x != None", id="is becomes equality"),
        pytest.param("(a<b)<c", "(a < b) < c", id="comparison of a comparison"),
        pytest.param("(a and b) and c", "(a and b) and c", id="nested and"),
        pytest.param("Q.shape [2]", "Q.shape[2]", id="index"),
        pytest.param("1e3", "1000.0", id="float"),
    ],
)
def test_normal_form(text: str, normal: str) -> None:
    assert to_text(parse(text)) == normal
    assert to_text(parse(normal)) == normal


def test_names_are_dotted_and_complete() -> None:
    text = "cdiv(Q.shape[2], TILE_M) * h[i] <= target.sms and not flag"
    assert names(parse(text)) == {"Q.shape", "TILE_M", "h", "i", "target.sms", "flag"}


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        pytest.param("", "1:1", "a value is missing before the end", id="empty"),
        pytest.param("a +", "1:4", "a value is missing", id="no operand"),
        pytest.param("a b", "1:3", "`b` does not continue", id="no operator"),
        pytest.param("a = b", "1:3", "Equality is written `==`", id="single equals"),
        pytest.param("a & b", "1:3", "Write `and`", id="ampersand"),
        pytest.param("f(\n cdvi(1, 2))", "1:1", "no function `f`", id="unknown function"),
        pytest.param("1 +\n cdvi(1, 2)", "2:2", "Did you mean `cdiv`?", id="misspelt function"),
        pytest.param("(a", "1:3", "`)` is missing", id="open parenthesis"),
        pytest.param("[1 2]", "1:4", "`,` or `]` is missing", id="missing comma"),
        pytest.param("a if b", "1:7", "`else` is missing", id="no else"),
        pytest.param('"abc', "1:1", "does not belong", id="open string"),
        pytest.param("a.1", "1:2", "does not continue", id="field is a number"),
        pytest.param("a.if", "1:3", "a field name is missing", id="field is a keyword"),
        pytest.param("1e999", "1:1", "not a finite number", id="infinite"),
        pytest.param("9" * 50, "1:1", "too long", id="long number"),
        pytest.param("(" * 1000 + "a", "1:33", "nested too deeply", id="parentheses"),
        pytest.param("-" * 1000 + "a", "1:33", "nested too deeply", id="signs"),
        pytest.param("not " * 1000 + "a", "1:129", "nested too deeply", id="nots"),
        pytest.param("+".join("a" * 2000), "1:1", "nested too deeply", id="long sum"),
        pytest.param("a." * 2000 + "a", "1:1", "nested too deeply", id="long path"),
        pytest.param("a" * 30_000, "1:1", "too long", id="long text"),
        pytest.param("__import__('os')", "1:1", "no function", id="Python is out of reach"),
    ],
)
def test_refuses_with_place_and_hint(text: str, where: str, said: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse(text, where="space.dsl")
    assert caught.value.where == f"space.dsl:{where}"
    assert said in caught.value.text


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        pytest.param("b", UnknownName, "`b` has no value", id="unknown name"),
        pytest.param("TILE_N", UnknownName, "Did you mean `TILE_M`?", id="near name"),
        pytest.param("target.smss", UnknownName, "Did you mean `sms`?", id="near field"),
        pytest.param("a.real", InputError, "no field", id="no Python attributes"),
        pytest.param("1 // 0", InputError, "by zero", id="division by zero"),
        pytest.param("10**10**10", InputError, "out of bounds", id="tower"),
        pytest.param("2 ** 200 * 2 ** 200", InputError, "bits", id="many bits"),
        pytest.param("0 ** -1", InputError, "out of bounds", id="zero to minus one"),
        pytest.param("(-8) ** 0.5", InputError, "not a real number", id="complex"),
        pytest.param("1e300 * 1e300", InputError, "finite", id="float overflow"),
        pytest.param("10.0 ** 400", InputError, "too large", id="float power overflow"),
        pytest.param("'a' * 1000000", InputError, "needs a number", id="string repetition"),
        pytest.param("capability[7]", InputError, "outside", id="index out of range"),
        pytest.param("1 < 'a'", InputError, "needs a number", id="mixed comparison"),
        pytest.param("log2(0)", InputError, "not a real number", id="log of zero"),
        pytest.param("cdiv(1)", InputError, "takes 2", id="arguments"),
        pytest.param("bytes_of('x')", InputError, "not a dtype", id="no dtype"),
        pytest.param("min([])", InputError, "non-empty", id="empty minimum"),
    ],
)
def test_evaluation_refuses(text: str, kind: type[InputError], said: str) -> None:
    with pytest.raises(kind) as caught:
        evaluate(parse(text), ENV)
    assert said in caught.value.text


NAMES = st.sampled_from(["a", "TILE_M", "target", "Q", "x1", "_y"])
LITERALS = st.one_of(
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.text(max_size=8),
).map(Literal)


def _negated(operand: Expr) -> Expr:
    """The parser folds a negated number literal, so the normal form has none."""
    if isinstance(operand, Literal) and type(operand.value) in (int, float):
        return operand
    return Unary(UnaryOperator.NEGATE, operand)


def _grow(below: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    several = st.lists(below, max_size=3).map(tuple)
    links = st.lists(st.tuples(st.sampled_from(Comparison), below), min_size=1, max_size=2)
    return st.one_of(
        st.builds(Attribute, below, NAMES),
        st.builds(Index, below, below),
        below.map(_negated),
        below.map(lambda operand: Unary(UnaryOperator.NOT, operand)),
        st.builds(Binary, st.sampled_from(BinaryOperator), below, below),
        st.builds(Compare, below, links.map(tuple)),
        st.builds(
            Boolean,
            st.sampled_from(BooleanOperator),
            st.lists(below, min_size=2, max_size=3).map(tuple),
        ),
        st.builds(Conditional, below, below, below),
        st.builds(Sequence, st.sampled_from(SequenceKind), several),
        st.builds(Call, st.sampled_from(["min", "cdiv", "log2"]), several),
    )


def trees() -> st.SearchStrategy[Expr]:
    """Expression trees in normal form."""
    return st.recursive(st.one_of(NAMES.map(Name), LITERALS), _grow, max_leaves=12)


@given(trees())
@settings(max_examples=300, deadline=None)
def test_text_loses_nothing(tree: Expr) -> None:
    text = to_text(tree)
    assert repr(parse(text)) == repr(tree)
    assert to_text(parse(text)) == text


@given(st.text(alphabet="ab1.()[]+-*/%<>=! \"'\n,not if else", max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        tree = parse(text)
    except SyntaxProblem:
        return
    assert parse(to_text(tree)) == tree

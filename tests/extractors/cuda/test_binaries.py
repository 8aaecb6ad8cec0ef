"""What stands in brackets before an operator is no type where it cannot be one."""

from __future__ import annotations

import pytest

from extractors.cuda import nodes as n
from extractors.cuda.grammar import syntax_tree
from extractors.cuda.parse_expressions import ExpressionBuilder
from extractors.cuda.preprocess import Prepared
from extractors.cuda.render import shown

_TEMPLATE = "template <typename T> "


def read(text: str) -> n.Expr:
    source = f"{_TEMPLATE}__global__ void k(int rows, Held held) {{\n  auto z = {text};\n}}"
    source += "\ntypedef float Held;"
    pending = [syntax_tree(source)]
    while pending[0].type != "init_declarator":
        pending += pending.pop(0).children
    prepared = Prepared(source, {}, [], [], [], [], [])
    return ExpressionBuilder(prepared, "k.cu").expression(pending[0].child_by_field_name("value"))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("(a * (b * i)) + (p + q)", "a * (b * i) + (p + q)"),
        ("(a * ((b * (c * d)))) + e", "a * (b * (c * d)) + e"),
        ("x * (a * (b)) + c * d", "x * (a * b) + c * d"),
        ("s + (a * (b * c)) & d * e", "(s + a * (b * c)) & (d * e)"),
        ("(a * (b * (c * d))) - e * f", "a * (b * (c * d)) - e * f"),
        ("0 <= (ids[r]) && n > (ids[r])", "0 <= ids[r] and n > ids[r]"),
        ("(a::b[c]) * d", "a::b[c] * d"),
        ("(a::b) && c", "a::b and c"),
        ("(T::N) + x * y", "T::N + x * y"),
        ("(Shape<T>::N) * x + y", "Shape<T>::N * x + y"),
        ("x * (rows) + y / z", "x * rows + y / z"),
        ("(rows) - 1", "rows - 1"),
    ],
)
def test_an_operator_behind_brackets(written: str, meant: str) -> None:
    told = read(written)
    assert shown(told) == shown(read(meant.replace(" and ", " && ")))
    assert not [one for one in n.inside(told) if isinstance(one, n.Cast)]
    assert {one.at.line for one in n.inside(told) if isinstance(one, n.Expr)} == {2}


@pytest.mark.parametrize(
    "written",
    ["(typename T::N) * x", "(std::size_t) * x", "(std::size_t) -x", "(float*) &x", "(int) +x",
     "(T (*)(int)) &x"],
)  # fmt: skip
def test_a_cast_of_what_begins_with_a_sign(written: str) -> None:
    assert isinstance(read(written), n.Cast)


@pytest.mark.parametrize("written", ["x * (T) +y / z", "x * (Held) +y / z", "x * (Other) +y / z"])
def test_a_cast_to_what_may_be_a_type(written: str) -> None:
    assert any(isinstance(one, n.Cast) for one in n.inside(read(written)))

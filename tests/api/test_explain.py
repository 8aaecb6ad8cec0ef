"""What explain says of a decision: reason and price of the value that was chosen, and its bits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.explain import explain
from api.extract import extract_file
from kb.evidence import AxisKind, Decision
from kb.graph.terms import vocabulary
from kb.knowledge import KernelKnowledge
from tests.api.sample_kernels import TRITON


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory: pytest.TempPathFactory) -> KernelKnowledge:
    path = tmp_path_factory.mktemp("explain") / "kernel.py"
    path.write_text(TRITON)
    return extract_file(path).kernels[0]


def decided(axis: str, value: str, pattern: str) -> Decision:
    return Decision(axis=axis, value=value, pattern=pattern, lines=((1, 1),), kind=AxisKind.DESIGN)


@pytest.mark.parametrize(
    ("axis", "value", "said"),
    [
        pytest.param("index_width", "int32", "Cheaper", id="the usual value"),
        pytest.param("index_width", "int64 opt-in", "past 2 to the 31st", id="the other value"),
        pytest.param("empty_row_handling", "none (NaN)", "No guard", id="a remark in brackets"),
        pytest.param("index_width", "int128", "Cheaper", id="an unknown value: its pattern's"),
    ],
)
def test_the_reason_is_the_values_own(
    knowledge: KernelKnowledge, axis: str, value: str, said: str
) -> None:
    pattern = "32-bit-index-arithmetic" if axis == "index_width" else "degenerate-row-guard"
    changed = _with(knowledge, decided(axis, value, pattern))
    (row,) = explain("iri", changed, vocabulary())["decisions"]
    assert said in row["rationale"]
    assert row["price"]


def test_every_decision_says_whether_it_can_change_bits(knowledge: KernelKnowledge) -> None:
    document = explain("iri", knowledge, vocabulary())
    classes = {"bitwise stable", "can change bits", "unknown"}
    assert document["decisions"]
    assert all(row["numerics"]["class"] in classes for row in document["decisions"])
    assert all(row["numerics"]["reason"] for row in document["decisions"])
    assert [row["name"] for row in document["numerics"]] == [
        row.name for row in knowledge.numerics
    ]  # fmt: skip


def _with(knowledge: KernelKnowledge, decision: Decision) -> KernelKnowledge:
    return replace(knowledge, decisions=(decision,))

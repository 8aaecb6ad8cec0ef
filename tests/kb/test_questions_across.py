"""The questions over many kernels, on four small ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from kb.graph import names
from kb.results import Rows
from kb.store import ONTOLOGY, LocalStore

RDF_TYPE = names.term("rdf:type")

Chosen = tuple[str, str, str | None]
"""Axis, value, and of what."""

KERNELS: dict[str, tuple[str, str, list[Chosen]]] = {
    "hinted": (
        "fmha",
        "cutile",
        [
            ("softmax_scheme", "online (1 pass)", None),
            ("prefetch_depth", "latency 2", "k"),
            ("prefetch_depth", "latency 4", "v"),
            ("accum_dtype", "fp32", None),
        ],
    ),
    "even": (
        "fmha_lse",
        "triton",
        [
            ("softmax_scheme", "online (1 pass)", None),
            ("prefetch_depth", "latency 2", "k"),
            ("prefetch_depth", "latency 2", "v"),
            ("accum_dtype", "fp16", "acc"),
        ],
    ),
    "rows": ("fmha", "triton", [("softmax_scheme", "single resident tile", None)]),
    "norm": ("layernorm", "triton", [("accum_dtype", "fp32", None), ("eps_placement", "in", None)]),
}


def quads(label: str) -> tuple[str, list[Quad]]:
    """Only what the questions look at; nothing here is checked against the shapes."""
    operation, dialect, decisions = KERNELS[label]
    tail = f"pkg/{label}.py/{label}/{'0' * 16}"
    kernel, graph = names.kernel(tail), NamedNode(names.graph(tail))
    facts: list[tuple[str, str, NamedNode | Literal]] = [
        (kernel, RDF_TYPE, NamedNode(names.term("tl:Kernel"))),
        (kernel, names.term("rdfs:label"), Literal(label)),
        (kernel, names.term("tl:dialect"), Literal(dialect)),
        (kernel, names.term("tl:implements"), NamedNode(names.operation(operation))),
        (kernel, names.term("tl:hasSource"), NamedNode(kernel + "/source")),
        (kernel + "/source", names.term("tl:path"), Literal(f"{label}.py")),
        (kernel + "/source", names.term("tl:package"), Literal(f"{dialect}==1")),
    ]
    for index, (axis, value, subject) in enumerate(decisions):
        node = f"{kernel}/decision/{index}"
        facts += [
            (kernel, names.term("tl:hasDecision"), NamedNode(node)),
            (node, names.term("tl:onAxis"), NamedNode(names.axis(axis))),
            (node, names.term("tl:value"), Literal(value)),
            (node, names.term("tl:chosenValue"), NamedNode(names.value(axis, value))),
            (kernel, names.term("tl:chose"), NamedNode(names.value(axis, value))),
            (node, names.term("tl:evidence"), NamedNode(node + "/span/0")),
            (node + "/span/0", names.term("tl:startLine"), Literal(10 + index)),
        ]
        if subject is not None:
            facts.append((node, names.term("tl:subject"), Literal(subject)))
    return graph.value, [Quad(NamedNode(s), NamedNode(p), o, graph) for s, p, o in facts]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    with LocalStore(tmp_path_factory.mktemp("across") / "kb", vocabulary=ONTOLOGY) as opened:
        for label in KERNELS:
            opened.add(*quads(label), {})
        yield opened


def rows(store: LocalStore, name: str, columns: str, **bindings: Any) -> list[tuple[Any, ...]]:
    answer = store.ask(name, **bindings)
    assert isinstance(answer, Rows)
    return [tuple(row[column] for column in columns.split()) for row in answer]


def test_how_many_attention_kernels_use_online_softmax(store: LocalStore) -> None:
    found = rows(store, "values_of_operation", "value kernels packages of")
    assert found == [("online (1 pass)", 2, 2, 3), ("single resident tile", 1, 1, 3)]
    norms = rows(store, "values_of_operation", "value kernels of", operation="layernorm",
                 axis="accum_dtype")  # fmt: skip
    assert norms == [("fp32", 1, 1)]


def test_who_accumulates_below_fp32(store: LocalStore) -> None:
    columns = "label package value path start_line"
    assert rows(store, "sums_below_fp32", columns) == [("even", "triton==1", "fp16", "even.py", 13)]
    assert rows(store, "sums_below_fp32", columns, operation="layernorm") == []


def test_who_stages_k_and_v_differently(store: LocalStore) -> None:
    columns = "label first first_depth second second_depth"
    assert rows(store, "staged_differently", columns) == [
        ("hinted", "k", "latency 2", "v", "latency 4")
    ]


def test_which_decisions_layernorm_shares_with_attention(store: LocalStore) -> None:
    found = rows(store, "values_shared_by_operations", "axis value first_kernels second_kernels")
    assert found == [(names.axis("accum_dtype"), "fp32", 1, 1)]


def test_axes_that_both_decide(store: LocalStore) -> None:
    found = rows(store, "axes_decided_by_both", "axis first_values second_values",
                 first="attention", second="layernorm")  # fmt: skip
    assert [(axis, set(first.split(" | ")), second) for axis, first, second in found] == [
        (names.axis("accum_dtype"), {"fp32", "fp16"}, "fp32")
    ]

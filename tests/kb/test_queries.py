"""Every named question on the sample graph, with the rows it must give."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb.errors import InputError, UnknownName
from kb.questions import FOLDER, QUESTIONS, prepare, read_question
from kb.results import Rows
from kb.store import ONTOLOGY, LocalStore
from kb.store_records import KernelName
from kb.validation import require_conformance

SAMPLE = Path(__file__).with_name("sample") / "kernels.trig"
ROOT = "https://w3id.org/tilelore/"
FMHA = KernelName(f"{ROOT}kernel/sample/fmha/{'0' * 16}", "fmha")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    folder = tmp_path_factory.mktemp("ask") / "kb"
    with LocalStore(folder, vocabulary=ONTOLOGY, validate=require_conformance) as opened:
        assert len(opened.load(SAMPLE)) == 3
        yield opened


def short(value: Any) -> Any:
    """IRIs by their last parts: kernels by label, others without the root."""
    if not isinstance(value, str):
        return value
    if value.startswith(ROOT + "kernel/"):
        return value.split("/")[-2]
    return value.removeprefix(ROOT)


def rows(store: LocalStore, name: str, columns: str, **bindings: Any) -> list[tuple[Any, ...]]:
    answer = store.ask(name, **bindings)
    assert isinstance(answer, Rows)
    return [tuple(short(row[column]) for column in columns.split()) for row in answer]


def test_there_are_enough_questions_and_each_says_what_it_gives(store: LocalStore) -> None:
    assert len(QUESTIONS) == 29
    for name, question in QUESTIONS.items():
        began = time.monotonic()
        needed = {p.name: "fmha" for p in question.parameters if p.needed}
        answer = store.ask(name, **needed)
        assert time.monotonic() - began < 2, name
        assert isinstance(answer, Rows)
        assert answer.variables == tuple(column for column, _ in question.columns), name


def test_rows_are_not_ordered_by_what_is_the_same_in_all() -> None:
    def ordered(**bindings: str) -> str:
        text = prepare(QUESTIONS, "tuning_of_kernel", bindings, lambda _: [FMHA])
        return text.splitlines()[-1]

    assert ordered() == "ORDER BY ?kernel ?case ?axis"
    assert ordered(kernel="fmha") == "ORDER BY ?case ?axis"
    text = prepare(QUESTIONS, "popular_choices", {"axis": "softmax_scheme"}, lambda _: [])
    assert text.splitlines()[-1] == "ORDER BY DESC(?kernels) ?value"


def test_a_question_that_needs_a_kernel_says_so(store: LocalStore) -> None:
    with pytest.raises(InputError, match=r"needs `kernel`: the kernel to compare with\."):
        store.ask("similar_kernels")


EXPECTED: list[tuple[str, dict[str, Any], str, list[tuple[Any, ...]]]] = [
    (
        "scale_after_row_max",
        {},
        "kernel value start_line end_line",
        [("fmha", "after the maximum", 33, 34)],
    ),
    (
        "dead_tuning_axes",
        {},
        "kernel axis values mechanism launched_with",
        [("fmha", "num_ctas", 2, "exhaustive_search", 1)],
    ),
    ("dead_tuning_axes", {"kernel": "layer_norm"}, "kernel", []),
    (
        "tuned_names_and_bits",
        {},
        "kernel name numerics because",
        [("fmha", "TILE_N", "can change bits", "it is summed.")],
    ),
    (
        "axes_decided_by_both",
        {"first": "attention", "second": "layernorm"},
        "axis first_values second_values",
        [("axis/tile_selection", "searched per target", "next power of two")],
    ),
    (
        "decisions_of_kernel",
        {"kernel": "fmha"},
        "kind axis value pattern start_line end_line",
        [
            (
                "design",
                "axis/math_approximation",
                "exp2",
                "pattern/base-2-exponential-with-folded-log2",
                35,
                35,
            ),
            (
                "design",
                "axis/scale_placement",
                "after the maximum",
                "pattern/scale-applied-after-the-max-reduce",
                33,
                34,
            ),
            ("design", "axis/softmax_scheme", "online 1-pass", "pattern/online-softmax", 30, 36),
            (
                "tuning",
                "axis/tile_selection",
                "searched per target",
                "pattern/closed-form-tile-heuristic",
                100,
                110,
            ),
        ],
    ),
    (
        "tuning_of_kernel",
        {"kernel": "fmha"},
        "case axis points effect",
        [
            ("sm_120", "TILE_M", 1, "effective"),
            ("sm_90", "TILE_M", 2, "effective"),
            ("sm_90", "num_ctas", 2, "dead"),
        ],
    ),
    (
        "tile_sizes_per_target",
        {"operation": "attention"},
        "case label axis smallest largest values",
        [("sm_120", "fmha", "TILE_M", 32, 32, 1), ("sm_90", "fmha", "TILE_M", 64, 128, 2)],
    ),
    ("tile_sizes_per_target", {"operation": "layernorm"}, "case", []),
    (
        "constraints_of_kernel",
        {"kernel": "fmha"},
        "expression origin checked because start_line",
        [
            ("heads % kv_heads == 0", "stated", True, None, 120),
            ("tile_d == head_dim", "implied", False, "one tile holds a head", None),
        ],
    ),
    (
        "unchecked_constraints",
        {},
        "kernel expression because",
        [("fmha", "tile_d == head_dim", "one tile holds a head")],
    ),
    (
        "findings_of_kernel",
        {"kernel": "fmha"},
        "severity rule message fix start_line end_line",
        [
            (
                "warning",
                "rule/dead-tuning-axis",
                "num_ctas is searched and never used",
                "pass hints_fn",
                140,
                150,
            )
        ],
    ),
    (
        "findings_by_rule",
        {},
        "rule severity findings kernels example",
        [
            ("rule/dead-tuning-axis", "warning", 2, 2, "num_ctas is searched and never used"),
            ("rule/unchecked-constraint", "note", 1, 1, "nobody checks the head dimension"),
        ],
    ),
    ("findings_by_rule", {"rule": "unchecked-constraint"}, "findings", [(1,)]),
    (
        "kernels_of_operation",
        {"operation": "attention"},
        "implements kernel dialect package path",
        [
            ("operation/fmha", "fmha", "cutile", "sample 1.0", "sample/attention.py"),
            ("operation/fmha_lse", "forward", "triton", None, "sample/flash.py"),
        ],
    ),
    ("popular_choices", {"axis": "softmax_scheme"}, "value kernels", [("online 1-pass", 2)]),
    (
        "popular_choices",
        {"axis": "scale_placement"},
        "value kernels",
        [("after the maximum", 1), ("pre-scale q", 1)],
    ),
    ("similar_kernels", {"kernel": "fmha", "percent": 25}, "other shared", [("forward", 1)]),
    ("similar_kernels", {"kernel": "fmha", "percent": 26}, "other", []),
    ("opaque_kernels", {}, "kernel opaque operations", [("fmha", 2, 120)]),
    (
        "targets_that_hold",
        {"shared_bytes": 200_000},
        "target limit left",
        [
            ("target/b200", 232_448, 32_448),
            ("target/h100", 232_448, 32_448),
            ("target/h200", 232_448, 32_448),
        ],
    ),
    ("targets_that_hold", {"shared_bytes": 1, "threads": 4096}, "target", []),
    (
        "design_procedure",
        {},
        "position step",
        [
            (1, "step/tile-local-split"),
            (2, "step/reduction-order"),
            (3, "step/fusion-range"),
            (4, "step/warp-roles"),
            (5, "step/shared-memory-layout"),
            (6, "step/pipeline"),
            (7, "step/profiler-verification"),
        ],
    ),
    (
        "may_share_a_kernel",
        {"first": "gemm", "second": "gelu"},
        "rule forbidden_when",
        [
            ("fusion/bias-activation", "gemm.consumers > 0"),
            ("fusion/bias-activation", "gemm.splits > 1"),
        ],
    ),
    ("may_share_a_kernel", {"first": "gelu", "second": "fmha"}, "rule", []),
    (
        "chain_may_share_a_kernel",
        {},
        "rule next_rule obstacles",
        [("fusion/qk-softmax-pv", "fusion/qk-softmax-pv", 3)],
    ),
    (
        "chain_may_share_a_kernel",
        {"first": "residual_add", "second": "rmsnorm", "third": "affine"},
        "rule next_rule obstacles",
        [("fusion/residual-norm", "fusion/norm-affine", 3)],
    ),
]


@pytest.mark.parametrize(
    ("name", "bindings", "columns", "expected"),
    EXPECTED,
    ids=[f"{name} {' '.join(map(str, b.values()))}".strip() for name, b, _, _ in EXPECTED],
)
def test_answers(
    store: LocalStore,
    name: str,
    bindings: dict[str, Any],
    columns: str,
    expected: list[tuple[Any, ...]],
) -> None:
    assert rows(store, name, columns, **bindings) == expected


def test_every_question_has_expected_rows() -> None:
    tested = {name for name, *_ in EXPECTED} | {
        "axes_shared_by_operations",
        "shared_memory_decisions",
        "alternatives",
        "principles_of_kernel",
        "open_axes",
        "metrics",
    }
    across = {
        "values_of_operation",
        "sums_below_fp32",
        "staged_differently",
        "values_shared_by_operations",
    }
    assert tested | across == set(QUESTIONS)  # test_questions_across.py


def test_axes_shared_by_operations(store: LocalStore) -> None:
    shared = rows(store, "axes_shared_by_operations", "axis kind from_first from_second")
    reduction = ("operation/reduction", "operation/reduction")
    assert ("axis/reduction_scheme", "design", *reduction) in shared
    assert ("axis/num_warps", "tuning", "operation/tile_kernel", "operation/tile_kernel") in shared
    assert "axis/kv_head_mapping" not in {row[0] for row in shared}  # attention's alone


def test_shared_memory_decisions(store: LocalStore) -> None:
    found = rows(store, "shared_memory_decisions", "kernel axis constraint", kernel="fmha")
    assert ("fmha", "axis/tile_selection", "constraint/fmha-shared-fits") in found
    assert {axis for _, axis, _ in found} == {"axis/tile_selection"}


def test_alternatives_have_rationale_and_popularity(store: LocalStore) -> None:
    columns = "chosen alternative chosen_by"
    found = rows(store, "alternatives", columns, kernel="fmha", axis="scale_placement")
    assert ("after the maximum", "value/scale_placement/pre-scale-q", 1) in found
    assert len(found) >= 2
    assert not any("scale-folded-into-s-scale-m-fma" in row[1] for row in found)
    rationale = rows(store, "alternatives", "rationale", kernel="fmha", axis="softmax_scheme")
    assert rationale
    assert all(row[0] for row in rationale)


def test_principles_of_kernel(store: LocalStore) -> None:
    found = rows(store, "principles_of_kernel", "kernel principle pattern")
    assert ("fmha", "principle/safe-by-default", "pattern/online-softmax") in found


def test_open_axes_leave_out_what_is_decided(store: LocalStore) -> None:
    found = {row[0] for row in rows(store, "open_axes", "axis", kernel="fmha")}
    assert "axis/kv_head_mapping" in found
    assert "axis/scale_placement" not in found


def test_metrics_say_what_is_trusted(store: LocalStore) -> None:
    trusted = dict(rows(store, "metrics", "metric trusted"))
    assert trusted["metric/barrier-stalls"] is True
    assert trusted["metric/achieved-occupancy"] is False


@pytest.mark.parametrize(
    ("name", "bindings", "error", "said"),
    [
        ("dead_axes", {}, UnknownName, "Did you mean `dead_tuning_axes`"),
        ("alternatives", {"axis": "softmax_scheme"}, InputError, "`alternatives` needs `kernel`"),
        ("decisions_of_kernel", {}, InputError, "`decisions_of_kernel` needs `kernel`"),
        ("alternatives", {"kernal": "fmha"}, InputError, "It has: kernel, axis"),
        ("alternatives", {"kernel": "fhma"}, UnknownName, "Did you mean `fmha`"),
        (
            "alternatives",
            {"kernel": "fmha", "axis": "x> } DROP ALL #"},
            InputError,
            "name or IRI of a axis",
        ),
        ("targets_that_hold", {"threads": "many"}, InputError, "whole number"),
    ],
)
def test_wrong_questions_are_refused(
    store: LocalStore, name: str, bindings: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=re.escape(said)):
        store.ask(name, **bindings)


def test_a_question_without_a_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bare.rq"
    path.write_text("SELECT * { ?s ?p ?o }\n")
    with pytest.raises(InputError, match="title"):
        read_question(path)
    path.write_text("# title: x\n# parameter: what\n# description: d\n# column: s - s\nASK {}\n")
    with pytest.raises(InputError, match="Not a parameter"):
        read_question(path)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.rq")), ids=lambda p: p.stem)
def test_questions_follow_the_house_rules(path: Path) -> None:
    """kg.md 1.2: every pattern names its graph; no NOT EXISTS, no MINUS across graphs."""
    text = path.read_text()
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "EXISTS" not in body
    assert "SERVICE" not in body
    assert "GRAPH" in body
    assert max(map(len, text.splitlines())) <= 100
    bound = set(re.findall(r"\w+", " ".join(re.findall(r"#@bind (.*)", text))))
    assert bound == {p.name for p in QUESTIONS[path.stem].parameters}

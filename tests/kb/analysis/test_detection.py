"""Operation, parameter roles, constraints and findings of small kernels."""

from __future__ import annotations

import pytest

from extractors.detect import Detection, detect
from extractors.modules import ModuleText
from extractors.patterns import cases, cases_pointer, cases_rows
from extractors.read import read


def detection(text: str) -> Detection:
    return detect(read(ModuleText("", "kernel.py", text)).kernels[-1])


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        pytest.param(cases.ATTENTION, "fmha", id="attention"),
        pytest.param(cases.ATTENTION_LSE, "fmha_lse", id="attention with statistics"),
        pytest.param(cases.ATTENTION_POINTER, "fmha", id="attention by pointers"),
        pytest.param(cases_pointer.DECODE_PART, "attention_decode", id="part of the keys by lanes"),
        pytest.param(cases.BACKWARD_KEYS, "fmha_bwd_dkdv", id="gradients of keys"),
        pytest.param(cases.PRODUCT, "gemm", id="product"),
        pytest.param(cases.PRODUCT_PERSISTENT, "gemm", id="persistent product"),
        pytest.param(cases.PRODUCT_POINTER, "gemm", id="product by pointers"),
        pytest.param(cases_rows.CONVOLUTION, "conv2d", id="convolution"),
        pytest.param(cases_rows.ROW_NORM, "rmsnorm", id="row norm"),
        pytest.param(cases_rows.NORM_BACKWARD, "rmsnorm_backward", id="gradient of a norm"),
        pytest.param(cases_rows.LAYER_NORM_POINTER, "layernorm", id="layer norm"),
        pytest.param(cases_rows.SOFTMAX, "softmax", id="softmax"),
        pytest.param(cases_rows.SOFTMAX_CHUNKS, "softmax", id="softmax in chunks"),
        pytest.param(cases_rows.TURN, "transpose", id="transpose"),
        pytest.param(cases_rows.COPY, "access_map", id="copy"),
        pytest.param(cases_rows.ADD_POINTER, "elementwise", id="sum of two"),
    ],
)
def test_operation(text: str, operation: str) -> None:
    assert detection(text).operation == operation


def test_roles_come_from_use() -> None:
    roles = {p.name: (p.kind, str(p.role)) for p in detection(cases.ATTENTION).parameters}
    assert roles == {
        "a": ("tensor", "input"), "b": ("tensor", "input"), "c": ("tensor", "input"),
        "out": ("tensor", "output"), "rate": ("scalar", "scale"), "shift": ("scalar", "scalar"),
        "W": ("constexpr", "tile size"), "G": ("constexpr", "problem size"),
        "TM": ("constexpr", "tile size"), "TN": ("constexpr", "tile size"),
        "R": ("constexpr", "grouping"), "TRI": ("constexpr", "flag"),
        "WHOLE": ("constexpr", "flag"),
    }  # fmt: skip


def test_roles_of_pointers() -> None:
    roles = {p.name: str(p.role) for p in detection(cases_rows.LAYER_NORM_POINTER).parameters}
    assert roles["sx"] == roles["sy"] == "stride"
    assert roles["n"] == "problem size"
    assert roles["T"] == "tile size"
    assert roles["mean_out"] == "output"


SHARED_OUT = """import triton
import triton.language as tl
@triton.jit
def k(x, out, n, share, rate, T: tl.constexpr):
    lanes = tl.arange(0, T)
    acc = tl.zeros((T,), tl.float32)
    for row in range(tl.program_id(0) * share, tl.minimum((tl.program_id(0) + 1) * share, n)):
        acc += tl.load(x + row * T + lanes) * rate
    tl.store(out + tl.program_id(0) * T + lanes, acc)
"""


def test_rows_that_a_block_takes_are_no_scale() -> None:
    roles = {p.name: str(p.role) for p in detection(SHARED_OUT).parameters}
    assert (roles["share"], roles["rate"], roles["n"]) == ("grouping", "scale", "problem size")


def test_constraints_of_attention() -> None:
    found = {c.expression for c in detection(cases.ATTENTION_LSE).constraints}
    assert {
        "is_power_of_two(TM)", "W == a.shape[3]", "G % R == 0", "rate > 0",
        "shift >= 0", "LEN % TM == 0",
    } <= found  # fmt: skip


def test_a_scale_that_follows_the_mask_is_not_negative() -> None:
    unscaled = ("keepdims=True) * rate)", "keepdims=True))"), ("s = s * rate - new", "s = s - new")
    before = "        new = max(top"
    masked = "s = ct.where(at >= 0, s, -math.inf)\n        "
    lanes = "        at = j * TN + ct.arange(TN, dtype=ct.int32)\n        "
    after = cases.vary(
        cases.ATTENTION, *unscaled, (before, f"{lanes}{masked}s = s * rate\n{before}")
    )
    ahead = cases.vary(
        cases.ATTENTION, *unscaled, (before, f"{lanes}s = s * rate\n        {masked}\n{before}")
    )
    assert "rate > 0" in said(after)
    assert "rate > 0" not in said(ahead)


_DOT = """import triton
import triton.language as tl
@triton.jit
def k(a, b, out, TM: tl.constexpr, TK: tl.constexpr, TN: tl.constexpr):
    m, c, n = tl.arange(0, TM), tl.arange(0, TK), tl.arange(0, TN)
    x = tl.load(a + m[:, None] * TK + c[None, :]).to(tl.float16)
    y = tl.load(b + c[:, None] * TN + n[None, :]).to(tl.float16)
    tl.store(out + m[:, None] * TN + n[None, :], tl.dot(x, y))
"""


def said(text: str) -> set[str]:
    return {c.expression for c in detection(text).constraints}


def test_only_the_contracted_extent_has_a_minimum_and_only_in_triton() -> None:
    assert {"TK >= 16"} == {c for c in said(_DOT) if ">= 16" in c or "element_bytes *" in c}
    open_type = _DOT.replace(".to(tl.float16)", "")
    assert "element_bytes * TK >= 32" in said(open_type)
    assert not {c for c in said(cases.PRODUCT) if "element_bytes * TK >=" in c or ">= 16" in c}


def test_lanes_that_are_reduced_cover_their_axis() -> None:
    assert {"T >= x.shape[1]"} == {c for c in said(cases_rows.ROW_NORM) if ">=" in c}
    assert not {c for c in said(cases_rows.ROW_NORM_CHUNKS) if ">=" in c}


def test_a_latency_that_a_parameter_carries_is_limited() -> None:
    carried = cases.vary(
        cases_rows.ROW_NORM, ("T: Int)", "T: Int, L: Int)"), ("latency=1", "latency=L")
    )
    assert "L <= 10" in said(carried)
    assert not {c for c in said(cases_rows.ROW_NORM) if "<= 10" in c}


def test_findings_are_part_of_it() -> None:
    dead = cases.vary(cases_rows.ROW_NORM, ("T: Int):", "T: Int, B: Int):"))
    assert [(f.rule, f.lines[0][0]) for f in detection(dead).findings] == [("unused-parameter", 7)]
    assert not detection(cases_rows.ROW_NORM).findings

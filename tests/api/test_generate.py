"""generate: files that stand alone, same bytes each time, and refusals that say what to do."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from api.generate import generate
from api.verify import stated_facts
from kb.dsl.model import Document
from kb.errors import CannotEmit, ConstraintViolated, InputError, TileloreError, UnknownName
from kb.space import Constraint, Origin
from tests.api.design_documents import attention, layer_norm

DOCUMENTS = [
    pytest.param(layer_norm(), "layer_norm", id="layer norm"),
    pytest.param(attention(), "fmha", id="attention"),
]


@pytest.mark.parametrize(("document", "host"), DOCUMENTS)
def test_a_file_stands_alone(document: Document, host: str) -> None:
    text = generate(document, "triton")
    tree = ast.parse(text)
    imported = {alias.name for n in tree.body if isinstance(n, ast.Import) for alias in n.names}
    assert imported <= {"math", "torch", "triton", "triton.language"}
    froms = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert froms <= {"triton.tools.tensor_descriptor"}
    facts = stated_facts(text, "x.py")
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    assert facts["host"] == host
    assert {facts["host"], facts["kernel"]} <= functions
    assert max(map(len, text.splitlines())) <= 140


@pytest.mark.parametrize(("document", "host"), DOCUMENTS)
def test_same_input_same_bytes(document: Document, host: str) -> None:
    assert generate(document, "triton") == generate(document, "triton"), host


def host_of(text: str, name: str) -> str:
    return text[text.index(f"\ndef {name}(") :]


def test_the_host_of_a_kernel_that_was_read() -> None:
    host = host_of(generate(attention(), "triton"), "fmha")
    assert "scaling: float | None = None" in host
    assert "is_causal: bool = True" in host
    assert "if k.shape != (q.shape[0], k.shape[1], k.shape[2], q.shape[3]):" in host
    assert "if v.shape != (q.shape[0], k.shape[1], k.shape[2], q.shape[3]):" in host
    assert "if q.shape[1] % k.shape[1] != 0:" in host
    assert "HEADS % GROUP" not in host, "implied by the line before"
    assert "if is_causal and not shift >= 0:" in host, "the kernel reads it under the mask alone"
    assert "torch.empty(q.shape, dtype=q.dtype, device=q.device)" in host
    assert "triton.cdiv(q.shape[2], TM), q.shape[0] * q.shape[1])" in host


@pytest.mark.parametrize(
    ("arch", "rows", "columns"),
    [
        pytest.param("sm_80", 16, 16, id="sm_80: the only point"),
        pytest.param("sm_90", 64, 32, id="sm_90: the first that fits eight warps"),
    ],
)
def test_the_flag_is_exact_for_the_chosen_tile(arch: str, rows: int, columns: int) -> None:
    text = generate(attention(), "triton", {}, arch)
    assert f"\nTM = {rows}\nTN = {columns}\n" in text
    assert "FULL=k.shape[2] % TN == 0," in text


def test_settings_reach_the_file() -> None:
    settings = {"tm": "32", "num_warps": "2", "occupancy": "4", "side_output": "log-sum-exp"}
    text = generate(attention(), "triton", settings)
    host = host_of(text, "fmha")
    assert "\nTM = 32\n" in text
    assert "\nNUM_WARPS = 2\n" in text
    assert "maxnreg=" in host
    assert "lse.view(q.shape[0], q.shape[1], seq_len)[..., : q.shape[2]]" in host
    assert stated_facts(text, "x")["design_point"]["side_output"] == "log-sum-exp"


def with_constraint(expression: str) -> Document:
    document = attention()
    found = (Constraint(expression=expression, origin=Origin.STATED),)
    return replace(document, space=replace(document.space, constraints=found))


@pytest.mark.parametrize(
    ("document", "settings", "dialect", "error", "words"),
    [
        pytest.param(attention(), {"colour": "red"}, "triton", UnknownName, "colour", id="axis"),
        pytest.param(attention(), {"TM": "wide"}, "triton", InputError, "whole number", id="tile"),
        pytest.param(
            attention(), {"math_approximation": "tan"}, "triton", InputError, "exp", id="value"
        ),
        pytest.param(
            attention(), {"TN": "48"}, "triton", ConstraintViolated, "TN=48", id="constraint"
        ),
        pytest.param(attention(), {}, "cuda", InputError, "triton", id="dialect"),
        pytest.param(layer_norm(), {}, "cutile", CannotEmit, "triton", id="family dialect"),
        pytest.param(
            replace(attention(), launches=()), {}, "triton", InputError, "launch", id="no launch"
        ),
    ],
)
def test_refusals(
    document: Document,
    settings: dict[str, str],
    dialect: str,
    error: type[TileloreError],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        generate(document, dialect, settings)


def test_unknown_target() -> None:
    with pytest.raises(InputError, match="gfx942"):
        generate(attention(), "triton", {}, "gfx942")


def test_words_of_a_file_cannot_become_code() -> None:
    hostile = Constraint(
        expression="D >= 16", origin=Origin.STATED, because='"); import os; f("{x}\n"""'
    )
    document = attention()
    space = replace(document.space, name='"""\nimport os', constraints=(hostile,))
    tree = ast.parse(generate(replace(document, space=space), "triton"))
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert "os" not in imported

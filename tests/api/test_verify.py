"""verify: numbers, compiles and decisions of a generated file; what is no such file is refused."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import pytest

from api import verify as module
from api.generate import generate
from api.verify import Kind, Report, Result, signature, verify
from generators.compile_model import ArgumentKind
from kb.errors import InputError, SyntaxProblem
from tests.api.design_documents import attention, layer_norm

TILES = {"TM": "64", "TN": "64"}
interpreted = pytest.mark.skipif(
    util.find_spec("numpy") is None, reason="Triton's interpreter needs NumPy"
)


def written(folder: Path, text: str) -> Path:
    path = folder / "generated.py"
    path.write_text(text, encoding="utf-8")
    return path


def numbers(path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    """A report without compiles."""
    monkeypatch.setattr(module, "_compiled", lambda *_: ())
    return verify(path)


def failed(report: Report) -> list[str]:
    return [row.check for row in report.checks if row.result is Result.FAILS]


@interpreted
def test_layer_norm_holds_with_compile_facts(tmp_path: Path) -> None:
    path = written(tmp_path, generate(layer_norm(), "triton"))
    report = verify(path, arches=(), cache=tmp_path / "cache")
    assert failed(report) == []
    assert report.passed
    compiled = [row for row in report.checks if row.kind is Kind.COMPILE]
    assert [row.check for row in compiled] == ["sm_90"]
    assert "registers" in compiled[0].detail
    seen = {row.axis: row.agrees for row in report.redetected}
    assert seen["variance_algorithm"] is True
    assert report.to_json()["schema"] == "tilelore.verify/1"


@interpreted
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="as read"),
        pytest.param(
            {"math_approximation": "exp", "side_output": "log-sum-exp"}, id="exp with statistics"
        ),
        pytest.param({"scale_placement": "before"}, id="scale before the maximum"),
    ],
)
def test_attention_holds(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, generate(attention(), "triton", {**TILES, **settings}))
    report = numbers(path, monkeypatch)
    assert failed(report) == []
    seen = {row.axis: row for row in report.redetected}
    assert all(seen[axis].set and seen[axis].agrees for axis in settings)


@interpreted
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param("y = centred * rstd", "y = centred", "error", id="no scale"),
        pytest.param("if not EVEN_N:", "if EVEN_N:", "error", id="tail is not masked again"),
        pytest.param(
            "EVEN_N=n_cols % block_n == 0",
            "EVEN_N=True",
            "outside of a tensor",
            id="tail is never masked",
        ),
    ],
)
def test_a_wrong_kernel_fails(
    old: str, new: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = generate(layer_norm(), "triton")
    assert old in text
    report = numbers(written(tmp_path, text.replace(old, new, 1)), monkeypatch)
    assert not report.passed
    wrong = [row for row in report.checks if row.result is Result.FAILS]
    assert any(row.kind is Kind.NUMERICS and words in row.detail for row in wrong)


@interpreted
def test_a_file_that_lies_about_an_axis_that_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = generate(layer_norm(), "triton", {"variance_algorithm": "two-pass"})
    lie = text.replace(
        '"variance_algorithm": "two-pass centred"', '"variance_algorithm": "Welford"'
    )
    assert lie != text
    report = numbers(written(tmp_path, lie), monkeypatch)
    assert "variance_algorithm" in failed(report)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        pytest.param("x = 1\n", InputError, "does not say what it is", id="another file"),
        pytest.param("TILELORE = open('x')\n", InputError, "does not say", id="no literal"),
        pytest.param("TILELORE = {'family': 1}\n", InputError, "does not say", id="too little"),
        pytest.param("def (:\n", SyntaxProblem, "not Python", id="not Python"),
        pytest.param("x = " + "(" * 5000, SyntaxProblem, "not Python", id="deep"),
    ],
)
def test_what_is_no_generated_file(
    text: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        verify(written(tmp_path, text))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        verify(tmp_path / "nothing.py")


def test_the_signature_of_a_launch() -> None:
    launch = {
        "order": ["x", "one", "n", "eps", "BLOCK"],
        "runtime": {"x": "*bfloat16", "one": "unit", "n": "int", "eps": "float"},
        "constants": {"BLOCK": 64},
        "options": {"num_warps": 4},
    }
    found = signature(launch)
    kinds = [argument.kind for argument in found.arguments]
    assert kinds == [
        ArgumentKind.POINTER, ArgumentKind.CONSTEXPR, ArgumentKind.SCALAR, ArgumentKind.SCALAR,
        ArgumentKind.CONSTEXPR,
    ]  # fmt: skip
    assert [argument.dtype for argument in found.arguments] == ["bf16", "", "i32", "f32", ""]
    assert found.options == (("num_warps", 4),)

"""`tilelore lint` as a person and as a code host see it: grouped text, counted JSON, SARIF with
rules, places and fingerprints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli import app
from extractors.patterns.cases import vary
from extractors.rules.cases import AUTOTUNED, ROWS_POINTER, SEARCHED, TIMED_HINTS
from extractors.rules.registry import rules

FAULTY = vary(SEARCHED, (TIMED_HINTS, ""))
_HOST = """
def run(x, out, dtype):
    rows[(x.shape[0],)](x, out, x.shape[1], 64)
    more[(x.shape[0],)](x, out, x.shape[1], 64)
"""
SOUND = vary(SEARCHED, ("T=256", "T=256 if d else 128"))


def lint(folder: Path, text: str, form: str, *, code: int) -> str:
    (folder / "kernels.py").write_text(text)
    done = CliRunner().invoke(app, ["lint", str(folder / "kernels.py"), "--format", form])
    assert done.exit_code == code, done.output
    return done.stdout


def sarif(folder: Path, text: str, *, code: int = 1) -> dict[str, Any]:
    (run,) = json.loads(lint(folder, text, "sarif", code=code))["runs"]
    assert isinstance(run, dict)
    return run


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(FAULTY, 1, id="warnings"),
        pytest.param(SOUND, 0, id="nothing"),
        pytest.param(vary(AUTOTUNED, ("in (4, 8)", "in (4,)")), 0, id="a note only"),
    ],
)
def test_exit_codes(tmp_path: Path, text: str, code: int) -> None:
    lint(tmp_path, text, "text", code=code)


def test_text_names_file_and_kernel_once_and_says_what_to_do(tmp_path: Path) -> None:
    lines = lint(tmp_path, FAULTY, "text", code=1).replace("\n      ", "\n").splitlines()
    assert sum(line.endswith("kernels.py  move") for line in lines) == 1
    assert sum("[timed-not-launched]" in line for line in lines) == 1
    assert sum(line.lstrip().startswith("fix: ") for line in lines) >= 2


def test_json_counts_what_it_lists(tmp_path: Path) -> None:
    found = json.loads(lint(tmp_path, FAULTY, "json", code=1))
    assert found["schema"] == "tilelore.lint/1"
    assert (found["files"], found["kernels"]) == (1, 1)
    assert sum(found["counts"].values()) == len(found["findings"]) > 1
    for row in found["findings"]:
        assert set(row) == {"path", "kernel", "rule", "severity", "message", "fix", "lines"}
        assert row["fix"]


def test_what_holds_of_several_kernels_is_shown_once(tmp_path: Path) -> None:
    kernel = ROWS_POINTER[ROWS_POINTER.index("@triton.jit") :]
    text = ROWS_POINTER + kernel.replace("def rows(", "def more(") + _HOST
    rows = json.loads(lint(tmp_path, text, "json", code=0))["findings"]
    kernels = [row["kernel"] for row in rows if row["rule"] == "ignored-argument"]
    assert sorted(kernels) == ["more", "rows"]
    shown = lint(tmp_path, text, "text", code=0)
    assert shown.count("[ignored-argument]") == 1
    assert "the same for: more" in shown
    results = sarif(tmp_path, text, code=0)["results"]
    (one,) = [row for row in results if row["ruleId"] == "ignored-argument"]
    (place,) = one["locations"]
    assert [named["name"] for named in place["logicalLocations"]] == ["rows", "more"]


def test_sarif_describes_every_rule(tmp_path: Path) -> None:
    driver = sarif(tmp_path, FAULTY)["tool"]["driver"]
    assert [row["id"] for row in driver["rules"]] == [rule.name for rule in rules()]
    for row in driver["rules"]:
        assert row["shortDescription"]["text"]
        assert row["fullDescription"]["text"].endswith(".")
        assert row["help"]["text"]
        assert "Source" in row["help"]["markdown"]
        assert row["helpUri"].startswith("https://")
        assert row["defaultConfiguration"]["level"] in ("error", "warning", "note")


def test_sarif_results_have_places_and_point_to_their_rule(tmp_path: Path) -> None:
    run = sarif(tmp_path, FAULTY)
    assert run["results"]
    for row in run["results"]:
        assert run["tool"]["driver"]["rules"][row["ruleIndex"]]["id"] == row["ruleId"]
        assert row["level"] in ("warning", "note")
        (place,) = row["locations"]
        region = place["physicalLocation"]["region"]
        assert 1 <= region["startLine"] <= region["endLine"] <= len(FAULTY.splitlines())
        assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("kernels.py")
        assert place["logicalLocations"] == [{"name": "move", "kind": "function"}]


def fingerprints(run: dict[str, Any]) -> list[str]:
    return [row["partialFingerprints"]["tilelore/v1"] for row in run["results"]]


def test_fingerprints_stay_when_lines_move(tmp_path: Path) -> None:
    first = sarif(tmp_path, FAULTY)
    moved = sarif(tmp_path, "# a line\n" * 7 + FAULTY)
    assert fingerprints(first) == fingerprints(moved)
    assert len(set(fingerprints(first))) == len(first["results"])
    assert first["results"][0]["locations"] != moved["results"][0]["locations"]

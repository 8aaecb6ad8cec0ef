"""The command line on a small kernel: every command answers, in its forms, with its exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result
from typer.testing import CliRunner

from api import later
from api.cli import app
from api.commands.design import parse_setting
from api.services import services
from kb.dsl.model import Document
from kb.errors import SyntaxProblem
from kb.store import LocalStore
from tests.api.sample_kernels import KERNEL, TRITON
from tests.api.test_extract import SCHEMA, written

OTHER = KERNEL.replace("ct.load(right, index=(row, 0)", "ct.load(right, index=(row, 0), latency=4")


def tilelore(*arguments: object, env: Mapping[str, str] | None = None) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=env)


def document(result: Result, code: int = 0) -> dict[str, Any]:
    """The JSON that a command printed."""
    assert result.exit_code == code, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two kernel files and a knowledge base that knows both."""
    folder = tmp_path_factory.mktemp("cli")
    written(folder, KERNEL, "rows.py")
    written(folder, TRITON, "double.py")
    written(folder, OTHER, "other.py")
    done = tilelore("extract", folder / "rows.py", folder / "double.py", "--kb", folder / "kb")
    assert done.exit_code == 0, done.output
    assert "2 added" in done.stderr
    return folder


def test_help_names_every_command() -> None:
    shown = tilelore("--help").stdout
    for name in ("extract", "explain", "lint", "diff", "query", "validate", "transfer", "generate",
                 "verify", "kb", "serve", "demo"):  # fmt: skip
        assert name in shown
    assert tilelore("--version").stdout.startswith("tilelore ")


def test_extract_json_is_the_schema(home: Path) -> None:
    found = document(tilelore("extract", home / "rows.py", "--format", "json"))
    jsonschema.validate(found, SCHEMA)
    assert found["sources"][0]["kernels"][0]["name"] == "add_rows"


def test_an_export_does_not_remember(home: Path, tmp_path: Path) -> None:
    env = {"TILELORE_KB": str(tmp_path / "kb")}
    assert tilelore("extract", home / "rows.py", "-f", "json", env=env).exit_code == 0
    assert not (tmp_path / "kb").exists()
    assert tilelore("extract", home / "rows.py", "--no-kb", env=env).exit_code == 0
    assert not (tmp_path / "kb").exists()
    assert tilelore("extract", home / "rows.py", env=env).exit_code == 0
    assert (tmp_path / "kb").exists()


def test_extract_twice_changes_nothing(home: Path) -> None:
    with LocalStore(home / "kb", read_only=True) as store:
        before = store.stats()
    again = tilelore("extract", home / "rows.py", "--kb", home / "kb")
    assert "0 added, 1 unchanged, 0 replaced" in again.stderr
    with LocalStore(home / "kb", read_only=True) as store:
        assert store.stats().quads == before.quads


@pytest.mark.parametrize("form", ["dsl", "ttl"])
def test_extract_writes_files_that_validate(home: Path, tmp_path: Path, form: str) -> None:
    done = tilelore("extract", home / "rows.py", "--format", form, "--out", tmp_path / "made")
    assert done.exit_code == 0, done.output
    (path,) = (tmp_path / "made").iterdir()
    assert path.name == f"rows.add_rows.{form}"
    checked = document(tilelore("validate", path, "--format", "json"))
    assert checked["files"][0]["valid"] is True


def test_explain_gives_lines_reasons_and_alternatives(home: Path) -> None:
    found = document(tilelore("explain", "add_rows", "--kb", home / "kb", "--format", "json"))
    assert found["schema"] == "tilelore.explain/1"
    assert found["decisions"]
    assert all(row["lines"] for row in found["decisions"])
    assert any(row["rationale"] and row["alternatives"] for row in found["decisions"])
    shown = tilelore("explain", f"{home / 'rows.py'}:add_rows")
    assert "add_rows" in shown.stdout
    assert "instead:" in shown.stdout


def test_diff_tells_what_changed(home: Path) -> None:
    sides = (home / "rows.py", home / "other.py")
    found = document(tilelore("diff", *sides, "--format", "json"), code=1)
    (pair,) = found["pairs"]
    assert {row["axis"] for row in pair["decisions"]} >= {"prefetch_depth"}
    same = document(tilelore("diff", home / "rows.py", home / "rows.py", "-f", "json"))
    assert same["same"] is True
    assert "prefetch_depth" in tilelore("diff", home / "rows.py", home / "other.py").stdout


def test_lint_forms_agree(home: Path) -> None:
    plain = document(tilelore("lint", home / "rows.py", "--format", "json"), code=lint_code(home))
    sarif = document(tilelore("lint", home / "rows.py", "-f", "sarif"), code=lint_code(home))
    assert sarif["version"] == "2.1.0"
    assert len(sarif["runs"][0]["results"]) == len(plain["findings"])


def lint_code(home: Path) -> int:
    return tilelore("lint", home / "rows.py").exit_code


def test_query_by_name_file_and_text(home: Path, tmp_path: Path) -> None:
    base = ("--kb", home / "kb", "--format", "json")
    named = document(tilelore("query", "decisions_of_kernel", "-p", "kernel=add_rows", *base))
    assert named["question"] == "decisions_of_kernel"
    assert named["rows"]
    text = "SELECT ?l { GRAPH ?g { ?k a tl:Kernel ; rdfs:label ?l } } ORDER BY ?l"
    (tmp_path / "q.rq").write_text(text)
    from_text = document(tilelore("query", "-e", text, *base))
    assert [row["l"] for row in from_text["rows"]] == ["add_rows", "double"]
    assert document(tilelore("query", tmp_path / "q.rq", *base)) == from_text
    csv = tilelore("query", "-e", text, "--kb", home / "kb", "--format", "csv")
    assert csv.stdout.split() == ["l", "add_rows", "double"]
    named_csv = tilelore("query", "decisions_of_kernel", "-p", "kernel=add_rows",
                         "--kb", home / "kb", "-f", "tsv")  # fmt: skip
    assert len(named_csv.stdout.splitlines()) == len(named["rows"]) + 1
    assert len(document(tilelore("query", "--format", "json"))["questions"]) >= 12


@pytest.mark.parametrize(("ask", "code"), [("ASK { ?s ?p ?o }", 0), ("ASK { ?s tl:none 7 }", 1)])
def test_no_is_exit_code_one(home: Path, ask: str, code: int) -> None:
    assert tilelore("query", "-e", ask, "--kb", home / "kb").exit_code == code


def test_transfer_writes_a_space_in_three_forms(home: Path, tmp_path: Path) -> None:
    base = ("transfer", "--from", "add_rows", "--to", "layernorm", "--kb", home / "kb")
    for suffix in ("dsl", "json", "ttl"):
        assert tilelore(*base, "--out", tmp_path / f"ln.{suffix}").exit_code == 0
    made = json.loads((tmp_path / "ln.json").read_text())
    assert made["operation"] == "layernorm"
    checked = tilelore("validate", tmp_path / "ln.dsl", tmp_path / "ln.ttl")
    assert checked.exit_code == 0, checked.output


def test_generate_hands_space_and_settings_on(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Document, str, Mapping[str, str], str]] = []

    def spy(space: Document, dialect: str, settings: Mapping[str, str], arch: str) -> str:
        seen.append((space, dialect, settings, arch))
        return "# made\n"

    monkeypatch.setattr(later, "generate", spy)
    out = tmp_path / "made.py"
    done = tilelore("generate", "add_rows", "--set", "occupancy=4", "--arch", "sm_100",
                    "--kb", home / "kb", "--out", out)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert out.read_text() == "# made\n"
    assert seen[0][0].space.name == "add_rows"
    assert seen[0][1:] == ("triton", {"occupancy": "4"}, "sm_100")


def test_a_setting_may_hold_an_equals_sign() -> None:
    assert parse_setting(" a = b=c ") == ("a", "b=c")


def test_kb_moves_whole_and_stays_sound(home: Path, tmp_path: Path) -> None:
    dump = tmp_path / "all.nq"
    assert tilelore("kb", "export", "--out", dump, "--kb", home / "kb").exit_code == 0
    loaded = document(tilelore("kb", "load", dump, "--kb", tmp_path / "kb", "--format", "json"))
    assert [row["result"] for row in loaded["graphs"]] == ["added", "added"]
    one = document(tilelore("kb", "stats", "--kb", home / "kb", "-f", "json"))
    two = document(tilelore("kb", "stats", "--kb", tmp_path / "kb", "-f", "json"))
    assert one["quads"] == two["quads"]
    assert {row["label"] for row in two["listing"]} == {"add_rows", "double"}
    assert tilelore("kb", "check", "--kb", tmp_path / "kb").exit_code == 0
    assert document(tilelore("kb", "rebuild", "--kb", tmp_path / "kb", "-f", "json"))["graphs"] >= 2


def test_the_server_offers_the_same_operations(home: Path) -> None:
    with LocalStore(home / "kb", read_only=True) as store:
        offered = services(store)
        assert offered.transfer is not None
        assert offered.transfer("add_rows", "layernorm")["operation"] == "layernorm"
        assert offered.explain is not None
        assert offered.explain("add_rows")["kernel"] == "add_rows"
        assert offered.generate is not None
        with pytest.raises(SyntaxProblem):
            offered.generate("design_space {", "triton", {})


def test_a_transferred_space_becomes_a_kernel_with_its_host_function(
    home: Path, tmp_path: Path
) -> None:
    space, made = tmp_path / "ln.dsl", tmp_path / "ln.py"
    given = ("--from", "add_rows", "--to", "layernorm", "--kb", home / "kb")
    assert tilelore("transfer", *given, "--out", space).exit_code == 0
    done = tilelore("generate", space, "--dialect", "triton", "--out", made)
    assert done.exit_code == 0, done.output
    assert "def layer_norm(" in made.read_text()
    found = document(tilelore("extract", made, "--format", "json"))
    assert [kernel["operation"] for kernel in found["sources"][0]["kernels"]] == ["layernorm"]


@dataclass(frozen=True)
class Told:
    """A report with a verdict."""

    passed: bool

    def to_json(self) -> dict[str, Any]:
        """As `api.verify` tells it."""
        row = {"kind": "numerics", "check": "1x1", "result": "holds", "detail": ""}
        return {"schema": "tilelore.verify/1", "passed": self.passed, "checks": [row]}


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_verify_says_no_with_one(
    home: Path, monkeypatch: pytest.MonkeyPatch, passed: bool, code: int
) -> None:
    monkeypatch.setattr(later, "verify", lambda subject, **options: Told(passed))
    done = tilelore("verify", home / "rows.py", "--format", "json")
    assert document(done, code)["passed"] is passed
    assert "numerics" in tilelore("verify", home / "rows.py").stdout
